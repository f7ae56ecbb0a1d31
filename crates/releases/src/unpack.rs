//! An archive from anybody, unpacked into a folder of its own.
//!
//! Invariant: nothing is written outside of the folder, through a link or otherwise; only files, folders and links are
//! made. A symbolic link may lead anywhere (that of a Python environment leads to the system's Python), and is never
//! followed here.

use flate2::read::MultiGzDecoder;
use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use tar::EntryType;

/// How much an archive may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files, folders and links. Default 500,000.
    pub entries: usize,
    /// Bytes of all files, unpacked. Default 16 GiB.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 500_000, bytes: 16 << 30 }
    }
}

/// What was unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Files, folders and links.
    pub entries: usize,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Why an archive is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// Not an archive, or one that is cut off.
    #[error("the archive cannot be read: {0}; it has to be a tar, also as .tar.gz or .tar.zst")]
    Archive(io::Error),
    /// An archive of another kind.
    #[error("the archive is {0}; make it a tar, a tar.gz or a tar.zst")]
    Kind(&'static str),
    /// There is nothing in it.
    #[error("the archive is empty")]
    Empty,
    /// An entry that leads elsewhere.
    #[error("the archive has {path:?}, which {what}")]
    Entry {
        /// Its path, as the archive has it.
        path: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// More than [`Limits`] allow.
    #[error("the archive has more than {limit} {what}")]
    TooLarge {
        /// The limit.
        limit: u64,
        /// Of what.
        what: &'static str,
    },
    /// It cannot be written.
    #[error("{} cannot be written: {cause}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

/// Unpacks an archive (tar, also compressed with gzip or zstd) into an empty folder that nobody else writes to.
/// Permissions and times are kept; owners, and what lets a program run as somebody else (setuid), are not.
///
/// # Errors
/// The archive is no such archive, has what leads out of the folder, is no file, folder or link, or is there twice, has
/// more than `limits`, or the disk is full. What was unpacked until then is left.
pub fn unpack(archive: impl Read, folder: &Path, limits: Limits) -> Result<Unpacked, UnpackError> {
    let mut archive = BufReader::new(archive);
    let start = archive.fill_buf().map_err(UnpackError::Archive)?;
    match start {
        [] => Err(UnpackError::Empty),
        [0x1f, 0x8b, ..] => Unpacking::new(folder, limits).all(MultiGzDecoder::new(archive)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = zstd::stream::read::Decoder::with_buffer(archive).map_err(UnpackError::Archive)?;
            Unpacking::new(folder, limits).all(decoder)
        }
        [b'P', b'K', ..] => Err(UnpackError::Kind("a zip file")),
        [b'B', b'Z', b'h', ..] => Err(UnpackError::Kind("compressed with bzip2")),
        [0xfd, b'7', b'z', b'X', ..] => Err(UnpackError::Kind("compressed with xz")),
        _ => Unpacking::new(folder, limits).all(archive),
    }
}

/// Bytes of a block, of which zeros end an archive (POSIX.1-2017, pax).
const BLOCK: usize = 512;

/// An archive, and how many zeros its bytes have ended with: one that was cut off between two entries has none.
struct Ending<R> {
    archive: R,
    zeros: usize,
}

impl<R: Read> Read for Ending<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.archive.read(buffer)?;
        let zeros = buffer[..read].iter().rev().take_while(|byte| **byte == 0).count();
        self.zeros = if zeros == read { self.zeros.saturating_add(zeros) } else { zeros };
        Ok(read)
    }
}

struct Unpacking<'a> {
    folder: &'a Path,
    limits: Limits,
    done: Unpacked,
    /// Links, which nothing is written through.
    links: HashSet<PathBuf>,
    /// Folders and their permissions, which are set last: one of them may forbid writing.
    folders: Vec<(PathBuf, u32)>,
}

impl<'a> Unpacking<'a> {
    fn new(folder: &'a Path, limits: Limits) -> Self {
        Self { folder, limits, done: Unpacked::default(), links: HashSet::new(), folders: Vec::new() }
    }

    fn all(mut self, archive: impl Read) -> Result<Unpacked, UnpackError> {
        let mut archive = tar::Archive::new(Ending { archive, zeros: 0 });
        for entry in archive.entries().map_err(UnpackError::Archive)? {
            let mut entry = entry.map_err(UnpackError::Archive)?;
            if entry.header().entry_type() == EntryType::XGlobalHeader {
                continue; // `git archive` names its commit there
            }
            self.one(&mut entry)?;
        }
        // To its end, where what compressed it has its checksum.
        let mut rest = archive.into_inner();
        io::copy(&mut rest.by_ref().take(self.limits.bytes), &mut io::sink()).map_err(UnpackError::Archive)?;
        if rest.zeros < BLOCK && self.done.entries > 0 {
            return Err(UnpackError::Archive(io::ErrorKind::UnexpectedEof.into()));
        }
        for (path, mode) in self.folders.iter().rev() {
            fs::set_permissions(path, Permissions::from_mode(*mode)).map_err(written(path))?;
        }
        if self.done.entries == 0 { Err(UnpackError::Empty) } else { Ok(self.done) }
    }

    fn one(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> Result<(), UnpackError> {
        let shown = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let wrong = |what| UnpackError::Entry { path: shown.clone(), what };
        let path = entry.path().map_err(UnpackError::Archive)?.into_owned();
        let path = relative(&path).map_err(wrong)?;
        if path.as_os_str().is_empty() {
            return Ok(()); // `./`
        }
        self.done.entries += 1;
        if self.done.entries > self.limits.entries {
            return Err(UnpackError::TooLarge { limit: self.limits.entries as u64, what: "entries" });
        }
        if path.ancestors().any(|part| self.links.contains(part)) {
            return Err(wrong("leads through a link of the same archive"));
        }
        let (kind, mode) = (entry.header().entry_type(), entry.header().mode().unwrap_or(0o644) & 0o777);
        let to = self.folder.join(&path);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(written(parent))?;
        }
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => self.file(entry, &to, mode),
            EntryType::Directory => {
                fs::create_dir_all(&to).map_err(written(&to))?;
                self.folders.push((to, mode | 0o700));
                Ok(())
            }
            EntryType::Symlink => {
                let target = entry.link_name().map_err(UnpackError::Archive)?.unwrap_or_default().into_owned();
                symlink(&target, &to).map_err(written(&to))?;
                self.links.insert(path);
                Ok(())
            }
            EntryType::Link => {
                let target = entry.link_name().map_err(UnpackError::Archive)?.unwrap_or_default().into_owned();
                let target = relative(&target).map_err(wrong)?;
                let from = self.folder.join(&target);
                let is_file = fs::symlink_metadata(&from).is_ok_and(|found| found.is_file());
                if target.ancestors().any(|part| self.links.contains(part)) || !is_file {
                    return Err(wrong("is a link to what is no file of the archive"));
                }
                fs::hard_link(&from, &to).map_err(written(&to))
            }
            EntryType::Char | EntryType::Block => Err(wrong("is a device")),
            EntryType::Fifo => Err(wrong("is a named pipe")),
            _ => Err(wrong("is neither a file nor a folder nor a link")),
        }
    }

    fn file(&mut self, entry: &mut tar::Entry<'_, impl Read>, to: &Path, mode: u32) -> Result<(), UnpackError> {
        let left = self.limits.bytes - self.done.bytes;
        if entry.size() > left {
            return Err(UnpackError::TooLarge { limit: self.limits.bytes, what: "bytes" });
        }
        let modified = entry.header().mtime().unwrap_or(0);
        let mut file = File::options().write(true).create_new(true).open(to).map_err(written(to))?;
        let mut limited = entry.take(left + 1);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = match limited.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(UnpackError::Archive(error)),
            };
            io::Write::write_all(&mut file, &buffer[..read]).map_err(written(to))?;
            self.done.bytes += read as u64;
            if self.done.bytes > self.limits.bytes {
                return Err(UnpackError::TooLarge { limit: self.limits.bytes, what: "bytes" });
            }
        }
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(modified)).unwrap_or(UNIX_EPOCH);
        let _ = file.set_modified(at); // a time that the file system does not have is no loss
        file.set_permissions(Permissions::from_mode(mode | 0o600)).map_err(written(to))
    }
}

fn written(path: &Path) -> impl FnOnce(io::Error) -> UnpackError + use<'_> {
    move |cause| UnpackError::Write { path: path.to_owned(), cause }
}

/// The path without `.`, if it stays where it begins.
fn relative(path: &Path) -> Result<PathBuf, &'static str> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err("leads out of the archive"),
            Component::RootDir | Component::Prefix(_) => return Err("is an absolute path"),
        }
    }
    Ok(clean)
}

#[cfg(test)]
mod tests;
