//! The modes against real servers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod tunnel;
