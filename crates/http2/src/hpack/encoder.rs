//! Fields to header blocks (RFC 7541 §6), without a dynamic table: what is encoded once can be sent on any connection.
//!
//! So the head of a stored response is encoded once for each second of its age, and sending it is a copy.

use super::static_table::{STATIC_TABLE, index_of_name, index_of_status};
use super::{huffman, integer};

/// A field that is in no table (§6.2.2), with a prefix of 4 bits.
const WITHOUT_INDEXING: u8 = 0;
/// The same where nobody may put it into one (§6.2.3).
const NEVER_INDEXED: u8 = 0x10;
/// A string that is Huffman-coded.
const CODED: u8 = 0x80;
/// From now on the encoder uses no table (§6.3).
pub(crate) const NO_TABLE: u8 = 0x20;
const STATUS_NAME: usize = 8;
/// Names are put into lower case in a piece of the stack of this size.
const MAX_COPIED: usize = 64;

/// Begins the block of a response: writes its status.
pub fn encode_status(status: u16, block: &mut Vec<u8>) {
    match index_of_status(status) {
        Some(index) => block.push(0x80 | index as u8),
        None => {
            integer::encode(STATUS_NAME, 4, WITHOUT_INDEXING, block);
            put_string(itoa::Buffer::new().format(status).as_bytes(), block);
        }
    }
}

/// Writes a field behind those before it. The name is put into lower case (RFC 9113 §8.2.1).
pub fn encode_field(name: &[u8], value: &[u8], block: &mut Vec<u8>) {
    let mut place = [0; MAX_COPIED];
    let copied;
    let lower: &[u8] = match place.get_mut(..name.len()) {
        _ if !name.iter().any(u8::is_ascii_uppercase) => name,
        Some(place) => {
            place.copy_from_slice(name);
            place.make_ascii_lowercase();
            place
        }
        None => {
            copied = name.to_ascii_lowercase();
            &copied
        }
    };
    let index = index_of_name(lower);
    // What is said to one client alone.
    let first = if index > 0 && STATIC_TABLE[index - 1].0 == "set-cookie" { NEVER_INDEXED } else { WITHOUT_INDEXING };
    integer::encode(index, 4, first, block);
    if index == 0 {
        put_string(lower, block);
    }
    put_string(value, block);
}

/// Coded, if that is shorter.
fn put_string(text: &[u8], block: &mut Vec<u8>) {
    let coded = huffman::coded_length(text);
    if coded < text.len() {
        integer::encode(coded, 7, CODED, block);
        huffman::encode(text, block);
    } else {
        integer::encode(text.len(), 7, 0, block);
        block.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::decoder::{Decoder, SectionLimits};
    use super::*;
    use crate::fields::FieldTable;

    #[test]
    fn by_value() {
        let mut block = Vec::new();
        encode_status(200, &mut block);
        encode_status(302, &mut block);
        encode_field(b"Content-Length", b"0", &mut block);
        encode_field(b"set-cookie", b"~", &mut block);
        encode_field(b"x", b"", &mut block);
        let expected: &[&[u8]] = &[
            &[0x88],
            &[0x08, 0x82, 0x64, 0x02],
            &[0x0F, 28 - 15, 1, b'0'],
            &[0x1F, 55 - 15, 1, b'~'],
            &[0, 1, b'x', 0],
        ];
        assert_eq!(block, expected.concat());
    }

    proptest! {
        #[test]
        fn round_trip(fields in prop::collection::vec(("[a-zA-Z][a-zA-Z0-9-]{0,80}", "[ -~]{0,60}"), 0..20)) {
            let mut block = Vec::new();
            fields.iter().for_each(|(name, value)| encode_field(name.as_bytes(), value.as_bytes(), &mut block));
            let mut table = FieldTable::new();
            let limits = SectionLimits { max_kept: usize::MAX, max_unpacked: usize::MAX };
            Decoder::new().decode(&block, limits, &mut table).unwrap();
            let found: Vec<_> = table.fields().iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
            let expected = fields.iter().map(|(name, value)| (name.to_ascii_lowercase().into_bytes(), value.clone().into_bytes()));
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
