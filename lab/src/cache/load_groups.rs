//! The groups under load: a cached answer, and requests that are passed on.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::answers::{self, LARGE_PATH, SMALL_PATH};
use super::floors::Floor;
use super::gateways::{Kind, Work};
use super::loaded::{Loaded, Shape, Start};
use super::server::{Server, own_settings};
use super::{Lab, SETUP};
use crate::experiment::model::{Metric, Role, Skipped, Software};
use crate::experiment::{Amount, Group, Lifetime, Participant, Question, Variant};
use crate::service::answer_body;
use crate::transport::services::{Service, Socket};

/// The subject's id in every group.
pub(super) const OWN: &str = "pilotlight";
/// Over the pipe, where both are.
pub(super) const PIPE: &str = "pilotlight-pipe";
pub(super) const FLOOR: &str = "floor";
const CONNECTIONS: usize = 64;

/// What is asked of caches in one group.
pub(super) struct Cached {
    pub(super) id: &'static str,
    title: &'static str,
    path: &'static str,
    connections: usize,
    depth: usize,
}

impl Cached {
    pub(super) const ALL: [Self; 3] = [
        Self { id: "cached", title: "A cached answer", path: SMALL_PATH, connections: CONNECTIONS, depth: 1 },
        Self {
            id: "pipelined",
            title: "A cached answer, with requests in flight",
            path: SMALL_PATH,
            connections: 100,
            depth: 10,
        },
        Self { id: "large", title: "A cached answer of 16 KiB", path: LARGE_PATH, connections: CONNECTIONS, depth: 1 },
    ];

    /// Whether it is the one that a quick run takes.
    pub(super) fn is_first(&self) -> bool {
        self.id == Self::ALL[0].id
    }

    fn shape(&self) -> Shape {
        let body = if self.path == LARGE_PATH { answers::large() } else { answers::small() };
        Shape { path: self.path, body, connections: self.connections, depth: self.depth }
    }

    /// The group, with everything that is here.
    pub(super) fn group(&self, lab: &Rc<Lab>, skipped: &mut Vec<Skipped>, amount: Amount) -> Group {
        let shape = self.shape();
        let lane = |id: &str, title: &str, role, software, start| {
            let lifetime = lab.lifetime;
            variant(lab, self.id, (id, title, role), software, &shape, lifetime, start)
        };
        let mut variants = Vec::new();
        let title = "Pilotlight";
        variants.push(lane(OWN, title, Role::Subject, vec![own(own_settings(true))], Rc::new(Server::own_cache)));
        for bare in Bare::ALL {
            match bare.find(lab.peers.as_deref()) {
                Ok(program) => {
                    let start: Rc<Start> = Rc::new(move |place| Server::bare(bare.id, &program, place));
                    variants.push(lane(bare.id, bare.title, bare.role, vec![bare.software()], start));
                }
                Err(missing) => skip(skipped, missing),
            }
        }
        for kind in Kind::ALL {
            match lab.gateway(kind, Work::Cached) {
                Ok(gateway) => {
                    let software = vec![gateway.software.clone()];
                    let title = gateway.title;
                    let start: Rc<Start> = Rc::new(move |place| Server::cache(&gateway, &place));
                    variants.push(lane(kind.id(), title, Role::Peer, software, start));
                }
                Err(missing) => skip(skipped, missing),
            }
        }
        let questions = beside(OWN, title, &variants, Metric::CpuUs, "CPU of a request");
        Group {
            id: self.id.into(),
            title: self.title.into(),
            workload: format!(
                "GET {} answered with {} bytes of JSON from what is stored; {} connections, {} in flight on each",
                shape.path,
                shape.body.len(),
                shape.connections,
                shape.depth
            ),
            metrics: vec![Metric::CpuUs, Metric::PerSecond, Metric::P50Ms, Metric::P99Ms],
            variants,
            control: OWN.into(),
            questions,
            amount,
        }
    }
}

/// What passes requests to a service in one group.
pub(super) struct Proxied<'a> {
    pub(super) id: String,
    pub(super) service: &'a Service,
    pub(super) connections: usize,
    pub(super) floors: &'static [Floor],
}

impl<'a> Proxied<'a> {
    /// With many requests at once.
    pub(super) fn many(id: &str, service: &'a Service) -> Self {
        Self { id: id.into(), service, connections: CONNECTIONS, floors: &[] }
    }

    /// With one request after the other.
    pub(super) fn one(id: &str, service: &'a Service) -> Self {
        Self { id: id.into(), service, connections: 1, floors: &[] }
    }

    /// Beside these floors as well.
    pub(super) fn with_floors(self, floors: &'static [Floor]) -> Self {
        Self { floors, ..self }
    }

    /// The group, with everything that is here.
    pub(super) fn group(&self, lab: &Rc<Lab>, skipped: &mut Vec<Skipped>, amount: Amount) -> Group {
        let shape = Shape { path: "/", body: answer_body(), connections: self.connections, depth: 1 };
        let compiled = self.service.runtime.program == lab.own_program;
        // What compiles itself while it runs is warm after seconds, not after the time of one warm-up.
        let lifetime = if compiled { lab.lifetime } else { Lifetime::Group };
        let lane = |id: &str, title: &str, role, software, start| {
            variant(lab, &self.id, (id, title, role), software, &shape, lifetime, start)
        };
        let http = self.service.http.iter().rfind(|server| server.socket == Socket::InheritedOrPath);
        let http = http.unwrap_or(&self.service.pipe).clone();
        let (http_name, language) = (http.name, self.service.language.title());
        let runtime = |server: &str| Software {
            name: format!("{language}, {server}"),
            version: self.service.runtime.version.clone(),
            settings: Vec::new(),
        };
        let mut variants = Vec::new();
        let (service, title) = (http.clone(), "Pilotlight, HTTP");
        let start: Rc<Start> = Rc::new(move |place| Server::own_http(&service, place));
        variants.push(lane(OWN, title, Role::Subject, vec![own(own_settings(false)), runtime(http_name)], start));
        let pipe = self.service.pipe.clone();
        let software = vec![own(own_settings(false)), runtime(pipe.name)];
        let start: Rc<Start> = Rc::new(move |place| Server::own_pipe(&pipe, place));
        variants.push(lane(PIPE, "Pilotlight, the pipe", Role::Subject, software, start));
        let service = http.clone();
        let start: Rc<Start> = Rc::new(move |place| Server::alone(&service, &place));
        variants.push(lane(FLOOR, "the service alone", Role::Floor, vec![runtime(http_name)], start));
        for floor in Floor::ALL.into_iter().filter(|floor| self.floors.contains(floor)) {
            match floor.find(lab.peers.as_deref()) {
                Ok(program) => {
                    let service = http.clone();
                    let start: Rc<Start> =
                        Rc::new(move |place| Server::floor(floor.id(), &program, floor.mode(), &service, place));
                    let software = vec![floor.software(), runtime(http_name)];
                    variants.push(lane(floor.id(), floor.title(), Role::Floor, software, start));
                }
                Err(missing) => skip(skipped, missing),
            }
        }
        for kind in Kind::ALL {
            match lab.gateway(kind, Work::Proxy) {
                Ok(gateway) => {
                    let software = vec![gateway.software.clone(), runtime(http_name)];
                    let (title, service) = (gateway.title, http.clone());
                    let start: Rc<Start> = Rc::new(move |place| Server::proxy(&gateway, &service, &place));
                    variants.push(lane(kind.id(), title, Role::Peer, software, start));
                }
                Err(missing) => skip(skipped, missing),
            }
        }
        let (metrics, questions) = self.questions(&variants);
        let connections = if self.connections == 1 { "one connection" } else { "64 connections" };
        Group {
            id: self.id.clone(),
            title: format!("Passing requests to a service in {language}"),
            workload: format!(
                "GET / answered with {} bytes of JSON by a service in {language}: {http_name} on a Unix socket, or the SDK \
                 over the pipe; {connections}, one request in flight on each",
                shape.body.len()
            ),
            metrics,
            variants,
            control: OWN.into(),
            questions,
            amount,
        }
    }

    fn questions(&self, variants: &[Variant]) -> (Vec<Metric>, Vec<Question>) {
        let title = "Pilotlight, HTTP";
        let is_peer = |question: &Question| question.other != PIPE && question.other != FLOOR;
        let is_published =
            |question: &Question| [Kind::Nginx.id(), Kind::Haproxy.id()].contains(&question.other.as_str());
        let pipe = |metric, text: &str| {
            Question::ratio(format!("{text}, the pipe / HTTP, both behind Pilotlight"), metric, PIPE, OWN)
        };
        let of_all = "CPU of a request, gateway and service";
        if self.connections == 1 {
            let times = beside(OWN, title, variants, Metric::P50Ms, "time of a request");
            let questions = times.into_iter().filter(is_peer);
            let questions = questions.chain([pipe(Metric::P50Ms, "time of a request"), pipe(Metric::CpuUs, of_all)]);
            return (vec![Metric::P50Ms, Metric::CpuUs, Metric::GatewayCpuUs, Metric::P99Ms], questions.collect());
        }
        let cpu = beside(OWN, title, variants, Metric::GatewayCpuUs, "CPU of the gateway for a request");
        let p99 = beside(OWN, title, variants, Metric::P99Ms, "p99 of a request").into_iter().filter(is_published);
        let batches = batched(variants);
        let questions =
            cpu.into_iter().filter(is_peer).chain(batches).chain([pipe(Metric::CpuUs, of_all)]).chain(p99).collect();
        (vec![Metric::GatewayCpuUs, Metric::CpuUs, Metric::PerSecond, Metric::P50Ms, Metric::P99Ms], questions)
    }
}

/// What io_uring saves the floor.
fn batched(variants: &[Variant]) -> Vec<Question> {
    let here = |floor: Floor| variants.iter().any(|variant| variant.id == floor.id());
    let batching = [Floor::Hybrid, Floor::Uring].into_iter().filter(|floor| here(*floor) && here(Floor::Epoll));
    let question = |floor: Floor| {
        Question::ratio(
            format!("CPU of the gateway for a request, {} / {}", floor.title(), Floor::Epoll.title()),
            Metric::GatewayCpuUs,
            floor.id(),
            Floor::Epoll.id(),
        )
    };
    batching.map(question).collect()
}

/// A program of `lab/peers/http` that answers by itself.
#[derive(Clone, Copy)]
struct Bare {
    id: &'static str,
    title: &'static str,
    program: &'static str,
    role: Role,
    what: &'static str,
}

impl Bare {
    const ALL: [Self; 2] = [
        Self {
            id: FLOOR,
            title: "an epoll loop, httparse and a map",
            program: "limit",
            role: Role::Floor,
            what: "one thread; parses the request, looks the answer up, writes it",
        },
        Self {
            id: "hyper",
            title: "hyper alone",
            program: "hyperd",
            role: Role::Peer,
            what: "one thread; pipeline_flush (several answers in a write)",
        },
    ];

    fn find(self, peers: Option<&Path>) -> Result<PathBuf, Skipped> {
        let missing = |why: &str| Skipped { what: self.title.into(), why: why.into(), install: SETUP.into() };
        let peers = peers.ok_or_else(|| missing("this binary knows of no checkout with programs to compare with"))?;
        let file = peers.join("http/target/release").join(self.program);
        if file.is_file() { Ok(file) } else { Err(missing(&format!("there is no {}", file.display()))) }
    }

    fn software(self) -> Software {
        Software {
            name: format!("lab/peers/http/{}", self.program),
            version: "of this checkout".into(),
            settings: vec![self.what.into()],
        }
    }
}

/// The programs that answer by themselves, for `--list`.
pub(super) fn bare(peers: Option<&Path>) -> Vec<Participant> {
    let participant = |bare: Bare| Participant {
        name: bare.title.into(),
        what: format!("a cached answer: {}", bare.what),
        missing: bare.find(peers).err(),
    };
    Bare::ALL.map(participant).into()
}

/// Pilotlight as a part of a variant.
pub(super) fn own(settings: Vec<String>) -> Software {
    Software { name: "pilotlight".into(), version: env!("CARGO_PKG_VERSION").into(), settings }
}

/// One after the other of `variants` beside `one`.
pub(super) fn beside(one: &str, title: &str, variants: &[Variant], metric: Metric, text: &str) -> Vec<Question> {
    let others = variants.iter().filter(|variant| variant.id != one);
    let question =
        |other: &Variant| Question::ratio(format!("{text}, {title} / {}", other.title), metric, one, other.id.clone());
    others.map(question).collect()
}

/// Something that is missing is named once, however many groups it is missing in.
pub(super) fn skip(skipped: &mut Vec<Skipped>, missing: Skipped) {
    if !skipped.contains(&missing) {
        skipped.push(missing);
    }
}

fn variant(
    lab: &Lab,
    group: &str,
    (id, title, role): (&str, &str, Role),
    software: Vec<Software>,
    shape: &Shape,
    lifetime: Lifetime,
    start: Rc<Start>,
) -> Variant {
    let dir = lab.scratch.join(format!("{group}-{id}"));
    let measure = Loaded { shape: shape.clone(), cores: lab.cores, lifetime, dir, start, running: None };
    Variant { id: id.into(), title: title.into(), role, software, measure: Box::new(measure) }
}
