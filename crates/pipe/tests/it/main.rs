//! The service SDK over real sockets, against a gateway's side written by hand.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod gateway;
mod own;
mod shared;
