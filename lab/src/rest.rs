//! `pilotlight lab rest`: the published REST scenarios (GET one, list, POST, mixed) on examples/users, alone and behind
//! the gateway, beside services with the same API in other stacks. `docs/lab/rest.md` says how to read it.

pub(crate) mod case;
mod figures;
mod measure;
mod published;
pub(crate) mod redis;
mod right;
pub(crate) mod variant;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use crate::command::Common;
use crate::experiment::model::{Metric, Report, Results, Role, Skipped, Software};
use crate::experiment::{Amount, Experiment, Extent, Group, Participant, Plan, Question, Setting, Variant as Measured};
use crate::processes::own_program;
use case::Case;
use measure::{Service, Stage};
use redis::Topology;
use variant::{Programs, Variant};

/// What `pilotlight lab rest` takes.
#[derive(Args, Clone, Debug)]
pub struct RestArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Seconds before each measurement that do not count
    #[arg(long, value_name = "SECONDS", value_parser = crate::command::seconds)]
    warmup: Option<f64>,
    /// Scenarios; all unless given
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Services; all that can be had unless given
    #[arg(long, value_enum, value_delimiter = ',')]
    services: Vec<Variant>,
    /// What Redis is
    #[arg(long, value_enum, value_delimiter = ',', default_value = "standalone,cluster")]
    redis: Vec<Topology>,
    /// The program examples/users; beside this one unless given
    #[arg(long, value_name = "PROGRAM")]
    users: Option<PathBuf>,
}

/// The experiment.
#[derive(Clone, Debug)]
pub struct Rest {
    extent: Extent,
    warm_up: Option<Duration>,
    /// Sorted; empty: all, but for those that take too long in a short run.
    cases: Vec<Case>,
    /// Sorted; empty: all, as with the cases.
    services: Vec<Variant>,
    redis: Vec<Topology>,
    users: Option<PathBuf>,
}

impl Rest {
    /// What was asked for.
    #[must_use]
    pub fn asked(arguments: &RestArguments) -> Self {
        let RestArguments { warmup, cases, services, redis, users, .. } = arguments.clone();
        let warm_up = warmup.map(Duration::from_secs_f64);
        let (mut cases, mut services, mut redis) = (cases, services, redis);
        cases.sort();
        cases.dedup();
        services.sort();
        services.dedup();
        redis.sort();
        redis.dedup();
        Self { extent: Extent::Alone, warm_up, cases, services, redis, users }
    }

    /// Where nothing else is asked for: alone two hours, among others a quarter of an hour.
    #[must_use]
    pub fn usual(extent: Extent) -> Self {
        let (cases, redis) = match extent {
            Extent::Alone => (Vec::new(), vec![Topology::Standalone, Topology::Cluster]),
            Extent::AmongOthers => {
                (vec![Case::GetWarm, Case::List, Case::Post, Case::Mixed], vec![Topology::Standalone])
            }
        };
        Self { extent, warm_up: None, cases, services: Vec::new(), redis, users: None }
    }

    fn programs(&self, setting: &Setting) -> anyhow::Result<Programs> {
        let users = match &self.users {
            Some(users) => std::path::absolute(users)?,
            None => own_program()?.with_file_name("users"),
        };
        let peers = setting.peers.as_deref().unwrap_or(Path::new("lab/peers"));
        Ok(Programs { users, peers: std::path::absolute(peers)?.join("rest/target") })
    }

    /// Those that can be measured, and those that cannot.
    fn services(&self, programs: &Programs, quick: bool) -> (Vec<Variant>, Vec<Skipped>) {
        let mut services = if self.services.is_empty() { Variant::ALL.to_vec() } else { self.services.clone() };
        let mut skipped = Vec::new();
        services.retain(|variant| match programs.command(*variant) {
            Ok(_) => true,
            Err(missing) => {
                skipped.push(missing);
                false
            }
        });
        if quick && self.services.is_empty() {
            // What is ours, and one peer that is warm at once.
            let peer = services.iter().copied().find(|variant| variant.is_peer() && variant.min_warm_up().is_zero());
            let (kept, left): (Vec<_>, Vec<_>) = services.into_iter().partition(|variant| {
                if variant.is_peer() { Some(*variant) == peer } else { *variant != Variant::GatewayCache }
            });
            let why = "a quick run has examples/users, alone and behind the gateway, and one peer that is warm at once";
            skipped.extend(left.iter().map(|variant| Skipped::new(&variant.name(), why, "leave out --quick")));
            services = kept;
        }
        (services, skipped)
    }

    fn cases(&self, programs: &Programs, quick: bool) -> (Vec<Case>, Vec<Skipped>) {
        let mut cases = match (self.cases.is_empty(), self.extent, quick) {
            (true, _, _) => Case::ALL.to_vec(),
            (false, Extent::AmongOthers, true) => vec![Case::GetWarm],
            (false, ..) => self.cases.clone(),
        };
        let mut skipped = Vec::new();
        if let Err(missing) = programs.slow_disk() {
            if cases.iter().any(|case| case.is_slow()) {
                skipped.push(missing);
            }
            cases.retain(|case| !case.is_slow());
        }
        (cases, skipped)
    }

    fn amount(&self, setting: &Setting) -> Amount {
        let (rounds, duration, warm_up) = match (setting.quick, self.extent) {
            (true, _) => (8, 60, 40),
            (false, Extent::AmongOthers) => (12, 1000, 500),
            (false, Extent::Alone) => (12, 2000, 500),
        };
        Amount {
            rounds,
            duration: Duration::from_millis(duration),
            warm_up: self.warm_up.unwrap_or(Duration::from_millis(warm_up)),
            seed: setting.seed,
        }
    }
}

impl Experiment for Rest {
    fn name(&self) -> &'static str {
        "rest"
    }

    fn title(&self) -> &'static str {
        "A REST service on SQLite and Redis, beside the same in other stacks"
    }

    fn hypothesis(&self) -> &'static str {
        "examples/users takes about half of the CPU time of the best peer for reads, and answers more writes in a second"
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let programs = match self.programs(setting) {
            Ok(programs) => programs,
            Err(error) => {
                let missing = Skipped { what: "rest".into(), why: format!("{error:#}"), install: String::new() };
                return vec![Participant { name: "rest".into(), what: "everything".into(), missing: Some(missing) }];
            }
        };
        let mut participants: Vec<Participant> = Variant::ALL
            .iter()
            .map(|variant| {
                let missing = programs.command(*variant).err();
                let what = if missing.is_none() { programs.about(*variant) } else { variant.description() };
                Participant { name: variant.name(), what, missing }
            })
            .collect();
        let what = "5 ms more for each fsync (post-slow, post-slow100, mixed-slow)".to_owned();
        participants.push(Participant { name: "slow disk".into(), what, missing: programs.slow_disk().err() });
        let what = "what every service caches in".to_owned();
        participants.push(Participant { name: "redis-server".into(), what, missing: no_redis() });
        participants
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let programs = self.programs(setting)?;
        let (services, mut skipped) = self.services(&programs, setting.quick);
        let (cases, no_cases) = self.cases(&programs, setting.quick);
        skipped.extend(no_cases);
        skipped.extend(no_redis());
        if services.is_empty() || cases.is_empty() || no_redis().is_some() {
            let whys: Vec<String> = skipped
                .iter()
                .map(|skipped| format!("{}: {}; {}", skipped.what, skipped.why, skipped.install))
                .collect();
            bail!("there is nothing to measure: {}", whys.join("; "));
        }
        let amount = self.amount(setting);
        let mut plan = Plan { skipped, ..Plan::default() };
        for topology in &self.redis {
            let stage = Rc::new(Stage::new(&programs, *topology, &setting.scratch));
            plan.groups.extend(cases.iter().map(|case| group(&stage, *case, &services, amount)));
            plan.published
                .extend(cases.iter().flat_map(|case| published::of(*case, *topology, &group_id(*case, *topology))));
        }
        Ok(plan)
    }

    fn conclude(&self, results: &mut Results, about: &Report) {
        results.figures = figures::compare(&results.groups, about.seed);
    }
}

fn no_redis() -> Option<Skipped> {
    redis::missing("everything")
}

/// `get-warm-standalone`
fn group_id(case: Case, topology: Topology) -> String {
    format!("{}-{topology:?}", case.name()).to_lowercase()
}

fn group(stage: &Rc<Stage>, case: Case, services: &[Variant], amount: Amount) -> Group {
    let measured = |variant: &Variant| Measured {
        id: variant.name(),
        title: variant.name(),
        role: if variant.is_peer() { Role::Peer } else { Role::Subject },
        software: vec![Software {
            name: variant.name(),
            version: stage.programs.version(*variant),
            settings: variant.settings().iter().map(|setting| (*setting).to_owned()).collect(),
        }],
        measure: Box::new(Service { stage: Rc::clone(stage), variant: *variant, case }),
    };
    // Where something is cached is of interest beside what caches nothing; peers beside examples/users alone.
    let ours = services.iter().filter(|variant| !variant.is_peer() && **variant != Variant::Users);
    let peers = services.iter().filter(|variant| variant.is_peer());
    let pairs = ours.map(|own| (*own, Variant::Users)).chain(peers.map(|peer| (Variant::Users, *peer)));
    let pairs = pairs.filter(|_| services.contains(&Variant::Users));
    let questions = pairs.flat_map(|(one, other)| {
        [Metric::CpuUs, Metric::PerSecond].map(|metric| {
            Question::ratio(
                format!("{}, {} / {}", metric.title(), one.name(), other.name()),
                metric,
                one.name(),
                other.name(),
            )
        })
    });
    let control = services.iter().find(|variant| **variant == Variant::Users).or(services.first());
    Group {
        id: group_id(case, stage.topology),
        title: format!("{}, Redis {:?}", case.name(), stage.topology).to_lowercase(),
        workload: case.description(),
        metrics: measure::METRICS.to_vec(),
        variants: services.iter().map(measured).collect(),
        control: control.map(|variant| variant.name()).unwrap_or_default(),
        questions: questions.collect(),
        amount,
    }
}
