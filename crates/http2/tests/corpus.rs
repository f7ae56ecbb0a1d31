//! Replays the corpus of the fuzz target `http2`: what a fuzzer has found once is tested for ever.

use proptest::prelude::*;

#[path = "../../../fuzz/checks/http2.rs"]
mod http2;
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn replayed() {
    replay::replay("http2", http2::check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(replay::cases()))]

    /// Two inputs spliced, and a few bytes changed, as a fuzzer would do.
    #[test]
    fn mutated(
        (first, second) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        cut in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        step in any::<u8>(),
    ) {
        let corpus = replay::corpus("http2");
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
