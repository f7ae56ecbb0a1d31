//! The load itself beside wrk, on the bare loop: what asks must be cheaper than what answers, or it is the asking that
//! is measured.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::START_LIMIT;
use crate::cores::{self, Cores};
use crate::experiment::model::{Metric, Role, Skipped, Software};
use crate::experiment::{Amount, Measure, Sample, Setting, Variant};
use crate::load::{self, Load, Pace, Requests, get};
use crate::processes::{Held, Program, find_program, own_program, usage};
use crate::service::{SERVICE, answer_body};

/// wrk ends so long after its time at most.
const OVERTIME: Duration = Duration::from_secs(20);
/// What it says when an answer was none.
const COMPLAINTS: [&str; 2] = ["Non-2xx or 3xx responses", "Socket errors"];

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generator {
    Lab,
    Wrk,
}

/// Why wrk cannot take part.
pub(super) fn missing() -> Option<Skipped> {
    find_program("wrk").is_none().then(|| Skipped {
        what: "wrk beside the lab's load".into(),
        why: "wrk is not installed".into(),
        install: "apt install wrk".into(),
    })
}

impl Generator {
    pub(super) const ALL: [Self; 2] = [Self::Lab, Self::Wrk];

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Lab => "lab",
            Self::Wrk => "wrk",
        }
    }

    pub(super) fn variant(self, connections: usize, setting: &Setting) -> Variant {
        let (title, role, software) = match self {
            Self::Lab => (
                "the lab's load",
                Role::Subject,
                Software {
                    name: "pilotlight".into(),
                    version: env!("CARGO_PKG_VERSION").into(),
                    settings: vec!["one thread".into()],
                },
            ),
            Self::Wrk => {
                ("wrk", Role::Peer, Software { name: "wrk".into(), version: version(), settings: vec!["-t1".into()] })
            }
        };
        let dir = setting.scratch.join(format!("layers-generator-{}", self.id()));
        let measure = Asking { generator: self, connections, dir, server: None };
        Variant {
            id: self.id().into(),
            title: title.into(),
            role,
            software: vec![software],
            measure: Box::new(measure),
        }
    }
}

/// wrk prints its version and fails, because it is told no URL.
fn version() -> String {
    let done = find_program("wrk").and_then(|wrk| std::process::Command::new(wrk).arg("--version").output().ok());
    let text = done.map(|done| [done.stdout, done.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).split(" [").next().unwrap_or_default().trim().to_owned()
}

/// A generator with a server of its own.
#[derive(Debug)]
struct Asking {
    generator: Generator,
    connections: usize,
    dir: PathBuf,
    server: Option<(Held, SocketAddr)>,
}

impl Measure for Asking {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let cores = Cores::here();
        if self.server.is_none() {
            self.server = Some(cores::on(cores.map(|cores| cores.server), || self.start())??);
        }
        let (_, address) = self.server.as_ref().context("it was started")?;
        let asked = cores::on(cores.map(|cores| cores.load), || match self.generator {
            Generator::Lab => self.lab(*address, amount.duration),
            Generator::Wrk => self.wrk(*address, amount.duration),
        })??;
        Ok(Sample {
            values: vec![(Metric::LoadCpuUs, asked.cpu_us), (Metric::PerSecond, asked.per_second)],
            cpu_us: vec![("load".into(), asked.cpu_us)],
            requests: asked.answers,
            ..Sample::default()
        })
    }
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    answers: u64,
    per_second: f64,
    cpu_us: f64,
}

impl Asking {
    fn start(&self) -> anyhow::Result<(Held, SocketAddr)> {
        fs::create_dir_all(&self.dir).with_context(|| format!("cannot make {}", self.dir.display()))?;
        let command = vec![own_program()?.into(), SERVICE.into(), "bare".into()];
        let program = Program { name: "bare".into(), command, dir: self.dir.clone(), output: self.dir.join("output") };
        let mut held = program.start()?;
        let address = held.listening(START_LIMIT)?;
        Ok((held, address))
    }

    fn lab(&self, address: SocketAddr, duration: Duration) -> anyhow::Result<Asked> {
        let load =
            Load { to: address.into(), connections: self.connections, pace: Pace::Closed { depth: 1 }, duration };
        let requests = Requests::Same { request: get("/"), body: Some(answer_body().into_bytes()) };
        let outcome = load::run(&load, requests)?;
        Ok(Asked { answers: outcome.answers, per_second: outcome.per_second(), cpu_us: outcome.cpu_us() })
    }

    fn wrk(&self, address: SocketAddr, duration: Duration) -> anyhow::Result<Asked> {
        let seconds = duration.as_secs().max(1);
        let words = ["wrk", "-t1", &format!("-c{}", self.connections), &format!("-d{seconds}s")].map(Into::into);
        let command = words.into_iter().chain([format!("http://{address}/").into()]).collect();
        let program =
            Program { name: "wrk".into(), command, dir: self.dir.clone(), output: self.dir.join("wrk.output") };
        let before = usage::ended_children_cpu_time()?;
        let mut held = program.start()?;
        held.ended_within(Duration::from_secs(seconds) + OVERTIME)?;
        let output = held.output();
        drop(held); // now it is waited for, and its time is in that of ended children
        let used = usage::ended_children_cpu_time()?.saturating_sub(before);
        let (answers, per_second) = parse(&output)?;
        Ok(Asked { answers, per_second, cpu_us: used.as_secs_f64() * 1e6 / answers as f64 })
    }
}

/// Requests, and how many in a second, out of what wrk prints.
fn parse(output: &str) -> anyhow::Result<(u64, f64)> {
    if let Some(line) = output.lines().find(|line| COMPLAINTS.iter().any(|complaint| line.contains(complaint))) {
        bail!("wrk says: {}", line.trim());
    }
    let answers = output.lines().find_map(|line| line.split_once(" requests in ")?.0.trim().parse().ok());
    let rate = output.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
    let (Some(answers), Some(rate)) = (answers, rate) else { bail!("wrk printed something else: {}", output.trim()) };
    ensure!(answers > 0, "wrk got no answer");
    Ok((answers, rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n  12345 requests in 1.01s, 3.41MB read\n\
        Requests/sec:  12222.77\nTransfer/sec:      3.38MB\n";

    #[test]
    fn what_wrk_prints() {
        assert_eq!(parse(OUTPUT).expect("numbers"), (12_345, 12_222.77));
        let bad = OUTPUT.replace("Requests/sec", "  Non-2xx or 3xx responses: 3\nRequests/sec");
        assert!(parse(&bad).expect_err("wrong answers").to_string().contains("Non-2xx or 3xx responses: 3"));
        assert!(parse("unable to connect").is_err());
    }
}
