//! A rate limiter: the generic cell rate algorithm (ITU-T I.371, "virtual scheduling") in one script.

use std::time::Duration;

use crate::client::{Client, Script};
use crate::command::Arg;
use crate::error::{Error, Misuse, Ran};

/// So many units in a period on average, and so many at once.
///
/// Each unit is due one interval after the one before it. What comes early uses up the burst, which fills again with
/// time; the state of a key is one string, which says how far ahead of its schedule it is and since when, and expires
/// when the burst is full again.
///
/// **What it takes for granted.** The server's clock goes on evenly: time is asked for in the script, clients' clocks
/// do not matter. When it jumps ahead, bursts fill too early; when it jumps back, they pause until it has caught up
/// with their last use, and never run dry. A failover that loses writes forgets what was used in them: more is allowed
/// then, by at most one burst and what was allowed meanwhile. A check whose reply was lost ([`Ran::MaybeExecuted`]) may
/// have counted; it is not repeated. Each check is one command for one key, so it is right in a cluster, too.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error};
/// # use pilotlight_redis::recipes::RateLimit;
/// # use std::time::Duration;
/// # async fn example(client: &Client) -> Result<(), Error> {
/// // 100 a minute, at most 20 at once.
/// let limit = RateLimit::new(100, Duration::from_secs(60))?.burst(20)?;
/// let decision = limit.check(client, "limit:user:1", 1).await?;
/// if !decision.is_allowed {
///     println!("again in {:?}", decision.retry_after);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RateLimit {
    script: Script,
    /// Microseconds between two units.
    interval: f64,
    burst: u64,
}

/// What a limit says to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be served. If not, nothing was used up.
    pub is_allowed: bool,
    /// Units that may be used at once, now.
    pub remaining: u64,
    /// When the same would be allowed, if nothing else is used up meanwhile; none: it is allowed, or never will be, as
    /// it costs more than the burst.
    pub retry_after: Option<Duration>,
    /// When the whole burst may be used again, if nothing is used up meanwhile.
    pub reset_after: Duration,
}

/// `KEYS`: the state. `ARGV`: interval (µs), burst, cost. State: `since ahead`, in µs of the server's clock. Numbers
/// are doubles: of µs since 1970 exact to 2^53, which is the year 2255; fractions of a µs are only in `ahead`.
const SCRIPT: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local ahead = 0
local state = redis.call('GET', KEYS[1])
if state then
  local since, then_ahead = string.match(state, '^(%d+) (%S+)$')
  if not since then return redis.error_reply('ERR the key of a rate limit has something else in it') end
  since = tonumber(since)
  -- A clock that went back.
  if since > now then now = since end
  ahead = math.max(0, tonumber(then_ahead) - (now - since))
end
local room = interval * burst - ahead
local needed = interval * cost
-- Doubles: a thousandth of a microsecond is nothing.
local is_allowed = needed <= room + 0.001
if is_allowed and cost > 0 then
  ahead, room = ahead + needed, room - needed
  redis.call('SET', KEYS[1], string.format('%.0f %.6f', now, ahead), 'PX', string.format('%.0f', math.ceil(ahead / 1000) + 1))
end
local retry = is_allowed and 0 or needed - room
return { is_allowed and 1 or 0, math.floor(math.max(0, room) / interval + 0.000001), math.ceil(math.min(retry, 2^52)), math.ceil(ahead) }
";

impl RateLimit {
    /// `units` in each `period` on average, as many at once.
    ///
    /// # Errors
    /// Either is zero ([`ErrorKind::Misuse`](crate::ErrorKind::Misuse)).
    pub fn new(units: u64, period: Duration) -> Result<Self, Error> {
        if units == 0 || period.is_zero() {
            return Err(misuse("a rate limit needs a number of units and a period above zero"));
        }
        let interval = period.as_secs_f64() * 1e6 / units as f64;
        Ok(Self { script: Script::new(SCRIPT), interval, burst: units })
    }

    /// The same with so many at once.
    ///
    /// # Errors
    /// It is zero.
    pub fn burst(self, units: u64) -> Result<Self, Error> {
        if units == 0 {
            return Err(misuse("a rate limit without a burst allows nothing"));
        }
        Ok(Self { burst: units, ..self })
    }

    /// Uses up `cost` units of a key if they are there; 0 only looks.
    ///
    /// # Errors
    /// As any command.
    ///
    /// # Cancel safety
    /// They may have been used up.
    pub async fn check<'k>(&self, client: &Client, key: impl Into<Arg<'k>>, cost: u64) -> Result<Decision, Error> {
        let call = self.script.run(client).key(key.into().into_owned());
        let arguments = [self.interval.to_string(), self.burst.to_string(), cost.to_string()];
        let (allowed, remaining, retry, reset): (i64, u64, u64, u64) = call.arg(&arguments).await?;
        let is_allowed = allowed == 1;
        let is_possible = cost <= self.burst;
        Ok(Decision {
            is_allowed,
            remaining,
            retry_after: (!is_allowed && is_possible).then(|| Duration::from_micros(retry)),
            reset_after: Duration::from_micros(reset),
        })
    }
}

fn misuse(text: &str) -> Error {
    Error::new(Misuse::Arguments(text.into()), Ran::NotSent, "RateLimit")
}
