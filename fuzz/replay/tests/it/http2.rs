//! Replays the corpus of the fuzz target `http2`: what a fuzzer has found once is tested for ever.

use proptest::prelude::*;

use crate::checks::http2;
use crate::corpus;

#[test]
fn replayed() {
    corpus::replay("http2", http2::check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(corpus::cases()))]

    /// Two inputs spliced, and a few bytes changed, as a fuzzer would do.
    #[test]
    fn mutated(
        (first, second) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        cut in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        step in any::<u8>(),
    ) {
        let corpus = corpus::inputs("http2");
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
