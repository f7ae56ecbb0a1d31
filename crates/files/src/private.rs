//! Folders and files of this process that are never served, whichever folder, link or reload leads to them.
//!
//! They belong to the process, as its keys do, and are only ever added: no route, service or other user of this crate
//! can forget to name them.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Paths without symbolic links.
static PRIVATE: RwLock<Vec<PathBuf>> = RwLock::new(Vec::new());

/// Never serves these folders and what is below them, nor these files. Paths that do not exist yet count as well.
pub fn keep_private(paths: impl IntoIterator<Item = PathBuf>) {
    for path in paths.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        let real = real(&path);
        let mut private = PRIVATE.write().unwrap_or_else(PoisonError::into_inner);
        if !private.contains(&real) {
            private.push(real);
        }
    }
}

/// Whether an open file or folder is private. `path` is where it was looked for, for systems that do not tell.
pub(crate) fn is_private(file: &OwnedFd, path: impl FnOnce() -> PathBuf) -> bool {
    let private = PRIVATE.read().unwrap_or_else(PoisonError::into_inner);
    if private.is_empty() {
        return false;
    }
    let found = path_of(file).unwrap_or_else(|| real(&path()));
    private.iter().any(|private| found.starts_with(private))
}

#[cfg(target_os = "linux")]
fn path_of(file: &OwnedFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;

    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(target_vendor = "apple")]
fn path_of(file: &OwnedFd) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;

    let path = rustix::fs::getpath(file).ok()?;
    Some(std::ffi::OsString::from_vec(path.into_bytes()).into())
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn path_of(_: &OwnedFd) -> Option<PathBuf> {
    None
}

/// A path without the symbolic links of its part that exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match there {
        Some((above, real)) => path.strip_prefix(above).map_or(real.clone(), |rest| real.join(rest)),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::io::Errno;

    use super::*;
    use crate::beneath::{Opened, Root};

    #[test]
    fn nothing_private_is_opened_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("state/authority")).unwrap();
        fs::create_dir_all(root.join("state/authority-of-water")).unwrap();
        fs::write(root.join("state/authority/root.key"), "secret").unwrap();
        fs::write(root.join("state/authority-of-water/page"), "page").unwrap();
        fs::write(root.join("key.pem"), "secret").unwrap();
        symlink("state/authority", root.join("link")).unwrap();
        symlink("key.pem", root.join("other.pem")).unwrap();
        symlink("root", folder.path().join("root-by-link")).unwrap();
        // The first by a path with a link, the last before it exists.
        let by_link = folder.path().join("root-by-link");
        keep_private([by_link.join("state/authority"), root.join("key.pem"), root.join("state/acme"), PathBuf::new()]);
        fs::create_dir(root.join("state/acme")).unwrap();
        fs::write(root.join("state/acme/account"), "secret").unwrap();
        for root in [Root::open(&root, &[]).unwrap(), Root::open(&by_link, &[]).unwrap()] {
            for names in [
                "state/authority",
                "state/authority/root.key",
                "link/root.key",
                "key.pem",
                "other.pem",
                "state/acme/account",
            ] {
                assert_eq!(root.get(names).err(), Some(Errno::NOENT), "{names}");
            }
            assert!(matches!(root.get("state/authority-of-water/page"), Ok(Opened::File(..))));
            assert!(matches!(root.get("state"), Ok(Opened::Folder(_))));
        }
        // A folder of a route that is private itself.
        let below = Root::open(&root.join("state/authority"), &[]).unwrap();
        assert_eq!(below.get("root.key").err(), Some(Errno::NOENT));
    }
}
