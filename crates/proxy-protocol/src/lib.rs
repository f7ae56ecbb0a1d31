//! The PROXY protocol, versions 1 and 2, as a receiver reads it ("The PROXY protocol", W. Tarreau, 2020-03-05; `§n` here
//! cites it): what a load balancer sends ahead of everything else on a connection, to say whose it is.
//!
//! Pure: [`parse`] gets the bytes that have come so far and says what they are, or how many more may be read. It never
//! asks for a byte behind the header, so whatever comes next (TLS, HTTP) is still in the socket.
//!
//! ```text
//! version 1   PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n                            at most 107 bytes
//! version 2   0d 0a 0d 0a 00 0d 0a 51 55 49 54 0a │ 2 and command │ family │ length │ addresses │ TLVs
//!                                                                             at most 536 bytes
//! ```

mod v1;
mod v2;

use std::net::SocketAddr;

pub use v1::MAX_V1;
pub use v2::MAX_V2;

/// No header is shorter, so that many bytes can be read before it is known which version it is.
const MIN: usize = 15;

/// What a header says of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// It is this client's.
    Client(SocketAddr),
    /// Nothing that could be used: `LOCAL` and `UNKNOWN` (health checks of the proxy itself), or an address that is
    /// none of the internet's. The connection is whose it seems to be (§2.1, §2.2).
    Nobody,
}

/// How far a header has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Not whole: so many bytes may be read, at least one, and none of them is behind the header.
    Wants(usize),
    /// Whole.
    Done(Announced),
}

/// Why bytes are no header. Such a connection is to be closed (§2): nothing that follows can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAHeader {
    /// Something else comes: neither of the two signatures.
    #[error("it does not begin with a PROXY protocol header")]
    Missing,
    /// A line of version 1 that has no end within [`MAX_V1`] bytes.
    #[error("its header of version 1 is longer than {MAX_V1} bytes")]
    LongLine,
    /// A line of version 1 that is not as §2.1 wants it.
    #[error("its header of version 1 is malformed")]
    Line,
    /// A header of the binary form with another version than 2.
    #[error("its header has version {0}; 1 and 2 are understood")]
    Version(u8),
    /// Neither LOCAL nor PROXY.
    #[error("its header has the unknown command {0}")]
    Command(u8),
    /// A family and protocol that §2.2 does not have.
    #[error("its header has the unknown address family {0:#04x}")]
    Family(u8),
    /// Addresses and TLVs beyond [`MAX_V2`].
    #[error("its header of version 2 is {0} bytes long; {MAX_V2} are allowed")]
    Long(usize),
    /// Fewer bytes than the addresses of its family.
    #[error("its header of version 2 is too short for its addresses")]
    Short,
}

/// What `bytes`, all that has come of a connection, are.
///
/// # Errors
/// They are no header, or no good one, whatever follows.
pub fn parse(bytes: &[u8]) -> Result<Progress, NotAHeader> {
    let begins = |signature: &[u8]| {
        let common = signature.len().min(bytes.len());
        signature[..common] == bytes[..common]
    };
    match () {
        () if !begins(v1::SIGNATURE) && !begins(v2::SIGNATURE) => Err(NotAHeader::Missing),
        () if bytes.len() < MIN => Ok(Progress::Wants(MIN - bytes.len())),
        () if begins(v1::SIGNATURE) => v1::parse(bytes),
        () => v2::parse(bytes),
    }
}

/// Whether the first bytes of a connection look like a header, where none is expected.
#[must_use]
pub fn is_header(bytes: &[u8]) -> bool {
    bytes.starts_with(v1::SIGNATURE) || bytes.starts_with(v2::SIGNATURE)
}
