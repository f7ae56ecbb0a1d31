//! The experiment `cache`: a cached answer, requests passed on to a service, and the first request to one that is
//! stopped, beside other gateways and starters. `docs/lab/cache.md` says how to read it.

pub(crate) mod answers;
mod cold;
mod figures;
mod floors;
pub(crate) mod gateways;
mod load_groups;
mod loaded;
pub(crate) mod origin;
pub(crate) mod server;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;

use crate::cores::Cores;
use crate::experiment::model::{Report, Results, Skipped};
use crate::experiment::{Amount, Experiment, Group, Lifetime, Participant, Plan, Setting};
use crate::processes::{Reaper, own_program};
use crate::transport::embedded;
use crate::transport::peers::Peers;
use crate::transport::services::{self, Interpreters, Language, Service};
use crate::transport::target::Setup;
use cold::Cold;
use floors::Floor;
use gateways::{Gateway, Kind, Work};
use load_groups::{Cached, Proxied};

/// The Python with uvicorn that `lab/setup.sh` makes, in `lab/peers`.
const VENV_PYTHON: &str = "http/target/venv/bin/python";
const UVICORN: &str = "uvicorn";
/// What installs and builds the others.
const SETUP: &str = "lab/setup.sh of a checkout";
/// What uWSGI and Apache run: for cold starts all have to take the same.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// The experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cache;

/// What all its variants need.
struct Lab {
    /// A folder of this experiment.
    scratch: PathBuf,
    quick: bool,
    cores: Option<Cores>,
    /// The `lab/peers` of a checkout.
    peers: Option<PathBuf>,
    own_program: PathBuf,
    python: Option<PathBuf>,
    /// Of servers that need no warming.
    lifetime: Lifetime,
    gateways: Vec<Found>,
    setup: Rc<Setup>,
    /// Starters of Python services that are not here.
    missing_starters: Vec<Skipped>,
    folders: Cell<u32>,
}

/// A gateway, or why there is none.
struct Found {
    kind: Kind,
    work: Work,
    gateway: Result<Gateway, Skipped>,
}

impl Experiment for Cache {
    fn name(&self) -> &'static str {
        "cache"
    }

    fn title(&self) -> &'static str {
        "Answers from memory, requests passed on, and cold starts, beside other gateways"
    }

    fn hypothesis(&self) -> &'static str {
        "A cached answer takes Pilotlight at most 1.3 times the CPU time of a bare epoll loop and 0.6 times that of nginx; to pass a \
         request on takes it no more than nginx and HAProxy, and over the pipe less than over HTTP; to a cold start it adds at most 2 ms."
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let (services, mut missing) = find_services(setting);
        let _ = warm_python(setting, &mut missing);
        let mut all = vec![here("Pilotlight", "this binary")];
        all.extend(load_groups::bare(setting.peers.as_deref()));
        all.extend(Floor::ALL.map(|floor| Participant {
            name: floor.title().into(),
            what: format!("requests passed to a service: {}", floor.software().settings.join("; ")),
            missing: floor.find(setting.peers.as_deref()).err(),
        }));
        for Found { kind, work, gateway } in find_gateways() {
            let what = match work {
                Work::Cached => "a cached answer",
                Work::Proxy => "requests passed to a service",
            };
            match gateway {
                Ok(gateway) => all.push(here(gateway.title, &format!("{what}: {}", gateway.software.version))),
                Err(skipped) => all.push(absent(&format!("{what}: {}", kind.id()), skipped)),
            }
        }
        for service in &services {
            all.push(here(&format!("services in {}", service.language.title()), &service.runtime.version));
        }
        let python = python_of(&services);
        let (starters, absent_starters) = Peers::find(python.as_deref(), &setting.scratch);
        missing.extend(starters_of(absent_starters));
        let versions = starters.versions.iter().filter(|(name, _)| *name != "nginx");
        all.extend(versions.map(|(name, version)| here(name, &format!("cold starts: {version}"))));
        match cold::Activator::find(python.as_deref(), &setting.scratch) {
            Ok(activator) => all.push(here(activator.title, "cold starts: socket activation")),
            Err(skipped) => missing.push(skipped),
        }
        all.extend(missing.into_iter().map(|skipped| absent("", skipped)));
        all
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let (services, mut skipped) = find_services(setting);
        let lab = Rc::new(Lab::new(setting, &services)?);
        let amount = lab.amount(setting);
        if lab.quick {
            let why = "a quick run has one group of each kind";
            skipped.push(Skipped::new("all other groups", why, "leave out --quick"));
        }
        let mut groups: Vec<Group> = Vec::new();
        for cached in Cached::ALL.iter().filter(|cached| !lab.quick || cached.is_first()) {
            groups.push(cached.group(&lab, &mut skipped, amount));
        }
        for service in &services {
            let language = service.language.title().to_lowercase();
            let suffix = if service.language == Language::Rust { String::new() } else { format!("-{language}") };
            if service.language != Language::Rust && lab.quick {
                continue; // what others do with it is the same in every language; the quick run takes the cheapest service
            }
            let warm = if service.language == Language::Python { warm_python(setting, &mut skipped) } else { None };
            let service = warm.as_ref().unwrap_or(service);
            let floors = if service.language == Language::Rust { floors_of(&lab) } else { &[] };
            let many = Proxied::many(&format!("proxy{suffix}"), service).with_floors(floors);
            groups.push(many.group(&lab, &mut skipped, amount));
            if !lab.quick {
                groups.push(Proxied::one(&format!("proxy-one{suffix}"), service).group(&lab, &mut skipped, amount));
            }
        }
        for service in services.iter().filter(|service| !lab.quick || service.language == Language::Python) {
            let id = format!("cold-{}", service.language.title().to_lowercase());
            groups.push(Cold { id, service }.group(&lab, &mut skipped, amount));
        }
        Ok(Plan { groups, skipped, published: Vec::new() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        figures::add(results);
    }
}

impl Lab {
    fn new(setting: &Setting, services: &[Service]) -> anyhow::Result<Self> {
        let scratch = setting.scratch.join("cache");
        fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
        embedded::unpack(&setting.scratch)?;
        let python = python_of(services);
        let (peers, missing) = Peers::find(python.as_deref(), &setting.scratch);
        let setup = Setup {
            scratch: scratch.clone(),
            services: services.to_vec(),
            peers,
            reaper: Rc::new(Reaper::start()?),
            started: Cell::new(0),
        };
        Ok(Self {
            scratch,
            quick: setting.quick,
            cores: Cores::here(),
            peers: setting.peers.clone(),
            own_program: own_program()?,
            python,
            lifetime: setting.lifetime(),
            gateways: find_gateways(),
            setup: Rc::new(setup),
            missing_starters: starters_of(missing),
            folders: Cell::new(0),
        })
    }

    fn amount(&self, setting: &Setting) -> Amount {
        let (duration, warm_up) = (Duration::from_millis(500), Duration::from_millis(150));
        if self.quick { setting.amount() } else { Amount { rounds: 20, duration, warm_up, seed: setting.seed } }
    }

    /// A gateway that is here.
    fn gateway(&self, kind: Kind, work: Work) -> Result<Gateway, Skipped> {
        let mut found = self.gateways.iter().filter(|found| (found.kind, found.work) == (kind, work));
        match found.next() {
            Some(found) => found.gateway.clone(),
            None => Gateway::find(kind, work),
        }
    }

    /// A new folder with a short name: paths of sockets must be short.
    fn folder(&self) -> anyhow::Result<PathBuf> {
        self.folders.set(self.folders.get() + 1);
        let dir = self.scratch.join(format!("f{}", self.folders.get()));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(dir)
    }
}

/// The floors that passing on stands beside; what batches would save is no question of a quick run.
fn floors_of(lab: &Lab) -> &'static [Floor] {
    if lab.quick { &[Floor::Epoll] } else { &Floor::ALL }
}

/// Of what may be missing there; nginx starts nothing.
fn starters_of(missing: Vec<Skipped>) -> Vec<Skipped> {
    missing.into_iter().filter(|skipped| !skipped.what.starts_with(Kind::Nginx.id())).collect()
}

fn find_gateways() -> Vec<Found> {
    let works = [Work::Cached, Work::Proxy];
    let all = works.into_iter().flat_map(|work| Kind::ALL.map(|kind| (kind, work)));
    all.map(|(kind, work)| Found { kind, work, gateway: Gateway::find(kind, work) }).collect()
}

/// The services of all languages; those that cannot run here.
fn find_services(setting: &Setting) -> (Vec<Service>, Vec<Skipped>) {
    let interpreters = interpreters(setting);
    let (mut services, mut skipped) = (Vec::new(), Vec::new());
    for language in [Language::Rust, Language::Python, Language::Node] {
        match services::find(language, &interpreters, &setting.scratch) {
            Ok((service, missing)) => {
                services.push(service);
                // No other server of Python takes part.
                let missing = missing.into_iter().filter(|missing| missing.what.contains(UVICORN));
                skipped.extend(missing.map(|missing| Skipped { install: SETUP.into(), ..missing }));
            }
            Err(missing) => skipped.push(missing),
        }
    }
    (services, skipped)
}

fn interpreters(setting: &Setting) -> Interpreters {
    let python = Path::new(SYSTEM_PYTHON);
    let python = if python.exists() { python } else { Path::new("python3") };
    Interpreters { python: python.to_owned(), node: "node".into(), peers: setting.peers.clone() }
}

/// For load, where its start is none of the measurement: with uvicorn, if a checkout has it. Then it is not missing any
/// more.
fn warm_python(setting: &Setting, skipped: &mut Vec<Skipped>) -> Option<Service> {
    let python = setting.peers.as_ref()?.join(VENV_PYTHON);
    let interpreters = Interpreters { python, ..interpreters(setting) };
    let (service, missing) = services::find(Language::Python, &interpreters, &setting.scratch).ok()?;
    if missing.is_empty() {
        skipped.retain(|skipped| !skipped.what.contains(UVICORN));
    }
    Some(service)
}

fn python_of(services: &[Service]) -> Option<PathBuf> {
    let python = services.iter().find(|service| service.language == Language::Python);
    python.map(|service| service.runtime.program.clone())
}

fn here(name: &str, what: &str) -> Participant {
    Participant { name: name.into(), what: what.into(), missing: None }
}

fn absent(what: &str, skipped: Skipped) -> Participant {
    Participant { name: skipped.what.clone(), what: what.into(), missing: Some(skipped) }
}
