//! A run that one of several gateways takes, by a key in the Redis that they share.

use std::future::Future;
use std::time::{Duration, Instant};

use pilotlight_cache_redis::{RUN_RENEWED_EVERY, RedisError, Taken, Tier};

use super::agenda::{Begun, RunResult};

/// How long Redis is left alone when it has not answered.
const PAUSE: Duration = Duration::from_secs(1);

/// Takes the run, has it performed by `ask`, which is told how much of `timeout` is left, and says that it is over. As
/// long as Redis does not answer nothing is sent: another gateway may reach it.
pub(super) async fn perform<F>(redis: &Tier, begun: &Begun, ask: impl FnOnce(Duration) -> F) -> RunResult
where
    F: Future<Output = RunResult>,
{
    let (schedule, timeout, began) = (&*begun.spec.name, begun.spec.timeout, Instant::now());
    let token = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
    match tokio::time::timeout(timeout, take(redis, begun, &token)).await {
        Ok(Taken::Ours) => {}
        Ok(Taken::Elsewhere) => return RunResult::Elsewhere,
        Ok(Taken::Overlaps) if begun.due.is_some() => return RunResult::Skipped,
        Ok(Taken::Overlaps) => return RunResult::failed("a run of it is not over at another gateway"),
        Err(_) => {
            let timeout = timeout.as_secs();
            return RunResult::failed(format!(
                "Redis did not say within `timeout` ({timeout} s) which gateway runs it"
            ));
        }
    }
    let result = tokio::select! {
        result = ask(timeout.saturating_sub(began.elapsed())) => result,
        never = renew(redis, schedule, &token) => match never {},
    };
    if let Err(error) = redis.end_run(schedule, &token).await {
        tracing::warn!(%schedule, %error, "other gateways do not know yet that the run is over");
    }
    result
}

/// Asks until Redis answers.
async fn take(redis: &Tier, begun: &Begun, token: &str) -> Taken {
    let (schedule, mut is_said) = (&begun.spec.name, false);
    loop {
        match redis.take_run(schedule, begun.due, token).await {
            Ok(taken) => return taken,
            Err(error) if !is_said => say(schedule, &error),
            Err(_) => {}
        }
        is_said = true;
        tokio::time::sleep(PAUSE).await;
    }
}

fn say(schedule: &str, error: &RedisError) {
    tracing::warn!(%schedule, %error, "Redis does not say which gateway runs the schedule; asking again each second");
}

/// Holds the run, for as long as it is polled.
async fn renew(redis: &Tier, schedule: &str, token: &str) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(RUN_RENEWED_EVERY).await;
        match redis.renew_run(schedule, token).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(%schedule, "the run was lost: another gateway may run the schedule meanwhile"),
            Err(error) => tracing::warn!(%schedule, %error, "the run could not be held; trying again"),
        }
    }
}
