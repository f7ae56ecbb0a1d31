//! The experiment `factors`: what each layer of a service is worth. The programs of lab/peers/factors do the same work
//! and differ from `base` in one layer each; examples/users, which is made as `base` is, stands beside them.
//! `docs/lab/factors.md` says how to read it.

mod environment;
mod findings;
mod layers;
mod service;
mod study;

use std::path::PathBuf;
use std::rc::Rc;

use crate::experiment::model::{Metric, Report, Results, Role, Skipped, Software};
use crate::experiment::{Experiment, Group, Participant, Plan, Question, Setting, Variant};
use crate::processes::own_program;
use crate::rest::redis::{self, Topology};
use crate::rest::variant::Programs;
use environment::Environment;
use layers::{BASE, By, changes};
use service::{Service, Told};
pub use study::Study;

/// examples/users goes on without a Redis that is late, and would then be measured without it.
const PATIENCE: [&str; 2] = ["--redis-budget-ms", "10000"];
const HIT: &str = "hit";
const MISS: &str = "miss";
const USERS: &str = "users";
/// Makes them for Redis.
const CERTIFICATES: &str = "certificates";
const BUILD: &str = "lab/peers/factors/build.sh";

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Factors;

/// The path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Every user is in Redis.
    Hit,
    /// Redis is emptied again and again.
    Miss,
}

impl Kind {
    fn id(self) -> &'static str {
        match self {
            Self::Hit => HIT,
            Self::Miss => MISS,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Hit => "GET /users/{id}, every user in Redis",
            Self::Miss => "GET /users/{id}, Redis emptied every 500 ms",
        }
    }
}

/// Who takes part: a program, and how it is told to be different.
struct Member {
    id: &'static str,
    title: String,
    role: Role,
    by: Option<By>,
    program: Result<PathBuf, Skipped>,
}

impl Experiment for Factors {
    fn name(&self) -> &'static str {
        "factors"
    }

    fn title(&self) -> &'static str {
        "What each layer of a service is worth: allocator, runtime, HTTP, JSON, connections to Redis, TLS"
    }

    fn hypothesis(&self) -> &'static str {
        "Allocator and runtime are worth more than 5 % of a request's CPU time, axum and serde_json less, and more connections to Redis cost"
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let missing = redis::missing("everything");
        let participant = |member: Member| Participant {
            name: member.id.into(),
            what: member.title,
            missing: missing.clone().or(member.program.err()),
        };
        members(setting).into_iter().map(participant).collect()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let (here, absent): (Vec<_>, Vec<_>) = members(setting)
            .into_iter()
            .partition(|member| member.program.is_ok() && redis::missing("everything").is_none());
        let absent = absent.into_iter().filter_map(|member| member.program.err());
        let mut skipped: Vec<Skipped> = redis::missing("everything").into_iter().chain(absent).collect();
        // Without them there is nothing to compare with, and no database.
        let program = |id| here.iter().find(|member| member.id == id).and_then(|member| member.program.as_ref().ok());
        let (Some(users), Some(_)) = (program(USERS), program(BASE)) else {
            return Ok(Plan { skipped, ..Plan::default() });
        };
        let dir = setting.scratch.join("factors");
        std::fs::create_dir_all(&dir)?;
        let programs = Programs { users: users.clone(), peers: PathBuf::new() };
        let environment =
            Rc::new(Environment::new(dir, programs, built(setting, CERTIFICATES).ok(), Topology::Standalone));
        let mut groups = vec![group(Kind::Hit, &here, &environment, setting)];
        if setting.quick {
            let why = "in measurements as short as these there would be hardly anything but misses";
            skipped.push(Skipped::new(Kind::Miss.title(), why, "leave out --quick"));
        } else {
            groups.push(group(Kind::Miss, &here, &environment, setting));
        }
        Ok(Plan { groups, skipped, published: Vec::new() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        let sentences =
            changes().filter_map(|(layer, change)| findings::sentence("", &(*layer, *change), &results.groups));
        let sentences: Vec<String> = sentences.collect();
        results.findings.extend(sentences);
    }
}

/// A program of lab/peers/factors.
fn built(setting: &Setting, name: &str) -> Result<PathBuf, Skipped> {
    let missing = |why: String| Skipped { what: name.to_owned(), why, install: BUILD.into() };
    let peers = setting.peers.as_ref().ok_or_else(|| missing("there is no lab/peers of a checkout".into()))?;
    let file = peers.join("factors/target/release").join(name);
    if file.is_file() { Ok(file) } else { Err(missing(format!("there is no {}", file.display()))) }
}

fn members(setting: &Setting) -> Vec<Member> {
    let base = Member {
        id: BASE,
        title: "made as examples/users is".into(),
        role: Role::Subject,
        by: None,
        program: built(setting, BASE),
    };
    let change = |(layer, change): (&layers::Layer, &layers::Change)| Member {
        id: change.id,
        title: format!("{}: {}", layer.title, change.title),
        role: Role::Peer,
        by: Some(change.by),
        program: match change.by {
            By::Program | By::Setting => built(setting, change.id),
            By::Option(_) => built(setting, BASE),
            By::Tls => built(setting, CERTIFICATES).and_then(|_| built(setting, BASE)),
        }
        .map_err(|skipped| Skipped { what: change.id.into(), ..skipped }),
    };
    let users = Member {
        id: USERS,
        title: "examples/users, with all that it does beside".into(),
        role: Role::Peer,
        by: None,
        program: find_users(),
    };
    std::iter::once(base).chain(changes().map(change)).chain([users]).collect()
}

fn find_users() -> Result<PathBuf, Skipped> {
    let missing =
        |why: String| Skipped { what: "examples/users".into(), why, install: "cargo build --release -p users".into() };
    let file = own_program().map_err(|error| missing(error.to_string()))?.with_file_name(USERS);
    if file.is_file() { Ok(file) } else { Err(missing(format!("there is no {}", file.display()))) }
}

fn group(kind: Kind, members: &[Member], environment: &Rc<Environment>, setting: &Setting) -> Group {
    let variant = |member: &Member| {
        let mut command = vec![member.program.as_ref().ok()?.clone().into_os_string()];
        if member.id == USERS {
            command.extend(PATIENCE.map(Into::into));
        }
        let service = Service {
            id: member.id.into(),
            command,
            told: Told::Arguments(member.by),
            kind,
            lifetime: setting.lifetime(),
            environment: Rc::clone(environment),
            running: None,
        };
        let settings = match member.by {
            Some(By::Option(option)) => vec![format!("URL of Redis: ?{option}")],
            Some(By::Tls) => vec!["URL of Redis: rediss://".to_owned()],
            Some(By::Program | By::Setting) | None => Vec::new(),
        };
        Some(Variant {
            id: member.id.into(),
            title: member.title.clone(),
            role: member.role,
            software: vec![Software { name: member.id.into(), version: env!("CARGO_PKG_VERSION").into(), settings }],
            measure: Box::new(service),
        })
    };
    let variants: Vec<Variant> = members.iter().filter_map(variant).collect();
    let question = |(metric, what): (Metric, &str), variant: &Variant| {
        Question::ratio(format!("{what}, {} / base", variant.id), metric, variant.id.clone(), BASE)
    };
    let asked = [(Metric::CpuUs, "CPU of a request"), (Metric::PerSecond, "requests in a second")];
    let others = || variants.iter().filter(|variant| variant.id != BASE);
    let questions = asked.into_iter().flat_map(|what| others().map(move |variant| question(what, variant))).collect();
    Group {
        id: kind.id().into(),
        title: kind.title().into(),
        workload: "random users of 10,000, 100 connections, 10 requests in flight on each".into(),
        metrics: vec![Metric::CpuUs, Metric::PerSecond, Metric::P50Ms, Metric::P99Ms],
        variants,
        control: BASE.into(),
        questions,
        amount: setting.amount(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(peers: Option<PathBuf>, scratch: PathBuf) -> Setting {
        Setting { quick: true, scratch, peers, seed: 1 }
    }

    #[test]
    fn what_is_not_built_is_said_once_each_and_nothing_is_measured() {
        let scratch = tempfile::tempdir().expect("a folder");
        for peers in [None, Some(scratch.path().to_owned())] {
            let setting = setting(peers, scratch.path().to_owned());
            let plan = Factors.plan(&setting).expect("nothing to measure is no error");
            assert!(plan.groups.is_empty());
            let mut names: Vec<&str> = plan.skipped.iter().map(|skipped| skipped.what.as_str()).collect();
            assert!(names.contains(&BASE) && names.contains(&"tls") && names.contains(&"http-axum"), "{names:?}");
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{names:?}");
            let participants = Factors.participants(&setting);
            assert!(participants.iter().all(|participant| participant.missing.is_some() || participant.name == USERS));
        }
    }

    #[test]
    fn every_change_is_asked_for_on_both_paths() {
        let scratch = tempfile::tempdir().expect("a folder");
        let setting = setting(None, scratch.path().to_owned());
        let environment = Rc::new(Environment::new(
            scratch.path().to_owned(),
            Programs { users: PathBuf::new(), peers: PathBuf::new() },
            None,
            Topology::Standalone,
        ));
        let here: Vec<Member> =
            members(&setting).into_iter().map(|member| Member { program: Ok("/nothing".into()), ..member }).collect();
        for kind in [Kind::Hit, Kind::Miss] {
            let group = group(kind, &here, &environment, &setting);
            assert_eq!(group.variants.len(), 2 + changes().count());
            for (_, change) in changes() {
                for metric in [Metric::CpuUs, Metric::PerSecond] {
                    let asked = |question: &&Question| question.one == change.id && question.metric == metric;
                    assert_eq!(group.questions.iter().filter(asked).count(), 1, "{} {metric:?}", change.id);
                }
            }
            assert_eq!(group.control, BASE);
        }
    }
}
