//! The lock as the server has it: its keys, and what is done with them in one step.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, Script};
use crate::command::Command;
use crate::commands::{Commands, spec};
use crate::error::Error;
use crate::proto::slot::Slot;

/// See the module.
#[derive(Debug)]
pub(super) struct ServerLock {
    client: Client,
    name: Vec<u8>,
    fence: Vec<u8>,
    pub(super) ttl: Duration,
    acquire: Script,
    renew: Script,
    release: Script,
    /// The server has no `DELIFEQ`.
    lacks_delifeq: AtomicBool,
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

pub(super) enum Attempt {
    /// Sent at `since`.
    Taken { token: u64, since: Instant },
    /// By somebody else, for so long.
    Held(Duration),
}

/// What became of a renewal.
pub(super) enum Renewed {
    Yes,
    /// The lock is somebody else's, or nobody's.
    Gone,
}

impl ServerLock {
    /// `None`: no second key can be in the slot of the name.
    pub(super) fn new(client: &Client, name: Vec<u8>, ttl: Duration) -> Option<Self> {
        let fence = fence_of(&name)?;
        Some(Self {
            client: client.clone(),
            name,
            fence,
            ttl,
            acquire: Script::new(ACQUIRE),
            renew: Script::new(RENEW),
            release: Script::new(RELEASE),
            lacks_delifeq: AtomicBool::new(false),
        })
    }

    pub(super) async fn attempt(&self, holder: &[u8]) -> Result<Attempt, Error> {
        let since = Instant::now();
        let call = self.acquire.run(&self.client).key(&self.name).key(&self.fence).arg(holder).arg(self.ttl_ms());
        let (token, left_ms): (u64, i64) = call.await?;
        if token > 0 {
            return Ok(Attempt::Taken { token, since });
        }
        // Without a time to live (-1) it was not set by a lock.
        Ok(Attempt::Held(Duration::from_millis(u64::try_from(left_ms).unwrap_or(u64::MAX))))
    }

    pub(super) async fn renew(&self, holder: &[u8], timeout: Duration) -> Result<Renewed, Error> {
        let call = self.renew.run::<i64>(&self.client).key(&self.name).arg(holder).arg(self.ttl_ms()).timeout(timeout);
        Ok(if call.await? == 1 { Renewed::Yes } else { Renewed::Gone })
    }

    /// Whether it was the holder's, still; repeated after a lost reply, it was not.
    pub(super) async fn release(&self, holder: &[u8]) -> Result<bool, Error> {
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
        Command::new(&spec::DELIFEQ).arg(&self.name).arg(holder)
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// Until when a lock that was asked for at `since` is believed in: a fiftieth shorter than the server's time.
    pub(super) fn valid_until(&self, since: Instant) -> Instant {
        since + self.ttl - self.ttl / 50
    }
}

/// Unlike any other's: 128 random bits, and the process.
pub(super) fn holder() -> String {
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
