//! Whether everything is there.

use std::sync::Arc;
use std::time::Duration;

use pilotlight_redis::commands::spec;
use pilotlight_redis::{Client, Command, Route};

use super::item::Words;
use super::task::Fill;
use super::work::{Shared, Sum, Work};
use crate::advice;
use crate::load::interrupt::Interrupt;
use crate::load::random::Random;
use crate::load::text;

/// Values that are read back together, in bytes and number.
const BATCH_BYTES: u64 = 1 << 20;
const BATCH: u64 = 100;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// `None`: the servers did not tell.
    pub(crate) keys_after: Option<u64>,
    /// Keys of each primary.
    pub(crate) keys_by_node: Vec<(String, u64)>,
    /// Items that were written, or said to be there, and are not, or are not as they were sent; those that failed
    /// beforehand are not among them.
    pub(crate) missing: u64,
    /// How many values were read back.
    pub(crate) sampled: u64,
    /// Every key was looked at.
    pub(crate) was_complete: bool,
    /// Some of the keys may have expired meanwhile, so nothing was looked at.
    pub(crate) may_have_expired: bool,
    /// Items that could not be inspected.
    pub(crate) unknown: u64,
    /// Why the check could not be made, or not to its end.
    pub(crate) problem: Option<String>,
}

impl Checked {
    /// How well it is known that nothing else is missing: by `every key`, a `sample`, the `number` of keys, or
    /// `nothing`.
    pub(crate) fn by(&self) -> &'static str {
        match self {
            Self { may_have_expired: true, .. } | Self { problem: Some(_), .. } => "nothing",
            Self { was_complete: true, .. } => "every key",
            Self { sampled: 0, .. } => "number",
            _ => "sample",
        }
    }
}

/// Keys of all primaries together.
pub(crate) async fn key_count(client: &Client) -> anyhow::Result<u64> {
    Ok(keys_by_node(client).await?.into_iter().map(|(_, keys)| keys).sum())
}

async fn keys_by_node(client: &Client) -> anyhow::Result<Vec<(String, u64)>> {
    let mut counts = Vec::new();
    for answer in client.on_all(Route::AllPrimaries, Command::new(&spec::DBSIZE)).await? {
        let keys = match answer.reply? {
            pilotlight_redis::Value::Integer(keys) => u64::try_from(keys).unwrap_or_default(),
            other => anyhow::bail!("DBSIZE at {}: an unexpected {}", answer.node, other.type_name()),
        };
        counts.push((answer.node.to_string(), keys));
    }
    Ok(counts)
}

/// Compares the number of keys; looks at every key if that is not as it should be; reads some values back. A server
/// that does not answer is no error of it: what was written is to be reported all the same.
pub(crate) async fn check(
    fill: &Fill<'_>,
    client: &Client,
    sum: &Sum,
    keys_before: u64,
    elapsed: Duration,
    interrupt: &Interrupt,
) -> Checked {
    let mut checked = Checked::default();
    if sum.was_given_up {
        checked.problem = Some("a server does not answer".to_owned());
    } else if let Err(error) = look(fill, client, sum, keys_before, elapsed, interrupt, &mut checked).await {
        checked.problem = Some(advice::causes(&error));
    } else if checked.unknown > 0 {
        checked.problem = Some(format!("{} keys could not be inspected", text::grouped(checked.unknown)));
    }
    checked
}

async fn look(
    fill: &Fill<'_>,
    client: &Client,
    sum: &Sum,
    keys_before: u64,
    elapsed: Duration,
    interrupt: &Interrupt,
    checked: &mut Checked,
) -> anyhow::Result<()> {
    let keys_by_node = keys_by_node(client).await?;
    let keys_after = keys_by_node.iter().map(|(_, keys)| keys).sum();
    (checked.keys_after, checked.keys_by_node) = (Some(keys_after), keys_by_node);
    // The check takes time itself, and expiry counts in seconds.
    checked.may_have_expired = fill.args.ttl.is_some_and(|ttl| elapsed.as_secs() + 2 >= ttl);
    if checked.may_have_expired || sum.tried == 0 {
        return Ok(());
    }
    let is_as_expected = keys_after >= keys_before + sum.written;
    if !is_as_expected && interrupt.is_asked() {
        // Which they are nobody wants to wait for.
        checked.missing = keys_before + sum.written - keys_after;
    } else if fill.args.verify_all || !is_as_expected {
        let shared = Arc::new(Shared::new(sum.tried, 0, Work::Check, fill.args.timeout));
        let found = fill.crew.run(&fill.config, &fill.items, &shared, fill.item_bytes, interrupt).await?;
        checked.was_complete = !found.was_interrupted && !found.was_given_up && found.unknown == 0;
        checked.missing = found.failed.saturating_sub(sum.failed);
        if !found.was_interrupted {
            checked.unknown = sum.tried.saturating_sub(found.failed + found.present);
        }
        if found.was_given_up {
            return Ok(());
        }
    }
    // Where some failed, which they were is known only to the server.
    if sum.failed == 0 {
        sample(fill, client, sum.tried, checked, interrupt).await?;
    }
    Ok(())
}

async fn sample(
    fill: &Fill<'_>,
    client: &Client,
    tried: u64,
    checked: &mut Checked,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let batch = (BATCH_BYTES / fill.item_bytes).clamp(1, BATCH);
    let mut random = Random::seeded(fill.args.seed ^ tried);
    let wanted = fill.args.sample.min(tried);
    let mut wrong = 0;
    while checked.sampled < wanted && !interrupt.is_asked() {
        let some: Vec<u64> = (0..batch.min(wanted - checked.sampled)).map(|_| random.below(tried)).collect();
        let mut words = Words::default();
        some.iter().for_each(|&index| fill.items.spell(index, &mut words));
        let mut pipeline = client.pipeline();
        for at in 0..some.len() {
            fill.items.queue_read(&mut pipeline, &words, at * fill.items.word_count());
        }
        let replies = pipeline.run().await?.into_values();
        for (&index, reply) in some.iter().zip(replies) {
            let is_right = match reply {
                Ok(reply) => fill.items.is_content(index, &reply),
                // A key of another type is none that was written.
                Err(error) if error.server().is_some_and(|server| server.code() == "WRONGTYPE") => false,
                Err(error) => return Err(error.into()),
            };
            wrong += u64::from(!is_right);
        }
        checked.sampled += some.len() as u64;
    }
    // They may be those that are known to be missing already.
    checked.missing = checked.missing.max(wrong);
    Ok(())
}
