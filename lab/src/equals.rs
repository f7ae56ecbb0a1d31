//! `pilotlight lab equals`: what the lab can tell apart on this machine. Servers that do the same work under different
//! names must show no difference; one that does 5 % more must show it.

mod server;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::command::Common;
use crate::experiment::model::{
    Comparison, Figure, GroupResults, Metric, Report, Results, Role, Software, Summary, Verdict,
};
use crate::experiment::{
    Amount, Experiment, Extent, Group, Measure, Participant, Plan, Question, Sample, Setting, Variant,
};
use crate::load::{self, Load, Outcome, Pace, Requests};
use crate::processes::{Held, Program, own_program, usage};
use crate::service::SERVICE;
use crate::stats;

pub(crate) use server::serve;

/// What `--help` says below the options.
pub(crate) const HELP: &str = "Examples:
  pilotlight lab equals --quick                      a quarter of a minute
  pilotlight lab equals --quick --noisy-anyway       although other programs run
  pilotlight lab equals --quick --times 20           whether verdicts can be believed; six minutes

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
    (BASE, "a server", server::PIECES),
    (EQUAL, "the same server, started once more", server::PIECES),
    (SLOWER, "the same server with 5 % more work", server::PIECES + server::PLANTED),
];

/// Rounds of a quick run, which has to find 5 %.
const QUICK_ROUNDS: u32 = 30;
const QUICK_DURATION: Duration = Duration::from_millis(80);
const QUICK_WARM_UP: Duration = Duration::from_millis(20);
/// Beside the other experiments a quick run shows what this machine can tell apart in as short a time as they have.
const QUICK_ROUNDS_AMONG_OTHERS: u32 = 12;

/// Of all times, so many may tell equals apart, and so many have to find what was planted.
const MOST_WRONG: f64 = 0.05;
const LEAST_FOUND: f64 = 0.9;
const EQUAL: &str = "equal";
const SLOWER: &str = "slower";
const BASE: &str = "base";

/// What `pilotlight lab equals` takes.
#[derive(Args, Clone, Debug)]
pub struct EqualsArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Do it so often, each time with servers of its own, and count wrong and missed verdicts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
}

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Equals {
    quick_rounds: u32,
    times: u32,
}

impl Equals {
    /// What was asked for.
    #[must_use]
    pub const fn asked(arguments: &EqualsArguments) -> Self {
        Self { times: arguments.times, ..Self::usual(Extent::Alone) }
    }

    /// Where nothing else is asked for.
    #[must_use]
    pub const fn usual(extent: Extent) -> Self {
        match extent {
            Extent::Alone => Self { quick_rounds: QUICK_ROUNDS, times: 1 },
            Extent::AmongOthers => Self { quick_rounds: QUICK_ROUNDS_AMONG_OTHERS, times: 1 },
        }
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
            role: if id == BASE { Role::Subject } else { Role::Peer },
            software: vec![Software {
                name: "pilotlight".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                settings: vec![format!("{pieces} pieces of work for a request")],
            }],
            measure: Box::new(Server { name: id.into(), pieces, setting: setting.clone() }),
        };
        let question = |(text, one): (&str, &str)| Question::ratio(text, Metric::CpuUs, one, BASE);
        let group = |number: u32| Group {
            id: if self.times == 1 { "work".to_owned() } else { format!("work-{number}") },
            title: "Servers that do the same work, and one that does 5 % more".into(),
            workload: format!("GET, {CONNECTIONS} connections, one request in flight on each"),
            metrics: vec![Metric::CpuUs, Metric::PerSecond, Metric::P50Ms],
            variants: SERVERS.map(variant).into(),
            control: BASE.into(),
            questions: [("CPU of a request, equal / base", EQUAL), ("CPU of a request, slower / base", SLOWER)]
                .map(question)
                .into(),
            amount: self.amount(setting),
        };
        Ok(Plan { groups: (1..=self.times).map(group).collect(), ..Plan::default() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        if self.times == 1 {
            return;
        }
        let of = |one| results.groups.iter().flat_map(|group| &group.comparisons).filter(move |found| found.one == one);
        let told = |found: &&Comparison| matches!(found.verdict, Verdict::Less | Verdict::More);
        let wrong = of(EQUAL).filter(told).count();
        let found = of(SLOWER).filter(|found| found.verdict == Verdict::More).count();
        // Where the machine is too noisy, nothing is told apart: that proves nothing.
        let is_judged = of(EQUAL).chain(of(SLOWER)).all(|found| found.verdict != Verdict::NotComparable);
        let figure = |name: &str, sign: char, bound: f64, count: usize, met: bool| {
            let count = count as f64;
            let measured = Some(Summary { median: count, low: count, high: count });
            let wanted = format!("{sign} {bound} of {}", self.times);
            Figure { name: name.into(), wanted, measured, rounds: Vec::new(), met: is_judged.then_some(met) }
        };
        let most = (f64::from(self.times) * MOST_WRONG).floor();
        let least = (f64::from(self.times) * LEAST_FOUND).ceil();
        let figures = [
            figure("times in which equals were told apart", '≤', most, wrong, wrong as f64 <= most),
            figure("times in which 5 % more work was found", '≥', least, found, found as f64 >= least),
        ];
        let ratios: Vec<f64> = results.groups.iter().flat_map(planted).collect();
        let finding = stats::median(&ratios)
            .map(|ratio| format!("What was planted is a factor of {ratio:.4}, the median of {} rounds", ratios.len()));
        let controls: Vec<bool> =
            results.groups.iter().flat_map(|group| &group.controls).map(|one| one.passed).collect();
        let failed = controls.iter().filter(|passed| !**passed).count();
        results.figures.extend(figures);
        results.findings.extend(finding);
        results
            .findings
            .push(format!("{failed} of {} controls failed, of whose metrics nothing is said", controls.len()));
    }
}

/// What the slower server takes of what the other takes, in each round.
fn planted(group: &GroupResults) -> Vec<f64> {
    let rounds = |id: &str| {
        let variant = group.variants.iter().find(|variant| variant.id == id);
        variant.map(|variant| variant.rounds.as_slice()).unwrap_or_default()
    };
    let ratio = |(slower, base): (&BTreeMap<Metric, f64>, &BTreeMap<Metric, f64>)| {
        Some(slower.get(&Metric::CpuUs)? / base.get(&Metric::CpuUs)?)
    };
    rounds(SLOWER).iter().zip(rounds(BASE)).filter_map(ratio).collect()
}

/// Started for each measurement: two starts of one program differ (where its memory lies), and that would be told apart
/// from then on.
struct Server {
    name: String,
    pieces: u32,
    setting: Setting,
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
        let (held, address) = self.start()?;
        ask(address, amount.warm_up).context("warm-up")?;
        let before = usage::cpu_time(&[held.pid()]);
        let outcome = ask(address, amount.duration)?;
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
        let Self { name, pieces, setting } = self;
        Some(Box::new(Self { name: format!("{name}-again"), pieces: *pieces, setting: setting.clone() }))
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
        let [alone, among_others] = [Extent::Alone, Extent::AmongOthers].map(Equals::usual);
        assert_eq!([rounds(alone, false), rounds(alone, true)], [30, 30]);
        assert_eq!(rounds(Equals { times: 3, ..alone }, true), 90);
        assert_eq!([rounds(among_others, false), rounds(among_others, true)], [30, 12]);
    }
}
