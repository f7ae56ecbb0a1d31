//! Which gateways of this user run, and with which configuration file: each leaves a record in its runtime folder.
//!
//! Commands find their gateway by it. They ask nobody on the way: a gateway of another project may be stuck, and none
//! is to be taken for the one that is meant. The gateway holds a lock on its record for as long as it takes orders; a
//! record that nobody holds was left behind.
//!
//! Invariant: a record is believed only if it and its folder belong to this user or root, and nobody else may write to
//! them.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pilotlight_supervisor::RUNTIME_DIR_PREFIX;
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RawMode, flock, fstat, open, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::runtime_folder;

/// The record's name in the runtime folder.
const RECORD: &str = "gateway.json";
/// Its name until it is whole.
const UNFINISHED: &str = "gateway.json.new";
/// Bytes of a record: three paths, each character of which may be six.
const MAX_RECORD: u64 = 128 * 1024;
/// Bits of a mode that let others write.
const OTHERS_WRITE: RawMode = 0o022;

/// What a gateway says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Its configuration file, as it was named, made absolute.
    pub(crate) config: PathBuf,
    /// The same without symbolic links, as it was when the gateway started.
    canonical: PathBuf,
    pub(crate) pid: u32,
    /// To the second.
    pub(crate) begun: SystemTime,
    /// Its admin socket, unless it has none.
    pub(crate) socket: Option<PathBuf>,
    /// The process that it takes over from.
    replaces: Option<u32>,
}

/// The record of this process; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Presence {
    folder: OwnedFd,
    _locked: File,
}

impl Presence {
    /// Leaves a record in the runtime folder, which is this process's own.
    pub(crate) fn announce(folder: &Path, record: &Record) -> io::Result<Self> {
        let folder = open(folder, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, UNFINISHED, flags, Mode::RUSR | Mode::WUSR)?);
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(record.to_json().to_string().as_bytes())?;
        renameat(&folder, UNFINISHED, &folder, RECORD)?;
        Ok(Self { folder, _locked: file })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = unlinkat(&self.folder, RECORD, AtFlags::empty()); // somebody else may have removed it
    }
}

impl Record {
    /// That of this process.
    pub(crate) fn new(file: &Path, socket: Option<PathBuf>, replaces: Option<u32>) -> io::Result<Self> {
        let config = std::path::absolute(file)?;
        let canonical = config.canonicalize().unwrap_or_else(|_| config.clone());
        Ok(Self { config, canonical, pid: std::process::id(), begun: SystemTime::now(), socket, replaces })
    }

    /// Whether it is the gateway of this file: by its name, under which another file may stand by now, or by the file
    /// that the name means.
    fn is_of(&self, file: &Path) -> bool {
        self.config == file || file.canonicalize().is_ok_and(|canonical| canonical == self.canonical)
    }

    fn to_json(&self) -> Value {
        json!({
            "config": self.config.to_string_lossy(),
            "canonical": self.canonical.to_string_lossy(),
            "pid": self.pid,
            "begun": self.begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            "socket": self.socket.as_ref().map(|socket| socket.to_string_lossy()),
            "replaces": self.replaces,
        })
    }

    fn from_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let number = |name: &str| value[name].as_u64().and_then(|pid| u32::try_from(pid).ok());
        Some(Self {
            config: value["config"].as_str()?.into(),
            canonical: value["canonical"].as_str()?.into(),
            pid: number("pid")?,
            begun: UNIX_EPOCH.checked_add(Duration::from_secs(value["begun"].as_u64()?))?,
            socket: value["socket"].as_str().map(PathBuf::from),
            replaces: number("replaces"),
        })
    }
}

/// The gateways of this user that run: those in the service manager's folder, where it has made one for this process
/// and one runs in it.
pub(crate) fn running() -> Vec<Record> {
    let given = found_in(runtime_folder::given().as_slice());
    let mut all = if given.is_empty() { found_in(&runtime_folder::parents()) } else { given };
    // For a moment there are two: the new one answers as soon as the old one has left.
    let replaced: Vec<u32> = all.iter().filter_map(|record| record.replaces).collect();
    all.retain(|record| !replaced.contains(&record.pid));
    all.sort_by(|a, b| (&a.config, a.pid).cmp(&(&b.config, b.pid)));
    all.dedup_by_key(|record| record.pid);
    all
}

fn found_in(parents: &[PathBuf]) -> Vec<Record> {
    let entries = parents.iter().flat_map(|parent| std::fs::read_dir(parent).into_iter().flatten().flatten());
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(RUNTIME_DIR_PREFIX));
    named.filter_map(|entry| read(&entry.path())).collect()
}

/// Those with this configuration file, and the others.
pub(crate) fn with_file(file: &Path) -> (Vec<Record>, Vec<Record>) {
    running().into_iter().partition(|record| record.is_of(file))
}

/// The record in a folder, if it can be believed and its gateway runs.
fn read(folder: &Path) -> Option<Record> {
    let folder = open(folder, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    is_ours(&folder, FileType::Directory)?;
    // NONBLOCK: a pipe of this name is not waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(&folder, RECORD, flags, Mode::empty()).ok()?);
    is_ours(&file, FileType::RegularFile)?;
    if flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK) {
        return None; // its gateway would hold it
    }
    let mut text = String::new();
    file.take(MAX_RECORD).read_to_string(&mut text).ok()?;
    Record::from_json(&text)
}

fn is_ours(file: impl std::os::fd::AsFd, kind: FileType) -> Option<()> {
    let found = fstat(file).ok()?;
    let is_ours = found.st_uid == geteuid().as_raw() || found.st_uid == 0;
    (is_ours && found.st_mode & OTHERS_WRITE == 0 && FileType::from_raw_mode(found.st_mode) == kind).then_some(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_record_is_there_for_as_long_as_its_gateway() {
        let dir = tempfile::tempdir().unwrap();
        let record = Record::new(Path::new("a.toml"), Some("/s \u{fc}".into()), Some(7)).unwrap();
        let presence = Presence::announce(dir.path(), &record).unwrap();
        let found = read(dir.path()).unwrap();
        let to_the_second = record.begun.duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(found.begun, UNIX_EPOCH + Duration::from_secs(to_the_second));
        assert_eq!(Record { begun: record.begun, ..found }, record);
        assert!(record.is_of(&std::path::absolute("a.toml").unwrap()));
        assert!(!record.is_of(&std::path::absolute("b.toml").unwrap()));
        drop(presence);
        assert_eq!(read(dir.path()), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_left_behind_or_is_open_to_others_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let record = Record::new(Path::new("a.toml"), None, None).unwrap();
        let presence = Presence::announce(dir.path(), &record).unwrap();
        let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        let file = dir.path().join(RECORD);
        for (path, bad, good) in [(dir.path(), 0o777, 0o711), (file.as_path(), 0o622, 0o600)] {
            set(path, bad);
            assert_eq!(read(dir.path()), None);
            set(path, good);
            assert!(read(dir.path()).is_some());
        }
        let text = std::fs::read(&file).unwrap();
        drop(presence);
        std::fs::write(&file, text).unwrap();
        set(&file, 0o600);
        assert_eq!(read(dir.path()), None, "nobody holds it");
    }
}
