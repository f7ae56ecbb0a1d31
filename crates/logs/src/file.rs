//! A file that lines are appended to, moved aside when it is full, and opened anew when somebody has moved it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
    max_size: Option<u64>,
}

impl LogFile {
    pub(crate) fn open(path: &Path, max_size: Option<u64>) -> io::Result<Self> {
        let (file, size) = append_to(path)?;
        Ok(Self { path: path.to_owned(), file, size, max_size })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.max_size.is_some_and(|max| self.size + bytes.len() as u64 > max) {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            // If it cannot be moved, the log goes on where it is.
            if std::fs::rename(&self.path, old).is_ok() {
                self.reopen()?;
            }
        }
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.size) = append_to(&self.path)?;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    // Who requested what is not for everybody on this machine.
    let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let mut out = LogFile::open(&path, Some(10)).unwrap();
        for text in ["123456\n", "abc\n", "larger than the limit\n", "x\n"] {
            out.write(text.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x\n");
        assert_eq!(std::fs::read_to_string(folder.path().join("access.log.1")).unwrap(), "larger than the limit\n");
    }

    #[test]
    fn reopening_follows_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let mut out = LogFile::open(&path, None).unwrap();
        out.write(b"1\n").unwrap();
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        out.write(b"2\n").unwrap();
        out.reopen().unwrap();
        out.write(b"3\n").unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("old")).unwrap(), "1\n2\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3\n");
    }
}
