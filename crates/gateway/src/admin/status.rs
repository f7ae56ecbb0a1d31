//! `GET /status` and `GET /services/NAME`.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use pilotlight_balance::{RetryCounts, State};
use pilotlight_cache::PurgeCounts;
use pilotlight_cache_redis::{CoherenceStatus, Family, SharedTier, WriteProblem};
use pilotlight_releases::Releases;
use pilotlight_supervisor::{Deploys, FunctionErrors, GivenAway, InstanceStatus, Service, Status, Transport};
use serde_json::{Map, Value, json};

use super::memory;
use super::shared::Shared;
use crate::metrics::recent::RecentTimes;
use crate::metrics::sums::Sums;
use crate::metrics::{CLASSES, Distribution, PHASES, Verdict};
use crate::options::{External, ServiceTarget};
use crate::servers::{Live, Named};
use crate::spill::Spill;
use crate::timing::{Layer, Moment, millis, milliseconds};

/// The whole gateway.
pub(super) fn gateway(shared: &Shared) -> Value {
    let by_service = by_service(shared);
    let groups = memory::of_groups();
    let empty = Sums::default();
    let table = shared.common.table.load();
    let services: Vec<Value> = table
        .services()
        .iter()
        .map(|target| service(shared, target, by_service.get(target.name()).unwrap_or(&empty), &groups))
        .collect();
    let hits: u64 = by_service.values().map(|sums| sums.with_verdict(Verdict::Hit)).sum();
    let cache = shared.common.cache.as_ref().map(|cache| {
        let (usage, options) = (cache.usage(), cache.options());
        json!({
            "bytes": usage.bytes, "max_bytes": options.max_bytes, "resources": usage.resources, "hits": hits,
            "redis": shared.common.second.as_ref().map(redis),
            "purges": purges(&cache.purges().counts()),
            "coherence": shared.common.coherence.as_ref().map(|coherence| agreement(&coherence.handle().status())),
        })
    });
    let (opened, closed) = connections(shared);
    json!({
        "gateway": {
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "runtime_dir": shared.runtime_dir.to_string_lossy(),
            "config": shared.config_file.to_string_lossy(),
            "listen": shared.common.addresses.load().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "workers": shared.common.workers,
            "uptime_seconds": seconds(shared.begun),
            "connections_open": opened.saturating_sub(closed),
            "connections": opened,
            "memory_bytes": memory::own().map(|(bytes, _)| bytes),
            "access_log_lines_dropped": shared.dropped_access_lines.as_ref().map(|lines| lines.load(Relaxed)),
            "log_lines_dropped": shared.dropped_log_lines(),
        },
        "tls": super::tls::status(shared),
        "cache": cache,
        "acme": super::certificates::acme(shared),
        "jwks": super::keys::status(shared),
        "services": services,
        "groups": super::groups::status(table.services()),
        "schedules": super::schedules::list(shared),
    })
}

/// One service, with what the table of all has no room for.
pub(super) fn one(shared: &Shared, target: &ServiceTarget) -> Value {
    let mut sums = Sums::default();
    shared.common.metrics.all().iter().filter(|series| &*series.service == target.name()).for_each(|one| sums.add(one));
    let mut value = service(shared, target, &sums, &memory::of_groups());
    if let Value::Object(map) = &mut value {
        let routes = shared.common.table.load();
        let routes = routes.routes().iter().filter(|route| &*route.series.service == target.name());
        map.insert("routes".into(), routes.map(|route| Value::from(&*route.series.route)).collect());
        let layers = Layer::ALL.iter().zip(&sums.layers).map(|(layer, times)| (layer.name(), times));
        map.insert("layers".into(), times(layers));
        map.insert("start_phases".into(), times(PHASES.iter().copied().zip(&sums.phases)));
    }
    value
}

fn times<'a>(all: impl Iterator<Item = (&'static str, &'a Distribution)>) -> Value {
    let some = all.filter(|(_, times)| times.count() > 0);
    some.map(|(name, times)| (name.to_owned(), latency(times))).collect::<Map<_, _>>().into()
}

/// What was purged.
fn purges(counts: &PurgeCounts) -> Value {
    json!({ "applied": counts.applied, "tags": counts.tags, "urls": counts.urls, "prefixes": counts.prefixes })
}

/// Whether this gateway knows what the others have purged and replaced.
fn agreement(status: &CoherenceStatus) -> Value {
    json!({
        "covered": status.is_covered,
        "applied": status.applied,
        "waiting": status.waiting,
        "losses": status.losses,
        "replaced_records": status.replaced,
        "by_channel": status.by_channel,
    })
}

/// The cache's tier in Redis.
fn redis(tier: &SharedTier) -> Value {
    let (status, problem) = (tier.status(), tier.write_problem());
    let totals = status.totals;
    let counted = |of: Family| {
        let some = totals.counted().filter(|(family, ..)| *family == of);
        some.map(|(_, name, count)| (name.to_owned(), Value::from(count))).collect::<Map<_, _>>()
    };
    json!({
        "answers": status.open_breakers == 0,
        "open_breakers": status.open_breakers,
        "write_problem": problem.map(|problem| match problem {
            WriteProblem::Responses(reason) => json!({ "of": "responses", "reason": &*reason }),
            WriteProblem::Invalidations(reason) => json!({ "of": "invalidations", "reason": &*reason }),
        }),
        "reads": counted(Family::Reads),
        "writes": counted(Family::Writes),
        "rates": counted(Family::Rates),
        "open_rate_breakers": status.open_rate_breakers,
        "waits": totals.waits,
        "refused_records": totals.refused,
        "invalidations": totals.invalidations,
        "pending_invalidations": status.pending_invalidations,
        "queued": status.queued,
        "queued_bytes": status.queued_bytes,
    })
}

fn latency(times: &Distribution) -> Value {
    json!({
        "count": times.count(),
        "sum_ms": milliseconds(times.sum_ns()),
        "p50_ms": times.quantile_ns(500).map(milliseconds),
        "p90_ms": times.quantile_ns(900).map(milliseconds),
        "p99_ms": times.quantile_ns(990).map(milliseconds),
    })
}

/// The last minutes, starts apart.
fn recent(shared: &Shared, name: &str, sums: &Sums) -> Value {
    let recent = shared.recent();
    let RecentTimes { warm, cold } = recent.since(name, &sums.times);
    let window = recent.window(Instant::now()).as_secs_f64().round();
    let mut value = latency(&warm);
    if let Value::Object(map) = &mut value {
        map.insert("seconds".into(), window.into());
        map.insert("cold".into(), latency(&cold));
    }
    value
}

fn service(shared: &Shared, target: &ServiceTarget, sums: &Sums, groups: &HashMap<i32, u64>) -> Value {
    let answers: Map<String, Value> = CLASSES
        .iter()
        .enumerate()
        .map(|(class, name)| ((*name).to_owned(), sums.with_class(class)))
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name, count.into()))
        .collect();
    let mut value = json!({
        "name": target.name(),
        "requests": sums.requests(),
        "in_flight": sums.in_flight(),
        "answers": answers,
        "cache_hits": sums.with_verdict(Verdict::Hit),
        "latency": latency(&sums.times.total),
        "recent": recent(shared, target.name(), sums),
    });
    let more = match target {
        ServiceTarget::Managed(service, transport) => {
            let mut value = managed(service, target.protocol().name(), groups);
            value["spill"] = shared.common.table.load().spill(target.name()).map(|to| spill(service, to)).into();
            if *transport == Transport::Lambda {
                value["function_errors"] = function_errors(&service.status().function_errors);
            }
            value
        }
        ServiceTarget::External(external) => json!({
            "kind": "external",
            "transport": target.protocol().name(),
            "address": external.address(),
            "servers": external.live().map(servers),
            "names": external.live().map(|live| live.named()).filter(|all| !all.is_empty()).map(|all| names(&all)),
            "server_changes": external.live().map(|live| {
                let (came, went) = live.changes();
                json!({ "came": came, "went": went })
            }),
            "queue": external.live().filter(|live| may_wait(external, live)).map(line),
            "retries": external.live().map(|live| {
                let RetryCounts { sent, refused } = live.now().group().retries();
                json!({ "sent": sent, "refused": refused })
            }),
            "state": "external",
            "instances": [],
            "memory_bytes": null,
        }),
    };
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

/// Where its requests go that it has no room for, and how many went, by reason.
fn spill(service: &Service, spill: &Spill) -> Value {
    let count = |why| service.given_away(why);
    json!({
        "to": spill.target().name(),
        "queue": spill.queue(),
        "requests": { "full": count(GivenAway::Full), "queue": count(GivenAway::Queue) },
    })
}

/// Those that wait for a server.
fn line(live: &Live) -> Value {
    let (full, timeout) = live.line().refused();
    json!({
        "length": live.waiting(),
        "max": live.line().limits().max,
        "refused": { "full": full, "timeout": timeout, "circuit": 0 },
    })
}

/// What the DNS says of its servers' names.
fn names(all: &[Named]) -> Value {
    let now = Instant::now();
    let each = all.iter().map(|one| {
        json!({
            "name": one.name.to_string(),
            "servers": one.servers.len(),
            "answered_seconds_ago": one.answered.map(|at| now.saturating_duration_since(at).as_secs_f64()),
            "asked_again_in_seconds": one.next.map(|at| at.saturating_duration_since(now).as_secs_f64()),
            "error": one.error,
            "answers": one.answers,
            "failures": one.failures,
        })
    });
    each.collect()
}

/// Whether a request may have to wait: for a server to come, or for room at one.
fn may_wait(external: &External, live: &Live) -> bool {
    external.spec().balance.settings.max_open.is_some() || live.may_be_empty()
}

/// What is open at each, and whether it is left out.
pub(super) fn servers(live: &Live) -> Value {
    let (now, servers) = (millis(Moment::now()), live.now());
    let group = servers.group();
    let each = servers.all().iter().enumerate().map(|(index, one)| {
        let (state, left) = match group.state(index, now) {
            State::In => ("in", None),
            State::Ejected(left) => ("ejected", Some(left.as_secs_f64())),
            State::Unhealthy => ("unhealthy", None),
        };
        json!({
            "address": one.address(),
            "host": one.spec().host.as_deref(),
            "weight": one.spec().weight,
            "priority": one.spec().priority,
            "open": group.open(index),
            "state": state,
            "back_in_seconds": left,
        })
    });
    each.collect()
}

/// Invocations that failed.
fn function_errors(errors: &FunctionErrors) -> Value {
    let last = errors.last.as_ref().map(|(error, at)| json!({ "error": error, "seconds_ago": seconds(*at) }));
    json!({ "count": errors.count, "last": last })
}

/// Of a service that has releases.
fn releases(status: &Status) -> Option<Value> {
    let folder = status.spec.releases.as_deref()?;
    let Deploys { used, refused, abandoned } = status.deploys;
    Some(json!({
        "folder": folder.to_string_lossy(),
        "current": Releases::at(folder).current().map(|name| name.to_string()),
        "keep": status.spec.keep_releases,
        "tried": { "used": used, "refused": refused, "abandoned": abandoned },
    }))
}

fn shown(instance: &InstanceStatus, memory: Option<u64>) -> Value {
    json!({
        "number": instance.number,
        "pid": instance.pid,
        "container": instance.container.as_deref(),
        "waits_for": instance.waits_for,
        "state": instance.state.name(),
        "release": instance.release.as_deref(),
        "uptime_seconds": seconds(instance.begun),
        "in_flight": instance.open_exchanges(),
        "requests": instance.begun_exchanges(),
        "memory_bytes": memory,
    })
}

fn managed(service: &Service, transport: &str, groups: &HashMap<i32, u64>) -> Value {
    let (status, refused) = (service.status(), service.refused());
    let memory = |instance: &InstanceStatus| instance.pid.and_then(|pid| groups.get(&pid).copied());
    let instances: Vec<Value> = status.instances.iter().map(|one| shown(one, memory(one))).collect();
    let bytes: Option<u64> = status.instances.iter().map(memory).sum();
    json!({
        "kind": "managed",
        "transport": transport,
        "state": status.state.name(),
        "instances": instances,
        "memory_bytes": bytes,
        "releases": releases(&status),
        "max_instances": status.spec.max_instances,
        "concurrency": status.spec.concurrency,
        "queue": {
            "length": service.waiting(),
            "max": status.spec.queue.max,
            "refused": { "full": refused.full, "timeout": refused.timeout, "circuit": refused.circuit },
        },
        "circuit": {
            "state": status.circuit.name(),
            "max_failures": status.spec.max_failures,
            "next_attempt_seconds": status.next_attempt.map(until).filter(|wait| *wait > 0.0),
        },
        "zygote": status.zygote.as_ref().map(|zygote| json!({
            "state": zygote.state.name(),
            "pid": zygote.pid,
            "reason": zygote.reason,
        })),
        "sandbox": status.sandbox.as_ref().map(|bounds| {
            let all = bounds.all();
            all.iter().map(|(name, _, by)| ((*name).to_owned(), Value::from(*by))).collect::<Map<_, _>>()
        }),
        "group": status.spec.group.as_ref().map(|share| &share.group.name),
        "made_room": status.made_room,
        "replaced": {
            "max_requests": status.replaced.requests,
            "max_age": status.replaced.age,
            "max_memory": status.replaced.memory,
            "asked": status.replaced.asked,
        },
        "stuck": status.stuck,
        "stopped": {
            "instances": status.stopped.instances,
            "finished": status.stopped.finished,
            "cut": status.stopped.cut,
            "killed": status.stopped.killed,
        },
        "starts": status.starts,
        "failed_starts": status.failed_starts,
        "last_instance": status.instance,
        "failures": status.failures,
        "last_error": status.last_error.as_ref().map(|error| json!({
            "phase": error.phase.name(),
            "reason": &*error.reason,
            "exit": error.exit.map(|exit| exit.to_string()),
            "output": error.output_tail.to_vec(),
        })),
        "output_lines_dropped": service.dropped_lines(),
    })
}

/// The numbers of each service: those of its routes together.
pub(super) fn by_service(shared: &Shared) -> HashMap<Box<str>, Sums> {
    let mut services: HashMap<Box<str>, Sums> = HashMap::new();
    for series in shared.common.metrics.all() {
        services.entry(series.service.clone()).or_default().add(&series);
    }
    services
}

/// Connections of clients: accepted, and closed again.
pub(super) fn connections(shared: &Shared) -> (u64, u64) {
    let all = &shared.common.metrics.connections;
    let closed = all.iter().map(|worker| worker.closed.value()).sum(); // first: what ends meanwhile is still open
    let accepted: u64 = all.iter().map(|worker| worker.accepted.value()).sum();
    (accepted, closed)
}

fn seconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
}

fn until(at: Instant) -> f64 {
    (at.saturating_duration_since(Instant::now()).as_secs_f64() * 1000.0).round() / 1000.0
}
