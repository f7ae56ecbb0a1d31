//! Purges of this gateway are appended to the log, in their order; those that cannot be wait.

use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_cache::Purge;
use pilotlight_redis::{Commands, Error};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::follow;
use super::queue::PurgeReport;
use super::shared::{MAX_CONFIRMATION, Shared};
use crate::log;

/// Pause before what could not be appended is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// How often it is looked whether the other gateways have applied a purge.
const LOOK: Duration = Duration::from_millis(5);
/// Replaced records that are told in one message.
const MAX_TOLD: usize = 256;

/// Appends what comes, for ever.
pub(super) async fn publish(shared: &Shared) {
    let queue = &shared.queue;
    let mut confirming = JoinSet::new();
    loop {
        tokio::select! {
            () = queue.pushed.notified() => {}
            () = sleep(PAUSE), if queue.len() > 0 => {}
            Some(_) = confirming.join_next() => continue,
        }
        while let Some((by, purges)) = queue.first() {
            match append(shared, &by, &purges).await {
                Ok(number) => {
                    let Some(waited) = queue.pop(&by) else { continue };
                    purges.iter().for_each(|purge| shared.cache.purges().number(purge, number));
                    if let Some(reply) = waited.reply {
                        let (client, names) = (shared.client.clone(), shared.names.clone());
                        confirming.spawn(confirm(client, names, number, waited.since, reply));
                    }
                }
                Err(error) => {
                    queue.fail(&error.to_string());
                    break;
                }
            }
        }
    }
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
    reply: oneshot::Sender<PurgeReport>,
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
            break PurgeReport::Logged { number, applied, late, took };
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
    let all: Vec<String> = client.smembers(&*names.nodes).read_as().await?;
    let (mut applied, mut late) = (Vec::new(), Vec::new());
    if all.is_empty() {
        return Ok((applied, late));
    }
    let numbers: Vec<Option<u64>> =
        client.mget(all.iter().map(|name| names.node(name)).collect::<Vec<_>>()).read_as().await?;
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
