//! The keys that GETs ask for: set before, deleted afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pilotlight_redis::commands::spec;
use pilotlight_redis::{Client, Command, Config};

use super::plan::Plan;
use crate::load::fault::Faults;
use crate::load::interrupt::Interrupt;
use crate::load::{progress, text, thread};

/// Keys of one batch, and bytes of its values.
const MAX_BATCH: u64 = 512;
const MAX_BATCH_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Set,
    Unlink,
}

/// Sets all keys. False: Ctrl-C.
pub(crate) async fn populate(
    config: &Config,
    plan: &Arc<Plan>,
    threads: u64,
    interrupt: &Interrupt,
) -> anyhow::Result<bool> {
    each_key(config, plan, threads, Work::Set, interrupt).await
}

/// Deletes all keys.
pub(crate) async fn clean(
    config: &Config,
    plans: &[Arc<Plan>],
    threads: u64,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    if let Some(plan) = plans.first() {
        each_key(config, plan, threads, Work::Unlink, interrupt).await?;
    }
    Ok(())
}

async fn each_key(
    config: &Config,
    plan: &Arc<Plan>,
    threads: u64,
    work: Work,
    interrupt: &Interrupt,
) -> anyhow::Result<bool> {
    let (next, is_stopped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let handles = thread::spawn(threads as usize, config, {
        let (plan, next, is_stopped) = (Arc::clone(plan), Arc::clone(&next), Arc::clone(&is_stopped));
        move |_, client| {
            let (plan, next, is_stopped) = (Arc::clone(&plan), Arc::clone(&next), Arc::clone(&is_stopped));
            async move { some_keys(&client, &plan, &next, &is_stopped, work).await }
        }
    })?;
    let bar = progress::bar(plan.keys);
    bar.set_message(if work == Work::Set { "setting keys" } else { "deleting keys" });
    // Keys are deleted after Ctrl-C, too: a second one ends it.
    let stops = |interrupt: &Interrupt| work == Work::Set && interrupt.is_asked();
    while tokio::time::timeout(progress::EVERY, thread::ended(&handles)).await.is_err() {
        is_stopped.store(stops(interrupt), Ordering::Relaxed);
        bar.set_position(next.load(Ordering::Relaxed).min(plan.keys));
    }
    bar.finish_and_clear();
    let mut faults = Faults::default();
    thread::join(handles)?.into_iter().for_each(|more| faults.merge(more));
    if faults.total() > 0 {
        let what = if work == Work::Set { "set" } else { "deleted" };
        anyhow::bail!(
            "{} of {} keys could not be {what}:\n{faults}",
            text::grouped(faults.total()),
            text::grouped(plan.keys)
        );
    }
    Ok(!is_stopped.load(Ordering::Relaxed))
}

async fn some_keys(
    client: &Client,
    plan: &Plan,
    next: &AtomicU64,
    is_stopped: &AtomicBool,
    work: Work,
) -> anyhow::Result<Faults> {
    let size = (MAX_BATCH_BYTES / plan.value_size).clamp(1, MAX_BATCH as usize) as u64;
    let mut faults = Faults::default();
    let mut name = Vec::new();
    // After so many it will not become better.
    while !is_stopped.load(Ordering::Relaxed) && faults.total() < MAX_BATCH {
        let first = next.fetch_add(size, Ordering::Relaxed);
        if first >= plan.keys {
            break;
        }
        let mut pipeline = client.pipeline().retryable();
        for number in first..(first + size).min(plan.keys) {
            name.clear();
            plan.append_key(number, &mut name);
            let key = bytes::Bytes::copy_from_slice(&name);
            pipeline.queue::<()>(match work {
                Work::Set => Command::new(&spec::SET).arg(key).arg(plan.noise.value(number, 0, plan.value_size)),
                Work::Unlink => Command::new(&spec::UNLINK).arg(key),
            });
        }
        for reply in pipeline.run().await?.into_values() {
            if let Err(error) = reply {
                faults.add_error(&error, 1);
            }
        }
    }
    Ok(faults)
}
