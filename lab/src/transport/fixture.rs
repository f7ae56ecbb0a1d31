//! Results that are always the same, for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use super::cases::{Case, Front, Role, Variant};
use super::compare::{self, Conclusions};
use super::measure::{Measurement, Round};
use super::published;
use super::results::{CaseResult, Configuration, Results, SCHEMA};
use super::services::Language;
use crate::experiment::judge::Machine as Quiet;
use crate::experiment::model::Skipped;
use crate::machine::Machine;
use crate::processes::usage::Memory;

pub(crate) const SEED: u64 = 1;
const ROUNDS: u32 = 10;

/// A measurement of ten rounds around this time, with half a millisecond of CPU time for each of time.
pub(crate) fn measured(
    (case, server): (Case, &'static str),
    front: Front,
    role: Role,
    milliseconds: f64,
) -> Measurement {
    let variant = Variant { case, language: Language::Python, server, front, role };
    let mut measurement = Measurement::new(variant);
    for round in 0..ROUNDS {
        // a few percent around it, in another order for each time, so that the intervals have a width
        let start = milliseconds as u32 + (milliseconds * 1000.0) as u32;
        let wobble = 1.0 + (f64::from((round * 7 + start) % 10) - 5.0) / 200.0;
        let ms = milliseconds * wobble;
        measurement.times.record(Duration::from_secs_f64(ms / 1000.0));
        measurement.bytes += 359;
        *measurement.statuses.entry(200).or_default() += 1;
        measurement.rounds.push(Round {
            median_ms: Some(ms),
            gateway_cpu_us: Some(ms * 100.0),
            service_cpu_us: Some(ms * 400.0),
        });
    }
    measurement.first = Some(Duration::from_millis(80));
    let memory = |pss_bytes| Memory { pss_bytes, rss_bytes: pss_bytes * 2, vms_bytes: pss_bytes * 20, processes: 1 };
    (measurement.memory_before, measurement.memory_after) = (memory(9_000_000), memory(9_250_000));
    measurement.memory_gateway = memory(5_000_000);
    measurement.elapsed = Duration::from_secs_f64(milliseconds * f64::from(ROUNDS) / 1000.0);
    measurement
}

/// One of Pilotlight's.
pub(crate) fn ours(what: (Case, &'static str), milliseconds: f64) -> Measurement {
    measured(what, Front::Pilotlight, Role::Measured, milliseconds)
}

/// A run in which something of everything happened.
pub(crate) fn results() -> Results {
    let mut cold = ours((Case::PipeCold, "SDK"), 50.0);
    let phases = [
        ("parse", 0.02),
        ("queue", 0.1),
        ("spawn", 1.2),
        ("connect", 47.0),
        ("ready", 0.1),
        ("service", 1.0),
        ("total", 49.5),
    ];
    for (name, milliseconds) in phases {
        cold.phase(name.into(), milliseconds);
    }
    let mut uwsgi = measured((Case::HttpCold, "WSGI"), Front::Uwsgi, Role::Measured, 13.0);
    uwsgi.errors.insert("status 502".into(), 1);
    uwsgi.statuses.insert(502, 1);
    let mut broken = Measurement::new(Variant {
        case: Case::HttpWarm,
        language: Language::Python,
        server: "FastCGI",
        front: Front::ModFcgid,
        role: Role::Measured,
    });
    broken.failed = Some("status 500 (the | program ended)".into());
    let measurements = [
        ours((Case::Cached, "SDK"), 0.04),
        ours((Case::HttpWarm, "http.server"), 0.3),
        broken,
        ours((Case::PipeWarm, "SDK"), 0.36),
        measured((Case::PipeWarm, "SDK"), Front::Pilotlight, Role::Control, 0.365),
        ours((Case::HttpCold, "http.server"), 80.0),
        measured((Case::HttpCold, "http.server"), Front::Bare, Role::Measured, 78.0),
        uwsgi,
        cold,
        measured((Case::PipeCold, "SDK"), Front::Bare, Role::Measured, 48.5),
    ];
    assemble(&measurements, compare::conclude(&measurements, SEED, Quiet::Quiet))
}

fn assemble(measurements: &[Measurement], conclusions: Conclusions) -> Results {
    Results {
        schema: SCHEMA,
        started_at: "2026-01-02T03:04:05Z".into(),
        duration_seconds: 61.5,
        machine: Machine {
            hostname: "here".into(),
            cpu: "a processor".into(),
            cores: 2,
            memory_bytes: 8_000_000_000,
            system: "a system".into(),
            kernel: "Linux 6.1".into(),
            architecture: "x86_64".into(),
            governor: None,
        },
        load_average: [0.12, 0.9],
        too_noisy: None,
        software: BTreeMap::from([
            ("pilotlight".into(), "0.1.0".into()),
            ("python".into(), "Python 3.11, /usr/bin/python3".into()),
        ]),
        configuration: Configuration {
            requests: ROUNDS,
            warmup: 5,
            rounds: ROUNDS,
            services: vec![Language::Python],
            cases: Case::ALL.to_vec(),
            seed: SEED,
        },
        skipped: vec![Skipped::new("nginx before the same HTTP services", "not installed", "apt install nginx-light")],
        results: measurements.iter().map(CaseResult::of).collect(),
        comparisons: conclusions.comparisons,
        controls: conclusions.controls,
        own_parts: conclusions.own_parts,
        recommendations: conclusions.recommendations,
        published: published::PUBLISHED.to_vec(),
        published_note: published::CAVEAT,
    }
}
