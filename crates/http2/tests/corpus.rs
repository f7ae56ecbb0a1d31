//! Replays the corpus of the fuzz target `http2`: what a fuzzer has found once is tested for ever.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its corpus has failed")]

use std::path::Path;

use proptest::prelude::*;

#[path = "../../../fuzz/checks/http2.rs"]
mod http2;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/http2");
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus in {}", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn replayed() {
    corpus().iter().for_each(|input| http2::check(input));
}

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
        cut in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        step in any::<u8>(),
    ) {
        let corpus = corpus();
        let (first, second) = (first.get(&corpus), second.get(&corpus));
        let mut input = [&first[..cut.index(first.len())], &second[1..]].concat();
        input.insert(0, step);
        for (place, byte) in changes {
            let place = place.index(input.len());
            input[place] = byte;
        }
        http2::check(&input);
    }
}
