//! Files below a folder, opened so that the kernel does not leave the folder.
//!
//! Linux has `openat2` with `RESOLVE_BENEATH`: symbolic links that stay below the folder are followed, all others, and
//! `..` and links of `/proc`, are refused in one step, whatever is renamed meanwhile. Where the kernel, or a filter of
//! system calls, has no `openat2`, and on other systems, each name is opened by itself below the one before, and no
//! symbolic link is followed at all.
//!
//! Links may lead to folders that the operator names. Where one leads is asked first; then the file is opened anew,
//! below the folder that it is in, so that a change in between leads nowhere else.
//!
//! Nothing here waits: `O_NONBLOCK` opens a FIFO without a writer, and what is no regular file is closed again.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, openat};
use rustix::io::Errno;

use crate::private::is_private;

/// How what is read is opened.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Tries of `openat2`, which says `EAGAIN` when something was renamed while it looked for a link's target.
#[cfg(target_os = "linux")]
const MAX_TRIES: usize = 8;

/// A folder, open.
pub(crate) struct Root {
    folder: OwnedFd,
    way: Way,
    path: PathBuf,
    /// Folders that links may lead to, without links themselves.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "no link is followed there"))]
    links: Vec<PathBuf>,
}

/// How files below a folder are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `openat2` with `RESOLVE_BENEATH`.
    #[cfg(target_os = "linux")]
    Beneath,
    /// Name by name, without links.
    NameByName,
}

/// What a path leads to.
#[derive(Debug)]
pub(crate) enum Opened {
    /// With what is known of it.
    File(OwnedFd, Box<Stat>),
    Folder(OwnedFd),
}

impl Root {
    /// `links`: folders that symbolic links below it may lead to. Those that are not there lead nowhere.
    pub(crate) fn open(path: &Path, links: &[PathBuf]) -> Result<Self, Errno> {
        let folder = folder(path)?;
        let way = Way::of(&folder);
        let links = links.iter().filter_map(|link| link.canonicalize().ok()).collect();
        Ok(Self { folder, way, path: path.to_owned(), links })
    }

    /// The same by a way that may not be the best one.
    #[cfg(test)]
    pub(crate) fn by(self, way: Way) -> Self {
        Self { way, ..self }
    }

    /// Opens what is there by `names`, which [`crate::target`] has let through.
    ///
    /// # Errors
    /// `NOENT`: nothing, or nothing that is served; `ACCESS`: it must not be read; others as the system gives them.
    pub(crate) fn get(&self, names: &str) -> Result<Opened, Errno> {
        let file = match self.way {
            #[cfg(target_os = "linux")]
            Way::Beneath => match self.beneath(names) {
                Err(Errno::XDEV) if !self.links.is_empty() => self.by_link(names),
                done => done,
            },
            Way::NameByName => self.name_by_name(names),
        };
        let file = file.map_err(|e| match e {
            // Behind a link that leaves the folder, a circle of links, below a file, or no name the system has.
            Errno::XDEV
            | Errno::LOOP
            | Errno::NOTDIR
            | Errno::NAMETOOLONG
            | Errno::INVAL
            | Errno::NXIO
            | Errno::NODEV => Errno::NOENT,
            other => other,
        })?;
        if is_private(&file, || self.path.join(names)) {
            return Err(Errno::NOENT);
        }
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Opened::File(file, Box::new(stat))),
            FileType::Directory => Ok(Opened::Folder(file)),
            _ => Err(Errno::NOENT),
        }
    }

    #[cfg(target_os = "linux")]
    fn beneath(&self, names: &str) -> Result<OwnedFd, Errno> {
        let names = if names.is_empty() { "." } else { names };
        let mut tries = 0;
        loop {
            match beneath(&self.folder, names) {
                Err(Errno::AGAIN) if tries < MAX_TRIES => tries += 1,
                // Links that change too often to be followed.
                Err(Errno::AGAIN) => return Err(Errno::NOENT),
                done => return done,
            }
        }
    }

    /// Opens what is behind a link that leaves the folder, if it is in a folder that links may lead to.
    #[cfg(target_os = "linux")]
    fn by_link(&self, names: &str) -> Result<OwnedFd, Errno> {
        use std::os::fd::AsRawFd as _;

        let there = openat(&self.folder, names, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", there.as_raw_fd()));
        let path = path.map_err(|_| Errno::NOENT)?;
        let below = self.links.iter().find_map(|link| Some((link, path.strip_prefix(link).ok()?)));
        let (link, below) = below.ok_or(Errno::NOENT)?;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        beneath(&folder(link)?, below)
    }

    fn name_by_name(&self, names: &str) -> Result<OwnedFd, Errno> {
        let flags = READ | OFlags::NOFOLLOW;
        let Some((folders, last)) = names.rsplit_once('/') else {
            return openat(&self.folder, if names.is_empty() { "." } else { names }, flags, Mode::empty());
        };
        let mut at: Option<OwnedFd> = None;
        for name in folders.split('/') {
            let folder = at.as_ref().unwrap_or(&self.folder);
            at = Some(openat(folder, name, flags | OFlags::DIRECTORY, Mode::empty())?);
        }
        openat(at.as_ref().unwrap_or(&self.folder), last, flags, Mode::empty())
    }
}

fn folder(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

impl Way {
    #[cfg(target_os = "linux")]
    fn of(folder: &OwnedFd) -> Self {
        if beneath(folder, ".").is_ok() { Self::Beneath } else { Self::NameByName }
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_: &OwnedFd) -> Self {
        Self::NameByName
    }
}

#[cfg(target_os = "linux")]
fn beneath(folder: &OwnedFd, names: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};

    openat2(folder, names, READ, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[derive(Debug, PartialEq)]
    enum Is {
        File,
        Folder,
        Nothing,
    }

    fn ways() -> Vec<Way> {
        vec![
            #[cfg(target_os = "linux")]
            Way::Beneath,
            Way::NameByName,
        ]
    }

    #[track_caller]
    fn check(root: &Path, way: Way, names: &str, expected: &Is) {
        let is = match Root::open(root, &[]).unwrap().by(way).get(names) {
            Ok(Opened::File(..)) => Is::File,
            Ok(Opened::Folder(_)) => Is::Folder,
            Err(Errno::NOENT) => Is::Nothing,
            Err(e) => panic!("{names}: {e}"),
        };
        assert_eq!(is, *expected, "{way:?} {names}");
    }

    #[test]
    fn nothing_outside_and_nothing_special() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/c"), "c").unwrap();
        fs::write(folder.path().join("canary"), "x").unwrap();
        symlink("../canary", root.join("out")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("a/b", root.join("inside")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        for way in ways() {
            check(&root, way, "", &Is::Folder);
            check(&root, way, "a/b/c", &Is::File);
            check(&root, way, "a/b", &Is::Folder);
            for names in
                ["out", "absolute", "up", "up/canary", "circle", "magic/etc/passwd", "fifo", "socket", "a/b/c/d", "no"]
            {
                check(&root, way, names, &Is::Nothing);
            }
            // Only where the kernel can tell that it stays inside.
            let inside = if way == Way::NameByName { Is::Nothing } else { Is::File };
            check(&root, way, "inside/c", &inside);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn links_lead_to_folders_that_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (root, data, other) = (folder.path().join("root"), folder.path().join("data"), folder.path().join("other"));
        for path in [&root, &data.join("conf"), &other] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(data.join("conf/a.css"), "a").unwrap();
        fs::write(other.join("secret"), "x").unwrap();
        symlink(data.join("conf"), root.join("conf")).unwrap();
        symlink(data.join("conf/a.css"), root.join("a.css")).unwrap();
        symlink("../other", data.join("conf/up")).unwrap();
        symlink(&other, root.join("other")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        let by_link = folder.path().join("by-link");
        symlink(&data, &by_link).unwrap();
        for links in [vec![data.clone(), folder.path().join("missing")], vec![by_link]] {
            let root = Root::open(&root, &links).unwrap();
            assert!(matches!(root.get("conf/a.css"), Ok(Opened::File(..))));
            assert!(matches!(root.get("a.css"), Ok(Opened::File(..))));
            assert!(matches!(root.get("conf"), Ok(Opened::Folder(_))));
            for names in ["other/secret", "conf/up/secret", "conf/../../other/secret", "magic/etc/passwd", "conf/no"] {
                assert!(matches!(root.get(names), Err(Errno::NOENT)), "{names}");
            }
        }
        assert!(matches!(Root::open(&root, &[]).unwrap().get("conf/a.css"), Err(Errno::NOENT)));
    }

    /// Ends the other thread however the test ends.
    struct End<'a>(&'a AtomicBool);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }

    /// While files are opened below it, `swap` is by turns a folder and a link to what is outside.
    #[test]
    fn no_rename_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("swap")).unwrap();
        fs::write(root.join("swap/file"), "inside").unwrap();
        fs::write(folder.path().join("file"), "outside").unwrap();
        symlink("..", root.join("link")).unwrap();
        for way in ways() {
            let opened = Root::open(&root, &[]).unwrap().by(way);
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let name = |name: &str| root.join(name);
                    while !done.load(Relaxed) {
                        fs::rename(name("swap"), name("aside")).unwrap();
                        fs::rename(name("link"), name("swap")).unwrap();
                        fs::rename(name("swap"), name("link")).unwrap();
                        fs::rename(name("aside"), name("swap")).unwrap();
                    }
                });
                let _end = End(&done);
                let mut found = 0;
                for _ in 0..20_000 {
                    match opened.get("swap/file") {
                        Ok(Opened::File(file, _)) => {
                            let mut text = [0; 6];
                            assert_eq!(rustix::io::pread(&file, &mut text, 0).unwrap(), 6);
                            assert_eq!(&text, b"inside", "{way:?}");
                            found += 1;
                        }
                        Ok(Opened::Folder(_)) => panic!("{way:?}: a folder"),
                        Err(e) => assert_eq!(e, Errno::NOENT, "{way:?}"),
                    }
                }
                assert!(found > 0, "{way:?}");
            });
        }
    }
}
