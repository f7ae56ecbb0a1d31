//! A lock with fencing tokens, on one key of one server.

mod guard;
mod keeper;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::pause::Pauses;
use crate::client::{Client, Script};
use crate::command::{Arg, Command};
use crate::commands::Commands;
use crate::error::{Error, Misuse, Ran};
use crate::proto::slot::Slot;
pub use guard::{LockGuard, Lost};

/// While somebody else has it, it is asked for again after at most so long.
const MAX_PAUSE: Duration = Duration::from_millis(250);
/// The least time to live that leaves time for renewals.
const MIN_TTL: Duration = Duration::from_millis(100);

/// A lock that one holder has at a time, as long as it is renewed.
///
/// It is a key with a time to live, which a task renews while the [`LockGuard`] lives, and a second key,
/// `{name}:fence`, with the last fencing token.
///
/// **What it takes for granted, and what not.** A lock on a network cannot keep two holders from acting at once: the
/// holder may be paused (swapping, a suspended machine, a slow disk) while its lock expires, and wake up in the belief
/// that it holds it. A failover may forget the lock, as replication is behind. So what is protected has to take part:
/// each holder has a [token](LockGuard::token), larger than those of all holders before it, and the resource refuses what
/// comes with a smaller token than it has seen (`UPDATE … SET fence = 8 WHERE id = 1 AND fence < 8`). With that, a holder
/// that is late does no harm. Without it, the lock only saves doing work twice, most of the time.
///
/// - Tokens grow because each is the larger of the last one plus one and the server's clock in microseconds. That they
///   grow also over a failover that lost the last token holds if the new primary's clock is not further behind than the
///   time that has passed since.
/// - The holder stops believing in the lock by its own monotonic clock, counted from before the last renewal was sent,
///   and a fiftieth earlier than the server: that covers clocks that run differently fast by less than that. A server
///   whose clock is set ahead ends locks too early.
/// - It is not Redlock. Five servers make the lock survive one of them, and still depend on clocks and on holders that
///   are never paused; where a late holder does harm, a token is needed with them as well, and they give none.
///
/// Waiting is by asking again, after pauses of up to 250 ms: who gets it next is chance, not order.
///
/// ```no_run
/// # use pilotlight_redis::Client;
/// # use pilotlight_redis::recipes::{Lock, LockError};
/// # use std::time::Duration;
/// # async fn work(token: u64) {}
/// # async fn example(client: &Client) -> Result<(), LockError> {
/// let lock = Lock::new(client, "lock:report", Duration::from_secs(10))?;
/// let guard = lock.acquire(Duration::from_secs(30)).await?;
/// tokio::select! {
///     () = work(guard.token()) => {}
///     why = guard.lost() => eprintln!("given up: {why}"),
/// }
/// guard.release().await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Lock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    name: Vec<u8>,
    fence: Vec<u8>,
    ttl: Duration,
    acquire: Script,
    renew: Script,
    release: Script,
    /// The server has no `DELIFEQ`.
    lacks_delifeq: AtomicBool,
}

/// Why a lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Others had it all the time.
    #[error("somebody else has the lock: waited {waited:?}, it is held for {held_for:?} more unless it is renewed")]
    Held {
        /// How long it was waited for.
        waited: Duration,
        /// What was left of its time to live at the last look.
        held_for: Duration,
    },
    /// The server did not answer, or refused.
    #[error(transparent)]
    Redis(#[from] Error),
}

/// `KEYS`: the lock, its fence. `ARGV`: the holder, the time to live (ms). Again with the same holder, which lost the
/// reply, it answers the same. Answers token and 0, or 0 and the time that the lock has left (ms).
const ACQUIRE: &str = "
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { redis.call('GET', KEYS[2]), 0 }
end
if holder then return { '0', redis.call('PTTL', KEYS[1]) } end
local time = redis.call('TIME')
local last = redis.call('GET', KEYS[2])
local token = math.max(time[1] * 1000000 + time[2], last and last + 1 or 1)
token = string.format('%.0f', token)
redis.call('SET', KEYS[2], token)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return { token, 0 }
";
/// Answers whether the lock is the holder's, still.
const RENEW: &str = "
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
";
const RELEASE: &str = "
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
";

impl Lock {
    /// A lock of this name, which is its key. `ttl`, at least 100 ms, is how long it outlives a holder that has gone;
    /// it is renewed every third of it. 10 to 30 s are usual.
    ///
    /// # Errors
    /// `ttl` is too short, or no second key can be in the name's slot, as it has a `}` in the wrong place
    /// ([`ErrorKind::Misuse`](crate::ErrorKind::Misuse)).
    pub fn new<'n>(client: &Client, name: impl Into<Arg<'n>>, ttl: Duration) -> Result<Self, LockError> {
        let misuse = |text: &str| Error::new(Misuse::Arguments(text.into()), Ran::NotSent, "Lock");
        if ttl < MIN_TTL {
            return Err(misuse("a lock needs a time to live of at least 100 ms").into());
        }
        let name = name.into().to_bytes().into_owned();
        let Some(fence) = fence_of(&name) else {
            return Err(misuse("a lock's name may have braces only around its hash tag").into());
        };
        Ok(Self(Arc::new(Inner {
            client: client.clone(),
            name,
            fence,
            ttl,
            acquire: Script::new(ACQUIRE),
            renew: Script::new(RENEW),
            release: Script::new(RELEASE),
            lacks_delifeq: AtomicBool::new(false),
        })))
    }

    /// Takes the lock if nobody has it.
    ///
    /// # Errors
    /// [`LockError::Held`]: somebody has it. Otherwise as any command; the lock may have been taken then, and ends by
    /// itself.
    ///
    /// # Cancel safety
    /// The lock may have been taken, and ends by itself.
    pub async fn try_acquire(&self) -> Result<LockGuard, LockError> {
        self.acquire(Duration::ZERO).await
    }

    /// Takes the lock, and waits for it up to `patience`. Failures on the way to the server are waited out as well.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire), of the last attempt.
    ///
    /// # Cancel safety
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn acquire(&self, patience: Duration) -> Result<LockGuard, LockError> {
        let (since, mut pauses) = (Instant::now(), Pauses::up_to(MAX_PAUSE));
        let holder: Arc<[u8]> = holder().into_bytes().into();
        loop {
            let error = match self.0.attempt(&holder).await {
                Ok(Attempt::Taken { token, since }) => {
                    return Ok(LockGuard::new(Arc::clone(&self.0), holder, token, since));
                }
                Ok(Attempt::Held(held_for)) => LockError::Held { waited: since.elapsed(), held_for },
                // With the same holder: whether it was run makes no difference.
                Err(error) if error.advice() != crate::error::Advice::Never => LockError::Redis(error),
                Err(error) => return Err(error.into()),
            };
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(error);
            }
            let pause = match error {
                LockError::Held { held_for, .. } => pauses.take().min(held_for.max(Duration::from_millis(1))),
                LockError::Redis(_) => pauses.take(),
            };
            tokio::time::sleep(pause.min(left)).await;
        }
    }
}

enum Attempt {
    /// Sent at `since`.
    Taken { token: u64, since: Instant },
    /// By somebody else, for so long.
    Held(Duration),
}

/// What became of a renewal.
enum Renewed {
    Yes,
    /// The lock is somebody else's, or nobody's.
    Gone,
}

impl Inner {
    async fn attempt(&self, holder: &[u8]) -> Result<Attempt, Error> {
        let since = Instant::now();
        let call = self.acquire.run(&self.client).key(&self.name).key(&self.fence).arg(holder).arg(self.ttl_ms());
        let (token, left_ms): (u64, i64) = call.await?;
        if token > 0 {
            return Ok(Attempt::Taken { token, since });
        }
        // Without a time to live (-1) it was not set by a lock.
        Ok(Attempt::Held(Duration::from_millis(u64::try_from(left_ms).unwrap_or(u64::MAX))))
    }

    async fn renew(&self, holder: &[u8], timeout: Duration) -> Result<Renewed, Error> {
        let call = self.renew.run::<i64>(&self.client).key(&self.name).arg(holder).arg(self.ttl_ms()).timeout(timeout);
        Ok(if call.await? == 1 { Renewed::Yes } else { Renewed::Gone })
    }

    /// Whether it was the holder's, still; repeated after a lost reply, it was not.
    async fn release(&self, holder: &[u8]) -> Result<bool, Error> {
        if !self.lacks_delifeq.load(Ordering::Relaxed) {
            match (&self.client).run::<bool>(self.delifeq(holder)).retryable().await {
                Err(error) if error.server().is_some() => self.lacks_delifeq.store(true, Ordering::Relaxed),
                done => return done,
            }
        }
        let call = self.release.run::<i64>(&self.client).key(&self.name).arg(holder);
        Ok(call.await? == 1)
    }

    /// Valkey 9; the script does the same.
    fn delifeq<'a>(&'a self, holder: &'a [u8]) -> Command<'a> {
        Command::new(&crate::commands::spec::DELIFEQ).arg(&self.name).arg(holder)
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// Until when a lock that was asked for at `since` is believed in: a fiftieth shorter than the server's time.
    fn valid_until(&self, since: Instant) -> Instant {
        since + self.ttl - self.ttl / 50
    }
}

/// Unlike any other's: 128 random bits, and the process.
fn holder() -> String {
    format!("{:032x}-{}", fastrand::u128(..), std::process::id())
}

/// The key of the last token, in the slot of the name.
fn fence_of(name: &[u8]) -> Option<Vec<u8>> {
    let bare = [name, b":fence"].concat();
    let tagged = [b"{", name, b"}:fence"].concat();
    let slot = Slot::of(name);
    [tagged, bare].into_iter().find(|fence| Slot::of(fence) == slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        let fence = fence_of(name.as_bytes()).map(|fence| String::from_utf8(fence).unwrap());
        assert_eq!(fence.as_deref(), expected);
    }

    #[test]
    fn the_fence_is_in_the_slot_of_the_lock() {
        check("lock", Some("{lock}:fence"));
        check("{user:1}:lock", Some("{user:1}:lock:fence"));
        check("a}b", None);
        check("", None);
    }

    #[test]
    fn no_two_holders_are_alike() {
        assert_ne!(holder(), holder());
    }
}
