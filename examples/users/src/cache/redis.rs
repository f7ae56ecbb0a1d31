//! Users in Redis. What lies under `user:{id}` is one of three, told apart by how it begins:
//!
//! | value | is |
//! |---|---|
//! | `{…` | a user |
//! | `lease TOKEN` | a lease |
//! | `writing UNTIL:TOKEN …` | claims, the oldest first, each with the second in which it ends unless renewed |
//!
//! They share a key, hence a slot of a cluster, so one takes the other's place in one step. A claim has a name, not
//! only a count, so its scripts may be repeated when nobody knows whether they ran, and what a dead process has left
//! ends although others go on.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::config::{Overload, ReadFrom, UrlError, WhenDown};
use pilotlight_redis::{Client, Commands as _, Config, Error, Script, Value};
use tokio::time::sleep;

use super::breaker::Breaker;
use super::pending::{Pending, Unclaimed};
use super::{CLAIM, LEASE, Lease, Lookup};
use crate::json::is_user;

/// Bytes of commands that may wait for one connection.
const MAX_QUEUED_BYTES: usize = 4 << 20;
/// When a claim is renewed: a commit may wait for the database's lock for longer than a claim lasts.
const RENEWAL: Duration = Duration::from_secs(3);
/// Removals that are repeated at once, and the pause if they fail again.
const REPEATED_AT_ONCE: usize = 64;
const REPEAT_PAUSE: Duration = Duration::from_millis(100);
/// What a user's JSON begins with.
const USER: u8 = b'{';
/// No claim has this token.
const NO_CLAIM: u64 = 0;
/// Puts a user where the caller's lease still is.
const KEEP: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
return redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])";
/// Adds a claim or renews it; a user or lease yields. Claims whose time is over are left out. Each takes 28 characters:
/// a space, 10 digits, a colon, 16 digits.
const CLAIM_SCRIPT: &str = "\
local value, now, token = redis.call('GET', KEYS[1]), redis.call('TIME')[1], ARGV[1]
local claims = value and value:match('^writing(.*)') or ''
local at = claims:find(token, 1, true)
if at then claims = claims:sub(1, at - 13) .. claims:sub(at + 16) end
while claims ~= '' and claims:sub(2, 11) < now do claims = claims:sub(29) end
return redis.call('SET', KEYS[1], 'writing' .. claims .. ' ' .. now + ARGV[2] .. ':' .. token, 'EX', ARGV[2])";
/// Takes a claim away, and with the last one the key. If there is none (its time was over, or Redis has lost it)
/// removes what is there.
const RELEASE_SCRIPT: &str = "\
local value = redis.call('GET', KEYS[1])
if not value then return 0 end
local claims = value:match('^writing(.*)')
local at = claims and claims:find(ARGV[1], 1, true)
if at then claims = claims:sub(1, at - 13) .. claims:sub(at + 16) end
if not claims or claims == '' then return redis.call('DEL', KEYS[1]) end
if at then redis.call('SET', KEYS[1], 'writing' .. claims, 'KEEPTTL') end
return 0";

/// What each thread's client is made from.
#[derive(Debug)]
pub(crate) struct RedisSettings {
    config: Config,
    is_refusal_said: Arc<AtomicBool>,
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
            // A replica may have what its primary has removed, whatever the URL says.
            read_from: ReadFrom::Primary,
            ..config
        };
        Ok(Self { config, is_refusal_said: Arc::default() })
    }
}

/// The cache as one thread uses it, with connections of its own.
#[derive(Debug)]
pub(crate) struct Redis {
    client: Client,
    breaker: Breaker,
    pending: Arc<Pending>,
    keep: Script,
    is_refusal_said: Arc<AtomicBool>,
}

/// A write under way.
#[derive(Debug)]
struct Claim {
    id: i64,
    token: u64,
    /// Redis has not heard of it, or may not have: this process does not read the user there meanwhile.
    unclaimed: Option<Unclaimed>,
}

impl Redis {
    pub(super) fn new(settings: &RedisSettings, pending: Arc<Pending>) -> Result<Self, Error> {
        let client = Client::new(settings.config.clone())?;
        let is_refusal_said = Arc::clone(&settings.is_refusal_said);
        Ok(Self { client, breaker: Breaker::default(), pending, keep: Script::new(KEEP), is_refusal_said })
    }

    pub(super) async fn look_up(&self, id: i64) -> Lookup {
        if self.pending.has(id) || !self.breaker.allows(Instant::now) {
            return Lookup::Miss(None);
        }
        let key = Key::of(id);
        match self.tell(self.client.get(key.as_bytes()).await) {
            Some(Some(found)) if is_user(&found, id) => Lookup::Hit(found),
            // A proxy that mixes up replies would hand out the data of others.
            Some(Some(found)) if found.first() == Some(&USER) => {
                self.failed(&"it has answered with what is not the record of the user that was asked for");
                Lookup::Miss(None)
            }
            // Another has the lease, or writes.
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

    pub(super) async fn write<T>(&self, id: i64, write: impl Future<Output = T>) -> T {
        let (mut claim, mut write) = (self.claim(id).await, pin!(write));
        let done = loop {
            tokio::select! {
                biased;
                done = &mut write => break done,
                () = sleep(RENEWAL) => self.renew(&mut claim).await,
            }
        };
        self.release(claim).await;
        done
    }

    async fn claim(&self, id: i64) -> Claim {
        let mut claim = Claim { id, token: fastrand::u64(1..), unclaimed: None };
        self.renew(&mut claim).await;
        claim
    }

    /// Claims for another [`CLAIM`].
    async fn renew(&self, claim: &mut Claim) {
        let Claim { id, token, unclaimed } = claim;
        let (key, arguments) = (Key::of(*id), [text(*token), CLAIM.as_secs().to_string()]);
        let script = self.client.eval(CLAIM_SCRIPT, [key.as_bytes()], arguments).retryable();
        let is_claimed = self.breaker.allows(Instant::now) && self.tell(script.await).is_some();
        if !is_claimed {
            unclaimed.get_or_insert_with(|| self.pending.begin(*id, Instant::now()));
        }
    }

    async fn release(&self, claim: Claim) {
        let Claim { id, token, unclaimed } = claim;
        drop(unclaimed);
        let begin = Instant::now();
        let asks = self.breaker.allows(|| begin);
        if asks && self.tell(self.remove(id, token).await).is_some() {
            self.pending.removed(id, begin);
        } else {
            self.pending.add(id, Instant::now());
        }
    }

    /// Removes what is no claim, and this one. Another's stays: it keeps old users out until its own release.
    async fn remove(&self, id: i64, token: u64) -> Result<Value, Error> {
        self.client.eval(RELEASE_SCRIPT, [Key::of(id).as_bytes()], text(token)).retryable().await
    }

    pub(super) async fn repeat_removals(&self) {
        loop {
            if self.pending.is_empty() {
                self.pending.added().await;
            }
            let now = Instant::now();
            let mut failed = false;
            for id in self.pending.some(REPEATED_AT_ONCE, now) {
                match self.remove(id, NO_CLAIM).await {
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
                // It may answer everything else, so that the breaker stays closed.
                if error.server().is_some() && !self.is_refusal_said.swap(true, Ordering::Relaxed) {
                    eprintln!("users: Redis answers and refuses what the cache asks: {error}");
                }
                self.failed(&error);
                None
            }
        }
    }

    fn failed(&self, why: &dyn std::fmt::Display) {
        if self.breaker.failed(Instant::now()) {
            eprintln!("users: going on without Redis: {why}");
        }
    }
}

impl Lease {
    fn text(&self) -> String {
        format!("lease {}", text(self.token))
    }
}

fn text(token: u64) -> String {
    format!("{token:016x}")
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
    use pilotlight_testkit::Server;

    const OTHER: &str = "00000000000000aa";

    fn run(test: &impl AsyncFn(&Server, &Redis)) {
        let server = Server::start().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let settings = RedisSettings::new(&server.url(), Duration::from_secs(5)).unwrap();
            test(&server, &Redis::new(&settings, Arc::default()).unwrap()).await;
        });
    }

    fn value(server: &Server) -> Option<String> {
        let is_there = server.command(&["EXISTS", "user:7"]).unwrap().integer().unwrap() == 1;
        is_there.then(|| server.command(&["GET", "user:7"]).unwrap().text().to_string())
    }

    fn time_left(server: &Server) -> Duration {
        let left = server.command(&["PTTL", "user:7"]).unwrap().integer().unwrap();
        Duration::from_millis(left.try_into().expect("it has a time"))
    }

    /// As after a SIGKILL.
    #[test]
    fn a_claim_that_is_not_released_ends_with_its_time_and_leaves_nothing() {
        run(&async |server, redis| {
            let Lookup::Miss(Some(lease)) = redis.look_up(7).await else { panic!("a lease") };
            redis.keep(7, &lease, &Bytes::from_static(b"{\"old\":1}")).await;
            let _never_released = redis.claim(7).await;
            assert!(time_left(server) <= CLAIM && time_left(server) > CLAIM / 2);
            assert!(matches!(redis.look_up(7).await, Lookup::Miss(None)));
            server.command(&["PEXPIRE", "user:7", "1"]).unwrap();
            while value(server).is_some() {}
            assert!(matches!(redis.look_up(7).await, Lookup::Miss(Some(_))));
        });
    }

    #[test]
    fn what_a_dead_process_has_claimed_ends_although_others_write() {
        run(&async |server, redis| {
            server.command(&["SET", "user:7", &format!("writing 1700000000:{OTHER} 9999999999:{OTHER}")]).unwrap();
            let claim = redis.claim(7).await;
            let both = value(server).unwrap();
            assert!(both.starts_with(&format!("writing 9999999999:{OTHER} ")) && both.len() == 63, "{both}");
            redis.release(claim).await;
            assert_eq!(value(server), Some(format!("writing 9999999999:{OTHER}")));
            assert!(time_left(server) <= CLAIM, "no longer than the last claim");
        });
    }

    #[test]
    fn a_repeated_claim_or_release_counts_once() {
        run(&async |server, redis| {
            let (mut one, other) = (redis.claim(7).await, redis.claim(7).await);
            redis.renew(&mut one).await;
            let token = one.token;
            redis.release(one).await;
            redis.remove(7, token).await.unwrap();
            redis.remove(7, NO_CLAIM).await.unwrap();
            assert!(value(server).is_some_and(|left| left.ends_with(&text(other.token)) && left.len() == 35));
            redis.release(other).await;
            assert_eq!(value(server), None);
        });
    }

    #[test]
    fn what_is_put_after_a_claim_was_lost_is_removed_with_its_release() {
        run(&async |server, redis| {
            let claim = redis.claim(7).await;
            server.command(&["SET", "user:7", "{}"]).unwrap();
            redis.release(claim).await;
            assert_eq!(value(server), None);
        });
    }

    #[test]
    fn a_long_write_renews_its_claim() {
        run(&async |server, redis| {
            let write = async {
                server.command(&["PEXPIRE", "user:7", "7000"]).unwrap();
                while time_left(server) <= Duration::from_secs(7) {
                    sleep(Duration::from_millis(50)).await;
                }
            };
            redis.write(7, write).await;
            assert_eq!(value(server), None);
        });
    }

    /// As of a proxy that repeats replies.
    #[test]
    fn another_users_record_is_no_hit() {
        run(&async |server, redis| {
            for (stored, is_hit) in [
                (r#"{"id":7,"name":"a"}"#, true),
                (r#"{"id":70,"name":"a"}"#, false),
                (r#"{"id":8,"name":"a"}"#, false),
                (r#"{"name":"a","id":7}"#, false),
            ] {
                server.command(&["SET", "user:7", stored]).unwrap();
                let found = redis.look_up(7).await;
                assert_eq!(matches!(found, Lookup::Hit(_)), is_hit, "{stored}: {found:?}");
            }
        });
    }

    #[test]
    fn a_refusal_is_said_once() {
        run(&async |server, redis| {
            server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
            assert!(!redis.is_refusal_said.load(Ordering::Relaxed));
            assert!(matches!(redis.look_up(7).await, Lookup::Miss(None)));
            assert!(redis.is_refusal_said.load(Ordering::Relaxed));
        });
    }

    #[test]
    fn keys() {
        assert_eq!(Key::of(42).as_bytes(), b"user:42");
        assert_eq!(Key::of(i64::MIN).as_bytes(), b"user:-9223372036854775808");
    }
}
