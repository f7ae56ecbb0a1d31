//! The task that reads and claims entries, and keeps house.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::config::{StreamError, Trim};
use super::entry::{Delivered, Entry};
use super::shared::Shared;
use crate::commands::Commands;
use crate::commands::options::{XautoclaimOptions, XpendingOptions, XreadgroupOptions};
use crate::error::{Advice, Error, Ran};
use crate::recipes::pause::Pauses;
use crate::reply::{AutoClaimed, PendingEntry, StreamEntry};

/// Entries of one read or claim.
const MAX_BATCH: usize = 128;
/// Between two attempts at a server that does not answer.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Between two rounds of keeping house.
const MAX_ROUND: Duration = Duration::from_secs(10);
/// No entry has a lower id.
const BEGINNING: &[u8] = b"0-0";

struct Worker {
    shared: Arc<Shared>,
    entries: mpsc::Sender<Result<Entry, StreamError>>,
    /// How far idle entries were looked at.
    cursor: Bytes,
    /// When they are looked at again.
    claim_at: Instant,
    house_at: Instant,
}

/// Reads until it is stopped, or cannot go on.
pub(super) async fn run(
    shared: Arc<Shared>,
    entries: mpsc::Sender<Result<Entry, StreamError>>,
    mut stopped: watch::Receiver<bool>,
) {
    let now = Instant::now();
    let cursor = Bytes::from_static(BEGINNING);
    let mut worker = Worker { shared, entries, cursor, claim_at: now, house_at: now };
    let error = tokio::select! {
        biased;
        _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
        error = worker.work() => error,
    };
    // There is room for it; if nobody listens, nobody wants to know.
    let _ = worker.entries.send(Err(error)).await;
}

impl Worker {
    async fn work(&mut self) -> StreamError {
        let mut pauses = Pauses::up_to(MAX_PAUSE);
        loop {
            let Some(room) = self.room().await else { return Error::new(closed(), Ran::NotSent, "XREADGROUP").into() };
            let now = Instant::now();
            let done = if now >= self.claim_at { self.claim(room).await } else { self.read(room, now).await };
            let done = match done {
                Ok(()) => self.keep_house().await,
                failed => failed,
            };
            match done {
                Ok(()) => pauses.reset(),
                Err(error) => match final_error(error) {
                    Ok(error) => return error,
                    Err(error) => {
                        tracing::debug!(%error, "reading a stream goes on after a pause");
                        tokio::time::sleep(pauses.take()).await;
                    }
                },
            }
        }
    }

    /// Room for one entry, and as many more as there is room for now.
    async fn room(&self) -> Option<OwnedSemaphorePermit> {
        let mut room = Arc::clone(&self.shared.room).acquire_owned().await.ok()?;
        while room.num_permits() < MAX_BATCH {
            match Arc::clone(&self.shared.room).try_acquire_owned() {
                Ok(more) => room.merge(more),
                Err(_) => break,
            }
        }
        Some(room)
    }

    /// New entries: those that come until idle ones are to be looked at again.
    async fn read(&mut self, room: OwnedSemaphorePermit, now: Instant) -> Result<(), Error> {
        let Shared { client, config, consumer, .. } = &*self.shared;
        let block = config.block.min(self.claim_at.min(self.house_at).saturating_duration_since(now));
        let options = XreadgroupOptions::new().count(count(&room)).block(milliseconds(block).max(1));
        let streams = [(&config.stream, ">")];
        let read = client.xreadgroup_with(&config.group, consumer, streams, options).await?;
        let entries = read.into_iter().flatten().flat_map(|(_, entries)| entries);
        let delivered = entries.map(|StreamEntry { id, fields }| Delivered { id, fields, deliveries: 1 });
        // When it was delivered, only the server knows: not before it was asked.
        self.give(delivered.collect(), now, room).await;
        Ok(())
    }

    /// Idle entries, from where the last look ended.
    async fn claim(&mut self, room: OwnedSemaphorePermit) -> Result<(), Error> {
        let Shared { client, config, consumer, .. } = &*self.shared;
        let since = Instant::now();
        let options = XautoclaimOptions::new().count(count(&room));
        let idle = milliseconds(config.claim_after);
        let claimed =
            client.xautoclaim_with(&config.stream, &config.group, consumer, idle, &self.cursor, options).await?;
        let AutoClaimed { cursor, entries, deleted } = claimed;
        if !deleted.is_empty() {
            tracing::warn!(stream = ?config.stream, ids = ?deleted, "entries were deleted before they were acknowledged");
        }
        let delivered = self.counted(entries).await?;
        self.cursor = cursor;
        if &*self.cursor == BEGINNING {
            self.claim_at = since + config.claim_after / 2;
        }
        let (dead, alive) = match &config.dead_letters {
            Some(dead) => delivered.into_iter().partition(|it| it.deliveries > dead.max_deliveries),
            None => (Vec::new(), delivered),
        };
        self.give(alive, since, room).await;
        for Delivered { id, .. } in dead {
            self.shared.bury(&id).await?;
        }
        Ok(())
    }

    /// How often each was delivered. Who has become somebody else's meanwhile is left to them.
    async fn counted(&self, entries: Vec<StreamEntry>) -> Result<Vec<Delivered>, Error> {
        let Shared { client, config, consumer, .. } = &*self.shared;
        let mut pipeline = client.pipeline();
        let mut queued = Vec::with_capacity(entries.len());
        for StreamEntry { id, fields } in entries {
            let range = XpendingOptions::new().range(id.clone(), id.clone(), 1).consumer(consumer);
            queued.push((pipeline.xpending_with(&config.stream, &config.group, range), id, fields));
        }
        if queued.is_empty() {
            return Ok(Vec::new());
        }
        let mut replies = pipeline.run().await?;
        let mut delivered = Vec::with_capacity(queued.len());
        for (pending, id, fields) in queued {
            if let Some(PendingEntry { deliveries, .. }) = replies.take(pending)?.pop() {
                delivered.push(Delivered { id, fields, deliveries });
            }
        }
        Ok(delivered)
    }

    /// Hands them over. They are the consumer's for `claim_after` from when they were asked for.
    async fn give(&self, delivered: Vec<Delivered>, since: Instant, mut room: OwnedSemaphorePermit) {
        let until = since + self.shared.config.claim_after;
        for it in delivered {
            // The server gives no more than was asked for; if it does, the rest is claimed later.
            let Some(permit) = room.split(1) else { return };
            let entry = Entry::new(&self.shared, it, until, permit);
            // The channel has room for as many as there are permits.
            let _ = self.entries.send(Ok(entry)).await;
        }
    }

    /// Trims, and forgets consumers that have gone.
    async fn keep_house(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if now < self.house_at {
            return Ok(());
        }
        let Shared { client, config, scripts, .. } = &*self.shared;
        let keep = match config.trim {
            Trim::Never => None,
            Trim::Acknowledged => Some(0),
            // All entries but none are the same as all entries.
            Trim::KeepNewest(count) => Some(count),
        };
        if let Some(keep) = keep {
            scripts.trim.run::<i64>(client).key(&config.stream).arg(keep).await?;
        }
        let forget = scripts.forget.run::<i64>(client).key(&config.stream).arg(&config.group).arg("");
        forget.arg(milliseconds(config.forget_after)).await?;
        self.house_at = now + MAX_ROUND.min(config.claim_after);
        Ok(())
    }
}

/// `Ok`: nothing helps but another configuration.
fn final_error(error: Error) -> Result<StreamError, Error> {
    match error.server().map(|server| server.code()) {
        Some("NOGROUP") => return Ok(StreamError::Gone(error)),
        // The stream was deleted while it was waited for, or the server became a replica.
        Some("UNBLOCKED") => return Err(error),
        _ => {}
    }
    if error.advice() == Advice::Never { Ok(StreamError::Redis(error)) } else { Err(error) }
}

fn closed() -> crate::error::ErrorKind {
    crate::error::ErrorKind::Closed
}

fn count(room: &OwnedSemaphorePermit) -> i64 {
    i64::try_from(room.num_permits()).unwrap_or(i64::MAX)
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
