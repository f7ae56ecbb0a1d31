//! RESP2 and RESP3, the protocol that Redis and Valkey speak: bytes to values and back. No I/O, no clock, no runtime,
//! and no `std`: an allocator is all it needs.
//!
//! - [`Decoder`] takes frames off a read buffer. It resumes at any byte, copies no bulk data, and checks every
//!   announced number against its [`Limits`] before anything is sized by it.
//! - [`Scanner`] finds where frames end, for what passes them on unread.
//! - [`encode`] writes commands, and whole values for the server's side.
//!
//! Both sides of a connection decode with the same [`Decoder`]: a command is an array of bulks. Inline commands, which
//! people type into a terminal, are not read.
//!
//! ```
//! use bytes::BytesMut;
//! use pilotlight_resp::{Decoder, Frame, Limits, Value, encode};
//!
//! let mut out = Vec::new();
//! encode::command(&mut out, &[b"GET", b"key"]);
//! assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
//!
//! let mut decoder = Decoder::new(Limits::default());
//! let mut input = BytesMut::from("$5\r\nva");
//! assert_eq!(decoder.decode(&mut input)?, None);
//! input.extend_from_slice(b"lue\r\n");
//! assert_eq!(decoder.decode(&mut input)?, Some(Frame::Reply(Value::Bulk("value".into()))));
//! # Ok::<(), pilotlight_resp::DecodeError>(())
//! ```

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod decode;
pub mod encode;
mod error;
mod limits;
mod scan;
mod spares;
mod value;

pub use decode::Decoder;
pub use error::{DecodeError, DecodeErrorKind};
pub use limits::{Attributes, Limits};
pub use scan::{Scanner, Step};
pub use spares::Spares;
pub use value::{Attributed, Frame, Protocol, Value};
