//! The machine as a driver sees it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy.toml allows them in test functions; here they are in what test functions share"
)]

mod properties;
mod rules;
mod simulation;
mod support;
