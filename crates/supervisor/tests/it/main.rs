//! The supervisor with real processes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests; the lints' own exception leaves out the functions beside them"
)]

mod deploy;
mod freeze;
mod guardian;
mod harness;
mod http;
mod load;
mod pipe;
mod reload;
mod renew;
mod scale;
mod start;
mod stop;
mod zygote;
