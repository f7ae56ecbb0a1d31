//! The PROXY protocol, versions 1 and 2, as a receiver reads it and as a sender writes it ("The PROXY protocol", W.
//! Tarreau, 2020-03-05; `§n` here cites it): what a load balancer sends ahead of everything else on a connection, to
//! say whose it is.
//!
//! Pure: [`parse`] gets the bytes that have come so far and says what they are, or how many more may be read. It never
//! asks for a byte behind the header, so whatever comes next (TLS, HTTP) is still in the socket.
//!
//! ```text
//! version 1   PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n                            at most 107 bytes
//! version 2   0d 0a 0d 0a 00 0d 0a 51 55 49 54 0a │ 2 and command │ family │ length │ addresses │ TLVs
//!                                                                             at most 536 bytes
//! ```

mod found;
mod header;
mod v1;
mod v2;
mod write;

pub use found::{Announced, MAX_V1, MAX_V2, NotAHeader, Progress};
pub use header::{is_header, parse};
pub use write::{Version, write};
