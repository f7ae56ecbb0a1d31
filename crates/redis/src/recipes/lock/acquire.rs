//! How a lock is taken.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::guard::LockGuard;
use super::server::{Attempt, ServerLock, holder};
use crate::client::Client;
use crate::command::Arg;
use crate::error::{Advice, Error, Misuse, Ran};
use crate::recipes::pause::Pauses;

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
/// each holder has a [token](LockGuard::token), larger than those of all holders before it, and the resource refuses
/// what comes with a smaller token than it has seen (`UPDATE … SET fence = 8 WHERE id = 1 AND fence < 8`). With that, a
/// holder that is late does no harm. Without it, the lock only saves doing work twice, most of the time.
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
pub struct Lock(Arc<ServerLock>);

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
        match ServerLock::new(client, name.into().to_bytes().into_owned(), ttl) {
            Some(lock) => Ok(Self(Arc::new(lock))),
            None => Err(misuse("a lock's name may have braces only around its hash tag").into()),
        }
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
                Err(error) if error.advice() != Advice::Never => LockError::Redis(error),
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
