//! The cache itself: what is kept, what is asked for, and when what is kept may be used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::{CacheConfig, CacheMode};
use super::coverage::{Coverage, Start};
use super::flights::Flights;
use super::lifetime::Lifetime;
use super::store::{self, Entry, Name, Store};
use super::tally::Tally;
use crate::client::handle::Client;
use crate::command::{Arg, Command};
use crate::commands::{Commands, spec};
use crate::credentials::BoxFuture;
use crate::engine::attached::Attached;
use crate::engine::flight::Flight;
use crate::engine::lane::Lane;
use crate::engine::options::CallOptions;
use crate::engine::request::Payload;
use crate::engine::retry::{self, Failure};
use crate::engine::submission::{Kind, Outcome, Submission};
use crate::error::table::{About, judge_own};
use crate::error::{Error, ServerError};
use crate::proto::slot::Slot;
use crate::reply::Value;
use crate::stats::CacheStats;

/// `CLIENT CACHING YES`: what the next command reads is tracked (`OPTIN`).
const CACHING: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n";

/// What the clones of a [`Cached`] share.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(super) config: CacheConfig,
    pub(super) client: Client,
    pub(super) coverage: Arc<Coverage>,
    pub(super) store: Store,
    pub(super) flights: Flights,
    pub(super) hits: Tally,
    pub(super) misses: Tally,
    pub(super) shared: Tally,
}

impl Attached for Cache {
    fn shut(&self) {
        self.client.core().shut();
    }

    fn close(&self, patience: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.client.close(patience))
    }

    fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.sum(),
            misses: self.misses.sum(),
            shared: self.shared.sum(),
            invalidations: self.coverage.invalidations(),
            flushes: self.coverage.flushes(),
            losses: self.coverage.losses(),
            entries: self.store.len(),
            bytes: self.store.bytes(),
            lanes: self.client.core().lanes(),
        }
    }
}

impl Cache {
    pub(super) fn covers(&self, key: &Arg<'_>) -> bool {
        self.config.mode.covers(&key.to_bytes())
    }

    /// The reply that is kept, if it may be used.
    #[inline]
    pub(super) fn look_up(&self, name: &Name) -> Option<Value> {
        let entry = self.store.get(name)?;
        let is_usable = self.coverage.is_current(&entry.mark)
            && entry.lane.connection() == Some(entry.connection)
            && self.client.core().may_serve(&entry.lane, entry.slot)
            && Instant::now() < entry.fresh_until;
        if !is_usable {
            return None;
        }
        self.hits.add_one();
        Some(entry.value)
    }

    /// Runs a command whose reply is not kept.
    pub(super) async fn pass<'a>(&'a self, command: Command<'a>) -> Result<Value, Error> {
        self.client.run::<Value>(command).await
    }

    /// Asks the server, with all who miss the same, and keeps the reply.
    pub(super) async fn miss<'a>(&'a self, command: Command<'a>, name: Name) -> Result<Value, Error> {
        let since = Instant::now();
        let Some(key) = command.key_positions().next().and_then(|at| command.arguments().get(at)) else {
            return self.pass(command).await;
        };
        let waiter = self.flights.join(&name, self.coverage.start(&key.to_bytes()));
        let Some(flight) = waiter.flight() else { return self.pass(command).await };
        if waiter.is_joined {
            self.shared.add_one();
        }
        let asked = flight.reply.get_or_init(|| self.fill(&command, key, &name, flight.start, since));
        asked.await.clone()
    }

    async fn fill(
        &self,
        command: &Command<'_>,
        key: &Arg<'_>,
        name: &Name,
        start: Start,
        since: Instant,
    ) -> Result<Value, Error> {
        let slot = Command::slot_of(key);
        self.misses.add_one();
        let asked = Instant::now();
        let core = self.client.core();
        let options = CallOptions::by(self.client.core().config());
        let failure = match core.lane_for(command) {
            Ok(lane) => match self.ask(&lane, command, key, remaining(options.timeout, since)).await {
                Ok((value, lifetime)) => {
                    if let Some(fresh_until) = fresh_until(asked, self.config.max_age, lifetime) {
                        self.keep(name, &value, start, lane, slot, fresh_until);
                    }
                    return Ok(value);
                }
                Err(failure) => failure,
            },
            Err(error) => Failure::NoRoute(error),
        };
        // Redirects, a lost connection, a full lane: the reply is had in the ordinary way, and the next call may keep
        // it.
        retry::follow(core, &Payload::Command(command).usual(), options, failure, since).await
    }

    /// Has `lane` run the command tracked, and tell how long the key lives. That is asked behind it: a key that is
    /// written in between is told of.
    async fn ask(
        &self,
        lane: &Arc<Lane>,
        command: &Command<'_>,
        key: &Arg<'_>,
        timeout: Option<Duration>,
    ) -> Result<(Value, Lifetime), Failure> {
        let is_opt_in = self.config.mode == CacheMode::OptIn;
        // All replies: where CACHING is refused, nothing would tell when the key changes.
        let submission = Submission { replies: 2 + u32::from(is_opt_in), skip: 0, kind: Kind::Many, timeout };
        let pttl = Command::new(&spec::PTTL).arg(key.clone());
        let submitted = lane.submit(submission, None, |out| {
            if is_opt_in {
                out.page().extend_from_slice(CACHING);
            }
            command.encode(out);
            pttl.encode(out);
        });
        let refused = |refused| Failure::Refused(Arc::clone(lane), Arc::new(refused));
        let (outcome, _) = Flight::new(Arc::clone(lane), submitted.map_err(refused)?).outcome().await;
        let mut values = match outcome {
            Outcome::One(value) => vec![value],
            Outcome::Many(values) => values,
            Outcome::Failed(failure) => return Err(Failure::Outcome(Arc::clone(lane), Outcome::Failed(failure))),
        };
        let lifetime = values.pop().unwrap_or(Value::Null);
        let reply = values.pop().unwrap_or(Value::Null);
        let value = match (values.pop(), &lifetime) {
            (Some(Value::Error(refusal)), _) => Value::Error(refusal),
            (_, Value::Error(refusal)) if is_forbidden(refusal) => Value::Error(refusal.clone()),
            _ => reply,
        };
        match value {
            Value::Error(_) | Value::Skipped(_) => Err(Failure::Outcome(Arc::clone(lane), Outcome::One(value))),
            value => {
                let lifetime = Lifetime::read(&lifetime, &value);
                Ok((value, lifetime))
            }
        }
    }

    /// Keeps a reply, if nothing has happened since it was asked for.
    fn keep(&self, name: &Name, value: &Value, start: Start, lane: Arc<Lane>, slot: Slot, fresh_until: Instant) {
        // First the connection, then whether any was lost since before the request: if none was, it is the one that
        // read the key.
        let Some(connection) = lane.connection() else { return };
        if !self.coverage.is_unbroken(&start) {
            return;
        }
        self.store
            .put(name, Entry { value: store::detached(value), mark: start.mark, lane, connection, slot, fresh_until });
    }
}

/// Until when a reply may be used that was asked for at `asked`. `None`: not at all.
fn fresh_until(asked: Instant, max_age: Duration, lifetime: Lifetime) -> Option<Instant> {
    match lifetime {
        Lifetime::Endless => asked.checked_add(max_age),
        Lifetime::Ends(after) => asked.checked_add(max_age.min(after)),
        Lifetime::Unknown => None,
    }
}

/// Whether the user may not ask how long a key lives: then its replies would outlive it.
fn is_forbidden(refusal: &[u8]) -> bool {
    judge_own(&ServerError::parse(refusal)).about == About::Permission
}

fn remaining(timeout: Option<Duration>, since: Instant) -> Option<Duration> {
    timeout.map(|timeout| timeout.saturating_sub(since.elapsed()))
}
