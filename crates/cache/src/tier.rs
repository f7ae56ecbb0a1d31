//! Where stored responses are kept.

pub(crate) mod memory;

pub use memory::MAX_VARIANTS;
