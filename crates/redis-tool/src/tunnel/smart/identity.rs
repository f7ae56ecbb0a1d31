//! What a client has said of itself, and of the replies that it wants.

use bytes::Bytes;
use pilotlight_resp::Protocol;

/// What a client has said of itself.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) name: Bytes,
    pub(super) protocol: Protocol,
    pub(super) database: u16,
    pub(super) is_known: bool,
}

/// Which replies are not sent (`CLIENT REPLY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mute {
    No,
    /// Of the next command.
    Next,
    Off,
}
