//! What a consumer and its entries share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::config::ConsumerConfig;
use super::held::HeldEntries;
use super::scripts::Scripts;
use crate::client::Client;
use crate::error::{Error, Misuse, Ran};

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) config: ConsumerConfig,
    pub(super) consumer: Bytes,
    pub(super) scripts: Scripts,
    pub(super) held: HeldEntries,
    /// One for each entry that may be there.
    pub(super) room: Arc<Semaphore>,
}

impl Shared {
    /// Keeps those of these entries that are this consumer's still, and notes which are not.
    pub(super) async fn keep(&self, ids: &[Bytes], timeout: Duration) -> Result<(), Error> {
        let since = Instant::now();
        let call = self.scripts.keep.run::<Vec<Bytes>>(&self.client).key(&self.config.stream);
        let gone = call.arg([&self.config.group, &self.consumer]).arg(ids).timeout(timeout).await?;
        self.held.note(ids, &gone, since + self.config.claim_after);
        Ok(())
    }

    /// Makes an entry a dead letter. Whether it was this consumer's still.
    pub(super) async fn bury(&self, id: &Bytes) -> Result<bool, Error> {
        let Some(dead) = &self.config.dead_letters else {
            return Err(Error::new(Misuse::Arguments("dead_letters is not set".into()), Ran::NotSent, "bury"));
        };
        let max_length = dead.max_length.map(|max| max.to_string()).unwrap_or_default();
        let call = self.scripts.bury.run::<i64>(&self.client).key(&self.config.stream).key(&dead.stream);
        Ok(call.arg([&self.config.group, &self.consumer, id]).arg(max_length).await? == 1)
    }
}
