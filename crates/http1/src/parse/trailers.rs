//! The trailer section of a chunked body (RFC 9112 §7.1.2).

use super::lines::{fields, within};
use crate::error::Malformed;
use crate::fields::{FieldTable, Fields};
use crate::limits::Limits;

/// Reads a trailer section with its empty line from the front of `bytes`: the fields, and its length; `None` if it is
/// not whole.
///
/// # Errors
/// The rule that the bytes break.
pub fn parse_trailers<'b>(
    bytes: &'b [u8],
    table: &'b mut FieldTable,
    limits: &Limits,
) -> Result<Option<(Fields<'b>, usize)>, Malformed> {
    table.clear();
    let (read, bytes) = (bytes, within(bytes, limits.max_trailers));
    match fields(bytes, 0, limits.max_fields, table)? {
        Some(length) => Ok(Some((Fields::new(bytes, table), length))),
        None if read.len() > limits.max_trailers => Err(Malformed::TrailersTooLarge),
        None => Ok(None),
    }
}
