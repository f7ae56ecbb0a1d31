use std::fs;

use super::*;
use crate::compare::simulated::Run as Simulated;

fn report(seed: u64, day: &str, commit: &str) -> Report {
    let mut report = Simulated { seed, machine: 1.0, subject: 1.0 }.report();
    report.started_at = format!("{day}T10:00:00Z");
    report.commit = Some(commit.to_owned());
    report
}

/// Three commits on one kind of processor, one on another.
fn reports() -> Vec<Report> {
    let mut noisy = report(3, "2026-11-24", "cccccccccccc-dirty");
    noisy.noise.refused = Some("load".to_owned());
    let mut elsewhere = report(4, "2026-11-25", "dddddddddddd");
    elsewhere.machine.cpu = "Another".to_owned();
    vec![report(1, "2026-11-22", "aaaaaaaaaaaa"), report(2, "2026-11-23", "bbbbbbbbbbbb"), noisy, elsewhere]
}

#[test]
fn each_kind_of_processor_has_a_table_of_its_own() {
    let history = History::new(&reports(), &["cache/cached/cpu-us".to_owned()]);
    let texts: Vec<String> = history.series.iter().map(|series| series.text(2)).collect();
    assert_eq!(texts.len(), 2);
    let lines: Vec<&str> = texts[0].lines().collect();
    assert_eq!(lines[0], "cache, A processor, 2 cores (1 older ones are left out)");
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(words.join(" "), "figure 2026-11-23 bbbbbbbb 2026-11-24 cccccccc+ noisy last / first");
    let words: Vec<&str> = lines[4].split_whitespace().collect();
    let [name, before, "µs", after, "µs", change] = words[..] else { panic!("{}", lines[4]) };
    assert_eq!(name, "cache/cached/cpu-us/pilotlight");
    assert!(before.starts_with("4.") && after.starts_with("4.") && change.ends_with('×'), "{}", lines[4]);
    assert!(texts[1].starts_with("cache, Another, 2 cores\n") && texts[1].contains("dddddddd"), "{}", texts[1]);
    // Of peers nothing is kept, and of names that only begin alike nothing is meant.
    assert_eq!(texts[0].lines().filter(|line| line.starts_with("cache/")).count(), 1);
    assert!(History::new(&reports(), &["cache/cach".to_owned()]).series.is_empty());
}

#[test]
fn the_page_has_a_picture_of_each_figure() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = page::write(&History::new(&reports(), &[]), &folder.path().join("new")).expect("written");
    assert!(said.starts_with("written: ") && said.ends_with("history.html\n"), "{said}");
    let html = fs::read_to_string(folder.path().join("new/history.html")).expect("a page");
    assert_eq!(html.matches("<section").count(), 2, "one for each processor");
    assert!(html.contains("2026-11-24 cccccccc+ noisy") && !html.contains("\"NaN"), "{html}");
    let pictures = show::PLOTS;
    let pictures = fs::read_dir(folder.path().join("new").join(pictures)).expect("pictures").count();
    assert_eq!(pictures, 4, "two metrics on two processors");
}

#[test]
fn versions_that_were_replaced_are_read_and_none_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("checkout");
    let kept = root.join("lab/reports");
    fs::create_dir_all(&kept).expect("made");
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.arg("-C").arg(&root).args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]);
        assert!(git.args(arguments).output().expect("git is installed").status.success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    for report in reports().iter().take(2) {
        fs::write(kept.join("cache.json"), serde_json::to_string(report).expect("JSON")).expect("written");
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "a report"]);
    }
    fs::write(kept.join("other.json"), "{}").expect("written");
    let days = |given: &Path| -> Vec<String> {
        stored(&[given.to_owned()]).expect("read").iter().map(|report| report.day().to_owned()).collect()
    };
    assert_eq!(days(&kept), ["2026-11-22", "2026-11-23"]);
    assert_eq!(days(&kept.join("cache.json")), ["2026-11-22", "2026-11-23"]);
    let error = stored(&[kept.join("other.json")]).expect_err("no report").to_string();
    assert!(error.contains("other.json cannot be shown"), "{error}");
}
