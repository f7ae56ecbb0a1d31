//! Replays the corpus of the fuzz target `lambda`, and mutates it.

use proptest::prelude::*;

use crate::checks::lambda;
use crate::corpus;

#[test]
fn replayed() {
    corpus::replay("lambda", lambda::check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(corpus::cases()))]

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..100)) {
        lambda::check(&data);
    }

    #[test]
    fn any_json(data in "[{}\\[\\]\":, a-z0-9%?&=/+\\\\]{0,60}") {
        lambda::check(data.as_bytes());
    }
}
