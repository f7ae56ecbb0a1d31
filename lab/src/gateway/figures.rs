//! What is wanted of the groups.

use super::loads::{self, GATEWAYS, LIMIT_MIB};
use super::{bodies, idle, starts, websockets};
use crate::experiment::judge::summary_of;
use crate::experiment::model::{Figure, GroupResults, Metric};

const MIB: f64 = 1_048_576.0;
const RATIO: &str = " ×";

/// A value of each round, held against a number.
struct Wanted {
    name: String,
    limit: f64,
    /// With its space before it.
    unit: &'static str,
    at_least: bool,
    rounds: Vec<f64>,
}

fn at_most(name: &str, limit: f64, unit: &'static str, rounds: Vec<f64>) -> Wanted {
    Wanted { name: name.into(), limit, unit, at_least: false, rounds }
}

impl Wanted {
    fn figure(self, seed: u64) -> Figure {
        let Self { name, limit, unit, at_least, rounds } = self;
        let measured = summary_of(&rounds, seed);
        let met = measured.map(|found| if at_least { found.median >= limit } else { found.median <= limit });
        let side = if at_least { '≥' } else { '≤' };
        Figure { name, wanted: format!("{side} {limit}{unit}"), measured, rounds, met }
    }
}

/// The figures of a group. Where two equals could be told apart, nobody can say whether a ratio is met.
pub(super) fn of(group: &GroupResults, seed: u64) -> Vec<Figure> {
    let metric = group.comparisons.first().map_or(group.metrics[0], |asked| asked.metric);
    let judge = |wanted: Wanted| {
        let (is_ratio, figure) = (wanted.unit == RATIO, wanted.figure(seed));
        let met = if is_ratio { group.judged(metric, figure.met) } else { figure.met };
        Figure { met, ..figure }
    };
    wanted(group).into_iter().map(judge).collect()
}

fn wanted(group: &GroupResults) -> Vec<Wanted> {
    let of = |id: &str, metric: Metric| rounds(group, id, metric);
    let mib = |id: &str, metric: Metric| of(id, metric).into_iter().map(|bytes| bytes / MIB).collect::<Vec<_>>();
    let each = |make: &dyn Fn(&str, &str) -> Vec<Wanted>| {
        group.variants.iter().flat_map(|variant| make(&variant.id, &variant.title)).collect::<Vec<_>>()
    };
    match group.id.as_str() {
        "idle" => {
            let more = pairs(mib(idle::SERVICES, Metric::PssBytes), mib(idle::PLAIN, Metric::PssBytes), |a, b| a - b);
            vec![
                at_most("idle memory, RSS", 15.0, " MiB", mib(idle::PLAIN, Metric::RssBytes)),
                at_most("idle memory with TLS, RSS", 18.0, " MiB", mib(idle::TLS, Metric::RssBytes)),
                at_most("1,000 configured, stopped services: more than without, PSS", 5.0, " MiB", more),
                at_most("10,000 idle keep-alive clients, RSS", 100.0, " MiB", mib(idle::CLIENTS, Metric::RssBytes)),
            ]
        }
        "memory" => each(&|id, title| {
            vec![at_most(&format!("memory growth, {title}"), 2.0, " MiB", mib(id, Metric::GrowthBytes))]
        }),
        "flood" => each(&|id, title| {
            let ratio = mib(id, Metric::GrowthBytes).into_iter().map(|growth| growth / LIMIT_MIB).collect();
            let what = title.split(", ").next().unwrap_or(title);
            vec![at_most(&format!("flood, {what}: growth / cache.memory"), 1.1, RATIO, ratio)]
        }),
        "zygote" => each(&|id, title| match title.split_once(", ") {
            Some((what, "zygote")) => {
                vec![at_most(&format!("zygote start, {what}, p50"), 12.0, " ms", of(id, Metric::P50Ms))]
            }
            _ => Vec::new(),
        }),
        "frozen" => {
            let more = pairs(of(starts::FROZEN, Metric::P50Ms), of(starts::WARM, Metric::P50Ms), |a, b| a - b);
            vec![at_most("a frozen service answers after its warm time, p50", 5.0, " ms", more)]
        }
        "ready" => each(&|id, title| {
            vec![
                at_most(&format!("{title}: the request is there, p50"), 1.0, " ms", of(id, Metric::HandlerMs)),
                at_most(&format!("{title}: the request is there, slowest"), 5.0, " ms", of(id, Metric::HandlerMaxMs)),
            ]
        }),
        "burst" => {
            let instances = of("burst", Metric::Instances);
            vec![at_most("1,000 first requests: instances", starts::MAX_INSTANCES, "", instances)]
        }
        id if id.starts_with("chunks") => {
            let cost = |id| of(id, Metric::NsPerByte);
            let what = group.title.split(": ").last().unwrap_or_default();
            let ratio = pairs(cost(bodies::SMALL), cost(bodies::LARGE), |a, b| a / b);
            vec![at_most(&format!("{what}: CPU in chunks of 1 B / of 1 kB"), 3.0, RATIO, ratio)]
        }
        _ => of_loads(group),
    }
}

/// Of the groups under load.
fn of_loads(group: &GroupResults) -> Vec<Wanted> {
    let of = |id: &str, metric: Metric| rounds(group, id, metric);
    match group.id.as_str() {
        "turns" => {
            let cpu = |id| of(id, Metric::GatewayCpuUs);
            let apart = pairs(cpu(loads::HITS), cpu(loads::MISSES), f64::midpoint);
            let name = "hits and misses by turns: gateway CPU / mean of the two apart";
            vec![at_most(name, 1.1, RATIO, pairs(cpu(loads::TURNS), apart, |a, b| a / b))]
        }
        "redis-tier" => {
            let cpu = |id| of(id, Metric::GatewayCpuUs);
            let alone = of(loads::REDIS_ALONE, Metric::P50Ms).into_iter().map(|ms| ms * 1e3).collect();
            let ratio = pairs(cpu(loads::REDIS_HIT), cpu(loads::MEMORY_HIT), |a, b| a / b);
            vec![
                at_most("Redis hit, 64 connections: gateway CPU / memory hit", 2.2, RATIO, ratio),
                at_most("Redis hit, 1 connection: p50", 150.0, " µs", alone),
            ]
        }
        "websocket" => {
            let ratio = pairs(of(websockets::PIPE, Metric::CpuUs), of(websockets::TCP, Metric::CpuUs), |a, b| a / b);
            vec![at_most("an echoed message: CPU over the pipe / over HTTP and TCP", 0.8, RATIO, ratio)]
        }
        "gateways" => {
            let times = |hits: &str, one, eight| Wanted {
                at_least: true,
                ..at_most(
                    &format!("{hits} / of one, by CPU"),
                    7.0,
                    RATIO,
                    pairs(of(one, Metric::GatewayCpuUs), of(eight, Metric::GatewayCpuUs), |a, b| {
                        GATEWAYS as f64 * a / b
                    }),
                )
            };
            vec![
                times("hits in memory of 8 gateways on one core", loads::MEMORY_HIT, loads::MEMORY_EIGHT),
                times("hits in memory of 8 gateways in turn", loads::MEMORY_HIT, loads::MEMORY_IN_TURN),
                times("hits in Redis of 8 gateways on one core", loads::REDIS_HIT, loads::REDIS_EIGHT),
                times("hits in Redis of 8 gateways in turn", loads::REDIS_HIT, loads::REDIS_IN_TURN),
            ]
        }
        _ => Vec::new(),
    }
}

fn pairs(one: Vec<f64>, other: Vec<f64>, take: fn(f64, f64) -> f64) -> Vec<f64> {
    one.into_iter().zip(other).map(|(one, other)| take(one, other)).filter(|value| value.is_finite()).collect()
}

fn rounds(group: &GroupResults, id: &str, metric: Metric) -> Vec<f64> {
    let variant = group.variants.iter().find(|variant| variant.id == id);
    variant.map_or_else(Vec::new, |variant| variant.rounds.iter().filter_map(|of| of.get(&metric).copied()).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiment::model::{Control, Role, VariantResults};

    /// A group in whose rounds a metric was this.
    fn group(id: &str, title: &str, metric: Metric, variants: &[(&str, &str, &[f64])]) -> GroupResults {
        let variant = |(id, title, values): &(&str, &str, &[f64])| VariantResults {
            id: (*id).into(),
            title: (*title).into(),
            role: Role::Subject,
            software: Vec::new(),
            failed: None,
            rounds: values.iter().map(|value| BTreeMap::from([(metric, *value)])).collect(),
            summary: BTreeMap::new(),
            cpu_us: BTreeMap::new(),
            latency: None,
            phases: Vec::new(),
            requests: 1,
        };
        GroupResults {
            id: id.into(),
            title: title.into(),
            workload: String::new(),
            metrics: vec![metric],
            rounds: 2,
            seconds: 1.0,
            variants: variants.iter().map(variant).collect(),
            controls: Vec::new(),
            comparisons: Vec::new(),
        }
    }

    #[track_caller]
    fn check(group: &GroupResults, wanted: &[(&str, &[f64], Option<bool>)]) {
        let found = of(group, 1);
        let found: Vec<_> = found.iter().map(|one| (one.wanted.as_str(), one.rounds.as_slice(), one.met)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn ratios_are_of_the_same_round_and_not_judged_where_equals_differ() {
        let cpu = [("hits", "", &[2.0, 4.0][..]), ("misses", "", &[6.0, 4.0]), ("turns", "", &[4.0, 6.0])];
        let mut turns = group("turns", "", Metric::GatewayCpuUs, &cpu);
        check(&turns, &[("≤ 1.1 ×", &[1.0, 1.5], Some(false))]);
        let control = |passed| Control {
            variant: "turns".into(),
            metric: Metric::GatewayCpuUs,
            ratio: 1.2,
            low: 1.1,
            high: 1.3,
            passed,
        };
        turns.controls = vec![control(true)];
        check(&turns, &[("≤ 1.1 ×", &[1.0, 1.5], Some(false))]);
        turns.controls = vec![control(false)];
        check(&turns, &[("≤ 1.1 ×", &[1.0, 1.5], None)]);
    }

    #[test]
    fn eight_gateways_are_to_answer_at_least_seven_times_as_much() {
        let cpu = [
            ("memory", "", &[3.0, 3.0][..]),
            ("memory-8", "", &[3.0, 3.0]),
            ("memory-8-in-turn", "", &[2.0, 4.0]),
            ("redis", "", &[3.0]),
            ("redis-8", "", &[6.0]),
            ("redis-8-in-turn", "", &[3.0]),
        ];
        let wanted = [
            ("≥ 7 ×", &[8.0, 8.0][..], Some(true)),
            ("≥ 7 ×", &[12.0, 6.0], Some(true)),
            ("≥ 7 ×", &[4.0], Some(false)),
            ("≥ 7 ×", &[8.0], Some(true)),
        ];
        check(&group("gateways", "", Metric::GatewayCpuUs, &cpu), &wanted);
    }

    #[test]
    fn a_message_over_the_pipe_is_held_against_http() {
        let cpu = [("pipe", "", &[3.0][..]), ("tcp", "", &[4.0]), ("relay-tcp", "", &[1.0])];
        check(&group("websocket", "", Metric::CpuUs, &cpu), &[("≤ 0.8 ×", &[0.75], Some(true))]);
    }

    #[test]
    fn what_failed_is_not_measured() {
        let memory = group("memory", "", Metric::GrowthBytes, &[("a", "upload, pipe", &[MIB]), ("b", "broken", &[])]);
        check(&memory, &[("≤ 2 MiB", &[1.0], Some(true)), ("≤ 2 MiB", &[], None)]);
        let starts = [("flask", "Flask, zygote", &[13.0][..]), ("x", "Flask, executed", &[1.0])];
        check(&group("zygote", "", Metric::P50Ms, &starts), &[("≤ 12 ms", &[13.0], Some(false))]);
    }
}
