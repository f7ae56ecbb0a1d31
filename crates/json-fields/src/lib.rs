//! Fields at the top of a JSON object, read as its bytes arrive, and patterns of their values.
//!
//! A gateway that chooses a route by `{"model": "…"}` reads no more of a body than up to that field. So this is no
//! parser: what it has to pass by (nested values, strings of other fields, numbers) is looked at just closely enough to
//! find its end. What it gives out is decoded in full.
//!
//! Refuses to know: sockets, HTTP, and everything below the top of the document. Nothing here allocates more than what
//! was asked for: names up to the longest that is wanted, values up to [`MAX_VALUE`] bytes.
//!
//! Of a field that is there several times the first counts: the scanner is through when it has the fields it was asked
//! for, wherever the document ends.
#![forbid(unsafe_code)]

mod pattern;
mod scanner;
mod text;

pub use pattern::Pattern;
pub use scanner::{Found, Invalid, MAX_DEPTH, Progress, Scanner};
pub use text::MAX_VALUE;
