//! Client-side caching: replies are kept here, and the server tells when their keys change (Redis, "Client-side
//! caching", RESP3).
//!
//! ```text
//!  call ─► look up ── hit ────────────────────────────────────────────► reply
//!             │ miss
//!             └► mark the key ─► one request for all ─► reply ─► kept, if the mark and the connection are still the same
//!                     ▲                                                            │
//!        invalidation ┴─── push on the connection that read the key ◄──────────────┘
//! ```
//!
//! A cache has connections of its own, on which tracking is switched on before anything else: the pushes of a
//! connection tell of exactly what was read on it. A hit touches no lane's lock.
//!
//! Invariant (fail closed): a reply is used only while the connection that read it is still there and is that to the
//! owner of its slot, nothing was told of its key since *before* it was asked for (see [`coverage`]), and it is younger
//! than `max_age`.

mod cacheable;
mod call;
mod config;
mod coverage;
mod flights;
mod stats;
mod store;
mod tally;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use call::CachedCall;
pub use config::{CacheConfig, CacheMode};
pub use stats::CacheStats;

use crate::call::{CallOptions, Flight};
use crate::client::Client;
use crate::command::{Arg, Command};
use crate::commands::Commands;
use crate::config::{Config, ProtocolChoice};
use crate::core::Core;
use crate::error::{Error, Misuse};
use crate::follow::{self, Failure};
use crate::net::lane::{Kind, Lane, Outcome, Submission};
use crate::node::LaneOptions;
use crate::proto::slot::Slot;
use crate::reply::{FromReply, Value};
use crate::request::Payload;
use coverage::{Coverage, Start};
use flights::Flights;
use store::{Entry, Name, Store};
use tally::Tally;

/// `CLIENT CACHING YES`: what the next command reads is tracked (`OPTIN`).
const CACHING: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n";

/// A client that keeps what it reads and is told by the server when that changes. Cloning it is cheap; clones share
/// what is kept.
///
/// It runs commands that only read. Those of a single key are kept; those of several keys, or whose reply may change
/// though the key does not (`TTL`, `SRANDMEMBER`, …), are passed on to the server. Writes belong to the [`Client`]:
/// whoever has to read his own write here calls [`forget`](Self::forget) after it, and others read it as soon as the
/// server's message is here.
///
/// - Calls that miss the same reply at the same time share one request.
/// - When a connection is lost, nothing that was read on it is used any more; while there is none, every call goes to
///   the server and fails or waits as the client's would. A connection that is dead without a sign is found out by the
///   [`probe`](crate::config::Probe): until then, up to `idle_ping` and `stall` and a probe of 2 s together (9 s by
///   default), or as long as a command waits on it, what was read on it is still used.
/// - A key's expiry is told when the server carries it out, which may be some time after it is due.
/// - It needs RESP3 and the permission to run `CLIENT TRACKING` and `CLIENT CACHING`: without them its commands fail,
///   none runs unnoticed without the cache.
///
/// ```no_run
/// # use pilotlight_redis::{CacheConfig, Client, Commands, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let cached = client.cached(CacheConfig::default())?;
/// let name = cached.get("user:1:name").await?; // asks the server
/// let same = cached.get("user:1:name").await?; // does not
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Cached {
    cache: Arc<Cache>,
}

/// What the clones of a [`Cached`] share.
#[derive(Debug)]
pub(crate) struct Cache {
    config: CacheConfig,
    client: Client,
    coverage: Arc<Coverage>,
    store: Store,
    flights: Flights,
    hits: Tally,
    misses: Tally,
    shared: Tally,
}

impl Cached {
    /// A cache on connections like those that `client` configures.
    pub(crate) fn new(client: &Config, config: CacheConfig) -> Result<Self, Misuse> {
        config.check()?;
        if client.protocol == ProtocolChoice::Resp2 {
            return Err(Misuse::Arguments(
                "a cache needs RESP3: in RESP2 a server cannot tell what has changed".into(),
            ));
        }
        let store =
            Store::new(config.max_bytes).ok_or_else(|| Misuse::Arguments("a cache cannot have this size".into()))?;
        let coverage = Arc::new(Coverage::new(config.max_bytes));
        let lane_options =
            LaneOptions { setup: config.mode.setup(), watch: Arc::clone(&coverage) as _, ..LaneOptions::default() };
        // A kept reply belongs to one connection.
        let client = Config { protocol: ProtocolChoice::Resp3, large_bytes: None, ..client.clone() };
        let client = Client::of(Core::new(client, &lane_options));
        let (hits, misses, shared) = Default::default();
        Ok(Self {
            cache: Arc::new(Cache {
                config,
                client,
                coverage,
                store,
                flights: Flights::default(),
                hits,
                misses,
                shared,
            }),
        })
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// What was read of `key` before this call is not used after it.
    pub fn forget<'a>(&self, key: impl Into<Arg<'a>>) {
        self.cache.coverage.invalidate(&key.into().to_bytes());
    }

    /// Nothing that was read before this call is used after it.
    pub fn clear(&self) {
        self.cache.coverage.flush();
        self.cache.store.clear();
    }

    /// What it has done so far, and what it keeps now.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Closes the cache's connections as [`Client::close`] does. Closing the client it was made from closes it as well.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it closing.
    pub async fn close(&self, patience: Duration) {
        self.cache.close(patience).await;
    }
}

impl<'a> Commands<'a> for &'a Cached {
    type Out<T: FromReply> = CachedCall<'a, T>;

    #[inline]
    fn run<T: FromReply>(self, command: Command<'a>) -> CachedCall<'a, T> {
        CachedCall::new(self, command)
    }
}

impl Cache {
    pub(crate) async fn close(&self, patience: Duration) {
        self.client.close(patience).await;
    }

    pub(crate) fn shut(&self) {
        self.client.core().shut();
    }

    fn covers(&self, key: &Arg<'_>) -> bool {
        self.config.mode.covers(&key.to_bytes())
    }

    /// The reply that is kept, if it may be used.
    #[inline]
    fn look_up(&self, name: &Name) -> Option<Value> {
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
    async fn pass<'a>(&'a self, command: Command<'a>) -> Result<Value, Error> {
        self.client.run::<Value>(command).await
    }

    /// Asks the server, with all who miss the same, and keeps the reply.
    async fn miss<'a>(&'a self, command: Command<'a>, name: Name) -> Result<Value, Error> {
        let since = Instant::now();
        let Some(key) = command.key_positions().next().and_then(|at| command.arguments().get(at)) else {
            return self.pass(command).await;
        };
        let waiter = self.flights.join(&name, self.coverage.start(&key.to_bytes()));
        let Some(flight) = waiter.flight() else { return self.pass(command).await };
        if waiter.is_joined {
            self.shared.add_one();
        }
        let asked = flight.reply.get_or_init(|| self.fill(&command, &name, flight.start, Command::slot_of(key), since));
        asked.await.clone()
    }

    async fn fill(
        &self,
        command: &Command<'_>,
        name: &Name,
        start: Start,
        slot: Slot,
        since: Instant,
    ) -> Result<Value, Error> {
        self.misses.add_one();
        let core = self.client.core();
        let options = CallOptions::of(&self.client);
        let failure = match core.lane_for(command) {
            Ok(lane) => match self.ask(&lane, command, remaining(options.timeout, since)).await {
                Ok(value) => {
                    self.keep(name, &value, start, lane, slot);
                    return Ok(value);
                }
                Err(failure) => failure,
            },
            Err(error) => Failure::NoRoute(error),
        };
        // Redirects, a lost connection, a full lane: the reply is had in the ordinary way, and the next call may keep
        // it.
        follow::follow(core, &Payload::Command(command).usual(), options, failure, since).await
    }

    /// Has `lane` run the command tracked.
    async fn ask(&self, lane: &Arc<Lane>, command: &Command<'_>, timeout: Option<Duration>) -> Result<Value, Failure> {
        let is_opt_in = self.config.mode == CacheMode::OptIn;
        // Both replies: where CACHING is refused, nothing would tell when the key changes.
        let submission = match is_opt_in {
            true => Submission { replies: 2, skip: 0, kind: Kind::Many, timeout },
            false => Submission { replies: 1, skip: 0, kind: Kind::One, timeout },
        };
        let submitted = lane.submit(submission, None, |out| {
            if is_opt_in {
                out.page().extend_from_slice(CACHING);
            }
            command.encode(out);
        });
        let refused = |refused| Failure::Refused(Arc::clone(lane), Arc::new(refused));
        let (outcome, _) = Flight::new(Arc::clone(lane), submitted.map_err(refused)?).outcome().await;
        let value = match outcome {
            Outcome::One(value) => value,
            Outcome::Many(mut values) => {
                let reply = values.pop().unwrap_or(Value::Null);
                match values.pop() {
                    Some(Value::Error(refusal)) => Value::Error(refusal),
                    _ => reply,
                }
            }
            Outcome::Failed(failure) => return Err(Failure::Outcome(Arc::clone(lane), Outcome::Failed(failure))),
        };
        match value {
            Value::Error(_) | Value::TooDeep => Err(Failure::Outcome(Arc::clone(lane), Outcome::One(value))),
            value => Ok(value),
        }
    }

    /// Keeps a reply, if nothing has happened since it was asked for.
    fn keep(&self, name: &Name, value: &Value, start: Start, lane: Arc<Lane>, slot: Slot) {
        // First the connection, then whether any was lost since before the request: if none was, it is the one that
        // read the key.
        let Some(connection) = lane.connection() else { return };
        if !self.coverage.is_unbroken(&start) {
            return;
        }
        let fresh_until = Instant::now() + self.config.max_age;
        self.store
            .put(name, Entry { value: store::detached(value), mark: start.mark, lane, connection, slot, fresh_until });
    }
}

fn remaining(timeout: Option<Duration>, since: Instant) -> Option<Duration> {
    timeout.map(|timeout| timeout.saturating_sub(since.elapsed()))
}
