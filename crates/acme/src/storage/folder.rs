//! A folder: `accounts/`, `certificates/`, `challenges/` with a file for each item, `locks/`.
//!
//! Invariant: only its owner may enter it (0700), and a file (0600) is replaced as a whole: written beside it,
//! synced, renamed, and its folder synced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::interface::{Item, Lease, Pending, Storage, StorageError};
use crate::certificate::MAX_PAIR;

/// Others may not enter, nor read.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// No validation and no write takes longer.
const LEFT_TIME: Duration = Duration::from_secs(3600);
/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;

/// A folder of this machine.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or others may enter it.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let folder = Self { path: path.to_owned() };
        for part in ["accounts", "certificates", "challenges", "locks"] {
            make(&path.join(part))?;
        }
        let found = fs::metadata(path).map_err(failed(path))?;
        let mode = found.mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(StorageError::Open { path: path.to_owned(), mode });
        }
        folder.forget_old();
        Ok(folder)
    }

    /// What a gateway left behind that ended during a validation, or while it wrote.
    fn forget_old(&self) {
        let files = |part: &str| fs::read_dir(self.path.join(part)).into_iter().flatten().flatten();
        let is_unfinished = |file: &fs::DirEntry| file.file_name().as_encoded_bytes().starts_with(b".");
        let unfinished = files("accounts").chain(files("certificates")).filter(is_unfinished);
        let age = |file: &fs::DirEntry| file.metadata().ok()?.modified().ok()?.elapsed().ok();
        for file in unfinished.chain(files("challenges")).filter(|file| age(file) > Some(LEFT_TIME)) {
            let _ = fs::remove_file(file.path()); // another gateway may have done it
        }
    }

    fn file(&self, item: &Item) -> PathBuf {
        match item {
            Item::Account(digest) => self.path.join("accounts").join(format!("{digest}.json")),
            Item::Certificate(name) => self.path.join("certificates").join(format!("{name}.pem")),
            Item::Challenge(token) => self.path.join("challenges").join(token.to_string()),
        }
    }

    fn lock_file(&self, item: &Item) -> PathBuf {
        let name = match item {
            Item::Account(digest) => format!("account-{digest}"),
            Item::Certificate(name) => format!("certificate-{name}"),
            Item::Challenge(token) => format!("challenge-{token}"),
        };
        self.path.join("locks").join(name)
    }
}

fn make(path: &Path) -> Result<(), StorageError> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path).map_err(failed(path))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> StorageError {
    let path = path.to_owned();
    move |cause| StorageError::Folder { path: path.clone(), cause }
}

impl Storage for Folder {
    fn read<'a>(&'a self, item: &'a Item) -> Pending<'a, Option<Vec<u8>>> {
        let path = self.file(item);
        blocking(move || {
            let mut bytes = Vec::new();
            match File::open(&path) {
                Ok(file) => file.take(MAX_PAIR as u64).read_to_end(&mut bytes).map_err(failed(&path))?,
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(failed(&path)(e)),
            };
            Ok(Some(bytes))
        })
    }

    fn write<'a>(&'a self, item: &'a Item, bytes: Vec<u8>) -> Pending<'a, ()> {
        let path = self.file(item);
        blocking(move || replace(&path, &bytes).map_err(failed(&path)))
    }

    fn remove<'a>(&'a self, item: &'a Item) -> Pending<'a, ()> {
        let path = self.file(item);
        blocking(move || match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(&path)(e)),
            _ => Ok(()),
        })
    }

    /// The lock file stays: were it removed, two gateways could hold two files of one name. The system lets go of the
    /// lock with the process, however that ends.
    fn lease<'a>(&'a self, item: &'a Item) -> Pending<'a, Option<Box<dyn Lease>>> {
        let path = self.lock_file(item);
        blocking(move || {
            let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
            let file = opened.map_err(failed(&path))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(Box::new(Locked(file)) as Box<dyn Lease>)),
                Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
                Err(e) => Err(failed(&path)(e.into())),
            }
        })
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// A locked file.
struct Locked(#[expect(dead_code, reason = "it is locked for as long as it is open")] File);

impl Lease for Locked {
    fn keep(&mut self) -> Pending<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(self: Box<Self>) -> Pending<'static, ()> {
        drop(self);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Away from the event loop: a disk may take its time.
fn blocking<'a, T: Send + 'static>(work: impl FnOnce() -> Result<T, StorageError> + Send + 'static) -> Pending<'a, T> {
    Box::pin(async { tokio::task::spawn_blocking(work).await.unwrap_or(Err(StorageError::Gone)) })
}

/// A reader sees all of the old file or all of the new one, even after a power cut.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(io::Error::other)?;
    let beside = folder.join(format!(".{:016x}", u64::from_ne_bytes(number)));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside); // it may not have been made, or have its name already
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::name::{Name, Reach};

    fn item() -> Item {
        Item::Certificate(Name::of_host("a.example.org", Reach::Public).unwrap())
    }

    #[tokio::test]
    async fn what_is_written_is_there_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acme");
        let folder = Folder::open(&path).unwrap();
        assert_eq!(folder.read(&item()).await.unwrap(), None);
        folder.write(&item(), b"one".to_vec()).await.unwrap();
        folder.write(&item(), b"two".to_vec()).await.unwrap();
        assert_eq!(Folder::open(&path).unwrap().read(&item()).await.unwrap().as_deref(), Some(&b"two"[..]));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&path.join("certificates/a.example.org.pem")), 0o600);
        assert_eq!((mode(&path), mode(&path.join("certificates"))), (0o700, 0o700));
        assert_eq!(fs::read_dir(path.join("certificates")).unwrap().count(), 1, "nothing is left beside it");
        folder.remove(&item()).await.unwrap();
        folder.remove(&item()).await.unwrap();
        assert_eq!(folder.read(&item()).await.unwrap(), None);
    }

    #[tokio::test]
    async fn one_has_the_lease_until_he_gives_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acme");
        let (one, other) = (Folder::open(&path).unwrap(), Folder::open(&path).unwrap());
        let lease = one.lease(&item()).await.unwrap().expect("nobody has it");
        assert!(other.lease(&item()).await.unwrap().is_none());
        lease.release().await.unwrap();
        drop(other.lease(&item()).await.unwrap().expect("it was given back"));
        assert!(one.lease(&item()).await.unwrap().is_some(), "it was dropped");
    }

    #[test]
    fn what_was_left_behind_is_forgotten_after_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acme");
        Folder::open(&path).unwrap();
        let file = |name: &str, age: Duration| {
            let file = File::create(path.join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        };
        let long = LEFT_TIME * 2;
        file("certificates/.0123456789abcdef", long);
        file("accounts/.0123456789abcdef", long);
        file("challenges/token", long);
        file("certificates/.fedcba9876543210", Duration::ZERO);
        file("certificates/a.example.org.pem", long);
        Folder::open(&path).unwrap();
        let left = |part: &str| {
            let all = fs::read_dir(path.join(part)).unwrap();
            let mut all: Vec<_> = all.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
            all.sort();
            all
        };
        assert_eq!(left("certificates"), [".fedcba9876543210", "a.example.org.pem"]);
        assert!(left("accounts").is_empty() && left("challenges").is_empty());
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acme");
        Folder::open(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let refused = Folder::open(&path).unwrap_err().to_string();
        assert!(refused.contains("(mode 750)") && refused.contains("chmod 700"), "{refused}");
    }
}
