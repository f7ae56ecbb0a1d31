//! The Huffman code (RFC 7541 §5.2, Appendix B).
//!
//! The code is canonical: codes of one length follow each other in the order of their symbols, and longer ones are
//! larger. So the lengths are all that has to be known of it; the tables are made of them when this is compiled.

use super::error::HpackError;

const SYMBOLS: usize = 257;
/// The end-of-string symbol, which no string has (§5.2).
const EOS: usize = 256;
const MAX_LENGTH: usize = 30;
/// Codes up to here are found by one look at a table.
const SHORT: usize = 10;

/// Bits of the codes of all bytes, and of EOS.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

/// Symbols in the order of their codes, and for each length the first code and its place in that order.
struct Canonical {
    symbols: [u16; SYMBOLS],
    first_code: [u32; MAX_LENGTH + 2],
    first_place: [u16; MAX_LENGTH + 2],
}

const CANONICAL: Canonical = canonical();

const fn canonical() -> Canonical {
    let mut made =
        Canonical { symbols: [0; SYMBOLS], first_code: [0; MAX_LENGTH + 2], first_place: [0; MAX_LENGTH + 2] };
    let (mut length, mut code, mut place) = (1, 0, 0);
    while length <= MAX_LENGTH {
        code <<= 1;
        made.first_code[length] = code;
        made.first_place[length] = place as u16;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                made.symbols[place] = symbol as u16;
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    made.first_code[MAX_LENGTH + 1] = code << 1;
    made.first_place[MAX_LENGTH + 1] = place as u16;
    made
}

/// The code of each symbol.
static CODES: [u32; SYMBOLS] = codes();

const fn codes() -> [u32; SYMBOLS] {
    let mut codes = [0; SYMBOLS];
    let mut place = 0;
    while place < SYMBOLS {
        let symbol = CANONICAL.symbols[place] as usize;
        let length = LENGTHS[symbol] as usize;
        codes[symbol] = CANONICAL.first_code[length] + (place as u32 - CANONICAL.first_place[length] as u32);
        place += 1;
    }
    codes
}

/// What the next [`SHORT`] bits begin with: a byte and the length of its code; 0 where that is longer.
static SHORT_CODES: [(u8, u8); 1 << SHORT] = short_codes();

const fn short_codes() -> [(u8, u8); 1 << SHORT] {
    let mut table = [(0, 0); 1 << SHORT];
    let codes = codes();
    let mut symbol = 0;
    while symbol < EOS {
        let length = LENGTHS[symbol] as usize;
        if length <= SHORT {
            let first = (codes[symbol] as usize) << (SHORT - length);
            let mut place = 0;
            while place < 1 << (SHORT - length) {
                table[first + place] = (symbol as u8, length as u8);
                place += 1;
            }
        }
        symbol += 1;
    }
    table
}

static LONG: Canonical = CANONICAL;

/// Appends what `coded` stands for, which is at most 1.6 times as long.
///
/// # Errors
/// EOS within it, or padding that is longer than 7 bits or not of ones (§5.2).
pub(crate) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    // The next bits stand at the top.
    let (mut bits, mut count) = (0u64, 0u32);
    let mut bytes = coded.iter();
    loop {
        while count <= 56 {
            let Some(byte) = bytes.next() else { break };
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        if count == 0 {
            return Ok(());
        }
        let (symbol, length) = SHORT_CODES[(bits >> (64 - SHORT)) as usize];
        let (symbol, length) = match length {
            0 => match long(bits) {
                Some(found) => found,
                None => return Err(HpackError::Huffman),
            },
            _ => (symbol, u32::from(length)),
        };
        if length > count {
            // What is left is padding: the beginning of EOS, which is ones only.
            let is_ones = bits.leading_ones() >= count;
            return if count < 8 && is_ones { Ok(()) } else { Err(HpackError::Huffman) };
        }
        out.push(symbol);
        bits <<= length;
        count -= length;
    }
}

/// The byte whose code is longer than [`SHORT`]; `None` for EOS. Where fewer bits are left, zeros stand for the others.
fn long(bits: u64) -> Option<(u8, u32)> {
    for length in SHORT + 1..=MAX_LENGTH {
        let code = (bits >> (64 - length)) as u32;
        let places = LONG.first_place[length + 1] - LONG.first_place[length];
        let place = code.wrapping_sub(LONG.first_code[length]);
        if place < u32::from(places) {
            let symbol = LONG.symbols[usize::from(LONG.first_place[length]) + place as usize];
            return u8::try_from(symbol).ok().map(|symbol| (symbol, length as u32));
        }
    }
    None
}

/// Bytes of a text when it is coded.
pub(crate) fn coded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of a text.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0u64, 0u32);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        bits = bits << length | u64::from(CODES[usize::from(*byte)]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        out.push((bits << (8 - count)) as u8 | 0xFF >> count);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(coded: &[u8], expected: Result<&[u8], HpackError>) {
        let mut out = Vec::new();
        let result = decode(coded, &mut out);
        assert_eq!(result.map(|()| &out[..]), expected, "{coded:x?}");
    }

    #[test]
    fn examples_of_the_standard() {
        // RFC 7541 C.4, C.6
        for (text, coded) in [
            (&b"www.example.com"[..], &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..]),
            (b"no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            (b"custom-key", &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f]),
            (b"custom-value", &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf]),
            (b"302", &[0x64, 0x02]),
            (b"private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
        ] {
            check(coded, Ok(text));
            let mut out = Vec::new();
            encode(text, &mut out);
            assert_eq!((&out[..], coded_length(text)), (coded, coded.len()));
        }
    }

    #[test]
    fn padding_and_the_end_of_a_string() {
        check(&[], Ok(b""));
        check(&[0b0001_1111], Ok(b"a")); // 00011, and ones
        check(&[0b0001_1110], Err(HpackError::Huffman)); // a zero in the padding
        check(&[0b0001_1111, 0xFF], Err(HpackError::Huffman)); // a byte of padding
        check(&[0xFF], Err(HpackError::Huffman));
        check(&[0xFF, 0xFF, 0xFF, 0xFF], Err(HpackError::Huffman)); // EOS
        check(&[0xFF, 0xFF, 0xFF, 0xFC, 0xFF], Err(HpackError::Huffman)); // EOS and more
    }

    proptest! {
        #[test]
        fn round_trip(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut coded = Vec::new();
            encode(&text, &mut coded);
            prop_assert_eq!(coded.len(), coded_length(&text));
            let mut out = Vec::new();
            prop_assert_eq!(decode(&coded, &mut out), Ok(()));
            prop_assert_eq!(out, text);
        }

        /// What is taken is the one code of its text: no two codes say the same.
        #[test]
        fn one_code_for_a_text(coded in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut out = Vec::new();
            if decode(&coded, &mut out).is_ok() {
                let mut again = Vec::new();
                encode(&out, &mut again);
                prop_assert_eq!(again, coded);
            }
        }
    }
}
