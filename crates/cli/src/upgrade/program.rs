//! The program of an upgrade, named in a file of the runtime folder that only the gateway's user writes.
//!
//! Not by the admin interface: who has reached its socket may still not write into this folder, a service in its
//! sandbox for one. Each file has a name of its own that nobody can guess, and is read once.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Uid, fchown, fstat, open, openat, unlinkat};
use rustix::process::geteuid;

/// What the file's name begins with, before the digits that the request to the admin interface has.
const PREFIX: &str = "program-";
/// Bytes of a path.
const MAX_PATH: u64 = 4096;
/// Bits of a mode that let others write.
const OTHERS_WRITE: RawMode = 0o022;

/// A file that names a program; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Named {
    folder: OwnedFd,
    name: String,
}

impl Named {
    /// Writes it, as a file of the user who owns the folder.
    pub(crate) fn write(folder: &Path, program: &Path) -> io::Result<Self> {
        let folder = open_folder(folder)?;
        let name = unguessable()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, format!("{PREFIX}{name}"), flags, Mode::RUSR | Mode::WUSR)?;
        let named = Self { folder, name };
        let owner = fstat(&named.folder)?.st_uid;
        if owner != geteuid().as_raw() {
            fchown(&file, Some(Uid::from_raw(owner)), None)?; // root, for the gateway of somebody else
        }
        File::from(file).write_all(program.as_os_str().as_bytes())?;
        Ok(named)
    }

    /// Its name for the admin interface.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        // The gateway has removed it, unless it was not asked.
        let _ = unlinkat(&self.folder, format!("{PREFIX}{}", self.name), AtFlags::empty());
    }
}

/// The program that the file names, which is removed; or why it is not believed.
pub(crate) fn named(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let file = format!("{PREFIX}{name}");
    read(folder, &file).map_err(|why| {
        format!("the file {}, which is to name the program, is not followed: {why}", folder.join(&file).display())
    })
}

fn read(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let said = |error: io::Error| error.to_string();
    let folder = open_folder(folder).map_err(said)?;
    // NONBLOCK: a pipe of this name is not waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&folder, name, flags, Mode::empty()).map_err(|error| said(error.into()))?;
    let _ = unlinkat(&folder, name, AtFlags::empty()); // whoever wrote it may have removed it
    owned(&folder, "folder")?;
    let mode = owned(&file, "file")?;
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        return Err("it is no file".to_owned());
    }
    let mut path = Vec::new();
    File::from(file).take(MAX_PATH + 1).read_to_end(&mut path).map_err(said)?;
    let path = PathBuf::from(OsString::from_vec(path));
    if path.is_absolute() && path.as_os_str().len() as u64 <= MAX_PATH {
        Ok(path)
    } else {
        Err("what it names is no absolute path".to_owned())
    }
}

/// Its mode, if it belongs to this user and nobody else may write to it.
fn owned(opened: &OwnedFd, what: &str) -> Result<RawMode, String> {
    let found = fstat(opened).map_err(|error| error.to_string())?;
    if found.st_uid != geteuid().as_raw() {
        return Err(format!("the {what} belongs to user id {}", found.st_uid));
    }
    if found.st_mode & OTHERS_WRITE != 0 {
        return Err(format!("others may write to the {what}"));
    }
    Ok(found.st_mode)
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(folder, flags, Mode::empty())?)
}

fn unguessable() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_written_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let program = Path::new("/opt/pilotlight 2");
        let file = Named::write(folder.path(), program).unwrap();
        assert_eq!(named(folder.path(), file.name()).unwrap(), program);
        assert!(named(folder.path(), file.name()).unwrap_err().contains("No such file"));
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
        drop(Named::write(folder.path(), program).unwrap());
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }

    #[track_caller]
    fn check(folder: &Path, name: &str, why: &str) {
        let said = named(folder, name).unwrap_err();
        assert!(said.contains(why), "{said}");
    }

    #[test]
    fn what_others_could_have_written_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(format!("{PREFIX}{name}"));
        std::fs::write(folder.path().join("target"), "/bin/true").unwrap();
        std::os::unix::fs::symlink(folder.path().join("target"), file("link")).unwrap();
        std::fs::write(file("relative"), "bin/true").unwrap();
        std::fs::create_dir(file("folder")).unwrap();
        std::fs::write(file("loose"), "/bin/true").unwrap();
        set_permissions(file("loose"), Permissions::from_mode(0o620)).unwrap();
        check(folder.path(), "link", "symbolic");
        check(folder.path(), "relative", "no absolute path");
        check(folder.path(), "folder", "no file");
        check(folder.path(), "loose", "others may write to the file");
        std::fs::write(file("fine"), "/bin/true").unwrap();
        set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        check(folder.path(), "fine", "others may write to the folder");
    }
}
