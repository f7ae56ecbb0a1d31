//! Replays the corpus of the fuzz target `json_fields`, and makes more at random.

use proptest::prelude::*;

use crate::checks::json_fields;
use crate::corpus;

#[test]
fn replayed() {
    corpus::replay("json_fields", json_fields::check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(corpus::cases()))]

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..100)) {
        json_fields::check(&data);
    }

    /// Objects with the fields that are looked for.
    #[test]
    fn any_fields(
        mode: u8,
        fields in proptest::collection::vec(
            "\"(model|stream|m|mode|\\PC{0,3})\":(\"[a-z\\\\\"u0-9]{0,9}\"|[0-9\\[\\]{}:,\" a-z]{0,9})", 0..5),
    ) {
        let mut data = vec![mode];
        data.extend_from_slice(format!("{{{}}}", fields.join(",")).as_bytes());
        json_fields::check(&data);
    }
}
