//! The bytes of a body, piece by piece.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::fstat;
use rustix::io::{Errno, pread};

use crate::version::Version;

/// Bytes that are read at once: what a worker does for one client before it turns to the others.
const PIECE: u64 = 128 << 10;

/// A file that is open, and the version that it was when it was opened.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: OwnedFd,
    version: Version,
}

impl OpenFile {
    pub(crate) fn new(file: OwnedFd, version: Version) -> Self {
        Self { file, version }
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
    pub(crate) file: Rc<OpenFile>,
    pub(crate) range: Range<u64>,
}

impl Segment {
    fn len(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::File(part) => part.range.end - part.range.start,
        }
    }
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
/// Reading waits for the disk where the page cache does not have a file, for one piece of 128 KiB at a time.
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

    /// The next piece, up to 128 KiB of a file; `None` behind the end.
    ///
    /// # Errors
    /// The rest of it will not come: the answer has to be cut.
    pub fn read(&mut self) -> Option<Result<Bytes, Changed>> {
        let piece = match self.segments.front_mut()? {
            Segment::Here(bytes) => std::mem::take(bytes),
            Segment::File(part) => match part.read() {
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
}

impl FilePart {
    fn read(&mut self) -> Result<Bytes, Changed> {
        let length = (self.range.end - self.range.start).min(PIECE);
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
