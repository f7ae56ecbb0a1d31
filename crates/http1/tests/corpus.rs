//! Replays the corpus of the fuzz target `http1` (fuzz/corpus/http1): what a fuzzer has found once is tested for ever.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot read its corpus has failed")]

use std::path::Path;

use proptest::prelude::*;

#[path = "../../../fuzz/checks/http1.rs"]
mod http1;

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/http1");
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus in {}", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn replayed() {
    corpus().iter().for_each(|input| http1::check(input));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Two inputs spliced, and a few bytes changed, as a fuzzer would do.
    #[test]
    fn mutated(
        (first, second) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        (cut, from) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&b"\r\n :;,\t\0a0\x80/"[..])), 0..4),
        mode in any::<u8>(),
    ) {
        let corpus = corpus();
        let (first, second) = (first.get(&corpus), second.get(&corpus));
        let mut input = [&first[..cut.index(first.len())], &second[from.index(second.len())..]].concat();
        for (at, byte) in changes {
            if !input.is_empty() {
                let at = at.index(input.len());
                input[at] = byte;
            }
        }
        input.insert(0, mode);
        http1::check(&input);
    }
}
