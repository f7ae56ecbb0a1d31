//! Pipe/1: frames, sessions and the Rust service SDK. The protocol is `docs/spec/pipe.md`; `P-n` in this crate cites
//! it.
//!
//! - [`frame`], [`hello`], [`head`], [`reset`], [`control`]: bytes to values and back; no I/O.
//! - [`session`]: what may be sent when, for each kind of connection and for both sides; no I/O, no clock.
//! - the service SDK (feature `service`, on by default): `serve` runs a handler as a service of a gateway.

pub mod control;
pub mod frame;
pub mod head;
pub mod hello;
pub mod reset;
#[cfg(feature = "service")]
mod service;
pub mod session;

#[cfg(feature = "service")]
pub use service::{
    Body, BodyClosed, BodyError, BodySender, Exchange, Failure, Incoming, IntoOutcome, MAX_LOG_LINES, ServeError,
    Service, Upgraded, serve,
};
