//! What the first bytes of a connection can be.

use std::net::SocketAddr;

/// The longest line of version 1, its end included: the "worst case" of §2.1.
pub const MAX_V1: usize = 107;
/// The longest header of version 2: the least that §2.2 lets a receiver be able to take.
pub const MAX_V2: usize = 536;

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
