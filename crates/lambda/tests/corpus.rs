//! Replays the corpus of the fuzz target `lambda`, and mutates it.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its corpus has failed")]

use proptest::prelude::*;

#[path = "../../../fuzz/checks/lambda.rs"]
mod lambda;
#[path = "../../../fuzz/replay.rs"]
#[expect(dead_code, reason = "the corpus is not mutated by its own means here")]
mod replay;

#[test]
fn replayed() {
    replay::replay("lambda", lambda::check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(replay::cases()))]

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..100)) {
        lambda::check(&data);
    }

    #[test]
    fn any_json(data in "[{}\\[\\]\":, a-z0-9%?&=/+\\\\]{0,60}") {
        lambda::check(data.as_bytes());
    }
}
