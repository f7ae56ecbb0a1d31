//! Decisions without I/O: no socket, clock or random source is named here.

pub(crate) mod aggregate;
pub(crate) mod asked;
pub(crate) mod backoff;
pub(crate) mod handshake;
pub(crate) mod monitored;
pub(crate) mod redirect;
pub(crate) mod refresh;
pub(crate) mod retry;
pub(crate) mod scan;
pub(crate) mod sentinel;
pub(crate) mod slot;
pub(crate) mod slot_set;
pub(crate) mod split;
pub(crate) mod subscriptions;
pub(crate) mod topology;
