//! `pilotlight lab rest`: the published REST scenarios (GET one, list, POST, mixed) on examples/users, alone and behind the gateway,
//! beside services with the same API in other stacks. `docs/lab/rest.md` says how to read it.

mod case;
mod figures;
mod measure;
mod ports;
mod published;
mod redis;
mod results;
mod variant;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::machine::{self, Machine};
use crate::processes::own_program;
use crate::progress::Progress;
use crate::transport::Completeness;
use crate::{interrupt, report};
use case::Case;
use measure::{Amount, measure};
use redis::{Redis, Topology};
use results::{CaseResult, Configuration, Results, SCHEMA, Skipped};
use variant::{Programs, Variant, seed};

/// What `pilotlight lab rest` takes.
#[derive(Args, Clone, Debug)]
pub struct RestArguments {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    secs: u64,
    /// Seconds before it that do not count
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    warmup: u64,
    /// Rounds in which the services alternate
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// A second each, one round: to see whether everything works
    #[arg(long, conflicts_with_all = ["secs", "warmup", "rounds"])]
    quick: bool,
    /// Scenarios; all unless given
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Services; all that can be had unless given
    #[arg(long, value_enum, value_delimiter = ',')]
    services: Vec<Variant>,
    /// What Redis is
    #[arg(long, value_enum, value_delimiter = ',', default_value = "standalone,cluster")]
    redis: Vec<Topology>,
    /// Say what there is to measure, and what is missing for it
    #[arg(long)]
    list: bool,
    /// The program examples/users; beside this one unless given
    #[arg(long, value_name = "PROGRAM")]
    users: Option<PathBuf>,
    /// What lab/peers/rest/build.sh has built
    #[arg(long, value_name = "DIR", default_value = "lab/peers/rest/target")]
    peers: PathBuf,
    /// Seed of the requests and of the intervals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
///
/// # Errors
/// Nothing can be measured, or the run was interrupted.
pub fn run(arguments: &RestArguments) -> anyhow::Result<Completeness> {
    machine::require_proc()?;
    let programs = programs(arguments)?;
    if arguments.list {
        print(&results::list(&programs))?;
        return Ok(Completeness::Complete);
    }
    interrupt::watch().context("signals cannot be watched")?;
    let results = collect(arguments, &programs)?;
    let out = if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&results)?)
    } else {
        results::terminal(&results)
    };
    print(&out)?;
    let complete = results.results.iter().all(|result| result.failed.is_none());
    Ok(if complete { Completeness::Complete } else { Completeness::Failures })
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")
}

fn programs(arguments: &RestArguments) -> anyhow::Result<Programs> {
    let users = match &arguments.users {
        Some(users) => users.clone(),
        None => own_program()?.with_file_name("users"),
    };
    let absolute = |path: &Path| std::path::absolute(path).with_context(|| format!("{} cannot be", path.display()));
    Ok(Programs { users: absolute(&users)?, peers: absolute(&arguments.peers)? })
}

/// What is measured, and what is not and why.
fn plan(arguments: &RestArguments, programs: &Programs) -> (Configuration, Vec<Skipped>) {
    let (secs, warmup, rounds) =
        if arguments.quick { (1, 1, 1) } else { (arguments.secs, arguments.warmup, arguments.rounds) };
    let chosen =
        |all: &[Variant]| if arguments.services.is_empty() { all.to_vec() } else { arguments.services.clone() };
    let mut skipped = Vec::new();
    let mut services = chosen(&Variant::ALL);
    services.sort();
    services.dedup();
    services.retain(|variant| match programs.command(*variant) {
        Ok(_) => true,
        Err(why) => {
            skipped.push(Skipped { what: variant.name(), why });
            false
        }
    });
    let mut cases = if arguments.cases.is_empty() { Case::ALL.to_vec() } else { arguments.cases.clone() };
    cases.sort();
    cases.dedup();
    if let Err(why) = programs.slow_disk() {
        let slow: Vec<String> = cases.iter().filter(|case| case.is_slow()).map(|case| case.name()).collect();
        if !slow.is_empty() {
            skipped.push(Skipped { what: slow.join(", "), why });
        }
        cases.retain(|case| !case.is_slow());
    }
    let mut redis = arguments.redis.clone();
    redis.sort();
    redis.dedup();
    (Configuration { secs, warmup, rounds, cases, services, redis, seed: arguments.seed }, skipped)
}

fn collect(arguments: &RestArguments, programs: &Programs) -> anyhow::Result<Results> {
    let (begin, now) = (Instant::now(), SystemTime::now());
    let load_before = machine::load_average();
    let (configuration, skipped) = plan(arguments, programs);
    if configuration.services.is_empty() || configuration.cases.is_empty() {
        let whys: Vec<String> = skipped.iter().map(|skipped| format!("{}: {}", skipped.what, skipped.why)).collect();
        bail!("there is nothing to measure: {}", whys.join("; "));
    }
    let scratch = tempfile::Builder::new().prefix("pilotlight-lab-").tempdir()?;
    let steps = configuration.rounds as usize
        * configuration.redis.len()
        * configuration.cases.len()
        * configuration.services.len();
    let mut progress = Progress::new(steps);
    if cfg!(debug_assertions) {
        progress.note("warning: this is a debug build; its figures say nothing about Pilotlight");
    }
    for skipped in &skipped {
        progress.note(&format!("skipped: {}: {}", skipped.what, skipped.why));
    }
    let seed_db = seed(programs, &scratch.path().join("seed"))?;
    let mut results = Vec::new();
    for topology in &configuration.redis {
        let redis = Redis::start(*topology, scratch.path())?;
        results.extend(alternate(&configuration, programs, (&redis, &seed_db), scratch.path(), &mut progress)?);
    }
    progress.clear();
    drop(progress);
    let started = now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Ok(Results {
        schema: SCHEMA,
        started_at: report::timestamp(started),
        duration_seconds: begin.elapsed().as_secs_f64(),
        machine: Machine::here(),
        load_average: [load_before, machine::load_average()],
        figures: figures::compare(&results, configuration.seed),
        configuration,
        skipped,
        results,
        published: published::PUBLISHED.to_vec(),
        published_note: published::CAVEAT,
    })
}

/// Every round measures every service once in each case, beginning with another one.
fn alternate(
    configuration: &Configuration,
    programs: &Programs,
    (redis, seed_db): (&Redis, &Path),
    scratch: &Path,
    progress: &mut Progress,
) -> anyhow::Result<Vec<CaseResult>> {
    let mut results: Vec<CaseResult> = Vec::new();
    for case in &configuration.cases {
        for service in &configuration.services {
            results.push(CaseResult::new(*case, *service, redis.topology));
        }
    }
    let amount = Amount {
        duration: Duration::from_secs(configuration.secs),
        warm_up: Duration::from_secs(configuration.warmup),
        seed: configuration.seed,
    };
    let services = configuration.services.len();
    let mut number = 0;
    for round in 0..configuration.rounds as usize {
        progress.milestone(&format!("{:?}, round {}", redis.topology, round + 1).to_lowercase());
        for of_case in results.chunks_mut(services) {
            for place in 0..services {
                let result = &mut of_case[(place + round) % services];
                interrupt::check()?;
                progress.step(0, &format!("{} {}", result.case.name(), result.service.name()));
                number += 1;
                let dir = scratch.join(format!("{:?}-{number}", redis.topology).to_lowercase());
                if result.failed.is_none() {
                    match measure(programs, (result.service, result.case), (redis, seed_db), dir.clone(), amount) {
                        Ok(round) => result.rounds.push(Some(round)),
                        Err(error) => {
                            interrupt::check()?;
                            progress.note(&format!("FAILED: {}: {error:#}", result.title()));
                            result.failed = Some(format!("{error:#}"));
                        }
                    }
                }
                // Databases of a run of hours would fill a disk; what is left goes with the folder.
                let _left = std::fs::remove_dir_all(dir);
                progress.step(1, "");
            }
        }
    }
    Ok(results)
}
