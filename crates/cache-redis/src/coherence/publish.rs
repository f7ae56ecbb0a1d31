//! Purges of this gateway are appended to the log, in their order; those that cannot be wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_cache::{Mode, Purge, Scope};
use pilotlight_redis::{Commands, Error};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{MAX_CONFIRMATION, MAX_WAITING_PURGES, Shared, Told, follow, now};
use crate::log;

/// Pause before what could not be appended is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// How often it is looked whether the other gateways have applied a purge.
const LOOK: Duration = Duration::from_millis(5);
/// Replaced records that are told in one message.
const MAX_TOLD: usize = 256;

/// Purges to be appended, and who waits to hear of it.
#[derive(Debug)]
pub(super) struct Publish {
    pub(super) purges: Vec<Purge>,
    pub(super) reply: Option<oneshot::Sender<Told>>,
}

/// An entry to be.
#[derive(Debug)]
struct Waiting {
    by: String,
    purges: Vec<Purge>,
    since: Instant,
    reply: Option<oneshot::Sender<Told>>,
}

/// Appends what comes, until nobody can send any more.
pub(super) async fn publish(shared: &Shared, mut incoming: mpsc::Receiver<Publish>) {
    let mut queue = Queue { instance: shared.instance.clone(), waiting: VecDeque::new(), count: 0 };
    let mut confirming = JoinSet::new();
    loop {
        tokio::select! {
            publish = incoming.recv() => match publish {
                Some(publish) => queue.push(publish),
                None => return,
            },
            () = sleep(PAUSE), if !queue.waiting.is_empty() || is_overflowing(shared) => {}
            Some(_) = confirming.join_next() => continue,
        }
        if shared.overflow.swap(false, std::sync::atomic::Ordering::AcqRel) {
            queue.push(Publish { purges: vec![everything()], reply: None });
        }
        while let Some(first) = queue.waiting.front_mut() {
            match append(shared, &first.by, &first.purges).await {
                Ok(number) => {
                    first.purges.iter().for_each(|purge| shared.cache.purges().number(purge, number, now()));
                    if let Some(reply) = first.reply.take() {
                        confirming.spawn(confirm(
                            shared.client.clone(),
                            shared.names.clone(),
                            number,
                            first.since,
                            reply,
                        ));
                    }
                    queue.waiting.pop_front();
                }
                Err(error) => {
                    let waiting = queue.purges();
                    for entry in &mut queue.waiting {
                        if let Some(reply) = entry.reply.take() {
                            // Nobody there: whoever asked has gone.
                            let _ = reply.send(Told::Waiting { why: error.to_string(), waiting });
                        }
                    }
                    break;
                }
            }
        }
        shared.waiting.store(queue.purges() as u64, std::sync::atomic::Ordering::Relaxed);
    }
}

fn is_overflowing(shared: &Shared) -> bool {
    shared.overflow.load(std::sync::atomic::Ordering::Acquire)
}

struct Queue {
    instance: String,
    waiting: VecDeque<Waiting>,
    count: u64,
}

impl Queue {
    fn push(&mut self, publish: Publish) {
        let Publish { mut purges, reply } = publish;
        if self.purges() + purges.len() > MAX_WAITING_PURGES {
            tracing::warn!(
                "more than {MAX_WAITING_PURGES} purges wait for Redis: other gateways will purge everything"
            );
            for entry in self.waiting.drain(..) {
                if let Some(reply) = entry.reply {
                    let _ = reply.send(Told::Waiting { why: "too many purges wait".to_owned(), waiting: 1 }); // gone
                }
            }
            purges = vec![everything()];
        }
        self.count += 1;
        let by = format!("{} {}", self.instance, self.count);
        self.waiting.push_back(Waiting { by, purges, since: Instant::now(), reply });
    }

    fn purges(&self) -> usize {
        self.waiting.iter().map(|entry| entry.purges.len()).sum()
    }
}

fn everything() -> Purge {
    Purge { scope: Scope::Everything, mode: Mode::Hard }
}

async fn append(shared: &Shared, by: &str, purges: &[Purge]) -> Result<u64, Error> {
    let fields = log::fields(by.as_bytes(), purges);
    // Twice is no harm.
    let call = shared.client.xadd_with(&*shared.names.log, "*", fields, follow::trimmed()).retryable();
    let id = call.await?.unwrap_or_default();
    Ok(log::number(&id).unwrap_or_default())
}

/// Waits until all gateways have applied a number, and says which have.
async fn confirm(
    client: pilotlight_redis::Client,
    names: log::Names,
    number: u64,
    since: Instant,
    reply: oneshot::Sender<Told>,
) {
    let ends = Instant::now() + MAX_CONFIRMATION;
    let told = loop {
        let (applied, late) = match nodes(&client, &names, number).await {
            Ok(nodes) => nodes,
            Err(error) => {
                tracing::debug!("it cannot be known who has applied a purge: {error}");
                (Vec::new(), Vec::new())
            }
        };
        let took = since.elapsed();
        if (late.is_empty() && !applied.is_empty()) || Instant::now() >= ends {
            break Told::Logged { number, applied, late, took };
        }
        sleep(LOOK).await;
    };
    let _ = reply.send(told); // gone
}

/// The gateways that have applied a number, and those that have not.
async fn nodes(
    client: &pilotlight_redis::Client,
    names: &log::Names,
    number: u64,
) -> Result<(Vec<String>, Vec<String>), Error> {
    let all: Vec<String> = client.smembers(&*names.nodes).of().await?;
    let (mut applied, mut late) = (Vec::new(), Vec::new());
    if all.is_empty() {
        return Ok((applied, late));
    }
    let numbers: Vec<Option<u64>> =
        client.mget(all.iter().map(|name| names.node(name)).collect::<Vec<_>>()).of().await?;
    for (name, has) in all.into_iter().zip(numbers) {
        let people = name.rsplit_once(':').map_or(name.clone(), |(people, _)| people.to_owned());
        match has {
            Some(has) if has >= number => applied.push(people),
            Some(_) => late.push(people),
            // It has gone without a word.
            None => drop(client.srem(&*names.nodes, &*name).await?),
        }
    }
    applied.sort();
    late.sort();
    Ok((applied, late))
}

/// Tells other gateways of records that this one has replaced, where the servers do not.
pub(super) async fn tell_writes(shared: &Shared, mut wrote: mpsc::Receiver<u64>) {
    let mut names = Vec::new();
    loop {
        names.clear();
        if wrote.recv_many(&mut names, MAX_TOLD).await == 0 {
            return std::future::pending().await;
        }
        let mut message = format!("{} ", shared.instance).into_bytes();
        names.iter().for_each(|name| message.extend_from_slice(&name.to_le_bytes()));
        let told: Result<i64, Error> = shared.client.publish(&*shared.names.records, Bytes::from(message)).await;
        if let Err(error) = told {
            tracing::debug!("replaced records were not told to other gateways: {error}");
        }
    }
}
