//! The decoder and the encoder from outside: vectors, limits, properties.

#![expect(clippy::panic, reason = "a test fails by panicking")]

mod encode;
mod limits;
mod malformed;
mod properties;
mod reference;
mod support;
mod vectors;
