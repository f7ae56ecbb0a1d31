//! The five cases as an experiment: for each language a group of warm requests and one of cold starts, because a start
//! beside it would be seen in a warm request.

use std::rc::Rc;
use std::time::Duration;

use super::cases::{Case, Front, Variant};
use super::measure::{Lane, Requests};
use super::services::Language;
use super::target::Setup;
use crate::experiment::model::{Metric, Role, Software};
use crate::experiment::{self, Amount, Group, Question};

/// A group for each language and kind of case.
pub(super) fn groups(variants: &[Variant], setup: &Rc<Setup>, requests: Requests) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut languages: Vec<Language> = variants.iter().map(|variant| variant.language).collect();
    languages.dedup();
    for kind in [Kind::Warm, Kind::Cold] {
        for language in &languages {
            let wanted = |variant: &&Variant| variant.language == *language && Kind::of(variant.case) == kind;
            let of_group: Vec<Variant> = variants.iter().filter(wanted).cloned().collect();
            if !of_group.is_empty() {
                groups.push(group(&of_group, (*language, kind), setup, requests));
            }
        }
    }
    groups
}

/// What is measured beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Warm,
    Cold,
}

impl Kind {
    pub(super) fn of(case: Case) -> Self {
        if case.is_cold() { Self::Cold } else { Self::Warm }
    }

    /// `python-warm`
    pub(super) fn group_id(self, language: Language) -> String {
        let kind = if self == Self::Cold { "cold" } else { "warm" };
        format!("{}-{kind}", language.title().to_lowercase())
    }
}

fn group(variants: &[Variant], (language, kind): (Language, Kind), setup: &Rc<Setup>, requests: Requests) -> Group {
    let of_variant = |variant: &Variant| experiment::Variant {
        id: variant.id(),
        title: variant.title(),
        role: role(variant.front),
        software: software(variant, setup),
        measure: Box::new(Lane::new(variant.clone(), Rc::clone(setup), requests)),
    };
    let count = requests.in_round(0);
    Group {
        id: kind.group_id(language),
        title: match kind {
            Kind::Warm => format!("{}: a request to a running service", language.title()),
            Kind::Cold => format!("{}: a request that starts its service", language.title()),
        },
        workload: format!("one connection, {count} requests a round, one after another"),
        metrics: match kind {
            Kind::Warm => vec![Metric::P50Ms, Metric::CpuUs, Metric::MeanMs, Metric::PssBytes],
            Kind::Cold => vec![Metric::ColdMs, Metric::CpuUs, Metric::PssBytes],
        },
        control: control(variants).map(Variant::id).unwrap_or_default(),
        questions: questions(variants, kind),
        variants: variants.iter().map(of_variant).collect(),
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
    variant.front == Front::Pilotlight
}

fn role(front: Front) -> Role {
    match front {
        Front::Pilotlight => Role::Subject,
        Front::Bare => Role::Floor,
        Front::Nginx | Front::Uwsgi | Front::ModFcgid => Role::Peer,
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
    for peer in variants.iter().filter(|variant| role(variant.front) == Role::Peer) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(case: Case, server: &'static str, front: Front) -> Variant {
        Variant { case, language: Language::Python, server, front }
    }

    #[test]
    fn peers_stand_beside_the_same_case_and_the_pipe() {
        let cold = [
            variant(Case::PipeCold, "SDK", Front::Pilotlight),
            variant(Case::PipeCold, "SDK", Front::Bare),
            variant(Case::HttpCold, "WSGI", Front::Uwsgi),
        ];
        let warm = [
            variant(Case::HttpWarm, "http.server", Front::Pilotlight),
            variant(Case::HttpWarm, "http.server", Front::Nginx),
        ];
        let asked = |variants: &[Variant], kind| {
            let of_time = |asked: &Question| asked.metric != Metric::CpuUs;
            let questions = questions(variants, kind).into_iter().filter(of_time);
            questions.map(|asked| (asked.one, asked.other, asked.difference)).collect::<Vec<_>>()
        };
        let pair = |one: &str, other: &str, difference| (one.to_owned(), other.to_owned(), difference);
        assert_eq!(
            asked(&cold, Kind::Cold),
            [
                pair("pilotlight/python/pipe-cold/SDK", "uwsgi/python/http-cold/WSGI", false),
                pair("pilotlight/python/pipe-cold/SDK", "no-gateway/python/pipe-cold/SDK", true),
            ]
        );
        assert_eq!(
            asked(&warm, Kind::Warm),
            [pair("pilotlight/python/http-warm/http.server", "nginx/python/http-warm/http.server", false)]
        );
    }
}
