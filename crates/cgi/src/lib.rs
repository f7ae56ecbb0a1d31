//! FastCGI, SCGI and uwsgi as a gateway speaks them to programs: what a program is told of a request goes in as
//! variables and comes out as bytes; what it answers goes in as bytes and comes out as pieces of a response.
//!
//! ```text
//! fields of HTTP ──fields──▶ variables ──variables──▶ PARAMS records | netstring | packet
//!
//! records ──record──▶ standard output ──head──▶ a head of HTTP/1.1, and the body behind it
//!                  └▶ standard error, end of the request
//! ```
//!
//! No sockets, no files, no clock. FastCGI is that of the specification of 1996, version 1.0; SCGI that of 2006;
//! uwsgi the packets of uWSGI with `modifier1` 0; the head of a response that of RFC 3875 §6.
//!
//! Invariant: a length that the other side gives sizes nothing before it has been compared with a limit.
//!
//! Invariant: whatever the chunks in which a response comes, the pieces joined are the same.

#![forbid(unsafe_code)]

mod fields;
mod head;
mod protocol;
mod record;
mod variables;

pub use fields::Fields;
pub use head::{HeadError, HeadReader, MAX_HEAD};
pub use protocol::Protocol;
pub use record::{
    Decoder, Ended, Found, KeepConnection, Kind, MAX_CONTENT, NotARecord, Piece, ProtocolStatus, abort_request,
    begin_request, stdin,
};
pub use variables::{TooLarge, Variables};
