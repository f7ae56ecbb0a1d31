//! `pilotlight lab gateway`: what no other program has. Memory of a gateway that has nothing to do, that passes long
//! bodies on, or that is asked for ever new targets; bodies in very small chunks; answers from Redis; starts from a
//! zygote, under load and behind bounds. `docs/lab/gateway.md` has the groups, `docs/adr/0072` why they are here.

mod bodies;
pub(crate) mod caller;
mod figures;
pub(crate) mod idle;
pub(crate) mod loads;
pub(crate) mod running;
mod starts;
mod traces;
mod websockets;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use crate::command::Common;
use crate::cores::Cores;
use crate::experiment::model::{Metric, Report, Results, Role, Skipped, Software};
use crate::experiment::{Amount, Experiment, Extent, Group, MAX_OVERTIME, Measure, Participant, Plan, Sample, Setting};
use crate::processes::{find_program, first_line, own_program};
use crate::rest::redis;
use crate::transport::embedded;
use running::Running;

/// Rounds of what is held against a number, as each takes long.
const FEW_ROUNDS: u32 = 3;
/// Rounds of what is compared.
const ROUNDS: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);
/// The system's: a version manager's shim in front of it would add its own start.
pub(crate) const PYTHON: &str = "/usr/bin/python3";
/// The Python with Flask that `lab/setup.sh` makes, in `lab/peers`.
const VENV_PYTHON: &str = "http/target/venv/bin/python";
const SETUP: &str = "lab/setup.sh of a checkout";
/// Nothing is compared in such a group, so nothing needs an equal.
const NO_CONTROL: &str = "";

/// What `--upload-gb` is unless given.
const UPLOAD_GB: u64 = 10;
/// What `--flood-requests` is unless given.
const FLOOD_REQUESTS: u64 = 10_000_000;
/// Starts of a variant in a round.
const STARTS: u32 = 20;

/// What `pilotlight lab gateway` takes.
#[derive(Args, Clone, Debug)]
pub struct GatewayArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Group memory: size of the transfers, in 10⁹ bytes
    #[arg(long, value_name = "N", default_value_t = UPLOAD_GB, value_parser = clap::value_parser!(u64).range(1..=1000))]
    upload_gb: u64,
    /// Group flood: distinct targets with small bodies; fewer of those with large ones
    #[arg(long, value_name = "N", default_value_t = FLOOD_REQUESTS, value_parser = clap::value_parser!(u64).range(1000..))]
    flood_requests: u64,
}

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Gateway {
    upload_gb: u64,
    flood_requests: u64,
    /// Of a variant, in each round.
    starts: u32,
}

impl Gateway {
    /// What was asked for.
    #[must_use]
    pub fn asked(arguments: &GatewayArguments) -> Self {
        Self { upload_gb: arguments.upload_gb, flood_requests: arguments.flood_requests, starts: STARTS }
    }

    /// Where nothing else is asked for: among others less of what takes long.
    #[must_use]
    pub const fn usual(extent: Extent) -> Self {
        match extent {
            Extent::Alone => Self { upload_gb: UPLOAD_GB, flood_requests: FLOOD_REQUESTS, starts: STARTS },
            Extent::AmongOthers => Self { upload_gb: 2, flood_requests: 200_000, starts: 5 },
        }
    }
}

/// What all groups need.
pub(crate) struct Lab {
    /// A folder of this experiment.
    pub(crate) scratch: PathBuf,
    /// Where the embedded files are.
    files: PathBuf,
    cores: Option<Cores>,
    /// This program, which is the service as well.
    pub(crate) service: String,
    pub(crate) amount: Amount,
    of: Gateway,
}

impl Experiment for Gateway {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn title(&self) -> &'static str {
        "What no other program has: memory, floods, answers from Redis, starts"
    }

    fn hypothesis(&self) -> &'static str {
        "A gateway needs little memory, whatever passes through it and whoever waits, and little more than cache.memory for stored answers; \
         bodies in chunks of one byte cost it three times those of 1 kB; a hit in Redis costs twice a hit in memory, and eight gateways \
         answer as eight; a service starts from a zygote in milliseconds, and a request waits no longer than its service does."
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let here = |name: &str, what: &str, missing| Participant { name: name.into(), what: what.into(), missing };
        let gone = |found: bool, what: &str, why: &str, install| (!found).then(|| Skipped::new(what, why, install));
        let python = gone(Path::new(PYTHON).exists(), "Python", "there is no /usr/bin/python3", "apt install python3");
        vec![
            here("Pilotlight", "all groups", None),
            here("redis-server", "answers from Redis: redis-tier, gateways", redis::missing("answers from Redis")),
            here("Python", "services of chunks and ready", python),
            here("Flask", "services of zygote and frozen", venv(setting).err()),
        ]
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let lab = Rc::new(Lab::new(setting, *self)?);
        let mut skipped = Vec::new();
        let mut groups = vec![loads::turns(&lab)];
        if setting.quick {
            skipped.push(Skipped::new("all other groups of gateway", "they take minutes", "leave out --quick"));
            return Ok(Plan { groups, skipped, ..Plan::default() });
        }
        match redis::missing("answers from Redis") {
            None => groups.extend([loads::redis_tier(&lab), loads::gateways(&lab)]),
            Some(why) => skipped.push(why),
        }
        groups.extend([websockets::group_of(&lab), idle::group_of(&lab), bodies::memory(&lab), loads::flood(&lab)]);
        groups.extend(traces::groups(&lab));
        if Path::new(PYTHON).exists() {
            groups.extend(bodies::chunks(&lab));
            groups.push(starts::ready(&lab));
            groups.push(starts::burst(&lab));
        } else {
            skipped.push(Skipped::new("chunks, ready, burst", "there is no /usr/bin/python3", "apt install python3"));
        }
        match venv(setting) {
            Ok(python) => groups.extend([starts::zygote(&lab, &python), starts::frozen(&lab, &python)]),
            Err(why) => skipped.push(why),
        }
        groups.push(starts::bounds(&lab)?);
        Ok(Plan { groups, skipped, ..Plan::default() })
    }

    fn conclude(&self, results: &mut Results, about: &Report) {
        results.figures = results.groups.iter().flat_map(|group| figures::of(group, about.seed)).collect();
    }
}

/// That Python.
///
/// # Errors
/// It is not there.
pub(crate) fn venv(setting: &Setting) -> Result<String, Skipped> {
    let python = setting
        .peers
        .as_ref()
        .and_then(|peers| std::path::absolute(peers.join(VENV_PYTHON)).ok())
        .filter(|python| python.exists());
    let python = python.and_then(|python| python.to_str().map(str::to_owned));
    python.ok_or_else(|| Skipped::new("services with Flask", "there is no Python with Flask", SETUP))
}

impl Lab {
    pub(crate) fn new(setting: &Setting, of: Gateway) -> anyhow::Result<Self> {
        let scratch = setting.scratch.join("gateway");
        std::fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
        embedded::unpack(&setting.scratch)?;
        let service = own_program()?.to_str().context("the path of this program is not UTF-8")?.to_owned();
        // A gateway is started for each measurement, for which a quick run has no time.
        let rounds = if setting.quick { 1 } else { ROUNDS };
        let amount = Amount { rounds, ..setting.amount() };
        Ok(Self { scratch, files: setting.scratch.clone(), cores: Cores::here(), service, amount, of })
    }

    pub(crate) fn server_core(&self) -> Option<usize> {
        self.cores.map(|cores| cores.server)
    }

    pub(crate) fn load_core(&self) -> Option<usize> {
        self.cores.map(|cores| cores.load)
    }

    /// Counted in what is done, not in seconds.
    pub(crate) fn counted(&self, rounds: u32) -> Amount {
        Amount { rounds, duration: Duration::ZERO, warm_up: Duration::ZERO, ..self.amount }
    }

    /// An embedded file.
    pub(crate) fn file(&self, path: &str) -> String {
        self.files.join(path).display().to_string()
    }

    /// A gateway on the servers' core.
    pub(crate) fn start(&self, tables: &str) -> anyhow::Result<Running> {
        Running::start(&self.scratch, self.server_core(), &format!("{}{tables}", running::head("64MiB")))
    }

    /// A gateway whose starts are measured: it has both cores.
    pub(crate) fn start_anywhere(&self, tables: &str) -> anyhow::Result<Running> {
        Running::start(&self.scratch, None, &format!("{}{tables}", running::head("64MiB")))
    }
}

/// What starts its programs, does its work and ends them again, each time.
struct Anew {
    lab: Rc<Lab>,
    usual: Duration,
    work: Rc<Work>,
}

type Work = dyn Fn(&Lab, Amount) -> anyhow::Result<Sample>;

impl Measure for Anew {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        (self.work)(&self.lab, amount)
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        Some(Box::new(Self { lab: Rc::clone(&self.lab), usual: self.usual, work: Rc::clone(&self.work) }))
    }

    fn beside(&self, _: Amount) -> Duration {
        self.usual
    }

    fn limit(&self, amount: Amount) -> Duration {
        amount.warm_up + amount.duration + self.usual * 10 + MAX_OVERTIME
    }
}

/// A way to do the work of a group, and how long that usually takes.
pub(crate) fn variant(
    lab: &Rc<Lab>,
    id: &str,
    title: &str,
    usual: Duration,
    work: impl Fn(&Lab, Amount) -> anyhow::Result<Sample> + 'static,
) -> crate::experiment::Variant {
    let measure = Box::new(Anew { lab: Rc::clone(lab), usual, work: Rc::new(work) });
    self::of(id, title, Vec::new(), measure)
}

pub(crate) fn of(id: &str, title: &str, more: Vec<Software>, measure: Box<dyn Measure>) -> crate::experiment::Variant {
    let settings = vec!["workers = 1".to_owned()];
    let own = Software { name: "pilotlight".into(), version: env!("CARGO_PKG_VERSION").into(), settings };
    let software = std::iter::once(own).chain(more).collect();
    crate::experiment::Variant { id: id.into(), title: title.into(), role: Role::Subject, software, measure }
}

/// A program that takes part.
pub(crate) fn software(name: &str) -> Vec<Software> {
    let version = find_program(name).and_then(|program| first_line(program.as_os_str(), &["--version"]));
    vec![Software { name: name.into(), version: version.unwrap_or_default(), settings: Vec::new() }]
}

pub(crate) fn group(id: &str, title: &str, workload: String, metrics: &[Metric]) -> Group {
    Group {
        id: id.into(),
        title: title.into(),
        workload,
        metrics: metrics.to_vec(),
        variants: Vec::new(),
        control: NO_CONTROL.into(),
        questions: Vec::new(),
        amount: Amount { rounds: FEW_ROUNDS, duration: Duration::ZERO, warm_up: Duration::ZERO, seed: 0 },
    }
}
