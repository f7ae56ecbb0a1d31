//! The five cases as an experiment: for each language a group of warm requests and one of cold starts, because a start
//! beside it would be seen in a warm request.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::cases::{Case, Front, Role, Variant};
use super::measure::{Lane, Measurement, Requests};
use super::published;
use super::services::Language;
use super::target::Setup;
use crate::experiment::model::{self, Metric, Published, Software};
use crate::experiment::{self, Amount, Group, Question};

/// Measurements while they are made, in the order of the report.
pub(super) type Measurements = Vec<Rc<RefCell<Measurement>>>;

/// A group for each language and kind of case, and what will have been measured in them.
pub(super) fn groups(variants: &[Variant], setup: &Rc<Setup>, requests: Requests) -> (Vec<Group>, Measurements) {
    let (mut groups, mut measurements) = (Vec::new(), Vec::new());
    let mut languages: Vec<Language> = variants.iter().map(|variant| variant.language).collect();
    languages.dedup();
    for kind in [Kind::Warm, Kind::Cold] {
        for language in &languages {
            let wanted =
                |variant: &&Variant| variant.language == *language && variant.case.is_cold() == (kind == Kind::Cold);
            let of_group: Vec<Variant> = variants.iter().filter(wanted).cloned().collect();
            if !of_group.is_empty() {
                groups.push(group(&of_group, (*language, kind), setup, requests, &mut measurements));
            }
        }
    }
    (groups, measurements)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Warm,
    Cold,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

fn group(
    variants: &[Variant],
    (language, kind): (Language, Kind),
    setup: &Rc<Setup>,
    requests: Requests,
    measurements: &mut Measurements,
) -> Group {
    let control = control(variants);
    let mut lanes = Vec::new();
    for variant in variants {
        let lane = Lane::new(variant.clone(), Rc::clone(setup), requests);
        measurements.push(lane.measurement());
        let again = (Some(variant.id()) == control.map(Variant::id)).then(|| lane.equal());
        measurements.extend(again.as_ref().map(Lane::measurement));
        lanes.push(experiment::Variant {
            id: variant.id(),
            title: variant.title(),
            role: role(variant.front),
            software: software(variant, setup),
            measure: Box::new(lane.with(again)),
        });
    }
    let count = requests.in_round(0);
    Group {
        id: format!("{}-{}", language.title().to_lowercase(), kind.name()),
        title: match kind {
            Kind::Warm => format!("{}: a request to a running service", language.title()),
            Kind::Cold => format!("{}: a request that starts its service", language.title()),
        },
        workload: format!("one connection, {count} requests a round, one after another"),
        metrics: match kind {
            Kind::Warm => vec![Metric::P50Ms, Metric::CpuUs, Metric::MeanMs],
            Kind::Cold => vec![Metric::ColdMs, Metric::CpuUs],
        },
        control: control.map(Variant::id).unwrap_or_default(),
        questions: questions(variants, kind),
        variants: lanes,
        amount: Amount {
            rounds: requests.rounds,
            duration: Duration::ZERO,
            warm_up: Duration::ZERO,
            seed: requests.seed,
        },
    }
}

/// What is measured twice: the pipe if it is there.
fn control(variants: &[Variant]) -> Option<&Variant> {
    let pipe = |variant: &&Variant| matches!(variant.case, Case::PipeWarm | Case::PipeCold) && is_ours(variant);
    variants.iter().find(pipe).or_else(|| variants.iter().find(|variant| is_ours(variant)))
}

fn is_ours(variant: &Variant) -> bool {
    variant.front == Front::Pilotlight && variant.role == Role::Measured
}

fn role(front: Front) -> model::Role {
    match front {
        Front::Pilotlight => model::Role::Subject,
        Front::Bare => model::Role::Floor,
        Front::Nginx | Front::Uwsgi | Front::ModFcgid => model::Role::Peer,
    }
}

fn software(variant: &Variant, setup: &Setup) -> Vec<Software> {
    let program = |name: &str, version: &str, settings: &[&str]| Software {
        name: name.to_owned(),
        version: version.to_owned(),
        settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
    };
    let peer = |name: &str| {
        let version =
            setup.peers.versions.iter().find(|(known, _)| *known == name).map(|(_, version)| version.as_str());
        version.unwrap_or("version unknown").to_owned()
    };
    let front = match variant.front {
        Front::Pilotlight => Some(program("pilotlight", env!("CARGO_PKG_VERSION"), &["workers = 1"])),
        Front::Nginx => Some(program("nginx", &peer("nginx"), &["worker_processes 1", "keepalive to the service"])),
        Front::Uwsgi => Some(program("uwsgi", &peer("uwsgi"), &["--master --cheap --lazy-apps --processes 1"])),
        Front::ModFcgid => Some(program("apache", &peer("apache"), &["FcgidMaxProcesses 1", "mpm_event"])),
        Front::Bare => None,
    };
    let service = setup.services.iter().find(|service| service.language == variant.language);
    let service = service.map(|service| program(variant.server, &service.runtime.version, &[]));
    front.into_iter().chain(service).collect()
}

/// The pipe beside HTTP; the cache beside both; ours beside each peer; what the gateway adds to a cold start.
fn questions(variants: &[Variant], kind: Kind) -> Vec<Question> {
    let time = if kind == Kind::Cold { Metric::ColdMs } else { Metric::P50Ms };
    let ours = |case: Case| variants.iter().filter(move |variant| variant.case == case && is_ours(variant));
    let mut questions = Vec::new();
    let (pipe, http) = match kind {
        Kind::Warm => (Case::PipeWarm, Case::HttpWarm),
        Kind::Cold => (Case::PipeCold, Case::HttpCold),
    };
    for one in ours(pipe) {
        for other in ours(http) {
            questions.extend([time, Metric::CpuUs].map(|metric| question(metric, one, other)));
        }
    }
    for cached in ours(Case::Cached) {
        questions.extend(ours(pipe).chain(ours(http)).map(|other| question(time, cached, other)));
    }
    for peer in variants.iter().filter(|variant| role(variant.front) == model::Role::Peer) {
        let same = |own: &&Variant| {
            is_ours(own) && own.case == peer.case && (own.server == peer.server || peer.case == Case::Cached)
        };
        // What starts on demand would be replaced by the pipe.
        let instead = ours(pipe).filter(|_| peer.front != Front::Nginx);
        for own in variants.iter().filter(same).chain(instead) {
            questions.extend([time, Metric::CpuUs].map(|metric| question(metric, own, peer)));
        }
    }
    for bare in variants.iter().filter(|variant| variant.front == Front::Bare) {
        let same = |own: &&Variant| is_ours(own) && own.case == bare.case && own.server == bare.server;
        questions.extend(variants.iter().filter(same).map(|own| Question {
            text: format!("the gateway's own part of {}", own.title()),
            difference: true,
            ..question(time, own, bare)
        }));
    }
    questions
}

fn question(metric: Metric, one: &Variant, other: &Variant) -> Question {
    Question::ratio(format!("{} of {} / {}", metric.title(), one.title(), other.title()), metric, one.id(), other.id())
}

/// The published figures of the five cases.
pub(super) fn published_cases() -> Vec<Published> {
    let of = |row: &published::Published| Published {
        group: String::new(),
        name: row.case.title().to_owned(),
        metric: if row.case.is_cold() { Metric::ColdMs } else { Metric::MeanMs },
        value: row.mean_ms,
        source: published::CAVEAT.to_owned(),
    };
    published::PUBLISHED.iter().map(of).collect()
}
