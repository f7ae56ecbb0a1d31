//! `pilotlight lab layers`: the same request through no layer, one, two …, so that what each costs is a difference.
//! `docs/lab/layers.md` says how to read it.

pub(crate) mod counted;
mod generator;
pub(crate) mod layer;
mod stack;
mod timed;

use std::time::Duration;

use crate::callgrind::Callgrind;
use crate::cores::Cores;
use crate::experiment::model::{Metric, Skipped};
use crate::experiment::{Amount, Experiment, Group, Participant, Plan, Question, Setting, Variant};
use counted::Counted;
use generator::Generator;
use layer::Layer;
use timed::Timed;

/// Connections of the groups: many clients, and one who waits.
const MANY: usize = 64;
const ONE: usize = 1;
/// Counts hardly vary from round to round; these are as many as a verdict takes.
const COUNTED_ROUNDS: u32 = 8;
/// wrk takes whole seconds.
const GENERATOR_SECONDS: Duration = Duration::from_secs(1);
const GENERATOR_ROUNDS: u32 = 10;

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Layers;

/// What a layer costs: a layer, and the one without it.
struct Cost {
    text: &'static str,
    one: Layer,
    other: Layer,
}

const COSTS: [Cost; 9] = [
    Cost { text: "HTTP: hyper instead of a bare loop", one: Layer::Hyper, other: Layer::Bare },
    Cost { text: "the gateway, up to its route table", one: Layer::Routing, other: Layer::Hyper },
    Cost { text: "an answer from memory instead of a bare loop's", one: Layer::Hit, other: Layer::Bare },
    Cost { text: "the pipe and the service behind it", one: Layer::Pipe, other: Layer::Routing },
    Cost { text: "HTTP and the service behind it", one: Layer::Http, other: Layer::Routing },
    Cost { text: "HTTP to the service instead of the pipe", one: Layer::Http, other: Layer::Pipe },
    Cost { text: "one GET of the service in Redis", one: Layer::PipeRedis, other: Layer::Pipe },
    Cost { text: "an answer from Redis instead of memory", one: Layer::HitRedis, other: Layer::Hit },
    Cost { text: "an answer from Redis instead of a bare loop's", one: Layer::HitRedis, other: Layer::BareRedis },
];

impl Experiment for Layers {
    fn name(&self) -> &'static str {
        "layers"
    }

    fn title(&self) -> &'static str {
        "What each layer costs"
    }

    fn hypothesis(&self) -> &'static str {
        "An answer from memory costs little more than a bare loop's, and the pipe less than HTTP to the same service"
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let layers = Layer::ALL.map(|layer| Participant {
            name: layer.id().into(),
            what: layer.title().into(),
            missing: layer.missing(),
        });
        let counted = Participant {
            name: "instructions".into(),
            what: "instructions of a request in user space, by callgrind".into(),
            missing: Callgrind::find("instructions").err(),
        };
        let wrk = Participant {
            name: "wrk".into(),
            what: "a load generator, beside the lab's own".into(),
            missing: generator::missing(),
        };
        layers.into_iter().chain([counted, wrk]).collect()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let (layers, mut skipped) = available();
        let mut groups = vec![
            timed_group("many", "64 connections", MANY, setting, &layers),
            timed_group("one", "one connection", ONE, setting, &layers),
        ];
        match Callgrind::find("instructions of a request") {
            Ok(_) if setting.quick => skipped.push(Skipped {
                what: "instructions of a request".into(),
                why: "callgrind takes a minute for each round".into(),
                install: "leave out --quick".into(),
            }),
            Ok(callgrind) => groups.push(counted_group(&callgrind, setting, &layers)),
            Err(why) => skipped.push(why),
        }
        match generator::missing() {
            Some(why) => skipped.push(why),
            None if setting.quick => skipped.push(Skipped {
                what: "wrk beside the lab's load".into(),
                why: "wrk takes whole seconds".into(),
                install: "leave out --quick".into(),
            }),
            None => groups.push(generator_group(setting)),
        }
        Ok(Plan { groups, skipped, ..Plan::default() })
    }
}

fn available() -> (Vec<Layer>, Vec<Skipped>) {
    let (mut layers, mut skipped) = (Vec::new(), Vec::new());
    for layer in Layer::ALL {
        match layer.missing() {
            None => layers.push(layer),
            Some(why) => skipped.push(why),
        }
    }
    (layers, skipped)
}

fn timed_group(id: &str, title: &str, connections: usize, setting: &Setting, layers: &[Layer]) -> Group {
    // One who waits is asked about time, many about the servers' CPU time.
    let mut metrics = vec![Metric::CpuUs, Metric::PerSecond, Metric::P50Ms, Metric::P99Ms];
    if connections == ONE {
        metrics.swap(0, 2);
    }
    let variant = |layer: &Layer| Variant {
        id: layer.id().into(),
        title: layer.title().into(),
        role: layer.role(),
        software: layer.software(),
        measure: Box::new(Timed::new(*layer, connections, &setting.scratch.join(format!("layers-{id}")))),
    };
    Group {
        id: id.into(),
        title: format!("A request through each layer, {title}"),
        workload: workload(connections),
        questions: questions(metrics[0], layers),
        metrics,
        variants: layers.iter().map(variant).collect(),
        control: Layer::Hit.id().into(),
        amount: setting.amount(),
    }
}

fn workload(connections: usize) -> String {
    let cores = match Cores::here() {
        Some(Cores { server, load }) => format!("servers on core {server}, load on core {load}"),
        None => "servers and load on the one core there is".into(),
    };
    format!(
        "GET, 200 bytes of JSON, connections that are kept, closed loop: {connections} × 1 request in flight; {cores}"
    )
}

fn counted_group(callgrind: &Callgrind, setting: &Setting, layers: &[Layer]) -> Group {
    let dir = setting.scratch.join("layers-counted");
    let variant = |layer: &Layer| Variant {
        id: layer.id().into(),
        title: layer.title().into(),
        role: layer.role(),
        software: layer.software(),
        measure: Box::new(Counted::new(*layer, callgrind.clone(), &dir)),
    };
    Group {
        id: "instructions".into(),
        title: "Instructions of a request in user space".into(),
        workload: format!(
            "GET, 200 bytes of JSON, one connection, by {}: {} requests less {}; redis-server is not counted",
            callgrind.version,
            counted::MANY,
            counted::FEW
        ),
        metrics: vec![Metric::Instructions],
        questions: questions(Metric::Instructions, layers),
        variants: layers.iter().map(variant).collect(),
        control: Layer::Hit.id().into(),
        amount: Amount { rounds: COUNTED_ROUNDS, ..setting.amount() },
    }
}

fn questions(metric: Metric, layers: &[Layer]) -> Vec<Question> {
    let is_here = |cost: &&Cost| layers.contains(&cost.one) && layers.contains(&cost.other);
    let question = |cost: &Cost| Question {
        text: cost.text.into(),
        metric,
        one: cost.one.id().into(),
        other: cost.other.id().into(),
        difference: true,
    };
    COSTS.iter().filter(is_here).map(question).collect()
}

/// What makes the load must not be what is measured: it is held against a known generator, on the bare loop.
fn generator_group(setting: &Setting) -> Group {
    let question = |text: &str, metric| Question::ratio(text, metric, Generator::Lab.id(), Generator::Wrk.id());
    let amount = Amount { rounds: GENERATOR_ROUNDS, duration: GENERATOR_SECONDS, ..setting.amount() };
    Group {
        id: "generator".into(),
        title: "The load itself".into(),
        workload: format!("GET of 200 bytes from the bare loop, closed loop: {MANY} × 1 request in flight"),
        metrics: vec![Metric::LoadCpuUs, Metric::PerSecond],
        variants: Generator::ALL.map(|generator| generator.variant(MANY, setting)).into(),
        control: Generator::Lab.id().into(),
        questions: vec![
            question("CPU of the load for a request, the lab's / wrk", Metric::LoadCpuUs),
            question("requests in a second, the lab's / wrk", Metric::PerSecond),
        ],
        amount,
    }
}

/// So long a stack may take to start, and what is under callgrind to end.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Where instructions are counted it is fifty times slower.
const COUNTED_LIMIT: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(quick: bool) -> Setting {
        Setting { quick, scratch: "/nowhere".into(), peers: None, seed: 1 }
    }

    #[test]
    fn every_question_is_about_variants_of_its_group() {
        let plan = Layers.plan(&setting(false)).expect("a plan");
        for group in &plan.groups {
            let has = |id: &str| group.variants.iter().any(|variant| variant.id == id);
            assert!(has(&group.control), "{}: {}", group.id, group.control);
            for question in &group.questions {
                assert!(has(&question.one) && has(&question.other), "{}: {}", group.id, question.text);
                assert!(group.metrics.contains(&question.metric), "{}: {}", group.id, question.text);
            }
        }
    }

    #[test]
    fn what_is_missing_is_named_and_nothing_else_is() {
        let plan = Layers.plan(&setting(true)).expect("a plan");
        let missing = Layers.participants(&setting(true)).into_iter().filter(|one| one.missing.is_some()).count();
        // What takes long is left out of a quick run, whether it could be measured or not.
        let slow = usize::from(Callgrind::find("").is_ok()) + usize::from(generator::missing().is_none());
        assert_eq!(plan.skipped.len(), missing + slow, "{:?}", plan.skipped);
        assert!(plan.skipped.iter().all(|skipped| !skipped.install.is_empty()));
        assert!(plan.groups.iter().all(|group| ["many", "one"].contains(&group.id.as_str())));
    }
}
