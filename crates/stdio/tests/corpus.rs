//! Replays the corpus of the fuzz target `stdio_lines`, and makes more at random.

use proptest::prelude::*;

#[path = "../../../fuzz/replay.rs"]
#[expect(dead_code, reason = "the corpus is not mutated by its own means here")]
mod replay;
#[path = "../../../fuzz/checks/stdio_lines.rs"]
mod stdio_lines;

#[test]
fn replayed() {
    replay::replay("stdio_lines", stdio_lines::check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(replay::cases()))]

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..100)) {
        stdio_lines::check(&data);
    }

    #[test]
    fn any_lines(max in 0_u8..12, mode: u8, output in "[a-c\\r\\n]{0,60}") {
        stdio_lines::check(&[&[max, mode], output.as_bytes()].concat());
    }
}
