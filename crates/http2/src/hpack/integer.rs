//! Integers with a prefix (RFC 7541 §5.1).

use super::error::HpackError;

/// No integer of a header block is larger: lengths and indexes beyond it are beyond every limit as well.
const MAX: u32 = 1 << 28;

/// The integer whose prefix are the low `bits` of the first byte, and what follows it.
#[inline]
pub(crate) fn decode(bytes: &[u8], bits: u32) -> Result<(u32, &[u8]), HpackError> {
    let (first, mut rest) = bytes.split_first().ok_or(HpackError::Truncated)?;
    let mask = (1u32 << bits) - 1;
    let mut value = u32::from(*first) & mask;
    if value < mask {
        return Ok((value, rest));
    }
    let mut shift = 0;
    loop {
        let (byte, behind) = rest.split_first().ok_or(HpackError::Truncated)?;
        rest = behind;
        // Four bytes behind the prefix reach beyond `MAX`.
        if shift > 21 {
            return Err(HpackError::Integer);
        }
        value += u32::from(byte & 0x7F) << shift;
        if value > MAX {
            return Err(HpackError::Integer);
        }
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
        shift += 7;
    }
}

/// Writes an integer; `first` has what stands before the prefix.
#[inline]
pub(crate) fn encode(value: usize, bits: u32, first: u8, out: &mut Vec<u8>) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        out.push(first | value as u8);
        return;
    }
    out.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 & 0x7F | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn examples_of_the_standard() {
        // RFC 7541 C.1
        for (value, bits, coded) in [(10, 5, &[0b01010][..]), (1337, 5, &[0b11111, 0x9A, 0x0A]), (42, 8, &[42])] {
            let mut out = Vec::new();
            encode(value, bits, 0, &mut out);
            assert_eq!(out, coded);
            assert_eq!(decode(coded, bits), Ok((value as u32, &[][..])));
        }
    }

    #[test]
    fn what_is_no_integer() {
        assert_eq!(decode(&[], 5), Err(HpackError::Truncated));
        assert_eq!(decode(&[0x1F], 5), Err(HpackError::Truncated));
        assert_eq!(decode(&[0x1F, 0x80], 5), Err(HpackError::Truncated));
        assert_eq!(decode(&[0x1F, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], 5), Err(HpackError::Integer));
        // As long as one likes, with nothing in it.
        assert_eq!(decode(&[0x1F, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], 5), Err(HpackError::Integer));
    }

    proptest! {
        #[test]
        fn round_trip(value in 0usize..1 << 28, bits in 4u32..8) {
            let mut out = Vec::new();
            encode(value, bits, 0, &mut out);
            prop_assert_eq!(decode(&out, bits), Ok((value as u32, &[][..])));
        }
    }
}
