//! Replays the corpus of the fuzz target `stdio_lines`, and makes more at random.

use proptest::prelude::*;

use crate::checks::stdio_lines;
use crate::corpus;

#[test]
fn replayed() {
    corpus::replay("stdio_lines", stdio_lines::check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(corpus::cases()))]

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..100)) {
        stdio_lines::check(&data);
    }

    #[test]
    fn any_lines(max in 0_u8..12, mode: u8, output in "[a-c\\r\\n]{0,60}") {
        stdio_lines::check(&[&[max, mode], output.as_bytes()].concat());
    }
}
