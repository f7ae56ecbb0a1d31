//! Records that other gateways replace: every primary tells of them on a connection of its own
//! (`CLIENT TRACKING … BCAST`, RESP3), or the gateways tell each other by a channel where that is refused.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Command, Error, Event, Route, Value};
use pilotlight_resp::{Decoder, Frame, Limits, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::coverage::Gap;
use super::shared::{BEAT, LOG_COMMAND_TIMEOUT, SILENCE, Shared};
use crate::keys;

/// How often it is looked which primaries there are.
const LOOK: Duration = Duration::from_secs(1);
/// Pause before another connection is tried.
const PAUSE: Duration = Duration::from_millis(100);
const READ_BUFFER: usize = 16 * 1024;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Connect(#[from] Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the server broke the protocol: {0}")]
    Protocol(#[from] pilotlight_resp::DecodeError),
    #[error("the server closed it")]
    Closed,
    #[error("the server was silent for {SILENCE:?}")]
    Silent,
    /// It will not be different the next time.
    #[error("the server refuses: {0}")]
    Refused(String),
}

/// Keeps a connection to every primary, for ever.
pub(super) async fn watch(shared: &Arc<Shared>, gap: Gap) {
    let mut tasks = JoinSet::new();
    let mut known: HashMap<NodeAddress, AbortHandle> = HashMap::new();
    let mut unknown = Some(gap);
    loop {
        match primaries(&shared.client).await {
            Ok(primaries) => {
                known.retain(|address, task| {
                    let stays = primaries.contains(address) && !task.is_finished();
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for address in primaries {
                    known.entry(address).or_insert_with_key(|address| {
                        // Held from here on, so that there is none between the one and the other.
                        let coverage = &shared.coverage;
                        let gap = if unknown.is_some() { coverage.first() } else { coverage.gap() };
                        tasks.spawn(track(Arc::clone(shared), address.clone(), gap))
                    });
                }
                unknown = None;
            }
            Err(error) => {
                if unknown.is_none() {
                    tracing::warn!(
                        "the primaries of Redis are not known: {error}; stored responses are validated until they are"
                    );
                    unknown = Some(shared.coverage.gap());
                }
            }
        }
        while tasks.try_join_next().is_some() {}
        if shared.by_channel.load(Ordering::Relaxed) {
            break;
        }
        sleep(LOOK).await;
    }
    tasks.shutdown().await;
    drop(unknown);
    listen(shared).await;
}

async fn primaries(client: &Client) -> Result<Vec<NodeAddress>, Error> {
    let answers = client.on_all(Route::AllPrimaries, Command::raw("PING")).await?;
    // One that does not answer now is one all the same.
    Ok(answers.into_iter().map(|answer| answer.node).collect())
}

/// Listens to one primary until it is told to stop, or the server refuses.
async fn track(shared: Arc<Shared>, address: NodeAddress, gap: Gap) {
    let mut missing = Missing { gap: Some(gap), is_told: false };
    loop {
        let Err(lost) = session(&shared, &address, &mut missing).await;
        if let Lost::Refused(why) = &lost {
            tracing::warn!(node = %address, "client tracking is refused: {why}; gateways tell each other which records they replace");
            shared.by_channel.store(true, Ordering::Relaxed);
            return std::future::pending().await;
        }
        if missing.gap.is_none() {
            tracing::warn!(node = %address, "news of the records that other gateways replace is lost: {lost}; stored responses are validated until it is back");
            missing = Missing { gap: Some(shared.coverage.gap()), is_told: true };
        }
        sleep(PAUSE).await;
    }
}

/// That a primary is not listened to.
struct Missing {
    gap: Option<Gap>,
    /// The log has it.
    is_told: bool,
}

async fn session(
    shared: &Shared,
    address: &NodeAddress,
    missing: &mut Missing,
) -> Result<std::convert::Infallible, Lost> {
    let connecting = shared.client.stream(Route::Node(address.clone()));
    let mut stream = timeout(LOG_COMMAND_TIMEOUT, connecting).await.map_err(|_| Lost::Silent)??;
    let mut read = BytesMut::new();
    let mut decoder = Decoder::new(Limits::default());
    let mut out = Vec::new();
    encode::command(&mut out, &[b"HELLO", b"3"]);
    let prefix = format!("{}{}", shared.options.prefix, keys::VERSION);
    encode::command(&mut out, &[b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", prefix.as_bytes()]);
    stream.write_all(&out).await?;
    let mut replies = 0;
    let mut heard = Instant::now();
    out.clear();
    encode::command(&mut out, &[b"PING"]);
    loop {
        while let Some(frame) = decoder.decode(&mut read)? {
            heard = Instant::now();
            match frame {
                Frame::Push(push) => pushed(shared, &push),
                Frame::Reply(Value::Error(text)) if replies < 2 => {
                    return Err(Lost::Refused(String::from_utf8_lossy(&text).into_owned()));
                }
                Frame::Reply(_) => replies += 1,
            }
        }
        if replies >= 2 && missing.gap.take().is_some() && std::mem::take(&mut missing.is_told) {
            tracing::info!(node = %address, "it is known again which records other gateways replace");
        }
        read.reserve(READ_BUFFER);
        match timeout(BEAT, stream.read_buf(&mut read)).await {
            Ok(Ok(0)) => return Err(Lost::Closed),
            Ok(read) => drop(read?),
            Err(_) if heard.elapsed() > SILENCE => return Err(Lost::Silent),
            Err(_) => timeout(SILENCE, stream.write_all(&out)).await.map_err(|_| Lost::Silent)??,
        }
    }
}

fn pushed(shared: &Shared, push: &[Value]) {
    let [Value::Bulk(kind) | Value::Simple(kind), what] = push else { return };
    if &kind[..] != b"invalidate" {
        return;
    }
    let Value::Array(keys) = what else {
        // FLUSHALL or FLUSHDB.
        shared.coverage.missed();
        return;
    };
    let record = |key: &Value| match key {
        Value::Bulk(key) | Value::Simple(key) => {
            keys::record_name_of(&shared.options.prefix, std::str::from_utf8(key).ok()?)
        }
        _ => None,
    };
    replaced(shared, &keys.iter().filter_map(record).collect::<Vec<_>>());
}

fn replaced(shared: &Shared, records: &[u64]) {
    if !records.is_empty() {
        shared.replaced.fetch_add(records.len() as u64, Ordering::Relaxed);
        shared.cache.purges().replaced(records);
    }
}

/// Listens to the other gateways.
async fn listen(shared: &Shared) {
    let mut gap = Some(shared.coverage.gap());
    let mut is_told = false;
    let own = format!("{} ", shared.instance);
    loop {
        let mut subscription = match shared.client.subscribe(&*shared.names.records).await {
            Ok(subscription) => subscription,
            Err(error) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(
                        "the channel of replaced records cannot be had: {error}; stored responses are validated until it can"
                    );
                }
                sleep(PAUSE).await;
                continue;
            }
        };
        loop {
            // A connection that is lost is noticed by the client; that it is back comes as an event.
            if subscription.is_live() {
                gap = None;
            } else if gap.is_none() {
                gap = Some(shared.coverage.gap());
            }
            match timeout(BEAT, subscription.next()).await {
                Err(_) => {}
                Ok(None) => return std::future::pending().await,
                Ok(Some(Event::Message(message))) if message.payload.starts_with(own.as_bytes()) => {}
                Ok(Some(Event::Message(message))) => replaced(shared, &records(&message.payload)),
                Ok(Some(Event::Gap { .. } | Event::Dropped { .. })) => shared.coverage.missed(),
                Ok(Some(Event::Refused { error, .. })) => {
                    tracing::warn!("the channel of replaced records is refused: {error}");
                    gap.get_or_insert_with(|| shared.coverage.gap());
                }
            }
        }
    }
}

/// What a message tells: behind the sender's name, numbers of 8 bytes.
fn records(payload: &[u8]) -> Vec<u64> {
    let begin = payload.iter().position(|byte| *byte == b' ').map_or(payload.len(), |at| at + 1);
    let numbers = payload.get(begin..).unwrap_or_default().chunks_exact(8);
    numbers.filter_map(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes).collect()
}
