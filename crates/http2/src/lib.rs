//! The server's side of HTTP/2 (RFC 9113), with HPACK (RFC 7541): bytes to requests, and answers to bytes.
//!
//! The crate owns frames, header compression, flow control, the states of streams and the bounds of all of them. It
//! knows no socket, no clock and no policy: the caller reads bytes and shows them, and writes what [`ServerConnection`]
//! has for it.
//!
//! ```text
//!      bytes that were read                                   bytes to write
//!              │                                                    ▲
//!              ▼                                                    │
//!   ServerConnection::receive ──▶ Request ──▶ respond: answered at once, no stream is kept
//!              │                        └───▶ open: a stream, with
//!              │                                  poll_data, poll_trailers, release     (its request's body)
//!              └─ DATA, WINDOW_UPDATE … wake ──▶  send_head, poll_room, send_data, …    (its response)
//! ```
//!
//! Its storeys, each of which needs only those below it:
//!
//! ```text
//! connection/     what may come and be sent next; streams, windows, the end of a connection
//! fields, hpack/  header blocks to fields and back
//! frame, class    frames; what names and values are
//! error, limits
//! ```
//!
//! Nothing is queued: a stream sends what its window, the connection's and the room before the socket have place for,
//! and is woken when there is more. A request that is answered when it is received leaves nothing behind: neither an
//! entry nor an allocation.
//!
//! Invariants:
//! - No memory is sized by a length that a client names; every collection has a named bound.
//! - In whichever pieces bytes arrive, the events are the same (property test `any_pieces`).
//! - After a [`Violation`] a connection gives out nothing more.

mod class;
mod connection;
mod error;
mod fields;
mod frame;
mod hpack;
mod limits;
mod stream;

pub use connection::send::End;
pub use connection::{Events, Received, Request, ServerConnection};
pub use error::{ErrorCode, Gone, Violation};
pub use fields::{Field, FieldTable, Fields};
pub use frame::{FRAME_HEADER, MAX_FRAME, PREFACE};
pub use hpack::encoder::{encode_field, encode_status};
pub use hpack::error::HpackError;
pub use limits::{Limits, MAX_CONTINUATIONS, MAX_RESET_STREAMS};
