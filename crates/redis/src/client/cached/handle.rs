//! The handle of a cache.

use std::sync::Arc;
use std::time::Duration;

use super::cache::Cache;
use super::call::CachedCall;
use super::config::CacheConfig;
use super::coverage::Coverage;
use super::flights::Flights;
use super::store::Store;
use crate::client::handle::Client;
use crate::command::{Arg, Command};
use crate::commands::Commands;
use crate::config::{Config, ProtocolChoice};
use crate::engine::attached::Attached;
use crate::engine::core::Core;
use crate::engine::lane_options::LaneOptions;
use crate::error::{Error, Misuse, Ran};
use crate::reply::FromReply;
use crate::stats::CacheStats;

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
/// - No reply is used for longer than the key that it was read of has to live: that is asked with it (`PTTL`). The
///   expiry of a field of a hash is told when the server carries it out, which may be some time after it is due.
/// - It needs RESP3 and the permission to run `CLIENT TRACKING`, `CLIENT CACHING` and `PTTL`: without them its commands
///   fail, none runs unnoticed without the cache.
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

impl Client {
    /// A cache of what is read, kept coherent by the servers. It has connections of its own, which are made when they
    /// are first needed.
    ///
    /// # Errors
    /// The configuration makes no sense, or this client speaks RESP2 only.
    pub fn cached(&self, config: CacheConfig) -> Result<Cached, Error> {
        let cached =
            Cached::new(self.core().config(), config).map_err(|misuse| Error::new(misuse, Ran::NotSent, "cached"))?;
        self.core().register(&cached.attached());
        Ok(cached)
    }
}

impl Cached {
    /// A cache on connections like those that `client` configures.
    fn new(client: &Config, config: CacheConfig) -> Result<Self, Misuse> {
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

    fn attached(&self) -> Arc<dyn Attached> {
        Arc::clone(&self.cache) as _
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
        CachedCall::new(&self.cache, command)
    }
}
