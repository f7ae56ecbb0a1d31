//! The structure of the page and of the Markdown, and that no text of a report is markup in them.

use std::fs;

use pilotlight_lab::experiment::terminal::{self, Style};
use pilotlight_lab::show::{self, Files};

use crate::fixture;

fn page() -> String {
    show::html(&fixture::report()).unwrap()
}

/// How often each element begins and ends, void ones apart.
fn unbalanced(markup: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut wrong = Vec::new();
    let mut rest = markup;
    while let Some(begin) = rest.find('<') {
        rest = &rest[begin + 1..];
        let end = rest.find('>').expect("an element ends");
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        let name = tag.split([' ', '\n']).next().unwrap();
        rest = after;
        match name {
            "!DOCTYPE" | "meta" => {}
            "script" | "style" => {
                let end = rest.find(&format!("</{name}>")).expect("it ends");
                rest = &rest[end + name.len() + 3..];
            }
            _ if name.starts_with('/') => {
                if open.pop() != Some(&name[1..]) {
                    wrong.push(tag.to_owned());
                }
            }
            _ => open.push(name),
        }
    }
    wrong.extend(open.into_iter().map(str::to_owned));
    wrong
}

#[test]
fn every_element_of_the_page_and_of_pictures_ends() {
    assert_eq!(unbalanced(&page()), [""; 0]);
}

#[test]
fn no_text_of_a_report_is_markup() {
    let page = page();
    assert_eq!(page.matches("<script>").count(), 1, "the page's own script, and no other");
    assert_eq!(page.matches("</script>").count(), 1);
    assert_eq!(page.matches("</style>").count(), 3);
    assert!(!page.contains("<img") && !page.contains('\u{1b}'));
    assert!(page.contains("&lt;/script&gt;&lt;/style&gt;&lt;script&gt;alert(&quot;1&quot;)"));

    let markdown = show::markdown(&fixture::report()).unwrap();
    assert!(!markdown.contains('\u{1b}'));
    for line in markdown.lines().filter(|line| line.contains("alert")) {
        // What is typed stands between more backticks than are in it.
        let text: String = line.split("``").step_by(2).collect();
        assert!(!text.contains("<script") && !text.contains("<img") && !text.contains("**b**"), "{line}");
        assert!(text.contains("\\*\\*b\\*\\* \\[c\\](d) &amp;"), "{line}");
    }
    // A `|` would be a column more.
    for table in markdown.split("\n\n").filter(|block| block.starts_with('|')) {
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let mut counts: Vec<usize> = table.lines().map(columns).collect();
        counts.dedup();
        assert_eq!(counts.len(), 1, "{table}");
    }
}

#[test]
fn the_page_has_what_the_report_has() {
    let page = page();
    for text in [
        "What was found",
        "Of 9 comparisons 6 show a difference, 1 show none, 2 could not be compared.",
        "bench-1",
        "pilotlight lab all --out &#39;a folder&#39;",
        "0123456789abcdef0123456789abcdef01234567",
        "This was a quick run",
        "held in part: 2 of 3 figures met, 1 not measured",
        "A hit costs 0.41 (0.38–0.44) of nginx",
        "64 connections, closed loop · 10 rounds of 2 s",
        "154,799",
        "0.41×<span class=\"interval\">0.38–0.44</span>",
        "no difference seen",
        "not comparable",
        "too few rounds have both",
        "1.0 % before, not visible after",
        "+1.80 µs<span class=\"interval\">1.67–1.93</span>",
        "differ: nothing is said",
        "Varnish failed. ",
        "Error: could not get socket: address in use",
        "apt-get install h2o",
        "a 16-core machine of 2019",
        "nginx, published (another machine)",
        "worker_processes 1",
        "intended start",
        "redis-server is not installed",
        "nothing is asked · 3 rounds",
        "11.0<span class=\"interval\">10.9–11.2</span>",
        "nginx 1.22.1",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // A picture for each way of looking at a group, wide and narrow: cached 3, layers 1, cold 4, odd 3; a group of
    // nothing has times.
    assert_eq!(page.matches("<svg xmlns").count(), 2 * 12);
    let (shown, _) = page.split_once("<script>").unwrap();
    assert!(!shown.contains("NaN") && !shown.contains(">inf"), "no number is missing");
}

#[test]
fn nothing_is_judged_on_a_noisy_machine() {
    let mut report = fixture::report();
    report.noise.refused = Some("other programs ran".into());
    let page = show::html(&report).unwrap();
    assert!(page.contains("Nothing is compared: other programs ran"));
    assert!(page.contains("not judged: the machine was too noisy") && !page.contains("held in part"));
    assert!(!page.contains(">met<") && !page.contains("not met"));
    report.noise.overridden = true;
    let page = show::html(&report).unwrap();
    assert!(page.contains("it was asked for nevertheless: other programs ran") && page.contains("held in part"));
}

#[test]
fn the_page_asks_the_network_for_nothing() {
    let page = page();
    assert!(page.contains("default-src &#39;none&#39;; style-src &#39;sha256-"));
    for loading in [" src=\"", "@import", "url(", "<link", "fetch(", "http-equiv=\"refresh"] {
        assert!(!page.contains(loading), "{loading}");
    }
    assert!(!page.contains(" style=\""), "its policy forbids styles of elements");
}

#[test]
fn identifiers_are_unique_and_links_have_targets() {
    let page = page();
    let values = |before: &str| -> Vec<String> {
        page.split(before).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    let ids = values(" id=\"");
    let mut unique = ids.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    for target in values(" href=\"#").into_iter().chain(values(" aria-labelledby=\"")) {
        assert!(ids.contains(&target), "{target}");
    }
}

#[test]
fn a_stored_report_becomes_files_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let stored = dir.path().join("report.json");
    fs::write(&stored, serde_json::to_string(&fixture::report()).unwrap()).unwrap();
    let written = show::write(&stored, dir.path(), Files::All).unwrap();
    assert_eq!(written, ["report.html", "report.md"].map(|name| dir.path().join(name)));
    assert!(fs::read_to_string(&written[0]).unwrap() == show::html(&show::read(&stored).unwrap()).unwrap());
    let markdown = fs::read_to_string(&written[1]).unwrap();
    let pictures: Vec<_> = markdown.split("](plots/").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert_eq!(pictures.len(), 12);
    for picture in &pictures {
        let svg = fs::read_to_string(dir.path().join("plots").join(picture)).unwrap();
        assert_eq!(unbalanced(&svg), [""; 0], "{picture}");
        assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("<title>"), "{picture}");
    }
    assert_eq!(fs::read_dir(dir.path().join("plots")).unwrap().count(), pictures.len());

    let only = tempfile::tempdir().unwrap();
    show::write(&stored, only.path(), Files::Html).unwrap();
    assert_eq!(fs::read_dir(only.path()).unwrap().count(), 1);
}

#[test]
fn a_histogram_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut report = fixture::report();
    report.experiments[0].groups[0].variants[1].latency.as_mut().unwrap().hdr = "AAAA".into();
    let stored = dir.path().join("report.json");
    fs::write(&stored, serde_json::to_string(&report).unwrap()).unwrap();
    let error = format!("{:#}", show::write(&stored, dir.path(), Files::All).unwrap_err());
    assert!(error.contains("the histogram of cache/cached/pilotlight cannot be read"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written");
}

#[test]
fn on_a_noisy_machine_the_terminal_judges_no_figure_either() {
    let mut report = fixture::report();
    let said = |report: &_| terminal::render(report, Style::Plain);
    let judged = said(&report).matches("  not judged").count();
    let figures = report.experiments.iter().flat_map(|results| &results.figures);
    let known = figures.filter(|figure| figure.met.is_some()).count();
    report.noise.refused = Some("other programs used it".into());
    assert_eq!((said(&report).matches("  not judged").count(), known > 0), (judged + known, true), "{}", said(&report));
}
