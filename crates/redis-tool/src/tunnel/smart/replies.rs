//! Replies of the tunnel's own.

use bytes::Bytes;
use pilotlight_redis::{Error, ErrorKind, Misuse};

/// What a client is told of an error: what the server said, or what went wrong on the way.
pub(crate) fn error_text(error: &Error) -> String {
    match (error.server(), error.kind()) {
        (Some(server), _) => server.text().to_owned(),
        (None, ErrorKind::Misuse(Misuse::CrossSlot { .. })) => CROSS_SLOT.to_owned(),
        (None, ErrorKind::Misuse(Misuse::ConnectionState { command, .. })) => {
            format!("ERR the tunnel: {command} is about one connection, and clients share them; use --mode pinned")
        }
        (None, ErrorKind::Cluster(_)) => format!("CLUSTERDOWN the tunnel: {error}"),
        (None, _) => format!("ERR the tunnel: {error}"),
    }
}

/// As servers say it.
pub(crate) const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// `+OK`.
pub(crate) const OK: Bytes = Bytes::from_static(b"+OK\r\n");
