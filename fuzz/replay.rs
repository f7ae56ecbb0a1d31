//! The corpus of a fuzz target, for the tests that replay it: the crates' tests/corpus.rs include this file.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its corpus has failed")]

/// The inputs of a target, in the order of their names.
pub(crate) fn corpus(target: &str) -> Vec<Vec<u8>> {
    inputs(target).into_iter().map(|(_, input)| input).collect()
}

/// Checks each input of a target; the test's output names the one that fails.
pub(crate) fn replay(target: &str, check: impl Fn(&[u8])) {
    for (path, input) in inputs(target) {
        println!("{}", path.display());
        check(&input);
    }
}

fn inputs(target: &str) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus in {}", folder.display());
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// How many mutations are tested; more where a fuzzer is missing: `PROPTEST_CASES=1000000`.
pub(crate) fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3_000)
}
