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

/// How many bytes from `length` on are of the class.
#[inline]
fn length_from(bytes: &[u8], length: usize, class: u8) -> usize {
    let mut length = length;
    while length < bytes.len() && TABLE[usize::from(bytes[length])] & class != 0 {
        length += 1;
    }
    length
}

/// Length of the token at the front.
#[inline]
pub(crate) fn token_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    while let Some(word) = word_at(bytes, length) {
        let other = !letters_and_dashes(word) & HIGH_BITS;
        if other != 0 {
            length += first(other);
            break;
        }
        length += 8;
    }
    length_from(bytes, length, TOKEN)
}

/// Length of what may be a target at the front.
#[inline]
pub(crate) fn target_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    while let Some(word) = word_at(bytes, length) {
        let ends = controls(word) | equal(word, b' ') | equal(word, b'#') | equal(word | (LOW_BITS * 2), b'>');
        if ends != 0 {
            return length + first(ends);
        }
        length += 8;
    }
    length_from(bytes, length, TARGET)
}

#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    TABLE[usize::from(byte)] & TOKEN != 0
}

/// Length of what may be a host, without a port, at the front.
#[inline]
pub(crate) fn host_length(bytes: &[u8]) -> usize {
    length_from(bytes, 0, HOST)
}

/// How many bytes at the front a field's value may have (RFC 9110 §5.5): visible bytes, space, tab, and anything above
/// 0x7F.
#[inline]
pub(crate) fn value_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    while let Some(word) = word_at(bytes, length) {
        let ends = controls(word);
        if ends == 0 {
            length += 8;
            continue;
        }
        length += first(ends);
        if bytes[length] != b'\t' {
            return length;
        }
        length += 1;
    }
    while length < bytes.len() && is_value_byte(bytes[length]) {
        length += 1;
    }
    length
}

// Eight bytes at once: each response has the highest bit of each byte for which it is yes. Nothing is carried from one
// byte into the next, as the sums are those of seven bits.

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The eight bytes from `at` on, the first of them lowest; `None` where there are fewer.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).and_then(|word| <[u8; 8]>::try_from(word).ok()).map(u64::from_le_bytes)
}

/// The first byte for which the response is yes; there is one.
#[inline]
fn first(answer: u64) -> usize {
    (answer.trailing_zeros() / 8) as usize
}

/// Which bytes are at least `least`, which is at most 0x7F, without a look at their highest bits.
#[inline]
fn at_least(word: u64, least: u8) -> u64 {
    (word & !HIGH_BITS) + LOW_BITS * u64::from(0x80 - least)
}

/// Below 0x20, or 0x7F.
#[inline]
fn controls(word: u64) -> u64 {
    (!at_least(word, b' ') | at_least(word, 0x7f)) & !word & HIGH_BITS
}

#[inline]
fn equal(word: u64, byte: u8) -> u64 {
    let differs = word ^ (LOW_BITS * u64::from(byte));
    !(at_least(differs, 1) | differs) & HIGH_BITS
}

/// What most names consist of.
#[inline]
fn letters_and_dashes(word: u64) -> u64 {
    let lower = word | (LOW_BITS * 0x20);
    at_least(lower, b'a') & !at_least(lower, b'z' + 1) & !word | equal(word, b'-')
}

/// Whether all of it may be a field's value.
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    value_length(bytes) == bytes.len()
}

#[inline]
fn is_value_byte(byte: u8) -> bool {
    (byte >= b' ' && byte != 0x7f) || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn length_of(bytes: &[u8], class: u8) -> usize {
        bytes.iter().take_while(|byte| TABLE[usize::from(**byte)] & class != 0).count()
    }

    fn same(bytes: &[u8]) {
        let value = bytes.iter().take_while(|byte| is_value_byte(**byte)).count();
        assert_eq!(value_length(bytes), value, "value {bytes:?}");
        assert_eq!(token_length(bytes), length_of(bytes, TOKEN), "token {bytes:?}");
        assert_eq!(target_length(bytes), length_of(bytes, TARGET), "target {bytes:?}");
    }

    proptest! {
        #[test]
        fn words_are_judged_as_their_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            same(&bytes);
        }

        #[test]
        fn so_are_words_of_what_heads_have(text in "[A-Za-z0-9_/:\\- \t\r#<>\x7f]{0,40}") {
            same(text.as_bytes());
        }
    }

    #[test]
    fn every_byte_in_every_place_of_a_word() {
        for byte in 0..=255u8 {
            for place in 0..8 {
                for around in [b'a', b'-', 0xff] {
                    let mut word = [around; 8];
                    word[place] = byte;
                    same(&word);
                }
                let mut word = *b"abcdefgh";
                word[place] = byte;
                assert_eq!(is_value(&word), is_value_byte(byte), "{byte:#x} at {place}");
            }
        }
    }
}
