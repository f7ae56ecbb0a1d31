//! The bytes of a body: read piece by piece, or left to the kernel, which sends them from its page cache.
//!
//! ```text
//!   a part of a file: ├── parts for the kernel, each checked by the next ──┤── tail, read ──┤
//! ```
//!
//! What the kernel sends is in no buffer of ours: an edit in place may change it until it has gone. So the tail is
//! always read, and the file compared with what it was once the parts have gone.
//!
//! Invariant: the tail of a file comes only if nothing of the file has changed before.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::fstat;
use rustix::io::{Errno, pread};

use crate::version::Version;

/// Bytes that are read at once: what a worker does for one client before it turns to the others.
const PIECE: u64 = 128 << 10;
/// The least that is left to the kernel: less is read as cheaply.
const MIN_PART: u64 = 64 << 10;
/// The end of a part of a file, which is read.
const TAIL: u64 = 16 << 10;
/// What is brought into the page cache at once: enough for a disk that turns, and bounded for one that is shared.
const LOADED_AT_ONCE: u64 = 4 << 20;

/// A file that is open, and the version that it was when it was opened.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: OwnedFd,
    version: Version,
    /// The kernel does not send it by itself: its file system cannot, or a filter of system calls forbids it.
    is_read_only: AtomicBool,
}

impl OpenFile {
    pub(crate) fn new(file: OwnedFd, version: Version) -> Self {
        Self { file, version, is_read_only: AtomicBool::new(false) }
    }

    /// Whether the page cache has a byte.
    #[cfg(target_os = "linux")]
    fn is_cached(&self, offset: u64) -> bool {
        use rustix::io::{ReadWriteFlags, preadv2};

        let mut byte = [0];
        let read = preadv2(&self.file, &mut [std::io::IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT);
        read != Err(Errno::AGAIN)
    }

    #[cfg(not(target_os = "linux"))]
    fn is_cached(&self, _: u64) -> bool {
        true
    }

    /// Whether it is still what it was.
    fn check(&self) -> Result<(), Changed> {
        let now = Version::of(&fstat(&self.file).map_err(Changed::Unreadable)?);
        if now.has_content_of(&self.version) { Ok(()) } else { Err(Changed::Changed) }
    }
}

/// A part of a body.
#[derive(Debug, Clone)]
pub enum Segment {
    /// Bytes that are here.
    Here(Bytes),
    /// A part of a file that is open.
    File(FilePart),
}

/// A part of a file that is open.
#[derive(Debug, Clone)]
pub struct FilePart {
    file: Arc<OpenFile>,
    range: Range<u64>,
    /// Up to where the page cache has been looked at, and filled.
    loaded: u64,
}

/// Bytes of a file that the page cache does not have. Whoever reads them waits for the disk.
#[derive(Debug)]
pub struct Cold {
    file: Arc<OpenFile>,
    range: Range<u64>,
}

impl Segment {
    fn len(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::File(part) => part.left(),
        }
    }
}

/// Bytes of a file that the kernel is to send by itself.
#[derive(Debug)]
pub struct Sendable {
    part: FilePart,
    is_last: bool,
}

/// Why a body cannot be sent to its end.
#[derive(Debug, thiserror::Error)]
pub enum Changed {
    /// Another version has been written to the same file, or it was truncated.
    #[error("the file was changed while it was sent; write a new file and rename it over the old one")]
    Changed,
    /// The system.
    #[error("the file could not be read: {0}")]
    Unreadable(Errno),
}

/// Reads the segments of a body, one after the other.
///
/// Reading waits for the disk where the page cache does not have a file: [`Reader::cold`] says so before.
#[derive(Debug)]
pub struct Reader {
    segments: VecDeque<Segment>,
    left: u64,
}

impl Reader {
    /// Of the segments of a body.
    #[must_use]
    pub fn new(segments: Vec<Segment>) -> Self {
        let left = segments.iter().map(Segment::len).sum();
        Self { segments: segments.into(), left }
    }

    /// Bytes that are still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// What of the next `most` bytes has to come from the disk, and what follows it: 4 MiB at most. It is asked for
    /// once; what the page cache has lost again by the time it is read is waited for then. `None` as well where the
    /// system does not tell.
    pub fn cold(&mut self, most: u64) -> Option<Cold> {
        let Some(Segment::File(part)) = self.segments.front_mut() else { return None };
        let (start, end) = (part.range.start, part.range.end);
        let next = start.saturating_add(most).min(end);
        if next <= part.loaded {
            return None;
        }
        part.loaded = next;
        // Pages between the two may be missing, mostly they are not: they have come in order.
        if start == end || (part.file.is_cached(start) && part.file.is_cached(next - 1)) {
            return None;
        }
        part.loaded = start.saturating_add(LOADED_AT_ONCE).min(end);
        Some(Cold { file: Arc::clone(&part.file), range: start..part.loaded })
    }

    /// The next piece, up to 128 KiB of a file; `None` behind the end.
    ///
    /// # Errors
    /// The rest of it will not come: the answer has to be cut.
    pub fn read(&mut self) -> Option<Result<Bytes, Changed>> {
        let piece = match self.segments.front_mut()? {
            Segment::Here(bytes) => std::mem::take(bytes),
            Segment::File(part) => match part.read(PIECE) {
                Ok(piece) => piece,
                Err(changed) => return Some(Err(changed)),
            },
        };
        self.left -= piece.len() as u64;
        if self.segments.front().is_some_and(|front| front.len() == 0) {
            self.segments.pop_front();
        }
        Some(Ok(piece))
    }

    /// The next bytes, if the kernel is to send them: up to `most` of them, and never the tail of a part of a file.
    /// `None`: what comes next is read.
    ///
    /// # Errors
    /// As those of [`Reader::read`].
    pub fn sendable(&mut self, most: u64) -> Option<Result<Sendable, Changed>> {
        let Some(Segment::File(part)) = self.segments.front_mut() else { return None };
        let is_sent =
            !part.file.is_read_only.load(Ordering::Relaxed) && most >= MIN_PART && part.left() >= MIN_PART + TAIL;
        if !is_sent {
            return None;
        }
        // What went before is of the version that the fields are of.
        if let Err(changed) = part.file.check() {
            return Some(Err(changed));
        }
        let given = part.split_to(most.min(part.left() - TAIL));
        self.left -= given.left();
        Some(Ok(Sendable { is_last: part.left() < MIN_PART + TAIL, part: given }))
    }
}

impl Cold {
    /// Waits for the disk. What cannot be read is told whoever reads it next.
    pub fn load(self) {
        let Self { file, range } = self;
        let mut piece = Vec::with_capacity(usize::try_from(PIECE).unwrap_or(0));
        let mut offset = range.start;
        while offset < range.end {
            piece.clear();
            match pread(&file.file, spare_capacity(&mut piece), offset) {
                Ok(0) => return,
                Ok(read) => offset += read as u64,
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl Sendable {
    /// The file.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.part.file.file.as_fd()
    }

    /// Where the first byte is that is still to be sent.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.part.range.start
    }

    /// Bytes that are still to be sent.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.part.left()
    }

    /// Whether the tail follows. It is read when all that was left to the kernel has gone, not sooner.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// The kernel has taken the next `bytes`.
    pub fn sent(&mut self, bytes: u64) {
        self.part.split_to(bytes.min(self.left()));
    }

    /// The kernel does not send this file: what is left of these bytes is read, and so is everything else of the file.
    ///
    /// # Errors
    /// As those of [`Reader::read`].
    pub fn read(mut self) -> Result<Bytes, Changed> {
        self.part.file.is_read_only.store(true, Ordering::Relaxed);
        self.part.read(self.part.left())
    }
}

impl FilePart {
    pub(crate) fn new(file: &Arc<OpenFile>, range: Range<u64>) -> Self {
        Self { file: Arc::clone(file), loaded: range.start, range }
    }

    fn left(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The first `length` bytes, which are no part of it any more.
    fn split_to(&mut self, length: u64) -> Self {
        let end = self.range.start + length;
        let first = Self::new(&self.file, self.range.start..end);
        self.range.start = end;
        first
    }

    fn read(&mut self, most: u64) -> Result<Bytes, Changed> {
        let length = self.left().min(most);
        let mut piece = Vec::with_capacity(usize::try_from(length).unwrap_or(0).max(1));
        while (piece.len() as u64) < length {
            let offset = self.range.start + piece.len() as u64;
            match pread(&self.file.file, spare_capacity(&mut piece), offset) {
                Ok(0) => return Err(Changed::Changed),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(Changed::Unreadable(e)),
            }
        }
        piece.truncate(usize::try_from(length).unwrap_or(0));
        // Behind the reading: what was read is of the version that the fields are of.
        self.file.check()?;
        self.range.start += length;
        Ok(piece.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};
    use std::os::unix::fs::FileExt as _;
    use std::time::{Duration, SystemTime};

    use super::*;

    const SIZE: u64 = 3 << 20;

    fn open(size: u64) -> (std::fs::File, Arc<OpenFile>) {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..size).map(|at| (at / 4096 + at) as u8).collect();
        file.write_all(&bytes).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        let version = Version::of(&fstat(&file).unwrap());
        let opened = Arc::new(OpenFile::new(file.try_clone().unwrap().into(), version));
        (file, opened)
    }

    fn reader(file: &Arc<OpenFile>, range: Range<u64>) -> Reader {
        Reader::new(vec![Segment::File(FilePart::new(file, range))])
    }

    /// What a connection gets that lets the kernel send up to `most` at a time, and how much of it the kernel sends.
    fn sent(reader: &mut Reader, most: u64) -> (Vec<u8>, u64) {
        let (mut bytes, mut by_kernel) = (Vec::new(), 0);
        while reader.left() > 0 {
            let before = reader.left();
            match reader.sendable(most) {
                Some(part) => {
                    let mut part = part.unwrap();
                    assert!(part.left() <= most && part.left() > 0);
                    assert_eq!(reader.left(), before - part.left());
                    while part.left() > 0 {
                        let mut piece = vec![0; usize::try_from(part.left().min(50_000)).unwrap()];
                        let count = rustix::io::pread(part.file(), &mut piece, part.offset()).unwrap();
                        bytes.extend_from_slice(&piece[..count]);
                        part.sent(count as u64);
                        by_kernel += count as u64;
                    }
                }
                None => bytes.extend_from_slice(&reader.read().unwrap().unwrap()),
            }
        }
        assert!(reader.read().is_none() && reader.sendable(most).is_none());
        (bytes, by_kernel)
    }

    #[track_caller]
    fn check(range: Range<u64>, most: u64, by_kernel: u64) {
        let (file, opened) = open(SIZE);
        let mut expected = vec![0; usize::try_from(range.end - range.start).unwrap()];
        file.read_exact_at(&mut expected, range.start).unwrap();
        let (bytes, count) = sent(&mut reader(&opened, range.clone()), most);
        assert!(bytes == expected, "{range:?} {most}");
        assert_eq!(count, by_kernel, "{range:?} {most}");
    }

    #[test]
    fn the_kernel_sends_all_but_the_tail() {
        check(0..SIZE, u64::MAX, SIZE - TAIL);
        check(0..SIZE, 1 << 20, SIZE - TAIL);
        check(5..SIZE - 7, 1 << 20, SIZE - 12 - TAIL);
        check(0..MIN_PART + TAIL, 1 << 20, MIN_PART);
        // What is left behind three parts is less than the kernel is asked for.
        check(0..3 * MIN_PART + TAIL + 1, MIN_PART, 3 * MIN_PART);
    }

    #[test]
    fn what_is_small_or_paced_is_read() {
        check(0..MIN_PART + TAIL - 1, 1 << 20, 0);
        check(0..SIZE, MIN_PART - 1, 0);
    }

    #[test]
    fn the_last_part_says_so() {
        let (_, opened) = open(SIZE);
        let mut reader = reader(&opened, 0..SIZE);
        let mut last = Vec::new();
        while let Some(part) = reader.sendable(1 << 20) {
            last.push(part.unwrap().is_last());
        }
        assert_eq!(last, [false, false, true]);
        assert_eq!(reader.left(), TAIL);
    }

    #[test]
    fn several_parts_of_a_file_each_have_a_tail() {
        let (_, opened) = open(SIZE);
        let part = |range| Segment::File(FilePart::new(&opened, range));
        let segments = vec![part(0..1 << 20), Segment::Here("between".into()), part(1 << 20..SIZE)];
        let (bytes, by_kernel) = sent(&mut Reader::new(segments), u64::MAX);
        assert_eq!((bytes.len() as u64, by_kernel), (SIZE + 7, SIZE - 2 * TAIL));
    }

    #[test]
    fn nothing_more_comes_of_a_file_that_has_changed() {
        let (mut file, opened) = open(SIZE);
        let [mut early, mut late, mut read] = [(); 3].map(|()| reader(&opened, 0..SIZE));
        early.sendable(1 << 20).unwrap().unwrap();
        late.sendable(u64::MAX).unwrap().unwrap();
        let refused = read.sendable(1 << 20).unwrap().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"edited").unwrap();
        assert!(matches!(early.sendable(1 << 20), Some(Err(Changed::Changed))), "the next part");
        assert!(matches!(late.read(), Some(Err(Changed::Changed))), "the tail");
        assert!(matches!(refused.read(), Err(Changed::Changed)), "what the kernel does not send");
    }

    #[test]
    fn what_the_kernel_refuses_is_read_from_then_on() {
        let (file, opened) = open(SIZE);
        let mut reader = reader(&opened, 0..SIZE);
        let mut part = reader.sendable(1 << 20).unwrap().unwrap();
        part.sent(1000);
        let mut expected = vec![0; (1 << 20) - 1000];
        file.read_exact_at(&mut expected, 1000).unwrap();
        assert_eq!(part.read().unwrap(), expected);
        assert!(reader.sendable(1 << 20).is_none());
        assert_eq!(sent(&mut reader, 1 << 20).1, 0);
        assert_eq!(sent(&mut self::reader(&opened, 0..SIZE), 1 << 20).1, 0, "by others, too");
    }

    #[test]
    fn what_is_cached_is_not_loaded() {
        let (_, opened) = open(SIZE);
        let mut reader = reader(&opened, 0..SIZE);
        assert!(reader.cold(1 << 20).is_none());
        assert!(Reader::new(vec![Segment::Here("here".into())]).cold(1).is_none());
    }

    /// A file system that has no disk below it has every file in memory.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_on_the_disk_is_loaded_once() {
        use rustix::fs::{Advice, fadvise};

        const LARGE: u64 = LOADED_AT_ONCE + (2 << 20);
        let (file, opened) = open(LARGE);
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        if opened.is_cached(LARGE - 1) {
            assert!(rustix::fs::statfs("/tmp").is_ok_and(|fs| fs.f_type == 0x0102_1994), "tmpfs keeps its pages");
            return;
        }
        let mut reader = reader(&opened, 0..LARGE);
        let cold = reader.cold(1 << 20).unwrap();
        assert_eq!(cold.range, 0..LOADED_AT_ONCE);
        assert!(reader.cold(1 << 20).is_none(), "it is asked for once");
        cold.load();
        assert!((0..LOADED_AT_ONCE / PIECE).all(|piece| opened.is_cached(piece * PIECE)));
        let mut given = 0;
        while given < LOADED_AT_ONCE {
            given += reader.sendable(1 << 20).unwrap().unwrap().left();
            if given < LOADED_AT_ONCE {
                assert!(reader.cold(1 << 20).is_none(), "{given}");
            }
        }
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert_eq!(reader.cold(1 << 20).unwrap().range, LOADED_AT_ONCE..LARGE);
    }
}
