//! What a client has counted, as metrics.

use crate::stats::{CacheStats, LaneStats, PoolNodeStats, Snapshot, Stats};

/// A value to be exported.
///
/// ```no_run
/// # fn example(client: &pilotlight_redis::Client) {
/// for metric in client.stats().metrics() {
///     println!("{} {:?} {}", metric.name, metric.attributes, metric.value);
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// `db.client.…` is of OpenTelemetry's conventions, `redis.client.…` of Redis' own, `pilotlight.redis.…` of this
    /// client.
    pub name: &'static str,
    /// By OpenTelemetry's rules (UCUM).
    pub unit: &'static str,
    /// What becomes of it over time.
    pub kind: MetricKind,
    /// Names and values.
    pub attributes: Vec<(&'static str, String)>,
    /// The value now.
    pub value: f64,
}

/// The kinds of instruments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// A number of things that there are now; those with other attributes can be added.
    UpDownCounter,
    /// A value that cannot be added.
    Gauge,
}

use MetricKind::{Counter, Gauge, UpDownCounter};

const POOL: &str = "db.client.connection.pool.name";

impl Stats {
    /// The same as metrics by OpenTelemetry's names. A node's connections are a pool, named by its address.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        self.lanes.iter().for_each(|lane| of_lane(&mut metrics, lane));
        self.pool.nodes.iter().for_each(|node| of_pool(&mut metrics, node));
        let mut add = |name, unit, attribute: Option<(&'static str, &str)>, value: u64| {
            metrics.push(metric(name, unit, Counter, attribute, value));
        };
        add("pilotlight.redis.redirects", "{redirect}", Some(("kind", "moved")), self.redirects_moved);
        add("pilotlight.redis.redirects", "{redirect}", Some(("kind", "ask")), self.redirects_ask);
        add("pilotlight.redis.retries", "{retry}", None, self.retries);
        add("pilotlight.redis.pool.leases", "{lease}", None, self.pool.leases);
        add("pilotlight.redis.pool.waits", "{wait}", None, self.pool.waits);
        if let Some(topology) = &self.topology {
            add("pilotlight.redis.topology.refreshes", "{refresh}", Some(("result", "success")), topology.refreshes);
            add("pilotlight.redis.topology.refreshes", "{refresh}", Some(("result", "failure")), topology.failures);
            add("pilotlight.redis.topology.changes", "{change}", None, topology.changes);
        }
        self.caches.iter().enumerate().for_each(|(number, cache)| of_cache(&mut metrics, number, cache));
        metrics
    }
}

fn metric(
    name: &'static str,
    unit: &'static str,
    kind: MetricKind,
    attributes: impl IntoIterator<Item = (&'static str, impl Into<String>)>,
    value: u64,
) -> Metric {
    let attributes = attributes.into_iter().map(|(name, value)| (name, value.into())).collect();
    Metric { name, unit, kind, attributes, value: value as f64 }
}

/// A lane is used while anything is on its way on it.
fn of_lane(metrics: &mut Vec<Metric>, lane: &LaneStats) {
    let Snapshot { counters, queued, in_flight, budget_used_bytes, is_connected, latency, .. } = lane.snapshot;
    let pool = || (POOL, lane.node.to_string());
    let own = || [pool(), ("lane", lane.lane.to_string())];
    let is_used = queued + in_flight > 0;
    for (state, is_so) in [("used", is_used), ("idle", !is_used)] {
        let attributes = [pool(), ("db.client.connection.state", state.to_owned()), ("lane", lane.lane.to_string())];
        let count = u64::from(is_connected && is_so);
        metrics.push(metric("db.client.connection.count", "{connection}", UpDownCounter, attributes, count));
    }
    let now = [
        ("pilotlight.redis.queued", "{command}", queued),
        ("pilotlight.redis.in_flight", "{command}", in_flight),
        ("pilotlight.redis.budget.used", "By", budget_used_bytes),
    ];
    metrics.extend(now.map(|(name, unit, value)| metric(name, unit, UpDownCounter, own(), value as u64)));
    let counted = [
        ("pilotlight.redis.commands", "{command}", counters.commands),
        ("pilotlight.redis.writes", "{write}", counters.waves + counters.inline_writes),
        ("pilotlight.redis.reads", "{read}", counters.reads),
        ("pilotlight.redis.sent", "By", counters.bytes_written),
        ("pilotlight.redis.received", "By", counters.bytes_read),
        ("pilotlight.redis.timeouts", "{command}", counters.timeouts),
        ("pilotlight.redis.shed", "{command}", counters.shed),
        ("pilotlight.redis.connections.made", "{connection}", counters.connects),
        ("pilotlight.redis.connections.failed", "{connection}", counters.connect_failures),
        ("pilotlight.redis.connections.lost", "{connection}", counters.disconnects),
    ];
    metrics.extend(counted.map(|(name, unit, value)| metric(name, unit, Counter, own(), value)));
    if let Some(latency) = latency {
        let mut gauge = metric("pilotlight.redis.latency", "s", Gauge, own(), 0);
        gauge.value = latency.as_secs_f64();
        metrics.push(gauge);
    }
}

fn of_pool(metrics: &mut Vec<Metric>, node: &PoolNodeStats) {
    let pool = || (POOL, format!("{} own", node.node));
    for (state, count) in [("used", node.in_use), ("idle", node.idle)] {
        let attributes = [pool(), ("db.client.connection.state", state.to_owned())];
        metrics.push(metric("db.client.connection.count", "{connection}", UpDownCounter, attributes, count as u64));
    }
    let waiting = node.waiting as u64;
    metrics.push(metric("db.client.connection.pending_requests", "{request}", UpDownCounter, [pool()], waiting));
}

fn of_cache(metrics: &mut Vec<Metric>, number: usize, cache: &CacheStats) {
    let own = || ("cache", number.to_string());
    for (result, count) in [("hit", cache.hits), ("miss", cache.misses + cache.shared)] {
        let attributes = [own(), ("redis.client.csc.result", result.to_owned())];
        metrics.push(metric("redis.client.csc.requests", "{request}", Counter, attributes, count));
    }
    metrics.push(metric("redis.client.csc.items", "{item}", UpDownCounter, [own()], cache.entries as u64));
}
