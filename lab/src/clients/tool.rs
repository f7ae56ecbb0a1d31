//! `pilotlight lab tool`: `pilotlight redis bench`, `fill` and `cli` beside redis-benchmark, a client in Go and
//! redis-cli. `docs/lab/tool.md`.

mod start;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::benchmark::Run;
use super::program::Counted;
use super::servers::{self, Servers};
use super::variant::{self, version_of};
use super::workload::Workload;
use super::{Built, Measured, SERVERS_LIMIT, Shared, running};
use crate::experiment::judge;
use crate::experiment::model::{Figure, GroupResults, Metric, Report, Results, Role, Skipped, Software};
use crate::experiment::{Amount, Experiment, Group, Measure, Participant, Plan, Question, Sample, Setting, Variant};
use crate::processes::{Program, find_program, gateway_program};
use crate::stats::ratios;
use start::Starting;

/// redis-benchmark looks every quarter of a second whether it has ended, and counts that time as well: with a second
/// too few it would be a fifth slower than it is.
const DURATION: Duration = Duration::from_secs(5);
const BRIEF: Duration = Duration::from_millis(300);
const ROUNDS: u32 = 8;
const STARTS: u32 = 30;
/// A machine may be so much slower than this one.
const MAX_TIMES_SLOWER: u32 = 10;
const EXTRA: Duration = Duration::from_secs(60);
/// These works get a number of commands, not a time: about how many of them are done in a second, for the plan.
const BITCOUNTS_PER_SECOND: f64 = 600_000.0;
const FILLED_PER_SECOND: f64 = 150_000.0;

/// The same for both: connections that each have a thread, and one batch under way, of a command that takes the server
/// longer than either client: whoever measures rightly finds the server's own rate. With a SET the rate is that of
/// whichever client leaves the server more of two processors.
const AGREE_CONNECTIONS: &str = "2";
const AGREE_PIPELINE: &str = "64";
const AGREE_BYTES: usize = 16_384;
const AGREE_KEY: &str = "{one}:bits";
const FILL_BYTES: &str = "512";
/// As the keys of redis-benchmark, `key:000000000000`.
const FILL_KEY_BYTES: &str = "16";
/// Of which redis-benchmark takes a random key for each SET. `fill` writes each key once: among as many keys as
/// commands a third of the SETs of redis-benchmark would replace a value, which costs the servers less than a new key.
const KEY_SPACE: &str = "1000000000";

pub(super) const OURS: &str = "pilotlight";
pub(super) const BENCHMARK: &str = "redis-benchmark";
const RUEIDIS: &str = "rueidis";
const CLI: &str = "redis-cli";

const OF_BENCHMARK: f64 = 0.45;
const OF_RUEIDIS: f64 = 1.15;
const OF_FILL: f64 = 0.8;
const AGREE_WITHIN: f64 = 0.1;
const MAX_FILL_BYTES: f64 = 200e6;
const MAX_PROMPT_MS: f64 = 50.0;

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Tool;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Bench,
    Agree,
    Fill,
    Prompt,
    Command,
}

impl Work {
    const ALL: [Self; 5] = [Self::Bench, Self::Agree, Self::Fill, Self::Prompt, Self::Command];

    fn id(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::Agree => "agree",
            Self::Fill => "fill",
            Self::Prompt => "prompt",
            Self::Command => "command",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Bench => "Batches of GET on five primaries",
            Self::Agree => "The same load by both on one server",
            Self::Fill => "Filling five primaries",
            Self::Prompt => "From the start of the program to its first prompt",
            Self::Command => "One command: from the start of the program to its end",
        }
    }

    fn workload(self) -> String {
        match self {
            Self::Bench => "16 callers with 64 commands under way each; CPU time is the client's".into(),
            Self::Agree => {
                format!("BITCOUNT of {} KiB, {AGREE_CONNECTIONS} connections × {AGREE_PIPELINE}", AGREE_BYTES / 1024)
            }
            Self::Fill => format!("a request is a SET of {FILL_BYTES} bytes; memory is the client's at its most"),
            Self::Prompt => "at a pseudo-terminal, one server behind a Unix socket".into(),
            Self::Command => "PING, one server behind a Unix socket".into(),
        }
    }

    fn starts(self) -> bool {
        matches!(self, Self::Prompt | Self::Command)
    }

    fn metrics(self) -> Vec<Metric> {
        match self {
            Self::Bench | Self::Agree => vec![Metric::PerSecond, Metric::P50Ms, Metric::P99Ms, Metric::CpuUs],
            Self::Fill => vec![Metric::PerSecond, Metric::RssBytes],
            Self::Prompt | Self::Command => vec![Metric::ColdMs],
        }
    }

    fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Bench => &[BENCHMARK, RUEIDIS],
            Self::Agree | Self::Fill => &[BENCHMARK],
            Self::Prompt | Self::Command => &[CLI],
        }
    }
}

/// Why one of them cannot take part.
pub(super) fn missing(who: &str, built: Option<&Built>) -> Option<Skipped> {
    let install = |why: String, install: &str| Some(Skipped { what: who.into(), why, install: install.into() });
    let is_here = |program: &str| find_program(program).is_some();
    match who {
        _ if !servers::is_installed() => {
            install("neither redis-server nor valkey-server is installed".into(), "apt install redis-server")
        }
        RUEIDIS => super::missing(in_go(), built).map(|skipped| Skipped { what: who.into(), ..skipped }),
        BENCHMARK | CLI if !is_here(who) => install(format!("{who} is not installed"), "apt install redis-tools"),
        OURS => match gateway_program() {
            Err(why) => install(format!("{why:#}"), "cargo build --release -p pilotlight"),
            Ok(gateway) if !gateway.with_file_name("pilotlight-redis").exists() && !is_here("pilotlight-redis") => {
                let why = format!("there is no pilotlight-redis beside {} and none in the PATH", gateway.display());
                install(why, "cargo build --release -p pilotlight-redis-tool")
            }
            Ok(_) => None,
        },
        _ => None,
    }
}

/// A client of `pilotlight lab redis`, whose second workload is that of `bench`.
fn client(is_it: impl Fn(&&variant::Variant) -> bool) -> Option<&'static variant::Variant> {
    variant::ALL.iter().filter(|variant| variant.workloads.contains(&Workload::W2)).find(is_it)
}

fn in_go() -> &'static variant::Variant {
    client(|variant| variant.name.starts_with(RUEIDIS)).unwrap_or(&variant::ALL[0])
}

impl Tool {
    fn amount(work: Work, setting: &Setting) -> Amount {
        let duration = if work.starts() {
            Duration::ZERO
        } else if setting.quick {
            BRIEF
        } else {
            DURATION
        };
        let rounds = if work.starts() && !setting.quick { STARTS } else { ROUNDS };
        Amount { rounds, duration, warm_up: Duration::ZERO, seed: setting.seed }
    }
}

impl Experiment for Tool {
    fn name(&self) -> &'static str {
        "tool"
    }

    fn title(&self) -> &'static str {
        "The tool for Redis beside redis-benchmark, redis-cli and a client in Go"
    }

    fn hypothesis(&self) -> &'static str {
        "It loads a cluster about half as fast as redis-benchmark and faster than a good client, finds what redis-benchmark finds, fills almost as fast, and has a \
         prompt within 50 ms"
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let built = Built::find(setting);
        let of = |(who, what): (&str, &str)| Participant {
            name: who.into(),
            what: what.into(),
            missing: missing(who, built.as_ref()),
        };
        let all = [
            (OURS, "pilotlight redis bench, fill and cli"),
            (BENCHMARK, "the load generator of Redis"),
            (RUEIDIS, "a client in Go"),
            (CLI, "the prompt of Redis"),
        ];
        all.map(of).into()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let built = Built::find(setting);
        let all = [OURS, BENCHMARK, RUEIDIS, CLI];
        let skipped: Vec<Skipped> = all.iter().filter_map(|who| missing(who, built.as_ref())).collect();
        let is_here = |who: &str| !skipped.iter().any(|skipped| skipped.what == who);
        let mut groups = Vec::new();
        for work in Work::ALL {
            // Without ours there is nothing to be said.
            if is_here(OURS) {
                let who = [OURS].into_iter().chain(work.peers().iter().copied().filter(|who| is_here(who)));
                let who: Vec<_> = who.collect();
                groups.push(group(work, &who, built.as_ref(), setting, Self::amount(work, setting)));
            }
        }
        Ok(Plan { groups, skipped, ..Plan::default() })
    }

    fn conclude(&self, results: &mut Results, about: &Report) {
        results.figures = results.groups.iter().flat_map(|group| figures(group, about.seed)).collect();
    }
}

fn group(work: Work, all: &[&'static str], built: Option<&Built>, setting: &Setting, amount: Amount) -> Group {
    let (servers, server) = (Shared::default(), start::Server::default());
    // A cluster keeps what it knows of itself in its folder.
    let scratch = setting.scratch.join(format!("tool-{}", work.id()));
    let metric = work.metrics()[0];
    let measure = |who: &'static str| -> Option<Box<dyn Measure>> {
        let of_clients = |variant| {
            let (built, scratch, servers) = (built?.clone(), scratch.clone(), servers.clone());
            Some(Measured { variant, workload: Workload::W2, built, scratch, servers })
        };
        Some(match (work, who) {
            (Work::Bench, RUEIDIS) => Box::new(of_clients(in_go())?),
            (Work::Bench, BENCHMARK) => Box::new(of_clients(client(|variant| variant.kind == variant::Kind::Tool)?)?),
            (Work::Prompt | Work::Command, _) => {
                Box::new(Starting { work, who, server: server.clone(), dir: scratch.clone() })
            }
            _ => Box::new(Loading { work, who, servers: servers.clone(), scratch: scratch.clone() }),
        })
    };
    let variant = |who: &'static str| {
        Some(Variant {
            id: who.into(),
            title: who.into(),
            role: if who == OURS { Role::Subject } else { Role::Peer },
            software: software(who),
            measure: measure(who)?,
        })
    };
    let others = all.iter().filter(|who| **who != OURS);
    let question =
        |other: &&str| Question::ratio(format!("{}, {OURS} / {other}", metric.title()), metric, OURS, *other);
    Group {
        id: work.id().into(),
        title: work.title().into(),
        workload: work.workload(),
        metrics: work.metrics(),
        questions: others.map(question).collect(),
        variants: all.iter().filter_map(|who| variant(who)).collect(),
        control: OURS.into(),
        amount,
    }
}

fn software(who: &str) -> Vec<Software> {
    let of = |name: &str, version: String| Software { name: name.into(), version, settings: Vec::new() };
    let first = match who {
        OURS => vec![of(who, env!("CARGO_PKG_VERSION").into())],
        RUEIDIS => in_go().software(),
        _ => vec![of(who, version_of(who))],
    };
    first.into_iter().chain(servers::software()).collect()
}

/// A program that makes load.
struct Loading {
    work: Work,
    who: &'static str,
    servers: Shared,
    scratch: PathBuf,
}

impl Measure for Loading {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let servers = running(&self.servers)?;
        match (self.work, self.who) {
            (Work::Fill, OURS) => self.fill(&servers, amount),
            (Work::Fill, _) => {
                servers.flush()?;
                let words = ["--cluster", "-t", "set", "-P", "64", "-r", KEY_SPACE, "-d", FILL_BYTES];
                let filled = self.benchmark(servers.port(), FILLED_PER_SECOND, &words, amount)?;
                Ok(Sample {
                    values: vec![(Metric::PerSecond, filled.ops_s)],
                    requests: filled.ops,
                    ..Sample::default()
                })
            }
            (Work::Agree, who) => {
                servers.write([(AGREE_KEY.to_owned(), AGREE_BYTES)].into_iter())?;
                let (connections, pipeline) = (AGREE_CONNECTIONS, AGREE_PIPELINE);
                if who == OURS {
                    let words = ["--workers", connections, "--pipeline", pipeline, "--threads", connections];
                    return self.bench(&servers, &[&words[..], &["--", "BITCOUNT", AGREE_KEY]].concat(), amount);
                }
                let words = ["-c", connections, "--threads", connections, "-P", pipeline, "BITCOUNT", AGREE_KEY];
                let port = servers.port_of(AGREE_KEY);
                Ok(self.benchmark(port, BITCOUNTS_PER_SECOND, &words, amount)?.sample(None))
            }
            // As published.
            _ => {
                let words = ["--operation", "get", "--workers", "16", "--pipeline", "64", "--lanes", "4"];
                self.bench(&servers, &words, amount)
            }
        }
    }

    fn limit(&self, amount: Amount) -> Duration {
        SERVERS_LIMIT + limit(amount)
    }
}

fn limit(amount: Amount) -> Duration {
    amount.duration * MAX_TIMES_SLOWER + EXTRA
}

fn count(per_second: f64, amount: Amount) -> u64 {
    (per_second * amount.duration.as_secs_f64()) as u64
}

impl Loading {
    fn benchmark(&self, port: u16, per_second: f64, words: &[&str], amount: Amount) -> anyhow::Result<Counted> {
        let count = count(per_second, amount);
        Run { port, count, limit: limit(amount), dir: &self.scratch, words }.counted()
    }

    fn bench(&self, servers: &Servers, words: &[&str], amount: Amount) -> anyhow::Result<Sample> {
        let seconds = amount.duration.as_secs_f64().to_string();
        let words = [&["bench", "--duration", &seconds], words].concat();
        let said = self.ours(servers, &words, amount)?;
        let counted = counted(&said["results"][0]).with_context(|| format!("no result: {said}"))?;
        anyhow::ensure!(counted.errors == 0, "{} answers were wrong", counted.errors);
        Ok(counted.sample(None))
    }

    fn fill(&self, servers: &Servers, amount: Amount) -> anyhow::Result<Sample> {
        let count = count(FILLED_PER_SECOND, amount).to_string();
        let words = [
            "fill",
            "--flush",
            "--yes",
            "--count",
            &count,
            "--key-size",
            FILL_KEY_BYTES,
            "--value-size",
            FILL_BYTES,
            "--sample",
            "100",
        ];
        let said = self.ours(servers, &words, amount)?;
        let number = |name: &str| said[name].as_f64().with_context(|| format!("no {name}: {said}"));
        let (written, wrong) = (number("written")?, number("failed")? + number("missing")?);
        anyhow::ensure!(wrong == 0.0, "{wrong} keys were not written, or are missing");
        let rate = Some((Metric::PerSecond, written / number("seconds")?));
        let peak = number("peak_memory_bytes").ok().map(|peak| (Metric::RssBytes, peak));
        Ok(Sample { values: rate.into_iter().chain(peak).collect(), requests: written as u64, ..Sample::default() })
    }

    /// What `pilotlight redis` says of the cluster, as JSON.
    fn ours(&self, servers: &Servers, words: &[&str], amount: Amount) -> anyhow::Result<Value> {
        let (mode, words) = words.split_first().context("no mode")?;
        let port = servers.port().to_string();
        let words = ["redis", mode, "--json", "-c", "-p", &port].into_iter().chain(words.iter().copied());
        let command = [gateway_program()?.into()].into_iter().chain(words.map(OsString::from)).collect();
        let output = self.scratch.join("tool.output");
        let mut held = Program { name: OURS.into(), command, dir: self.scratch.clone(), output }.start()?;
        held.ended_within(limit(amount))?;
        let said = held.output();
        // Warnings stand before it.
        let json = said.find('{').map_or("", |begin| &said[begin..]);
        serde_json::from_str(json).with_context(|| format!("no JSON: {said}"))
    }
}

/// A result of `pilotlight redis bench`.
fn counted(result: &Value) -> Option<Counted> {
    let latency = &result["latency_us"];
    Some(Counted {
        ops: result["operations"].as_u64()?,
        errors: result["errors"].as_u64()?,
        ops_s: result["operations_per_second"].as_f64()?,
        cpu_us: result["client_cpu_us_per_operation"].as_f64()?,
        p50: latency["p50"].as_f64()?,
        p99: latency["p99"].as_f64()?,
        p999: None,
    })
}

fn figures(group: &GroupResults, seed: u64) -> Vec<Figure> {
    let Some(work) = Work::ALL.into_iter().find(|work| work.id() == group.id) else { return Vec::new() };
    let ours = |metric: Metric| {
        let ours = group.variants.iter().find(|variant| variant.id == OURS);
        ours.and_then(|ours| ours.summary.get(&metric).copied())
    };
    let beside = |name: &str, other: &str, least: f64| {
        let asked = group.comparisons.iter().find(|asked| asked.other == other)?;
        let met = group.judged(Metric::PerSecond, asked.value.map(|value| value.median >= least));
        let name = format!("{name}: {OURS} / {other}");
        Some(Figure { name, wanted: format!("≥ {least} ×"), measured: asked.value, rounds: Vec::new(), met })
    };
    match work {
        Work::Bench => [(BENCHMARK, OF_BENCHMARK), (RUEIDIS, OF_RUEIDIS)]
            .into_iter()
            .filter_map(|(other, least)| beside("bench GET 16 × 64", other, least))
            .collect(),
        Work::Agree => vec![agreement(group, seed)],
        Work::Fill => {
            let (name, limit) = ("fill: memory".into(), (MAX_FILL_BYTES, " bytes"));
            let memory = Figure::at_most(group, Metric::RssBytes, name, limit, ours(Metric::RssBytes));
            beside(&format!("fill, {FILL_BYTES} bytes"), BENCHMARK, OF_FILL).into_iter().chain([memory]).collect()
        }
        Work::Prompt => {
            let (name, limit) = ("first prompt".into(), (MAX_PROMPT_MS, " ms"));
            vec![Figure::at_most(group, Metric::ColdMs, name, limit, ours(Metric::ColdMs))]
        }
        Work::Command => Vec::new(),
    }
}

/// By how much the two find another throughput, in either direction.
fn agreement(group: &GroupResults, seed: u64) -> Figure {
    let of = |id: &str| -> Vec<Option<f64>> {
        let variant = group.variants.iter().find(|variant| variant.id == id);
        let rounds = variant.map_or(&[][..], |variant| &variant.rounds);
        rounds.iter().map(|round| round.get(&Metric::PerSecond).copied()).collect()
    };
    let rounds: Vec<f64> = ratios(&of(OURS), &of(BENCHMARK)).iter().map(|ratio| (ratio - 1.0).abs()).collect();
    let measured = judge::summary_of(&rounds, seed);
    let name = format!("agree: difference to {BENCHMARK}");
    Figure { rounds, ..Figure::at_most(group, Metric::PerSecond, name, (AGREE_WITHIN, ""), measured) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_the_tool() {
        let said = serde_json::json!({
            "operations": 10, "errors": 0, "operations_per_second": 6.5, "client_cpu_us_per_operation": 0.5,
            "latency_us": {"p50": 3.25, "p99": 9.0}
        });
        let found = counted(&said).expect("a result");
        assert_eq!((found.ops, found.ops_s, found.cpu_us, found.p99), (10, 6.5, 0.5, 9.0));
        assert_eq!(counted(&Value::Null), None);
    }

    #[test]
    fn the_peers_of_bench_are_clients_of_the_experiment_with_clients() {
        assert!(in_go().name.starts_with("rueidis"));
        let benchmark = client(|variant| variant.kind == variant::Kind::Tool).expect("redis-benchmark");
        assert_eq!(benchmark.options, ["-P", "64", "-c", "16", "--threads", "1"]);
    }

    #[test]
    fn the_difference_counts_in_either_direction() {
        let variant = |id: &str, rounds: [f64; 3]| {
            serde_json::json!({
                "id": id, "title": "", "role": "peer", "software": [], "failed": null, "summary": {}, "cpu_us": {},
                "latency": null, "phases": [], "requests": 1, "rounds": rounds.map(|found| serde_json::json!({"per-second": found})),
            })
        };
        let group = serde_json::from_value(serde_json::json!({
            "id": "agree", "title": "", "workload": "", "metrics": [], "rounds": 3, "seconds": 1.0, "controls": [], "comparisons": [],
            "variants": [variant(OURS, [95.0, 105.0, 120.0]), variant(BENCHMARK, [100.0; 3])],
        }));
        let figure = agreement(&group.expect("a group"), 1);
        assert!((figure.measured.expect("measured").median - 0.05).abs() < 1e-9, "{figure:?}");
        assert_eq!(figure.met, Some(true));
    }
}
