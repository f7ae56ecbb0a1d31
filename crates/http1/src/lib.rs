//! HTTP/1.1 messages (RFC 9112): bytes to events and events to bytes, for both sides of a connection.
//!
//! The crate owns the grammar, the framing and the states of a connection. It knows no socket, no clock and no policy:
//! the caller reads bytes, shows them, and writes what it is given.
//!
//! ```text
//!              bytes that were read                      bytes to write
//!                      │                                       ▲
//!                      ▼                                       │
//!   ServerConnection::receive ──▶ Received      ServerConnection::send_head, send_data, send_end
//!                                 Request, Data, Trailers, End
//!
//!   ClientConnection: the same, the other way round: it sends requests and receives responses
//! ```
//!
//! Its storeys, each of which needs only those below it:
//!
//! ```text
//! connection/                           what may be read or sent next
//! parse/, body, write                   bytes to heads and to pieces of a body, and back
//! head, chunked                         a head as it was read; the chunked coding
//! framing                               where a body ends
//! fields, field_lines, target, version  the parts of a head
//! ```
//!
//! A head is a *view*: [`RequestHead`] and [`ResponseHead`] borrow the bytes that were read and a [`FieldTable`] that
//! is used again for the next message, so nothing is allocated for it.
//!
//! **Strict where two readers could disagree** about where a message ends or what it says (RFC 9112 §11.2).
//! [`Malformed`] lists every rule, with the section that it comes from and the status of the response. Lenient where no
//! reader can be misled: one empty line before a request (§2.2), a fragment behind the target of GET and HEAD
//! (which is dropped), UTF-8 in targets, bytes above 0x7F in values, HTTP/1.2 and later minor versions (as 1.1).
//!
//! Invariants:
//! - No memory is sized by a length that a peer names.
//! - Whatever the pieces in which bytes arrive, the events are the same (property test `any_chunking`).
//! - After an error a connection gives out no further event.

mod body;
mod bytes_class;
mod chunked;
mod connection;
mod error;
mod field_lines;
mod fields;
mod framing;
mod head;
mod limits;
mod names;
mod parse;
mod small_chunks;
mod target;
mod version;
mod write;

pub use body::{BodyDecoder, BodyPiece};
pub use connection::client::{ClientConnection, OutgoingRequest};
pub use connection::server::ServerConnection;
pub use connection::{Received, SendError};
pub use error::{Malformed, Refusal};
pub use field_lines::FieldLines;
pub use fields::{EndToEnd, Field, FieldTable, Fields, Known, members};
pub use framing::{BodyLength, Persistence};
pub use head::{RequestHead, ResponseHead};
pub use limits::Limits;
pub use parse::request::parse_request;
pub use parse::response::parse_response;
pub use parse::trailers::parse_trailers;
pub use target::{Authority, Target, is_authority};
pub use version::Version;
pub use write::{BodyEncoder, MessageWriter};
