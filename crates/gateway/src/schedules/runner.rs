//! Begins what is due. A task of one worker, which sends the requests as well.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::agenda::{Begun, RunResult};
use super::shared;
use crate::exchange::scheduled;
use crate::worker::{Stop, Worker};

/// The longest sleep: the clock may be set meanwhile, or the machine may sleep, which timers do not notice.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// Begins what is due until the gateway stops, or another process accepts connections.
pub(crate) async fn run(worker: Rc<Worker>, mut stop: watch::Receiver<Stop>) {
    let schedules = Arc::clone(&worker.common.schedules);
    loop {
        let begun = schedules.due(seconds(now()), fastrand::f64);
        if schedules.keeps() {
            let schedules = Arc::clone(&schedules);
            tokio::task::spawn_blocking(move || schedules.keep());
        }
        for begun in begun {
            worker.spawner.spawn(perform(Rc::clone(&worker), begun));
        }
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop != Stop::No) => return,
            () = schedules.changed() => {}
            () = sleep_until(schedules.wakes_at()) => {}
        }
    }
}

/// A part of the way there, if that is long.
async fn sleep_until(at: Option<i64>) {
    let Some(at) = at else { return std::future::pending().await };
    let at = Duration::from_secs(u64::try_from(at).unwrap_or(0));
    tokio::time::sleep(at.saturating_sub(now()).min(MAX_SLEEP)).await;
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn seconds(since_1970: Duration) -> i64 {
    i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
}

async fn perform(worker: Rc<Worker>, begun: Begun) {
    let (spec, began) = (&begun.spec, Instant::now());
    let result = match (spec.is_shared, worker.second.clone()) {
        (false, _) => ask(&worker, &begun, spec.timeout).await,
        (true, Some(redis)) => shared::perform(&redis, &begun, |left| ask(&worker, &begun, left)).await,
        (true, None) => RunResult::failed("it is `shared`, and there is no [cache.redis] any more"),
    };
    let (took, schedule) = (began.elapsed(), &spec.name);
    let took_ms = took.as_secs_f64() * 1e3;
    match &result {
        RunResult::Failed { why, .. } => {
            tracing::warn!(%schedule, number = begun.number, took_ms, "the run of a schedule failed: {why}");
        }
        RunResult::Elsewhere => tracing::debug!(%schedule, number = begun.number, "another gateway runs the schedule"),
        _ => tracing::info!(%schedule, number = begun.number, took_ms, "the run of a schedule is over"),
    }
    worker.common.schedules.end(&begun, seconds(now()), took, result);
}

/// Sends the request and reads the answer, within the time that is `left`.
async fn ask(worker: &Rc<Worker>, begun: &Begun, left: Duration) -> RunResult {
    match tokio::time::timeout(left, answer(worker, begun)).await {
        Ok(result) => result,
        Err(_) => {
            let timeout = begun.spec.timeout.as_secs();
            RunResult::failed(format!("no answer to its end within `timeout` ({timeout} s)"))
        }
    }
}

async fn answer(worker: &Rc<Worker>, begun: &Begun) -> RunResult {
    let spec = &begun.spec;
    let route = worker.common.table.load().schedule_route(&spec.name).cloned();
    let Some(route) = route else { return RunResult::failed("its service is no longer configured") };
    match scheduled::ask(worker, &route, spec).await {
        Err(why) => RunResult::failed(why),
        Ok(answer) if (200..300).contains(&answer.status) => RunResult::Ok(answer.status),
        Ok(answer) => {
            let said = String::from_utf8_lossy(&answer.beginning);
            let said = said.trim();
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            let why = format!("it was answered with status {}{said}", answer.status);
            RunResult::Failed { status: Some(answer.status), why }
        }
    }
}
