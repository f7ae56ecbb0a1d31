//! What a stored response weighs: the memory that the process holds because of it, not the bytes that it says.
//!
//! The sizes are those of this crate's structures, of `http::HeaderMap` and of an allocator with four size classes for
//! each doubling (mimalloc, as the binary uses it). They were fitted to the growth of the process: the test `flood` and
//! the lab's section of that name hold them to it.

use std::mem::size_of;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::body::{PIECE_BYTES, StoredBody};

/// One entry of a map: a hash, a name, a value and its links to further values of the name.
const ENTRY_BYTES: usize = 16 + size_of::<HeaderName>() + size_of::<HeaderValue>() + 24;
/// The counts of references before shared data, and what a shared slice of bytes needs besides them.
const SHARED_BYTES: usize = 32;
/// A name besides its text, where it is not one of the standard ones; more for those than they need.
const NAME_BYTES: usize = 16;
/// What a head that is ready to be sent has besides its fields: status line, `Age`, `Cache-Status`, separators.
const HEAD_BYTES: usize = 128;
/// A piece of a body besides its bytes: its place in the list, and the counts of references.
const PIECE_OVERHEAD_BYTES: usize = size_of::<Bytes>() + SHARED_BYTES;
/// Blocks up to this size leave next to nothing of their pages empty.
const MAX_SMALL_BYTES: usize = 4 * 1024;

/// A response with these fields and this body, and its head ready to be sent. `structure_bytes` is the size of the
/// structure that holds them.
pub(crate) fn of_response(structure_bytes: usize, headers: &HeaderMap, body: &StoredBody) -> usize {
    let texts: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let names: usize = headers.keys().map(|name| name.as_str().len() + NAME_BYTES).sum();
    let values: usize = headers.values().map(HeaderValue::len).sum();
    let head = texts + headers.len() * ": \r\n".len() + HEAD_BYTES;
    allocated(structure_bytes + SHARED_BYTES)
        + map(headers)
        + names
        + allocated(values)
        + SHARED_BYTES
        + allocated(head)
        + 2 * SHARED_BYTES
        + body.pieces().iter().map(|piece| allocated(piece.len()) + PIECE_OVERHEAD_BYTES).sum::<usize>()
}

/// So much of a body while it is recorded.
pub(crate) fn of_recording(bytes: u64) -> u64 {
    let piece = PIECE_BYTES as u64;
    let weigh = |bytes: u64| allocated(bytes as usize) as u64 + PIECE_OVERHEAD_BYTES as u64; // no more than a piece
    let rest = bytes % piece;
    bytes / piece * weigh(piece) + if rest > 0 { weigh(rest) } else { 0 }
}

/// The tables of a map: as many entries as it has room for, and four bytes for each place of its index.
fn map(headers: &HeaderMap) -> usize {
    let places = (headers.capacity() * 4 / 3).next_power_of_two();
    allocated(headers.capacity() * ENTRY_BYTES) + allocated(places * 4)
}

/// The block that an allocator sets aside for so many bytes.
pub(crate) fn allocated(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    let step = (bytes.next_power_of_two() / 8).max(16);
    let block = bytes.next_multiple_of(step);
    // Of larger blocks fewer share a page, so more of it is empty.
    if block <= MAX_SMALL_BYTES { block } else { block + block / 16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_allocated(bytes: usize, expected: usize) {
        assert_eq!(allocated(bytes), expected, "{bytes}");
    }

    #[test]
    fn blocks_have_four_classes_for_each_doubling() {
        check_allocated(0, 0);
        check_allocated(1, 16);
        check_allocated(129, 160);
        check_allocated(1024, 1024);
        check_allocated(1025, 1280);
        check_allocated(16_000, 16_384 + 1024);
        check_allocated(32_768, 32_768 + 2048);
    }

    #[test]
    fn a_recording_weighs_what_its_body_will() {
        assert_eq!(of_recording(0), 0);
        for bytes in [1, 4096, 32_767, 32_768, 32_769, 1_000_000] {
            let body = StoredBody::copy_of(&vec![0; bytes]);
            let (headers, none) = (HeaderMap::new(), StoredBody::default());
            let weight = of_response(0, &headers, &body) - of_response(0, &headers, &none) + PIECE_OVERHEAD_BYTES; // of the empty piece
            assert_eq!(of_recording(bytes as u64), weight as u64, "{bytes}");
        }
    }

    #[test]
    fn fields_count_with_names_values_and_tables() {
        let mut headers = HeaderMap::new();
        let none = StoredBody::default();
        let empty = of_response(0, &headers, &none);
        headers.insert("x-a", HeaderValue::from_static("value"));
        let one = of_response(0, &headers, &none);
        assert!(one > empty + ENTRY_BYTES, "{empty} {one}");
        headers.append("x-a", HeaderValue::from_str(&"v".repeat(1000)).unwrap());
        assert!(of_response(0, &headers, &none) > one + 2000, "in the map and in the head");
        assert_eq!(of_response(0, &headers, &StoredBody::copy_of(&[0; 4096])), of_response(0, &headers, &none) + 4096);
    }
}
