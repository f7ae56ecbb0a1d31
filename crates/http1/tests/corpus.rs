//! Replays the corpora of the fuzz targets `http1` and `http1_hyper`: what a fuzzer has found once is tested for ever.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot read its corpus has failed")]

use std::path::Path;

use proptest::prelude::*;

#[path = "../../../fuzz/checks/http1.rs"]
mod http1;
#[path = "../../../fuzz/checks/http1_hyper.rs"]
mod http1_hyper;

/// Both targets take the same inputs, so each gets what was found with the other.
fn corpus() -> Vec<Vec<u8>> {
    let folders = ["http1", "http1_hyper"];
    folders.iter().flat_map(|name| folder(name)).collect()
}

fn folder(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus in {}", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn replayed() {
    corpus().iter().for_each(|input| check(input));
}

/// What stands between parts of messages, and what belongs nowhere.
const ODD: &[u8] = b"\r\n :;,\t\0a0\x80/?#%@[]|\"\\<>*=-+.9\x7f\xc3";

/// More of them where a fuzzer is missing: `PROPTEST_CASES=1000000`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Two inputs spliced, and a few bytes changed, as a fuzzer would do.
    #[test]
    fn mutated(
        (first, second) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        (cut, from) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(ODD)), 0..4),
        mode in any::<u8>(),
    ) {
        let corpus = corpus();
        let (first, second) = (first.get(&corpus), second.get(&corpus));
        // Without their first bytes, which are modes.
        let (first, second) = (&first[1..], &second[1..]);
        let mut input = [&first[..cut.index(first.len())], &second[from.index(second.len())..]].concat();
        for (at, byte) in changes {
            if !input.is_empty() {
                let at = at.index(input.len());
                input[at] = byte;
            }
        }
        input.insert(0, mode);
        check(&input);
    }
}

fn check(input: &[u8]) {
    http1::check(input);
    http1_hyper::check(input);
}
