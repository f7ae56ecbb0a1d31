//! Randomness: tokens of instances, jitter.

use std::io;

/// 32 hexadecimal digits.
pub(super) fn new_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// For the spread of pauses only, so a fixed value will do if there is no randomness.
pub(super) fn random() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}
