//! The load: nghttp2's `h2load`, which speaks TLS, HTTP/1.1 and HTTP/2 to all servers alike.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::experiment::model::Skipped;
use crate::processes::{find_program, first_line};

/// h2load 1.52 never ends when its time is over before all its clients have shaken hands.
const LEAST_TIME: Duration = Duration::from_millis(250);
/// Twenty of each of 64 clients.
const FEW: u64 = 1280;

/// How much is asked.
#[derive(Clone, Copy, Debug)]
enum Length {
    /// As much as goes.
    Time(Duration),
    /// This many requests.
    Requests(u64),
}

/// A run of h2load.
#[derive(Clone, Debug)]
pub(crate) struct H2load {
    length: Length,
    is_http1: bool,
    connections: u64,
    streams: u64,
    field: Option<&'static str>,
    url: String,
}

/// What it found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Answers with a status of 2xx, all of them whole.
    pub(crate) answers: u64,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
}

/// Looks for the program.
///
/// # Errors
/// It is not here.
pub(crate) fn find() -> Result<PathBuf, Skipped> {
    let missing = |why: &str| Skipped::new("h2load", why, "apt install nghttp2-client");
    let program = find_program("h2load").ok_or_else(|| missing("there is no h2load here"))?;
    first_line(program.as_os_str(), &["--version"]).ok_or_else(|| missing("h2load does not run"))?;
    Ok(program)
}

impl H2load {
    /// For so long; where that is too short for it, some requests.
    pub(super) fn timed(duration: Duration) -> Self {
        Self::new(if duration < LEAST_TIME { Length::Requests(FEW) } else { Length::Time(duration) })
    }

    pub(crate) fn counted(requests: u64) -> Self {
        Self::new(Length::Requests(requests))
    }

    fn new(length: Length) -> Self {
        Self { length, is_http1: false, connections: 1, streams: 1, field: None, url: String::new() }
    }

    pub(crate) fn http1(self) -> Self {
        Self { is_http1: true, ..self }
    }

    pub(crate) fn connections(self, connections: u64) -> Self {
        Self { connections, ..self }
    }

    pub(super) fn streams(self, streams: u64) -> Self {
        Self { streams, ..self }
    }

    pub(super) fn field(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    pub(crate) fn of(self, url: String) -> Self {
        Self { url, ..self }
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut words =
            vec![format!("--clients={}", self.connections), format!("--max-concurrent-streams={}", self.streams)];
        match self.length {
            Length::Time(duration) => words.push(format!("--duration={}ms", duration.as_millis().max(1))),
            Length::Requests(requests) => words.push(format!("--requests={requests}")),
        }
        if self.is_http1 {
            words.push("--h1".into());
        }
        words.extend(self.field.map(|field| format!("--header={field}")));
        words.push(self.url.clone());
        words.into_iter().map(OsString::from).collect()
    }

    /// Runs it.
    ///
    /// # Errors
    /// It does not run, or an answer is missing or an error.
    pub(crate) fn run(&self) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        let done = Command::new("h2load").args(self.arguments()).output().context("h2load cannot be started")?;
        let took = begun.elapsed();
        let text = String::from_utf8_lossy(&done.stdout);
        ensure!(done.status.success(), "h2load: {} {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
        let answers = answers(&text)?;
        let took = match self.length {
            Length::Time(duration) => duration,
            Length::Requests(_) => took,
        };
        Ok(Outcome { answers, took })
    }
}

/// The answers that were right; an error if any was not. At the end of the time requests are in flight, which h2load
/// neither counts as done nor as failed.
fn answers(text: &str) -> anyhow::Result<u64> {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let count = |line: &str, what: &str| {
        let part = line.split(',').find_map(|part| part.trim().strip_suffix(what))?;
        part.trim().parse::<u64>().ok()
    };
    let requests = line("requests:").context("h2load printed no line of requests")?;
    let statuses = line("status codes:").context("h2load printed no line of statuses")?;
    let succeeded = count(requests, "succeeded").context("h2load did not say how many succeeded")?;
    let failed = ["failed", "errored", "timeout"].map(|what| count(requests, what).unwrap_or_default());
    let other = ["3xx", "4xx", "5xx"].map(|what| count(statuses, what).unwrap_or_default());
    if failed.iter().chain(&other).any(|count| *count > 0) {
        bail!("not every answer was right: requests{requests}; statuses{statuses}");
    }
    ensure!(succeeded > 0, "no answer");
    Ok(succeeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &str = "\nfinished in 1.00s, 5000.00 req/s, 1.2MB/s\n\
        requests: 5000 total, 5010 started, 5000 done, 5000 succeeded, 0 failed, 0 errored, 0 timeout\n\
        status codes: 5000 2xx, 0 3xx, 0 4xx, 0 5xx\n";

    #[test]
    fn what_it_prints_is_read() {
        assert_eq!(answers(DONE).expect("whole"), 5000);
        for (from, to) in [("0 4xx", "1 4xx"), ("0 errored", "3 errored"), ("5000 succeeded", "0 succeeded")] {
            assert!(answers(&DONE.replace(from, to)).is_err(), "{to}");
        }
        assert!(answers("").is_err());
    }

    #[test]
    fn what_is_too_short_for_it_is_counted() {
        let length = |millis| H2load::timed(Duration::from_millis(millis)).arguments().remove(2);
        assert_eq!([length(10), length(249), length(250)], ["--requests=1280", "--requests=1280", "--duration=250ms"]);
    }

    #[test]
    fn its_arguments_say_what_is_wanted() {
        let words = H2load::counted(8).http1().connections(2).field("accept-encoding: gzip").of("http://a/".into());
        let expected = [
            "--clients=2",
            "--max-concurrent-streams=1",
            "--requests=8",
            "--h1",
            "--header=accept-encoding: gzip",
            "http://a/",
        ];
        assert_eq!(words.arguments(), expected.map(OsString::from));
    }
}
