//! What one change costs among many routes: processor time of this process, which has the whole gateway in it, and no
//! cluster. `cargo bench -p pilotlight-kubernetes --bench change -- [ROUTES] [ENDPOINTS] [CHANGES]`; by default 1,000
//! routes, 5,000 endpoints and 50 changes of each kind.
//!
//! - translate: objects to the text of a configuration
//! - whole: the gateway reads that text as a whole and serves by it
//! - sections: the same, and only those sections are read that are new
//! - endpoints: the endpoints of all services are found, and those that have changed are given to the gateway

#![expect(clippy::expect_used, reason = "a measurement that cannot be made fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use pilotlight_cli::config::sections::Sectioned;
use pilotlight_cli::embedded::{self, Following, Told};
use pilotlight_kubernetes::api::{GATEWAY_CONTROLLER, GatewayClassSpec};
use pilotlight_kubernetes::base::Base;
use pilotlight_kubernetes::endpoints::{Endpoint, endpoints};
use pilotlight_kubernetes::servers::Servers as _;
use pilotlight_kubernetes::snapshot::{Key, Meta, Service, ServicePort, Slice, Snapshot, Specified};
use pilotlight_kubernetes::translate::{Checks, Options, Translation, translate};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NAMESPACE: &str = "many";
/// Ticks of `/proc/self/stat` in a second, on every Linux.
const TICKS: u32 = 100;
/// Where nobody listens yet, most likely.
const PORT: u16 = 47_913;

fn main() -> ExitCode {
    if let Some(code) = embedded::started_as_part() {
        return code;
    }
    let count = |at: usize, default| std::env::args().filter_map(|word| word.parse().ok()).nth(at).unwrap_or(default);
    let (routes, all) = (count(0, 1000), count(1, 5000));
    let changes = u32::try_from(count(2, 50)).unwrap_or(u32::MAX);
    let folder = std::env::temp_dir().join(format!("pilotlight-change-{}", std::process::id()));
    let idle = folder.join("idle.sock");
    fs::create_dir_all(&folder).expect("a folder for the socket");
    let base = Base::read(None).expect("no file");
    let first = base.with(&Translation::default(), &idle).text.to_string();
    let told = Told::new(base.file().to_owned(), first, "error", move |following| {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let (snapshot, checks, given) = (cluster(routes, all), Checks::default(), BTreeMap::new());
            let mut bench = Bench { following, base, snapshot, checks, given, idle };
            runtime.block_on(bench.run(changes));
            drop(bench);
            fs::remove_dir_all(folder).expect("the folder is ours");
            std::process::exit(0);
        });
    });
    embedded::run(&told).expect("the gateway runs");
    ExitCode::FAILURE // it was told to stop before the end
}

/// How the gateway reads a text.
#[derive(Clone, Copy, PartialEq)]
enum Read {
    Whole,
    Sections,
}

struct Bench {
    following: Following,
    base: Base,
    snapshot: Snapshot,
    checks: Checks,
    given: BTreeMap<String, Vec<Endpoint>>,
    idle: std::path::PathBuf,
}

impl Bench {
    async fn run(&mut self, changes: u32) {
        let before = memory();
        let mut translation = self.translate();
        self.follow(&translation, Read::Sections).await;
        self.give(&translation);
        println!("memory: {before:.1} MiB without routes, {:.1} MiB with them", memory());
        let mut of = [Duration::ZERO; 4];
        for change in 0..2 * changes {
            let (read, at) = if change < changes { (Read::Whole, 1) } else { (Read::Sections, 2) };
            route(&mut self.snapshot, 0, &json!({ "hostname": format!("to-{change}.test"), "statusCode": 302 }));
            of[0] += spent(|| translation = self.translate());
            let begun = cpu();
            self.follow(&translation, read).await;
            of[at] += cpu().saturating_sub(begun);
            slice(&mut self.snapshot, 1, 1, 100_000 + change as usize);
            of[3] += spent(|| self.give(&translation));
        }
        let counts =
            [("translate", 2 * changes), ("whole", changes), ("sections", changes), ("endpoints", 2 * changes)];
        for ((name, count), all) in counts.into_iter().zip(of) {
            println!("{name}: {:.2} ms of processor time a change", all.as_secs_f64() * 1000.0 / f64::from(count));
        }
        println!("memory: {:.1} MiB after {changes} changes", memory());
    }

    fn translate(&mut self) -> Translation {
        let options = Options {
            class_name: None,
            port_offset: 0,
            bind: [127, 0, 0, 1].into(),
            addresses: vec!["192.0.2.1".to_owned()],
            certificates: "/nowhere".into(),
            unavailable: BTreeMap::new(),
        };
        let translation = translate(&self.snapshot, &options, &mut self.checks);
        self.checks.forget();
        translation
    }

    async fn follow(&self, translation: &Translation, read: Read) {
        let text = self.base.with(translation, &self.idle);
        let text = if read == Read::Whole { Sectioned::whole(text.text) } else { text };
        self.following.follow(text).await.expect("a valid configuration");
    }

    fn give(&mut self, translation: &Translation) {
        for (name, all) in endpoints(&self.snapshot, &translation.backends) {
            if self.given.get(&name) != Some(&all) {
                self.following.set(&name, &all, 0).expect("it is in the configuration");
                self.given.insert(name, all);
            }
        }
    }
}

/// A Gateway, and so many routes with a Service and its endpoints each. The first route is a redirect.
fn cluster(routes: usize, all: usize) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let class = GatewayClassSpec { controller_name: GATEWAY_CONTROLLER.into() };
    snapshot.gateway_classes.insert(Key::new("", "ours"), Specified { spec: class, ..Specified::default() });
    let listeners = json!([{ "name": "http", "port": PORT, "protocol": "HTTP" }]);
    let gateway = json!({ "gatewayClassName": "ours", "listeners": listeners });
    snapshot.gateways.insert(Key::new(NAMESPACE, "web"), object(gateway));
    route(&mut snapshot, 0, &json!({ "hostname": "first.test", "statusCode": 302 }));
    for at in 1..=routes {
        let name = format!("many-{at}");
        let port = ServicePort { name: "http".to_owned(), port: 80, app_protocol: None };
        let service = Service { ports: vec![port], ..Service::default() };
        snapshot.services.insert(Key::new(NAMESPACE, &name), service);
        slice(&mut snapshot, at, all / routes, at * 100);
        let rule = json!({
            "matches": [{ "path": { "type": "PathPrefix", "value": "/a" } }],
            "backendRefs": [{ "name": name, "port": 80 }],
        });
        let spec = json!({ "parentRefs": [{ "name": "web" }], "hostnames": [format!("{name}.test")], "rules": [rule] });
        snapshot.http_routes.insert(Key::new(NAMESPACE, &name), object(spec));
    }
    snapshot
}

fn object<S: serde::de::DeserializeOwned>(spec: Value) -> Specified<S> {
    let spec = serde_json::from_value(spec).expect("as the API has it");
    Specified { meta: Meta::default(), spec, status: Arc::default() }
}

/// The first route, which leads elsewhere.
fn route(snapshot: &mut Snapshot, number: usize, redirect: &Value) {
    let filter = json!({ "type": "RequestRedirect", "requestRedirect": redirect });
    let rule = json!({ "filters": [filter] });
    let spec = json!({ "parentRefs": [{ "name": "web" }], "hostnames": ["end.test"], "rules": [rule] });
    snapshot.http_routes.insert(Key::new(NAMESPACE, &format!("end-{number}")), object(spec));
}

/// Endpoints of the Service of this number, from an address of 10.0.0.0/8 on.
fn slice(snapshot: &mut Snapshot, number: usize, count: usize, from: usize) {
    let address = |at: usize| [10, (at >> 16) as u8, (at >> 8) as u8, at as u8].into();
    let name = Key::new(NAMESPACE, &format!("many-{number}"));
    let (ports, ready) = (vec![("http".to_owned(), 8000)], (from..from + count).map(address).collect());
    snapshot.slices.insert(name.clone(), Slice { service: name, ports, ready });
}

fn spent(work: impl FnOnce()) -> Duration {
    let begun = cpu();
    work();
    cpu().saturating_sub(begun)
}

/// Processor time of this process so far, in steps of a tick.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let behind = stat.rsplit_once(')').expect("the name is in brackets").1;
    let numbers = behind.split_ascii_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u32>().ok());
    Duration::from_secs(1) * numbers.sum::<u32>() / TICKS
}

/// Without pages of files, in MiB.
fn memory() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("every process has some");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
}
