//! Replays the corpora of the fuzz targets `http1` and `http1_hyper`: what a fuzzer has found once is tested for ever.

#![expect(clippy::expect_used, reason = "a test that cannot read its corpus has failed")]

use proptest::prelude::*;

#[path = "../../../fuzz/checks/http1.rs"]
mod http1;
#[path = "../../../fuzz/checks/http1_hyper.rs"]
mod http1_hyper;
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Both targets take the same inputs, so each gets what was found with the other.
const TARGETS: [&str; 2] = ["http1", "http1_hyper"];

#[test]
fn replayed() {
    TARGETS.iter().for_each(|target| replay::replay(target, check));
}

/// What stands between parts of messages, and what belongs nowhere.
const ODD: &[u8] = b"\r\n :;,\t\0a0\x80/?#%@[]|\"\\<>*=-+.9\x7f\xc3";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(replay::cases()))]

    /// Two inputs spliced, and a few bytes changed, as a fuzzer would do.
    #[test]
    fn mutated(
        (first, second) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        (cut, from) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(ODD)), 0..4),
        mode in any::<u8>(),
    ) {
        let corpus = TARGETS.map(replay::corpus).concat();
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
