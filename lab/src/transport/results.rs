//! The report as data: what `transport.json` has. Its shape is `docs/lab/transport.schema.json`; whoever changes it
//! raises [`SCHEMA`].

use std::collections::BTreeMap;

use serde::Serialize;

use super::cases::{Case, Front, Role};
use super::compare::{Comparison, Control, OwnPart, Recommendation};
use super::measure::{Measurement, has_gateway};
use super::published::Published;
use super::services::Language;
use crate::experiment::model::Skipped;
use crate::machine::Machine;
use crate::processes::usage::Memory;
use crate::stats::median;

/// The name and version of this shape.
pub(crate) const SCHEMA: &str = "pilotlight-lab-transport/2";
/// Bars of a histogram, as published.
const BINS: usize = 10;
const PERCENTILES: [(&str, f64); 8] = [
    ("p10", 10.0),
    ("p25", 25.0),
    ("p50", 50.0),
    ("p75", 75.0),
    ("p90", 90.0),
    ("p95", 95.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
];

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Results {
    /// [`SCHEMA`].
    pub(crate) schema: &'static str,
    /// When it began, RFC 3339.
    pub(crate) started_at: String,
    /// How long it took.
    pub(crate) duration_seconds: f64,
    /// The machine.
    pub(crate) machine: Machine,
    /// Processes that ran or wanted to, before and after.
    pub(crate) load_average: [f64; 2],
    /// Why the machine was too noisy to compare anything on it, if it was.
    pub(crate) too_noisy: Option<String>,
    /// Versions of everything that took part.
    pub(crate) software: BTreeMap<String, String>,
    /// What was asked for.
    pub(crate) configuration: Configuration,
    /// What was not measured, and why.
    pub(crate) skipped: Vec<Skipped>,
    /// Every variant.
    pub(crate) results: Vec<CaseResult>,
    /// Ratios.
    pub(crate) comparisons: Vec<Comparison>,
    /// What this machine cannot tell apart.
    pub(crate) controls: Vec<Control>,
    /// The gateway's own part of cold starts.
    pub(crate) own_parts: Vec<OwnPart>,
    /// What to use for each language.
    pub(crate) recommendations: Vec<Recommendation>,
    /// Published figures of another machine.
    pub(crate) published: Vec<Published>,
    /// What they are worth.
    pub(crate) published_note: &'static str,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Configuration {
    /// Counted requests of each case.
    pub(crate) requests: u32,
    /// Warm-up requests.
    pub(crate) warmup: u32,
    /// Rounds.
    pub(crate) rounds: u32,
    /// Languages.
    pub(crate) services: Vec<Language>,
    /// Cases.
    pub(crate) cases: Vec<Case>,
    /// Seed of the intervals.
    pub(crate) seed: u64,
}

/// One variant.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CaseResult {
    /// The name that comparisons refer to.
    pub(crate) id: String,
    /// For people.
    pub(crate) title: String,
    /// The case.
    pub(crate) case: Case,
    /// What happens in it.
    pub(crate) description: &'static str,
    /// Who answers the client.
    pub(crate) front: Front,
    /// The service's language.
    pub(crate) service: Language,
    /// SDK or HTTP server.
    pub(crate) server: &'static str,
    /// The second of two equals.
    pub(crate) control: bool,
    /// Why it was given up, if it was.
    pub(crate) failed: Option<String>,
    /// Time of the counted rounds, with what lies between requests.
    pub(crate) total_seconds: f64,
    /// Answered requests.
    pub(crate) success: u64,
    /// Requests that failed.
    pub(crate) errors: u64,
    /// 0 to 1.
    pub(crate) success_rate: f64,
    /// HTTP statuses, and how often.
    pub(crate) status_codes: BTreeMap<String, u64>,
    /// What came instead of an answer, and how often.
    pub(crate) error_reasons: BTreeMap<String, u64>,
    /// The very first request, which is not counted.
    pub(crate) first_request_ms: Option<f64>,
    /// Moments and extremes; absent if nothing was answered, as what follows.
    pub(crate) response_time_ms: Option<Moments>,
    /// Percentiles by name.
    pub(crate) percentiles_ms: Option<BTreeMap<&'static str, f64>>,
    /// Bars of the same width.
    pub(crate) histogram: Vec<Bar>,
    /// How much in which time.
    pub(crate) throughput: Option<Throughput>,
    /// Memory.
    pub(crate) memory: MemoryUse,
    /// CPU time.
    pub(crate) cpu: CpuUse,
    /// Medians of the phases of a cold start, as the gateway's `Server-Timing` says them, in their order.
    pub(crate) phases_ms: Vec<Phase>,
    /// Medians by round; null where a round had no answer.
    pub(crate) round_medians_ms: Vec<Option<f64>>,
}

/// A phase of a cold start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Phase {
    /// As `Server-Timing` calls it.
    pub(crate) name: String,
    /// The median.
    pub(crate) median_ms: f64,
}

/// Moments and extremes of times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Moments {
    /// Mean.
    pub(crate) mean: f64,
    /// Minimum.
    pub(crate) min: f64,
    /// Maximum.
    pub(crate) max: f64,
    /// Standard deviation of the sample.
    pub(crate) std_dev: f64,
    /// Its square.
    pub(crate) variance: f64,
    /// Maximum less minimum.
    pub(crate) range: f64,
}

/// One bar.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Bar {
    /// Lower edge.
    pub(crate) from_ms: f64,
    /// Upper edge.
    pub(crate) to_ms: f64,
    /// Requests.
    pub(crate) count: u64,
}

/// Of one client that asks again when it has its answer; the time in which services are stopped does not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Throughput {
    /// Requests in a second.
    pub(crate) requests_per_second: f64,
    /// Mean size of an answer, head included.
    pub(crate) mean_bytes: f64,
    /// All answers.
    pub(crate) total_bytes: u64,
    /// Bytes in a second.
    pub(crate) bytes_per_second: f64,
}

/// Memory of a variant's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MemoryUse {
    /// The service after its warm-up.
    pub(crate) service_after_warmup: Memory,
    /// The service at the end.
    pub(crate) service_after: Memory,
    /// By how much its share of memory has grown in between.
    pub(crate) service_growth_bytes: i64,
    /// The gateway at the end.
    pub(crate) gateway: Memory,
}

/// CPU time of a request: medians of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct CpuUse {
    /// Of the gateway.
    pub(crate) gateway_us: Option<f64>,
    /// Of the service, in cold cases its start included.
    pub(crate) service_us: Option<f64>,
    /// Least and most of both together in a round.
    pub(crate) min_us: Option<f64>,
    /// See `min_us`.
    pub(crate) max_us: Option<f64>,
}

impl CaseResult {
    /// What a measurement says.
    #[must_use]
    pub(crate) fn of(measurement: &Measurement) -> Self {
        let Measurement { variant, times, .. } = measurement;
        let answered = !times.is_empty();
        let errors = measurement.errors.values().sum::<u64>();
        let requests = times.count() + errors;
        Self {
            id: variant.id(),
            title: variant.title(),
            case: variant.case,
            description: variant.description(),
            front: variant.front,
            service: variant.language,
            server: variant.server,
            control: variant.role == Role::Control,
            failed: measurement.failed.clone(),
            total_seconds: measurement.elapsed.as_secs_f64(),
            success: times.count(),
            errors,
            success_rate: if requests == 0 { 0.0 } else { times.count() as f64 / requests as f64 },
            status_codes: measurement.statuses.iter().map(|(status, count)| (status.to_string(), *count)).collect(),
            error_reasons: measurement.errors.clone(),
            first_request_ms: measurement.first.map(|first| first.as_secs_f64() * 1000.0),
            response_time_ms: answered.then(|| Moments {
                mean: times.mean_ms(),
                min: times.min_ms(),
                max: times.max_ms(),
                std_dev: times.deviation_ms(),
                variance: times.variance(),
                range: times.max_ms() - times.min_ms(),
            }),
            percentiles_ms: answered
                .then(|| PERCENTILES.iter().map(|(name, percent)| (*name, times.percentile_ms(*percent))).collect()),
            histogram: times
                .bins(BINS)
                .iter()
                .map(|bin| Bar { from_ms: bin.from_ms, to_ms: bin.to_ms, count: bin.count })
                .collect(),
            throughput: answered.then(|| {
                let seconds = times.sum_ms() / 1000.0;
                Throughput {
                    requests_per_second: times.count() as f64 / seconds,
                    mean_bytes: measurement.bytes as f64 / times.count() as f64,
                    total_bytes: measurement.bytes,
                    bytes_per_second: measurement.bytes as f64 / seconds,
                }
            }),
            memory: memory(measurement),
            cpu: cpu(measurement),
            phases_ms: measurement
                .phases
                .iter()
                .map(|(name, times)| Phase { name: name.clone(), median_ms: times.median_ms() })
                .collect(),
            round_medians_ms: measurement.rounds.iter().map(|round| round.median_ms).collect(),
        }
    }

    /// The median time.
    #[must_use]
    pub(crate) fn median_ms(&self) -> Option<f64> {
        self.percentile("p50")
    }

    /// A percentile by its name.
    #[must_use]
    pub(crate) fn percentile(&self, name: &str) -> Option<f64> {
        self.percentiles_ms.as_ref()?.get(name).copied()
    }
}

fn memory(measurement: &Measurement) -> MemoryUse {
    let (before, after) = (measurement.memory_before, measurement.memory_after);
    let bytes = |memory: Memory| i64::try_from(memory.pss_bytes).unwrap_or(i64::MAX);
    MemoryUse {
        service_after_warmup: before,
        service_after: after,
        service_growth_bytes: bytes(after) - bytes(before),
        gateway: measurement.memory_gateway,
    }
}

fn cpu(measurement: &Measurement) -> CpuUse {
    let rounds = &measurement.rounds;
    let service: Vec<f64> = rounds.iter().filter_map(|round| round.service_cpu_us).collect();
    let gateway: Vec<f64> = rounds.iter().filter_map(|round| round.gateway_cpu_us).collect();
    let both = || service.iter().zip(&gateway).map(|(service, gateway)| service + gateway);
    CpuUse {
        gateway_us: median(&gateway).filter(|_| has_gateway(measurement.variant.front)),
        service_us: median(&service),
        min_us: both().min_by(f64::total_cmp),
        max_us: both().max_by(f64::total_cmp),
    }
}
