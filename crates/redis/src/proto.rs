//! Decisions without I/O: no socket, clock or random source is named here.

pub mod aggregate;
pub mod asked;
pub mod backoff;
pub mod handshake;
pub(crate) mod monitored;
pub mod redirect;
pub mod refresh;
pub mod retry;
pub mod scan;
pub(crate) mod sentinel;
pub mod slot;
pub mod split;
pub(crate) mod subscriptions;
pub mod topology;
