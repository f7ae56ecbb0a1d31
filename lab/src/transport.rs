//! `pilotlight lab transport`: the published five cases (cached; HTTP warm; HTTP cold; pipe warm; pipe cold) on real
//! processes and real cold starts, for services in several languages, beside other gateways. `docs/lab/transport.md`
//! says how to read it.

mod advice;
mod built;
pub(crate) mod cases;
pub(crate) mod client;
pub(crate) mod embedded;
mod experiment;
mod measure;
pub(crate) mod peers;
mod published;
pub(crate) mod services;
pub(crate) mod target;

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::bail;
use clap::error::ErrorKind;
use clap::{Args, ValueEnum as _};

use crate::command::Common;
use crate::experiment::model::{Report, Results, Skipped};
use crate::experiment::{Experiment, Extent, Participant, Plan, Setting};
use crate::gateway;
use crate::processes::Reaper;
use cases::{Case, Front, Variant};
use measure::Requests;
use peers::Peers;
use services::{Interpreters, Language, Service, Socket};
use target::Setup;

/// What `pilotlight lab transport` takes. A quick run makes 8 requests in 8 rounds, without the other gateways.
#[derive(Args, Clone, Debug)]
pub struct TransportArguments {
    /// What all experiments take.
    #[command(flatten)]
    pub(crate) common: Common,
    /// Languages of the services; those that lab/peers/languages/build.sh builds are left out where they are not built
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "python,node,rust,c,dotnet,coreclr,go,haskell,java,php,ruby"
    )]
    services: Vec<Language>,
    /// Cases
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cached,http-warm,http-cold,pipe-warm,pipe-cold")]
    cases: Vec<Case>,
    /// Counted requests of each case, divided among the rounds, which are 10 at most unless given
    #[arg(long, default_value_t = REQUESTS, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    #[arg(conflicts_with = "quick")]
    requests: u32,
    /// Requests that do not count: before each round of a warm case, before the first of a cold one
    #[arg(long, default_value_t = WARM_UP, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    #[arg(conflicts_with = "quick")]
    warmup: u32,
    /// Leave the other gateways out
    #[arg(long)]
    no_peers: bool,
    /// The Python of the services; that of lab/setup.sh if it is there, else python3
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// The Node.js of the services
    #[arg(long, value_name = "PROGRAM", default_value = NODE)]
    node: PathBuf,
}

/// What `--node` is unless given.
const NODE: &str = "node";
/// What `--requests` is unless given.
const REQUESTS: u32 = 50;
/// What `--warmup` is unless given.
const WARM_UP: u32 = 5;
/// What `--rounds` is unless given; fewer than eight tell nothing apart.
const ROUNDS: u32 = 10;

/// The experiment.
#[derive(Debug)]
pub struct Transport {
    services: Vec<Language>,
    cases: Vec<Case>,
    requests: (u32, u32, u32),
    peers: bool,
    /// That of `lab/setup.sh` if it is there, else the one in the `PATH`.
    python: Option<PathBuf>,
    node: PathBuf,
}

impl Transport {
    /// What was asked for.
    ///
    /// # Errors
    /// Some of the rounds would be without a request, or rounds are given for a quick run, which has its own.
    pub fn asked(arguments: &TransportArguments) -> Result<Self, clap::Error> {
        let mut services = arguments.services.clone();
        services.sort();
        services.dedup();
        let mut cases = arguments.cases.clone();
        cases.sort();
        cases.dedup();
        let requests = arguments.requests;
        let rounds = arguments.common.rounds.unwrap_or(ROUNDS.min(requests));
        let refuse = |text: String| Err(clap::Error::raw(ErrorKind::ArgumentConflict, text + "\n"));
        if arguments.common.quick && arguments.common.rounds.is_some() {
            return refuse("--quick has rounds of its own: leave out --rounds".into());
        }
        if rounds > requests {
            return refuse(format!("--requests {requests} are fewer than --rounds {rounds}: each round needs one"));
        }
        Ok(Self {
            services,
            cases,
            requests: (requests, arguments.warmup, rounds),
            peers: !arguments.no_peers,
            python: arguments.python.clone(),
            node: arguments.node.clone(),
        })
    }

    /// Where nothing else is asked for: among others the languages of the published table, and in a short run only what
    /// needs no interpreter.
    #[must_use]
    pub fn usual(extent: Extent) -> Self {
        let services = match extent {
            Extent::Alone => Language::value_variants().to_vec(),
            Extent::AmongOthers => Vec::new(),
        };
        Self {
            services,
            cases: Case::ALL.to_vec(),
            requests: (REQUESTS, WARM_UP, ROUNDS),
            peers: true,
            python: None,
            node: NODE.into(),
        }
    }

    fn requests(&self, setting: &Setting) -> Requests {
        let (counted, warmup, rounds) = if setting.quick { (8, 2, 8) } else { self.requests };
        Requests { counted, warmup, rounds, seed: setting.seed }
    }

    fn find_services(&self, setting: &Setting) -> (Vec<Service>, Vec<Skipped>) {
        let python = self.python.clone().or_else(|| gateway::venv(setting).ok().map(PathBuf::from));
        let interpreters = Interpreters {
            python: python.unwrap_or_else(|| "python3".into()),
            node: self.node.clone(),
            peers: setting.peers.clone(),
        };
        let languages = match (self.services.is_empty(), setting.quick) {
            (true, true) => &[Language::Rust][..],
            (true, false) => &[Language::Python, Language::Node, Language::Rust],
            (false, _) => &self.services,
        };
        let (mut services, mut skipped) = (Vec::new(), Vec::new());
        for language in languages {
            match services::find(*language, &interpreters, &setting.scratch) {
                Ok((service, missing)) => {
                    services.push(service);
                    skipped.extend(missing);
                }
                Err(missing) => skipped.push(missing),
            }
        }
        (services, skipped)
    }

    fn prepare(&self, setting: &Setting) -> anyhow::Result<(Setup, Vec<Skipped>)> {
        let scratch = setting.scratch.as_path();
        let (services, mut skipped) = self.find_services(setting);
        if services.is_empty() {
            let whys: Vec<String> = skipped.iter().map(|s| format!("{}: {} ({})", s.what, s.why, s.install)).collect();
            bail!("there is no service to measure: {}", whys.join("; "));
        }
        let python = services.iter().find(|service| service.language == Language::Python);
        let left_out = |what: &str| Skipped::new(what, "a quick run has no time for them", "leave out --quick");
        if setting.quick && self.services.is_empty() {
            skipped.push(left_out("services in Python and Node"));
        }
        let peers = if setting.quick || !self.peers {
            skipped.extend(self.peers.then(|| left_out("other gateways")));
            Peers::default()
        } else {
            let (peers, missing) = Peers::find(python.map(|service| service.runtime.program.as_path()), scratch);
            skipped.extend(missing);
            peers
        };
        let reaper = Rc::new(Reaper::start()?);
        let setup = Setup { scratch: scratch.to_owned(), services, peers, reaper, started: Cell::new(0) };
        Ok((setup, skipped))
    }
}

impl Experiment for Transport {
    fn name(&self) -> &'static str {
        "transport"
    }

    fn title(&self) -> &'static str {
        "HTTP and the pipe, warm and cold, beside other gateways"
    }

    fn hypothesis(&self) -> &'static str {
        "The pipe takes less than HTTP to a Unix socket, most of all for services in Python and Node, and a cold start costs little more than its process"
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let (services, mut missing) = self.find_services(setting);
        let python = services.iter().find(|service| service.language == Language::Python);
        let (peers, missing_peers) =
            Peers::find(python.map(|service| service.runtime.program.as_path()), &setting.scratch);
        missing.extend(missing_peers);
        let present = |name: &str, what: &str| Participant { name: name.into(), what: what.into(), missing: None };
        let of_services = services.iter().map(|service| present(service.language.title(), &service.runtime.version));
        let of_peers = peers.versions.iter().map(|(name, version)| present(name, version));
        let absent = missing.into_iter().map(|skipped| Participant {
            name: skipped.what.clone(),
            what: String::new(),
            missing: Some(skipped),
        });
        of_services.chain(of_peers).chain(absent).collect()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        embedded::unpack(&setting.scratch)?;
        let (setup, skipped) = self.prepare(setting)?;
        let variants = variants(&self.cases, &setup);
        let groups = experiment::groups(&variants, &Rc::new(setup), self.requests(setting));
        Ok(Plan { groups, skipped, published: published::published() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        results.findings = advice::findings(results);
    }
}

/// What is measured, in the order of the report.
fn variants(cases: &[Case], setup: &Setup) -> Vec<Variant> {
    let mut variants = Vec::new();
    for service in &setup.services {
        for case in cases {
            let variant = |server, front| Variant { case: *case, language: service.language, server, front };
            let servers: Vec<&'static str> = match case {
                Case::HttpWarm | Case::HttpCold => service.http.iter().map(|server| server.name).collect(),
                Case::Cached | Case::PipeWarm | Case::PipeCold => vec![service.pipe.name],
            };
            let is_inherited = |name: &str| {
                let server = service.http.iter().find(|server| server.name == name);
                server.is_none_or(|server| matches!(server.socket, Socket::Inherited | Socket::InheritedOrPath))
            };
            for server in servers {
                variants.push(variant(server, Front::Pilotlight));
                if case.is_cold() && is_inherited(server) {
                    variants.push(variant(server, Front::Bare));
                }
            }
            let first = setup.services.first().is_some_and(|first| first.language == service.language);
            variants.extend(peers_beside(*case, service, setup, first));
        }
    }
    variants
}

fn peers_beside(case: Case, service: &Service, setup: &Setup, first: bool) -> Vec<Variant> {
    let [nginx, uwsgi, mod_fcgid] = setup.peers.present();
    let by_path = || service.http.iter().filter(|server| server.socket == Socket::InheritedOrPath);
    let variant = |server, front| Variant { case, language: service.language, server, front };
    let mut variants = Vec::new();
    if nginx && case == Case::HttpWarm {
        variants.extend(by_path().map(|server| variant(server.name, Front::Nginx)));
    }
    if nginx && first && case == Case::Cached {
        variants.extend(by_path().next().map(|server| variant(server.name, Front::Nginx)));
    }
    if service.language == Language::Python && matches!(case, Case::HttpWarm | Case::HttpCold) {
        variants.extend(uwsgi.then(|| variant("WSGI", Front::Uwsgi)));
        variants.extend(mod_fcgid.then(|| variant("FastCGI", Front::ModFcgid)));
    }
    variants
}
