//! A value in cache lines of its own, so that writing it slows nobody who reads its neighbours.

/// Keeps a value in cache lines of its own (two: processors fetch pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);
