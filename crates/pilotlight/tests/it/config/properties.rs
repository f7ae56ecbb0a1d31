//! What holds for every text.

use std::fmt::Write as _;
use std::path::Path;

use pilotlight_cli::config::{Report, Severity, Style, parse};
use proptest::prelude::*;

/// A report can be written in every form, and points into its text.
fn check_report(text: &str, report: &Report) {
    for style in [Style::Plain, Style::Coloured] {
        let rendered = report.render(style);
        assert!(rendered.chars().all(|c| !c.is_control() || c == '\n' || (c == '\x1b' && style == Style::Coloured)));
    }
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["diagnostics"].as_array().unwrap().len(), report.diagnostics().len());
    for found in report.diagnostics() {
        assert!(!found.message.is_empty());
        assert!(found.span.as_ref().is_none_or(|span| span.start <= span.end && span.end <= text.len()), "{found:?}");
    }
}

fn check(text: &str) {
    match parse(text, Path::new("pilotlight.toml")) {
        Ok(loaded) => {
            assert!(loaded.warnings.diagnostics().iter().all(|found| found.severity == Severity::Warning));
            assert!(!loaded.config.listen.is_empty());
            for route in &loaded.config.routes {
                assert!(loaded.config.service_of(route).is_some());
            }
            check_report(text, &loaded.warnings);
        }
        Err(report) => {
            assert!(report.error_count() > 0);
            check_report(text, &report);
        }
    }
}

/// A piece of a file, right or wrong.
fn piece() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        Just("listen"),
        Just("dev"),
        Just("workers"),
        Just("command"),
        Just("url"),
        Just("path"),
        Just("host"),
        Just("service"),
        Just("cache"),
        Just("env"),
        Just("a.b"),
        Just("\"\""),
        Just("memory"),
        Just("idle_timeout"),
        Just("body_size"),
    ];
    let value = prop_oneof![
        Just("true"),
        Just("0"),
        Just("-1"),
        Just("1.5"),
        Just("inf"),
        Just("\"\""),
        Just("\"/\""),
        Just("\"5s\""),
        Just("\"a\""),
        Just("[\"a\"]"),
        Just("[[1]]"),
        Just("{}"),
        Just("{a=1"),
        Just("["),
        Just("'''"),
        Just("2024-01-01"),
        Just("bare"),
        Just(""),
    ];
    prop_oneof![
        (key, value).prop_map(|(key, value)| format!("{key} = {value}\n")),
        prop_oneof![
            Just("[services.a]\n"),
            Just("[[routes]]\n"),
            Just("[limits]\n"),
            Just("[cache]\n"),
            Just("[services]\n"),
            Just("[[services]]\n"),
            Just("[routes]\n"),
            Just("[a\n"),
            Just("[[b]\n"),
            Just("\n"),
            Just("#\n"),
            Just("]\n"),
            Just("}\n"),
            Just("\r\n"),
            Just("\0"),
        ]
        .prop_map(str::to_owned),
        "\\PC{0,8}",
    ]
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn no_mixture_of_pieces_is_too_odd(pieces in prop::collection::vec(piece(), 0..24)) {
        check(&pieces.concat());
    }

    #[test]
    fn no_cut_in_a_full_file_is_too_odd(from in 0_usize..2000, length in 0_usize..60, with in "[\\[\\]{}\"'=,#\n a0\\\\]{0,4}") {
        let full = include_str!("full.toml");
        let from = from.min(full.len());
        let to = (from + length).min(full.len());
        check(&format!("{}{with}{}", &full[..from], &full[to..]));
    }

    #[test]
    fn every_misspelt_key_is_reported_at_its_place(lines in prop::collection::vec("zz[a-z]{8,12}", 1..20)) {
        let mut text = String::from("\n");
        for (index, line) in lines.iter().enumerate() {
            writeln!(text, "{line}{index} = 1").unwrap();
        }
        let report = parse(&text, Path::new("p.toml")).unwrap_err();
        prop_assert_eq!(report.error_count(), lines.len());
        for (index, line) in lines.iter().enumerate() {
            let place = format!("p.toml:{}:1: error: unknown key `{line}{index}`", index + 2);
            prop_assert!(report.to_string().contains(&place));
        }
    }
}

#[test]
fn advice_repeats_no_control_characters() {
    check("[[routes]]\npath = '''\n\r\n");
    check("[[routes]]\npath = '''\r\na'''\n");
    check("[[routes]]\npath = \"a\\u001b[31m\"\nhost = \"\\u0007\"\nservice = \"\\u001b\"\n");
}

#[test]
fn deep_nesting_is_refused_not_overflowed() {
    for deep in ["[".repeat(100_000), "{a=".repeat(100_000), format!("a{}=1", ".a".repeat(10_000))] {
        check(&format!("x = {deep}"));
        check(&deep);
    }
}
