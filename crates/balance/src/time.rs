//! Time, as it comes in.

/// Milliseconds of a clock that does not go back, from any point of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ms(pub u64);
