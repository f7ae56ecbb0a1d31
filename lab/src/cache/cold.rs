//! The groups of cold starts: the first request to a service that does not run, behind whoever starts it.

mod activation;

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;

use super::Lab;
use super::load_groups::{OWN, PIPE, own, skip};
use crate::experiment::model::{Metric, Role, Skipped, Software};
use crate::experiment::{Amount, Group, Measure, Question, Sample, Variant};
use crate::processes::usage;
use crate::stats::{Times, median};
use crate::transport::cases::{Case, Front, Variant as Kind};
use crate::transport::peers::Peers;
use crate::transport::services::{Language, Service};
use crate::transport::target::{Processes, Target};
use activation::Activation;

pub(super) use activation::Activator;

pub(super) const BARE_HTTP: &str = "bare-http";
pub(super) const BARE_PIPE: &str = "bare-pipe";
const UWSGI: &str = "uwsgi";
const MOD_FCGID: &str = "mod-fcgid";
const ACTIVATION: &str = "socket-activation";
/// Where many services are configured.
const AMONG: &str = "pilotlight-pipe-1000";
const OTHERS: u32 = 999;
/// Of one variant in one round; before the first round there is one that does not count.
const STARTS: u32 = 3;
const QUICK_STARTS: u32 = 1;
/// A start of a service, and its end.
const START: Duration = Duration::from_millis(100);
/// The same where a web server is started anew for it, and ends in its own time.
const WEB_SERVER_START: Duration = Duration::from_secs(1);
/// A front's sum of its own phases is none.
const TOTAL: &str = "total";

/// What starts a service in one language.
pub(super) struct Cold<'a> {
    pub(super) id: String,
    pub(super) service: &'a Service,
}

/// Makes a target; nothing is started before its first measurement.
type Start = dyn Fn() -> anyhow::Result<Box<dyn Target>>;

impl Cold<'_> {
    /// The group, with everything that is here.
    pub(super) fn group(&self, lab: &Rc<Lab>, skipped: &mut Vec<Skipped>, amount: Amount) -> Group {
        let language = self.service.language;
        let http = self.service.http.first().unwrap_or(&self.service.pipe).name;
        let pipe = self.service.pipe.name;
        let starts = if lab.quick { QUICK_STARTS } else { STARTS };
        let lane = |id: &str, title: &str, role, software, start| Variant {
            id: id.into(),
            title: title.into(),
            role,
            software,
            measure: Box::new(ColdStarts {
                start,
                running: None,
                starts,
                usual: if [UWSGI, MOD_FCGID].contains(&id) { WEB_SERVER_START } else { START },
            }),
        };
        let kind = |server, front| Kind { case: Case::HttpCold, language, server, front };
        let target = |case, server, front| -> Rc<Start> {
            let (setup, kind) = (Rc::clone(&lab.setup), Kind { case, ..kind(server, front) });
            Rc::new(move || setup.start(&kind))
        };
        let runtime = |server: &str| Software {
            name: format!("{}, {server}", language.title()),
            version: self.service.runtime.version.clone(),
            settings: Vec::new(),
        };
        let ours = |server| vec![own(vec!["workers = 1 (there is one client)".into()]), runtime(server)];
        let mut variants = vec![
            lane(
                PIPE,
                "Pilotlight, the pipe",
                Role::Subject,
                ours(pipe),
                target(Case::PipeCold, pipe, Front::Pilotlight),
            ),
            lane(OWN, "Pilotlight, HTTP", Role::Subject, ours(http), target(Case::HttpCold, http, Front::Pilotlight)),
            lane(
                BARE_PIPE,
                "no gateway, the pipe",
                Role::Floor,
                vec![runtime(pipe)],
                target(Case::PipeCold, pipe, Front::Bare),
            ),
            lane(
                BARE_HTTP,
                "no gateway, HTTP",
                Role::Floor,
                vec![runtime(http)],
                target(Case::HttpCold, http, Front::Bare),
            ),
        ];
        if language == Language::Rust {
            let (setup, among) =
                (Rc::clone(&lab.setup), Kind { case: Case::PipeCold, ..kind(pipe, Front::Pilotlight) });
            let start: Rc<Start> = Rc::new(move || setup.start_among(&among, OTHERS));
            variants.push(lane(AMONG, "Pilotlight, the pipe, among 1,000 services", Role::Subject, ours(pipe), start));
        }
        match Activator::find(lab.python.as_deref(), &lab.scratch) {
            Ok(activator) => {
                let software = vec![activator.software(), runtime(http)];
                let (lab, title) = (Rc::clone(lab), activator.title);
                let command = self.service.http.first().map(|server| server.command.clone()).unwrap_or_default();
                let start: Rc<Start> = Rc::new(move || {
                    let dir = lab.folder()?;
                    Ok(Box::new(Activation::new(activator.clone(), command.clone(), dir)))
                });
                variants.push(lane(ACTIVATION, title, Role::Peer, software, start));
            }
            Err(missing) => skip(skipped, missing),
        }
        if language == Language::Python {
            for missing in &lab.missing_starters {
                skip(skipped, missing.clone());
            }
            for (id, title, server, front, software) in self.python_starters(&lab.setup.peers) {
                if lab.quick {
                    let why = "it takes a second to end before each start";
                    skip(skipped, Skipped::new(&format!("cold starts behind {title}"), why, "leave out --quick"));
                } else {
                    let software = vec![software, runtime(server)];
                    variants.push(lane(id, title, Role::Peer, software, target(Case::HttpCold, server, front)));
                }
            }
        }
        let questions = questions(&variants);
        Group {
            id: self.id.clone(),
            title: format!("The first request to a stopped service in {}", language.title()),
            workload: format!(
                "GET / to a service in {} that does not run, one after the other; {starts} in each round, each of them a start",
                language.title()
            ),
            metrics: vec![Metric::ColdMs, Metric::CpuUs],
            variants,
            control: PIPE.into(),
            questions,
            amount: Amount { duration: Duration::ZERO, warm_up: Duration::ZERO, ..amount },
        }
    }

    fn python_starters(&self, peers: &Peers) -> Vec<(&'static str, &'static str, &'static str, Front, Software)> {
        let [_, uwsgi, mod_fcgid] = peers.present();
        let version = |name: &str| {
            let found = peers.versions.iter().find(|(known, _)| *known == name);
            found.map(|(_, version)| version.clone()).unwrap_or_default()
        };
        let mut starters = Vec::new();
        if uwsgi {
            let settings = [
                "as in https://uwsgi-docs.readthedocs.io/en/latest/OnDemandVassals.html and Options.html",
                "--cheap (no worker before the first request)",
                "--lazy-apps (a worker loads the application, not the master)",
                "--processes 1",
            ];
            let software =
                Software { name: "uwsgi".into(), version: version("uwsgi"), settings: settings.map(Into::into).into() };
            starters.push((UWSGI, "uWSGI, on demand", "WSGI", Front::Uwsgi, software));
        }
        if mod_fcgid {
            let settings = [
                "as in https://httpd.apache.org/mod_fcgid/mod/mod_fcgid.html",
                "FcgidMaxProcesses 1",
                "mpm_event, StartServers 1",
            ];
            let software = Software {
                name: "apache".into(),
                version: version("apache"),
                settings: settings.map(Into::into).into(),
            };
            starters.push((MOD_FCGID, "Apache mod_fcgid", "FastCGI", Front::ModFcgid, software));
        }
        starters
    }
}

/// The gateway's own part, and ours beside the other starters.
fn questions(variants: &[Variant]) -> Vec<Question> {
    let question = |text: String, one: &str, other: &str, difference| Question {
        text,
        metric: Metric::ColdMs,
        one: one.into(),
        other: other.into(),
        difference,
    };
    let mut questions = vec![
        question("what the gateway adds to a start over the pipe".into(), PIPE, BARE_PIPE, true),
        question("what the gateway adds to a start over HTTP".into(), OWN, BARE_HTTP, true),
        question("the first request, the pipe / HTTP, both behind Pilotlight".into(), PIPE, OWN, false),
    ];
    if variants.iter().any(|variant| variant.id == AMONG) {
        questions.push(question("the first request, among 1,000 services / alone".into(), AMONG, PIPE, false));
    }
    for other in variants.iter().filter(|variant| variant.role == Role::Peer) {
        questions.push(question(
            format!("the first request, Pilotlight, the pipe / {}", other.title),
            PIPE,
            &other.id,
            false,
        ));
        questions.push(question(
            format!("the first request, Pilotlight, HTTP / {}", other.title),
            OWN,
            &other.id,
            false,
        ));
    }
    questions
}

/// Starts of one service behind one front.
struct ColdStarts {
    start: Rc<Start>,
    running: Option<Box<dyn Target>>,
    starts: u32,
    /// How long one takes, up to the next.
    usual: Duration,
}

impl Measure for ColdStarts {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        let mut target = match self.running.take() {
            Some(target) => target,
            None => {
                let mut target = (self.start)()?;
                // Files of the service come into the page cache, and stay there.
                cold_start(&mut *target).context("the first start")?;
                target
            }
        };
        let (mut times, mut phases, mut cpu) = (Times::new(), Vec::new(), Vec::new());
        for _ in 0..self.starts {
            let start = cold_start(&mut *target)?;
            times.record(start.time);
            collect(&mut phases, start.phases);
            collect(&mut cpu, start.cpu_us);
        }
        self.running = Some(target);
        let cpu_us = medians(cpu);
        Ok(Sample {
            values: vec![(Metric::ColdMs, times.median_ms()), (Metric::CpuUs, cpu_us.iter().map(|(_, us)| us).sum())],
            phases_ms: medians(phases),
            requests: u64::from(self.starts),
            times: Some(times),
            cpu_us,
            ..Sample::default()
        })
    }

    fn beside(&self, _: Amount) -> Duration {
        self.usual * self.starts
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        Some(Box::new(Self { start: Rc::clone(&self.start), running: None, ..*self }))
    }
}

struct ColdStart {
    time: Duration,
    phases: Vec<(String, f64)>,
    cpu_us: Vec<(String, f64)>,
}

fn cold_start(target: &mut dyn Target) -> anyhow::Result<ColdStart> {
    target.make_cold().context("the service cannot be stopped")?;
    let used = |processes: &Processes| (usage::cpu_time(&processes.gateway), usage::cpu_time(&processes.service));
    let before = used(&target.processes());
    let answer = target.request()?;
    let processes = target.processes();
    let after = used(&processes);
    let us = |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6;
    let mut cpu_us = Vec::new();
    if !processes.gateway.is_empty() {
        cpu_us.push(("gateway".to_owned(), us(before.0, after.0)));
    }
    // A service that did not run before has used nothing before; one that is activated was somebody who listens.
    cpu_us.push(("service".to_owned(), us(before.1, after.1)));
    let phases = target.phases().into_iter().filter(|(name, _)| name != TOTAL).collect();
    Ok(ColdStart { time: answer, phases, cpu_us })
}

/// Adds values to those of the same name.
fn collect(all: &mut Vec<(String, Vec<f64>)>, values: Vec<(String, f64)>) {
    for (name, value) in values {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => known.push(value),
            None => all.push((name, vec![value])),
        }
    }
}

fn medians(all: Vec<(String, Vec<f64>)>) -> Vec<(String, f64)> {
    all.into_iter().filter_map(|(name, values)| Some((name, median(&values)?))).collect()
}
