//! `pilotlight schedules`: requests that services get at certain times.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use pilotlight_printable::printable;
use serde_json::{Value, json};

use super::client::{Client, Failure};
use super::columns::{Cell, Style, left, rows};
use super::report::{Report, json_text};
use crate::config::commands::Outcome;

/// How often it is looked whether a run is over.
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of a reason that a table shows.
const MAX_REASON: usize = 40;

/// Examples for the help.
pub const SCHEDULES_EXAMPLES: &str = "Examples:
  pilotlight schedules                      when each is due next, and what came of the last run
  pilotlight schedules app/cleanup          the last twenty runs of one
  pilotlight schedules --run app/cleanup    run it now, and wait for what comes of it";

/// What `pilotlight schedules` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedules {
    /// All are listed.
    List,
    /// The runs of one are listed.
    One(String),
    /// One is run now, and waited for.
    Run(String),
}

/// `pilotlight schedules`.
///
/// # Errors
/// No gateway, no such schedule, or the output cannot be written.
pub fn schedules(client: &Client, what: &Schedules, report: Report, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let (answer, outcome) = match what {
        Schedules::List => (client.get("/schedules")?, Outcome::Done),
        Schedules::One(name) => (find(client, name)?, Outcome::Done),
        Schedules::Run(name) => {
            let run = run(client, name)?;
            let outcome = if run["result"] == "ok" { Outcome::Done } else { Outcome::Failed };
            (run, outcome)
        }
    };
    match (report, what) {
        (Report::Json, _) => writeln!(out, "{}", json_text(&answer))?,
        (Report::Text, Schedules::List) => write!(out, "{}", table(&answer, Style::of_stdout()))?,
        (Report::Text, Schedules::One(_)) => write!(out, "{}", one(&answer, Style::of_stdout()))?,
        (Report::Text, Schedules::Run(name)) => writeln!(out, "{name}: {}", result(&answer, usize::MAX))?,
    }
    Ok(outcome)
}

fn find(client: &Client, name: &str) -> Result<Value, Failure> {
    let answer = client.get("/schedules")?;
    let all = || answer["schedules"].as_array().into_iter().flatten();
    all().find(|one| one["name"] == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = all().filter_map(|one| one["name"].as_str()).collect();
        let known = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        Failure::Refused { status: 404, detail: format!("there is no schedule {}: {known}", printable(name)) }
    })
}

/// Begins a run, and waits until it is over: as long as its `timeout` allows.
fn run(client: &Client, name: &str) -> Result<Value, Failure> {
    let begun = client.post("/schedules/run", Some(&json!({ "name": name })))?;
    let number = begun["number"].as_u64().unwrap_or_default();
    loop {
        let now = find(client, name)?;
        let mut runs = now["history"].as_array().into_iter().flatten();
        if let Some(run) = runs.find(|run| run["number"].as_u64() == Some(number)) {
            return Ok(run.clone());
        }
        // It has begun and is over, and so many others since that it made room for them.
        if now["running"].is_null() && now["last_number"].as_u64() >= Some(number) {
            let why = format!("run {number} is no longer in the history of the schedule {}", printable(name));
            return Err(Failure::Refused { status: 409, detail: why });
        }
        std::thread::sleep(PAUSE);
    }
}

/// What the status of the gateway has below its services.
pub(super) fn below(status: &Value, style: Style) -> String {
    let has_some = status["schedules"].as_array().is_some_and(|all| !all.is_empty());
    if has_some { format!("\n{}", table(status, style)) } else { String::new() }
}

fn table(answer: &Value, style: Style) -> String {
    let all = answer["schedules"].as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        return "no schedules; [[schedules]] with cron, service and path in the configuration file makes one\n"
            .to_owned();
    }
    let row = |one: &Value| -> Vec<Cell> {
        let last = match (&one["running"], &one["history"][0]) {
            (running, _) if running.is_object() => {
                format!("runs for {}", span(running["seconds_ago"].as_i64().unwrap_or_default()))
            }
            (_, Value::Null) => "-".to_owned(),
            (_, last) => format!("{}, {} ago", result(last, MAX_REASON), span(seconds(&last["seconds_ago"]))),
        };
        vec![left(text(&one["name"])), left(text(&one["cron"])), left(next(one)), left(last)]
    };
    rows(&["SCHEDULE", "CRON", "NEXT", "LAST"], &all.iter().map(row).collect::<Vec<_>>(), style)
}

fn one(schedule: &Value, style: Style) -> String {
    let mut out = String::new();
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<12}{value}"); // to a text nothing fails
    };
    fact("schedule", text(&schedule["name"]));
    fact("due", format!("{} ({})", text(&schedule["cron"]), text(&schedule["timezone"])));
    fact(
        "request",
        format!("{} {} of {}", text(&schedule["method"]), text(&schedule["path"]), text(&schedule["service"])),
    );
    let shown = schedule["next"].as_str().map(|next| format!("{} {}, ", printable(next), text(&schedule["timezone"])));
    fact("next", shown.unwrap_or_default() + &next(schedule));
    let runs = schedule["runs"].as_object().into_iter().flatten();
    let runs: Vec<String> = runs.map(|(name, count)| format!("{count} {name}")).collect();
    fact("runs", runs.join(", "));
    let history: Vec<Vec<Cell>> = schedule["history"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|run| {
            vec![
                left(run["number"].to_string()),
                left(text(&run["at"])),
                left(text(&run["cause"])),
                left(result(run, MAX_REASON)),
            ]
        })
        .collect();
    if !history.is_empty() {
        let _ = write!(out, "\n{}", rows(&["RUN", "AT", "BY", "RESULT"], &history, style));
    }
    out
}

fn next(schedule: &Value) -> String {
    match (&schedule["next_in_seconds"], &schedule["error"]) {
        (_, Value::String(why)) => format!("never: {}", printable(why)),
        (Value::Null, _) => "never".to_owned(),
        (left, _) if seconds(left) <= 0 => "now".to_owned(),
        (left, _) => format!("in {}", span(seconds(left))),
    }
}

/// What came of a run.
fn result(run: &Value, max: usize) -> String {
    let name = text(&run["result"]);
    match run["reason"].as_str() {
        None => format!("{name} {}, {:.0} ms", run["status"], run["took_ms"].as_f64().unwrap_or_default()),
        Some(why) => {
            let line = printable(why.lines().next().unwrap_or_default()).into_owned();
            let short: String = line.chars().take(max).collect();
            let more = if short.len() < line.len() { "…" } else { "" };
            format!("{name}: {short}{more}")
        }
    }
}

fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default()).into_owned()
}

fn seconds(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// A span of time in its two largest units.
fn span(seconds: i64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let at = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(3);
    let (unit, name) = units[at];
    let rest = units.get(at + 1).map(|(next, name)| (seconds % unit / next, name)).filter(|(count, _)| *count > 0);
    let rest = rest.map_or(String::new(), |(count, name)| format!(" {count}{name}"));
    format!("{}{name}{rest}", seconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let check = |seconds, expected: &str| assert_eq!(span(seconds), expected);
        check(0, "0s");
        check(59, "59s");
        check(60, "1m");
        check(3661, "1h 1m");
        check(7200, "2h");
        check(200_000, "2d 7h");
    }

    #[test]
    fn results() {
        let check = |run: Value, expected: &str| assert_eq!(result(&run, 20), expected);
        check(json!({ "result": "ok", "status": 204, "took_ms": 12.6, "reason": null }), "ok 204, 13 ms");
        check(json!({ "result": "failed", "reason": "it said\u{1b}[31m\nmore" }), "failed: it said\\x1b[31m");
        check(json!({ "result": "failed", "reason": "x".repeat(30) }), &format!("failed: {}…", "x".repeat(20)));
    }

    #[test]
    fn a_list() {
        let answer = json!({ "schedules": [
            { "name": "app/a", "cron": "30 2 * * *", "next_in_seconds": 90, "running": null, "history": [] },
            { "name": "b", "cron": "* * * * *", "next_in_seconds": null, "error": "no such zone", "running": { "seconds_ago": 3 }, "history": [] },
        ]});
        assert_eq!(
            table(&answer, Style::Plain),
            "SCHEDULE  CRON        NEXT                 LAST\n\
             app/a     30 2 * * *  in 1m 30s            -\n\
             b         * * * * *   never: no such zone  runs for 3s\n"
        );
    }
}
