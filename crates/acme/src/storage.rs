//! Where accounts, certificates and keys are kept, so that they outlive the process and gateways can share them.

use std::sync::Arc;

use crate::options::StorageSettings;

mod folder;
mod interface;
mod redis;

pub use folder::Folder;
pub use interface::{Item, Lease, Pending, Storage, StorageError};
pub use redis::RedisStorage;

pub(crate) use interface::LEASE_KEPT_EVERY;

/// The storage that the settings name.
///
/// # Errors
/// It cannot be used.
pub(crate) fn open(settings: &StorageSettings) -> Result<Arc<dyn Storage>, StorageError> {
    Ok(match settings {
        StorageSettings::Folder(path) => Arc::new(Folder::open(path)?),
        StorageSettings::Redis { url, prefix } => Arc::new(RedisStorage::new(url, prefix)?),
    })
}
