//! The handle of a consumer: opens, gives out entries, ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::config::{ConsumerConfig, Start, StreamError};
use super::entry::Entry;
use super::held::HeldEntries;
use super::scripts::Scripts;
use super::shared::Shared;
use super::{keeper, worker};
use crate::client::Client;
use crate::commands::Commands;
use crate::commands::options::XgroupCreateOptions;
use crate::error::{Error, Misuse, Ran};
use crate::proto::slot::Slot;

/// Shorter, and entries are claimed from consumers that are alive.
const MIN_CLAIM_AFTER: Duration = Duration::from_millis(100);

/// More are no buffer, but a copy of the stream.
const MAX_PREFETCHED: usize = 1 << 20;

/// One consumer of a group. See [the module](crate::recipes::stream).
///
/// Its entries are kept while it lives: to end without repetitions, [`stop`](Stopper::stop) it, handle what
/// [`next`](Self::next) still gives, and [`close`](Self::close) it.
///
/// ```no_run
/// use pilotlight_redis::recipes::stream::{Consumer, StreamError};
///
/// # async fn shutdown() {}
/// # async fn example(mut consumer: Consumer) -> Result<(), StreamError> {
/// let stopper = consumer.stopper();
/// tokio::spawn(async move {
///     shutdown().await;
///     stopper.stop();
/// });
/// while let Some(entry) = consumer.next().await {
///     entry?.ack().await?;
/// }
/// consumer.close(std::time::Duration::from_secs(10)).await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Consumer {
    shared: Arc<Shared>,
    entries: mpsc::Receiver<Result<Entry, StreamError>>,
    /// The next entry, while the server is asked whose it is.
    doubtful: Option<Entry>,
    stop: watch::Sender<bool>,
    /// The worker and the keeper; they end with it.
    tasks: JoinSet<()>,
}

/// Ends a consumer from elsewhere.
///
/// ```no_run
/// use pilotlight_redis::recipes::stream::Consumer;
///
/// fn stop_after(consumer: &Consumer, time: std::time::Duration) {
///     let stopper = consumer.stopper();
///     tokio::spawn(async move {
///         tokio::time::sleep(time).await;
///         stopper.stop();
///     });
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Stopper(watch::Sender<bool>);

impl Consumer {
    /// Makes the group if it does not exist, and begins to read.
    ///
    /// # Errors
    /// The configuration makes no sense, or as any command.
    ///
    /// # Cancel safety
    /// The group may have been made.
    pub async fn open(client: &Client, config: ConsumerConfig) -> Result<Self, StreamError> {
        check(client, &config)?;
        let start = match config.start {
            Start::Beginning => "0",
            Start::End => "$",
        };
        let made = client
            .xgroup_create_with(&config.stream, &config.group, start, XgroupCreateOptions::new().mkstream())
            .retryable()
            .await;
        match made {
            Err(error) if error.server().is_none_or(|server| server.code() != "BUSYGROUP") => return Err(error.into()),
            _ => {}
        }
        let consumer = config.consumer.clone().unwrap_or_else(|| unique_name().into());
        let room = Arc::new(Semaphore::new(config.max_prefetched));
        // Room for all entries, and an error.
        let (sender, entries) = mpsc::channel(config.max_prefetched + 1);
        let held = HeldEntries::default();
        let shared = Arc::new(Shared { client: client.clone(), config, consumer, scripts: Scripts::new(), held, room });
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(worker::run(Arc::clone(&shared), sender, stopped));
        tasks.spawn(keeper::keep(Arc::clone(&shared)));
        Ok(Self { shared, entries, doubtful: None, stop, tasks })
    }

    /// The name in the group.
    #[must_use]
    pub fn name(&self) -> &Bytes {
        &self.shared.consumer
    }

    /// The next entry. None: it was stopped, and nothing is left. Failures on the way to the server are waited out; an
    /// error is the last thing that comes.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Result<Entry, StreamError>> {
        loop {
            let Some(doubtful) = &self.doubtful else {
                match self.entries.recv().await? {
                    // It waited here for so long that somebody else may have it, and have handled it.
                    Ok(entry) if !entry.is_held() => self.doubtful = Some(entry),
                    other => return Some(other),
                }
                continue;
            };
            let kept = self.shared.keep(std::slice::from_ref(doubtful.id()), self.shared.config.claim_after).await;
            match self.doubtful.take() {
                Some(entry) if kept.is_ok() && entry.is_held() => return Some(Ok(entry)),
                // It is pending still, and comes again.
                _ => {}
            }
        }
    }

    /// Ends it from elsewhere, as when a signal has come.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Stops reading, gives up what was not given out by [`next`](Self::next), waits up to `patience` until all entries
    /// are acknowledged or dropped, and takes leave of the group. What is given up, or not acknowledged, is delivered
    /// to others after `claim_after`. Answers whether all entries came back in time.
    ///
    /// # Cancel safety
    /// It has stopped reading.
    pub async fn close(mut self, patience: Duration) -> bool {
        let since = Instant::now();
        self.stopper().stop();
        self.doubtful = None;
        self.entries.close();
        while self.entries.recv().await.is_some() {}
        let Shared { client, config, consumer, scripts, room, .. } = &*self.shared;
        let all = u32::try_from(config.max_prefetched).unwrap_or(u32::MAX);
        let is_empty = tokio::time::timeout(patience, room.acquire_many(all)).await.is_ok();
        let left = patience.saturating_sub(since.elapsed()).max(MIN_CLAIM_AFTER);
        // If it fails, another consumer does it some time.
        let forget = scripts.forget.run::<i64>(client).key(&config.stream).arg(&config.group).arg(consumer);
        let _ = forget.arg(i64::MAX).timeout(left).await;
        self.tasks.shutdown().await;
        is_empty
    }
}

impl Stopper {
    /// The consumer reads no more; [`Consumer::next`] gives what is there, and then none.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

fn check(client: &Client, config: &ConsumerConfig) -> Result<(), Error> {
    let misuse = |misuse: Misuse| Err(Error::new(misuse, Ran::NotSent, "Consumer"));
    if !(1..=MAX_PREFETCHED).contains(&config.max_prefetched) {
        return misuse(Misuse::Arguments("max_prefetched has to be from 1 to 1,048,576".into()));
    }
    if config.claim_after < MIN_CLAIM_AFTER || config.block.is_zero() {
        return misuse(Misuse::Arguments("claim_after has to be 100 ms or more, and block above zero".into()));
    }
    let Some(dead) = &config.dead_letters else { return Ok(()) };
    if dead.max_deliveries == 0 {
        return misuse(Misuse::Arguments("max_deliveries has to be 1 or more".into()));
    }
    let (first, second) = (Slot::of(&config.stream).number(), Slot::of(&dead.stream).number());
    match first == second || !client.core().is_cluster() {
        true => Ok(()),
        false => misuse(Misuse::CrossSlot { first, second }),
    }
}

/// Of no consumer before.
fn unique_name() -> String {
    format!("{}-{:016x}", std::process::id(), fastrand::u64(..))
}
