//! The body of a stored response, in pieces.
//!
//! Why in pieces: blocks of many sizes, some of them large, leave an allocator with room between them that fits
//! nothing, up to as much again as is stored. Pieces of one size take each other's place. And a piece that is full can
//! be shared while the next one is still being recorded.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// The size of every piece but the last.
pub(crate) const PIECE_BYTES: usize = 32 * 1024;
/// The first block of a body whose length is not known.
const FIRST_BUFFER_BYTES: usize = 4096;

/// Bytes that are shared, never copied: a clone or a part of a body holds the same memory.
#[derive(Debug, Clone, Default)]
pub struct StoredBody {
    pieces: Pieces,
    len: usize,
}

#[derive(Debug, Clone)]
enum Pieces {
    /// Without a list to allocate.
    One(Bytes),
    Many(Arc<[Bytes]>),
}

impl Default for Pieces {
    fn default() -> Self {
        Self::One(Bytes::new())
    }
}

impl StoredBody {
    /// A copy in pieces of memory of their own, to be stored.
    pub fn copy_of(data: &[u8]) -> Self {
        let mut growing = Growing::default();
        growing.push(data, Some(data.len() as u64));
        growing.finish()
    }

    /// The same bytes: shared if they are no more than one piece, else copied.
    pub(crate) fn of(bytes: Bytes) -> Self {
        if bytes.len() > PIECE_BYTES {
            return Self::copy_of(&bytes);
        }
        let len = bytes.len();
        Self { pieces: Pieces::One(bytes), len }
    }

    /// These pieces, whose memory is theirs alone. (Those of a part need not be of [`PIECE_BYTES`].)
    pub(crate) fn of_pieces(mut pieces: Vec<Bytes>) -> Self {
        let len = pieces.iter().map(Bytes::len).sum();
        let pieces = match pieces.len() {
            0 => Pieces::default(),
            1 => Pieces::One(pieces.pop().unwrap_or_default()),
            _ => Pieces::Many(pieces.into()),
        };
        Self { pieces, len }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces in their order.
    pub fn pieces(&self) -> &[Bytes] {
        match &self.pieces {
            Pieces::One(only) => std::slice::from_ref(only),
            Pieces::Many(all) => all,
        }
    }

    /// Whether somebody has all of it besides this, so that its memory stays when this goes. One piece is not worth the
    /// question.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(&self.pieces, Pieces::Many(all) if Arc::strong_count(all) > 1)
    }

    /// A part of it; what of the range lies beyond its end is left out.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        let mut at = 0;
        let part = |piece: &Bytes| {
            let (from, to) = (range.start.clamp(at, at + piece.len()), range.end.clamp(at, at + piece.len()));
            let part = (from < to).then(|| piece.slice(from - at..to - at));
            at += piece.len();
            part
        };
        Self::of_pieces(self.pieces().iter().filter_map(part).collect())
    }

    /// What there is from `at` on, up to the end of a piece; nothing at the end.
    pub(crate) fn read(&self, at: usize) -> Bytes {
        self.pieces()
            .get(at / PIECE_BYTES)
            .map(|piece| piece.slice((at % PIECE_BYTES).min(piece.len())..))
            .unwrap_or_default()
    }

    /// All of it in one block: shared if it is one piece, else copied.
    pub fn to_bytes(&self) -> Bytes {
        match &self.pieces {
            Pieces::One(only) => only.clone(),
            Pieces::Many(all) => all.concat().into(),
        }
    }
}

/// A body that is being recorded.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    full: Vec<Bytes>,
    /// Shorter than a piece.
    last: Vec<u8>,
    len: usize,
}

impl Growing {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a copy of `data`. `len` is that of the whole body, if it is known: no piece is made larger than needed
    /// then.
    pub(crate) fn push(&mut self, mut data: &[u8], len: Option<u64>) {
        while !data.is_empty() {
            let (now, later) = data.split_at(data.len().min(PIECE_BYTES - self.last.len()));
            self.make_room(now.len(), len);
            self.last.extend_from_slice(now);
            self.len += now.len();
            if self.last.len() == PIECE_BYTES {
                self.full.push(exact(std::mem::take(&mut self.last)));
            }
            data = later;
        }
    }

    fn make_room(&mut self, more: usize, len: Option<u64>) {
        let needed = self.last.len() + more;
        if needed > self.last.capacity() {
            let rest = len.map(|len| usize::try_from(len).unwrap_or(usize::MAX) - (self.len - self.last.len()));
            let wanted = rest.unwrap_or((self.last.capacity() * 2).max(FIRST_BUFFER_BYTES));
            self.last.reserve_exact(wanted.clamp(needed, PIECE_BYTES) - self.last.len());
        }
    }

    /// What there is from `at` on, or a part of it: full pieces are shared, of the last one a copy is made.
    pub(crate) fn read(&self, at: usize) -> Bytes {
        let within = at % PIECE_BYTES;
        match self.full.get(at / PIECE_BYTES) {
            Some(piece) => piece.slice(within..),
            None => Bytes::copy_from_slice(self.last.get(within..).unwrap_or_default()),
        }
    }

    pub(crate) fn finish(mut self) -> StoredBody {
        if !self.last.is_empty() {
            self.full.push(exact(self.last));
        }
        StoredBody::of_pieces(self.full)
    }
}

/// The bytes in a block of their size. Not by `shrink_to_fit`: an allocator may leave a block in place of which up to a
/// half is not used any more, and nobody would count it.
fn exact(data: Vec<u8>) -> Bytes {
    if data.len() == data.capacity() { Bytes::from(data) } else { Bytes::copy_from_slice(&data) }
}

impl PartialEq for StoredBody {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.pieces().iter().flatten().eq(other.pieces().iter().flatten())
    }
}

impl Eq for StoredBody {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_those_of_the_whole(len in 0usize..100_000, from in 0usize..100_100, to in 0usize..100_100) {
            let data: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let body = StoredBody::copy_of(&data);
            prop_assert_eq!((body.len(), body.is_empty()), (len, len == 0));
            prop_assert_eq!(body.to_bytes(), &data);
            let part = body.slice(from..to);
            let expected = &data[from.min(len)..to.min(len).max(from.min(len))];
            prop_assert_eq!(part.to_bytes(), expected);
            prop_assert_eq!(part.len(), expected.len());
            prop_assert_eq!(&part, &StoredBody::copy_of(expected));
        }
    }

    proptest! {
        #[test]
        fn what_is_recorded_in_chunks_is_the_whole(
            chunks in proptest::collection::vec(0usize..50_000, 0..6), is_known in any::<bool>(),
        ) {
            let data: Vec<u8> = (0..chunks.iter().sum()).map(|n: usize| (n % 251) as u8).collect();
            let (mut growing, mut rest) = (Growing::default(), data.as_slice());
            for chunk in chunks {
                let (now, later) = rest.split_at(chunk);
                growing.push(now, is_known.then_some(data.len() as u64));
                rest = later;
                prop_assert_eq!(growing.len(), data.len() - rest.len());
            }
            let body = growing.finish();
            prop_assert_eq!(body.to_bytes(), &data);
            let full = body.pieces().iter().rev().skip(1);
            prop_assert!(full.map(Bytes::len).all(|len| len == PIECE_BYTES));
        }
    }

    #[test]
    fn parts_share_the_memory() {
        let body = StoredBody::copy_of(&vec![7; 3 * PIECE_BYTES]);
        let part = body.slice(PIECE_BYTES + 5..2 * PIECE_BYTES);
        assert_eq!(part.pieces()[0].as_ptr(), body.pieces()[1][5..].as_ptr());
    }
}
