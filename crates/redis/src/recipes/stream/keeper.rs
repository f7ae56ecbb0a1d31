//! Keeps entries that are held from being idle.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use crate::error::Error;
use crate::recipes::pause::Pauses;

/// Entries of one script: the server does nothing else meanwhile.
const MAX_IDS: usize = 128;

/// Runs until it is aborted.
pub(super) async fn keep(shared: Arc<Shared>) {
    let every = shared.config.claim_after / 3;
    let mut pauses = Pauses::up_to(every);
    let mut pause = every;
    loop {
        tokio::time::sleep(pause).await;
        pause = match keep_all(&shared, every).await {
            Ok(()) => {
                pauses.reset();
                every
            }
            Err(error) => {
                tracing::debug!(%error, "entries of a stream could not be kept");
                pauses.take()
            }
        };
    }
}

async fn keep_all(shared: &Shared, timeout: Duration) -> Result<(), Error> {
    for ids in shared.held.ids().chunks(MAX_IDS) {
        shared.keep(ids, timeout).await?;
    }
    Ok(())
}
