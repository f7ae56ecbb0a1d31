//! The corpus of a fuzz target: its inputs, and how many mutations of them a test tries.

use std::fs;
use std::path::{Path, PathBuf};

/// Inputs of a target, ordered by file name.
pub(super) fn inputs(target: &str) -> Vec<Vec<u8>> {
    files(target).into_iter().map(|(_, input)| input).collect()
}

/// Checks each input of a target; the test's output names the input that fails.
pub(super) fn replay(target: &str, check: impl Fn(&[u8])) {
    for (path, input) in files(target) {
        println!("{}", path.display());
        check(&input);
    }
}

fn files(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus in {}", folder.display());
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Number of mutations that a test tries: 3,000, or `PROPTEST_CASES`. `make test` sets fewer; a million replaces a
/// fuzzer where none is installed.
pub(super) fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3_000)
}
