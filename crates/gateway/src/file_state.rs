//! How a file that is followed can be told from another state of it.

use std::io;
use std::path::Path;
use std::time::SystemTime;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileState {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl FileState {
    /// To be taken before the file is read: what changes meanwhile is read again.
    pub(crate) fn of(file: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;

        let metadata = std::fs::metadata(file)?;
        Ok(Self { modified: metadata.modified().ok(), length: metadata.len(), inode: metadata.ino() })
    }
}
