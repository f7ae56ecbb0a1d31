//! One entry in the hands of a program.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::held::Claim;
use super::shared::Shared;
use crate::commands::Commands;
use crate::error::Error;

/// An entry that was delivered. Dropped without [`ack`](Self::ack) it stays pending, and is delivered again after
/// [`claim_after`](super::ConsumerConfig::claim_after), to any consumer of the group.
///
/// ```no_run
/// use pilotlight_redis::Error;
/// use pilotlight_redis::recipes::stream::Entry;
///
/// async fn handle(mut entry: Entry) -> Result<(), Error> {
///     match entry.get("order") {
///         Some(order) => println!("{order:?}, delivery {}", entry.deliveries()),
///         None => drop(entry.bury().await?),
///     }
///     entry.ack().await?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Entry {
    id: Bytes,
    fields: Vec<(Bytes, Bytes)>,
    deliveries: u64,
    claim: Arc<Claim>,
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Entry {
    pub(super) fn new(
        shared: &Arc<Shared>,
        delivered: Delivered,
        until: Instant,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let Delivered { id, fields, deliveries } = delivered;
        let claim = shared.held.take(id.clone(), until);
        Self { id, fields, deliveries, claim, shared: Arc::clone(shared), _permit: permit }
    }

    /// `milliseconds-sequence`.
    #[must_use]
    pub fn id(&self) -> &Bytes {
        &self.id
    }

    /// Fields and values, in order.
    #[must_use]
    pub fn fields(&self) -> &[(Bytes, Bytes)] {
        &self.fields
    }

    /// The value of the first field of this name.
    #[must_use]
    pub fn get(&self, field: impl AsRef<[u8]>) -> Option<&Bytes> {
        self.fields.iter().find(|(name, _)| name == field.as_ref()).map(|(_, value)| value)
    }

    /// How often it was delivered, this time included: 1 is the first time; more, and somebody may have handled it
    /// before, in whole or in part.
    #[must_use]
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// Whether it is certainly this consumer's: nobody else has it. False: the server says that another has, or could
    /// not be asked for `claim_after`.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.claim.is_good(Instant::now())
    }

    /// Acknowledges it: it is delivered to nobody of this group any more. Answers whether it was pending still: if not,
    /// somebody else has acknowledged it as well, or the reply to the acknowledgement was lost and it was repeated.
    ///
    /// # Errors
    /// The server does not answer within the command timeout, or refuses. It may be called again.
    ///
    /// # Cancel safety
    /// It may have been acknowledged. It may be called again.
    pub async fn ack(&mut self) -> Result<bool, Error> {
        let Shared { client, config, .. } = &*self.shared;
        // Whether it is run once or twice makes no difference.
        let acknowledged = client.xack(&config.stream, &config.group, &self.id).retryable().await?;
        self.shared.held.release(&self.id, &self.claim);
        Ok(acknowledged > 0)
    }

    /// Makes it a dead letter now, and acknowledges it. Answers whether it was this consumer's still.
    ///
    /// # Errors
    /// [`dead_letters`](super::ConsumerConfig::dead_letters) names no stream, or as [`ack`](Self::ack). It may be
    /// called again.
    ///
    /// # Cancel safety
    /// It may have been done. It may be called again.
    pub async fn bury(&mut self) -> Result<bool, Error> {
        let is_done = self.shared.bury(&self.id).await?;
        self.shared.held.release(&self.id, &self.claim);
        Ok(is_done)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.held.release(&self.id, &self.claim);
    }
}

/// What the server says of an entry.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) id: Bytes,
    pub(super) fields: Vec<(Bytes, Bytes)>,
    pub(super) deliveries: u64,
}
