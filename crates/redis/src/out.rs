//! The bytes that wait to be written: small arguments are copied into one page, large shared ones keep their place in
//! it without being copied.
//!
//! ```text
//! page      *3 $3 SET $4 user $65536 ⌄ \r\n *2 $3 GET …
//! splices                            └── (offset in page, Bytes)
//! ```

use std::io::IoSlice;
use std::ops::Range;

use bytes::Bytes;

/// Shared arguments from this size on are not copied, in bytes. Below it a copy is cheaper than two more entries in a
/// vectored write.
pub(crate) const MIN_SPLICE_BYTES: usize = 16 * 1024;

/// Most slices given to one vectored write.
pub(crate) const MAX_SLICES: usize = 64;

/// A page whose capacity is above this is given back when it is empty, in bytes.
const MAX_IDLE_PAGE_BYTES: usize = 256 * 1024;

/// Encoded commands in the order of their writing.
#[derive(Debug, Default)]
pub(crate) struct Out {
    page: Vec<u8>,
    splices: Vec<(usize, Bytes)>,
    spliced_bytes: usize,
    copies_all: bool,
}

/// How far a writer has come in an [`Out`].
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Cursor {
    page: usize,
    splice: usize,
    within_splice: usize,
}

impl Out {
    /// One that copies large arguments as well: all of it is its page.
    pub(crate) fn contiguous_only() -> Self {
        Self { copies_all: true, ..Self::default() }
    }

    /// Bytes in all.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.page.len() + self.spliced_bytes
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.page.is_empty()
    }

    /// The page, to append to.
    #[inline]
    pub(crate) fn page(&mut self) -> &mut Vec<u8> {
        &mut self.page
    }

    /// Appends shared bytes without copying them.
    pub(crate) fn splice(&mut self, bytes: Bytes) {
        if self.copies_all {
            return self.page.extend_from_slice(&bytes);
        }
        self.spliced_bytes += bytes.len();
        self.splices.push((self.page.len(), bytes));
    }

    /// Takes out ranges of bytes, which ascend and do not overlap. A splice lies in one of them or in none.
    pub(crate) fn cut(&mut self, ranges: &[Range<usize>]) {
        let end = self.len();
        let mut splices = std::mem::take(&mut self.splices).into_iter().peekable();
        // Bytes of the splices so far: a position less these is an offset in the page.
        let mut spliced = 0;
        // Bytes of the page so far: those that stay, and all.
        let (mut kept, mut seen) = (0, 0);
        for range in ranges.iter().cloned().chain(std::iter::once(end..end)) {
            while let Some((offset, bytes)) = splices.next_if(|(offset, _)| offset + spliced < range.start) {
                spliced += bytes.len();
                self.splices.push((offset - (seen - kept), bytes));
            }
            let start = range.start - spliced;
            self.page.copy_within(seen..start, kept);
            kept += start - seen;
            while let Some((_, bytes)) = splices.next_if(|(offset, _)| offset + spliced < range.end) {
                spliced += bytes.len();
                self.spliced_bytes -= bytes.len();
            }
            seen = range.end - spliced;
        }
        self.page.truncate(kept);
    }

    /// Empties it and keeps a page of moderate size.
    pub(crate) fn clear(&mut self) {
        self.splices.clear();
        self.spliced_bytes = 0;
        self.page.clear();
        if self.page.capacity() > MAX_IDLE_PAGE_BYTES {
            self.page.shrink_to(MAX_IDLE_PAGE_BYTES);
        }
    }

    /// What is left to write at `cursor`, if it is one contiguous piece of the page.
    #[inline]
    pub(crate) fn contiguous(&self, cursor: Cursor) -> Option<&[u8]> {
        self.splices.is_empty().then(|| &self.page[cursor.page..])
    }

    /// What is left to write at `cursor`, in order; the number of slices filled is returned.
    pub(crate) fn slices<'a>(&'a self, mut cursor: Cursor, slices: &mut [IoSlice<'a>; MAX_SLICES]) -> usize {
        let mut filled = 0;
        while filled < MAX_SLICES {
            let Some(piece) = self.piece(cursor) else { break };
            slices[filled] = IoSlice::new(piece);
            filled += 1;
            cursor = self.advanced(cursor, piece.len());
        }
        filled
    }

    /// The cursor after `written` more bytes.
    pub(crate) fn advanced(&self, mut cursor: Cursor, mut written: usize) -> Cursor {
        while written > 0 {
            let Some(piece) = self.piece(cursor) else { break };
            let step = written.min(piece.len());
            if self.in_page(cursor) {
                cursor.page += step;
            } else {
                cursor.within_splice += step;
                if cursor.within_splice == self.splices[cursor.splice].1.len() {
                    cursor.splice += 1;
                    cursor.within_splice = 0;
                }
            }
            written -= step;
        }
        cursor
    }

    /// Whether everything before the end was written.
    #[inline]
    pub(crate) fn is_written(&self, cursor: Cursor) -> bool {
        cursor.page == self.page.len() && cursor.splice == self.splices.len()
    }

    fn in_page(&self, cursor: Cursor) -> bool {
        self.splices.get(cursor.splice).is_none_or(|(offset, _)| cursor.page < *offset)
    }

    fn piece(&self, cursor: Cursor) -> Option<&[u8]> {
        match self.splices.get(cursor.splice) {
            Some((offset, _)) if cursor.page < *offset => Some(&self.page[cursor.page..*offset]),
            Some((_, bytes)) => Some(&bytes[cursor.within_splice..]),
            None => (cursor.page < self.page.len()).then(|| &self.page[cursor.page..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(out: &Out, step: usize) -> Vec<u8> {
        let (mut cursor, mut all) = (Cursor::default(), Vec::new());
        while !out.is_written(cursor) {
            let mut slices = [IoSlice::new(b""); MAX_SLICES];
            let filled = out.slices(cursor, &mut slices);
            let bytes: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
            let step = step.min(bytes.len());
            all.extend_from_slice(&bytes[..step]);
            cursor = out.advanced(cursor, step);
        }
        all
    }

    #[test]
    fn pieces_come_in_the_order_they_were_appended_however_little_is_written() {
        let mut out = Out::default();
        out.splice(Bytes::from_static(b"first"));
        out.page().extend_from_slice(b"-one-");
        out.splice(Bytes::from_static(b"second"));
        out.splice(Bytes::from_static(b"third"));
        out.page().extend_from_slice(b"-two");
        for step in 1..30 {
            assert_eq!(drain(&out, step), b"first-one-secondthird-two", "step {step}");
        }
        assert_eq!(out.len(), 25);
    }

    #[test]
    fn cutting_ranges_leaves_the_rest_in_order() {
        let mut out = Out::default();
        out.page().extend_from_slice(b"abc");
        out.splice(Bytes::from_static(b"XYZ"));
        out.page().extend_from_slice(b"def");
        out.splice(Bytes::from_static(b"UVW"));
        out.page().extend_from_slice(b"ghi");
        let check = |ranges: &[Range<usize>], expected: &[u8]| {
            let mut out = Out { page: out.page.clone(), splices: out.splices.clone(), ..out };
            out.cut(ranges);
            assert_eq!(drain(&out, 100).escape_ascii().to_string(), expected.escape_ascii().to_string(), "{ranges:?}");
            assert_eq!(out.len(), expected.len(), "{ranges:?}");
        };
        check(&[], b"abcXYZdefUVWghi");
        check(&[0..1, 1..2], b"cXYZdefUVWghi");
        check(&[1..6, 6..7], b"aefUVWghi");
        check(&[0..3, 6..7], b"XYZefUVWghi");
        check(&[3..6, 9..12], b"abcdefghi");
        check(&[1..7, 7..8, 14..15], b"afUVWgh");
        check(&[0..3, 3..15], b"");
    }

    #[test]
    fn what_was_cut_can_be_appended_again() {
        let mut out = Out::default();
        out.page().extend_from_slice(b"abcdef");
        out.cut(std::slice::from_ref(&(1..3)));
        assert_eq!(out.contiguous(Cursor::default()), Some(&b"adef"[..]));
        out.splice(Bytes::from_static(b"xyz"));
        out.page().extend_from_slice(b"ghi");
        out.cut(std::slice::from_ref(&(0..2)));
        assert_eq!(drain(&out, 100), b"efxyzghi");
        assert_eq!(out.len(), 8);
    }
}
