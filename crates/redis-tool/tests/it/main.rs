//! The modes of `pilotlight redis` with real servers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bench;
mod cli;
mod cluster;
mod down;
mod fill;
mod interrupt;
mod refused;
mod rights;
mod servers;
mod tunnel;
