//! `pilotlight lab redis`: clients of a Redis cluster beside each other and beside bare loops, all in programs of their
//! own that do the same workloads. `lab/peers/redis/README.md` has the programs and the method.

mod benchmark;
mod figures;
mod program;
mod published;
mod servers;
mod tool;
mod tunnel;
mod variant;
mod workload;

use std::cell::{RefCell, RefMut};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use clap::Args;

use crate::command::Common;
use crate::experiment::model::{Metric, Report, Results, Skipped};
use crate::experiment::{
    AROUND, Amount, Experiment, Extent, Group, Measure, Participant, Plan, Question, Sample, Setting,
};
use servers::Servers;
pub use tool::Tool;
pub use tunnel::{Tunnel, TunnelArguments};
use variant::{Build, Kind, Variant};
use workload::Workload;

/// A program warms up by itself, for as long as its variant needs.
const DURATION: Duration = Duration::from_secs(2);
const ROUNDS: u32 = 8;
/// A quick run is one workload and the programs in Rust.
const QUICK: Amount = Amount { rounds: 8, duration: Duration::from_millis(100), warm_up: Duration::ZERO, seed: 1 };
/// Starting and filling five servers, before the first measurement.
const SERVERS_LIMIT: Duration = Duration::from_secs(120);

/// Among other experiments: what the figures are about, in a quarter of an hour.
const SOME: [Workload; 3] = [Workload::W1, Workload::PublishedGet, Workload::PublishedSet];
const QUICK_WORKLOADS: [Workload; 5] = [
    Workload::W1,
    Workload::PublishedGet,
    Workload::PublishedGetFound,
    Workload::PublishedSet,
    Workload::PublishedMixed,
];
const SHORT: Duration = Duration::from_millis(500);

/// What `pilotlight lab redis` takes.
#[derive(Args, Clone, Debug)]
pub struct ClientsArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only clients and loops whose names contain one of these, and Pilotlight's: fred,rueidis,floor
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    variants: Vec<String>,
}

/// The experiment.
#[derive(Clone, Debug)]
pub struct Clients {
    workloads: &'static [Workload],
    duration: Duration,
    /// Parts of names; empty: all.
    wanted: Vec<String>,
}

impl Clients {
    /// What was asked for.
    #[must_use]
    pub fn asked(arguments: &ClientsArguments) -> Self {
        Self { wanted: arguments.variants.clone(), ..Self::usual(Extent::Alone) }
    }

    /// Where nothing else is asked for: among others what the figures are about.
    #[must_use]
    pub fn usual(extent: Extent) -> Self {
        let (workloads, duration): (&[_], _) = match extent {
            Extent::Alone => (&Workload::ALL, DURATION),
            Extent::AmongOthers => (&SOME, SHORT),
        };
        Self { workloads, duration, wanted: Vec::new() }
    }

    /// Alone the published ones can be tried, too.
    fn quick_workloads(&self) -> &'static [Workload] {
        if self.workloads.len() == SOME.len() { &SOME[..1] } else { &QUICK_WORKLOADS }
    }

    fn wants(&self, variant: &Variant) -> bool {
        let is_ours = variant.kind == Kind::Ours;
        self.wanted.is_empty() || is_ours || self.wanted.iter().any(|part| variant.name.contains(part))
    }
}

impl Experiment for Clients {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn title(&self) -> &'static str {
        "Clients of a Redis cluster"
    }

    fn hypothesis(&self) -> &'static str {
        "For single commands of many callers Pilotlight's client takes at most 1.4 times the CPU time of a bare tokio loop of its shape, and 0.6 times that of \
         the best other client; for a command of a batch at most 0.9 µs; and one caller waits at most 5 % longer than a blocking loop does"
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let built = Built::find(setting);
        let participant = |variant: &Variant| Participant {
            name: variant.name.into(),
            what: variant.what(),
            missing: missing(variant, built.as_ref()),
        };
        variant::ALL.iter().map(participant).collect()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let built = Built::find(setting);
        let is_known = |part: &&String| variant::ALL.iter().any(|variant| variant.name.contains(part.as_str()));
        let unknown = self.wanted.iter().find(|part| !is_known(part));
        ensure!(unknown.is_none(), "no name contains {:?}; --list has all", unknown.map_or("", String::as_str));
        let (mut here, mut skipped) = (Vec::new(), Vec::new());
        // Who is asked for by name takes part in a quick run, too.
        let takes_part = |variant: &&Variant| {
            self.wants(variant) && (!setting.quick || !self.wanted.is_empty() || variant.is_quick())
        };
        for variant in variant::ALL.iter().filter(takes_part) {
            match missing(variant, built.as_ref()) {
                None => here.push(variant),
                Some(why) => skipped.push(why),
            }
        }
        let servers = Rc::new(RefCell::new(None));
        let workloads = if setting.quick { self.quick_workloads() } else { self.workloads };
        let full = Amount { rounds: ROUNDS, duration: self.duration, warm_up: Duration::ZERO, seed: setting.seed };
        let amount = if setting.quick { Amount { seed: setting.seed, ..QUICK } } else { full };
        let groups =
            workloads.iter().filter_map(|workload| group(*workload, setting, amount, &here, built.as_ref()?, &servers));
        let groups: Vec<Group> = groups.collect();
        let published = groups.iter().filter_map(published::of).collect();
        Ok(Plan { groups, skipped, published })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        results.figures = figures::figures(&results.groups);
        results.findings = figures::findings(&results.groups);
    }
}

/// What `lab/peers/redis/build.sh` has built.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Built {
    dir: PathBuf,
    sources: PathBuf,
}

impl Built {
    fn find(setting: &Setting) -> Option<Self> {
        let peers = setting.peers.as_ref()?;
        let dir = peers.parent()?.parent()?.join("target/lab-peers-redis");
        Some(Self { dir, sources: peers.join("redis") })
    }
}

/// Why a variant cannot be measured.
fn missing(variant: &Variant, built: Option<&Built>) -> Option<Skipped> {
    let skipped =
        |why: String, install: &str| Some(Skipped { what: variant.name.into(), why, install: install.to_owned() });
    if !servers::is_installed() {
        return skipped("neither redis-server nor valkey-server is installed".into(), "apt install redis-server");
    }
    let Some(built) = built else { return skipped("this is no checkout".into(), "run it in a checkout of Pilotlight") };
    if let Some((tool, install)) = variant.build.missing_tool() {
        return skipped(format!("{tool} is not installed"), install);
    }
    let program = variant.program(built);
    let is_missing = variant.build != Build::Installed && !program.exists();
    is_missing.then(|| Skipped {
        what: variant.name.into(),
        why: format!("{} is not built", program.display()),
        install: format!("lab/peers/redis/build.sh {}", variant.build.name()),
    })
}

type Shared = Rc<RefCell<Option<Servers>>>;

/// The servers that variants share, started by the first of them that is measured.
fn running(shared: &Shared) -> anyhow::Result<RefMut<'_, Servers>> {
    let mut servers = shared.borrow_mut();
    if servers.is_none() {
        *servers = Some(Servers::start()?);
    }
    RefMut::filter_map(servers, Option::as_mut).map_err(|_| anyhow!("the servers did not start"))
}

fn group(
    workload: Workload,
    setting: &Setting,
    amount: Amount,
    here: &[&'static Variant],
    built: &Built,
    servers: &Shared,
) -> Option<Group> {
    let taking_part: Vec<&'static Variant> =
        here.iter().copied().filter(|variant| variant.workloads.contains(&workload)).collect();
    // The control is ours; without it there is nothing to be said.
    let control = taking_part.iter().find(|variant| variant.kind == Kind::Ours)?.id();
    let mut metrics = vec![Metric::CpuUs, Metric::PerSecond, Metric::P50Ms, Metric::P99Ms, Metric::P999Ms];
    let main = metrics.iter().position(|metric| *metric == workload.metric()).unwrap_or(0);
    metrics.swap(0, main);
    let variant = |variant: &&'static Variant| crate::experiment::Variant {
        id: variant.id(),
        title: variant.name.into(),
        role: variant.role(),
        software: variant.software().into_iter().chain(servers::software()).collect(),
        measure: Box::new(Measured {
            variant,
            workload,
            built: built.clone(),
            scratch: setting.scratch.clone(),
            servers: Rc::clone(servers),
        }),
    };
    Some(Group {
        id: workload.id().into(),
        title: workload.title().into(),
        workload: "five primaries on the loopback interface, on the same cores as the client".into(),
        questions: questions(workload, &taking_part),
        metrics,
        variants: taking_part.iter().map(variant).collect(),
        control,
        amount,
    })
}

/// Each client of ours beside the floor and the other clients of its shape.
fn questions(workload: Workload, variants: &[&'static Variant]) -> Vec<Question> {
    let is_other = |ours: &Variant, other: &Variant| match other.kind {
        Kind::Floor => other.name == workload.floor(ours.shape),
        Kind::Other => other.shape == ours.shape,
        Kind::Ours | Kind::Tool => false,
    };
    let ours = variants.iter().filter(|variant| variant.kind == Kind::Ours);
    let pairs =
        ours.flat_map(|ours| variants.iter().filter(|other| is_other(ours, other)).map(move |other| (ours, other)));
    pairs
        .map(|(ours, other)| {
            Question::ratio(
                format!("{}, {} / {}", workload.metric().title(), ours.name, other.name),
                workload.metric(),
                ours.id(),
                other.id(),
            )
        })
        .collect()
}

struct Measured {
    variant: &'static Variant,
    workload: Workload,
    built: Built,
    scratch: PathBuf,
    servers: Shared,
}

impl Measure for Measured {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let servers = &mut *running(&self.servers)?;
        if self.workload.is_published() {
            servers.fill_published()?;
        }
        match self.variant.kind {
            Kind::Tool => benchmark::measure(servers, self.variant, self.workload, amount, &self.scratch),
            _ => program::measure(servers, self.variant, self.workload, &self.built, amount, &self.scratch),
        }
    }

    fn beside(&self, amount: Amount) -> Duration {
        AROUND + program::warm_up(self.variant, amount)
    }

    fn limit(&self, amount: Amount) -> Duration {
        let warm_up = program::warm_up(self.variant, amount);
        SERVERS_LIMIT + warm_up + amount.duration * 5 + program::EXTRA + benchmark::FILL_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::variant::Shape;
    use super::*;

    fn asked_for(parts: &[&str]) -> Clients {
        Clients { wanted: parts.iter().map(|part| (*part).to_owned()).collect(), ..Clients::usual(Extent::AmongOthers) }
    }

    #[test]
    fn without_a_checkout_everything_is_skipped_with_what_helps() {
        let setting = Setting { quick: false, scratch: "/nowhere".into(), peers: None, seed: 1 };
        let plan = Clients::usual(Extent::AmongOthers).plan(&setting).expect("a plan");
        assert_eq!((plan.groups.len(), plan.skipped.len()), (0, variant::ALL.len()));
        assert!(plan.skipped.iter().all(|skipped| !skipped.install.is_empty()), "{:?}", plan.skipped);
    }

    #[test]
    fn parts_of_names_choose_and_ours_stays() {
        let clients = asked_for(&["fred", "blocking"]);
        let names: Vec<_> = variant::ALL.iter().filter(|one| clients.wants(one)).map(|one| one.name).collect();
        let blocking = ["floor: blocking", "floor: blocking, epoll before the read"];
        assert_eq!(
            names,
            [
                &blocking[..],
                &["pilotlight ct", "pilotlight mt2", "pilotlight ct, 4 lanes", "pilotlight mt2, 4 lanes"],
                &["fred 10.1.0 ct", "fred 10.1.0 mt2"]
            ]
            .concat()
        );
        let setting = Setting { quick: false, scratch: "/nowhere".into(), peers: None, seed: 1 };
        let error = asked_for(&["nobody"]).plan(&setting).expect_err("no such client");
        assert_eq!(error.to_string(), "no name contains \"nobody\"; --list has all");
    }

    #[test]
    fn ours_is_held_against_its_floor_and_every_client_of_its_shape() {
        let all: Vec<&'static Variant> = variant::ALL.iter().collect();
        for workload in Workload::ALL {
            let here: Vec<_> = all.iter().copied().filter(|one| one.workloads.contains(&workload)).collect();
            let asked = questions(workload, &here);
            let others: Vec<&str> =
                asked.iter().filter(|one| one.one == "pilotlight-ct").map(|one| one.other.as_str()).collect();
            let floor = all.iter().find(|one| one.name == workload.floor(Shape::Ct)).expect("a floor").id();
            assert!(others.contains(&floor.as_str()) && others.contains(&"fred-10-1-0-ct"), "{workload:?} {others:?}");
            assert!(!others.iter().any(|other| other.contains("mt2")), "{others:?}");
        }
    }
}
