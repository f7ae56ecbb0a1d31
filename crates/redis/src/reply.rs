//! From replies to Rust values.
//!
//! A type reads both protocols' forms of the same reply: RESP2 has no doubles, booleans, maps and sets and sends
//! strings, integers and flat arrays instead.

mod collections;
mod geo;
mod read;
mod scalars;
mod scan;
mod stream;

use std::collections::HashMap;

use bytes::Bytes;
pub use pilotlight_resp::Value;

pub use geo::{GeoFound, GeoPosition};
pub use read::FromReply;
pub(crate) use read::mismatch;
pub use scan::ScanReply;
pub use stream::{AutoClaimed, PendingEntry, PendingSummary, StreamEntries, StreamEntry};

/// Named facts of different types, as `XINFO STREAM` or `ACL GETUSER` tell them.
pub type Facts = HashMap<Bytes, Value>;

/// Members popped with their scores, and the key that had them.
pub type ScoredPop = (Bytes, Vec<(Bytes, f64)>);

#[cfg(test)]
mod tests;
