//! Cache-aside: users as the bytes that go out, for [`TTL`] at most, in Redis or in this process.
//!
//! A reader that finds nothing takes a *lease*, reads the database, and puts what it read only if its lease is still
//! there. A write *claims* the user before its commit and releases it before its answer. A claim takes the place of
//! user and lease, and while it is there readers read the database and put nothing. So what is in the cache is what the
//! database has, at every moment, and it does not matter which of both a reader asks. A claim that is not renewed ends
//! by itself: after a SIGKILL nobody keeps that user for [`CLAIM`], and nobody finds its old state.
//!
//! Redis is optional at every moment. Each command has a short budget, a breaker stops asking who does not answer. A
//! write that could not be claimed goes on; from before its commit this process reads that user from the database,
//! until a removal, which is repeated, has succeeded. Other processes may read the old state for [`TTL`] at most,
//! counted from when the database was read.
//!
//! Invariant: while Redis takes every claim and keeps it for its time, each user is linearizable, over all processes.
//! Invariant: after a process has answered a write it reads no older state of that user from the cache, whether Redis
//! answers or not.
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
/// How long Redis keeps a claim that is not renewed.
const CLAIM: Duration = Duration::from_secs(10);

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

    /// Puts what was read from the database since `lease` was given, unless somebody has begun to write the user since.
    ///
    /// # Cancel safety
    /// It is put or not.
    pub(crate) async fn keep(&self, id: i64, lease: Lease, bytes: &Bytes) {
        match self {
            Self::Memory(memory) => memory.keep(id, &lease, bytes, Instant::now()),
            Self::Redis(redis) => redis.keep(id, &lease, bytes).await,
        }
    }

    /// Runs `write`, which may change this user, under a claim. It is first polled when the claim is there.
    ///
    /// # Cancel safety
    /// In memory the claim ends at once, even if the write is still going to be made; in Redis it ends with its time.
    pub(crate) async fn write<T>(&self, id: i64, write: impl Future<Output = T>) -> T {
        match self {
            Self::Memory(memory) => {
                let _claim = memory.claim(id);
                write.await
            }
            Self::Redis(redis) => redis.write(id, write).await,
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
    use std::cell::{Cell, RefCell};

    use pilotlight_testkit::{Cluster, Server};
    use tokio::sync::{Semaphore, oneshot};
    use tokio::task::yield_now;

    const BUDGET: Duration = Duration::from_secs(5);
    const OLD: Bytes = Bytes::from_static(b"{\"id\":7,\"old\":1}");
    const NEW: Bytes = Bytes::from_static(b"{\"id\":7,\"new\":1}");

    fn run(shared: [&Shared; 2], test: &impl AsyncFn(&Cache, &Cache)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let [one, other] = shared.map(|shared| shared.worker().unwrap());
            test(&one, &other).await;
        });
    }

    /// The same for each kind of cache: two threads that share memory, two processes that share Redis.
    fn check(test: &impl AsyncFn(&Cache, &Cache)) {
        let memory = Shared::memory(1 << 20);
        run([&memory, &memory], test);
        let server = Server::start().unwrap();
        let process = || Shared::redis(&server.url(), BUDGET).unwrap();
        run([&process(), &process()], test);
        let cluster = Cluster::start(3, 0).unwrap();
        let url = cluster.urls()[0].replace("redis://", "redis+cluster://");
        let process = || Shared::redis(&url, BUDGET).unwrap();
        run([&process(), &process()], test);
    }

    async fn put_old(cache: &Cache) {
        let mine = lease(cache.look_up(7).await);
        cache.keep(7, mine, &OLD).await;
        assert_eq!(hit(cache.look_up(7).await), OLD);
    }

    /// Neither finds the user, or may put one.
    async fn assert_claimed(one: &Cache, other: &Cache) {
        for cache in [one, other] {
            let found = cache.look_up(7).await;
            assert!(matches!(found, Lookup::Miss(None)), "{found:?}");
        }
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
            other.write(7, async {}).await;
            lease(one.look_up(7).await);
        });
    }

    /// The row is read before the commit, the put comes after the removal.
    #[test]
    fn an_old_row_is_not_put_back() {
        check(&async |reader, writer| {
            let slow = lease(reader.look_up(7).await);
            // Here the reader has read the old row; now the commit, and what follows it.
            writer.write(7, async {}).await;
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
            other.write(7, async {}).await;
            let fresh = lease(other.look_up(7).await);
            reader.keep(7, slow, &OLD).await;
            other.keep(7, fresh, &NEW).await;
            assert_eq!(hit(reader.look_up(7).await), NEW);
        });
    }

    #[test]
    fn from_before_its_commit_to_its_release_a_write_keeps_every_row_out() {
        check(&async |one, other| {
            put_old(one).await;
            other
                .write(7, async {
                    assert_claimed(one, other).await;
                    // Here it commits.
                    assert_claimed(one, other).await;
                })
                .await;
            let late = RefCell::new(Some(lease(one.look_up(7).await)));
            other
                .write(7, async {
                    one.keep(7, late.take().unwrap(), &OLD).await;
                    assert_claimed(one, other).await;
                })
                .await;
            put_old(other).await;
        });
    }

    #[test]
    fn of_two_writes_that_overlap_each_keeps_rows_out_to_its_end() {
        check(&async |one, other| {
            for ends_first in [0, 1] {
                put_old(one).await;
                let (begun, released) = (Semaphore::new(0), Semaphore::new(0));
                let write = async |cache: &Cache, end: oneshot::Receiver<()>| {
                    let wait = async {
                        begun.add_permits(1);
                        end.await.unwrap();
                    };
                    cache.write(7, wait).await;
                    released.add_permits(1);
                };
                let (mut ends, waits): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel()).unzip();
                let [first, second] = waits.try_into().unwrap();
                tokio::join!(write(one, first), write(other, second), async {
                    let _both = begun.acquire_many(2).await.unwrap();
                    ends.remove(ends_first).send(()).unwrap();
                    let _one = released.acquire().await.unwrap();
                    assert_claimed(one, other).await;
                    ends.remove(0).send(()).unwrap();
                });
                lease(one.look_up(7).await);
                one.write(7, async {}).await;
            }
        });
    }

    /// Each write adds one, so a read is right if it gives no less than any operation that ended before it began.
    #[test]
    fn nobody_reads_what_is_older_than_what_anybody_has_read_or_written() {
        check(&async |one, other| {
            let (database, given) = (Cell::new(0_u32), Cell::new(0_u32));
            let client = async |cache: &Cache, seed: u64| {
                let rng = RefCell::new(fastrand::Rng::with_seed(seed));
                let pause = async || {
                    let steps = rng.borrow_mut().u32(..20);
                    for _ in 0..steps {
                        yield_now().await;
                    }
                };
                for _ in 0..300 {
                    let (least, is_write) = (given.get(), rng.borrow_mut().u32(..8) == 0);
                    let write = async {
                        pause().await;
                        database.set(database.get() + 1);
                        let version = database.get();
                        pause().await;
                        version
                    };
                    let version =
                        if is_write { cache.write(7, write).await } else { read(cache, &database, pause).await };
                    assert!(version >= least, "{version} after {least}");
                    given.set(given.get().max(version));
                }
            };
            tokio::join!(client(one, 1), client(one, 2), client(other, 3), client(other, 4));
        });
    }

    async fn read(cache: &Cache, database: &Cell<u32>, pause: impl AsyncFn()) -> u32 {
        match cache.look_up(7).await {
            Lookup::Hit(bytes) => std::str::from_utf8(&bytes[1..]).unwrap().parse().unwrap(),
            Lookup::Miss(lease) => {
                pause().await;
                let version = database.get();
                pause().await;
                if let Some(lease) = lease {
                    cache.keep(7, lease, &format!("{{{version}").into()).await;
                }
                version
            }
        }
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
        let shared = Shared::redis(&server.url(), BUDGET).unwrap();
        run([&shared, &shared], &async |one, _| {
            let mine = lease(one.look_up(7).await);
            let left = server.command(&["PTTL", "user:7"]).unwrap().integer().unwrap();
            assert!((1..=LEASE.as_millis() as i64).contains(&left), "{left}");
            one.keep(7, mine, &OLD).await;
            assert_eq!(server.command(&["GET", "user:7"]).unwrap().text(), "{\"id\":7,\"old\":1}");
            let left = server.command(&["PTTL", "user:7"]).unwrap().integer().unwrap();
            assert!((50_000..=60_000).contains(&left), "{left}");
        });
    }

    #[test]
    fn a_removal_that_failed_is_repeated_and_meanwhile_the_user_is_not_read_from_the_cache() {
        let server = Server::start().unwrap();
        let shared = Shared::redis(&server.url(), Duration::from_secs(1)).unwrap();
        run([&shared, &shared], &async |one, other| {
            put_old(one).await;
            server.stop().unwrap();
            one.write(7, async {}).await;
            server.cont().unwrap();
            // The breaker of `other` is closed, and Redis may still have the user: it is not asked.
            assert!(matches!(other.look_up(7).await, Lookup::Miss(None)));
            tokio::select! {
                () = one.repeat_removals() => unreachable!("it runs for ever"),
                () = async {
                    while !matches!(other.look_up(7).await, Lookup::Miss(Some(_))) {
                        yield_now().await;
                    }
                } => {}
            }
        });
    }

    /// A full Redis takes no claim, and still has the row.
    #[test]
    fn a_write_without_a_claim_hides_the_user_from_before_its_commit() {
        let server = Server::start().unwrap();
        let shared = Shared::redis(&server.url(), BUDGET).unwrap();
        run([&shared, &shared], &async |one, other| {
            put_old(one).await;
            server.config_set("maxmemory", "1").unwrap();
            let write = async {
                assert_eq!(server.command(&["GET", "user:7"]).unwrap().text(), "{\"id\":7,\"old\":1}");
                assert_claimed(one, other).await;
            };
            one.write(7, write).await;
            server.config_set("maxmemory", "0").unwrap();
            lease(other.look_up(7).await);
        });
    }

    #[test]
    fn without_redis_everything_is_a_miss_at_once() {
        let server = Server::start().unwrap();
        let shared = Shared::redis(&server.url(), BUDGET).unwrap();
        server.kill().unwrap();
        run([&shared, &shared], &async |one, _| {
            for id in 0..100 {
                assert!(matches!(one.look_up(id).await, Lookup::Miss(None)));
                one.write(id, async {}).await;
            }
        });
    }
}
