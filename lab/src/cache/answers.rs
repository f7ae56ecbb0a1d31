//! What is asked for, and what the answers are.

/// The path of the answer of 200 bytes, which `lab/peers/http`'s programs know as well.
pub(crate) const SMALL_PATH: &str = "/users/42";
/// The path of the answer of 16 KiB.
pub(crate) const LARGE_PATH: &str = "/large";
const LARGE_BYTES: usize = 16 * 1024;
const SMALL_BYTES: usize = 200;
const START: &str =
    r#"{"id":42,"name":"Mallory Rodriguez","email":"user42@example.com","createdAt":"2025-01-15T18:42:00","bio":""#;
const END: &str = "\"}";

/// The answer of 200 bytes.
pub(crate) fn small() -> String {
    padded(SMALL_BYTES)
}

/// The answer of 16 KiB.
pub(crate) fn large() -> String {
    padded(LARGE_BYTES)
}

fn padded(bytes: usize) -> String {
    format!("{START}{}{END}", "x".repeat(bytes - START.len() - END.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_as_long_as_they_are_called() {
        assert_eq!((small().len(), large().len()), (200, 16_384));
        assert!(serde_json::from_str::<serde_json::Value>(&small()).is_ok());
    }
}
