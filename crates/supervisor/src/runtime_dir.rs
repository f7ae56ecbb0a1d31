//! The runtime folder: where the sockets of one process are.
//!
//! Invariant: everything about a folder is decided on a descriptor of it, opened without following a link, never on its
//! path: in a folder where everybody may make files (`/tmp`) somebody else may have put another one there, or do so
//! between two looks.

use crate::error::SupervisorError;
use crate::limits::MAX_SOCKET_PATH;
use crate::listener::{bind_unix, remove_file};
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RawMode, Stat, chmodat, fchmod, flock, fstat, mkdirat, open, openat, statat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How the name of every runtime folder begins.
pub const RUNTIME_DIR_PREFIX: &str = "pilotlight-";

/// The listening socket of Pipe/1 in the runtime folder.
const PIPE_SOCKET: &str = "pipe.sock";
/// The file that is locked while a gateway uses the runtime folder.
const LOCK: &str = "lock";
/// The longest file name in the runtime folder, for the check of its length: `s65535-18446744073709551615.sock`.
const LONGEST_NAME: usize = 32;
/// Random bytes in a folder's name.
const NAME_BYTES: usize = 6;
const PRIVATE: RawMode = 0o700;
/// The folder of a gateway with services of other users: they may pass it, and see nothing.
const PASSABLE: RawMode = 0o711;
const PERMISSIONS: RawMode = 0o777;
const GROUP_WRITES: RawMode = 0o020;
const OTHERS_WRITE: RawMode = 0o002;
const STICKY: RawMode = 0o1000;

/// Makes a folder in `parent` that nobody else could have made, with a name that nobody could have guessed.
///
/// # Errors
/// The parent cannot be had, or somebody else could put another folder in the place of the new one.
pub fn make_runtime_dir(parent: &Path) -> io::Result<PathBuf> {
    let parent = &parent.canonicalize()?;
    for folder in parent.ancestors() {
        trusted(folder, &fstat(open(folder, folder_flags() - OFlags::NOFOLLOW, Mode::empty())?)?)?;
    }
    let opened = open(parent, folder_flags(), Mode::empty())?;
    trusted(parent, &fstat(&opened)?)?;
    let mut bytes = [0; NAME_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{RUNTIME_DIR_PREFIX}{digits}");
    mkdirat(&opened, &name, Mode::from_raw_mode(PRIVATE))?;
    let path = parent.join(&name);
    own(&openat(&opened, &name, folder_flags(), Mode::empty())?)?;
    Ok(path)
}

/// Makes a folder of this user for runtime folders, which others may pass, unless it is there.
///
/// # Errors
/// It cannot be made, or something else is there: a link, or what belongs to somebody else.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL.into()) };
    let parent = open(parent, folder_flags() - OFlags::NOFOLLOW, Mode::empty())?;
    let made = mkdirat(&parent, name, Mode::from_raw_mode(PASSABLE));
    if !matches!(made, Ok(()) | Err(Errno::EXIST)) {
        made?;
    }
    let folder = openat(&parent, name, folder_flags(), Mode::empty())?;
    let found = own(&folder)?;
    if made.is_ok() {
        fchmod(&folder, Mode::from_raw_mode(PASSABLE))?; // whatever the umask has left of it
    }
    if found.st_mode & (GROUP_WRITES | OTHERS_WRITE) != 0 {
        return Err(io::Error::other("others may write to it"));
    }
    Ok(())
}

/// Whether somebody else could rename what is in the folder, or put something else there.
fn trusted(path: &Path, found: &Stat) -> io::Result<()> {
    let why = if found.st_uid != 0 && found.st_uid != geteuid().as_raw() {
        format!("belongs to user id {}", found.st_uid)
    } else if found.st_mode & STICKY != 0 {
        return Ok(());
    } else if found.st_mode & OTHERS_WRITE != 0 {
        "may be written to by everybody (mode without the sticky bit)".to_owned()
    } else if found.st_mode & GROUP_WRITES != 0 && found.st_gid != 0 && found.st_gid != getegid().as_raw() {
        format!("may be written to by group id {}", found.st_gid)
    } else {
        return Ok(());
    };
    let advice = "set XDG_RUNTIME_DIR or RUNTIME_DIRECTORY to a folder that only this user may change";
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("somebody else could replace it, because {} {why}; {advice}", path.display()),
    ))
}

/// What is known of a folder that is ours.
fn own(folder: &OwnedFd) -> io::Result<Stat> {
    let found = fstat(folder)?;
    if found.st_uid != geteuid().as_raw() {
        let why = format!("it belongs to user id {}, not to {}", found.st_uid, geteuid().as_raw());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(found)
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// The runtime folder, ours while this exists.
#[derive(Debug)]
pub(crate) struct RuntimeDir {
    path: PathBuf,
    folder: OwnedFd,
    pub(crate) pipe: Option<std::os::unix::net::UnixListener>,
    /// Whether others may reach the pipe's socket.
    has_users: bool,
    _lock: File,
}

impl RuntimeDir {
    pub(crate) fn take(path: &Path) -> Result<Self, SupervisorError> {
        let failed = |what| move |source| SupervisorError::RuntimeDir { path: path.to_owned(), what, source };
        let path = &std::path::absolute(path).map_err(failed("make its path absolute"))?; // services have other folders
        if path.to_str().is_none() {
            let source = io::Error::other("its path is not UTF-8; choose another one");
            return Err(failed("put it into PILOTLIGHT_SOCKET")(source));
        }
        let length = path.as_os_str().len() + 1 + LONGEST_NAME;
        if length > MAX_SOCKET_PATH {
            return Err(SupervisorError::PathTooLong { path: path.to_owned(), length });
        }
        let folder = create(path).map_err(failed("create it"))?;
        // It may have been there before, with any mode; who can reach the sockets can only try tokens, but need not.
        make_private(&folder).map_err(failed("make it private (mode 0700)"))?;
        let lock = lock(&folder).map_err(failed("lock it"))?;
        let lock = lock.ok_or_else(|| SupervisorError::InUse { path: path.to_owned() })?;
        remove_sockets(path).map_err(failed("remove sockets that an earlier gateway left in it"))?;
        let pipe = bind_unix(&path.join(PIPE_SOCKET)).map_err(failed("bind pipe.sock in it"))?;
        pipe.set_nonblocking(true).map_err(failed("prepare pipe.sock in it"))?;
        Ok(Self { path: path.to_owned(), folder, pipe: Some(pipe), has_users: false, _lock: lock })
    }

    /// Lets services of other users reach the pipe's socket; who connects is looked at (P-4).
    pub(crate) fn admit_users(&mut self) -> io::Result<()> {
        if self.has_users {
            return Ok(());
        }
        if let Some(closed) = self.path.ancestors().skip(1).find(|folder| !everybody_may_pass(folder)) {
            let (path, closed) = (self.path.display(), closed.display());
            return Err(io::Error::other(format!(
                "its user could not reach the socket in {path}, because others may not pass {closed}; restart Pilotlight, which will choose another folder"
            )));
        }
        // In a folder that nobody else may change yet.
        chmodat(&self.folder, PIPE_SOCKET, Mode::from_raw_mode(0o666), AtFlags::empty())?;
        fchmod(&self.folder, Mode::from_raw_mode(PASSABLE))?;
        self.has_users = true;
        Ok(())
    }

    pub(crate) fn pipe_path(&self) -> PathBuf {
        self.path.join(PIPE_SOCKET)
    }

    pub(crate) fn socket_path(&self, service: usize, number: u64) -> PathBuf {
        self.path.join(format!("s{service}-{number}.sock"))
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        remove_file(&self.pipe_path());
        remove_file(&self.path.join(LOCK));
        // Fails if somebody else put a file into it: then it is not ours to remove.
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// The folder, made unless it is there.
fn create(path: &Path) -> io::Result<OwnedFd> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL.into()) };
    let parent = open(parent, folder_flags() - OFlags::NOFOLLOW, Mode::empty())?;
    match mkdirat(&parent, name, Mode::from_raw_mode(PRIVATE)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(openat(&parent, name, folder_flags(), Mode::empty())?)
}

fn make_private(folder: &OwnedFd) -> io::Result<()> {
    if own(folder)?.st_mode & PERMISSIONS != PRIVATE {
        fchmod(folder, Mode::from_raw_mode(PRIVATE))?;
    }
    Ok(())
}

fn everybody_may_pass(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
}

/// A gateway that was killed could not remove its own.
fn remove_sockets(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_socket() {
            remove_file(&entry.path());
        }
    }
    Ok(())
}

/// Locks its file; `None` if somebody else holds it.
fn lock(folder: &OwnedFd) -> io::Result<Option<File>> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = File::from(openat(folder, LOCK, flags, Mode::RUSR | Mode::WUSR)?);
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        // Its last holder may have removed the file between `open` and `flock`; a lock on a removed file locks nobody
        // out.
        Ok(()) => match statat(folder, LOCK, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(now) if now.st_ino == lock.metadata()?.ino() => Ok(Some(lock)),
            _ => Ok(None),
        },
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> RawMode {
        rustix::fs::stat(path).unwrap().st_mode & PERMISSIONS
    }

    #[test]
    fn runtime_dir_is_private_exclusive_and_removed() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("run");
        let first = RuntimeDir::take(&path).unwrap();
        assert_eq!(mode(&path), PRIVATE);
        assert!(matches!(RuntimeDir::take(&path), Err(SupervisorError::InUse { .. })));
        drop(bind_unix(&first.socket_path(0, 1)).unwrap());
        drop(first);
        assert!(path.exists(), "a socket is left in it");
        drop(RuntimeDir::take(&path).unwrap());
        assert!(!path.exists());
        let long = temp.path().join("x".repeat(100));
        assert!(matches!(RuntimeDir::take(&long), Err(SupervisorError::PathTooLong { .. })));
        let file = temp.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = RuntimeDir::take(&file).unwrap_err();
        assert!(matches!(error, SupervisorError::RuntimeDir { what: "create it", .. }), "{error}");
    }

    #[test]
    fn a_link_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let (target, link) = (temp.path().join("target"), temp.path().join("link"));
        create_dir(&target).unwrap();
        set_permissions(&target, Permissions::from_mode(0o755)).unwrap();
        symlink(&target, &link).unwrap();
        assert!(matches!(RuntimeDir::take(&link), Err(SupervisorError::RuntimeDir { what: "create it", .. })));
        assert!(make_private_folder(&link).is_err());
        assert_eq!(mode(&target), 0o755);
    }

    #[test]
    fn made_folders_have_names_of_their_own_in_parents_that_nobody_else_changes() {
        let temp = tempfile::tempdir().unwrap();
        let (one, two) = (make_runtime_dir(temp.path()).unwrap(), make_runtime_dir(temp.path()).unwrap());
        assert_ne!(one, two);
        assert_eq!(mode(&one), PRIVATE);
        let parent = temp.path().join("parent");
        make_private_folder(&parent).unwrap();
        make_private_folder(&parent).unwrap();
        assert_eq!(mode(&parent), PASSABLE);
        set_permissions(&parent, Permissions::from_mode(0o777)).unwrap();
        let error = make_runtime_dir(&parent).unwrap_err().to_string();
        assert!(error.contains("everybody") && error.contains("XDG_RUNTIME_DIR"), "{error}");
        assert!(make_private_folder(&parent).is_err());
        set_permissions(&parent, Permissions::from_mode(0o1777)).unwrap();
        make_runtime_dir(&parent).unwrap();
    }
}
