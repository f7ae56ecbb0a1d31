//! Who watches the board, and the look that they share: once a second, and only while somebody watches.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use pilotlight_cache::Unstored;
use pilotlight_supervisor::{InstanceState, Service};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};
use smallvec::SmallVec;

use super::board::{Counted, Facts, Row, Shown, Timed, Whole};
use super::shared::Shared;
use super::{certificates, groups, memory, status};
use crate::admission::refusal::Refused;
use crate::metrics::recent::{Recent, RecentTimes};
use crate::metrics::sums::{Counts, Times};
use crate::metrics::{CLASSES, Series, Verdict};
use crate::options::ServiceTarget;
use crate::timing::{Layer, milliseconds};

/// How often it is looked.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// Watchers at once.
pub(super) const MAX_WATCHERS: usize = 8;
/// A look that is not older than this is shared.
const FRESH: Duration = Duration::from_millis(900);
/// Between two looks that are further apart no rate is told.
const MAX_RATE_TIME: Duration = Duration::from_secs(5);
/// How often `/proc` is read for the memory of instances, and certificates are looked at.
const SLOW_PERIOD: Duration = Duration::from_secs(10);
/// Characters of the last error of a service.
const MAX_ERROR: usize = 300;

/// A place among those who watch.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    /// The number of the look that it has got last; 0: none.
    seen: u64,
}

impl Watcher {
    /// `None`: [`MAX_WATCHERS`] watch already.
    pub(super) fn new(shared: &Arc<Shared>) -> Option<Self> {
        if shared.board.watchers.fetch_add(1, Ordering::Relaxed) >= MAX_WATCHERS {
            shared.board.watchers.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self { shared: Arc::clone(shared), seen: 0 })
    }

    /// What has changed since the last time, as an event of the stream.
    pub(super) fn next(&mut self) -> String {
        let mut shown = self.shared.board.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if shown.looked.is_none_or(|at| now.saturating_duration_since(at) > FRESH) {
            shown.look(&self.shared, now);
        }
        let event = shown.since(self.seen);
        self.seen = shown.look;
        event
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.shared.board.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            *self.shared.board.shown.lock().unwrap_or_else(PoisonError::into_inner) = Shown::default();
        }
    }
}

impl Shown {
    fn look(&mut self, shared: &Shared, now: Instant) {
        self.look += 1;
        let since_last = self.looked.replace(now).map(|last| now.saturating_duration_since(last));
        let since_last = since_last.filter(|time| *time <= MAX_RATE_TIME);
        let per_second = |before: u64, after: u64| {
            since_last.map(|time| (after.saturating_sub(before) as f64 / time.as_secs_f64() * 10.0).round() / 10.0)
        };
        let is_slow_due = self.slow.is_none_or(|at| now.saturating_duration_since(at) >= SLOW_PERIOD);
        let all = shared.common.metrics.all();
        let mut by_service: ByService<'_> = FxHashMap::default();
        all.iter().for_each(|series| by_service.entry(&series.service).or_default().push(series));
        let mut counts = Counts::default();
        let counted = count(&by_service, &mut counts);

        let table = shared.common.table.load();
        let services = table.services();
        let is_same = self.rows.len() == services.len()
            && self.rows.iter().zip(services).all(|(row, target)| &*row.name == target.name());
        if !is_same {
            let row = |target: &ServiceTarget| Row { name: target.name().into(), changed: 0, facts: Facts::default() };
            self.rows = services.iter().map(row).collect();
            self.listed = self.look;
        }
        let recent = shared.recent();
        self.time(&recent, &by_service, &counted);
        let window = recent.window(now);
        drop(recent);
        if is_slow_due {
            self.slow = Some(now);
            self.groups = if services.iter().any(has_instances) { memory::of_groups() } else { HashMap::new() };
            let certificates = told_certificates(shared);
            if certificates != self.certificates.1 {
                self.certificates = (self.look, certificates);
            }
        }
        for (row, target) in self.rows.iter_mut().zip(services) {
            let counted = counted.get(target.name()).copied().unwrap_or_default();
            let mut facts = Facts::of(target, counted, &self.groups);
            facts.per_second = per_second(row.facts.requests, facts.requests).filter(|_| is_same).unwrap_or(0.0);
            let timed = self.timed.get(target.name());
            (facts.p50_ns, facts.p99_ns) = timed.map(|timed| (timed.p50_ns, timed.p99_ns)).unwrap_or_default();
            if facts != row.facts || row.changed == 0 {
                row.facts = facts;
                row.changed = self.look;
            }
        }
        self.whole.per_second = per_second(self.whole.counts.requests(), counts.requests());
        self.whole.counts = counts;
        let grouped = self.rows.iter().zip(services).filter(|(row, _)| row.facts.is_grouped).map(|(_, target)| target);
        let groups = groups::status(grouped);
        self.whole.told = self.whole.tell(shared, window, &groups);
    }

    /// Reads the times of the services that have answered something since the last look, and those of all together. A
    /// mark moves the beginning of the last minutes for each.
    fn time(&mut self, recent: &Recent, services: &ByService<'_>, counted: &FxHashMap<&str, Counted>) {
        if self.marks != recent.made() {
            self.marks = recent.made();
            self.timed.clear();
            self.whole.recent = RecentTimes::default();
        }
        for (name, series) in services {
            let counted = counted.get(name).copied().unwrap_or_default();
            if self.timed.get(*name).map_or(Counted::default(), |timed| timed.counted) == counted {
                continue;
            }
            let times = times(recent, name, series);
            let quantile = |per_mille| times.warm.quantile_ns(per_mille);
            let now = Timed { counted, times: times.sparse(), p50_ns: quantile(500), p99_ns: quantile(990) };
            match self.timed.get_mut(*name) {
                Some(known) => self.whole.recent.remove(&std::mem::replace(known, now).times),
                None => drop(self.timed.insert((*name).into(), now)),
            }
            self.whole.recent.add(&times);
        }
    }
}

type ByService<'a> = FxHashMap<&'a str, SmallVec<[&'a Series; 1]>>;

/// What each service has counted; adds it to the sum of all.
fn count<'a>(services: &ByService<'a>, all: &mut Counts) -> FxHashMap<&'a str, Counted> {
    let mut sofar = Counted::of(all);
    let mut count = |series: &[&Series]| {
        series.iter().for_each(|series| all.add(series));
        let before = std::mem::replace(&mut sofar, Counted::of(all));
        sofar.since(before)
    };
    services.iter().map(|(name, series)| (*name, count(series))).collect()
}

fn times(recent: &Recent, name: &str, all: &[&Series]) -> RecentTimes {
    let mut times = Times::default();
    all.iter().for_each(|series| times.add(series));
    recent.since(name, &times)
}

fn has_instances(target: &ServiceTarget) -> bool {
    matches!(target, ServiceTarget::Managed(service, _) if service.status().pid.is_some())
}

/// Names, ends and errors.
fn told_certificates(shared: &Shared) -> Value {
    let all = certificates::list(shared);
    let mut value = json!({ "certificates": all["certificates"], "names": all["acme"]["names"] });
    // They pass by themselves: who shows them counts from the dates.
    for list in ["certificates", "names"] {
        for one in value[list].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            one.retain(|name, _| !name.ends_with("_in_seconds"));
        }
    }
    value
}

impl Facts {
    fn of(target: &ServiceTarget, counted: Counted, groups: &HashMap<i32, u64>) -> Self {
        let facts = Self {
            requests: counted.requests,
            in_flight: counted.begun.saturating_sub(counted.ended),
            hits: counted.hits,
            ..Self::default()
        };
        match target {
            ServiceTarget::Managed(service, _) => facts.managed(service, groups),
            ServiceTarget::External(_) => Self { kind: "external", state: "external", ..facts },
        }
    }

    fn managed(self, service: &Service, groups: &HashMap<i32, u64>) -> Self {
        let status = service.status();
        let is_serving =
            |state| matches!(state, InstanceState::Starting | InstanceState::Ready | InstanceState::Frozen);
        let serving = status.instances.iter().filter(|instance| is_serving(instance.state)).count();
        let memory = status.instances.iter().map(|one| one.pid.and_then(|pid| groups.get(&pid))).sum::<Option<u64>>();
        let error = status.last_error.as_ref().filter(|_| status.failures > 0);
        Self {
            kind: "managed",
            state: status.state.name(),
            circuit: Some(status.circuit.name()),
            serving,
            ending: status.instances.len() - serving,
            queue: Some(service.waiting()),
            is_grouped: status.spec.group.is_some(),
            memory_bytes: memory.filter(|_| !status.instances.is_empty()),
            failures: status.failures,
            error: error.map(|error| error.reason.chars().take(MAX_ERROR).collect::<String>().into()),
            ..self
        }
    }
}

impl Whole {
    fn tell(&self, shared: &Shared, window: Duration, groups: &Value) -> Value {
        let counts = &self.counts;
        let (opened, closed) = status::connections(shared);
        let quantile = |per_mille| self.recent.warm.quantile_ns(per_mille).map(milliseconds);
        let layers: Map<String, Value> = Layer::ALL
            .iter()
            .zip(counts.layers_ns)
            .map(|(layer, ns)| (layer.name().to_owned(), milliseconds(ns).into()))
            .collect();
        let cache = shared.common.cache.as_ref().map(|cache| {
            let usage = cache.usage();
            json!({ "bytes": usage.bytes, "max_bytes": cache.options().max_bytes, "resources": usage.resources })
        });
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "config": shared.config_file.to_string_lossy(),
            "listen": shared.common.addresses.load().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "uptime_seconds": shared.begun.elapsed().as_secs(),
            "connections_open": opened.saturating_sub(closed),
            "memory_bytes": memory::own().map(|(bytes, _)| bytes),
            "requests": counts.requests(),
            "requests_per_second": self.per_second,
            "in_flight": counts.in_flight(),
            "recent": {
                "seconds": window.as_secs(),
                "count": self.recent.warm.count(),
                "p50_ms": quantile(500),
                "p99_ms": quantile(990),
                "cold": self.recent.cold.count(),
                "cold_p50_ms": self.recent.cold.quantile_ns(500).map(milliseconds),
            },
            "answers": some(CLASSES.iter().copied().zip(counts.classes)),
            "verdicts": some(Verdict::ALL.iter().map(|verdict| verdict.name()).zip(counts.verdicts)),
            "unstored": some(Unstored::ALL.iter().map(|why| why.as_str()).zip(counts.unstored)),
            "refused": some(Refused::ALL.iter().map(|why| why.name()).zip(counts.refused)),
            "layers_ms": layers,
            "cache": cache,
            "groups": groups,
        })
    }
}

/// Those that are not 0.
fn some(counts: impl Iterator<Item = (&'static str, u64)>) -> Value {
    let some = counts.filter(|(_, count)| *count > 0);
    some.map(|(name, count)| (name.to_owned(), Value::from(count))).collect::<Map<_, _>>().into()
}
