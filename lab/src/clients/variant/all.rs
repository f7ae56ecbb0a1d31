//! Everybody, in the order of the tables. A new variant is one more line. Versions are those that `lab/peers/redis`
//! names; a test compares.

use super::{Build, Kind, Shape, Variant};
use crate::clients::workload::Workload::{
    self, PublishedGet, PublishedGetFound, PublishedMixed, PublishedSet, W1, W1k, W2, W3, W4, W5,
};
use Kind::{Floor, Other, Ours, Tool};
use Shape::{Ct, Mt2};
use std::time::Duration;

const CONCURRENT: &[Workload] = &[W1, W1k, W2, W3, W4];
/// What every program knows.
const USUAL: &[Workload] = &[W1, W1k, W2, W3, W4, W5];
/// With so many connections as published.
const PUBLISHED: &[Workload] = &Workload::PUBLISHED;
/// Connecting is over, and memory is where it stays.
const WARM_UP: Duration = Duration::from_secs(1);
/// Compilers of the JVM and of Node take longer.
const WARM_UP_OF_NODE: Duration = Duration::from_secs(2);
const WARM_UP_OF_JAVA: Duration = Duration::from_secs(5);

type Words = &'static [&'static str];

const fn of(
    build: Build,
    program: &'static str,
    (kind, shape): (Kind, Shape),
    name: &'static str,
    options: Words,
) -> Variant {
    let (workloads, warm_up) = (&Workload::ALL, WARM_UP);
    Variant { name, kind, shape, build, program, options, workloads, warm_up }
}

const fn floor(shape: Shape, name: &'static str, program: &'static str, options: Words) -> Variant {
    of(Build::Rust, program, (Floor, shape), name, options)
}

const fn ours(shape: Shape, name: &'static str, options: Words) -> Variant {
    of(Build::Pilotlight, "p-pilotlight", (Ours, shape), name, options)
}

const fn rust(shape: Shape, name: &'static str, program: &'static str, options: Words) -> Variant {
    of(Build::Rust, program, (Other, shape), name, options)
}

const fn go(name: &'static str, program: &'static str, options: Words) -> Variant {
    of(Build::Go, program, (Other, Mt2), name, options)
}

const fn java(name: &'static str, options: Words) -> Variant {
    Variant { warm_up: WARM_UP_OF_JAVA, workloads: USUAL, ..of(Build::Java, "Lettuce", (Other, Mt2), name, options) }
}

const fn benchmark(shape: Shape, name: &'static str, options: Words) -> Variant {
    of(Build::Installed, "redis-benchmark", (Tool, shape), name, options)
}

impl Variant {
    const fn only(self, workloads: &'static [Workload]) -> Self {
        Self { workloads, ..self }
    }
}

/// See the module.
pub(in crate::clients) const ALL: &[Variant] = &[
    floor(Ct, "floor: epoll loop", "limit", &[]).only(CONCURRENT),
    floor(Ct, "floor: epoll loop, 4 connections a node", "limit", &["connections=4"]).only(&[
        W1,
        W2,
        PublishedGet,
        PublishedGetFound,
        PublishedSet,
        PublishedMixed,
    ]),
    floor(Ct, "floor: tokio ct", "tokio-floor", &["driver=task"]),
    floor(Mt2, "floor: tokio mt2", "tokio-floor", &["driver=task", "gather=1"]),
    floor(Mt2, "floor: tokio mt2 + I/O thread", "tokio-floor", &["driver=thread"]),
    floor(Ct, "floor: blocking", "floor-blocking", &[]).only(&[W5]),
    floor(Ct, "floor: blocking, epoll before the read", "floor-blocking", &["wait=epoll"]).only(&[W5]),
    ours(Ct, "pilotlight ct", &[]),
    ours(Mt2, "pilotlight mt2", &[]),
    ours(Ct, "pilotlight ct, 4 lanes", &["lanes=4"]).only(PUBLISHED),
    ours(Mt2, "pilotlight mt2, 4 lanes", &["lanes=4"]).only(PUBLISHED),
    rust(Ct, "redis-rs 1.8.1 ct", "p-redis", &[]),
    rust(Mt2, "redis-rs 1.8.1 mt2", "p-redis", &[]),
    rust(Ct, "fred 10.1.0 ct", "p-fred", &[]),
    rust(Mt2, "fred 10.1.0 mt2", "p-fred", &[]),
    rust(Ct, "rustis 0.27.2 ct, wave 128", "p-rustis", &["wave=128"]),
    rust(Mt2, "rustis 0.27.2 mt2", "p-rustis", &[]),
    rust(Mt2, "rustis 0.27.2 mt2, wave 256", "p-rustis", &["wave=256"]).only(&[W1, W2]),
    rust(Ct, "valkey-glide 0.9.0 ct", "p-glide", &[]),
    rust(Mt2, "valkey-glide 0.9.0 mt2", "p-glide", &[]),
    go("rueidis 1.0.79", "rueidis", &[]),
    go("rueidis 1.0.79, 4 connections a node", "rueidis", &["mux=2"]).only(PUBLISHED),
    go("rueidis 1.0.79, flush delay 20 µs", "rueidis", &["delay=20"]).only(&[W1, W2, W5]),
    go("rueidis 1.0.79, flush delay 100 µs", "rueidis", &["delay=100"]),
    go("go-redis 9.23.0 pool", "goredis", &[]),
    go("go-redis 9.23.0 pool of 4", "goredis", &["pool=4"]).only(PUBLISHED),
    go("go-redis 9.23.0 AutoPipeline", "goredis", &["auto=1"]),
    java("Lettuce 7.7.0", &[]),
    java("Lettuce 7.7.0, flush consolidation", &["consolidate=256"]),
    Variant {
        warm_up: WARM_UP_OF_NODE,
        workloads: USUAL,
        ..of(Build::Node, "peer.js", (Other, Ct), "ioredis 6.0.0, auto-pipelining", &[])
    },
    benchmark(Ct, "redis-benchmark -P1 1 thread", &["-P", "1", "-c", "256", "--threads", "1"]).only(&[W1, W3]),
    benchmark(Mt2, "redis-benchmark -P1 2 threads", &["-P", "1", "-c", "256", "--threads", "2"]).only(&[W1, W3]),
    benchmark(Ct, "redis-benchmark -P64 1 thread", &["-P", "64", "-c", "16", "--threads", "1"]).only(&[W2]),
    benchmark(Mt2, "redis-benchmark -P64 2 threads", &["-P", "64", "-c", "16", "--threads", "2"]).only(&[W2]),
];
