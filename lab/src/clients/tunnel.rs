//! `pilotlight lab tunnel`: redis-benchmark through `pilotlight redis tunnel` beside redis-benchmark at the servers,
//! and through a bare relay. `docs/lab/tunnel.md`.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::benchmark::Run;
use super::program::Counted;
use super::variant::version_of;
use super::{SERVERS_LIMIT, tool};
use crate::command::Common;
use crate::experiment::model::{GroupResults, Metric, Report, Results, Role, Skipped, Software, VariantResults};
use crate::experiment::{Amount, Experiment, Group, Measure, Participant, Plan, Question, Sample, Setting, Variant};
use crate::processes::{Held, Program, gateway_program, own_program, usage};
use crate::rest::redis::{Redis, Topology};
use crate::service::{RELAY, SERVICE};

const ROUNDS: u32 = 8;
/// Commands of a measurement; one caller alone sends a fiftieth.
const REQUESTS: u64 = 1_000_000;
const QUICK: u64 = 20_000;
const ALONE: u64 = 50;
/// A machine that does fewer in a second hangs.
const LEAST_PER_SECOND: u64 = 2_000;
const START_LIMIT: Duration = Duration::from_secs(30);
/// For redis-benchmark as well, as a number of threads.
const PRIMARIES: &str = "3";
const DIRECT: &str = "direct";

/// What `pilotlight lab tunnel` takes.
#[derive(Args, Clone, Debug)]
pub struct TunnelArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Programs whose tunnels are measured beside each other, instead of the one that is measured otherwise
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    binaries: Vec<PathBuf>,
    /// Commands of each measurement
    #[arg(long, value_name = "N", default_value_t = REQUESTS, value_parser = clap::value_parser!(u64).range(ALONE..=100_000_000))]
    requests: u64,
}

/// The experiment.
#[derive(Clone, Debug)]
pub struct Tunnel {
    binaries: Vec<PathBuf>,
    requests: u64,
}

impl Tunnel {
    /// What was asked for.
    #[must_use]
    pub fn asked(arguments: &TunnelArguments) -> Self {
        Self { binaries: arguments.binaries.clone(), requests: arguments.requests }
    }

    /// As it is where nothing else is asked for.
    #[must_use]
    pub fn usual() -> Self {
        Self { binaries: Vec::new(), requests: REQUESTS }
    }

    /// Everybody of a group, in the order of its tables.
    fn ways(&self) -> anyhow::Result<Vec<Way>> {
        let binaries = match &self.binaries[..] {
            [] => vec![gateway_program()?],
            given => given.iter().map(std::path::absolute).collect::<Result<_, _>>()?,
        };
        let binaries = binaries.into_iter().enumerate();
        Ok([Way::Direct, Way::Relay].into_iter().chain(binaries.map(|(at, binary)| Way::Tunnel(at, binary))).collect())
    }
}

/// Behind what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    One,
    Three,
}

impl Setup {
    const ALL: [Self; 2] = [Self::One, Self::Three];

    fn id(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Three => "three",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::One => "one server",
            Self::Three => "three primaries",
        }
    }

    fn servers(self) -> usize {
        if self == Self::One { 1 } else { 3 }
    }
}

const TESTS: [&str; 2] = ["get", "set"];

/// What commands go through.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    /// To one server.
    Relay,
    /// Of which binary.
    Tunnel(usize, PathBuf),
}

impl Way {
    fn id(&self) -> String {
        match self {
            Self::Direct => DIRECT.into(),
            Self::Relay => "relay".into(),
            Self::Tunnel(0, _) => "pilotlight".into(),
            Self::Tunnel(at, _) => format!("pilotlight-{}", at + 1),
        }
    }

    fn title(&self) -> String {
        match self {
            Self::Direct => "at the servers".into(),
            Self::Relay => "a bare relay to one server".into(),
            Self::Tunnel(_, binary) => format!("the tunnel of {}", binary.display()),
        }
    }

    fn variant(&self, setup: Setup, test: &'static str, requests: u64, all: &Shared, setting: &Setting) -> Variant {
        let of = |name: &str, version: String| Software { name: name.into(), version, settings: Vec::new() };
        let software =
            vec![of("redis-server", version_of("redis-server")), of("redis-benchmark", version_of("redis-benchmark"))];
        let dir = setting.scratch.join(format!("tunnel-{}-{test}-{}", setup.id(), self.id()));
        let measure = Through { way: self.clone(), setup, test, requests, servers: all.clone(), dir, running: None };
        Variant {
            id: self.id(),
            title: self.title(),
            role: if matches!(self, Self::Tunnel(..)) { Role::Subject } else { Role::Floor },
            software,
            measure: Box::new(measure),
        }
    }
}

impl Experiment for Tunnel {
    fn name(&self) -> &'static str {
        "tunnel"
    }

    fn title(&self) -> &'static str {
        "The tunnel to Redis beside the servers themselves"
    }

    fn hypothesis(&self) -> &'static str {
        "Where all programs share two cores, six to eight tenths of the direct throughput are left through it; a part of the rest is the sharing"
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let of = |setup: Setup| Participant {
            name: setup.id().into(),
            what: format!("{} behind the tunnel", setup.title()),
            missing: missing(),
        };
        Setup::ALL.map(of).into()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let skipped = |skipped| Ok(Plan { skipped: vec![skipped], ..Plan::default() });
        if let Some(missing) = missing() {
            return skipped(missing);
        }
        let (ways, mut groups) = (self.ways()?, Vec::new());
        let requests = if setting.quick { QUICK } else { self.requests };
        for setup in Setup::ALL {
            for test in TESTS {
                groups.push(group(setup, test, &ways, requests, setting));
            }
        }
        Ok(Plan { groups, ..Plan::default() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        results.findings = results.groups.iter().flat_map(with_a_core_each).collect();
    }
}

fn missing() -> Option<Skipped> {
    [tool::OURS, tool::BENCHMARK].iter().find_map(|who| tool::missing(who, None))
}

fn group(setup: Setup, test: &'static str, ways: &[Way], requests: u64, setting: &Setting) -> Group {
    let servers = Shared::default();
    let tunnels = || ways.iter().filter(|way| matches!(way, Way::Tunnel(..)));
    let question = |(metric, difference): (Metric, bool), one: &Way, other: &Way| Question {
        text: format!("{}, {} {} {}", metric.title(), one.title(), if difference { "−" } else { "/" }, other.title()),
        metric,
        one: one.id(),
        other: other.id(),
        difference,
    };
    let asked = [(Metric::CpuUs, false), (Metric::PerSecond, false), (Metric::P50Ms, true)];
    let mut questions = Vec::new();
    for one in tunnels() {
        let others = ways.iter().filter(|way| matches!(way, Way::Direct | Way::Tunnel(0, _)) && *way != one);
        questions.extend(others.flat_map(|other| asked.map(|asked| question(asked, one, other))));
    }
    let cluster = if setup == Setup::One {
        ""
    } else {
        "; at the servers with --cluster, through the tunnel with as many threads"
    };
    Group {
        id: format!("{}-{test}", setup.id()),
        title: format!("{} of 64 bytes, {}", test.to_uppercase(), setup.title()),
        workload: format!(
            "redis-benchmark, 50 clients that pipeline 16, {requests} commands: throughput, and CPU time of a command, of all programs together; \
             p50 is of one client without pipelining, {} commands{cluster}",
            requests / ALONE
        ),
        metrics: vec![Metric::CpuUs, Metric::PerSecond, Metric::P50Ms],
        variants: ways.iter().map(|way| way.variant(setup, test, requests, &servers, setting)).collect(),
        control: tunnels().next().map(Way::id).unwrap_or_default(),
        questions,
        amount: Amount { rounds: ROUNDS, duration: Duration::ZERO, warm_up: Duration::ZERO, seed: setting.seed },
    }
}

/// What is behind the tunnel, and one server for the relay: the same where that is all.
struct Servers {
    behind: Redis,
    single: Option<Redis>,
}

type Shared = Rc<RefCell<Option<Servers>>>;

impl Servers {
    fn start(setup: Setup) -> anyhow::Result<Self> {
        let single = || Redis::start(Topology::Standalone);
        Ok(match setup {
            Setup::One => Self { behind: single()?, single: None },
            Setup::Three => Self { behind: Redis::start_cluster(setup.servers(), &[])?, single: Some(single()?) },
        })
    }

    fn single(&self) -> &Redis {
        self.single.as_ref().unwrap_or(&self.behind)
    }

    fn pids(&self) -> Vec<u32> {
        let single = self.single.as_ref().map(Redis::pids).unwrap_or_default();
        self.behind.pids().into_iter().chain(single).collect()
    }
}

/// redis-benchmark, and what its commands go through.
struct Through {
    way: Way,
    setup: Setup,
    test: &'static str,
    requests: u64,
    servers: Shared,
    dir: PathBuf,
    running: Option<(Option<Held>, u16)>,
}

impl Measure for Through {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        self.fill()?;
        let shared = Rc::clone(&self.servers);
        let servers = shared.borrow();
        let servers = servers.as_ref().context("the servers did not start")?;
        if self.running.is_none() {
            self.running = Some(self.start(servers)?);
        }
        let (held, port) = self.running.as_ref().context("nothing runs")?;
        let middle: Vec<u32> = held.iter().map(Held::pid).collect();
        let (servers, through) = (servers.pids(), || (usage::user_and_kernel(&middle), usage::cpu_time(&middle)));
        let (([user, kernel], used), served) = (through(), usage::cpu_time(&servers));
        let counted = self.run(*port, ("50", "16"), self.requests)?;
        let (([user_after, kernel_after], used_after), served_after) = (through(), usage::cpu_time(&servers));
        let alone = self.run(*port, ("1", "1"), self.requests / ALONE)?;
        let of_command =
            |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6 / self.requests as f64;
        let between = of_command(used, used_after);
        let (load, served) = (counted.cpu_us, of_command(served, served_after));
        let parts = [
            ("in between", between),
            ("user space", of_command(user, user_after)),
            ("kernel", of_command(kernel, kernel_after)),
            ("load", load),
            ("servers", served),
        ];
        Ok(Sample {
            values: vec![
                (Metric::CpuUs, between + load + served),
                (Metric::PerSecond, counted.ops_s),
                (Metric::P50Ms, alone.p50 / 1000.0),
            ],
            cpu_us: parts.map(|(name, us)| (name.to_owned(), us)).into(),
            requests: self.requests,
            ..Sample::default()
        })
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        let dir = self.dir.with_extension("again");
        let (way, servers) = (self.way.clone(), Rc::clone(&self.servers));
        Some(Box::new(Self { way, servers, dir, running: None, ..*self }))
    }

    fn beside(&self, _: Amount) -> Duration {
        Duration::from_micros(self.requests * 2)
    }

    fn limit(&self, _: Amount) -> Duration {
        SERVERS_LIMIT + 3 * limit(self.requests)
    }
}

fn limit(requests: u64) -> Duration {
    START_LIMIT + Duration::from_secs(requests / LEAST_PER_SECOND)
}

impl Through {
    /// Starts the servers, with every key that is asked for.
    fn fill(&self) -> anyhow::Result<()> {
        if self.servers.borrow().is_some() {
            return Ok(());
        }
        let servers = Servers::start(self.setup)?;
        let all = [Some(&servers.behind), servers.single.as_ref()];
        for redis in all.into_iter().flatten() {
            let cluster: &[&str] = if redis.topology() == Topology::Cluster { &["--cluster"] } else { &[] };
            let words = [&["-t", "set", "-P", "64", "-d", "64", "-r", "100000"], cluster].concat();
            let (port, count) = (redis.port(), REQUESTS);
            Run { port, count, limit: limit(count), dir: &self.dir, words: &words }.counted().context("its keys")?;
        }
        *self.servers.borrow_mut() = Some(servers);
        Ok(())
    }

    /// What stands in between, and the port to ask.
    fn start(&self, servers: &Servers) -> anyhow::Result<(Option<Held>, u16)> {
        let port = servers.behind.port().to_string();
        let held = |command: Vec<OsString>| {
            Program { name: self.way.id(), command, dir: self.dir.clone(), output: self.dir.join("output") }.start()
        };
        match &self.way {
            Way::Direct => Ok((None, servers.behind.port())),
            Way::Relay => {
                let to = format!("127.0.0.1:{}", servers.single().port());
                let mut held = held(vec![own_program()?.into(), SERVICE.into(), RELAY.into(), to.into()])?;
                let port = held.listening(START_LIMIT)?.port();
                Ok((Some(held), port))
            }
            Way::Tunnel(_, binary) => {
                let mut command: Vec<OsString> = vec![binary.into()];
                if binary.file_name().is_none_or(|name| name != "pilotlight-redis") {
                    command.push("redis".into());
                }
                command.extend(["tunnel", "--listen", "0", "--json", "-p", &port].map(OsString::from));
                command.extend((self.setup == Setup::Three).then(|| "-c".into()));
                let mut held = held(command)?;
                let port =
                    held.wait_until(START_LIMIT, "it says where it listens", |held| listening(&held.output()))?;
                Ok((Some(held), port))
            }
        }
    }

    fn run(&self, port: u16, (clients, pipeline): (&str, &str), requests: u64) -> anyhow::Result<Counted> {
        let mut words = vec!["-c", clients, "-P", pipeline, "-t", self.test, "-d", "64", "-r", "100000"];
        match (&self.way, self.setup) {
            (Way::Direct, Setup::Three) => words.push("--cluster"),
            // It takes a thread for each node of a cluster by itself; through the tunnel it is to have as many.
            (_, Setup::Three) if clients != "1" => words.extend(["--threads", PRIMARIES]),
            _ => {}
        }
        Run { port, count: requests, limit: limit(requests), dir: &self.dir, words: &words }.counted()
    }
}

/// The port in the first line of a tunnel, once it is whole.
fn listening(output: &str) -> Option<u16> {
    let (line, _) = output.split_once('\n')?;
    let said: serde_json::Value = serde_json::from_str(line).ok()?;
    said["listening"][0]["local"].as_str()?.rsplit_once(':')?.1.parse().ok()
}

/// What would be left with a core for the load, one for the tunnel and one for each server, where the slowest decides:
/// sharing two cores is a part of the ratios.
fn with_a_core_each(group: &GroupResults) -> Vec<String> {
    let Some(setup) = Setup::ALL.into_iter().find(|setup| group.id.starts_with(setup.id())) else { return Vec::new() };
    let slowest = |variant: &VariantResults| {
        let part = |name: &str| variant.cpu_us.get(name).copied();
        let slowest = part("load")?.max(part("in between")?).max(part("servers")? / setup.servers() as f64);
        (slowest > 0.0).then_some(slowest)
    };
    let direct = group.variants.iter().find(|variant| variant.id == DIRECT).and_then(slowest);
    let finding = |variant: &VariantResults| {
        let (direct, through) = direct.zip(slowest(variant))?;
        Some(format!(
            "{}, a core for each program: {:.2} million commands a second directly, {:.2} through {}: {:.2} of it",
            group.title,
            1.0 / direct,
            1.0 / through,
            variant.title,
            direct / through
        ))
    };
    group.variants.iter().filter(|variant| variant.role == Role::Subject).filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_tunnel_listens() {
        let line = r#"{"listening":[{"node":"127.0.0.1:1","local":"127.0.0.1:4711"}]}"#;
        assert_eq!(listening(&format!("{line}\n")), Some(4711));
        assert_eq!((listening(line), listening("no\n")), (None, None));
    }

    #[test]
    fn the_slowest_program_decides() {
        let variant = |id: &str, role: &str, between: f64| {
            serde_json::json!({
                "id": id, "title": id, "role": role, "software": [], "failed": null, "rounds": [], "summary": {},
                "cpu_us": {"in between": between, "load": 0.5, "servers": 3.0}, "latency": null, "phases": [], "requests": 1,
            })
        };
        let group = serde_json::from_value(serde_json::json!({
            "id": "three-get", "title": "GET", "workload": "", "metrics": [], "rounds": 1, "seconds": 0.0, "controls": [],
            "comparisons": [], "variants": [variant(DIRECT, "floor", 0.0), variant("pilotlight", "subject", 2.0)],
        }));
        let found = with_a_core_each(&group.expect("a group"));
        let wanted = "GET, a core for each program: 1.00 million commands a second directly, 0.50 through pilotlight: 0.50 of it";
        assert_eq!(found, [wanted]);
    }

    #[test]
    fn each_tunnel_is_held_against_the_servers_and_the_first_tunnel() {
        let tunnel = Tunnel { binaries: vec!["/a".into(), "/b".into()], ..Tunnel::usual() };
        let setting = Setting { quick: false, scratch: "/nowhere".into(), peers: None, seed: 1 };
        let group = group(Setup::One, "get", &tunnel.ways().expect("ways"), REQUESTS, &setting);
        let asked: Vec<_> = group.questions.iter().map(|asked| (asked.one.as_str(), asked.other.as_str())).collect();
        let pairs = [("pilotlight", DIRECT), ("pilotlight-2", DIRECT), ("pilotlight-2", "pilotlight")];
        assert_eq!(asked, pairs.into_iter().flat_map(|pair| [pair; 3]).collect::<Vec<_>>());
        assert_eq!(group.control, "pilotlight");
    }
}
