//! `pilotlight lab figures`: places in documents have what the report says, and `--check` tells where they do not.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use pilotlight_lab::command::Completeness;
use pilotlight_lab::experiment::model::Report;
use pilotlight_lab::figures::{self, FiguresArguments};

use crate::fixture;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    arguments: FiguresArguments,
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(report: &Report) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("report.json"), serde_json::to_string(report).unwrap()).unwrap();
        Self(dir)
    }

    fn document(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    fn run(&self, options: &[&str], files: &[&Path]) -> anyhow::Result<Completeness> {
        let report = self.0.path().join("report.json");
        let given = ["figures", "--report", report.to_str().unwrap()].into_iter().chain(options.iter().copied());
        let files = files.iter().map(|file| file.to_str().unwrap());
        figures::run(&Command::parse_from(given.chain(files)).arguments)
    }
}

#[track_caller]
fn check(selector: &str, expected: &str) {
    let folder = Folder::new(&fixture::report());
    let file = folder.document("a.md", &format!("before <!-- figures: {selector} -->old<!-- /figures --> after\n"));
    assert_eq!(folder.run(&[], &[&file]).unwrap(), Completeness::Complete);
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, format!("before <!-- figures: {selector} -->{expected}<!-- /figures --> after\n"));
    assert_eq!(folder.run(&["--check"], &[&file]).unwrap(), Completeness::Complete);
}

#[track_caller]
fn check_mistake(text: &str, expected: &str) {
    let folder = Folder::new(&fixture::report());
    let good = folder.document("good.md", "<!-- figures: cache/cached/cpu-us/nginx -->old<!-- /figures -->");
    let bad = folder.document("bad.md", text);
    let error = format!("{:#}", folder.run(&[], &[&good, &bad]).unwrap_err());
    assert!(error.contains(expected), "{error}");
    assert!(fs::read_to_string(good).unwrap().contains("old"), "nothing is written");
}

#[test]
fn numbers_stand_within_sentences() {
    check("cache/cached/cpu-us/pilotlight", "6.46 (6.14–6.98) µs");
    check("cache/cached/per-second/nginx", "64,103 (60,897–69,231)/s");
    check("cache/cached/rss-bytes/nginx", "26.6 (25.3–28.7) MB");
    check("cache/cached/cpu-us/pilotlight:nginx", "0.41× (0.38–0.44), less");
    check("cache/cached/cpu-us/pilotlight:hyper", "0.99× (0.92–1.06), no difference seen");
    check("layers/request/cpu-us/hyper:loop", "+1.80 (1.67–1.93) µs, more");
    check("idle/memory/rss/alone", "11.0 (10.9–11.2) MB");
    check("idle/memory/processes/alone", "2");
}

#[test]
fn tables_stand_between_lines() {
    let folder = Folder::new(&fixture::report());
    let place = |name: &str| format!("<!-- figures: {name} -->\nSTALE\n<!-- /figures -->\n");
    let names = [
        "cache/run",
        "cache/findings",
        "cache/figures",
        "cache/cached",
        "cache/cached/answers",
        "layers/request/cpu-us",
        "idle/run",
        "idle/figures",
        "idle/memory",
        "idle/memory/processes",
    ];
    let file = folder.document("a.md", &names.map(place).concat());
    assert_eq!(folder.run(&["--check"], &[&file]).unwrap(), Completeness::Failures);
    assert!(fs::read_to_string(&file).unwrap().contains("STALE"), "a check changes nothing");
    folder.run(&[], &[&file]).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains("STALE"), "{text}");
    for line in [
        "`pilotlight lab all --out 'a folder'`, 2026-11-22, Pilotlight 0.1.0 at 0123456789abcdef",
        "This was a quick run",
        "- Beside hyper alone no difference was seen.",
        "| CPU of a hit / nginx             |  ≤ 0.6 | 0.41 (0.39–0.43) |          met |",
        "| Varnish           |             failed |",
        "| CPU of a request, Pilotlight / Varnish    | not measured | not comparable: too few rounds have both |",
        "| variant   | CPU per request, µs |",
        "| **+ cache** |    6.50 (6.17–7.02) |",
        "after. With nginx 1.22.1.",
        "| idle memory | ≤ 15 MB | 11.0 (10.4–11.6) | met |",
        "| variant | RSS, MB | processes |",
        "| alone | 11.0 (10.9–11.2) | 2 |",
        "failed | failed |",
        "| variant | processes |",
    ] {
        assert!(
            text.split_whitespace().collect::<String>().contains(&line.split_whitespace().collect::<String>()),
            "{line}\n{text}"
        );
    }
    assert_eq!(folder.run(&["--check"], &[&file]).unwrap(), Completeness::Complete);
    // What is the same is not written again.
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    folder.run(&[], &[&file]).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before);
}

#[test]
fn what_the_report_does_not_have_is_named_with_what_it_has() {
    let place = |name: &str| format!("\n<!-- figures: {name} --><!-- /figures -->");
    check_mistake(
        &place("users/cached"),
        "bad.md:2: users/cached: there is no experiment \"users\" in a report, but cache, layers, transport, cache, redis, idle",
    );
    check_mistake(&place("cache/miss"), "there is no group miss, but cached");
    check_mistake(&place("cache"), "what of cache: run, findings, figures, or a group (cached)");
    check_mistake(&place("cache/cached/cold-ms"), "cached has no metric cold-ms, but cpu-us, per-second");
    check_mistake(&place("cache/cached/cpu-us/caddy"), "cached has no variant caddy, but limit, pilotlight");
    check_mistake(&place("cache/cached/cpu-us/varnish"), "varnish failed: it exited with status 2");
    check_mistake(
        &place("cache/cached/cpu-us/nginx:pilotlight"),
        "cpu-us/nginx:pilotlight was not asked, but cpu-us/pilotlight:nginx",
    );
    check_mistake(&place("layers/figures"), "it has no figures");
    check_mistake(&place("idle"), "what of idle: run, findings, figures, or a group (memory)");
    check_mistake(&place("idle/memory/pss"), "memory has no column pss, but rss, processes");
    check_mistake(&place("idle/memory/rss/other"), "memory has no row other, but alone, broken");
    check_mistake(&place("idle/memory/rss/broken"), "broken failed: ");
    check_mistake(&place("idle/memory/rss/alone/low"), "nothing of a table is named by rss/alone/low");
    check_mistake(&place("cache/cached"), "more than a line");
    check_mistake("<!-- figures: cache/run -->", "has no `<!-- /figures -->`");
    check_mistake("nothing", "has no place for figures");
}

#[test]
fn a_stored_number_that_was_typed_is_no_median() {
    let mut typed = fixture::report();
    let table = &mut typed.experiments.last_mut().unwrap().tables[0];
    table.rows[0].summary.get_mut("rss").unwrap().median = 9.0;
    check_refused(&typed, "idle/memory/rss/alone is not the median of its rounds");
    let mut typed = fixture::report();
    typed.experiments.last_mut().unwrap().figures[0].measured.as_mut().unwrap().median = 9.0;
    check_refused(&typed, "idle: idle memory is not the median of its rounds");
}

#[track_caller]
fn check_refused(report: &Report, expected: &str) {
    let folder = Folder::new(report);
    let file = folder.document("a.md", "<!-- figures: cache/run -->\n<!-- /figures -->\n");
    let error = format!("{:#}", folder.run(&[], &[&file]).unwrap_err());
    assert!(error.contains(expected), "{error}");
}

#[test]
fn reports_of_the_version_before_are_read() {
    let old = Report { schema: "pilotlight-lab/1".into(), ..fixture::report() };
    let folder = Folder::new(&old);
    let file = folder.document("a.md", "<!-- figures: cache/cached/cpu-us/nginx --><!-- /figures -->");
    assert_eq!(folder.run(&[], &[&file]).unwrap(), Completeness::Complete);
}

#[test]
fn a_debug_build_has_no_figures() {
    let folder = Folder::new(&Report { debug_build: true, ..fixture::report() });
    let file = folder.document("a.md", "<!-- figures: cache/run -->\n<!-- /figures -->\n");
    let error = folder.run(&[], &[&file]).unwrap_err().to_string();
    assert!(error.contains("debug build") && error.contains("release build"), "{error}");
}
