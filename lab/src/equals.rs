//! `pilotlight lab equals`: what the lab can tell apart on this machine. Servers that do the same work under different
//! names must show no difference; one that does 5 % more must show it.

mod server;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::experiment::model::{Metric, Role, Software};
use crate::experiment::{Amount, Experiment, Group, Measure, Participant, Plan, Question, Sample, Setting, Variant};
use crate::load::{self, Load, Outcome, Pace, Requests};
use crate::processes::{Held, Program, own_program, usage};
use crate::service::SERVICE;

pub(crate) use server::serve;

/// What `--help` says below the options.
pub(crate) const HELP: &str = "Examples:
  pilotlight lab equals --quick                      a quarter of a minute
  pilotlight lab equals --quick --noisy-anyway       although other programs run

Exit codes: 0 everything was measured and compared, 1 something failed, was interrupted, or was not compared because of noise, 2 usage.";
/// The transport of the hidden service that works.
pub(crate) const WORK: &str = "work";
/// What is in flight at the end is answered within.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const START_LIMIT: Duration = Duration::from_secs(10);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
const CONNECTIONS: usize = 4;
/// What each server does: id, title, pieces of work for a request.
const SERVERS: [(&str, &str, u32); 3] = [
    ("base", "a server", server::PIECES),
    ("equal", "the same server, started once more", server::PIECES),
    ("slower", "the same server with 5 % more work", server::PIECES + server::PLANTED),
];

/// Rounds of a quick run, which has to find 5 %.
const QUICK_ROUNDS: u32 = 30;
const QUICK_DURATION: Duration = Duration::from_millis(80);
const QUICK_WARM_UP: Duration = Duration::from_millis(20);
/// Beside the other experiments a quick run shows what this machine can tell apart in as short a time as they have.
const QUICK_ROUNDS_AMONG_OTHERS: u32 = 12;

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Equals {
    quick_rounds: u32,
}

impl Equals {
    /// Alone.
    #[must_use]
    pub const fn alone() -> Self {
        Self { quick_rounds: QUICK_ROUNDS }
    }

    /// What is measured together with other experiments.
    #[must_use]
    pub const fn among_others() -> Self {
        Self { quick_rounds: QUICK_ROUNDS_AMONG_OTHERS }
    }

    fn amount(self, setting: &Setting) -> Amount {
        let amount = setting.amount();
        let (rounds, duration, warm_up) = (self.quick_rounds, QUICK_DURATION, QUICK_WARM_UP);
        if setting.quick { Amount { rounds, duration, warm_up, ..amount } } else { amount }
    }
}

impl Experiment for Equals {
    fn name(&self) -> &'static str {
        "equals"
    }

    fn title(&self) -> &'static str {
        "What can be told apart here"
    }

    fn hypothesis(&self) -> &'static str {
        "Two equal servers show no difference, and 5 % more CPU time for a request is found"
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let participant =
            |(name, what, _): (&str, &str, u32)| Participant { name: name.into(), what: what.into(), missing: None };
        SERVERS.map(participant).to_vec()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let variant = |(id, title, pieces): (&str, &str, u32)| Variant {
            id: id.into(),
            title: title.into(),
            role: if id == "base" { Role::Subject } else { Role::Peer },
            software: vec![Software {
                name: "pilotlight".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                settings: vec![format!("{pieces} pieces of work for a request")],
            }],
            measure: Box::new(Server { name: id.into(), pieces, setting: setting.clone(), running: None }),
        };
        let question = |(text, one): (&str, &str)| Question::ratio(text, Metric::CpuUs, one, "base");
        let group = Group {
            id: "work".into(),
            title: "Servers that do the same work, and one that does 5 % more".into(),
            workload: format!("GET, {CONNECTIONS} connections, one request in flight on each"),
            metrics: vec![Metric::CpuUs, Metric::PerSecond, Metric::P50Ms],
            variants: SERVERS.map(variant).into(),
            control: "base".into(),
            questions: [("CPU of a request, equal / base", "equal"), ("CPU of a request, slower / base", "slower")]
                .map(question)
                .into(),
            amount: self.amount(setting),
        };
        Ok(Plan { groups: vec![group], ..Plan::default() })
    }
}

struct Server {
    name: String,
    pieces: u32,
    setting: Setting,
    running: Option<(Held, SocketAddr)>,
}

impl Server {
    fn start(&self) -> anyhow::Result<(Held, SocketAddr)> {
        let program = Program {
            name: self.name.clone(),
            command: vec![own_program()?.into(), SERVICE.into(), WORK.into(), self.pieces.to_string().into()],
            dir: self.setting.scratch.clone(),
            output: self.setting.scratch.join(format!("equals-{}.log", self.name)),
        };
        let mut held = program.start()?;
        let address =
            held.wait_until(START_LIMIT, "it says where it listens", |held| held.output().trim().parse().ok())?;
        Ok((held, address))
    }
}

impl Measure for Server {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        if self.running.is_none() {
            self.running = Some(self.start()?);
        }
        let (held, address) = self.running.as_ref().context("it was started")?;
        ask(*address, amount.warm_up).context("warm-up")?;
        let before = usage::cpu_time(&[held.pid()]);
        let outcome = ask(*address, amount.duration)?;
        let used = usage::cpu_time(&[held.pid()]).saturating_sub(before);
        ensure!(outcome.statuses.keys().eq(&[200]), "answers of status {:?} instead of 200", outcome.statuses);
        let cpu_us = used.as_secs_f64() * 1e6 / outcome.answers as f64;
        Ok(Sample {
            values: vec![
                (Metric::CpuUs, cpu_us),
                (Metric::PerSecond, outcome.per_second()),
                (Metric::P50Ms, outcome.times.median_ms()),
            ],
            cpu_us: vec![("server".into(), cpu_us)],
            requests: outcome.answers,
            times: Some(outcome.times),
            ..Sample::default()
        })
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        let Self { name, pieces, setting, .. } = self;
        Some(Box::new(Self { name: format!("{name}-again"), pieces: *pieces, setting: setting.clone(), running: None }))
    }
}

/// Requests for so long; every one of them is answered and counts, so that none is worked on when CPU time is read.
fn ask(address: SocketAddr, duration: Duration) -> anyhow::Result<Outcome> {
    let end = Instant::now() + duration;
    let mut first = CONNECTIONS;
    let next = move |out: &mut Vec<u8>| {
        let more = first > 0 || Instant::now() < end;
        first = first.saturating_sub(1);
        if more {
            out.extend_from_slice(REQUEST);
        }
        more
    };
    let pace = Pace::Closed { depth: 1 };
    let load = Load { to: address.into(), connections: CONNECTIONS, pace, duration: duration + ANSWER_LIMIT };
    load::run(&load, Requests::Each(Box::new(next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn rounds(experiment: Equals, quick: bool) -> u32 {
        let setting = Setting { quick, scratch: "/nowhere".into(), peers: None, seed: 1 };
        let plan = experiment.plan(&setting).expect("nothing can be missing");
        plan.groups.iter().map(|group| group.amount.rounds).sum()
    }

    #[test]
    fn only_beside_others_a_quick_run_has_fewer_rounds_than_5_percent_need() {
        assert_eq!([rounds(Equals::alone(), false), rounds(Equals::alone(), true)], [30, 30]);
        assert_eq!([rounds(Equals::among_others(), false), rounds(Equals::among_others(), true)], [30, 12]);
    }
}
