//! Runs of schedules, each of which one of several gateways takes: one key for each schedule.

use std::time::Duration;

use pilotlight_redis::Error;

use super::Tier;
use crate::script;

/// How long a run is held that its gateway does not renew: it has died, or has lost Redis.
pub const RUN_HELD: Duration = Duration::from_secs(30);
/// How often it renews it. A third: one lost round trip costs nothing.
pub const RUN_RENEWED_EVERY: Duration = Duration::from_secs(10);
const _: () = assert!(RUN_HELD.as_secs() >= 3 * RUN_RENEWED_EVERY.as_secs());
/// For how long it is known up to when a schedule was dealt with: longer than a year, as some are due once in a year.
const KNOWN_FOR: Duration = Duration::from_secs(400 * 24 * 3600);

/// What becomes of a time at which a schedule was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The run is this gateway's, for [`RUN_HELD`].
    Ours,
    /// Another gateway has dealt with that time.
    Elsewhere,
    /// A run is not over at another gateway, so there is none for that time.
    Overlaps,
}

impl Tier {
    /// Asks for the run of a schedule, for all gateways with this Redis and prefix. `due`: the second since 1970 at
    /// which it was due, by the file, so that the gateways' clocks need not agree; `None` for a run by hand. `token`
    /// stands for this run; who asks again with it gets the same answer.
    ///
    /// # Errors
    /// Redis has not answered; it may have noted it.
    pub async fn take_run(&self, schedule: &str, due: Option<i64>, token: &str) -> Result<Taken, Error> {
        let due = due.map(|due| due.to_string()).unwrap_or_default();
        let run = script::TAKE_RUN.run::<i64>(&self.client).key(self.shared.keys().schedule(schedule));
        match run.arg([due.as_str(), token]).arg([milliseconds(RUN_HELD), milliseconds(KNOWN_FOR)]).await? {
            1 => Ok(Taken::Ours),
            2 => Ok(Taken::Elsewhere),
            _ => Ok(Taken::Overlaps),
        }
    }

    /// Holds a run for another [`RUN_HELD`]; whether it still was this gateway's.
    ///
    /// # Errors
    /// Redis has not answered.
    pub async fn renew_run(&self, schedule: &str, token: &str) -> Result<bool, Error> {
        self.hold_run(schedule, token, RUN_HELD).await
    }

    /// Says that a run is over.
    ///
    /// # Errors
    /// Redis has not answered: it is held for [`RUN_HELD`] at most.
    pub async fn end_run(&self, schedule: &str, token: &str) -> Result<(), Error> {
        self.hold_run(schedule, token, Duration::ZERO).await.map(drop)
    }

    async fn hold_run(&self, schedule: &str, token: &str, time: Duration) -> Result<bool, Error> {
        let run = script::HOLD_RUN.run::<i64>(&self.client).key(self.shared.keys().schedule(schedule));
        Ok(run.arg(token).arg(milliseconds(time)).await? == 1)
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
