//! What a storage is asked, whichever it is.

use std::future::Future;
use std::pin::Pin;

use crate::challenge::Token;
use crate::name::Name;

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An account's credentials, by the digest of its directory and its owner.
    Account(String),
    /// A certificate with its key.
    Certificate(Name),
    /// What a token of HTTP-01 is answered with, for as long as it is validated.
    Challenge(Token),
}

/// Why something cannot be kept, or what was kept not be read.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A file or folder.
    #[error("{}: {cause}; check that the folder belongs to this user and is not full", path.display())]
    Folder {
        /// Which.
        path: std::path::PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// Others may enter the folder.
    #[error(
        "{} may be entered by other users (mode {mode:o}), and private keys are in it: chmod 700 {}",
        path.display(),
        path.display()
    )]
    Open {
        /// Which.
        path: std::path::PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Redis.
    #[error("the certificates in Redis cannot be reached: {0}")]
    Redis(#[from] pilotlight_redis::Error),
    /// The URL of Redis.
    #[error("the URL of Redis: {0}")]
    Url(#[from] pilotlight_redis::config::UrlError),
    /// More validations are under way than are answered at once.
    #[error("too many validations are under way")]
    Full,
    /// A thread that does it has ended.
    #[error("the storage's thread has ended")]
    Gone,
}

/// An answer of the storage, later.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send + 'a>>;

/// What keeps things. All of it may be dropped while it waits: a write has happened whole or not at all.
pub trait Storage: Send + Sync {
    /// What is there.
    fn read<'a>(&'a self, item: &'a Item) -> Pending<'a, Option<Vec<u8>>>;
    /// Keeps it: when this has answered, it outlives this process and the machine's next start.
    fn write<'a>(&'a self, item: &'a Item, bytes: Vec<u8>) -> Pending<'a, ()>;
    /// Forgets it.
    fn remove<'a>(&'a self, item: &'a Item) -> Pending<'a, ()>;
    /// The right to get what the item is. `None`: another gateway has it.
    fn lease<'a>(&'a self, item: &'a Item) -> Pending<'a, Option<Box<dyn Lease>>>;
    /// Where it is, for people.
    fn place(&self) -> String;
}

/// A right that is given back when it is dropped, if not before, and that ends with the process.
pub trait Lease: Send {
    /// Keeps it for some time more. To be called every [`LEASE_KEPT_EVERY`].
    fn keep(&mut self) -> Pending<'_, ()>;
    /// Gives it back.
    fn release(self: Box<Self>) -> Pending<'static, ()>;
}

/// How often a lease has to be kept.
pub(crate) const LEASE_KEPT_EVERY: std::time::Duration = std::time::Duration::from_secs(10);
