//! Gateways that share a Redis, each played by a cache and its coherence, with real servers.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy.toml allows them in test functions; here they are in what test functions share"
)]

mod coherence;
