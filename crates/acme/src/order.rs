//! One order under a lease, and what it brought, in the storage.
//!
//! Invariant: gateways with one storage place one order for a name: the holder of the lease reads the storage first,
//! and gives it back only after he has stored what he got.

use crate::authority::{Authority, Means, Wanted, kept};
use crate::certificate::{Facts, Pair};
use crate::error::OrderError;
use crate::name::Name;
use crate::storage::{Item, StorageError};
use crate::stored::newer;

/// What came of an order.
pub(crate) enum Ordered {
    /// With the reason why it cannot be kept, if it cannot.
    New(Pair, Option<StorageError>),
    /// Another gateway had stored it.
    Found(Pair),
    /// Another gateway is getting it.
    Elsewhere,
}

/// One order, unless another gateway has placed it or has stored what it brought.
pub(crate) async fn order(
    wanted: Wanted<'_>,
    held: Option<&Facts>,
    authority: &Authority,
    means: &Means,
) -> Result<Ordered, OrderError> {
    let name = wanted.name;
    let item = Item::Certificate(name.clone());
    let Some(mut lease) = means.storage.lease(&item).await? else {
        return Ok(newer(name, held, &*means.storage).await?.map_or(Ordered::Elsewhere, Ordered::Found));
    };
    let work = async {
        // Under the lease: its last holder has stored what he got before he gave it back.
        if let Some(pair) = newer(name, held, &*means.storage).await? {
            return Ok(Ordered::Found(pair));
        }
        let pair = authority.order(wanted, means).await?;
        // Dropped because of a full disk, it would be ordered again, and authorities limit how many a name gets.
        let unkept = means.storage.write(&item, pair.to_stored()).await.err();
        Ok(Ordered::New(pair, unkept))
    };
    let ordered = kept(&mut *lease, work).await;
    if let Err(e) = lease.release().await {
        tracing::warn!(%name, "a lease could not be given back, and ends by itself: {e}");
    }
    ordered
}

/// Keeps a certificate, unless the storage has another one that lasts longer.
pub(crate) async fn keep(name: &Name, pair: &Pair, means: &Means) -> Result<(), StorageError> {
    if let Ok(facts) = pair.facts()
        && newer(name, Some(&facts), &*means.storage).await?.is_some()
    {
        return Ok(());
    }
    means.storage.write(&Item::Certificate(name.clone()), pair.to_stored()).await
}
