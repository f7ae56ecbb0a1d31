//! The tier with real servers.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;
mod coherence;
mod coherent;
mod lease;
mod lost;
mod node;
mod rates;
mod refusals;
mod runs;
mod sharing;
mod ways;
