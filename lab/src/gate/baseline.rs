//! What was committed, and what has become of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::callgrind::Callgrind;
use crate::processes::first_line;
use crate::stats::median;

/// A path that takes so much more or less has changed.
const MAX_CHANGE: f64 = 0.03;

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Baseline {
    /// What counts depend on besides the sources.
    pub(super) toolchain: Toolchain,
    /// Instructions by path.
    pub(super) counts: BTreeMap<String, f64>,
}

/// Instructions by path.
pub(super) type Counts = Vec<(String, f64)>;

/// What counts depend on besides the sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Toolchain {
    /// The compiler.
    pub(super) rustc: String,
    /// The compiler of the allocator.
    pub(super) cc: String,
    /// What counts.
    pub(super) valgrind: String,
    /// Instructions that libraries choose when they run.
    pub(super) processor: String,
}

impl Toolchain {
    pub(super) fn here(callgrind: &Callgrind) -> anyhow::Result<Self> {
        let rustc = first_line(OsStr::new("rustc"), &["--version"]);
        let rustc = rustc.context("rustc --version cannot be run; install Rust from https://rustup.rs")?;
        let cc = first_line(OsStr::new("cc"), &["--version"]).context("cc --version cannot be run")?;
        let flags = fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo cannot be read")?;
        let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
        let vectors = if has("avx2") { ", avx2" } else { "" };
        let processor = format!("{}{vectors}", std::env::consts::ARCH);
        Ok(Self { rustc, cc, valgrind: callgrind.version.clone(), processor })
    }

    /// What differs: name, here, there.
    pub(super) fn differences<'a>(&'a self, other: &'a Self) -> Vec<(&'static str, &'a str, &'a str)> {
        let all = [
            ("rustc", &self.rustc, &other.rustc),
            ("cc", &self.cc, &other.cc),
            ("valgrind", &self.valgrind, &other.valgrind),
            ("processor", &self.processor, &other.processor),
        ];
        all.into_iter()
            .filter(|(_, one, other)| one != other)
            .map(|(name, one, other)| (name, one.as_str(), other.as_str()))
            .collect()
    }
}

impl Baseline {
    /// `None`: there is none yet.
    pub(super) fn read(file: &Path) -> anyhow::Result<Option<Self>> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let baseline = serde_json::from_str(&text);
        Ok(Some(baseline.with_context(|| format!("{} is no baseline; write it anew with --accept", file.display()))?))
    }

    /// `counts` instead of what was; of the same toolchain, paths that were not counted now stay.
    pub(super) fn accepted(before: Option<&Self>, toolchain: Toolchain, counts: &[(String, f64)]) -> Self {
        let mut all = before.map(|baseline| baseline.counts.clone()).unwrap_or_default();
        all.extend(counts.iter().map(|(name, count)| (name.clone(), count.round())));
        Self { toolchain, counts: all }
    }

    pub(super) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let text = format!("{}\n", serde_json::to_string_pretty(self)?);
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// What has become of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Same,
    More,
    Less,
    New,
}

impl Verdict {
    pub(super) fn is_fine(self) -> bool {
        self == Self::Same
    }
}

/// A path, before and now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    name: String,
    before: Option<f64>,
    now: f64,
    pub(super) verdict: Verdict,
}

impl Row {
    pub(super) fn has_changed(&self) -> bool {
        matches!(self.verdict, Verdict::More | Verdict::Less)
    }

    fn change(&self) -> Option<f64> {
        self.before.map(|before| self.now / before - 1.0)
    }
}

pub(super) fn compare(baseline: Option<&Baseline>, counts: &[(String, f64)]) -> Vec<Row> {
    let row = |(name, now): &(String, f64)| {
        let before = baseline.and_then(|baseline| baseline.counts.get(name).copied()).filter(|before| *before > 0.0);
        let mut row = Row { name: name.clone(), before, now: *now, verdict: Verdict::New };
        row.verdict = match before {
            None => Verdict::New,
            Some(before) if now - before > before * MAX_CHANGE => Verdict::More,
            Some(before) if before - now > before * MAX_CHANGE => Verdict::Less,
            Some(_) => Verdict::Same,
        };
        row
    };
    counts.iter().map(row).collect()
}

/// Of paths that were counted again, the median of all counts.
pub(super) fn take_medians(counts: &mut Counts, again: &[Counts]) {
    for (name, first) in counts {
        let more = again.iter().flatten().filter(|(of, _)| of == name).map(|(_, count)| *count);
        *first = median(&std::iter::once(*first).chain(more).collect::<Vec<_>>()).unwrap_or(*first);
    }
}

pub(super) fn table(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let before = row.before.map_or_else(|| "–".to_owned(), |before| format!("{before:.0}"));
        let change = row.change().map_or_else(|| "–".to_owned(), |change| format!("{:+.1} %", change * 100.0));
        let verdict = match row.verdict {
            Verdict::Same => "",
            Verdict::More => "more than 3 % more",
            Verdict::Less => "more than 3 % less",
            Verdict::New => "not in the baseline",
        };
        vec![row.name.clone(), before, format!("{:.0}", row.now), change, verdict.to_owned()]
    };
    let mut lines = vec![["path", "baseline", "now", "change", ""].map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(line));
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = "Instructions, by callgrind\n".to_owned();
    for line in &lines {
        for (index, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text.push_str(&match index {
                0 => format!("{cell:width$}"),
                4 => format!("  {cell}"),
                _ => format!("  {cell:>width$}"),
            });
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolchain(rustc: &str) -> Toolchain {
        Toolchain { rustc: rustc.into(), cc: "cc 12".into(), valgrind: "valgrind-3".into(), processor: "x86_64".into() }
    }

    fn counts(of: &[(&str, f64)]) -> Vec<(String, f64)> {
        of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[track_caller]
    fn check(before: f64, now: f64, verdict: Verdict) {
        let baseline = Baseline::accepted(None, toolchain("1"), &counts(&[("hit", before)]));
        let rows = compare(Some(&baseline), &counts(&[("hit", now)]));
        assert_eq!(rows[0].verdict, verdict, "{rows:?}");
    }

    #[test]
    fn three_percent_either_way_is_a_change() {
        check(1000.0, 1000.0, Verdict::Same);
        check(1000.0, 1030.0, Verdict::Same);
        check(1000.0, 1031.0, Verdict::More);
        check(1000.0, 970.0, Verdict::Same);
        check(1000.0, 969.0, Verdict::Less);
        assert_eq!(compare(None, &counts(&[("hit", 1.0)]))[0].verdict, Verdict::New);
    }

    #[test]
    fn a_path_that_is_counted_again_has_the_median() {
        let mut found = counts(&[("hit", 1000.0), ("pipe", 90.0)]);
        take_medians(&mut found, &[counts(&[("hit", 940.0)]), counts(&[("hit", 950.0)])]);
        assert_eq!(found, counts(&[("hit", 950.0), ("pipe", 90.0)]));
    }

    #[test]
    fn the_table_names_what_has_changed() {
        let baseline = Baseline::accepted(None, toolchain("1"), &counts(&[("hit", 2000.0), ("resp-get", 500.0)]));
        let now = counts(&[("resp-get", 530.0), ("hit", 2002.0), ("pipe", 9.0)]);
        let wanted = "Instructions, by callgrind\n\
                      path      baseline   now  change\n\
                      resp-get       500   530  +6.0 %  more than 3 % more\n\
                      hit           2000  2002  +0.1 %\n\
                      pipe             –     9       –  not in the baseline\n";
        assert_eq!(table(&compare(Some(&baseline), &now)), wanted);
    }

    #[test]
    fn a_baseline_is_written_and_read_and_keeps_what_was_not_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("baseline.json");
        assert_eq!(Baseline::read(&file).expect("nothing"), None);
        let first = Baseline::accepted(None, toolchain("1"), &counts(&[("hit", 2000.4), ("pipe", 9.0)]));
        first.write(&file).expect("written");
        let read = Baseline::read(&file).expect("read").expect("there");
        assert_eq!(read, first);
        let second = Baseline::accepted(Some(&read), toolchain("1"), &counts(&[("hit", 2100.0)]));
        assert_eq!(second.counts, BTreeMap::from([("hit".to_owned(), 2100.0), ("pipe".to_owned(), 9.0)]));
        fs::write(&file, "{}").expect("written");
        assert!(format!("{:#}", Baseline::read(&file).expect_err("no baseline")).contains("is no baseline"));
    }

    #[test]
    fn another_toolchain_is_named() {
        assert_eq!(toolchain("1").differences(&toolchain("1")), []);
        assert_eq!(toolchain("1").differences(&toolchain("2")), [("rustc", "1", "2")]);
    }
}
