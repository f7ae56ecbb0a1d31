//! Cache-aside: users as the bytes that go out, for [`TTL`] at most, in Redis or in this process.
//!
//! A reader that finds nothing takes a *lease*, reads the database, and puts what it read only if its lease is still there. A
//! write removes user and lease after its commit and before its answer. So a row that was read before the commit is never put
//! back after it: either the put comes first and is removed, or the removal comes first and the put finds no lease.
//!
//! Redis is optional at every moment. Each command has a short budget, a breaker stops asking who does not answer, and
//! a removal that failed is repeated until it succeeds; until then this process reads that user from the database. Other
//! processes may read it for [`TTL`] at most, counted from when the database was read.
//!
//! Invariant: after a write was answered and its removal succeeded, no process reads an older state of that user from the cache.
//! Invariant: nothing is read from the cache that was read from the database more than [`TTL`] ago.

mod breaker;
mod memory;
mod pending;
mod redis;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use self::memory::Memory;
use self::pending::Pending;
use self::redis::{Redis, RedisSettings};

/// How long a user is kept.
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// How long a reader may take from its lease to its put.
const LEASE: Duration = Duration::from_secs(3);

/// What the threads of this process share.
#[derive(Debug)]
pub(crate) enum Shared {
    Memory(Arc<Memory>),
    Redis(Box<RedisSettings>, Arc<Pending>),
}

/// The cache as one thread uses it.
#[derive(Clone, Debug)]
pub(crate) enum Cache {
    Memory(Arc<Memory>),
    Redis(Rc<Redis>),
}

/// What the cache says about a user.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The stored bytes.
    Hit(Bytes),
    /// Read the database; with a lease, [`keep`](Cache::keep) what was read.
    Miss(Option<Lease>),
}

/// The right to put what is read from the database from now on.
#[derive(Debug)]
pub(crate) struct Lease {
    /// As no other lease has it.
    token: u64,
    since: Instant,
}

impl Shared {
    /// Users in this process, in `max_bytes` at most.
    pub(crate) fn memory(max_bytes: u64) -> Self {
        Self::Memory(Arc::new(Memory::new(max_bytes)))
    }

    /// Users in Redis; a command may take `budget`.
    ///
    /// # Errors
    /// The URL is malformed.
    pub(crate) fn redis(url: &str, budget: Duration) -> Result<Self, pilotlight_redis::config::UrlError> {
        Ok(Self::Redis(Box::new(RedisSettings::new(url, budget)?), Arc::default()))
    }

    /// For the calling thread, which has connections of its own.
    ///
    /// # Errors
    /// The settings make no sense.
    pub(crate) fn worker(&self) -> Result<Cache, pilotlight_redis::Error> {
        Ok(match self {
            Self::Memory(memory) => Cache::Memory(Arc::clone(memory)),
            Self::Redis(settings, pending) => Cache::Redis(Rc::new(Redis::new(settings, Arc::clone(pending))?)),
        })
    }
}

impl Cache {
    /// The stored bytes, or the right to put them.
    ///
    /// # Cancel safety
    /// A lease that was taken ends by itself.
    pub(crate) async fn look_up(&self, id: i64) -> Lookup {
        match self {
            Self::Memory(memory) => memory.look_up(id, Instant::now()),
            Self::Redis(redis) => redis.look_up(id).await,
        }
    }

    /// Puts what was read from the database since `lease` was given, unless the user was removed meanwhile.
    ///
    /// # Cancel safety
    /// It is put or not.
    pub(crate) async fn keep(&self, id: i64, lease: Lease, bytes: &Bytes) {
        match self {
            Self::Memory(memory) => memory.keep(id, &lease, bytes, Instant::now()),
            Self::Redis(redis) => redis.keep(id, &lease, bytes).await,
        }
    }

    /// Removes a user that has changed: to be awaited between the commit and the answer.
    ///
    /// # Cancel safety
    /// It may be removed or not. Whoever drops the future does not answer either.
    pub(crate) async fn remove(&self, id: i64) {
        match self {
            Self::Memory(memory) => memory.remove(id),
            Self::Redis(redis) => redis.remove(id).await,
        }
    }

    /// Repeats removals that failed, for ever: to be run by a task of this thread.
    pub(crate) async fn repeat_removals(&self) {
        match self {
            Self::Memory(_) => std::future::pending().await,
            Self::Redis(redis) => redis.repeat_removals().await,
        }
    }
}

impl Lease {
    fn new(now: Instant) -> Self {
        Self { token: fastrand::u64(1..), since: now }
    }

    /// How long what is put now may be kept: the database was read after `since` and may have changed right after that.
    fn ttl(&self, now: Instant) -> Option<Duration> {
        TTL.checked_sub(now.saturating_duration_since(self.since)).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilotlight_testkit::{Cluster, Server};

    const BUDGET: Duration = Duration::from_secs(5);
    const OLD: Bytes = Bytes::from_static(b"{\"old\":1}");
    const NEW: Bytes = Bytes::from_static(b"{\"new\":1}");

    fn run(shared: &Shared, test: &impl AsyncFn(&Cache, &Cache)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { test(&shared.worker().unwrap(), &shared.worker().unwrap()).await });
    }

    /// The same for each kind of cache.
    fn check(test: &impl AsyncFn(&Cache, &Cache)) {
        run(&Shared::memory(1 << 20), test);
        let server = Server::start().unwrap();
        run(&Shared::redis(&server.url(), BUDGET).unwrap(), test);
        let cluster = Cluster::start(3, 0).unwrap();
        let url = cluster.urls()[0].replace("redis://", "redis+cluster://");
        run(&Shared::redis(&url, BUDGET).unwrap(), test);
    }

    #[track_caller]
    fn lease(lookup: Lookup) -> Lease {
        match lookup {
            Lookup::Miss(Some(lease)) => lease,
            other => panic!("no lease: {other:?}"),
        }
    }

    #[track_caller]
    fn hit(lookup: Lookup) -> Bytes {
        match lookup {
            Lookup::Hit(bytes) => bytes,
            other => panic!("no hit: {other:?}"),
        }
    }

    #[test]
    fn what_was_read_is_kept_until_it_is_removed() {
        check(&async |one, other| {
            let mine = lease(one.look_up(7).await);
            // Who comes meanwhile reads for himself, and keeps nothing.
            assert!(matches!(other.look_up(7).await, Lookup::Miss(None)));
            one.keep(7, mine, &OLD).await;
            assert_eq!(hit(other.look_up(7).await), OLD);
            other.remove(7).await;
            lease(one.look_up(7).await);
        });
    }

    /// The row is read before the commit, the put comes after the removal.
    #[test]
    fn an_old_row_is_not_put_back() {
        check(&async |reader, writer| {
            let slow = lease(reader.look_up(7).await);
            // Here the reader has read the old row; now the commit, and what follows it.
            writer.remove(7).await;
            reader.keep(7, slow, &OLD).await;
            let fresh = lease(writer.look_up(7).await);
            writer.keep(7, fresh, &NEW).await;
            assert_eq!(hit(reader.look_up(7).await), NEW);
        });
    }

    /// As above, with a reader that takes the lease between the removal and the late put.
    #[test]
    fn another_readers_lease_does_not_let_the_old_row_in() {
        check(&async |reader, other| {
            let slow = lease(reader.look_up(7).await);
            other.remove(7).await;
            let fresh = lease(other.look_up(7).await);
            reader.keep(7, slow, &OLD).await;
            other.keep(7, fresh, &NEW).await;
            assert_eq!(hit(reader.look_up(7).await), NEW);
        });
    }

    #[test]
    fn what_is_kept_is_not_kept_longer_than_the_ttl_from_its_lease() {
        let since = Instant::now();
        let lease = Lease::new(since);
        assert_eq!(lease.ttl(since + Duration::from_secs(2)), Some(TTL - Duration::from_secs(2)));
        assert_eq!(lease.ttl(since + TTL), None);
    }

    #[test]
    fn a_kept_user_ends_with_its_ttl_in_redis() {
        let server = Server::start().unwrap();
        run(&Shared::redis(&server.url(), BUDGET).unwrap(), &async |one, _| {
            let mine = lease(one.look_up(7).await);
            let left = server.command(&["PTTL", "user:7"]).unwrap().integer().unwrap();
            assert!((1..=LEASE.as_millis() as i64).contains(&left), "{left}");
            one.keep(7, mine, &OLD).await;
            assert_eq!(server.command(&["GET", "user:7"]).unwrap().text(), "{\"old\":1}");
            let left = server.command(&["PTTL", "user:7"]).unwrap().integer().unwrap();
            assert!((50_000..=60_000).contains(&left), "{left}");
        });
    }

    #[test]
    fn a_removal_that_failed_is_repeated_and_meanwhile_the_user_is_not_read_from_the_cache() {
        let server = Server::start().unwrap();
        let shared = Shared::redis(&server.url(), Duration::from_millis(100)).unwrap();
        run(&shared, &async |one, other| {
            let mine = lease(one.look_up(7).await);
            one.keep(7, mine, &OLD).await;
            assert_eq!(hit(other.look_up(7).await), OLD);
            server.stop().unwrap();
            one.remove(7).await;
            server.cont().unwrap();
            // The breaker of `other` is closed, and Redis may still have the user: it is not asked.
            assert!(matches!(other.look_up(7).await, Lookup::Miss(None)));
            tokio::select! {
                () = one.repeat_removals() => unreachable!("it runs for ever"),
                () = async { while !matches!(other.look_up(7).await, Lookup::Miss(Some(_))) { tokio::task::yield_now().await } } => {}
            }
        });
    }

    #[test]
    fn without_redis_everything_is_a_miss_at_once() {
        let server = Server::start().unwrap();
        let shared = Shared::redis(&server.url(), BUDGET).unwrap();
        server.kill().unwrap();
        run(&shared, &async |one, _| {
            for id in 0..100 {
                assert!(matches!(one.look_up(id).await, Lookup::Miss(None)));
                one.remove(id).await;
            }
        });
    }
}
