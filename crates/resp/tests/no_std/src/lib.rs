//! `pilotlight-resp` where there is no std: see Cargo.toml.
#![no_std]
#![cfg(not(test))]

extern crate alloc;

use alloc::vec::Vec;
use bytes::BytesMut;
use pilotlight_resp::{DecodeError, Decoder, Frame, Limits, encode};

/// Writes a command, and reads it as a server does.
///
/// # Errors
/// What was written cannot be read.
pub fn round_trip(words: &[&[u8]]) -> Result<Option<Frame>, DecodeError> {
    let mut out = Vec::new();
    encode::command(&mut out, words);
    Decoder::new(Limits::default()).decode(&mut BytesMut::from(&out[..]))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
