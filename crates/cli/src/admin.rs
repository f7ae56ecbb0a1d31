//! The commands that talk to a running gateway: `status`, `logs`, `restart`, `stop`, `start`, `purge`, `explain`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use pilotlight_gateway::Emptying;
use serde_json::{Value, json};

use crate::config::commands::Outcome;
use crate::upgrade::program::Named;
pub use arguments::Running;
pub use certificates::{Certificates, certificates};
pub use client::{Client, Failure, Gateway};
pub use invoke::{INVOKE_EXAMPLES, InvokeArguments};
pub use options::{Action, Effect, Escapes, Watch, Which};
pub use purge::{Purged, purge};
pub use releases::{
    DEPLOY_EXAMPLES, DeployArguments, RELEASES_EXAMPLES, ROLLBACK_EXAMPLES, ReleasesArguments, RollbackArguments,
    deploy, releases, rollback,
};
pub use report::Report;
pub use schedules::{SCHEDULES_EXAMPLES, Schedules, schedules};
pub use status::{STATUS_EXAMPLES, StatusArguments, status};
pub use ui::{UI_EXAMPLES, UiArguments, ui};

use report::{json_text, report_change};

/// The status of the gateway that is meant.
pub(crate) fn asked(which: &Which) -> Result<Value, Failure> {
    discover::find(which, Effect::Reads)?.client.get("/status")
}

mod arguments;
mod certificates;
mod client;
mod columns;
mod discover;
mod explain;
mod invoke;
mod options;
mod plan;
mod purge;
mod releases;
mod report;
mod schedules;
mod status;
mod stop;
mod table;
mod ui;

/// How long a reload may take: its file is read and checked, and addresses are bound.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an upgrade may take: longer than the gateway waits for its successor.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is looked whether a service has done what it was told.
const ACTION_PAUSE: Duration = Duration::from_millis(50);

/// Which lines `pilotlight logs` prints.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a> {
    /// Of which service.
    pub service: &'a str,
    /// How many of those that are there.
    pub count: usize,
    /// Whether it goes on with those that come.
    pub follow: Watch,
    /// How a terminal gets them.
    pub escapes: Escapes,
}

/// `pilotlight logs`.
///
/// # Errors
/// No gateway, no such service, or the output cannot be written.
pub fn logs(
    client: &Client,
    Lines { service, count, follow, escapes }: Lines<'_>,
    report: Report,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let follow = if follow == Watch::On { "&follow=1" } else { "" };
    let target = format!("/services/{}/logs?lines={count}{follow}", client::encoded(service));
    let mut body = BufReader::new(client.stream(&target)?);
    let mut line = String::new();
    while body.read_line(&mut line).map_err(|cause| client.broken(cause))? > 0 {
        if report == Report::Json {
            out.write_all(line.as_bytes())?; // the gateway has escaped it
        } else {
            let value: Value = serde_json::from_str(&line).unwrap_or_default();
            write!(out, "{}", table::log_line(service, &value, escapes))?;
        }
        out.flush()?;
        line.clear();
    }
    Ok(Outcome::Done)
}

/// What a service is to do.
#[derive(Clone, Copy, Debug)]
pub struct Act<'a> {
    /// Its name.
    pub service: &'a str,
    /// What it does.
    pub action: Action,
    /// How long it is waited for; zero: not at all.
    pub timeout: Duration,
}

/// `pilotlight restart`, `stop`, `start`.
///
/// # Errors
/// No gateway, no such service, it did not do what it was told, or the output cannot be written.
pub fn act(
    client: &Client,
    Act { service, action, timeout }: Act<'_>,
    report: Report,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let path = format!("/services/{}", client::encoded(service));
    let mut before = client.get(&path)?;
    let mut answer = client.post(&format!("{path}/{}", action.name()), None)?;
    if action == Action::Stop {
        before["last_instance"] = answer["instance_before"].clone(); // one may have been started between the two
    }
    let begun = Instant::now();
    let mut done = timeout.is_zero();
    while !done {
        let now = client.get(&path)?;
        match progress(action, &before, &now) {
            Progress::Done => done = true,
            Progress::Failed(reason) => return Err(Failure::Service(service.to_owned(), reason)),
            Progress::GoesOn if begun.elapsed() > timeout => {
                let left = if action == Action::Stop { stop::waits_for(&before, &now) } else { String::new() };
                let reason = format!(
                    "it is not done after {} s{left}; `pilotlight logs {service}` may say why",
                    timeout.as_secs()
                );
                return Err(Failure::Service(service.to_owned(), reason));
            }
            Progress::GoesOn => std::thread::sleep(ACTION_PAUSE),
        }
        answer = now;
    }
    if action == Action::Stop
        && let Some(map) = answer.as_object_mut().filter(|_| !timeout.is_zero())
    {
        let done = stop::difference(&before["stopped"], &map["stopped"]);
        map.insert("stop".to_owned(), done);
    }
    let text = |answer: &Value| table::acted(service, action, &before, answer, timeout.is_zero());
    report_change(client.gateway(), answer, report, text, out)?;
    Ok(Outcome::Done)
}

enum Progress {
    Done,
    GoesOn,
    Failed(String),
}

/// Whether a service has done what it was told, by its status before and now.
fn progress(action: Action, before: &Value, now: &Value) -> Progress {
    let number = |value: &Value| value["last_instance"].as_u64().unwrap_or_default();
    let failed = |value: &Value| value["failed_starts"].as_u64().unwrap_or_default();
    let was_running = before["state"] != "stopped";
    let is_done = match action {
        // Under load the next request has started another one at once.
        Action::Stop => stop::still_there(before, now).next().is_none(),
        Action::Start => now["state"] == "ready",
        // One that did not run is not started by it.
        Action::Restart if !was_running => true,
        Action::Restart => {
            let serving = now["instances"].as_array().into_iter().flatten();
            let mut serving = serving.filter(|one| one["state"] == "ready" || one["state"] == "starting");
            let all_new = serving.all(|one| one["number"].as_u64() > Some(number(before)));
            now["state"] == "ready" && number(now) > number(before) && all_new
        }
    };
    if is_done {
        Progress::Done
    } else if action != Action::Stop && failed(now) > failed(before) {
        Progress::Failed(table::failure(&now["last_error"]))
    } else {
        Progress::GoesOn
    }
}

/// `pilotlight reload`.
///
/// # Errors
/// No gateway, the file is wrong, or has no route or no service where there were some and `emptying` does not allow it,
/// an address cannot be had, or the output cannot be written. Nothing has changed then.
pub fn reload(client: &Client, emptying: Emptying, report: Report, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let body = (emptying == Emptying::Forced).then(|| json!({ "force": true }));
    let answer = client.order("/reload", body.as_ref(), RELOAD_TIMEOUT)?;
    report_change(client.gateway(), answer, report, plan::text, out)?;
    Ok(Outcome::Done)
}

/// `pilotlight upgrade`.
///
/// # Errors
/// No gateway, the new process did not become ready (the old one goes on then), or the output cannot be written.
pub fn upgrade(
    client: &Client,
    program: Option<&Path>,
    report: Report,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let named = program.map(|program| name_program(client, program)).transpose()?;
    let body = named.as_ref().map(|named| json!({ "program_file": named.name() }));
    let answer = client.order("/upgrade", body.as_ref(), UPGRADE_TIMEOUT)?;
    let gateway = client.gateway().with_pid(answer["pid"].as_u64().unwrap_or_default());
    let text = |answer: &Value| {
        format!(
            "process {} has taken over from process {}, which ends when its requests have",
            answer["pid"], answer["old_pid"]
        )
    };
    report_change(&gateway, answer, report, text, out)?;
    Ok(Outcome::Done)
}

/// Writes the program's path where only the gateway's user may.
fn name_program(client: &Client, program: &Path) -> Result<Named, Failure> {
    let status = client.get("/status")?;
    let folder = status["gateway"]["runtime_dir"].as_str().ok_or_else(|| Failure::Refused {
        status: 404,
        detail: "the gateway does not say where its runtime folder is: it is older than this command; put the new program in the \
                 place of the old one, and upgrade without --program"
            .to_owned(),
    })?;
    let program = std::path::absolute(program)?;
    Named::write(Path::new(folder), &program).map_err(|cause| Failure::Refused {
        status: 409,
        detail: format!("the program cannot be named to the gateway in its runtime folder {folder}: {cause}"),
    })
}

/// The request that `pilotlight explain` is about.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a> {
    /// Its URL, or its target alone.
    pub url: &'a str,
    /// Its method.
    pub method: &'a str,
    /// Its fields, `name: value` each.
    pub fields: &'a [String],
    /// Its body, as far as it is given.
    pub data: Option<&'a str>,
}

/// `pilotlight explain`.
///
/// # Errors
/// No gateway, not a URL, or the output cannot be written.
pub fn explain(
    client: &Client,
    Explained { url, method, fields, data }: Explained<'_>,
    report: Report,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let mut target = format!("/explain?url={}&method={}", client::encoded(url), client::encoded(method));
    for field in fields {
        target.push_str(&format!("&field={}", client::encoded(field)));
    }
    if let Some(data) = data {
        target.push_str(&format!("&data={}", client::encoded(data)));
    }
    let answer = client.get(&target)?;
    match report {
        Report::Json => writeln!(out, "{}", json_text(&answer))?,
        Report::Text => write!(out, "{}", explain::text(&answer))?,
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(action: Action, before: (&str, u64, u64), now: (&str, u64, u64), expected: &str) {
        let value = |(state, number, failures): (&str, u64, u64)| {
            json!({ "state": state, "last_instance": number, "failed_starts": failures,
            "instances": [{ "number": number, "state": state }], "last_error": { "reason": "why", "output": ["its last words"] } })
        };
        let found = match progress(action, &value(before), &value(now)) {
            Progress::Done => "done".to_owned(),
            Progress::GoesOn => "goes on".to_owned(),
            Progress::Failed(reason) => reason,
        };
        assert_eq!(found, expected, "{action:?} {before:?} {now:?}");
    }

    #[test]
    fn when_an_action_is_done() {
        check(Action::Stop, ("ready", 1, 0), ("ready", 1, 0), "goes on");
        check(Action::Stop, ("ready", 1, 0), ("stopped", 1, 0), "goes on"); // it drains
        let (before, now) = (json!({ "state": "ready" }), json!({ "state": "stopped", "instances": [] }));
        assert!(matches!(progress(Action::Stop, &before, &now), Progress::Done));
        check(Action::Start, ("stopped", 1, 0), ("starting", 2, 0), "goes on");
        check(Action::Start, ("stopped", 1, 0), ("stopped", 2, 1), "why\n  | its last words");
        check(Action::Start, ("stopped", 1, 3), ("starting", 2, 3), "goes on");
        check(Action::Restart, ("ready", 1, 0), ("ready", 1, 0), "goes on");
        check(Action::Restart, ("ready", 1, 0), ("ready", 2, 0), "done");
        let before = json!({ "state": "ready", "last_instance": 2 });
        let now = |old: &str, new: &str| {
            let instances = json!([{ "number": 2, "state": old }, { "number": 3, "state": new }]);
            json!({ "state": "ready", "last_instance": 3, "instances": instances })
        };
        let progress = |now: &Value| matches!(progress(Action::Restart, &before, now), Progress::Done);
        assert!(!progress(&now("ready", "starting")), "the new one is not there yet");
        assert!(!progress(&now("ready", "ready")), "the old one still takes requests");
        assert!(progress(&now("draining", "ready")));
        check(Action::Restart, ("stopped", 1, 0), ("stopped", 1, 0), "done");
    }
}
