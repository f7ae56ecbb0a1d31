//! Where stored responses are kept.

mod lending;
pub(crate) mod memory;

pub use memory::MAX_VARIANTS;
