//! The cache as the gateway uses it, with the service played by the test.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy.toml allows them in test functions; here they are in what test functions share"
)]

mod cancellation;
mod collapse;
mod invalidation;
mod live;
mod memory;
mod purge;
mod purge_model;
mod rfc9111;
mod ruled_users;
mod rules;
mod second;
mod serving;
mod support;
mod two_users;
mod validation;
mod written;
