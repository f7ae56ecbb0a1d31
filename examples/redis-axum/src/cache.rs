//! Cache-aside: a value is taken from Redis, or made and put there. However many ask for a value that is missing, it is
//! made once:
//!
//! - within a process, all who ask for a key share one future;
//! - among processes, a lock in Redis lets one of them make it while the others wait for it to appear.
//!
//! Redis is an optimisation here: when it cannot be reached, values are made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::{Client, Commands, Error};
use tokio::sync::OnceCell;

/// Deletes the lock if it is still ours.
const UNLOCK: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
/// How long Redis may take for a lookup by default: one that takes longer is no help.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(250);
/// How often it is looked whether another process has made the value.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Values by key, kept in Redis.
#[derive(Clone)]
pub struct Cache {
    client: Client,
    ttl: Duration,
    /// The longest time that making a value takes: after it, the lock of whoever died over it is gone.
    patience: Duration,
    lookup_timeout: Duration,
    flights: Arc<Mutex<HashMap<String, Flight>>>,
}

/// A value that is being looked up or made.
type Flight = Arc<OnceCell<Bytes>>;

/// A caller's part in a flight. A request may be dropped at any moment: the last one who leaves takes the flight off
/// the map, or the first one once there is a value, which is in Redis then.
struct Seat {
    flights: Arc<Mutex<HashMap<String, Flight>>>,
    key: String,
    cell: Flight,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        // Left under the lock, so that of two who leave at the same time the second one sees that it is the last.
        let cell = std::mem::take(&mut self.cell);
        let is_known = flights.get(&self.key).is_some_and(|known| Arc::ptr_eq(known, &cell));
        let is_last = Arc::strong_count(&cell) == 2;
        if is_known && (is_last || cell.initialized()) {
            flights.remove(&self.key);
        }
        drop(cell);
    }
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was in Redis.
    Cached,
    /// This caller made it.
    Made,
    /// Another caller of this process looked it up or made it.
    Shared,
}

impl Cache {
    /// Values live for about `ttl`; making one takes at most `patience`.
    pub fn new(client: Client, ttl: Duration, patience: Duration) -> Self {
        Self { client, ttl, patience, lookup_timeout: LOOKUP_TIMEOUT, flights: Arc::default() }
    }

    /// Redis may take another time for a lookup than 250 ms, after which a value is made without it.
    pub fn lookup_timeout(mut self, timeout: Duration) -> Self {
        self.lookup_timeout = timeout;
        self
    }

    /// The value of `key`, made by `make` if nobody has it.
    pub async fn get<E>(&self, key: &str, make: impl AsyncFnOnce() -> Result<Bytes, E>) -> Result<(Bytes, Origin), E> {
        let flight = self.board(key);
        let mut origin = Origin::Shared;
        // If this caller goes away, or `make` fails, the next one of those who wait takes over.
        let value = flight.cell.get_or_try_init(|| self.look_up_or_make(key, make, &mut origin)).await.cloned();
        Ok((value?, origin))
    }

    fn board(&self, key: &str) -> Seat {
        let cell = Arc::clone(self.flights.lock().entry(key.to_owned()).or_default());
        Seat { flights: Arc::clone(&self.flights), key: key.to_owned(), cell }
    }

    async fn look_up_or_make<E>(
        &self,
        key: &str,
        make: impl AsyncFnOnce() -> Result<Bytes, E>,
        origin: &mut Origin,
    ) -> Result<Bytes, E> {
        let token = format!("{:016x}", fastrand::u64(..));
        let lock = format!("lock:{{{key}}}");
        let is_locked = match self.wait(key, &lock, &token).await {
            Ok(Claim::Value(value)) => {
                *origin = Origin::Cached;
                return Ok(value);
            }
            Ok(Claim::Locked) => true,
            Err(error) => {
                eprintln!("{key} is made without Redis: {error}");
                false
            }
        };
        *origin = Origin::Made;
        let value = make().await?;
        if is_locked && let Err(error) = self.keep(key, &value, &lock, &token).await {
            eprintln!("{key} is not kept: {error}");
        }
        Ok(value)
    }

    /// The value; or the right to make it, at the latest when the time of another one who has it is over.
    async fn wait(&self, key: &str, lock: &str, token: &str) -> Result<Claim, Error> {
        let since = Instant::now();
        loop {
            if let Some(value) = self.client.get(key).timeout(self.lookup_timeout).await? {
                return Ok(Claim::Value(value));
            }
            let options = SetOptions::new().nx().px(milliseconds(self.patience));
            if self.client.set_with(lock, token, options).timeout(self.lookup_timeout).await?
                || since.elapsed() > self.patience
            {
                return Ok(Claim::Locked);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Keeps a value, a little shorter or longer than others that were made with it, and unlocks.
    async fn keep(&self, key: &str, value: &Bytes, lock: &str, token: &str) -> Result<(), Error> {
        let ttl = self.ttl.mul_f64(0.9 + 0.2 * fastrand::f64());
        self.client.set_with(key, value, SetOptions::new().px(milliseconds(ttl))).await?;
        self.client.eval(UNLOCK, [lock], [token]).await?;
        Ok(())
    }
}

enum Claim {
    Value(Bytes),
    Locked,
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;

    use pilotlight_redis::Config;

    use super::*;

    /// Where no Redis is, values are made.
    fn cache() -> Cache {
        let client = Client::new(Config::from_url("redis://127.0.0.1:1/?when_down=fail_fast").unwrap()).unwrap();
        Cache::new(client, Duration::from_secs(1), Duration::from_secs(1))
    }

    async fn made() -> Result<Bytes, Infallible> {
        Ok(Bytes::from_static(b"made"))
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_leaves_nothing_behind() {
        let cache = cache();
        for key in ["a", "b", "c"] {
            let get = cache.get(key, async || pending::<Result<Bytes, Infallible>>().await);
            // It waits for Redis, or for its value.
            tokio::time::timeout(Duration::from_millis(1), get).await.unwrap_err();
        }
        assert_eq!(cache.flights.lock().len(), 0);
    }

    #[tokio::test]
    async fn another_one_takes_over_and_a_third_one_shares_its_flight() {
        let cache = cache();
        let mut first = Box::pin(cache.get("a", async || pending::<Result<Bytes, Infallible>>().await));
        tokio::time::timeout(Duration::from_millis(1), &mut first).await.unwrap_err();
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let mut second = Box::pin(cache.get("a", async || {
            gone.await.unwrap();
            made().await
        }));
        tokio::time::timeout(Duration::from_millis(1), &mut second).await.unwrap_err();
        drop(first);
        assert_eq!(cache.flights.lock().len(), 1, "the second one is still there");
        let mut third = Box::pin(cache.get("a", async || made().await));
        tokio::time::timeout(Duration::from_millis(1), &mut second).await.unwrap_err();
        tokio::time::timeout(Duration::from_millis(1), &mut third).await.unwrap_err();
        go.send(()).unwrap();
        let (second, third) = tokio::join!(second, third);
        assert_eq!((second.unwrap().1, third.unwrap().1), (Origin::Made, Origin::Shared));
        assert_eq!(cache.flights.lock().len(), 0);
    }

    #[tokio::test]
    async fn a_value_that_cannot_be_made_leaves_nothing_behind() {
        let cache = cache();
        cache.get("a", async || Err::<Bytes, _>("no")).await.unwrap_err();
        assert_eq!(cache.flights.lock().len(), 0);
    }
}
