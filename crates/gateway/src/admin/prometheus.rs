//! `GET /metrics`: the text exposition format of Prometheus, or OpenMetrics, which has exemplars.

use std::sync::atomic::Ordering::Relaxed;

use pilotlight_acme::OnDemandStatus;
use pilotlight_cache::Unstored;
use pilotlight_cache_redis::{Family, SharedTier};
use pilotlight_supervisor::{
    CircuitState, Deploys, GivenAway, InstanceState, InstanceStatus, Replaced, Service, ServiceState, Status,
};

use super::keys::unix_seconds;
use super::shared::Shared;
use super::tls::{self, Handshakes};
use super::{memory, status};
use crate::admission::refusal::Refused;
use crate::jwks::Fetches;
use crate::metrics::sums::Sums;
use crate::metrics::{CLASSES, PHASES, Upgraded, Verdict};
use crate::options::ServiceTarget;
use crate::protocols::{ClientProtocol, ServiceProtocol};
use crate::timing::Layer;
use crate::traces::export::Dropped;
use text::{Text, labels};

pub(super) use text::Exposition;

mod groups;
mod schedules;
mod servers;
mod text;

/// Powers of two between the bounds of a histogram of whole requests, and of layers.
const TOTAL_STEP: usize = 1;
const LAYER_STEP: usize = 2;

/// The labels of a series, and its numbers.
type Counted = (String, Sums);

/// All metrics.
pub(super) fn text(shared: &Shared, exposition: Exposition) -> String {
    let all = shared.common.metrics.all();
    let counted: Vec<Counted> = all
        .iter()
        .map(|series| (labels(&[("route", &series.route), ("service", &series.service)]), Sums::of(series)))
        .filter(|(_, sums)| sums.requests() + sums.in_flight() > 0)
        .collect();
    let mut text = Text::new(exposition);
    requests(&mut text, &counted);
    times(&mut text, &counted);
    services(&mut text, shared);
    servers::servers(&mut text, shared.common.table.load().services());
    gateway(&mut text, shared);
    acme(&mut text, shared);
    keys(&mut text, shared);
    traces(&mut text, shared);
    schedules::runs(&mut text, &shared.common.schedules.report());
    text.into_string()
}

/// Spans, once there were `[traces]`.
fn traces(text: &mut Text, shared: &Shared) {
    let exporter = &shared.common.exporter;
    if !exporter.is_used() {
        return;
    }
    let help = "Spans that the collector has taken.";
    text.one("pilotlight_trace_spans_sent_total", "counter", help, &exporter.sent());
    let name = "pilotlight_trace_spans_dropped_total";
    text.family(name, "counter", "Spans that the collector has not got, by reason.");
    for why in Dropped::ALL {
        text.sample(name, &labels(&[("reason", why.name())]), &exporter.dropped(why));
    }
}

/// Keys that tokens are verified by.
fn keys(text: &mut Text, shared: &Shared) {
    let all = shared.common.keys.status();
    if all.is_empty() {
        return;
    }
    text.family("pilotlight_jwks_keys", "gauge", "Keys of each source that tokens can be verified by.");
    for source in &all {
        text.sample("pilotlight_jwks_keys", &labels(&[("source", &source.source)]), &source.keys);
    }
    let name = "pilotlight_jwks_reads_total";
    text.family(name, "counter", "How often the keys of each source were read, by what became of it.");
    for source in &all {
        let Fetches { read, failed, .. } = source.fetches;
        for (result, count) in [("read", read), ("failed", failed)] {
            text.sample(name, &labels(&[("source", &source.source), ("result", result)]), &count);
        }
    }
    let name = "pilotlight_jwks_last_success_seconds";
    text.family(name, "gauge", "When the keys of each source were last read, seconds since 1970; 0 for never.");
    for source in &all {
        text.sample(name, &labels(&[("source", &source.source)]), &unix_seconds(source.last_success));
    }
}

/// Certificates by ACME. When those that are there are over is said of all certificates together.
fn acme(text: &mut Text, shared: &Shared) {
    let Some(acme) = shared.common.issuers.acme() else { return };
    let status = acme.status();
    let name = "pilotlight_acme_orders_total";
    text.family(name, "counter", "Orders of certificates that are over, by what became of them.");
    for (result, count) in [("obtained", status.obtained), ("failed", status.failed)] {
        text.sample(name, &labels(&[("result", result)]), &count);
    }
    if let Some(on_demand) = &status.on_demand {
        let name = "pilotlight_acme_on_demand_total";
        text.family(name, "counter", "Names that clients asked for and no route names, by what became of them.");
        let OnDemandStatus { stored, permitted, refused, unanswered, limited, .. } = on_demand;
        let results = [
            ("stored", stored),
            ("permitted", permitted),
            ("refused", refused),
            ("unanswered", unanswered),
            ("limited", limited),
        ];
        for (result, count) in results {
            text.sample(name, &labels(&[("result", result)]), count);
        }
    }
    let name = "pilotlight_acme_failing";
    text.family(name, "gauge", "1 for each name whose last order failed.");
    for state in &status.names {
        text.sample(name, &labels(&[("name", state.name.as_str())]), &u8::from(state.last_error.is_some()));
    }
}

fn requests(text: &mut Text, counted: &[Counted]) {
    text.family(
        "pilotlight_requests_total",
        "counter",
        "Requests that are over, by route, class of status and verdict of the cache.",
    );
    for (labels, sums) in counted {
        for (class, verdicts) in CLASSES.iter().zip(&sums.answers) {
            for (verdict, count) in Verdict::ALL.iter().zip(verdicts).filter(|(_, count)| **count > 0) {
                let labels = format!("{labels},code=\"{class}\",cache=\"{}\"", verdict.name());
                text.sample("pilotlight_requests_total", &labels, count);
            }
        }
    }
    text.each(
        "pilotlight_requests_in_flight",
        "gauge",
        "Requests that are not over, hits from memory apart.",
        counted,
        Sums::in_flight,
    );
    text.each("pilotlight_request_body_bytes_total", "counter", "Bytes of request bodies.", counted, |sums| {
        sums.received_bytes
    });
    text.each("pilotlight_response_body_bytes_total", "counter", "Bytes of answers' bodies.", counted, |sums| {
        sums.sent_bytes
    });
    text.family("pilotlight_cache_unstored_total", "counter", "Answers that were not stored, by reason.");
    for (labels, sums) in counted {
        for (why, count) in Unstored::ALL.iter().zip(&sums.unstored).filter(|(_, count)| **count > 0) {
            text.sample("pilotlight_cache_unstored_total", &format!("{labels},reason=\"{}\"", why.as_str()), count);
        }
    }
    let name = "pilotlight_refused_requests_total";
    text.family(name, "counter", "Requests that were not let in on their route, by reason.");
    for (labels, sums) in counted {
        for (why, count) in Refused::ALL.iter().zip(&sums.refused).filter(|(_, count)| **count > 0) {
            text.sample(name, &format!("{labels},reason=\"{}\"", why.name()), count);
        }
    }
}

fn times(text: &mut Text, counted: &[Counted]) {
    let name = "pilotlight_request_duration_seconds";
    text.family(name, "histogram", "From the first byte of a request to the last one of its answer written.");
    for (labels, sums) in counted {
        text.histogram(name, labels, &sums.times.total, TOTAL_STEP);
    }
    let name = "pilotlight_layer_duration_seconds";
    text.family(name, "histogram", "The parts of pilotlight_request_duration_seconds; their sums add up to its sum.");
    for (labels, sums) in counted {
        for (layer, times) in Layer::ALL.iter().zip(&sums.layers).filter(|(_, times)| times.count() > 0) {
            text.histogram(name, &format!("{labels},layer=\"{}\"", layer.name()), times, LAYER_STEP);
        }
    }
    let name = "pilotlight_cold_start_duration_seconds";
    text.family(name, "histogram", "What requests waited for while a service was started for them, by phase.");
    for (labels, sums) in counted {
        for (phase, times) in PHASES.iter().zip(&sums.phases).filter(|(_, times)| times.count() > 0) {
            text.histogram(name, &format!("{labels},phase=\"{phase}\""), times, LAYER_STEP);
        }
    }
}

/// A service that Pilotlight starts, as it was when it was looked at.
struct Managed<'a> {
    labels: String,
    service: &'a Service,
    status: Status,
}

impl<'a> Managed<'a> {
    fn of(target: &'a ServiceTarget) -> Option<Self> {
        let ServiceTarget::Managed(service, _) = target else { return None };
        Some(Self { labels: labels(&[("service", service.name())]), service, status: service.status() })
    }
}

fn services(text: &mut Text, shared: &Shared) {
    let table = shared.common.table.load();
    let all: Vec<Managed<'_>> = table.services().iter().filter_map(Managed::of).collect();
    instances(text, &all);
    text.of_each("pilotlight_service_ready", "gauge", "Whether it takes exchanges without a start.", &all, |one| {
        u64::from(matches!(one.status.state, ServiceState::Ready | ServiceState::Frozen))
    });
    text.of_each("pilotlight_service_queue_length", "gauge", "Requests that wait for an instance.", &all, |one| {
        one.service.waiting() as u64
    });
    let help = "Requests that got no instance, by reason: queue.max, queue.timeout, the circuit.";
    text.by_reason("pilotlight_service_queue_refused_total", help, &all, |one| {
        let refused = one.service.refused();
        vec![("full", refused.full), ("timeout", refused.timeout), ("circuit", refused.circuit)]
    });
    let help = "Requests that went to another service, by reason: full, queue.";
    let spilling: Vec<_> = all.iter().filter(|one| table.spill(one.service.name()).is_some()).collect();
    if !spilling.is_empty() {
        let name = "pilotlight_service_spilled_total";
        text.family(name, "counter", help);
        for one in spilling {
            for (reason, why) in [("full", GivenAway::Full), ("queue", GivenAway::Queue)] {
                let labels = labels(&[("service", one.service.name()), ("reason", reason)]);
                text.sample(name, &labels, &one.service.given_away(why));
            }
        }
    }
    let help = "Whether requests are refused because starts failed: 0 closed, 1 open, 2 one is tried.";
    text.of_each("pilotlight_service_circuit_state", "gauge", help, &all, |one| match one.status.circuit {
        CircuitState::Closed => 0,
        CircuitState::Open => 1,
        CircuitState::Probing => 2,
    });
    text.of_each(
        "pilotlight_service_failures",
        "gauge",
        "Instances in a row that failed to start or ended early.",
        &all,
        |one| u64::from(one.status.failures),
    );
    text.of_each("pilotlight_service_starts_total", "counter", "Instances that became ready.", &all, |one| {
        one.status.starts
    });
    let help = "Instances that did not become ready, or ended before their first answer.";
    text.of_each("pilotlight_service_failed_starts_total", "counter", help, &all, |one| one.status.failed_starts);
    let help = "Instances that were replaced by fresh ones, by the limit that they had reached.";
    text.by_reason("pilotlight_service_replaced_total", help, &all, |one| {
        let Replaced { requests, age, memory, asked } = one.status.replaced;
        vec![("max_requests", requests), ("max_age", age), ("max_memory", memory), ("asked", asked)]
    });
    releases(text, &all);
    groups::groups(text, table.services());
    let help = "Instances that were ended because a request took longer than max_request_time.";
    text.of_each("pilotlight_service_stuck_total", "counter", help, &all, |one| one.status.stuck);
    let help = "Lines of output that found no room.";
    text.of_each("pilotlight_service_output_dropped_lines_total", "counter", help, &all, |one| {
        one.service.dropped_lines()
    });
}

/// Of services that have releases.
fn releases(text: &mut Text, all: &[Managed<'_>]) {
    const NAME: &str = "pilotlight_service_releases_total";
    if all.iter().all(|one| one.status.spec.releases.is_none()) {
        return;
    }
    text.family(NAME, "counter", "Releases that were tried, by what came of it.");
    for one in all.iter().filter(|one| one.status.spec.releases.is_some()) {
        let Deploys { used, refused, abandoned } = one.status.deploys;
        for (outcome, count) in [("used", used), ("refused", refused), ("abandoned", abandoned)] {
            text.sample(NAME, &format!("{},outcome=\"{outcome}\"", one.labels), &count);
        }
    }
}

fn instances(text: &mut Text, all: &[Managed<'_>]) {
    const STATES: [InstanceState; 4] =
        [InstanceState::Starting, InstanceState::Ready, InstanceState::Frozen, InstanceState::Draining];
    text.family("pilotlight_service_instances", "gauge", "Instances, by state.");
    for one in all {
        for state in STATES {
            let count = one.status.instances.iter().filter(|instance| instance.state == state).count();
            let labels = format!("{},state=\"{}\"", one.labels, state.name());
            text.sample("pilotlight_service_instances", &labels, &count);
        }
    }
    text.of_each("pilotlight_service_max_instances", "gauge", "The most that may be.", all, |one| {
        u64::from(one.status.spec.max_instances)
    });
    let help = "Exchanges that instances are busy with.";
    text.of_each("pilotlight_service_exchanges_open", "gauge", help, all, |one| {
        one.status.instances.iter().map(InstanceStatus::open_exchanges).sum()
    });
    let groups = memory::of_groups();
    let help = "Resident memory of the instances' process groups.";
    text.of_each("pilotlight_service_memory_bytes", "gauge", help, all, |one| {
        one.status.instances.iter().filter_map(|instance| groups.get(&instance.pid?)).sum()
    });
}

fn tls(text: &mut Text, shared: &Shared) {
    let ends = tls::ends(shared);
    let Handshakes { full, resumed, failed } = Handshakes::of(shared);
    if ends.is_empty() && full + resumed + failed == 0 {
        return;
    }
    let name = "pilotlight_tls_handshakes_total";
    text.family(name, "counter", "Handshakes of TLS with clients, by what became of them.");
    for (result, count) in [("full", full), ("resumed", resumed), ("failed", failed)] {
        text.sample(name, &labels(&[("result", result)]), &count);
    }
    let name = "pilotlight_tls_certificate_end_seconds";
    text.family(name, "gauge", "When the certificate of that name is over, seconds since 1970.");
    for (host, end) in ends {
        text.sample(name, &labels(&[("name", &host)]), &end);
    }
}

/// What is spoken with clients and with services. HTTP/1.1 is what is not HTTP/2.
fn protocols(text: &mut Text, shared: &Shared) {
    let workers = &shared.common.metrics.connections;
    let http2: u64 = workers.iter().map(|worker| worker.http2.value()).sum();
    text.one("pilotlight_http2_connections_total", "counter", "Connections of clients that speak HTTP/2.", &http2);
    let requests: u64 = workers.iter().map(|worker| worker.http2_requests.value()).sum();
    text.one("pilotlight_http2_requests_total", "counter", "Requests that began on them.", &requests);
    let name = "pilotlight_service_info";
    text.family(name, "gauge", "1 for each service, by how it is reached.");
    for service in shared.common.table.load().services() {
        let labels = labels(&[("service", service.name()), ("transport", service.protocol().name())]);
        text.sample(name, &labels, &1);
    }
    let upgrades: Vec<(String, Upgraded)> = ClientProtocol::ALL
        .iter()
        .flat_map(|client| ServiceProtocol::SWITCHING.iter().map(move |service| (*client, *service)))
        .map(|(client, service)| {
            let labels = labels(&[("protocol", client.name()), ("transport", service.name())]);
            (labels, workers.iter().map(|worker| worker.upgrades.counts(client, service)).sum())
        })
        .collect();
    let name = "pilotlight_upgrades_total";
    text.family(name, "counter", "Connections and streams that have left HTTP, by what was spoken on both sides.");
    for (labels, count) in &upgrades {
        text.sample(name, labels, &count.begun);
    }
    let name = "pilotlight_upgrades_open";
    text.family(name, "gauge", "Those of them that are open.");
    for (labels, count) in &upgrades {
        text.sample(name, labels, &count.open);
    }
}

fn gateway(text: &mut Text, shared: &Shared) {
    let (accepted, closed) = status::connections(shared);
    text.one("pilotlight_connections_total", "counter", "Connections of clients accepted.", &accepted);
    text.one(
        "pilotlight_connections_open",
        "gauge",
        "Connections of clients open.",
        &(accepted.saturating_sub(closed)),
    );
    protocols(text, shared);
    tls(text, shared);
    if let Some(cache) = &shared.common.cache {
        let usage = cache.usage();
        text.one("pilotlight_cache_bytes", "gauge", "Memory of stored answers.", &usage.bytes);
        text.one(
            "pilotlight_cache_max_bytes",
            "gauge",
            "The limit of pilotlight_cache_bytes.",
            &cache.options().max_bytes,
        );
        text.one("pilotlight_cache_resources", "gauge", "Targets with a stored answer.", &usage.resources);
    }
    if let Some(second) = &shared.common.second {
        redis(text, second);
    }
    if let Some(cache) = &shared.common.cache {
        let help = "Purges applied, those of other gateways included.";
        text.one("pilotlight_cache_purges_total", "counter", help, &cache.purges().counts().applied);
    }
    if let Some(coherence) = &shared.common.coherence {
        let status = coherence.handle().status();
        let help = "1: it is known what other gateways purge and replace; 0: stored answers are validated instead.";
        text.one("pilotlight_cache_coherence_covered", "gauge", help, &u8::from(status.is_covered));
        let help = "How often it was not known what other gateways purge and replace.";
        text.one("pilotlight_cache_coherence_losses_total", "counter", help, &status.losses);
        let help = "Purges that other gateways have not been told yet.";
        text.one("pilotlight_cache_coherence_waiting_purges", "gauge", help, &status.waiting);
        let help = "Records that were replaced, by other gateways or by this one.";
        text.one("pilotlight_cache_coherence_replaced_total", "counter", help, &status.replaced);
    }
    let help = "Lines of the gateway's own log and of services' output that were not written.";
    text.one("pilotlight_log_dropped_lines_total", "counter", help, &shared.dropped_log_lines());
    if let Some(dropped) = &shared.dropped_access_lines {
        let help = "Lines of the access log that were not written.";
        text.one("pilotlight_access_log_dropped_lines_total", "counter", help, &dropped.load(Relaxed));
    }
    text.family("pilotlight_info", "gauge", "The version.");
    text.sample("pilotlight_info", &labels(&[("version", env!("CARGO_PKG_VERSION"))]), &1);
    text.one("pilotlight_uptime_seconds", "gauge", "Since the gateway started.", &shared.begun.elapsed().as_secs_f64());
    if let Some((bytes, seconds)) = memory::own() {
        text.one("process_resident_memory_bytes", "gauge", "Resident memory of the gateway's process.", &bytes);
        text.one("process_cpu_seconds_total", "counter", "CPU time of the gateway's process.", &seconds);
    }
}

/// The cache's tier in Redis.
fn redis(text: &mut Text, tier: &SharedTier) {
    let status = tier.status();
    let totals = &status.totals;
    for (family, name, help) in [
        (
            Family::Reads,
            "pilotlight_cache_redis_reads_total",
            "Requests that memory could not answer, by what Redis had for them.",
        ),
        (Family::Writes, "pilotlight_cache_redis_writes_total", "Answers for Redis, by what became of them."),
        (
            Family::Rates,
            "pilotlight_shared_rate_requests_total",
            "Requests of shared rates, by what Redis said of them.",
        ),
    ] {
        text.family(name, "counter", help);
        for (_, result, count) in totals.counted().filter(|(of, ..)| *of == family) {
            text.sample(name, &labels(&[("result", result)]), &count);
        }
    }
    let help = "Requests that waited for the fetch of another gateway.";
    text.one("pilotlight_cache_redis_waits_total", "counter", help, &totals.waits);
    let help = "Records that were damaged, unknown or not to be trusted.";
    text.one("pilotlight_cache_redis_refused_records_total", "counter", help, &totals.refused);
    let help = "Invalidations that Redis has got.";
    text.one("pilotlight_cache_redis_invalidations_total", "counter", help, &totals.invalidations);
    let help = "Invalidations that Redis has not got yet.";
    text.one("pilotlight_cache_redis_pending_invalidations", "gauge", help, &status.pending_invalidations);
    let help = "Breakers that are open: workers (of a cluster, and ranges of slots) that go on without Redis.";
    text.one("pilotlight_cache_redis_open_breakers", "gauge", help, &status.open_breakers);
    let help = "The same for shared rates, which are held by this gateway alone then.";
    text.one("pilotlight_shared_rate_open_breakers", "gauge", help, &status.open_rate_breakers);
    let help = "1 while Redis answers and refuses to write: a right is missing, it is full, it is a replica.";
    text.one("pilotlight_cache_redis_write_problem", "gauge", help, &u8::from(tier.write_problem().is_some()));
    text.one("pilotlight_cache_redis_queue_length", "gauge", "Answers that wait to be written.", &status.queued);
    text.one("pilotlight_cache_redis_queue_bytes", "gauge", "Memory of those answers.", &status.queued_bytes);
}

impl Text {
    fn each(&mut self, name: &str, kind: &str, help: &str, counted: &[Counted], value: impl Fn(&Sums) -> u64) {
        self.family(name, kind, help);
        for (labels, sums) in counted {
            self.sample(name, labels, &value(sums));
        }
    }

    fn of_each(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        all: &[Managed<'_>],
        value: impl Fn(&Managed<'_>) -> u64,
    ) {
        self.family(name, kind, help);
        for one in all {
            self.sample(name, &one.labels, &value(one));
        }
    }

    fn by_reason(
        &mut self,
        name: &str,
        help: &str,
        all: &[Managed<'_>],
        counts: impl Fn(&Managed<'_>) -> Vec<(&'static str, u64)>,
    ) {
        self.family(name, "counter", help);
        for one in all {
            for (reason, count) in counts(one) {
                self.sample(name, &format!("{},reason=\"{reason}\"", one.labels), &count);
            }
        }
    }
}
