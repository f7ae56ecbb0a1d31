//! `pilotlight lab limits`: gateways that share a rate through one Redis. How many requests they let in beyond it, and
//! what a limit and a shared one add to a request. `docs/lab/limits.md`.

mod admissions;

use std::net::SocketAddr;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use anyhow::{bail, ensure};

use crate::cores;
use crate::experiment::model::{Figure, Metric, Report, Results};
use crate::experiment::{Amount, Experiment, Extent, Group, Participant, Plan, Question, Sample, Setting};
use crate::gateway::running::Running;
use crate::gateway::{Gateway, Lab, group, loads, software, variant};
use crate::load::{self, Load, Outcome, Pace, Requests, get};
use crate::rest::redis::{self, Redis, Topology};
use crate::transport::target::LISTEN_LIMIT;
use admissions::{Monitor, beyond, counted};

/// What `--help` says below the options.
pub(crate) const HELP: &str = "Examples:
  pilotlight lab limits                              eight gateways, and what a limit costs; three minutes
  pilotlight lab limits --groups beyond --secs 20    20 windows of a second
  pilotlight lab limits --groups cost
  pilotlight lab limits --quick                      does everything work? Only what a limit costs

Nothing else should run meanwhile. Everything that is started ends with it.";

const BEYOND: &str = "beyond";
const GATEWAYS: u32 = 8;
const RATE: u32 = 1000;
/// Of all gateways together, in a second.
const OFFERED: u32 = 3 * RATE;
/// How long gateways wait for Redis (`cache.redis.budget`): the default, and what a busy machine needs.
const BUDGETS: [&str; 2] = ["5ms", "20ms"];
/// Where it is measured what Redis costs, it always decides.
const PATIENCE: &str = "1s";
const LIMIT: &str = "limit = { rate = \"1000/s\", burst = 10, shared = true }";
/// Rounds of gateways that share a rate, and how many windows of a second each has.
const ROUNDS: u32 = 3;
const WINDOWS: Duration = Duration::from_secs(12);
/// Load after the last window, so that it is whole.
const MORE: Duration = Duration::from_millis(500);
const MOST_BEYOND: f64 = 2.0;

const NONE: &str = "none";
const SHARED: &str = "shared";
/// Routes of one gateway: path, title, limit. Far more is let in than is asked for.
const ROUTES: [(&str, &str, &str); 3] = [
    (NONE, "no limit", ""),
    ("local", "a limit", "limit = { rate = \"1000000/s\", burst = 1000000 }"),
    (SHARED, "a shared limit", "limit = { rate = \"1000000/s\", burst = 1000000, shared = true }"),
];
/// Redis lets in this part of the requests to the shared limit, at least, or it is not Redis that is measured.
const LEAST_ADMITTED: f64 = 0.9;
/// The status of what is beyond a limit.
const REFUSED: u16 = 429;
/// Programs start and end around each measurement.
const USUAL: Duration = Duration::from_millis(400);
const USUAL_OF_ALL: Duration = Duration::from_secs(2);

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Limits;

impl Experiment for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn title(&self) -> &'static str {
        "Rates that gateways share through one Redis"
    }

    fn hypothesis(&self) -> &'static str {
        "Eight gateways let in at most 2 % more than their rate in any window of a second; a shared limit adds a round trip to Redis, a limit \
         of one gateway nothing that can be told"
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let here = |name: &str, missing| Participant { name: name.into(), what: "both groups".into(), missing };
        vec![here("Pilotlight", None), here("redis-server", redis::missing("shared limits"))]
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        if let Some(missing) = redis::missing("shared limits") {
            return Ok(Plan { skipped: vec![missing], ..Plan::default() });
        }
        let lab = Rc::new(Lab::new(setting, Gateway::usual(Extent::AmongOthers))?);
        // A quick run has no time for windows of a second.
        let shared = (!setting.quick).then(|| shared(&lab));
        let mut groups: Vec<Group> = shared.into_iter().chain([cost(&lab)]).collect();
        let variants = groups.iter_mut().flat_map(|group| &mut group.variants);
        variants.for_each(|variant| variant.software.extend(software("redis-server")));
        Ok(Plan { groups, ..Plan::default() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        for group in results.groups.iter().filter(|group| group.id == BEYOND) {
            results.figures.extend(group.variants.iter().map(|variant| {
                let measured = variant.summary.get(&Metric::WindowBeyondPercent).copied();
                let name = format!("{}, {}: beyond the rate in the worst window", group.title, variant.title);
                Figure::at_most(group, Metric::WindowBeyondPercent, name, (MOST_BEYOND, " %"), measured)
            }));
        }
    }
}

fn shared(lab: &Rc<Lab>) -> Group {
    let with = |budget: &'static str| {
        variant(lab, budget, &format!("a budget of {budget}"), USUAL_OF_ALL, move |lab, amount| {
            let_in(lab, amount, budget)
        })
    };
    Group {
        variants: BUDGETS.map(with).into(),
        amount: Amount { rounds: ROUNDS, duration: WINDOWS, warm_up: Duration::ZERO, ..lab.amount },
        ..group(
            BEYOND,
            &format!("{GATEWAYS} gateways that share a rate"),
            format!(
                "{LIMIT}; {OFFERED} requests/s are due, at equal distances; windows of a second by the clock of Redis; the burst counts as beyond the rate"
            ),
            &[
                Metric::WindowBeyondPercent,
                Metric::SecondBeyondPercent,
                Metric::BeyondPercent,
                Metric::Undecided,
                Metric::LetInAlone,
            ],
        )
    }
}

fn cost(lab: &Rc<Lab>) -> Group {
    let of = |(path, title, _): (&'static str, &str, &str)| {
        variant(lab, path, title, USUAL, move |lab, amount| one_at_a_time(lab, amount, path))
    };
    let ask = |(path, title, _): (&str, &str, &str)| {
        [Metric::P50Ms, Metric::GatewayCpuUs].map(|metric| Question {
            difference: true,
            ..Question::ratio(format!("{}, {title} − no limit", metric.title()), metric, path, NONE)
        })
    };
    Group {
        variants: ROUTES.map(of).into(),
        control: NONE.into(),
        questions: ROUTES.into_iter().skip(1).flat_map(ask).collect(),
        amount: lab.amount,
        ..group(
            "cost",
            "What a limit adds to a request",
            "one request at a time, answered with a redirect of the gateway's own; gateway on one core, load and Redis on another".into(),
            &[Metric::P50Ms, Metric::GatewayCpuUs],
        )
    }
}

/// A gateway that answers with redirects of its own.
struct Redirecting {
    running: Running,
    metrics: SocketAddr,
}

impl Redirecting {
    /// With routes of these paths and limits, once it has heard of Redis.
    fn start(lab: &Lab, core: Option<usize>, redis: &str, routes: &[(&str, &str)]) -> anyhow::Result<Self> {
        let route = |(path, limit): &(&str, &str)| {
            format!("[[routes]]\npath = \"/{path}\"\nredirect = \"https://example.org/\"\n{limit}\n\n")
        };
        let text = format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\nadmin = false\n\n[metrics]\nlisten = \"127.0.0.1:0\"\n\n\
             [cache.redis]\n{redis}\n\n{}",
            routes.iter().map(route).collect::<String>()
        );
        let mut running = Running::start(&lab.scratch, core, &text)?;
        let said = |output: &str| output.split_once("metrics on http://")?.1.split_once("/metrics")?.0.parse().ok();
        let metrics = running.held.wait_until(LISTEN_LIMIT, "it gives metrics", |held| said(&held.output()))?;
        let knows = || text_of(metrics).is_ok_and(|text| text.contains("\npilotlight_cache_coherence_covered 1\n"));
        running.held.wait_until(LISTEN_LIMIT, "it knows Redis", |_| knows().then_some(()))?;
        Ok(Self { running, metrics })
    }

    /// Requests of which Redis said one of these.
    fn counted(&self, results: &[&str]) -> anyhow::Result<u64> {
        let text = text_of(self.metrics)?;
        Ok(results.iter().map(|result| counted(&text, result)).sum())
    }

    fn load(&self, path: &str, pace: Pace, duration: Duration) -> anyhow::Result<Outcome> {
        let load = Load { to: self.running.address.into(), connections: 1, pace, duration };
        let outcome = load::run(&load, Requests::Same { request: get(&format!("/{path}")), body: None })?;
        let is_right = |status: &u16| *status < 400 || *status == REFUSED;
        ensure!(outcome.statuses.keys().all(is_right), "answers of status {:?}", outcome.statuses);
        Ok(outcome)
    }
}

fn text_of(metrics: SocketAddr) -> anyhow::Result<String> {
    let (status, text) = load::ask(metrics, &get("/metrics"))?;
    ensure!(status == 200, "metrics with status {status}");
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn redis_table(redis: &Redis, budget: &str) -> String {
    format!("url = \"{}\"\nbudget = \"{budget}\"", redis.url())
}

/// Each gateway has one connection, on which requests are due at equal distances, whatever has become of those before.
fn let_in(lab: &Lab, amount: Amount, budget: &str) -> anyhow::Result<Sample> {
    let redis = Redis::start(Topology::Standalone)?;
    let start = |_| Redirecting::start(lab, None, &redis_table(&redis, budget), &[("", LIMIT)]);
    let gateways = (0..GATEWAYS).map(start).collect::<anyhow::Result<Vec<_>>>()?;
    let monitor = Monitor::start(&redis)?;
    let windows = amount.duration.as_secs().max(1);
    let (pace, duration) = (Pace::Open { per_second: OFFERED / GATEWAYS }, Duration::from_secs(windows) + MORE);
    let outcomes = thread::scope(|scope| {
        let begin = |gateway| scope.spawn(move || Redirecting::load(gateway, "", pace, duration));
        let loads: Vec<_> = gateways.iter().map(begin).collect();
        let end = |load: thread::ScopedJoinHandle<'_, _>| load.join().unwrap_or_else(|_| bail!("a load panicked"));
        loads.into_iter().map(end).collect::<anyhow::Result<Vec<_>>>()
    })?;
    let refused = |outcome: &Outcome| outcome.statuses.get(&REFUSED).copied().unwrap_or(0);
    let requests: u64 = outcomes.iter().map(|outcome| outcome.answers).sum();
    let answered = requests - outcomes.iter().map(refused).sum::<u64>();
    let mut values = beyond(&monitor.end()?, answered, f64::from(RATE), usize::try_from(windows)?)?;
    let undecided = |gateway: &Redirecting| gateway.counted(&["timeout", "error", "skipped"]);
    let undecided = gateways.iter().map(undecided).sum::<anyhow::Result<u64>>()?;
    values.push((Metric::Undecided, undecided as f64));
    Ok(Sample { values, requests, ..Sample::default() })
}

/// Requests to the route of this path.
fn one_at_a_time(lab: &Lab, amount: Amount, path: &str) -> anyhow::Result<Sample> {
    let redis = cores::on(lab.load_core(), || Redis::start(Topology::Standalone))??;
    let routes = ROUTES.map(|(path, _, limit)| (path, limit));
    let gateway = Redirecting::start(lab, lab.server_core(), &redis_table(&redis, PATIENCE), &routes)?;
    let load = |duration| cores::on(lab.load_core(), || gateway.load(path, Pace::Closed { depth: 1 }, duration))?;
    load(amount.warm_up)?;
    let groups = [("gateway", gateway.running.own_pids()), ("redis", redis.pids())];
    let sample = loads::measured(&groups, || Ok(vec![load(amount.duration)?]))?;
    let admitted = gateway.counted(&["admitted"])?;
    ensure!(
        path != SHARED || admitted as f64 >= LEAST_ADMITTED * sample.requests as f64,
        "Redis has let in only {admitted} of {} requests",
        sample.requests
    );
    Ok(sample)
}
