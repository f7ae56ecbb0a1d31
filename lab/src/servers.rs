//! `pilotlight lab servers`: several servers of one service. What a request waits for when one of them is ten times
//! slower, beside HAProxy's leastconn; what is lost when one of them is killed, and how soon it is left out.
//! `docs/lab/servers.md`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::cache::gateways::template;
use crate::experiment::model::{Figure, GroupResults, Metric, Report, Results, Role, Skipped, Software, Summary};
use crate::experiment::{Amount, Experiment, Extent, Group, Participant, Plan, Question, Sample, Setting, Variant};
use crate::gateway::running::{Running, listening_service, route};
use crate::gateway::{Gateway, Lab, group, loads, variant};
use crate::load::{self, Load, Pace, Requests, get};
use crate::processes::{Held, Program, find_program, first_line, usage};
use crate::transport::target::{LISTEN_LIMIT, free_address, listens};

/// What `--help` says below the options.
pub(crate) const HELP: &str = "Examples:
  pilotlight lab servers                             a slow server beside HAProxy, and a killed one; a minute and a half
  pilotlight lab servers --groups slow --rounds 7 --secs 3
  pilotlight lab servers --quick                     does everything work?

Nothing else should run meanwhile. Everything that is started ends with it.";

/// Each has one connection and sends its next request when it has its answer.
const CLIENTS: usize = 24;
/// What the servers wait before they answer, in milliseconds.
const ONE_SLOW: [&str; 3] = ["5", "5", "50"];
const ALL_QUICK: [&str; 3] = ["5"; 3];
const SLOW: &str = "slow";
const KILLED: &str = "killed";
const OWN: &str = "pilotlight";
const PEER: &str = "haproxy";
const HAPROXY: &str = include_str!("../peers/gateways/haproxy-servers.cfg");
/// Four programs start and end around each measurement.
const USUAL: Duration = Duration::from_millis(300);
/// The load on servers of which one is killed lasts at least so long, so that there is one after the kill.
const LEAST_LOAD: Duration = Duration::from_millis(500);
/// What the gateway logs when it leaves a server out, and how long that is waited for.
const LEFT_OUT: &str = "the server is left out";
const LEFT_OUT_LIMIT: Duration = Duration::from_secs(10);
const MOST_TIMES_PEER: f64 = 1.0;
const MOST_NOTICED_MS: f64 = 1000.0;

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Servers;

impl Experiment for Servers {
    fn name(&self) -> &'static str {
        "servers"
    }

    fn title(&self) -> &'static str {
        "Several servers of one service: one is slow, one is killed"
    }

    fn hypothesis(&self) -> &'static str {
        "With one of three servers ten times slower, 99 % of requests wait no longer than with HAProxy's leastconn; when one is killed no \
         request fails, and it is left out within a second"
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let here = |name: &str, what: &str, missing| Participant { name: name.into(), what: what.into(), missing };
        vec![here("Pilotlight", "both groups", None), here("HAProxy", "a slow server", Haproxy::find().err())]
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let lab = Rc::new(Lab::new(setting, Gateway::usual(Extent::AmongOthers))?);
        let (peer, skipped) = match Haproxy::find() {
            Ok(peer) => (Some(peer), Vec::new()),
            Err(missing) => (None, vec![missing]),
        };
        Ok(Plan { groups: vec![slow(&lab, peer), killed(&lab)], skipped, ..Plan::default() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        results.figures = results.groups.iter().flat_map(figures).collect();
    }
}

fn slow(lab: &Rc<Lab>, peer: Option<Haproxy>) -> Group {
    let own = variant(lab, OWN, "Pilotlight, least requests of two", USUAL, |lab, amount| {
        let servers = start(lab, ONE_SLOW)?;
        let gateway = pilotlight(lab, &servers)?;
        under_load(gateway.address, gateway.own_pids(), amount)
    });
    let ask = |metric: Metric| {
        Question::ratio(format!("{} of a request, Pilotlight / HAProxy", metric.title()), metric, OWN, PEER)
    };
    Group {
        questions: peer.iter().flat_map(|_| [Metric::P99Ms, Metric::P50Ms].map(ask)).collect(),
        variants: [own].into_iter().chain(peer.map(|peer| peer.variant(lab))).collect(),
        control: OWN.into(),
        amount: lab.amount,
        ..group(
            SLOW,
            "One of three servers is ten times slower",
            format!(
                "servers wait 5, 5 and 50 ms; {CLIENTS} clients, one request in flight each; two workers, two threads"
            ),
            &[Metric::P99Ms, Metric::P50Ms, Metric::PerSecond, Metric::GatewayCpuUs],
        )
    }
}

fn killed(lab: &Rc<Lab>) -> Group {
    Group {
        variants: vec![variant(lab, OWN, "Pilotlight", USUAL + LEAST_LOAD, one_killed)],
        amount: lab.amount,
        ..group(
            KILLED,
            "One of three servers is killed under load",
            format!(
                "servers wait 5 ms; {CLIENTS} clients, one request in flight each; SIGKILL after a third of the time"
            ),
            &[Metric::Failed, Metric::NoticedMs],
        )
    }
}

/// HAProxy, if it is here.
struct Haproxy {
    program: PathBuf,
    software: Software,
}

impl Haproxy {
    fn find() -> Result<Self, Skipped> {
        let missing = |why: &str| Skipped::new("HAProxy's leastconn", why, "apt install haproxy");
        let program = find_program("haproxy").ok_or_else(|| missing("there is no haproxy here"))?;
        let version = first_line(program.as_os_str(), &["-v"]).ok_or_else(|| missing("haproxy does not run"))?;
        Ok(Self { program, software: Software { name: PEER.into(), version, settings: template::settings(HAPROXY) } })
    }

    fn variant(self, lab: &Rc<Lab>) -> Variant {
        let program = self.program;
        let own = variant(lab, PEER, "HAProxy, leastconn", USUAL, move |lab, amount| {
            let servers = start(lab, ONE_SLOW)?;
            let (held, address) = haproxy(&lab.scratch, &program, &servers)?;
            let pids = usage::tree(held.pid()).into_iter().map(|process| process.pid).collect();
            under_load(address, pids, amount)
        });
        Variant { role: Role::Peer, software: vec![self.software], ..own }
    }
}

/// What answers, and where.
type Started = (Held, SocketAddr);

fn start(lab: &Lab, pauses_ms: [&str; 3]) -> anyhow::Result<Vec<Started>> {
    let server = |(at, ms)| listening_service(&format!("server-{at}"), &lab.scratch, &["http-tcp", ms]);
    pauses_ms.into_iter().enumerate().map(server).collect()
}

fn pilotlight(lab: &Lab, servers: &[Started]) -> anyhow::Result<Running> {
    let urls: Vec<String> = servers.iter().map(|(_, address)| format!("http://{address}")).collect();
    // JSON's lists are TOML's as well.
    let text = format!(
        "listen = \"127.0.0.1:0\"\nworkers = 2\n\n[services.app]\nurl = {}\n\n{}",
        serde_json::json!(urls),
        route("/", "app", "false")
    );
    Running::start(&lab.scratch, None, &text)
}

fn haproxy(dir: &Path, program: &Path, servers: &[Started]) -> anyhow::Result<Started> {
    let (address, file) = (free_address()?, dir.join("haproxy.cfg"));
    let mut values = vec![("address", address.to_string())];
    values.extend(["one", "two", "three"].into_iter().zip(servers).map(|(name, (_, at))| (name, at.to_string())));
    fs::write(&file, template::fill(HAPROXY, &values)?).with_context(|| format!("cannot write {}", file.display()))?;
    let program = Program {
        name: PEER.into(),
        command: vec![program.into(), "-db".into(), "-f".into(), file.into()],
        dir: dir.to_owned(),
        output: dir.join("haproxy.output"),
    };
    let mut held = program.start()?;
    held.wait_until(LISTEN_LIMIT, "it listens", |_| listens(address).then_some(()))?;
    Ok((held, address))
}

fn asked() -> Requests {
    Requests::Same { request: get("/"), body: None }
}

fn under_load(address: SocketAddr, pids: Vec<u32>, amount: Amount) -> anyhow::Result<Sample> {
    let load = |duration| loads::ask(None, address, CLIENTS, duration, asked());
    load(amount.warm_up)?;
    loads::measured(&[("gateway", pids)], || Ok(vec![load(amount.duration)?]))
}

fn one_killed(lab: &Lab, amount: Amount) -> anyhow::Result<Sample> {
    let servers = start(lab, ALL_QUICK)?;
    let mut gateway = pilotlight(lab, &servers)?;
    let (to, duration) = (gateway.address.into(), amount.duration.max(LEAST_LOAD));
    let load = Load { to, connections: CLIENTS, pace: Pace::Closed { depth: 1 }, duration };
    let (outcome, noticed) = thread::scope(|scope| {
        let loading = scope.spawn(|| load::run(&load, asked()));
        thread::sleep(duration / 3);
        let begun = Instant::now();
        servers[0].0.kill()?;
        let is_left_out = |held: &Held| held.output().contains(LEFT_OUT).then(|| begun.elapsed());
        let noticed = gateway.held.wait_until(LEFT_OUT_LIMIT, "it leaves the killed server out", is_left_out)?;
        let outcome = loading.join().unwrap_or_else(|_| bail!("the load panicked"))?;
        anyhow::Ok((outcome, noticed))
    })?;
    let good = outcome.statuses.get(&200).copied().unwrap_or(0);
    let values =
        vec![(Metric::Failed, (outcome.answers - good) as f64), (Metric::NoticedMs, noticed.as_secs_f64() * 1e3)];
    Ok(Sample { values, requests: outcome.answers, times: Some(outcome.times), ..Sample::default() })
}

fn figures(group: &GroupResults) -> Vec<Figure> {
    if group.id == SLOW {
        let p99 = group.comparisons.iter().filter(|asked| asked.metric == Metric::P99Ms);
        let name = "one of three servers ten times slower: p99 / HAProxy's leastconn";
        let figure = |value| Figure::at_most(group, Metric::P99Ms, name.into(), (MOST_TIMES_PEER, " ×"), value);
        return p99.map(|asked| figure(asked.value)).collect();
    }
    let Some(own) = group.variants.first() else { return Vec::new() };
    // All rounds together: their median would hide one in which requests failed.
    let failed: f64 = own.rounds.iter().filter_map(|round| round.get(&Metric::Failed)).sum();
    let measured = own.failed.is_none().then_some(Summary { median: failed, low: failed, high: failed });
    let none_failed = Figure {
        name: "one of three servers killed: failed requests".into(),
        wanted: format!("0 of {}", own.requests),
        measured,
        rounds: Vec::new(),
        met: measured.map(|_| failed < 1.0),
    };
    let noticed = own.summary.get(&Metric::NoticedMs).copied();
    let name = "the same: until it is left out".into();
    vec![none_failed, Figure::at_most(group, Metric::NoticedMs, name, (MOST_NOTICED_MS, " ms"), noticed)]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn haproxy_accepts_its_configuration() {
        let Ok(haproxy) = Haproxy::find() else { return };
        let values = ["address", "one", "two", "three"].map(|name| (name, "127.0.0.1:9".to_owned()));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, template::fill(HAPROXY, &values).expect("whole")).expect("written");
        let done = Command::new(haproxy.program).args(["-c", "-f"]).arg(&file).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && !said.contains("[WARNING]"), "{said}");
    }
}
