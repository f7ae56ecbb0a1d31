//! Which figures of documents are older than the last change of what they measure.
//!
//! The report's commit stands beside the commits since that touched the paths of its experiment. What is not committed
//! does not count. Nothing here fails: a figure may be old for good reasons, but nobody should have to guess.

use std::collections::BTreeMap;

use crate::experiment::measures;
use crate::experiment::model::Report;
use crate::git::Git;
use crate::report::Table;

/// An experiment whose figures stand in a document, as its report says.
#[derive(Debug)]
pub(super) struct Quoted<'r> {
    pub(super) experiment: String,
    pub(super) report: &'r Report,
}

/// What is known of an age.
#[derive(Debug, PartialEq, Eq)]
enum Age {
    Current,
    /// So many commits since, the last of them.
    Stale(usize, String),
    Unknown(String),
}

/// Says it of each experiment, once; `None` of the history is no checkout.
pub(super) fn listing(git: Option<&Git>, quoted: Vec<Quoted<'_>>) -> String {
    let once: BTreeMap<String, &Report> = quoted.into_iter().map(|one| (one.experiment, one.report)).collect();
    let mut table = Table::new(["experiment", "measured at", "commits since", "the last of them"]);
    let (mut stale, mut unknown) = (0, Vec::new());
    for (experiment, report) in &once {
        match git
            .map_or_else(|| Age::Unknown("this is no checkout with git".to_owned()), |git| age(git, experiment, report))
        {
            Age::Current => {}
            Age::Stale(commits, last) => {
                stale += 1;
                let measured = format!("{} {}", report.day(), report.commit_short());
                table.row([experiment.clone(), measured, commits.to_string(), last]);
            }
            Age::Unknown(why) => unknown.push(format!("not known of {experiment}: {why}\n")),
        }
    }
    let mut text = String::new();
    if stale > 0 {
        text.push_str(&table.text());
    }
    text.push_str(&unknown.concat());
    let all = once.len();
    let unknown = if unknown.is_empty() { String::new() } else { format!(", {} are not known", unknown.len()) };
    text.push_str(&format!(
        "stale: {stale} of {all} experiments were measured before the last change of what they measure{unknown}\n"
    ));
    text
}

fn age(git: &Git, experiment: &str, report: &Report) -> Age {
    let Some(paths) = measures::paths(experiment) else {
        return Age::Unknown("it names no paths (lab/src/experiment/measures.rs)".to_owned());
    };
    let hash = report.commit_hash().filter(|hash| git.run(&["cat-file", "-e", &format!("{hash}^{{commit}}")]).is_ok());
    // A commit that is nowhere (it was rewritten) has at least a date; a shallow clone has not all that came since.
    let since = match hash {
        Some(hash) => format!("{hash}..HEAD"),
        None if git.is_shallow() => {
            let commit = report.commit_short();
            return Age::Unknown(format!("this is a shallow clone without {commit}; git fetch --unshallow"));
        }
        None => format!("--since={}", report.started_at),
    };
    let mut arguments = vec!["log", "--no-merges", "--format=%h %cs %s", &since, "--"];
    arguments.extend(paths);
    match git.run(&arguments) {
        Err(error) => Age::Unknown(format!("{error:#}")),
        Ok(log) => match log.lines().next() {
            None => Age::Current,
            Some(last) => Age::Stale(log.lines().count(), last.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::compare::simulated::Run;

    fn git(folder: &Path, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(folder).args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]);
        let out = git.args(arguments).output().expect("git is installed");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("text").trim().to_owned()
    }

    /// Commits a change of a file; gives its hash.
    fn changed(folder: &Path, file: &str) -> String {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, format!("{} ", fs::read_to_string(&path).unwrap_or_default())).expect("written");
        git(folder, &["add", "."]);
        git(folder, &["commit", "-q", "-m", &format!("change {file}")]);
        git(folder, &["rev-parse", "HEAD"])
    }

    #[track_caller]
    fn check(folder: &Path, report: &Report, experiment: &str, expected: &[&str]) {
        let quoted = || Quoted { experiment: experiment.to_owned(), report };
        let text = listing(Git::around(folder).as_ref(), vec![quoted(), quoted()]);
        for expected in expected {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn figures_are_stale_from_the_first_change_of_what_they_measure() {
        let dir = tempfile::tempdir().expect("a folder");
        let all = dir.path().join("all");
        fs::create_dir(&all).expect("made");
        git(&all, &["init", "-q"]);
        let mut report = Run { seed: 1, machine: 1.0, subject: 1.0 }.report();
        report.commit =
            Some(format!("{}-dirty (of the checkout around the binary)", changed(&all, "crates/redis/a.rs")));
        let current = "stale: 0 of 1 experiments were measured before";
        check(&all, &report, "redis", &[current]);
        for other in ["crates/gateway/a.rs", "crates/redis/README.md", "crates/redis/tests/a.rs"] {
            changed(&all, other);
        }
        check(&all, &report, "redis", &[current]);
        changed(&all, "crates/redis/a.rs");
        changed(&all, "crates/resp/b.rs");
        let measured = format!("2026-11-22 {}", report.commit_short());
        check(&all, &report, "redis", &[&measured, "2  ", "change crates/resp/b.rs\n", "stale: 1 of 1"]);
        check(
            &all,
            &report,
            "a new one",
            &["not known of a new one: it names no paths", "stale: 0 of 1", "1 are not known"],
        );

        let shallow = dir.path().join("shallow");
        let from = format!("file://{}", all.display());
        git(&all, &["clone", "-q", "--depth", "1", &from, shallow.to_str().expect("text")]);
        check(
            &shallow,
            &report,
            "redis",
            &["this is a shallow clone without", "git fetch --unshallow", "1 are not known"],
        );
        // Of a commit that no history has, only the date says something.
        report.commit = None;
        report.started_at = "2001-01-01T00:00:00Z".to_owned();
        check(&all, &report, "redis", &["2001-01-01 -", "stale: 1 of 1"]);
        report.started_at = "2098-01-01T00:00:00Z".to_owned();
        check(&all, &report, "redis", &[current]);
        check(Path::new("/"), &report, "redis", &["this is no checkout with git"]);
    }
}
