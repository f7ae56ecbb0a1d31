//! Replays the corpus of the fuzz target `jwt`: what a fuzzer has found once is tested for ever.

use proptest::prelude::*;

use crate::checks::jwt;
use crate::corpus;

#[test]
fn replayed() {
    corpus::replay("jwt", jwt::check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(corpus::cases()))]

    /// Two inputs of the same kind spliced, and a few bytes changed, as a fuzzer would do.
    #[test]
    fn mutated(
        (first, second) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        (cut, from) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let corpus = corpus::inputs("jwt");
        let first = first.get(&corpus);
        let same: Vec<_> = corpus.iter().filter(|input| input[0] == first[0]).collect();
        let second = second.get(&same);
        let mut input = [&first[..cut.index(first.len()) + 1], &second[from.index(second.len())..]].concat();
        for (place, byte) in changes {
            let place = place.index(input.len() - 1) + 1;
            input[place] = byte;
        }
        jwt::check(&input);
    }
}
