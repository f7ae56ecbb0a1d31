//! Starts of services: from a zygote and from nothing, thawed, under load, and behind bounds.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::running::{REQUEST, Running, body, own_service, route, service, wait};
use super::{Lab, PYTHON, ROUNDS, SECOND, group, software, variant};
use crate::experiment::model::Metric;
use crate::experiment::{Group, Question, Sample};
use crate::processes::usage;
use crate::service::SERVICE;
use crate::stats::median;

const IDLE: &str = "idle_timeout = \"200ms\"";
/// A zygote makes its next fork 100 ms after the last.
const ZYGOTE_IDLE: &str = "idle_timeout = \"250ms\"";
const FREEZE: &str = "freeze_after = \"100ms\"";
const THAWS: usize = 30;
const IMPORTS: &str = "imports.py";
/// What a service is, its arguments, and what its zygote imports.
const IMPORTING: [(&str, &str, &[&str], &str); 2] = [
    ("flask", "Flask application", &["-m", "pilotlight.wsgi", "flask_app:app"], "flask_app"),
    ("imports", "300 ms of imports", &[IMPORTS], "heavy"),
];

pub(super) fn zygote(lab: &Rc<Lab>, python: &str) -> Group {
    let each = IMPORTING.iter().flat_map(|of| [(of, true), (of, false)]);
    let variants = each.map(|((id, title, words, module), forked)| {
        let (id, way) = if forked { ((*id).to_owned(), "zygote") } else { (format!("{id}-executed"), "executed") };
        let command: Vec<String> = std::iter::once(python).chain(words.iter().copied()).map(str::to_owned).collect();
        let preload = if forked { format!("preload = [\"{module}\"]\n") } else { String::new() };
        let work =
            move |lab: &Lab, _| starts(lab, &command, &format!("{preload}{ZYGOTE_IDLE}"), if forked { 2 } else { 0 });
        let mut variant = variant(lab, &id, &format!("{title}, {way}"), SECOND * lab.of.starts * 2 / 3, work);
        variant.software.extend(software("python3"));
        variant
    });
    Group {
        variants: variants.collect(),
        amount: lab.counted(super::FEW_ROUNDS),
        ..group(
            "zygote",
            "Starts of Python services that import much",
            format!("request to first byte of {} starts, forked from a zygote or executed", lab.of.starts),
            &[Metric::P50Ms, Metric::MaxMs],
        )
    }
}

fn importing(lab: &Lab, command: &[String], more: &str) -> anyhow::Result<Running> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let (dir, sdk) = (lab.file("lab/peers/http/pipe"), lab.file("sdk/python"));
    let more = format!("{more}\ndir = {dir:?}\nenv = {{ PYTHONPATH = {sdk:?} }}");
    lab.start_anywhere(&(service("imports", &words, &more) + &route("/", "imports", "false")))
}

/// The service answers with its process id, so that an answer is known to come from a fresh process.
fn starts(lab: &Lab, command: &[String], more: &str, resting: usize) -> anyhow::Result<Sample> {
    let gateway = importing(lab, command, more)?;
    let (mut times, mut seen) = (Vec::new(), BTreeSet::new());
    for number in 0..=lab.of.starts {
        wait("the zygote and its next fork are all that is left", || gateway.service_pids().len() == resting)?;
        let answered = gateway.ask()?;
        let pid: u32 = answered.body.parse().context("it is to answer with its process id")?;
        ensure!(seen.insert(pid), "process {pid} answered two starts");
        // The first finds cold files.
        if number > 0 {
            times.push(answered.first_byte_ms);
        }
        wait("it is stopped when idle", || !usage::runs(pid))?;
    }
    Ok(times_of(&[(Metric::P50Ms, Metric::MaxMs, &times)]))
}

/// Medians and the longest of times in milliseconds.
fn times_of(all: &[(Metric, Metric, &[f64])]) -> Sample {
    let most = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let of = |(middle, longest, times): &(Metric, Metric, &[f64])| {
        [(*middle, median(times).unwrap_or_default()), (*longest, most(times))]
    };
    Sample { values: all.iter().flat_map(of).collect(), requests: all.len() as u64, ..Sample::default() }
}

pub(super) const FROZEN: &str = "frozen";
pub(super) const WARM: &str = "warm";

pub(super) fn frozen(lab: &Rc<Lab>, python: &str) -> Group {
    let variant = |(id, title): (&str, &str), is_frozen: bool| {
        let command = [python, IMPORTS].map(str::to_owned);
        let mut variant = variant(lab, id, title, SECOND * 8, move |lab, _| thaws(lab, &command, is_frozen));
        variant.software.extend(software("python3"));
        variant
    };
    Group {
        variants: vec![
            variant((FROZEN, "requests to a frozen Python service"), true),
            variant((WARM, "requests that follow them, to the same process"), false),
        ],
        amount: lab.counted(super::FEW_ROUNDS),
        ..group(
            "frozen",
            "Requests to a frozen service",
            format!(
                "request to first byte of {THAWS} requests, each after 100 ms of silence; the warm ones follow at once"
            ),
            &[Metric::P50Ms, Metric::MaxMs],
        )
    }
}

fn thaws(lab: &Lab, command: &[String], is_frozen: bool) -> anyhow::Result<Sample> {
    let gateway = importing(lab, command, FREEZE)?;
    let first: u32 = gateway.ask()?.body.parse().context("it is to answer with its process id")?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..THAWS {
        wait("it is frozen when idle", || usage::state(first) == Some('T'))?;
        for times in &mut times {
            let answered = gateway.ask()?;
            ensure!(answered.body == first.to_string(), "process {} answered for {first}", answered.body);
            times.push(answered.first_byte_ms);
        }
    }
    Ok(times_of(&[(Metric::P50Ms, Metric::MaxMs, &times[usize::from(!is_frozen)])]))
}

const READY_AFTER_MS: [u64; 3] = [20, 100, 300];

pub(super) fn ready(lab: &Rc<Lab>) -> Group {
    let each = READY_AFTER_MS.iter().flat_map(|ms| [("rust", "Rust", *ms), ("python", "Python", *ms)]);
    let variants = each.map(|(id, title, ms)| {
        let title = format!("{title}, ready after {ms} ms");
        let usual = Duration::from_millis((ms + 350) * u64::from(lab.of.starts));
        let mut variant = variant(lab, &format!("{id}-{ms}"), &title, usual, move |lab, _| becomes_ready(lab, id, ms));
        if id == "python" {
            variant.software.extend(software("python3"));
        }
        variant
    });
    Group {
        variants: variants.collect(),
        amount: lab.counted(super::FEW_ROUNDS),
        ..group(
            "ready",
            "A service becomes ready while a request waits",
            format!(
                "{} starts; times are from readiness, p50 and slowest to the first byte at the client",
                lab.of.starts
            ),
            &[Metric::HandlerMs, Metric::HandlerMaxMs, Metric::P50Ms, Metric::MaxMs],
        )
    }
}

/// A service that is ready so many milliseconds after its start.
fn late(lab: &Lab, language: &str, ms: u64, more: &str) -> String {
    let (file, ms) = (lab.file("lab/peers/http/pipe/late.py"), ms.to_string());
    let command = if language == "rust" {
        vec![lab.service.as_str(), SERVICE, "pipe-late", &ms]
    } else {
        vec![PYTHON, &file, &ms]
    };
    service("late", &command, &format!("transport = \"pipe\"\n{IDLE}\n{more}")) + &route("/", "late", "false")
}

fn becomes_ready(lab: &Lab, language: &str, ms: u64) -> anyhow::Result<Sample> {
    let gateway = lab.start_anywhere(&late(lab, language, ms, ""))?;
    let (mut handler, mut client) = (Vec::new(), Vec::new());
    for _ in 0..lab.of.starts {
        gateway.wait_until_stopped()?;
        let answered = gateway.ask()?;
        let (ready, began) = answered.body.split_once(' ').context("two times were to be answered")?;
        let (ready, began): (i64, i64) = (ready.parse()?, began.parse()?);
        handler.push((began - ready) as f64 / 1e6);
        client.push((answered.at_ns - ready) as f64 / 1e6);
    }
    let handler = (Metric::HandlerMs, Metric::HandlerMaxMs, handler.as_slice());
    Ok(times_of(&[handler, (Metric::P50Ms, Metric::MaxMs, &client)]))
}

const BURST: usize = 1000;
pub(super) const MAX_INSTANCES: f64 = 4.0;

pub(super) fn burst(lab: &Rc<Lab>) -> Group {
    let mut variant = variant(lab, "burst", "1,000 first requests", SECOND * 2, |lab, _| burst_of(lab));
    variant.software.extend(software("python3"));
    Group {
        variants: vec![variant],
        amount: lab.counted(super::FEW_ROUNDS),
        ..group(
            "burst",
            "1,000 first requests at once",
            format!(
                "to a service that is ready after 500 ms: concurrency 100, at most {MAX_INSTANCES} instances; slowest: until all are answered"
            ),
            &[Metric::Instances, Metric::MaxMs],
        )
    }
}

fn burst_of(lab: &Lab) -> anyhow::Result<Sample> {
    let bounds = format!("concurrency = 100\nmax_instances = {MAX_INSTANCES}");
    let gateway = lab.start_anywhere(&late(lab, "python", 500, &bounds))?;
    let (mut sockets, begin) = (Vec::with_capacity(BURST), Instant::now());
    for _ in 0..BURST {
        let mut socket = gateway.dial()?;
        socket.write_all(REQUEST)?;
        sockets.push(socket);
    }
    // Each instance says when it was ready.
    let mut instances = BTreeSet::new();
    for socket in sockets {
        let said = body(Vec::new(), socket)?;
        instances.extend(said.split_once(' ').map(|(ready, _)| ready.to_owned()));
    }
    let took_ms = begin.elapsed().as_secs_f64() * 1e3;
    let values = vec![(Metric::Instances, instances.len() as f64), (Metric::MaxMs, took_ms)];
    Ok(Sample { values, requests: BURST as u64, ..Sample::default() })
}

pub(super) const UNBOUND: &str = "none";

/// What limits, secrets and the sandbox add to a start of the Rust service, which is the shortest and shows most.
pub(super) fn bounds(lab: &Rc<Lab>) -> anyhow::Result<Group> {
    let dir = super::running::new_folder(&lab.scratch)?.keep();
    let secret = dir.join("secret");
    fs::write(&secret, "open sesame").with_context(|| format!("cannot write {}", secret.display()))?;
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let sandbox = format!("sandbox = \"strict\"\ndir = {dir:?}");
    let mut kinds = vec![
        (UNBOUND, "none", String::new()),
        ("limits", "limits", "limits.open_files = 1024\nlimits.core = \"0B\"".to_owned()),
        ("secret", "a secret", format!("secrets.KEY = {secret:?}")),
        ("sandbox", "sandbox", sandbox.clone()),
    ];
    if rustix::process::geteuid().is_root() {
        kinds.push(("group", "sandbox, another group", format!("{sandbox}\ngroup = 65534")));
    }
    let more = |(id, title, _): &(&str, &str, String)| Question {
        difference: true,
        ..Question::ratio(format!("what it adds to a cold start: {title}"), Metric::ColdMs, *id, UNBOUND)
    };
    let questions = kinds.iter().skip(1).map(more).collect();
    let usual = Duration::from_millis(300) * lab.of.starts;
    let variant =
        |(id, title, keys): (&str, &str, String)| variant(lab, id, title, usual, move |lab, _| bounded(lab, &keys));
    Ok(Group {
        variants: kinds.into_iter().map(variant).collect(),
        control: UNBOUND.into(),
        questions,
        amount: lab.counted(ROUNDS),
        ..group(
            "bounds",
            "What the bounds of a service cost its cold start",
            format!("request to first byte, median of {} cold starts of the Rust service", lab.of.starts),
            &[Metric::ColdMs],
        )
    })
}

fn bounded(lab: &Lab, keys: &str) -> anyhow::Result<Sample> {
    let gateway = lab.start_anywhere(&own_service(&lab.service, &["pipe"], &format!("{IDLE}\n{keys}")))?;
    gateway.ask()?;
    let mut times = Vec::new();
    for _ in 0..lab.of.starts {
        gateway.wait_until_stopped()?;
        times.push(gateway.ask()?.first_byte_ms);
    }
    let cold = median(&times).context("no start")?;
    Ok(Sample { values: vec![(Metric::ColdMs, cold)], requests: times.len() as u64, ..Sample::default() })
}
