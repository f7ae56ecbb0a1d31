//! Files that an instance gets as memory that has no name: nothing is written to a disk, nothing is to be cleaned up,
//! and nobody else can open it.

use crate::limits::{FIRST_SECRET_FD, MAX_SECRET};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A file's contents, if everybody may not change it; a notice if everybody may read it.
pub(super) fn read(file: &Path, key: &str, notices: &mut Vec<String>) -> Result<Vec<u8>, String> {
    let shown = file.display();
    let failed = |error| format!("{key}: {shown} cannot be read: {error}");
    let mode = fs::metadata(file).map_err(failed)?.permissions().mode();
    if mode & 0o002 != 0 {
        return Err(format!("{key}: everybody may write to {shown}; chmod o-w {shown}"));
    }
    if mode & 0o004 != 0 {
        notices.push(format!("{key}: everybody on this machine may read {shown}; chmod 600 {shown}"));
    }
    let mut content = Vec::new();
    File::open(file).map_err(failed)?.take(MAX_SECRET + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > MAX_SECRET {
        return Err(format!("{key}: {shown} has more than {} KiB", MAX_SECRET / 1024));
    }
    Ok(content)
}

/// The content in memory that nobody can change, as a descriptor that `exec` keeps, and its path.
pub(super) fn hold(name: &str, content: &[u8]) -> Result<(OwnedFd, String), String> {
    let made = || {
        let mut memory = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        memory.write_all(content)?;
        fcntl_add_seals(&memory, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        // Far from 3, which an inherited socket gets.
        let kept = rustix::io::fcntl_dupfd_cloexec(&memory, FIRST_SECRET_FD)?;
        rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty())?;
        Ok(kept)
    };
    let kept = made().map_err(|error: std::io::Error| format!("secrets.{name}: {error}"))?;
    let path = format!("/proc/self/fd/{}", kept.as_raw_fd());
    Ok((kept, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_can_be_read_again_and_again_and_not_be_changed() {
        let (kept, path) = hold("KEY", b"opensesame").unwrap();
        assert!(kept.as_raw_fd() >= FIRST_SECRET_FD);
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read(&path).unwrap()),
            (b"opensesame".to_vec(), b"opensesame".to_vec())
        );
        let mut changed = fs::OpenOptions::new().write(true).open(&path).unwrap();
        assert!(changed.write_all(b"x").is_err());
    }

    #[test]
    fn modes_and_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let mut notices = Vec::new();
        assert!(read(&file, "secrets.KEY", &mut notices).unwrap_err().contains("cannot be read"));
        fs::write(&file, "x").unwrap();
        for (mode, said, allowed) in [(0o600, 0, true), (0o640, 0, true), (0o644, 1, true), (0o606, 0, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            notices.clear();
            let got = read(&file, "secrets.KEY", &mut notices);
            assert_eq!((got.is_ok(), notices.len()), (allowed, said), "{mode:o} {got:?} {notices:?}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, vec![b'x'; MAX_SECRET as usize + 1]).unwrap();
        assert!(read(&file, "secrets.KEY", &mut notices).unwrap_err().contains("more than"));
    }
}
