//! What `sandbox = "strict"` lets a process see of the files of the machine: a mount namespace with a root of its own.
//!
//! ```text
//!  /            a tmpfs, read-only
//!  ├ usr bin …  the system's, as it is
//!  ├ proc       one of its own (root), in which only its own processes are; else the system's
//!  ├ dev        null, zero, full, random, urandom
//!  ├ tmp run …  empty, and closed, except
//!  └ …/dir      its folder, `sandbox_read`, `sandbox_write`, its program, and pipe.sock
//! ```
//! Landlock says what may be done with files; before Linux 7.1 it does not know of connecting to Unix sockets. A socket
//! that has no name here cannot be connected to, whatever its mode.
//!
//! It needs the right to mount: root's, or that of a user namespace of its own, which some systems do not give. Then
//! the process goes on with the files as they are, and says so.

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, Mode};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change, mount_remount,
    move_mount, open_tree, unmount,
};
use rustix::process::{chdir, getgid, getuid, pivot_root, umask};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

/// What every program needs, if it is there. Sockets in them stay within reach: nobody has any there.
const SYSTEM: [&str; 18] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/etc",
    "/sys",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/fd",
    "/proc",
];
/// Where the new root is put together. What is there is no longer needed by its name then: all that is shown is held by
/// descriptor.
const PLACE: &str = "/usr";
/// Links followed on one path.
const MAX_LINKS: usize = 40;
/// Entries of the real root that are shown, closed.
const MAX_ROOT_ENTRIES: usize = 256;

/// Where in a new root what is.
#[derive(Debug, Default)]
struct Plan {
    /// Links on the way, and where they lead.
    links: BTreeSet<(PathBuf, PathBuf)>,
    /// Folders that a path enters only to leave them again (`a/../b`).
    passed: BTreeSet<PathBuf>,
    /// Files and folders, none below another.
    shown: Vec<PathBuf>,
}

/// Whether `/proc` shows the processes of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processes {
    Hidden,
    Listed,
}

/// Gives this process a root in which there is the system and these paths, or says why that cannot be had. A path that
/// is not there is left out. The current folder stays the same, by its name.
pub(super) fn enter(paths: impl IntoIterator<Item = PathBuf>) -> Result<Processes, String> {
    let here = std::env::current_dir().map_err(|error| format!("its folder: {error}"))?;
    let mut plan = Plan::default();
    for path in SYSTEM.iter().map(PathBuf::from).chain(paths) {
        plan.add(&path);
    }
    separate()?;
    let entered = plan.build();
    // Best-effort: where even this fails, `exec` says that there is no such folder.
    let _ = chdir(&here);
    entered
}

/// A mount namespace of its own.
fn separate() -> Result<(), String> {
    let refused = match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => None,
        Err(error) if getuid().is_root() => Some(error),
        Err(_) => in_user_namespace().err(),
    };
    match refused {
        None => mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
            .map_err(|error| format!("mounts may not be changed: {error}")),
        Some(error) => Err(format!("namespaces may not be made: {error}")),
    }
}

fn in_user_namespace() -> nix::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| error.raw_os_error().map_or(nix::Error::EIO, nix::Error::from_raw))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))
}

impl Plan {
    /// Follows the path to where it is, and notes that and the links on the way.
    fn add(&mut self, path: &Path) {
        let mut left: Vec<PathBuf> = components(path);
        let (mut at, mut links) = (PathBuf::from("/"), Vec::new());
        while let Some(next) = left.pop() {
            if next == Path::new("..") {
                self.passed.insert(at.clone());
                at.pop();
                continue;
            }
            let Ok(found) = fs::symlink_metadata(at.join(&next)) else { return };
            if !found.file_type().is_symlink() {
                at.push(next);
                continue;
            }
            let Ok(target) = fs::read_link(at.join(&next)) else { return };
            links.push((at.join(&next), target.clone()));
            // What `/proc` says of this process is of no other one.
            if at.starts_with("/proc") || links.len() > MAX_LINKS {
                break;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(components(&target));
        }
        self.links.extend(links);
        if at != Path::new("/") && !self.shown.iter().any(|shown| at.starts_with(shown)) {
            self.shown.retain(|shown| !shown.starts_with(&at));
            self.shown.push(at);
        }
    }

    /// Makes the new root and goes there. Until the last step nothing has changed for this process but what is at
    /// [`PLACE`].
    fn build(self) -> Result<Processes, String> {
        let trees: Vec<(PathBuf, OwnedFd)> =
            self.shown.iter().filter_map(|path| Some((path.clone(), tree(path).ok()?))).collect();
        let closed = closed_entries();
        let ancestors: Vec<(PathBuf, fs::Metadata)> =
            self.ancestors().into_iter().filter_map(|path| Some((path.clone(), fs::metadata(&path).ok()?))).collect();
        let files = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", PLACE, "tmpfs", files, Some(c"mode=755"))
            .map_err(|error| format!("nothing may be mounted: {error}"))?;
        let mask = umask(Mode::from_raw_mode(0o022));
        let built = self.fill(trees, &closed, &ancestors).and_then(|processes| go().map(|()| processes));
        umask(mask);
        built.map_err(|error| {
            let _ = unmount(PLACE, UnmountFlags::DETACH); // what it hides is wanted again
            format!("a root of its own cannot be made: {error}")
        })
    }

    fn ancestors(&self) -> BTreeSet<PathBuf> {
        let places = self.shown.iter().chain(self.links.iter().map(|(link, _)| link));
        let passed = self.passed.iter().flat_map(|path| path.ancestors());
        places
            .flat_map(|path| path.ancestors().skip(1))
            .chain(passed)
            .filter(|path| *path != Path::new("/"))
            .map(Path::to_owned)
            .collect()
    }

    fn fill(
        &self,
        trees: Vec<(PathBuf, OwnedFd)>,
        closed: &[PathBuf],
        ancestors: &[(PathBuf, fs::Metadata)],
    ) -> io::Result<Processes> {
        let is_covered = |path: &Path| self.shown.iter().any(|shown| path.starts_with(shown));
        for (path, _) in ancestors.iter().filter(|(path, _)| !is_covered(path)) {
            fs::create_dir_all(inside(path))?;
        }
        for (link, target) in self.links.iter().filter(|(link, _)| !is_covered(link)) {
            symlink(target, inside(link))?;
        }
        let mut processes = Processes::Listed;
        for (path, tree) in trees {
            let target = inside(&path);
            let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&tree)?.st_mode);
            if kind == rustix::fs::FileType::Directory {
                fs::create_dir_all(&target)?;
            } else {
                File::create(&target)?;
            }
            if path == Path::new("/proc") && own_proc(&target).is_ok() {
                processes = Processes::Hidden;
                continue;
            }
            move_mount(&tree, "", CWD, &target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        }
        for path in closed.iter().map(|path| inside(path)).filter(|path| !path.exists()) {
            fs::create_dir(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(0o000))?;
        }
        // Folders on the way let pass whom they did before. The innermost first: an outer one may be closed to this
        // process then.
        for (path, found) in ancestors.iter().rev().filter(|(path, _)| !is_covered(path)) {
            if getuid().is_root() {
                chown(inside(path), Some(found.uid()), Some(found.gid()))?;
            }
            fs::set_permissions(inside(path), Permissions::from_mode(found.mode() & 0o777))?;
        }
        Ok(processes)
    }
}

/// A path's components, the last first, without the root.
fn components(path: &Path) -> Vec<PathBuf> {
    let all = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    all.rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

fn inside(path: &Path) -> PathBuf {
    Path::new(PLACE).join(path.strip_prefix("/").unwrap_or(path))
}

/// What is mounted there, and below it.
fn tree(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)
}

/// The folders of the real root.
fn closed_entries() -> Vec<PathBuf> {
    let entries = fs::read_dir("/").into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).take(MAX_ROOT_ENTRIES).collect()
}

/// A `/proc` in which there are only processes that this one could trace, and landlock lets it trace none but those in
/// its sandbox.
fn own_proc(target: &Path) -> rustix::io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", target, "proc", flags, Some(c"hidepid=4"))
}

/// Makes the new root the root, and takes the old one away.
fn go() -> io::Result<()> {
    chdir(PLACE)?;
    pivot_root(".", ".")?; // the old one is on top of the new one
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    mount_remount("/", MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, c"")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_where_they_are_and_links_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("../link/inner", root.join("real/back")).unwrap();
        let mut plan = Plan::default();
        plan.add(&root.join("real/back"));
        assert_eq!(plan.shown, [root.join("real/inner")]);
        assert_eq!(plan.links.len(), 2);
        plan.add(&root.join("missing/folder"));
        plan.add(&root.join("link/inner"));
        assert_eq!(plan.shown, [root.join("real/inner")]);
        plan.add(&root.join("link"));
        assert_eq!(plan.shown, [root.join("real")]);
        assert!(plan.ancestors().contains(&root));
        plan.add(&root.join("real/inner/../../link"));
        assert!(plan.ancestors().contains(&root.join("real/inner")));
        symlink("loop", root.join("loop")).unwrap();
        plan.add(&root.join("loop"));
    }
}
