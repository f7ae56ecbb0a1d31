//! The folder of a service's releases.

use crate::name::Name;
use crate::prune;
use crate::release::{Release, State};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const CURRENT: &str = "current";
const NEXT: &str = ".current-next";
const RELEASES: &str = "releases";
const SERVED: &str = ".served";
const FAILED: &str = ".failed";
const LOCK: &str = ".lock";
const INCOMING: &str = ".incoming-";
/// Bytes of the reason why a release is not used that are kept.
const MAX_REASON: usize = 16 * 1024;

/// The folder of a service's releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Releases {
    folder: PathBuf,
}

/// The right to change a folder of releases, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why nothing may be changed.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else is at it.
    #[error("another deploy or rollback is under way in {}; wait for it", .0.display())]
    Held(PathBuf),
    /// The folder cannot be used.
    #[error("the folder of releases {} cannot be used: {cause}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

/// A folder that is being filled; it is removed when dropped, unless it was made a release.
#[derive(Debug)]
pub struct Incoming {
    path: PathBuf,
    is_placed: bool,
}

impl Incoming {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = fs::remove_dir_all(&self.path); // the next deploy tries again
        }
    }
}

/// The steps in which a release becomes the current one. After each of them `current` leads to the release before or to
/// this one, and all of them can be done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It may be gone back to.
    NoteServed,
    /// Whatever was wrong with it is not.
    ForgetFailure,
    /// A link beside `current`.
    Link,
    /// That link in the place of `current`.
    Replace,
    /// On the disk.
    Sync,
}

const STEPS: [Step; 5] = [Step::NoteServed, Step::ForgetFailure, Step::Link, Step::Replace, Step::Sync];

impl Releases {
    /// Those in this folder, which need not be there yet.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The link to the current release in such a folder.
    #[must_use]
    pub fn link(folder: &Path) -> PathBuf {
        folder.join(CURRENT)
    }

    /// Where a release is.
    #[must_use]
    pub fn dir(&self, name: &Name) -> PathBuf {
        self.folder.join(RELEASES).join(name.as_str())
    }

    /// The current release, if there is one.
    #[must_use]
    pub fn current(&self) -> Option<Name> {
        let target = fs::read_link(Self::link(&self.folder)).ok()?;
        Name::parse(target.file_name()?.to_str()?)
    }

    /// All releases, the newest first.
    ///
    /// # Errors
    /// The folder cannot be read. One that is not there has none.
    pub fn list(&self) -> io::Result<Vec<Release>> {
        let entries = match fs::read_dir(self.folder.join(RELEASES)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().to_str().and_then(Name::parse));
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        let current = self.current();
        Ok(names.into_iter().map(|name| Release { state: self.state(&name, current.as_ref()), name }).collect())
    }

    fn state(&self, name: &Name, current: Option<&Name>) -> State {
        if current == Some(name) {
            State::Current
        } else if let Ok(reason) = fs::read_to_string(self.mark(FAILED, name)) {
            State::Failed(reason)
        } else if self.mark(SERVED, name).exists() {
            State::Served
        } else {
            State::New
        }
    }

    /// The release that a rollback goes to: the newest before the current one that has been the current one.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn previous(&self) -> io::Result<Option<Name>> {
        Ok(prune::previous(&self.list()?).cloned())
    }

    /// Takes the right to change the folder, which is made if need be.
    ///
    /// # Errors
    /// Somebody else has it, or the folder cannot be made or written to.
    pub fn lock(&self) -> Result<Lock, LockError> {
        let failed = |cause| LockError::Folder { path: self.folder.clone(), cause };
        for folder in [RELEASES, SERVED, FAILED] {
            fs::create_dir_all(self.folder.join(folder)).map_err(failed)?;
        }
        let file = File::options().create(true).append(true).open(self.folder.join(LOCK)).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::Held(self.folder.clone())),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// An empty folder for the next release, which nobody takes for one. What earlier deploys have left is removed.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn begin(&self, _lock: &Lock) -> io::Result<Incoming> {
        let releases = self.folder.join(RELEASES);
        for entry in fs::read_dir(&releases)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(INCOMING) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let path = releases.join(format!("{INCOMING}{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Incoming { path, is_placed: false })
    }

    /// Makes a release of what was filled, once all of it is on the disk; returns its name.
    ///
    /// # Errors
    /// The disk is full or broken: there is no new release then.
    pub fn place(&self, mut incoming: Incoming, label: &str) -> io::Result<Name> {
        let newest = self.list()?.into_iter().next().map(|release| release.name);
        let name = Name::new(SystemTime::now(), newest.as_ref(), label);
        fs::set_permissions(&incoming.path, fs::Permissions::from_mode(0o755))?;
        sync(&incoming.path)?;
        fs::rename(&incoming.path, self.dir(&name))?;
        incoming.is_placed = true;
        File::open(self.folder.join(RELEASES))?.sync_all()?;
        Ok(name)
    }

    /// Makes a release the current one, in one step for whoever looks.
    ///
    /// # Errors
    /// The release is not there, or the disk is full or broken: the current release is the one that it was, or this
    /// one.
    pub fn switch(&self, name: &Name) -> io::Result<()> {
        STEPS.into_iter().try_for_each(|step| self.step(step, name))
    }

    fn step(&self, step: Step, name: &Name) -> io::Result<()> {
        match step {
            Step::NoteServed => {
                if !self.dir(name).is_dir() {
                    return Err(io::Error::new(io::ErrorKind::NotFound, format!("the release {name} is not there")));
                }
                File::create(self.mark(SERVED, name)).map(drop)
            }
            Step::ForgetFailure => removed(fs::remove_file(self.mark(FAILED, name))),
            Step::Link => {
                removed(fs::remove_file(self.folder.join(NEXT)))?;
                symlink(Path::new(RELEASES).join(name.as_str()), self.folder.join(NEXT))
            }
            Step::Replace => fs::rename(self.folder.join(NEXT), Self::link(&self.folder)),
            Step::Sync => File::open(&self.folder)?.sync_all(),
        }
    }

    /// Notes why a release is not used.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn note_failure(&self, name: &Name, reason: &str) -> io::Result<()> {
        let end = (0..=reason.len().min(MAX_REASON)).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or(0);
        fs::write(self.mark(FAILED, name), &reason[..end])
    }

    /// Removes releases beyond the newest `keep`, but never the current one, the one to go back to, and those in use;
    /// returns which.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn prune(&self, keep: usize, in_use: &[Name], _lock: &Lock) -> io::Result<Vec<Name>> {
        let surplus = prune::surplus(&self.list()?, keep, in_use);
        for name in &surplus {
            // Out of sight first: half a release is none.
            let trash = self.folder.join(RELEASES).join(format!("{INCOMING}{name}"));
            fs::rename(self.dir(name), &trash)?;
            for marks in [SERVED, FAILED] {
                removed(fs::remove_file(self.mark(marks, name)))?;
            }
            fs::remove_dir_all(&trash)?;
        }
        Ok(surplus)
    }

    fn mark(&self, marks: &str, name: &Name) -> PathBuf {
        self.folder.join(marks).join(name.as_str())
    }
}

/// Writes a folder and all that is below it to the disk.
#[cfg(target_os = "linux")]
fn sync(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

#[cfg(not(target_os = "linux"))]
use sync_each as sync;

/// Writes a folder and all that is below it to the disk, file by file, where no call does so for a file system.
#[cfg(any(test, not(target_os = "linux")))]
fn sync_each(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_each(&entry.path())?;
        } else if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// That it was not there is fine.
fn removed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder {
        releases: Releases,
        _dir: tempfile::TempDir,
    }

    impl Folder {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { releases: Releases::at(&dir.path().join("app")), _dir: dir }
        }

        fn add(&self, label: &str) -> Name {
            let lock = self.releases.lock().unwrap();
            let incoming = self.releases.begin(&lock).unwrap();
            fs::write(incoming.path().join("app"), label).unwrap();
            self.releases.place(incoming, label).unwrap()
        }

        /// What a start would find: nothing, or a whole release.
        fn started(&self) -> Option<String> {
            let link = Releases::link(self.releases.folder());
            fs::symlink_metadata(&link).ok().map(|_| fs::read_to_string(link.join("app")).unwrap())
        }
    }

    #[test]
    fn a_crash_between_any_two_steps_leaves_the_old_release_or_the_new_one() {
        for steps in 0..=STEPS.len() {
            for has_old in [false, true] {
                let folder = Folder::new();
                let old = has_old.then(|| folder.add("old"));
                old.iter().for_each(|old| folder.releases.switch(old).unwrap());
                let new = folder.add("new");
                for step in &STEPS[..steps] {
                    folder.releases.step(*step, &new).unwrap();
                }
                let expected = if steps > 3 { Some("new") } else { has_old.then_some("old") };
                assert_eq!(folder.started().as_deref(), expected, "after {steps} steps");
                folder.releases.switch(&new).unwrap(); // once more, after the crash
                assert_eq!(folder.started().as_deref(), Some("new"));
                assert_eq!(folder.releases.previous().unwrap(), old);
            }
        }
    }

    #[test]
    fn a_crash_while_it_is_filled_leaves_no_release() {
        let folder = Folder::new();
        let lock = folder.releases.lock().unwrap();
        let incoming = folder.releases.begin(&lock).unwrap();
        fs::write(incoming.path().join("half"), "half").unwrap();
        let left = incoming.path().to_owned();
        std::mem::forget(incoming);
        drop(lock);
        assert_eq!(folder.releases.list().unwrap(), []);
        folder.add("next");
        assert!(!left.join("half").exists());
        assert_eq!(folder.releases.list().unwrap().len(), 1);
    }

    #[test]
    fn files_folders_and_links_are_synced_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/file"), "file").unwrap();
        symlink("nowhere", dir.path().join("a/link")).unwrap();
        sync_each(dir.path()).unwrap();
        assert!(sync_each(&dir.path().join("nowhere")).is_err());
    }

    #[test]
    fn only_one_changes_anything_at_a_time() {
        let folder = Folder::new();
        let lock = folder.releases.lock().unwrap();
        assert!(matches!(folder.releases.lock(), Err(LockError::Held(_))));
        drop(lock);
        folder.releases.lock().unwrap();
    }

    #[test]
    fn states_and_what_is_kept() {
        let folder = Folder::new();
        let releases = &folder.releases;
        let names: Vec<Name> = (0..6).map(|number| folder.add(&format!("r{number}"))).collect();
        for name in &names[..4] {
            releases.switch(name).unwrap();
        }
        releases.note_failure(&names[4], "status 500").unwrap();
        let states: Vec<State> = releases.list().unwrap().into_iter().map(|release| release.state).collect();
        let expected = [
            State::New,
            State::Failed("status 500".to_owned()),
            State::Current,
            State::Served,
            State::Served,
            State::Served,
        ];
        assert_eq!(states, expected);
        assert_eq!(releases.previous().unwrap().as_ref(), Some(&names[2]));
        let lock = releases.lock().unwrap();
        let gone = releases.prune(1, &names[..1], &lock).unwrap();
        assert_eq!(
            gone,
            [names[1].clone()],
            "not the current one, the previous one, the one in use, the last that failed"
        );
        assert_eq!(folder.started().as_deref(), Some("r3"));
        releases.switch(&names[4]).unwrap();
        assert_eq!(releases.list().unwrap()[1].state, State::Current, "it has been healthy since");
    }

    #[test]
    fn what_is_not_there_cannot_become_current() {
        let folder = Folder::new();
        let old = folder.add("old");
        folder.releases.switch(&old).unwrap();
        assert!(folder.releases.switch(&Name::parse("nothing").unwrap()).is_err());
        assert_eq!(folder.started().as_deref(), Some("old"));
    }
}
