//! Replays the corpora of the fuzz targets `http1` and `http1_hyper`: what a fuzzer has found once is tested for ever.

use proptest::prelude::*;

use crate::checks::{http1, http1_hyper};
use crate::corpus;

/// Both targets take the same inputs, so each gets what was found with the other.
const TARGETS: [&str; 2] = ["http1", "http1_hyper"];

#[test]
fn replayed() {
    TARGETS.iter().for_each(|target| corpus::replay(target, check));
}

/// What stands between parts of messages, and what belongs nowhere.
const ODD: &[u8] = b"\r\n :;,\t\0a0\x80/?#%@[]|\"\\<>*=-+.9\x7f\xc3";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(corpus::cases()))]

    /// Two inputs spliced, and a few bytes changed, as a fuzzer would do.
    #[test]
    fn mutated(
        (first, second) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        (cut, from) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(ODD)), 0..4),
        mode in any::<u8>(),
    ) {
        let corpus = TARGETS.map(corpus::inputs).concat();
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
