//! From replies to Rust values.
//!
//! A type reads both protocols' forms of the same reply: RESP2 has no doubles, booleans, maps and sets and sends
//! strings, integers and flat arrays instead.

mod collections;
#[doc(hidden)]
pub mod derive;
mod geo;
#[cfg(feature = "json")]
mod json;
mod read;
mod scalars;
mod scan;
#[cfg(feature = "serde")]
mod serde;
mod stream;

use std::collections::HashMap;

use bytes::Bytes;
pub use pilotlight_resp::Value;

pub use geo::{GeoFound, GeoPosition};
#[cfg(feature = "json")]
pub use json::Json;
pub use read::FromReply;
#[cfg(feature = "modules")]
pub(crate) use read::mismatch;
pub(crate) use read::{Spare, skipped};
pub use scan::ScanReply;
#[cfg(feature = "serde")]
pub use serde::Serde;
pub use stream::{AutoClaimed, PendingEntry, PendingSummary, StreamEntries, StreamEntry};

/// Named facts of different types, as `XINFO STREAM` or `ACL GETUSER` tell them.
pub type Facts = HashMap<Bytes, Value>;

/// Members popped with their scores, and the key that had them.
pub type ScoredPop = (Bytes, Vec<(Bytes, f64)>);

#[cfg(test)]
mod tests;
