//! Which bytes may stand where: one table, one look for each byte.

/// `tchar` of RFC 9110 §5.6.2: methods, field names, options.
const TOKEN: u8 = 1;
/// What a request target may have: visible ASCII but `#`, `<` and `>`, and anything above 0x7F.
const TARGET: u8 = 2;
/// What a host with its port may have (RFC 3986 §3.2.2, §3.2.3): no user information, no delimiters of other parts.
const HOST: u8 = 4;

const TABLE: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        let is_alphanumeric = byte.is_ascii_alphanumeric();
        let is_token_mark = matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        );
        let is_host_mark = matches!(
            byte,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'=' | b'%'
        );
        if is_alphanumeric || is_token_mark {
            table[index] |= TOKEN;
        }
        if (byte > b' ' && byte < 0x7f && !matches!(byte, b'#' | b'<' | b'>')) || byte >= 0x80 {
            table[index] |= TARGET;
        }
        if is_alphanumeric || is_host_mark {
            table[index] |= HOST;
        }
        index += 1;
    }
    table
};

/// How many bytes at the front are of the class.
#[inline]
fn length_of(bytes: &[u8], class: u8) -> usize {
    let mut length = 0;
    while length < bytes.len() && TABLE[usize::from(bytes[length])] & class != 0 {
        length += 1;
    }
    length
}

/// Length of the token at the front.
#[inline]
pub(crate) fn token_length(bytes: &[u8]) -> usize {
    length_of(bytes, TOKEN)
}

/// Length of what may be a target at the front.
#[inline]
pub(crate) fn target_length(bytes: &[u8]) -> usize {
    length_of(bytes, TARGET)
}

#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    TABLE[usize::from(byte)] & TOKEN != 0
}

/// Length of what may be a host, without a port, at the front.
#[inline]
pub(crate) fn host_length(bytes: &[u8]) -> usize {
    length_of(bytes, HOST)
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// How many bytes at the front a field's value may have (RFC 9110 §5.5): visible bytes, space, tab, and anything above
/// 0x7F. Eight bytes a step; a step with another byte, or with a tab, is looked at byte by byte.
#[inline]
pub(crate) fn value_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    while let Some(word) = bytes.get(length..length + 8).and_then(|word| <[u8; 8]>::try_from(word).ok()) {
        if is_plain_word(u64::from_ne_bytes(word)) {
            length += 8;
            continue;
        }
        match word.iter().position(|byte| !is_value_byte(*byte)) {
            Some(at) => return length + at,
            None => length += 8,
        }
    }
    while length < bytes.len() && is_value_byte(bytes[length]) {
        length += 1;
    }
    length
}

/// Whether all of it may be a field's value.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    value_length(bytes) == bytes.len()
}

#[inline]
fn is_value_byte(byte: u8) -> bool {
    (byte >= b' ' && byte != 0x7f) || byte == b'\t'
}

/// No byte below 0x20, and none that is 0x7F. May be wrong in one direction only: it says no where a borrow crosses
/// bytes.
#[inline]
fn is_plain_word(word: u64) -> bool {
    let below_space = word.wrapping_sub(LOW_BITS * 0x20) & !word & HIGH_BITS;
    let delete = word ^ (LOW_BITS * 0x7f);
    let is_delete = delete.wrapping_sub(LOW_BITS) & !delete & HIGH_BITS;
    (below_space | is_delete) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_are_judged_as_their_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let expected = bytes.iter().take_while(|byte| is_value_byte(**byte)).count();
            prop_assert_eq!(value_length(&bytes), expected);
        }
    }

    #[test]
    fn every_byte_in_every_place_of_a_word() {
        for byte in 0..=255u8 {
            for place in 0..8 {
                let mut word = *b"abcdefgh";
                word[place] = byte;
                assert_eq!(is_value(&word), is_value_byte(byte), "{byte:#x} at {place}");
            }
        }
    }
}
