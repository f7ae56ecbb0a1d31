//! Content codings (RFC 9110 §8.4): which one a client takes, which types gain by one, and encoders.
//!
//! Knows nothing of requests, responses or files, and does no I/O.

#![forbid(unsafe_code)]

mod accepted;
mod coding;
mod encoder;
mod options;

pub use accepted::Accepted;
pub use coding::Coding;
pub use encoder::{EncodeError, Encoder};
pub use options::{CompressOptions, MediaRange, NotAMediaRange, gains};
