//! What the storage has of a name.

use std::time::SystemTime;

use crate::certificate::{Facts, Pair};
use crate::name::Name;
use crate::storage::{Item, Storage, StorageError};

/// What the storage has, if it is another one than what is held, and lasts longer.
pub(crate) async fn newer(
    name: &Name,
    held: Option<&Facts>,
    storage: &dyn Storage,
) -> Result<Option<Pair>, StorageError> {
    let Some(pair) = stored(name, storage).await? else { return Ok(None) };
    let Ok(found) = pair.facts() else { return Ok(None) };
    let is_newer = held.is_none_or(|held| found.fingerprint != held.fingerprint && found.not_after >= held.not_after);
    Ok((is_newer && found.not_after > SystemTime::now()).then_some(pair))
}

/// What the storage has of a name, if it is a certificate of that name.
pub(crate) async fn stored(name: &Name, storage: &dyn Storage) -> Result<Option<Pair>, StorageError> {
    let Some(bytes) = storage.read(&Item::Certificate(name.clone())).await? else { return Ok(None) };
    let of_name = |pair: Pair| {
        let names = pair.facts().ok()?.names;
        names.iter().any(|one| is_for(one, name.as_str())).then_some(pair)
    };
    match Pair::from_stored(&bytes) {
        Ok(pair) => Ok(of_name(pair)),
        Err(e) => {
            tracing::warn!(%name, "what is stored cannot be used: {e}");
            Ok(None)
        }
    }
}

/// RFC 9525 §6.3: a wildcard stands for one label.
pub(crate) fn is_for(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => host.split_once('.').is_some_and(|(_, rest)| rest == parent),
        None => pattern == host,
    }
}
