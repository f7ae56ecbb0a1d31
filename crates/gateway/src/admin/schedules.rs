//! `GET /schedules` and `POST /schedules/run`: requests at certain times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use serde_json::{Value, json};

use super::refused::{Refused, refused};
use super::shared::Shared;
use crate::schedules::{Ended, NotBegun, Report, Run, RunResult};

/// All of them.
pub(super) fn list(shared: &Shared) -> Value {
    shared.common.schedules.report().iter().map(one).collect()
}

fn one(report: &Report) -> Value {
    let (spec, Ended { ok, failed, skipped, elsewhere, missed }) = (&report.spec, report.ended);
    json!({
        "name": spec.name,
        "cron": spec.cron.text(),
        "timezone": spec.timezone,
        "service": spec.service,
        "path": spec.target,
        "method": spec.method.as_str(),
        "next": report.next.as_ref().map(|(shown, _)| shown),
        "next_in_seconds": report.next.as_ref().map(|(_, at)| at.saturating_sub(now())),
        "error": report.error,
        "running": report.running.as_ref().map(|run| json!({
            "number": run.number, "cause": run.cause.name(), "at": date(run.at), "seconds_ago": now().saturating_sub(run.at),
        })),
        "runs": { "ok": ok, "failed": failed, "skipped": skipped, "elsewhere": elsewhere, "missed": missed },
        "last_success_seconds_ago": report.last_success.map(|at| now().saturating_sub(at)),
        "last_number": report.last_number,
        "history": report.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

fn run(run: &Run) -> Value {
    let (status, why) = match &run.result {
        RunResult::Ok(status) => (Some(*status), None),
        RunResult::Failed { status, why } => (*status, Some(why.clone())),
        RunResult::Skipped => (None, Some("the run before was not over".to_owned())),
        RunResult::Elsewhere => (None, Some("another gateway ran it".to_owned())),
        RunResult::Missed(1) => (None, Some("it was due when nothing could be sent".to_owned())),
        RunResult::Missed(times) => (None, Some(format!("it was due {times} times when nothing could be sent"))),
    };
    json!({
        "number": run.number,
        "cause": run.cause.name(),
        "at": date(run.at),
        "seconds_ago": now().saturating_sub(run.at),
        "took_ms": run.took.as_secs_f64() * 1e3,
        "result": run.result.name(),
        "status": status,
        "reason": why,
    })
}

fn date(second: i64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(u64::try_from(second).unwrap_or(0)))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Begins a run, whatever the time: `{"name": "NAME"}`.
pub(super) fn begin(shared: &Shared, body: &[u8]) -> Result<Value, Refused> {
    const EXAMPLE: &str = "send {\"name\": \"app/cleanup\"}";
    let invalid = |what: String| refused(StatusCode::BAD_REQUEST, what);
    let value: Value =
        serde_json::from_slice(body).map_err(|e| invalid(format!("the body is not JSON: {e}; {EXAMPLE}")))?;
    let name = value.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| invalid(format!("the body has no `name`; {EXAMPLE}")))?;
    match shared.common.schedules.begin(name) {
        Ok(number) => Ok(json!({ "name": name, "number": number })),
        Err(NotBegun::Unknown) => {
            let names: Vec<String> = shared.common.schedules.report().iter().map(|one| one.spec.name.clone()).collect();
            let known = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
            Err(refused(StatusCode::NOT_FOUND, format!("there is no schedule {name:?}: {known}")))
        }
        Err(NotBegun::Running(number)) => {
            Err(refused(StatusCode::CONFLICT, format!("run {number} of the schedule {name:?} is not over")))
        }
    }
}
