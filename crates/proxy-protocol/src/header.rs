//! Which version a header is.

use crate::found::{NotAHeader, Progress};
use crate::{v1, v2};

/// No header is shorter, so that many bytes can be read before it is known which version it is.
const MIN: usize = 15;

/// What `bytes`, all that has come of a connection, are.
///
/// # Errors
/// They are no header, or no good one, whatever follows.
pub fn parse(bytes: &[u8]) -> Result<Progress, NotAHeader> {
    let begins = |signature: &[u8]| {
        let common = signature.len().min(bytes.len());
        signature[..common] == bytes[..common]
    };
    match () {
        () if !begins(v1::SIGNATURE) && !begins(v2::SIGNATURE) => Err(NotAHeader::Missing),
        () if bytes.len() < MIN => Ok(Progress::Wants(MIN - bytes.len())),
        () if begins(v1::SIGNATURE) => v1::parse(bytes),
        () => v2::parse(bytes),
    }
}

/// Whether the first bytes of a connection look like a header, where none is expected.
#[must_use]
pub fn is_header(bytes: &[u8]) -> bool {
    bytes.starts_with(v1::SIGNATURE) || bytes.starts_with(v2::SIGNATURE)
}
