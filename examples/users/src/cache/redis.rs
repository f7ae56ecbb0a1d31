//! Users in Redis, under `user:{id}`. A lease lies under the same key, so that both are in one slot of a cluster and one `DEL`
//! removes whichever is there; no user's bytes begin like one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::config::{Overload, UrlError, WhenDown};
use pilotlight_redis::{Client, Commands as _, Config, Error, Script, Value};
use tokio::time::sleep;

use super::breaker::Breaker;
use super::pending::Pending;
use super::{LEASE, Lease, Lookup};

/// Bytes of commands that may wait for one connection.
const MAX_QUEUED_BYTES: usize = 4 << 20;
/// Removals that are repeated at once, and the pause if they fail again.
const REPEATED_AT_ONCE: usize = 64;
const REPEAT_PAUSE: Duration = Duration::from_millis(100);
/// What a user's JSON begins with.
const USER: u8 = b'{';
/// Puts a user where the caller's lease still is.
const KEEP: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end return false";

/// What each thread's client is made from.
#[derive(Debug)]
pub(crate) struct RedisSettings {
    config: Config,
}

impl RedisSettings {
    pub(super) fn new(url: &str, budget: Duration) -> Result<Self, UrlError> {
        let config = Config::from_url(url)?;
        let config = Config {
            command_timeout: Some(budget),
            // The database answers sooner than a server that has to be waited for.
            when_down: WhenDown::FailFast,
            overload: Overload::Reject,
            max_queued_bytes: MAX_QUEUED_BYTES,
            ..config
        };
        Ok(Self { config })
    }
}

/// The cache as one thread uses it, with connections of its own.
#[derive(Debug)]
pub(crate) struct Redis {
    client: Client,
    breaker: Breaker,
    pending: Arc<Pending>,
    keep: Script,
}

impl Redis {
    pub(super) fn new(settings: &RedisSettings, pending: Arc<Pending>) -> Result<Self, Error> {
        let client = Client::new(settings.config.clone())?;
        Ok(Self { client, breaker: Breaker::default(), pending, keep: Script::new(KEEP) })
    }

    pub(super) async fn look_up(&self, id: i64) -> Lookup {
        if self.pending.has(id) || !self.breaker.allows(Instant::now) {
            return Lookup::Miss(None);
        }
        let key = Key::of(id);
        match self.tell(self.client.get(key.as_bytes()).await) {
            Some(Some(found)) if found.first() == Some(&USER) => Lookup::Hit(found),
            // Another has the lease.
            Some(Some(_)) => Lookup::Miss(None),
            Some(None) => Lookup::Miss(self.lease(&key).await),
            None => Lookup::Miss(None),
        }
    }

    async fn lease(&self, key: &Key) -> Option<Lease> {
        let lease = Lease::new(Instant::now());
        let options = SetOptions::new().nx().px(milliseconds(LEASE));
        self.tell(self.client.set_with(key.as_bytes(), lease.text(), options).await)?.then_some(lease)
    }

    pub(super) async fn keep(&self, id: i64, lease: &Lease, bytes: &Bytes) {
        let Some(ttl) = lease.ttl(Instant::now()) else { return };
        let key = Key::of(id);
        let put = self.keep.run::<Value>(&self.client).key(key.as_bytes());
        self.tell(put.arg(lease.text()).arg(bytes).arg(milliseconds(ttl)).await);
    }

    pub(super) async fn remove(&self, id: i64) {
        let asks = self.breaker.allows(Instant::now);
        if !asks || self.tell(self.client.del([Key::of(id).as_bytes()]).retryable().await).is_none() {
            self.pending.add(id, Instant::now());
        }
    }

    pub(super) async fn repeat_removals(&self) {
        loop {
            if self.pending.is_empty() {
                self.pending.added().await;
            }
            let now = Instant::now();
            let mut failed = false;
            for id in self.pending.some(REPEATED_AT_ONCE, now) {
                match self.client.del([Key::of(id).as_bytes()]).retryable().await {
                    Ok(_) => self.pending.removed(id, now),
                    Err(_) => failed = true,
                }
                if failed {
                    break;
                }
            }
            if failed || !self.pending.is_empty() {
                sleep(REPEAT_PAUSE).await;
            }
        }
    }

    /// The reply; a failure is the breaker's, and nobody else's.
    fn tell<T>(&self, reply: Result<T, Error>) -> Option<T> {
        match reply {
            Ok(reply) => {
                self.breaker.succeeded();
                Some(reply)
            }
            Err(error) => {
                if self.breaker.failed(Instant::now()) {
                    eprintln!("users: going on without Redis: {error}");
                }
                None
            }
        }
    }
}

impl Lease {
    fn text(&self) -> String {
        format!("lease {:016x}", self.token)
    }
}

/// `user:{id}`, without the heap.
struct Key {
    bytes: [u8; 32],
    length: usize,
}

impl Key {
    const PREFIX: &'static [u8] = b"user:";

    fn of(id: i64) -> Self {
        let (mut bytes, mut number) = ([0; 32], itoa::Buffer::new());
        let digits = number.format(id).as_bytes();
        let length = Self::PREFIX.len() + digits.len();
        bytes[..Self::PREFIX.len()].copy_from_slice(Self::PREFIX);
        bytes[Self::PREFIX.len()..length].copy_from_slice(digits);
        Self { bytes, length }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        assert_eq!(Key::of(42).as_bytes(), b"user:42");
        assert_eq!(Key::of(i64::MIN).as_bytes(), b"user:-9223372036854775808");
    }
}
