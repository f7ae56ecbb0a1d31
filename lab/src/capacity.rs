//! `pilotlight lab capacity`: what one gateway can do, predicted from what single pieces of work cost, and held against
//! gateways of three sizes; and what the same costs say of 10, 100 and 1,000 machines on one Redis Cluster.
//! `docs/guide/capacity.md`, `docs/adr/0074`.

mod conclusions;
mod gateway;
mod model;
mod told;

use std::rc::Rc;
use std::time::Duration;

use crate::experiment::model::{Metric, Report, Results, Skipped};
use crate::experiment::{Experiment, Extent, Group, Participant, Plan, Setting, Variant};
use crate::front::h2load;
use crate::gateway::loads::{self, Kept, Store};
use crate::gateway::{Gateway, Lab, group, idle, of, software, variant};
use crate::rest::redis;
use model::{Content, Mix};
use told::{Told, Work};

/// What `--help` says below the options.
pub(crate) const HELP: &str = "Examples:
  pilotlight lab capacity                            three sizes, and 10, 100 and 1,000 machines; a quarter of an hour
  pilotlight lab capacity --quick                    does everything work? A minute
  pilotlight lab capacity --groups work,memory,sizes without the machines
  pilotlight lab capacity --json                     the report on the standard output, too

Nothing else should run meanwhile. Everything that is started ends with it.";

/// Groups.
const WORK: &str = "work";
const MEMORY: &str = "memory";
const SIZES: &str = "sizes";
const REDIS: &str = "redis";
const TOLD: &str = "told";
/// Variants.
const HIT: &str = "hit";
const HTTP: &str = "http";
const PIPE: &str = "pipe";
const HANDSHAKE: &str = "handshake";
const EMPTY: &str = "empty";
const CONNECTIONS: &str = "connections";
const ANSWERS: &str = "answers";
const SERVICES: &str = "services";
const LIMITED: &str = "limited";
/// CPU time of a group of processes.
const BUSIEST: &str = "busiest primary";

/// Rounds of what takes ten seconds and more.
const FEW_ROUNDS: u32 = 5;
const SECOND: Duration = Duration::from_secs(1);
/// Memory that clients have left is given back after some seconds; a quick run does not wait for that.
const QUICK_SETTLE: Duration = SECOND;
const QUICK_DIVISOR: u32 = 10;
/// What gateways tell each other is measured with so many, and a line is drawn through both.
const GATEWAYS: [usize; 2] = [1, 8];
const TOLD_WORKS: [(&str, &str, Work); 3] = [
    ("second", "a second without requests", Work::Second),
    ("record", "an answer is stored", Work::Record),
    ("purge", "a tag is purged", Work::Purge),
];

/// Of each so many, less what an empty gateway takes, is what one of them takes.
const HELD: Content = Content { connections: 10_000, answers: 40_000, services: 1000 };
const NOTHING: Content = Content { connections: 0, answers: 0, services: 0 };

/// What is predicted and measured.
struct Size {
    id: &'static str,
    content: Content,
    mix: Mix,
    /// Connections with plain requests.
    clients: usize,
}

const ALL_SIZES: [Size; 3] = [
    Size {
        id: "small",
        content: Content { connections: 500, answers: 1000, services: 50 },
        mix: Mix { hits: 9000, http: 450, pipe: 450, handshakes: 100 },
        clients: 16,
    },
    Size {
        id: "medium",
        content: Content { connections: 2000, answers: 10_000, services: 200 },
        mix: Mix { hits: 14_000, http: 3000, pipe: 2800, handshakes: 200 },
        clients: 64,
    },
    Size {
        id: "large",
        content: Content { connections: 8000, answers: 50_000, services: 1000 },
        mix: Mix { hits: 20_000, http: 9600, pipe: 10_000, handshakes: 400 },
        clients: 256,
    },
];

/// How much a run takes of what is counted.
#[derive(Clone, Copy, Debug)]
struct Scale {
    divisor: u32,
    /// Before memory is looked at.
    settle: Duration,
}

impl Scale {
    fn here(setting: &Setting) -> Self {
        match setting.quick {
            true => Self { divisor: QUICK_DIVISOR, settle: QUICK_SETTLE },
            false => Self { divisor: 1, settle: idle::GIVEN_BACK },
        }
    }

    fn of(self, count: u32) -> u32 {
        count / self.divisor
    }

    fn content(self, content: Content) -> Content {
        let Content { connections, answers, services } = content;
        Content { connections: self.of(connections), answers: self.of(answers), services: self.of(services) }
    }

    fn mix(self, mix: Mix) -> Mix {
        let Mix { hits, http, pipe, handshakes } = mix;
        let [hits, http, pipe, handshakes] = [hits, http, pipe, handshakes].map(|count| self.of(count));
        Mix { hits, http, pipe, handshakes }
    }
}

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Capacity;

impl Experiment for Capacity {
    fn name(&self) -> &'static str {
        "capacity"
    }

    fn title(&self) -> &'static str {
        "What a gateway, and a fleet on one Redis Cluster, can do: predicted and measured"
    }

    fn hypothesis(&self) -> &'static str {
        "What a gateway needs is the sum of what its requests, connections, answers and services need alone, to 15 % at three sizes; of 10 \
         machines on one Redis Cluster their own cores bind first, of 100 and 1,000 the primaries."
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let here = |name: &str, what: &str, missing| Participant { name: name.into(), what: what.into(), missing };
        vec![
            here("Pilotlight", "all groups", None),
            here("h2load", "new connections over TLS; nothing without it", h2load::find().err()),
            here("redis-server", "the fleet: groups redis and told", redis::missing("the fleet")),
        ]
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let skipped = |skipped: Skipped| Ok(Plan { skipped: vec![skipped], ..Plan::default() });
        if let Err(missing) = h2load::find() {
            return skipped(missing);
        }
        let lab = Rc::new(Lab::new(setting, Gateway::usual(Extent::AmongOthers))?);
        let scale = Scale::here(setting);
        let mut plan =
            Plan { groups: vec![work(&lab, scale), memory(&lab, scale), sizes(&lab, scale)], ..Plan::default() };
        match redis::missing("the fleet") {
            None => plan.groups.extend([redis_hits(&lab), told(&lab, scale)]),
            Some(missing) => plan.skipped.push(missing),
        }
        Ok(plan)
    }

    fn conclude(&self, results: &mut Results, about: &Report) {
        conclusions::add(results, about);
    }
}

fn work(lab: &Rc<Lab>, scale: Scale) -> Group {
    let kind = |id: &str, title: &str, path: &'static str| {
        variant(lab, id, title, SECOND / 2, move |lab, amount| gateway::requests(lab, amount, path))
    };
    Group {
        variants: vec![
            kind(HIT, "an answer from memory", gateway::STORED),
            kind(HTTP, "passed on over HTTP", gateway::HTTP),
            kind(PIPE, "passed on over the pipe", gateway::PIPE),
            variant(lab, HANDSHAKE, "a full TLS handshake and an answer from memory", SECOND, move |lab, _| {
                gateway::handshakes(lab, scale)
            }),
        ],
        amount: lab.amount,
        ..group(
            WORK,
            "CPU time of one request of each kind",
            "200 bytes of JSON; 64 connections, one request in flight on each; handshakes by h2load, all at once"
                .into(),
            &[Metric::GatewayCpuUs],
        )
    }
}

fn memory(lab: &Rc<Lab>, scale: Scale) -> Group {
    let all = scale.content(HELD);
    let with = |id: &str, title: String, content: Content| {
        variant(lab, id, &title, SECOND * 2 + scale.settle, move |lab, _| gateway::memory(lab, content, scale))
    };
    Group {
        variants: vec![
            with(EMPTY, "nothing but two services".into(), NOTHING),
            with(
                CONNECTIONS,
                format!("{} silent clients", all.connections),
                Content { connections: all.connections, ..NOTHING },
            ),
            with(ANSWERS, format!("{} stored answers", all.answers), Content { answers: all.answers, ..NOTHING }),
            with(SERVICES, format!("{} stopped services", all.services), Content { services: all.services, ..NOTHING }),
        ],
        amount: lab.counted(FEW_ROUNDS.min(lab.amount.rounds)),
        ..group(
            MEMORY,
            "Memory of what a gateway holds",
            "gateway and helper after 2,000 requests, and some seconds after the last".into(),
            &[Metric::PssBytes],
        )
    }
}

fn sizes(lab: &Rc<Lab>, scale: Scale) -> Group {
    let of = |size: &Size| {
        let (content, mix, clients) = (scale.content(size.content), scale.mix(size.mix), size.clients);
        let title = format!(
            "{}: {} silent clients, {} answers, {} services; {} hits, {} over HTTP, {} over the pipe by {clients} clients, {} handshakes",
            size.id,
            content.connections,
            content.answers,
            content.services,
            mix.hits,
            mix.http,
            mix.pipe,
            mix.handshakes
        );
        let usual = SECOND * 6 + scale.settle;
        variant(lab, size.id, &title, usual, move |lab, amount| {
            gateway::together(lab, amount, gateway::Asked { content, mix, clients }, scale)
        })
    };
    Group {
        variants: ALL_SIZES.iter().map(of).collect(),
        amount: lab.counted(FEW_ROUNDS.min(lab.amount.rounds)),
        ..group(
            SIZES,
            "Gateways of three sizes",
            "all kinds of requests together, in a random order; then memory as above".into(),
            &[Metric::GatewayCpuUs, Metric::PssBytes],
        )
    }
}

fn redis_hits(lab: &Rc<Lab>) -> Group {
    let kept = |id, title, from| loads::kept(lab, id, title, from, 1, loads::CONNECTIONS);
    Group {
        variants: vec![
            kept(loads::MEMORY_HIT, "an answer from memory", Store::Memory),
            kept(LIMITED, "the same behind a shared limit", Store::Limited),
            kept(loads::REDIS_HIT, "an answer from Redis", Store::Redis),
        ],
        amount: lab.amount,
        ..group(
            REDIS,
            "What Redis takes part in",
            "one gateway and five primaries; 200 bytes, 64 connections".into(),
            &[Metric::GatewayCpuUs],
        )
    }
}

fn told(lab: &Rc<Lab>, scale: Scale) -> Group {
    let with = |(id, title, work): (&str, &str, Work), gateways: usize| -> Variant {
        let kept = Kept::new(lab, Store::Memory, gateways, loads::CONNECTIONS);
        let title = format!("{title}; gateways: {gateways}");
        of(&told_id(id, gateways), &title, software("redis-server"), Box::new(Told { kept, work, scale, stored: 0 }))
    };
    Group {
        variants: TOLD_WORKS.into_iter().flat_map(|work| GATEWAYS.map(|gateways| with(work, gateways))).collect(),
        amount: lab.amount,
        ..group(
            TOLD,
            "What gateways on one Redis Cluster tell each other",
            "CPU time of all gateways together for one of each; five primaries, whose connections from gateways are of one of them".into(),
            &[Metric::GatewayCpuUs, Metric::Connections],
        )
    }
}

fn told_id(work: &str, gateways: usize) -> String {
    format!("{work}-{gateways}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_has_a_tenth_of_each_and_less_to_wait_for() {
        let setting = |quick| Setting { quick, scratch: "/nowhere".into(), peers: None, seed: 1 };
        let quick = Scale::here(&setting(true));
        assert_eq!(quick.content(HELD), Content { connections: 1000, answers: 4000, services: 100 });
        assert_eq!(quick.mix(ALL_SIZES[0].mix).requests(), 1000);
        let whole = Scale::here(&setting(false));
        assert_eq!(whole.content(HELD), HELD);
        assert!(whole.settle > quick.settle);
    }
}
