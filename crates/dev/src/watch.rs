//! The files of a project, watched on a thread of its own.
//!
//! ```text
//!  kernel ─ events ─▶ queue ─▶ thread: ignored? ─▶ Began, at once ─▶ nothing for some milliseconds ─▶ Settled
//! ```
//! Each folder has a watch of its own, so that nothing is watched that does not count: one folder of dependencies may
//! have more files than a project.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::ignore::Ignore;
use crate::settle::{Left, Settle};
use crate::walk::{MAX_FOLDERS, is_environment, walk};

/// Events that wait for the thread; when there are more, everything counts as changed.
const MAX_EVENTS: usize = 4096;
/// Most paths that are named of one save.
const MAX_NAMED: usize = 32;

/// What becomes of files.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// A file changes, and more may follow at once. Its path; that of the project's folder if it is not known.
    Began(PathBuf),
    /// Nothing has changed any more for [`QUIET`](crate::QUIET) at most: these have, the first of them if there are
    /// many.
    Settled(BTreeSet<PathBuf>),
    /// Changes below some folder are not seen, for this reason.
    Blind(String),
}

/// Why files cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The system lets this user watch no more.
    #[error(
        "{} cannot be watched: the system's limit of watches is reached; raise it with \
         `sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=1024`, or leave folders out with --ignore", folder.display()
    )]
    SystemLimit {
        /// The folder.
        folder: PathBuf,
    },
    /// The project has too many folders.
    #[error("{} has more than {MAX_FOLDERS} folders; leave some out with --ignore, or in .gitignore", root.display())]
    TooManyFolders {
        /// The project's folder.
        root: PathBuf,
    },
    /// Anything else.
    #[error("{} cannot be watched: {source}", folder.display())]
    Refused {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: notify::Error,
    },
    /// The thread was refused.
    #[error("the thread that watches files cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

/// A watch, which ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    stop: SyncSender<Option<Event>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Where the queue is full, the thread goes on until the process ends, which is soon.
        let _ = self.stop.try_send(None);
    }
}

impl Watch {
    /// Watches the files below `root` that `ignore` does not leave out, and tells `on` of their changes.
    ///
    /// # Errors
    /// A folder cannot be watched, or the thread is refused.
    pub fn start(root: &Path, ignore: Ignore, on: impl FnMut(Change) + Send + 'static) -> Result<Self, WatchError> {
        let (queue, events) = sync_channel(MAX_EVENTS);
        let (sender, lost) = (queue.clone(), Arc::new(AtomicBool::new(false)));
        let loses = Arc::clone(&lost);
        let handler = move |event: notify::Result<Event>| {
            // An error is one of reading events: what was missed is not known.
            let event = event.unwrap_or_else(|_| Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan));
            if counts(&event) && sender.try_send(Some(event)).is_err() {
                loses.store(true, Ordering::Relaxed); // what waits in the queue has the thread look
            }
        };
        let refused = |source| refused(root, source);
        let watcher = notify::recommended_watcher(handler).map_err(refused)?;
        let mut watching = Watching {
            root: root.to_owned(),
            ignore,
            watcher,
            lost,
            folders: 0,
            settle: Settle::default(),
            on,
            named: BTreeSet::new(),
        };
        watching.add(root)?;
        let run = move || watching.run(&events);
        std::thread::Builder::new().name("files".into()).spawn(run).map_err(WatchError::Thread)?;
        Ok(Self { stop: queue })
    }
}

/// Whether an event can be a change. Reading a file is none, and so is a change of its permissions or its times; a file
/// that was opened for writing is, so that `touch` is.
fn counts(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => false,
        EventKind::Other => event.need_rescan(),
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) => true,
    }
}

/// What an event says of its file.
fn left(kind: EventKind) -> Left {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => Left::Whole,
        _ => Left::Part, // what is removed may be written anew
    }
}

fn refused(folder: &Path, source: notify::Error) -> WatchError {
    const EMFILE: i32 = 24;
    const ENOSPC: i32 = 28;
    let is_limit = match &source.kind {
        ErrorKind::MaxFilesWatch => true,
        ErrorKind::Io(error) => matches!(error.raw_os_error(), Some(EMFILE | ENOSPC)),
        _ => false,
    };
    let folder = folder.to_owned();
    if is_limit { WatchError::SystemLimit { folder } } else { WatchError::Refused { folder, source } }
}

struct Watching<F> {
    root: PathBuf,
    ignore: Ignore,
    watcher: RecommendedWatcher,
    /// An event had no room.
    lost: Arc<AtomicBool>,
    folders: usize,
    settle: Settle,
    /// What has changed in the save that goes on.
    named: BTreeSet<PathBuf>,
    on: F,
}

impl<F: FnMut(Change)> Watching<F> {
    fn run(mut self, events: &Receiver<Option<Event>>) {
        loop {
            let event = match self.settle.over_at() {
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => events.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Some(event)) => self.event(event),
                Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.settle.take_over(Instant::now()) {
                (self.on)(Change::Settled(std::mem::take(&mut self.named)));
            }
        }
    }

    fn event(&mut self, event: Event) {
        if event.need_rescan() || self.lost.swap(false, Ordering::Relaxed) {
            let root = self.root.clone();
            if let Err(error) = self.add(&root) {
                (self.on)(Change::Blind(error.to_string()));
            }
            return self.changed(root, Left::Part);
        }
        let left = left(event.kind);
        let may_be_folder = matches!(
            event.kind,
            EventKind::Any
                | EventKind::Create(CreateKind::Any | CreateKind::Folder)
                | EventKind::Modify(ModifyKind::Name(_))
        );
        for path in event.paths {
            let Ok(relative) = path.strip_prefix(&self.root) else { continue };
            if may_be_folder && path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                self.folder_came(&path);
            } else if !self.ignore.ignores_file(relative) && relative != Path::new("") {
                self.changed(path, left);
            }
        }
    }

    /// A new folder, in which files may be already.
    fn folder_came(&mut self, folder: &Path) {
        let relative = folder.strip_prefix(&self.root).unwrap_or(folder);
        if self.ignore.ignores_folder(relative) || is_environment(folder) {
            return;
        }
        match self.add(folder) {
            Ok(Some(file)) => self.changed(file, Left::Part),
            Ok(None) => {}
            Err(error) => (self.on)(Change::Blind(error.to_string())),
        }
    }

    fn changed(&mut self, path: PathBuf, left: Left) {
        self.settle.changed(Instant::now(), left);
        if self.named.len() < MAX_NAMED && self.named.insert(path.clone()) {
            (self.on)(Change::Began(path));
        }
    }

    /// Watches a folder and those below it; gives out a file that is there already.
    fn add(&mut self, folder: &Path) -> Result<Option<PathBuf>, WatchError> {
        let room = if folder == self.root { MAX_FOLDERS } else { MAX_FOLDERS.saturating_sub(self.folders) };
        // Watched before the second look, so that a file that is written meanwhile is seen by one of the two.
        let below = walk(&self.root, folder, &self.ignore, room);
        if below.has_more {
            return Err(WatchError::TooManyFolders { root: self.root.clone() });
        }
        for folder in &below.folders {
            match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => {}
                Err(error) if matches!(error.kind, ErrorKind::PathNotFound) => {} // it has gone again
                Err(error) => return Err(refused(folder, error)),
            }
        }
        self.folders = if folder == self.root { 0 } else { self.folders } + below.folders.len();
        Ok(walk(&self.root, folder, &self.ignore, room).file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(20);

    fn watched(root: &Path) -> (Watch, Receiver<Change>) {
        let (tell, told) = channel();
        let watch = Watch::start(root, Ignore::default(), move |change| drop(tell.send(change))).unwrap();
        (watch, told)
    }

    /// The names of the next save.
    fn save(root: &Path, told: &Receiver<Change>) -> Vec<String> {
        let mut begun = BTreeSet::new();
        loop {
            match told.recv_timeout(LIMIT).unwrap() {
                Change::Began(path) => {
                    begun.insert(path);
                }
                Change::Settled(paths) => {
                    assert_eq!(paths, begun);
                    let name = |path: &PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                    return paths.iter().map(name).collect();
                }
                Change::Blind(why) => panic!("{why}"),
            }
        }
    }

    #[test]
    fn saves_of_every_kind_are_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("src")).unwrap();
        fs::write(root.join("src/a.py"), "1").unwrap();
        let (_watch, told) = watched(&root);
        fs::write(root.join("src/a.py"), "2").unwrap();
        assert_eq!(save(&root, &told), ["src/a.py"]);
        // As editors do: beside it, then in its place.
        fs::write(root.join("src/a.py~"), "3").unwrap();
        fs::rename(root.join("src/a.py~"), root.join("src/a.py")).unwrap();
        assert_eq!(save(&root, &told), ["src/a.py"]);
        // What does not count is not told; the next that does is.
        fs::write(root.join("app.log"), "line").unwrap();
        fs::create_dir(root.join("node_modules")).unwrap();
        fs::write(root.join("node_modules/x.js"), "").unwrap();
        fs::read(root.join("src/a.py")).unwrap();
        fs::write(root.join("b.py"), "1").unwrap();
        assert_eq!(save(&root, &told), ["b.py"]);
        fs::remove_file(root.join("b.py")).unwrap();
        assert_eq!(save(&root, &told), ["b.py"]);
    }

    #[test]
    fn folders_that_come_later_are_watched_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (_watch, told) = watched(&root);
        fs::create_dir_all(root.join("new/deep")).unwrap();
        fs::write(root.join("new/deep/a.py"), "1").unwrap();
        while !save(&root, &told).contains(&"new/deep/a.py".to_owned()) {}
        while told.recv_timeout(Duration::from_millis(100)).is_ok() {} // what the same save told twice
        fs::write(root.join("new/deep/a.py"), "2").unwrap();
        assert_eq!(save(&root, &told), ["new/deep/a.py"]);
    }

    #[test]
    fn limits_of_the_system_are_named() {
        let error = refused(Path::new("/x"), notify::Error::new(ErrorKind::MaxFilesWatch));
        assert!(error.to_string().contains("fs.inotify.max_user_watches"), "{error}");
        let error = refused(Path::new("/x"), notify::Error::io(std::io::Error::from_raw_os_error(24)));
        assert!(matches!(error, WatchError::SystemLimit { .. }));
    }
}
