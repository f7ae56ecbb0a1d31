//! Which version of a file this is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

/// A file whose last change is no older may change once more within the same tick of the clock, unseen.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// What tells one version of a file from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    device: i128,
    inode: i128,
    pub(crate) size: u64,
    modified_ns: i128,
    /// Changes of attributes as well, and of the modification time itself: no content changes without it.
    changed_ns: i128,
}

impl Version {
    pub(crate) fn of(stat: &Stat) -> Self {
        let ns = |seconds: i128, ns: i128| seconds * 1_000_000_000 + ns;
        Self {
            device: i128::from(stat.st_dev),
            inode: i128::from(stat.st_ino),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: ns(i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec)),
            changed_ns: ns(i128::from(stat.st_ctime), i128::from(stat.st_ctime_nsec)),
        }
    }

    /// The same file in a form of so many bytes.
    pub(crate) fn sized(self, size: usize) -> Self {
        Self { size: size as u64, ..self }
    }

    /// Whether its content was changed before that of the other one.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.modified_ns < other.modified_ns
    }

    /// Whether the content is the same: not so if only its attributes were changed.
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        Self { changed_ns: 0, ..*self } == Self { changed_ns: 0, ..*other }
    }

    /// In whole seconds, as a date in a field has them.
    pub(crate) fn modified(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(u64::try_from(self.modified_ns / 1_000_000_000).unwrap_or(0))
    }

    /// RFC 9110 §8.8.1: a strong validator changes with the content. Size, time and place of a file do so, unless it
    /// was changed so lately that its time may stay the same with the next change.
    pub(crate) fn etag(&self, now: SystemTime) -> String {
        let Self { inode, size, modified_ns, .. } = self;
        let age_ns = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128 - modified_ns;
        let weak = if age_ns < SETTLED_AFTER.as_nanos() as i128 { "W/" } else { "" };
        format!("{weak}\"{modified_ns:x}-{size:x}-{inode:x}\"")
    }
}
