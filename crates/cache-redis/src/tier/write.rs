//! Writing behind: what flights have stored, leases, invalidations.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use pilotlight_cache::{Freshness, Key, Stored, Timestamp};
use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::{Commands, Error};
use tokio::task::JoinSet;

use super::Tier;
use super::ticket::{Job, Write};
use crate::keys::Name;
use crate::options::{
    JITTER_PERCENT, MAX_FLIGHT, MAX_INLINE_BODY_BYTES, MAX_JITTER, MAX_KEEP, MAX_WRITES_IN_FLIGHT, TOMBSTONE,
};
use crate::record::{self, Apart, Generation, Response};
use crate::script;

/// Pause after an invalidation that could not be sent.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Invalidations that one worker sends at a time.
const MAX_SENT_AT_ONCE: usize = 32;

impl Tier {
    /// Carries out what is in the queue; jobs that come together go out together.
    pub(super) async fn write(self: &Rc<Self>) {
        let mut running = JoinSet::new();
        loop {
            while running.len() < MAX_WRITES_IN_FLIGHT
                && let Some(job) = self.own.queue.pop()
            {
                let tier = Rc::clone(self);
                running.spawn_local(async move { tier.carry_out(job).await });
            }
            self.own.in_flight.store(running.len(), Ordering::Relaxed);
            if running.is_empty() {
                self.own.rested.notify_one();
                self.own.queue.wanted.notified().await;
                continue;
            }
            tokio::select! {
                ended = running.join_next() => if let Some(Err(error)) = ended && error.is_panic() {
                    tracing::error!("a write to cache.redis panicked: {error}; this is a bug of Pilotlight");
                },
                () = self.own.queue.wanted.notified(), if running.len() < MAX_WRITES_IN_FLIGHT => {}
            }
        }
    }

    async fn carry_out(&self, job: Job) {
        let counters = &self.own.counters;
        match job {
            Job::Write(write) => match self.store(*write).await {
                Ok(true) => {
                    counters.writes.add_one();
                    self.shared.note_write(Ok(()));
                }
                Ok(false) => counters.outdated_writes.add_one(),
                Err(error) => {
                    counters.failed_writes.add_one();
                    self.shared.note_write(Err(&error));
                    tracing::debug!("a response was not written to cache.redis: {error}");
                }
            },
            Job::Release { lease, token } => {
                let released = script::RELEASE.run::<i64>(&self.client).key(lease).arg(token.to_string()).await;
                if let Err(error) = released {
                    tracing::debug!("a lease was not given back to cache.redis and ends by itself: {error}");
                }
            }
        }
    }

    /// Writes a response, unless its target was written or invalidated since it was read.
    async fn store(&self, write: Write) -> Result<bool, Error> {
        let Write { mut ticket, key: [scheme, authority, target, extra], stored } = write;
        let key = Key { scheme: &scheme, authority: &authority, target: &target, extra: &extra };
        if ticket.began.elapsed() > MAX_FLIGHT {
            return Ok(false);
        }
        let keep = self.keep(&stored, Timestamp::from_system(SystemTime::now()));
        let mut parts = stored.to_parts();
        // Fields that other responses vary on count for this one, too: it is then found by whoever looks for those.
        let selection = match &ticket.selection {
            Some(known) => known.and(&parts.selection),
            None => parts.selection.clone(),
        };
        let generation = ticket.seen.unwrap_or_else(Generation::random);
        let mut body = Bytes::new();
        let apart = (parts.body.len() > MAX_INLINE_BODY_BYTES).then(|| Apart::new(&parts.body));
        if apart.is_some() {
            body = std::mem::take(&mut parts.body);
        }
        let response = Response { parts, apart, position: stored.position().logged() };
        let record = record::encode_response(generation, &key, &response);
        let name = ticket.name.clone();
        let body_name = apart.map_or_else(|| name.base.clone(), |apart| name.body(apart.id));
        let (base, place, variant) = if selection.is_empty() {
            (record, name.base.clone(), Vec::new())
        } else {
            let names = selection.fields().map(|(name, _)| name);
            (record::encode_variants(generation, names), name.variant(&selection), record)
        };
        let lease = ticket.lease.map_or_else(String::new, |token| token.to_string());
        let seen: &[u8] = match &ticket.seen {
            Some(seen) => &seen.0,
            None => &[],
        };
        let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let call = script::WRITE.run::<i64>(&self.client);
        let call = call.key(&*name.base).key(place).key(body_name).key(name.lease());
        let done = call.arg(seen).arg(base).arg(variant).arg(body).arg(keep_ms).arg(lease).await?;
        ticket.lease = None; // the script gives it back with the write; if that fails, the ticket does
        if done == 1 {
            self.shared.wrote(&name);
        }
        Ok(done == 1)
    }

    /// How long Redis keeps a response: as long as it may be used, fresh or stale, or validated.
    fn keep(&self, stored: &Stored, now: Timestamp) -> Duration {
        let freshness = stored.freshness_parts();
        let Freshness { received, initial_age_ms, lifetime_ms, .. } = freshness;
        let age_ms = initial_age_ms.saturating_add(now.0.saturating_sub(received.0));
        let fresh = Duration::from_millis(lifetime_ms.saturating_sub(age_ms));
        let stale = if stored.has_validator() { self.shared.options().keep_stale } else { Duration::ZERO };
        let stale = stale.max(Duration::from_millis(freshness.stale_use_ms()));
        let keep = fresh.saturating_add(stale).clamp(Duration::from_millis(1), MAX_KEEP);
        let percent = fastrand::u64(0..=JITTER_PERCENT);
        keep + (keep * u32::try_from(percent).unwrap_or(0) / 100).min(MAX_JITTER)
    }

    /// Sends invalidations until Redis has them, those that come together together.
    pub(super) async fn send_invalidations(self: &Rc<Self>) {
        let invalid = self.shared.invalid();
        let mut running = JoinSet::new();
        loop {
            let mut next = None;
            if running.len() < MAX_SENT_AT_ONCE {
                next = invalid.next();
            }
            if let Some((name, generation)) = next {
                let tier = Rc::clone(self);
                running.spawn_local(async move { tier.send(name, generation).await });
                continue;
            }
            tokio::select! {
                ended = running.join_next(), if !running.is_empty() => match ended {
                    // The others wait as well: they would fail, too.
                    Some(Ok(Sent::No)) => tokio::time::sleep(RETRY_PAUSE).await,
                    Some(Err(error)) if error.is_panic() => {
                        tracing::error!("an invalidation for cache.redis panicked: {error}; this is a bug of Pilotlight");
                    }
                    _ => {}
                },
                () = invalid.wanted.notified() => {}
            }
        }
    }

    async fn send(&self, name: Name, generation: Generation) -> Sent {
        let options = SetOptions::new().px(i64::try_from(TOMBSTONE.as_millis()).unwrap_or(i64::MAX));
        let tombstone = record::encode_tombstone(generation);
        // It may be written twice without harm, so it is repeated whatever became of it.
        match self.client.set_with(&*name.base, tombstone, options).retryable().await {
            Ok(_) => {
                self.own.counters.invalidations.add_one();
                self.shared.note_invalidation(Ok(()));
                self.shared.wrote(&name);
                self.shared.invalid().sent(&name, generation, Instant::now());
                Sent::Yes
            }
            Err(error) => {
                self.shared.note_invalidation(Err(&error));
                tracing::debug!("an invalidation did not reach cache.redis yet: {error}");
                self.shared.invalid().put_back(name);
                Sent::No
            }
        }
    }
}

/// What became of an invalidation.
enum Sent {
    Yes,
    No,
}
