//! `pilotlight lab transport`: the published five cases (cached; HTTP warm; HTTP cold; pipe warm; pipe cold) on real processes and
//! real cold starts, for services in several languages, beside other gateways. `docs/lab/transport.md` says how to read it.

mod cases;
mod client;
mod compare;
mod embedded;
mod findings;
#[cfg(test)]
mod fixture;
mod markdown;
mod measure;
mod peers;
mod published;
mod results;
mod services;
mod target;
mod terminal;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::machine::{self, Machine};
use crate::processes::Reaper;
use crate::progress::Progress;
use crate::{interrupt, report};
use cases::{Case, Front, Role, Variant};
use measure::{Amount, Measurement, measure};
use peers::Peers;
use results::{CaseResult, Configuration, Results, SCHEMA, Skipped};
use services::{Interpreters, Language, Service};
use target::Setup;

const JSON_FILE: &str = "transport.json";
const MARKDOWN_FILE: &str = "transport.md";

/// What `pilotlight lab transport` takes.
#[derive(Args, Clone, Debug)]
pub struct TransportArguments {
    /// The folder for transport.json and transport.md; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    out: PathBuf,
    /// Languages of the services
    #[arg(long, value_enum, value_delimiter = ',', default_value = "python,node,rust")]
    services: Vec<Language>,
    /// Cases
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cached,http-warm,http-cold,pipe-warm,pipe-cold")]
    cases: Vec<Case>,
    /// Counted requests of each case, divided among the rounds
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    requests: u32,
    /// Requests that do not count: before each round of a warm case, before the first of a cold one
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    warmup: u32,
    /// Rounds in which the variants alternate; intervals want ten
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// 10 requests in 5 rounds, and no other gateways: to see whether everything works
    #[arg(long, conflicts_with_all = ["requests", "warmup", "rounds"])]
    quick: bool,
    /// Leave the other gateways out
    #[arg(long)]
    no_peers: bool,
    /// The Python of the services
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// The Node.js of the services
    #[arg(long, value_name = "PROGRAM", default_value = "node")]
    node: PathBuf,
    /// Seed of the intervals, so that they can be computed again
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Whether everything was measured that was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Everything.
    Complete,
    /// Something failed; it was said what.
    Failures,
}

/// Measures, prints, and writes the report.
///
/// # Errors
/// Nothing can be measured, the run was interrupted, or the report cannot be written.
pub fn run(arguments: &TransportArguments) -> anyhow::Result<Completeness> {
    machine::require_proc()?;
    interrupt::watch().context("signals cannot be watched")?;
    fs::create_dir_all(&arguments.out)
        .with_context(|| format!("cannot make the folder {}", arguments.out.display()))?;
    let results = collect(arguments)?;
    let json = format!("{}\n", serde_json::to_string_pretty(&results)?);
    write(&arguments.out, JSON_FILE, &json)?;
    write(&arguments.out, MARKDOWN_FILE, &markdown::render(&results))?;
    let out = if arguments.json { json } else { terminal::render(&results, &arguments.out) };
    std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes()).context("cannot write to the standard output")?;
    let complete = results.results.iter().all(|result| result.failed.is_none() && result.errors == 0);
    Ok(if complete { Completeness::Complete } else { Completeness::Failures })
}

fn collect(arguments: &TransportArguments) -> anyhow::Result<Results> {
    let (begin, now) = (Instant::now(), SystemTime::now());
    let load_before = machine::load_average();
    let scratch = scratch()?;
    embedded::unpack(scratch.path())?;
    let configuration = configuration(arguments);
    let (setup, skipped, software) = prepare(arguments, &configuration, scratch.path())?;
    let variants = variants(&configuration, &setup);
    let amount =
        Amount { requests: configuration.requests, warmup: configuration.warmup, rounds: configuration.rounds };
    let mut progress =
        Progress::new(variants.iter().map(|variant| measure::weight(variant) * amount.requests as usize).sum());
    if cfg!(debug_assertions) {
        progress.note("warning: this is a debug build; its figures say nothing about Pilotlight");
    }
    for skipped in &skipped {
        progress.note(&format!("skipped: {}: {}; {}", skipped.what, skipped.why, skipped.install));
    }
    // Warm and cold apart: a start beside it would be seen in a warm request.
    let (cold, warm): (Vec<_>, Vec<_>) = variants.into_iter().partition(|variant| variant.case.is_cold());
    let mut measurements: Vec<Measurement> = Vec::new();
    for (phase, variants) in [("warm", warm), ("cold", cold)] {
        if variants.is_empty() {
            continue;
        }
        progress.milestone(phase);
        measurements.extend(measure(variants, &setup, amount, &mut progress)?);
    }
    progress.clear();
    drop(progress);
    let conclusions = compare::conclude(&measurements, configuration.seed);
    let started = now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Ok(Results {
        schema: SCHEMA,
        started_at: report::timestamp(started),
        duration_seconds: begin.elapsed().as_secs_f64(),
        machine: Machine::here(),
        load_average: [load_before, machine::load_average()],
        software,
        configuration,
        skipped,
        results: measurements.iter().map(CaseResult::of).collect(),
        comparisons: conclusions.comparisons,
        controls: conclusions.controls,
        own_parts: conclusions.own_parts,
        recommendations: conclusions.recommendations,
        published: published::PUBLISHED.to_vec(),
        published_note: published::CAVEAT,
    })
}

/// A folder of this run that goes with it. Peers whose workers are another user's have to reach into it.
fn scratch() -> anyhow::Result<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = tempfile::Builder::new()
        .prefix("pilotlight-lab-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .context("cannot make a folder for temporary files")?;
    Ok(scratch)
}

fn configuration(arguments: &TransportArguments) -> Configuration {
    let (requests, warmup, rounds) =
        if arguments.quick { (10, 2, 5) } else { (arguments.requests, arguments.warmup, arguments.rounds) };
    let mut services = arguments.services.clone();
    services.sort();
    services.dedup();
    let mut cases = arguments.cases.clone();
    cases.sort();
    cases.dedup();
    // A round without a request would be none.
    Configuration { requests, warmup, rounds: rounds.min(requests), services, cases, seed: arguments.seed }
}

fn prepare(
    arguments: &TransportArguments,
    configuration: &Configuration,
    scratch: &Path,
) -> anyhow::Result<(Setup, Vec<Skipped>, BTreeMap<String, String>)> {
    let interpreters = Interpreters { python: arguments.python.clone(), node: arguments.node.clone() };
    let (mut services, mut skipped) = (Vec::<Service>::new(), Vec::new());
    for language in &configuration.services {
        match services::find(*language, &interpreters, scratch) {
            Ok((service, missing)) => {
                services.push(service);
                skipped.extend(missing);
            }
            Err(missing) => skipped.push(missing),
        }
    }
    if services.is_empty() {
        let whys: Vec<String> = skipped.iter().map(|s| format!("{}: {} ({})", s.what, s.why, s.install)).collect();
        bail!("there is no service to measure: {}", whys.join("; "));
    }
    let python = services.iter().find(|service| service.language == Language::Python);
    let peers = if arguments.quick || arguments.no_peers {
        Peers::default()
    } else {
        let (peers, missing) = Peers::find(python.map(|service| service.runtime.program.as_path()), scratch);
        skipped.extend(missing);
        peers
    };
    let build = if cfg!(debug_assertions) { " (debug build: its figures say nothing)" } else { "" };
    let mut software = BTreeMap::from([("pilotlight".to_owned(), format!("{}{build}", env!("CARGO_PKG_VERSION")))]);
    for service in services.iter().filter(|service| service.language != Language::Rust) {
        let version = format!("{}, {}", service.runtime.version, service.runtime.program.display());
        software.insert(service.language.title().to_lowercase(), version);
    }
    software.extend(peers.versions.iter().map(|(name, version)| ((*name).to_owned(), version.clone())));
    let reaper = Rc::new(Reaper::start()?);
    Ok((Setup { scratch: scratch.to_owned(), services, peers, reaper, started: Cell::new(0) }, skipped, software))
}

/// What is measured, in the order of the report. The first language's pipe cases are measured twice: the control.
fn variants(configuration: &Configuration, setup: &Setup) -> Vec<Variant> {
    let mut variants = Vec::new();
    for service in &setup.services {
        for case in &configuration.cases {
            let variant =
                |server, front, role| Variant { case: *case, language: service.language, server, front, role };
            let servers: Vec<&'static str> = match case {
                Case::HttpWarm | Case::HttpCold => service.http.iter().map(|server| server.name).collect(),
                Case::Cached | Case::PipeWarm | Case::PipeCold => vec![service.pipe.name],
            };
            for server in servers {
                variants.push(variant(server, Front::Pilotlight, Role::Measured));
                if case.is_cold() {
                    variants.push(variant(server, Front::Bare, Role::Measured));
                }
            }
            let first = setup.services.first().is_some_and(|first| first.language == service.language);
            if first && matches!(case, Case::PipeWarm | Case::PipeCold) {
                variants.push(variant(service.pipe.name, Front::Pilotlight, Role::Control));
            }
            variants.extend(peers_beside(*case, service, setup, first));
        }
    }
    variants
}

fn peers_beside(case: Case, service: &Service, setup: &Setup, first: bool) -> Vec<Variant> {
    let [nginx, uwsgi, mod_fcgid] = setup.peers.present();
    let variant = |server, front| Variant { case, language: service.language, server, front, role: Role::Measured };
    let mut variants = Vec::new();
    if nginx && case == Case::HttpWarm {
        variants.extend(service.http.iter().map(|server| variant(server.name, Front::Nginx)));
    }
    if nginx && first && case == Case::Cached {
        variants.extend(service.http.first().map(|server| variant(server.name, Front::Nginx)));
    }
    if service.language == Language::Python && matches!(case, Case::HttpWarm | Case::HttpCold) {
        variants.extend(uwsgi.then(|| variant("WSGI", Front::Uwsgi)));
        variants.extend(mod_fcgid.then(|| variant("FastCGI", Front::ModFcgid)));
    }
    variants
}

fn write(folder: &Path, name: &str, content: &str) -> anyhow::Result<()> {
    let file = folder.join(name);
    fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))
}
