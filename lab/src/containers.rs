//! `pilotlight lab containers`: what a gateway adds to an engine of containers, beside a bare client that makes the
//! same calls. `docs/lab/containers.md`.

mod engine;

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::experiment::model::{Figure, Metric, Report, Results, Role, Skipped};
use crate::experiment::{Experiment, Extent, Group, Participant, Plan, Question, Sample, Setting, Variant};
use crate::gateway::running::{route, wait};
use crate::gateway::{Gateway, Lab, group, software, variant};
use crate::load::{ask, get};
use crate::processes::usage;
use crate::stats::Times;
use engine::{Engine, IMAGE, PORT};

const ROUNDS: u32 = 20;
/// Answers of each variant in each round.
const TIMES: u32 = 2;
/// Until the program of a container that was started answers, and between two looks for it.
const FIRST_LIMIT: Duration = Duration::from_secs(10);
const FIRST_POLL: Duration = Duration::from_millis(1);
const OURS: &str = "pilotlight";
const BARE: &str = "bare";

type Work = fn(&Lab, &Engine) -> anyhow::Result<Sample>;

/// What is wanted of an engine, by the gateway and by the bare client.
struct Kind {
    id: &'static str,
    title: &'static str,
    metric: Metric,
    /// What the gateway may add to it.
    most_ms: f64,
    /// A way to have it, and how long that usually takes.
    ours: (Work, Duration),
    bare: (Work, Duration),
}

const KINDS: [Kind; 2] = [
    Kind {
        id: "start",
        title: "A request that starts a container: create, start, the first answer",
        metric: Metric::ColdMs,
        most_ms: 5.0,
        ours: (starts, Duration::from_millis(1500)),
        bare: (bare_starts, Duration::from_millis(600)),
    },
    Kind {
        id: "unpause",
        title: "A request that unpauses a container",
        metric: Metric::P50Ms,
        most_ms: 2.0,
        ours: (unpauses, Duration::from_millis(900)),
        bare: (bare_unpauses, Duration::from_millis(400)),
    },
];

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Containers;

impl Experiment for Containers {
    fn name(&self) -> &'static str {
        "containers"
    }

    fn title(&self) -> &'static str {
        "What the gateway adds to an engine of containers"
    }

    fn hypothesis(&self) -> &'static str {
        "The gateway adds at most 5 ms to the start of a container and 2 ms to an unpause, beside a bare client"
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let of =
            |name: &str, what: &str| Participant { name: name.into(), what: what.into(), missing: engine::missing() };
        vec![
            of("Pilotlight", "requests to a service whose container is stopped, or paused"),
            of("a bare client", "the same calls of Podman, with storage and state of its own"),
        ]
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let long = || Skipped::new("containers", "a start takes too long for a quick run", "leave out --quick");
        if let Some(skipped) = engine::missing().or_else(|| setting.quick.then(long)) {
            return Ok(Plan { skipped: vec![skipped], ..Plan::default() });
        }
        let lab = Rc::new(Lab::new(setting, Gateway::usual(Extent::AmongOthers))?);
        let engine = Rc::default();
        Ok(Plan { groups: KINDS.iter().map(|kind| group_of(kind, &lab, &engine)).collect(), ..Plan::default() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        let figure = |kind: &Kind| {
            let group = results.groups.iter().find(|group| group.id == kind.id)?;
            let added = group.comparisons.first()?.value;
            let name = format!("{}: what the gateway adds", kind.id);
            Some(Figure::at_most(group, kind.metric, name, (kind.most_ms, " ms"), added))
        };
        results.figures = KINDS.iter().filter_map(figure).collect();
    }
}

/// An engine that is started when it is first needed, and ends with the last group.
type Shared = OnceCell<Engine>;

fn group_of(kind: &Kind, lab: &Rc<Lab>, engine: &Rc<Shared>) -> Group {
    let of = |id: &str, title: &str, (work, usual): (Work, Duration)| {
        let engine = Rc::clone(engine);
        let work = move |lab: &Lab, _| match engine.get() {
            Some(engine) => work(lab, engine),
            None => {
                let started = Engine::start()?;
                work(lab, engine.get_or_init(|| started))
            }
        };
        variant(lab, id, title, usual, work)
    };
    let mut ours = of(OURS, "through the gateway", kind.ours);
    ours.software.extend(software("podman"));
    let bare = Variant { role: Role::Floor, software: software("podman"), ..of(BARE, "bare calls", kind.bare) };
    let added = Question { difference: true, ..Question::ratio("what the gateway adds", kind.metric, OURS, BARE) };
    Group {
        variants: vec![ours, bare],
        control: OURS.into(),
        questions: vec![added],
        amount: lab.counted(ROUNDS),
        ..group(
            kind.id,
            kind.title,
            format!(
                "{TIMES} a round, on connections of their own; CPU of the gateway: with the stop or pause before each"
            ),
            &[kind.metric, Metric::GatewayCpuUs],
        )
    }
}

/// Requests to a service whose container was removed.
fn starts(lab: &Lab, engine: &Engine) -> anyhow::Result<Sample> {
    through(lab, engine, "idle_timeout = \"100ms\"", Metric::ColdMs, &[])
}

/// Requests to a service whose container is paused.
fn unpauses(lab: &Lab, engine: &Engine) -> anyhow::Result<Sample> {
    through(lab, engine, "idle_timeout = \"1h\"\nfreeze_after = \"100ms\"", Metric::P50Ms, &["paused"])
}

/// Each request as soon as the containers are in these states.
fn through(lab: &Lab, engine: &Engine, keys: &str, metric: Metric, resting: &[&str]) -> anyhow::Result<Sample> {
    let gateway = lab.start_anywhere(&tables(&engine.socket(), keys))?;
    answer(gateway.address)?; // names, caches
    let mut times = Times::new();
    let (_, used) = usage::during(&[("gateway", gateway.own_pids())], || {
        for _ in 0..TIMES {
            wait("the container rests when idle", || engine.states().is_ok_and(|states| states == resting))?;
            let begin = Instant::now();
            answer(gateway.address)?;
            times.record(begin.elapsed());
        }
        Ok(())
    })?;
    let mut sample = sample(metric, times);
    sample.values.push((Metric::GatewayCpuUs, used[0].as_secs_f64() * 1e6 / f64::from(TIMES)));
    Ok(sample)
}

fn tables(socket: &Path, keys: &str) -> String {
    let container = format!("container = {{ image = \"{IMAGE}\", port = {PORT} }}");
    let limits = "start_timeout = \"60s\"\nstop_grace = \"2s\"";
    let service = format!("[services.demo]\n{container}\n{limits}\n{keys}\n\n");
    format!("[containers]\nsocket = {socket:?}\n\n{service}{}", route("/", "demo", "false"))
}

fn bare_starts(_: &Lab, engine: &Engine) -> anyhow::Result<Sample> {
    let mut times = Times::new();
    for _ in 0..TIMES {
        let begin = Instant::now();
        let container = engine.run()?;
        first_answer(container.address)?;
        times.record(begin.elapsed());
        engine.remove(&container)?;
    }
    Ok(sample(Metric::ColdMs, times))
}

fn bare_unpauses(_: &Lab, engine: &Engine) -> anyhow::Result<Sample> {
    let container = engine.run()?;
    first_answer(container.address)?;
    let mut times = Times::new();
    for _ in 0..TIMES {
        engine.post(&container.id, "pause")?;
        let begin = Instant::now();
        engine.post(&container.id, "unpause")?;
        answer(container.address)?;
        times.record(begin.elapsed());
    }
    engine.remove(&container)?;
    Ok(sample(Metric::P50Ms, times))
}

fn sample(metric: Metric, times: Times) -> Sample {
    let (values, requests) = (vec![(metric, times.median_ms())], times.count());
    Sample { values, requests, times: Some(times), ..Sample::default() }
}

/// As soon as its program listens.
fn first_answer(address: SocketAddr) -> anyhow::Result<()> {
    let end = Instant::now() + FIRST_LIMIT;
    loop {
        match answer(address) {
            Err(_) if Instant::now() < end => std::thread::sleep(FIRST_POLL),
            done => return done,
        }
    }
}

/// Of the image's program, which says whose instance it is.
fn answer(address: SocketAddr) -> anyhow::Result<()> {
    let (status, body) = ask(address, &get("/"))?;
    ensure!(
        status == 200 && body.starts_with(b"hello from"),
        "answered with {status}: {}",
        String::from_utf8_lossy(&body)
    );
    Ok(())
}
