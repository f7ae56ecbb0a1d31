//! Instructions by callgrind: unlike times they are the same on a busy machine, and the same again tomorrow.
//!
//! What is counted is user space; under callgrind a look at the clock is a system call, of which only the call counts.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::experiment::model::Skipped;
use crate::processes::{find_program, first_line};

/// What would bring it.
pub const INSTALL: &str = "apt install valgrind";
/// Kinds of `memcpy` and the like differ between processors; these are what every one of them has.
const TUNABLES: &str = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-AVX512F,-ERMS,-FSRM";
/// The cost line at the end of what callgrind writes; older versions call it by the second name alone.
const TOTALS: [&str; 2] = ["totals: ", "summary: "];

/// Valgrind, as it is installed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callgrind {
    program: PathBuf,
    /// As it says itself.
    pub version: String,
}

impl Callgrind {
    /// Looks for it.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn find(what: &str) -> Result<Self, Skipped> {
        let skipped = |why: &str| Skipped { what: what.into(), why: why.into(), install: INSTALL.into() };
        let program = find_program("valgrind").ok_or_else(|| skipped("valgrind is not installed"))?;
        let version = first_line(program.as_os_str(), &["--version"]);
        let version = version.ok_or_else(|| skipped("valgrind is installed and does not start"))?;
        Ok(Self { program, version })
    }

    /// The words before a command whose process is counted, without those that it starts. What was counted is written
    /// to `out` at its end.
    #[must_use]
    pub fn before(&self, out: &Path) -> Vec<OsString> {
        let mut file = OsString::from("--callgrind-out-file=");
        file.push(out);
        let words = ["--tool=callgrind".into(), file, "--trace-children=no".into(), "--quiet".into()];
        ["env".into(), TUNABLES.into(), self.program.clone().into()].into_iter().chain(words).collect()
    }
}

/// What one of many takes: what `count` says of many less what it says of few, so that starts and ends are not in it.
///
/// # Errors
/// As `count`, or many took no more than few.
pub fn each(few: u32, many: u32, count: impl Fn(u32) -> anyhow::Result<u64>) -> anyhow::Result<f64> {
    let (less, more) = (count(few)?, count(many)?);
    ensure!(more > less, "{many} took no more instructions than {few}");
    Ok((more - less) as f64 / f64::from(many - few))
}

/// What was counted.
///
/// # Errors
/// Nothing was: the program was killed, or still runs.
pub fn total(out: &Path) -> anyhow::Result<u64> {
    let text = fs::read_to_string(out).with_context(|| format!("callgrind has not written {}", out.display()))?;
    let line = TOTALS.iter().find_map(|name| text.lines().rev().find_map(|line| line.strip_prefix(name)));
    let line = line.with_context(|| format!("{} has no totals: the program was killed", out.display()))?;
    line.trim().parse().with_context(|| format!("{}: totals that are no number: {line}", out.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_is_counted_alike_each_time() {
        let Ok(callgrind) = Callgrind::find("this test") else {
            assert!(std::env::var_os("CI").is_none(), "valgrind is not installed; {INSTALL}");
            eprintln!("not tested: valgrind is not installed; {INSTALL}");
            return;
        };
        let dir = tempfile::tempdir().expect("a folder");
        let counted = |name: &str| {
            let out = dir.path().join(name);
            let words = callgrind.before(&out);
            let status = Command::new(&words[0]).args(&words[1..]).args(["/bin/echo", "-n"]).status();
            assert!(status.expect("it starts").success());
            total(&out).expect("counted") as f64
        };
        let (one, other) = (counted("one"), counted("other"));
        assert!(one > 10_000.0 && (one / other - 1.0).abs() < 0.01, "{one} {other}");
    }

    #[test]
    fn what_was_not_written_is_said() {
        let dir = tempfile::tempdir().expect("a folder");
        let error = total(&dir.path().join("none")).expect_err("nothing").to_string();
        assert!(error.contains("has not written"), "{error}");
        let file = dir.path().join("half");
        fs::write(&file, "version: 1\nfn=main\n").expect("written");
        assert!(total(&file).expect_err("no totals").to_string().contains("has no totals"));
        fs::write(&file, "summary: 12\nfn=main\ntotals: 13\n").expect("written");
        assert_eq!(total(&file).expect("totals"), 13);
    }
}
