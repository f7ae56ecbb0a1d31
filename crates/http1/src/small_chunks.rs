//! Whole chunks of fewer than 16 bytes, many at a time. Step by step ([`crate::chunked`]) each costs far more than its
//! data.
//!
//! Nothing here is refused: what is no such chunk is left for the steps.

use bytes::BytesMut;

/// `1 CRLF byte CRLF`
const CHUNK: usize = 6;
/// Chunks that are looked at together: three vectors of 16 bytes.
const AT_ONCE: usize = 8;
const BLOCK: usize = CHUNK * AT_ONCE;
const WANTED: [u8; BLOCK] = repeated(*b"1\r\n\0\r\n");
/// Bits that have to be as wanted: all but those of the data.
const FIXED: [u8; BLOCK] = repeated([0xff, 0xff, 0xff, 0, 0xff, 0xff]);

const fn repeated(chunk: [u8; CHUNK]) -> [u8; BLOCK] {
    let (mut block, mut at) = ([0; BLOCK], 0);
    while at < BLOCK {
        block[at] = chunk[at % CHUNK];
        at += 1;
    }
    block
}

/// Appends the data of the small chunks at the front of `input` to `out`, until that has `max` bytes or a few more; how
/// many bytes of `input` they are.
pub(crate) fn take(input: &[u8], out: &mut BytesMut, max: usize) -> usize {
    let taken = take_ones(input, out, max);
    taken + take_any(&input[taken..], out, max)
}

/// Chunks of one byte, without extensions.
fn take_ones(input: &[u8], out: &mut BytesMut, max: usize) -> usize {
    let mut taken = 0;
    for block in input.as_chunks::<BLOCK>().0 {
        if !are_ones(block) || out.len() >= max {
            break;
        }
        out.extend_from_slice(&[block[3], block[9], block[15], block[21], block[27], block[33], block[39], block[45]]);
        taken += BLOCK;
    }
    taken
}

/// Without a branch for each byte, so that the compiler makes vectors of it.
fn are_ones(block: &[u8; BLOCK]) -> bool {
    let (mut differing, mut at) = (0, 0);
    while at < BLOCK {
        differing |= (block[at] ^ WANTED[at]) & FIXED[at];
        at += 1;
    }
    differing == 0
}

/// Chunks whose size has one digit, without extensions.
fn take_any(input: &[u8], out: &mut BytesMut, max: usize) -> usize {
    let mut rest = input;
    while let [digit, b'\r', b'\n', after @ ..] = rest
        && let Some(size @ 1..) = (*digit as char).to_digit(16)
        && let Some((data, [b'\r', b'\n', after @ ..])) = after.split_at_checked(size as usize)
        && out.len() < max
    {
        out.extend_from_slice(data);
        rest = after;
    }
    input.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BodyDecoder, BodyLength, BodyPiece, Limits};
    use proptest::prelude::*;

    /// The data up to the end or the first error, and whether the end came; with `max` 0 by one step for each chunk.
    fn read(input: &[u8], cuts: &[usize], max: usize) -> (Vec<u8>, Option<bool>) {
        let (mut decoder, mut out) = (BodyDecoder::new(BodyLength::Chunked), BytesMut::new());
        let (mut at, mut cuts) = (0, cuts.iter().copied().chain([input.len()]));
        let mut end = cuts.next().unwrap_or(0);
        loop {
            match decoder.decode(&input[at..end], &Limits::REQUEST) {
                Ok(BodyPiece::Data { skip, length }) => {
                    out.extend_from_slice(&input[at + skip..at + skip + length]);
                    at += skip + length;
                    at += decoder.gather(&input[at..end], &Limits::REQUEST, &mut out, max);
                }
                Ok(BodyPiece::Incomplete { skip }) => {
                    at += skip;
                    let Some(next) = cuts.next() else { return (out.to_vec(), Some(false)) };
                    end = next;
                }
                Ok(BodyPiece::Trailers { .. } | BodyPiece::End) => return (out.to_vec(), Some(true)),
                Err(_) => return (out.to_vec(), None), // which one depends on where the input is cut
            }
        }
    }

    fn chunk(size: usize) -> Vec<u8> {
        let data: Vec<u8> = (0..size).map(|at| b"\r\n01a"[at % 5]).collect();
        [format!("{size:x}\r\n").as_bytes(), &data, b"\r\n"].concat()
    }

    #[test]
    fn a_run_of_ones_is_taken_whole() {
        let ones: Vec<u8> = (0..100u8).flat_map(|byte| [b'1', b'\r', b'\n', byte, b'\r', b'\n']).collect();
        let mut out = BytesMut::new();
        assert_eq!(take(&ones, &mut out, 1000), ones.len());
        assert!(out.iter().copied().eq(0..100));
        let mut out = BytesMut::new();
        assert_eq!(take(&ones, &mut out, 20), 24 * CHUNK, "what is looked at together stays together");
        let mut out = BytesMut::new();
        assert_eq!(
            take(b"0\r\n\r\n", &mut out, 20) + take(b"10\r\n", &mut out, 20) + take(b"1;x\r\n", &mut out, 20),
            0
        );
    }

    proptest! {
        #[test]
        fn as_step_by_step(
            sizes in prop::collection::vec(prop_oneof![8 => Just(1usize), 3 => 2usize..16, 1 => 16usize..40], 0..80),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            wrong in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
            max in 0usize..200,
        ) {
            let mut input: Vec<u8> = sizes.into_iter().flat_map(chunk).chain(*b"0\r\n").collect();
            if let Some((at, byte)) = wrong {
                let at = at.index(input.len());
                input[at] = byte;
            }
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(input.len())).collect();
            cuts.sort_unstable();
            prop_assert_eq!(read(&input, &cuts, max), read(&input, &[], 0));
        }
    }
}
