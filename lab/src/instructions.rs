//! `pilotlight lab instructions`: instructions of one request in user space, by callgrind, of one gateway or of several
//! beside each other. Unlike times they are the same on a busy machine. `docs/lab/instructions.md`.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::callgrind::{self, Callgrind};
use crate::command::Common;
use crate::experiment::model::{Metric, Role, Skipped, Software};
use crate::experiment::{Amount, Experiment, Group, Measure, Participant, Plan, Question, Sample, Setting, Variant};
use crate::gateway::running;
use crate::load::{self, Load, Pace, Requests};
use crate::processes::{Held, Program, first_line, gateway_program};

const CONNECTIONS: usize = 64;
/// Requests of the two runs whose difference is counted.
const FEW_AND_MANY: (u32, u32) = (3_000, 13_000);
const QUICK: (u32, u32) = (640, 1_920);
/// As many as a verdict takes; alone a gateway needs none, and counts hardly vary.
const ROUNDS: u32 = 8;
const FEW_ROUNDS: u32 = 2;
/// Two gateways, slowed down fifty times.
const USUAL: Duration = Duration::from_secs(12);
/// Longer than any of it takes: to start or to end, and to answer all requests.
const START_LIMIT: Duration = Duration::from_secs(90);
const LOAD_LIMIT: Duration = Duration::from_secs(300);
const REQUEST: &[u8] = b"GET /users/7 HTTP/1.1\r\nhost: example.org\r\nuser-agent: lab\r\naccept: */*\r\n\r\n";

/// What `pilotlight lab instructions` takes.
#[derive(Args, Clone, Debug)]
pub struct InstructionsArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Gateways beside each other, instead of the one that is measured otherwise:
    /// target/release/pilotlight,old/pilotlight
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    binaries: Vec<PathBuf>,
    /// Count each a second time, with this share of requests sampled and their spans sent to a collector
    #[arg(long, value_name = "SHARE", value_parser = share)]
    traces: Option<f64>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().map_err(|_| "is no number".to_owned())?;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err("is not above 0 and at most 1".to_owned()) }
}

/// The experiment.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    binaries: Vec<PathBuf>,
    traces: Option<f64>,
}

impl Instructions {
    /// What was asked for.
    #[must_use]
    pub fn asked(arguments: &InstructionsArguments) -> Self {
        Self { binaries: arguments.binaries.clone(), traces: arguments.traces }
    }

    fn binaries(&self) -> anyhow::Result<Vec<PathBuf>> {
        if self.binaries.is_empty() {
            return Ok(vec![gateway_program()?]);
        }
        let whole = |binary: &PathBuf| {
            fs::canonicalize(binary).with_context(|| format!("there is no program {}", binary.display()))
        };
        self.binaries.iter().map(whole).collect()
    }

    /// Each binary, and each again with traces, if that is wanted.
    fn ways(&self) -> anyhow::Result<Vec<Way>> {
        let binaries = self.binaries()?;
        let several = binaries.len() > 1;
        let mut ways = Vec::new();
        for (number, binary) in binaries.into_iter().enumerate() {
            let id = if several { format!("binary-{}", number + 1) } else { "pilotlight".to_owned() };
            ways.push(Way { id: id.clone(), binary: binary.clone(), traces: None });
            ways.extend(self.traces.map(|share| Way { id: format!("{id}-traces"), binary, traces: Some(share) }));
        }
        Ok(ways)
    }
}

impl Experiment for Instructions {
    fn name(&self) -> &'static str {
        "instructions"
    }

    fn title(&self) -> &'static str {
        "Instructions of a request"
    }

    fn hypothesis(&self) -> &'static str {
        "Of ten hits at once each takes two thirds of one alone, and a request that is passed on three times as much as a hit"
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let of = |kind: Kind| Participant {
            name: kind.id().into(),
            what: kind.title().into(),
            missing: Callgrind::find(kind.id()).err(),
        };
        Kind::ALL.map(of).into()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let skipped = |skipped: Skipped| Ok(Plan { skipped: vec![skipped], ..Plan::default() });
        let callgrind = match Callgrind::find(self.name()) {
            Ok(callgrind) => callgrind,
            Err(why) => return skipped(why),
        };
        let ways = self.ways()?;
        let groups = Kind::ALL.into_iter().map(|kind| group(kind, &ways, &callgrind, setting)).collect();
        Ok(Plan { groups, ..Plan::default() })
    }
}

/// A gateway, as it is started.
#[derive(Clone, Debug)]
struct Way {
    id: String,
    binary: PathBuf,
    /// The share of requests that is sampled.
    traces: Option<f64>,
}

impl Way {
    fn title(&self) -> String {
        let traces = self.traces.map_or_else(String::new, |share| format!(", {} % of requests sampled", share * 100.0));
        format!("{}{traces}", self.binary.display())
    }

    fn software(&self) -> Software {
        let version = first_line(self.binary.as_os_str(), &["--version"]).unwrap_or_else(|| "unknown".into());
        Software { name: "pilotlight".into(), version, settings: vec!["workers = 1".into()] }
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hit,
    Pipelined,
    Passed,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Hit, Self::Pipelined, Self::Passed];

    fn id(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Pipelined => "pipelined",
            Self::Passed => "passed",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Hit => "an answer from memory",
            Self::Pipelined => "answers from memory, ten at once",
            Self::Passed => "a request that is passed on over HTTP; the service is not counted",
        }
    }

    /// Requests in flight on a connection.
    fn depth(self) -> usize {
        if self == Self::Pipelined { 10 } else { 1 }
    }

    fn configuration(self, origin: SocketAddr, collector: Option<(SocketAddr, f64)>) -> String {
        let cache = if self == Self::Passed { "false" } else { "\"1h\"" };
        let traces = collector.map_or_else(String::new, |(address, share)| running::traces(address, share));
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\n[services.origin]\nurl = \"http://{origin}\"\n\
             [[routes]]\npath = \"/\"\nservice = \"origin\"\ncache = {cache}\n{traces}"
        )
    }
}

fn group(kind: Kind, ways: &[Way], callgrind: &Callgrind, setting: &Setting) -> Group {
    let requests = if setting.quick { QUICK } else { FEW_AND_MANY };
    let variant = |way: &Way| Variant {
        id: way.id.clone(),
        title: way.title(),
        role: Role::Subject,
        software: vec![way.software()],
        measure: Box::new(Counted {
            kind,
            way: way.clone(),
            callgrind: callgrind.clone(),
            requests,
            dir: setting.scratch.join(format!("instructions-{}-{}", kind.id(), way.id)),
        }),
    };
    let rounds = if ways.len() > 1 { ROUNDS } else { FEW_ROUNDS };
    Group {
        id: kind.id().into(),
        title: format!("Instructions: {}", kind.title()),
        workload: format!(
            "GET, 200 bytes of JSON, {CONNECTIONS} connections × {}, by {}: {} requests less {}",
            kind.depth(),
            callgrind.version,
            requests.1,
            requests.0
        ),
        metrics: vec![Metric::Instructions],
        variants: ways.iter().map(variant).collect(),
        control: ways[0].id.clone(),
        questions: questions(ways),
        amount: Amount { rounds, duration: Duration::ZERO, warm_up: Duration::ZERO, seed: setting.seed },
    }
}

/// Each binary is held against the first one, and each with traces against itself without.
fn questions(ways: &[Way]) -> Vec<Question> {
    let without = |way: &Way| ways.iter().position(|other| other.traces.is_none() && other.binary == way.binary);
    let question = |(number, way): (usize, &Way)| {
        let other = &ways[if way.traces.is_some() { without(way)? } else { 0 }];
        (number > 0).then(|| {
            Question::ratio(
                format!("instructions, {} / {}", way.title(), other.title()),
                Metric::Instructions,
                way.id.clone(),
                other.id.clone(),
            )
        })
    };
    ways.iter().enumerate().filter_map(question).collect()
}

/// A gateway whose instructions are counted.
struct Counted {
    kind: Kind,
    way: Way,
    callgrind: Callgrind,
    requests: (u32, u32),
    dir: PathBuf,
}

impl Counted {
    fn count(&self, requests: u32) -> anyhow::Result<u64> {
        fs::create_dir_all(&self.dir).with_context(|| format!("cannot make {}", self.dir.display()))?;
        let service = |kind: &str| running::listening_service(kind, &self.dir, &[kind]);
        let (_origin, origin) = service("bare")?;
        // It takes whatever comes.
        let collector = self.way.traces.map(|share| anyhow::Ok((service("http-tcp")?, share)));
        let collector = collector.transpose()?;
        let sampled = collector.as_ref().map(|((_, address), share)| (*address, *share));
        let (file, out) = (self.dir.join("pilotlight.toml"), self.dir.join("callgrind.out"));
        fs::write(&file, self.kind.configuration(origin, sampled))
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = self.callgrind.before(&out);
        command.extend([self.way.binary.clone().into(), "--config".into(), file.into()]);
        let mut gateway = start("pilotlight", command, &self.dir)?;
        let address = gateway.listening(START_LIMIT)?;
        ask(address, requests, self.kind.depth()).with_context(|| gateway.output())?;
        gateway.end(START_LIMIT)?;
        callgrind::total(&out)
    }
}

impl Measure for Counted {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        let (few, many) = self.requests;
        let each = callgrind::each(few, many, |requests| self.count(requests))?;
        let values = vec![(Metric::Instructions, each)];
        Ok(Sample { values, requests: u64::from(many), ..Sample::default() })
    }

    fn beside(&self, _: Amount) -> Duration {
        USUAL
    }

    fn limit(&self, _: Amount) -> Duration {
        2 * (LOAD_LIMIT + 3 * START_LIMIT)
    }
}

fn start(name: &str, command: Vec<OsString>, dir: &Path) -> anyhow::Result<Held> {
    Program { name: name.into(), command, dir: dir.to_owned(), output: dir.join(format!("{name}.output")) }.start()
}

fn ask(address: SocketAddr, requests: u32, depth: usize) -> anyhow::Result<()> {
    let pace = Pace::Closed { depth };
    let load = Load { to: address.into(), connections: CONNECTIONS, pace, duration: LOAD_LIMIT };
    let mut left = requests;
    let next = move |out: &mut Vec<u8>| {
        let more = left > 0;
        if more {
            out.extend_from_slice(REQUEST);
            left -= 1;
        }
        more
    };
    let outcome = load::run(&load, Requests::Each(Box::new(next)))?;
    let found = outcome.statuses.get(&200).copied().unwrap_or(0);
    ensure!(found == u64::from(requests), "answers of status {:?} to {requests} requests", outcome.statuses);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(id: &str, binary: &str, traces: Option<f64>) -> Way {
        Way { id: id.into(), binary: binary.into(), traces }
    }

    #[test]
    fn binaries_are_held_against_the_first_and_traces_against_the_same_without() {
        let traces = Some(0.01);
        let ways = [way("1", "a", None), way("1t", "a", traces), way("2", "b", None), way("2t", "b", traces)];
        let asked: Vec<_> = questions(&ways).into_iter().map(|asked| (asked.one, asked.other)).collect();
        assert_eq!(asked, [("1t", "1"), ("2", "1"), ("2t", "2")].map(|(one, other)| (one.into(), other.into())));
        assert_eq!(questions(&ways[1..2])[..], []);
        assert_eq!(ways[1].title(), "a, 1 % of requests sampled");
    }

    #[test]
    fn configurations() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text = Kind::Pipelined.configuration(address(1), Some((address(2), 0.01)));
        assert!(text.contains("url = \"http://127.0.0.1:1\"") && text.contains("cache = \"1h\""), "{text}");
        assert!(text.contains("endpoint = \"http://127.0.0.1:2/v1/traces\"\nsample = 0.01"), "{text}");
        let text = Kind::Passed.configuration(address(1), None);
        assert!(text.contains("cache = false") && !text.contains("[traces]"), "{text}");
    }

    #[test]
    fn shares() {
        assert_eq!(share("0.01"), Ok(0.01));
        assert!(share("0").is_err() && share("1.5").is_err() && share("x").is_err());
    }
}
