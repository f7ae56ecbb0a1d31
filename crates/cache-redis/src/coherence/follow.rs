//! The log is followed on a connection of its own: a blocking read returns with what was appended.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use pilotlight_cache::Purge;
use pilotlight_redis::commands::options::{XaddOptions, XreadOptions};
use pilotlight_redis::reply::StreamEntry;
use pilotlight_redis::{Commands, Dedicated, Error, Route};
use tokio::time::{sleep, timeout};

use super::coverage::Gap;
use super::shared::{BEAT, LOG_COMMAND_TIMEOUT, NODE_LIFETIME, SILENCE, Shared, now};
use crate::log::{self, Entry, History, MAX_LOG_ENTRIES};

/// Entries that are read at a time.
const PAGE: i64 = 1000;
/// Pause before another connection is tried.
const PAUSE: Duration = Duration::from_millis(100);

/// Follows the log for ever.
pub(super) async fn follow(shared: &Shared, gap: Gap) {
    let mut history = History::default();
    let mut gap = Some(gap);
    let mut is_lost = false;
    loop {
        let why = match begin(shared, &mut history).await {
            Ok(mut connection) => {
                if is_lost {
                    tracing::info!(node = connection.node(), "the log of purges is followed again");
                    is_lost = false;
                }
                gap = None;
                shared.is_followed.store(true, Ordering::Release);
                let Err(error) = read_on(shared, &mut connection, &mut history).await;
                shared.is_followed.store(false, Ordering::Release);
                error
            }
            Err(error) => error,
        };
        if gap.is_none() {
            tracing::warn!("the log of purges cannot be followed: {why}; stored responses are validated until it can");
            is_lost = true;
            gap = Some(shared.coverage.gap());
        }
        sleep(PAUSE).await;
    }
}

/// A connection to the primary that has the log, after everything that is in it was applied.
async fn begin(shared: &Shared, history: &mut History) -> Result<Dedicated, Error> {
    let key = &*shared.names.log;
    let mut connection = shared.client.dedicated_on(Route::primary_of(key)).await?;
    connection.set_timeout(Some(LOG_COMMAND_TIMEOUT));
    let applied = history.applied();
    if applied > 0 {
        let last = log::id(applied);
        let found: Vec<StreamEntry> = connection.xrange(key, &*last, &*last).read_as().await?;
        if !found.is_empty() {
            // A replica that has it has all before it.
            let newer = read_from(&mut connection, key, applied).await?;
            apply(shared, history, newer.iter().map(Entry::read).collect());
            return Ok(connection);
        }
    }
    let whole = read_from(&mut connection, key, 0).await?;
    let max_entries = usize::try_from(MAX_LOG_ENTRIES).unwrap_or(usize::MAX);
    let difference = history.compare(whole.iter().map(Entry::read).collect(), max_entries);
    if applied > 0 {
        let (lost, forgotten) = (difference.again.len(), difference.forgotten.is_some());
        tracing::warn!(
            lost,
            forgotten,
            "the log of purges is not what it was (a failover, or a long absence): it is repaired"
        );
    }
    if let Some(number) = difference.forgotten {
        shared.cache.purges().forget_logged(number);
        shared.coverage.missed();
    }
    apply(shared, history, difference.fresh);
    if let Some(number) = difference.raise_to {
        raise(&mut connection, key, number).await?;
        history.note(Entry { number, by: Bytes::new(), purges: Vec::new() });
    }
    for entry in difference.again {
        let appended = append(&mut connection, key, &entry.by, &entry.purges).await?;
        if let Some(number) = log::number(&appended) {
            shared.cache.purges().apply_logged(&numbered(&entry.purges, number), now());
            history.note(Entry { number, ..entry });
        }
    }
    shared.applied.send_replace(history.applied());
    Ok(connection)
}

/// Everything after a number.
async fn read_from(connection: &mut Dedicated, key: &str, number: u64) -> Result<Vec<StreamEntry>, Error> {
    let mut all = Vec::new();
    let mut from = if number == 0 { "-".to_owned() } else { log::id(number + 1) };
    loop {
        let page: Vec<StreamEntry> = connection.xrange_count(key, &*from, "+", PAGE).read_as().await?;
        let is_last = page.len() < PAGE as usize;
        all.extend(page);
        match all.last().and_then(|last| log::number(&last.id)) {
            Some(last) if !is_last => from = log::id(last + 1),
            _ => return Ok(all),
        }
    }
}

/// Waits for entries and applies them, until the connection ends.
async fn read_on(
    shared: &Shared,
    connection: &mut Dedicated,
    history: &mut History,
) -> Result<std::convert::Infallible, Error> {
    let key = &*shared.names.log;
    let wait = i64::try_from(BEAT.as_millis()).unwrap_or(i64::MAX);
    loop {
        let last = log::id(history.applied());
        let options = XreadOptions::new().count(PAGE).block(wait);
        let read = connection.xread_with([(key, &*last)], options).timeout(BEAT + SILENCE).await?;
        let entries = read.into_iter().flatten().flat_map(|(_, entries)| entries);
        apply(shared, history, entries.map(|entry| Entry::read(&entry)).collect());
    }
}

/// Applies entries, in their order.
fn apply(shared: &Shared, history: &mut History, entries: Vec<Entry>) {
    if entries.is_empty() {
        return;
    }
    let own = format!("{} ", shared.instance);
    let mut others = Vec::new();
    for entry in entries {
        // Its own were applied when they were made, and get their numbers where they are appended.
        if !entry.by.starts_with(own.as_bytes()) {
            others.extend(numbered(&entry.purges, entry.number));
        }
        history.note(entry);
    }
    if !others.is_empty() {
        shared.cache.purges().apply_logged(&others, now());
    }
    shared.applied.send_replace(history.applied());
}

fn numbered(purges: &[Purge], number: u64) -> Vec<(Purge, u64)> {
    purges.iter().map(|purge| (purge.clone(), number)).collect()
}

/// Sees to it that new entries get greater numbers.
async fn raise(connection: &mut Dedicated, key: &str, number: u64) -> Result<(), Error> {
    let added: Result<Option<Bytes>, Error> =
        connection.xadd_with(key, log::id(number), [("mark", "")], trimmed()).await;
    match added {
        // Another gateway was faster.
        Err(error) if error.server().is_some_and(|error| error.code() == "ERR") => Ok(()),
        added => added.map(drop),
    }
}

async fn append(connection: &mut Dedicated, key: &str, by: &[u8], purges: &[Purge]) -> Result<Bytes, Error> {
    let fields = log::fields(by, purges);
    Ok(connection.xadd_with(key, "*", fields, trimmed()).await?.unwrap_or_default())
}

pub(super) fn trimmed<'a>() -> XaddOptions<'a> {
    XaddOptions::new().maxlen(MAX_LOG_ENTRIES).approximately()
}

/// Tells who follows the log, and how far.
pub(super) async fn tell_applied(shared: &Shared) {
    let mut applied = shared.applied.subscribe();
    let node = shared.names.node(&shared.instance);
    let lifetime = i64::try_from(NODE_LIFETIME.as_millis()).unwrap_or(i64::MAX);
    loop {
        let number = *applied.borrow_and_update();
        let mut pipeline = shared.client.pipeline();
        let added = pipeline.sadd(&*shared.names.nodes, &*shared.instance);
        let set = pipeline.psetex(&*node, lifetime, number);
        if let Err(error) = pipeline.run().await.and_then(|mut replies| {
            replies.take(added)?;
            replies.take(set).map(drop)
        }) {
            tracing::debug!("other gateways cannot be told how far the log was applied: {error}");
            sleep(PAUSE).await;
        }
        // Nothing new: a sign of life.
        let _ = timeout(NODE_LIFETIME / 3, applied.changed()).await;
    }
}

/// This gateway follows no longer.
pub(super) async fn leave(shared: &Shared) {
    let mut pipeline = shared.client.pipeline();
    let _ = pipeline.srem(&*shared.names.nodes, &*shared.instance);
    let _ = pipeline.del(shared.names.node(&shared.instance));
    if let Err(error) = pipeline.run().await {
        tracing::debug!("other gateways cannot be told that this one has left: {error}; they will notice");
    }
}
