"""Who is measured: floors, other clients, redis-benchmark, and ours."""
from dataclasses import dataclass, field

from harness.paths import REDIS_OUTPUT, REDIS_PEERS

from .workloads import WORKLOADS

FLOOR, OTHER, TOOL, OURS = "floor", "other", "tool", "ours"
# Shapes: all in one thread; two threads that run tasks. A client is compared with floors and clients of its shape.
CT, MT2 = "ct", "mt2"

RUST, PILOTLIGHT, GO, JAVA, NODE = "rust peers", "pilotlight's client", "go peers", "java peer", "node peer"
REDIS_BENCHMARK = "redis-benchmark"

CONCURRENT = ["w1", "w1k", "w2", "w3", "w4"]
SOME = ["w1", "w2", "w5"]

RUST_BIN = REDIS_OUTPUT / "rust/release"
LETTUCE = ["java", "-XX:+UseParallelGC", "-Xms1g", "-Xmx1g", "-cp", f"{REDIS_OUTPUT}/java/classes:{REDIS_OUTPUT}/java/dependency/*", "Lettuce"]
IOREDIS = ["node", REDIS_PEERS / "node/peer.js"]
ENVIRONMENT = {"GOMAXPROCS": "2", "NODE_PATH": f"{REDIS_OUTPUT}/node/node_modules"}


@dataclass(frozen=True)
class Variant:
    """One line of the tables."""

    name: str
    kind: str
    shape: str
    build: str
    command: list
    options: list = field(default_factory=list)
    workloads: list = field(default_factory=lambda: WORKLOADS)
    warm_up_seconds: int = 1


def rust(name, kind, shape, program, *options, workloads=WORKLOADS, build=RUST):
    return Variant(name, kind, shape, build, [RUST_BIN / program], [f"rt={shape}", *options], workloads)


def go(name, program, *options, workloads=WORKLOADS):
    return Variant(name, OTHER, MT2, GO, [REDIS_OUTPUT / "go" / program], list(options), workloads)


def lettuce(name, *options):
    return Variant(name, OTHER, MT2, JAVA, LETTUCE, list(options), warm_up_seconds=5)


def redis_benchmark(threads, pipeline, clients, workloads):
    name = f"redis-benchmark -P{pipeline} {threads} thread" + ("s" if threads > 1 else "")
    options = ["-P", pipeline, "-c", clients, "--threads", threads]
    return Variant(name, TOOL, CT if threads == 1 else MT2, REDIS_BENCHMARK, [REDIS_BENCHMARK], options, workloads)


VARIANTS = [
    rust("floor: epoll loop", FLOOR, CT, "limit", workloads=CONCURRENT),
    rust("floor: epoll loop, 4 connections a node", FLOOR, CT, "limit", "connections=4", workloads=["w1", "w2"]),
    rust("floor: tokio ct", FLOOR, CT, "tokio-floor", "driver=task"),
    rust("floor: tokio mt2", FLOOR, MT2, "tokio-floor", "driver=task", "gather=1"),
    rust("floor: tokio mt2 + I/O thread", FLOOR, MT2, "tokio-floor", "driver=thread"),
    rust("floor: blocking", FLOOR, CT, "floor-blocking", workloads=["w5"]),
    rust("floor: blocking, epoll before the read", FLOOR, CT, "floor-blocking", "wait=epoll", workloads=["w5"]),
    rust("pilotlight ct", OURS, CT, "p-pilotlight", build=PILOTLIGHT),
    rust("pilotlight mt2", OURS, MT2, "p-pilotlight", build=PILOTLIGHT),
    rust("redis-rs 1.8.1 ct", OTHER, CT, "p-redis"),
    rust("redis-rs 1.8.1 mt2", OTHER, MT2, "p-redis"),
    rust("fred 10.1.0 ct", OTHER, CT, "p-fred"),
    rust("fred 10.1.0 mt2", OTHER, MT2, "p-fred"),
    rust("rustis 0.27.2 ct, wave 128", OTHER, CT, "p-rustis", "wave=128"),
    rust("rustis 0.27.2 mt2", OTHER, MT2, "p-rustis"),
    rust("rustis 0.27.2 mt2, wave 256", OTHER, MT2, "p-rustis", "wave=256", workloads=["w1", "w2"]),
    rust("valkey-glide 0.9.0 ct", OTHER, CT, "p-glide"),
    rust("valkey-glide 0.9.0 mt2", OTHER, MT2, "p-glide"),
    go("rueidis 1.0.79", "rueidis"),
    go("rueidis 1.0.79, flush delay 20 µs", "rueidis", "delay=20", workloads=SOME),
    go("rueidis 1.0.79, flush delay 100 µs", "rueidis", "delay=100"),
    go("go-redis 9.23.0 pool", "goredis"),
    go("go-redis 9.23.0 AutoPipeline", "goredis", "auto=1"),
    lettuce("Lettuce 7.7.0"),
    lettuce("Lettuce 7.7.0, flush consolidation", "consolidate=256"),
    Variant("ioredis 6.0.0, auto-pipelining", OTHER, CT, NODE, IOREDIS, warm_up_seconds=2),
    redis_benchmark(1, 1, 256, ["w1", "w3"]),
    redis_benchmark(2, 1, 256, ["w1", "w3"]),
    redis_benchmark(1, 64, 16, ["w2"]),
    redis_benchmark(2, 64, 16, ["w2"]),
]


def floor_of(shape, workload):
    """The name of the floor that a client of this shape is compared with."""
    return "floor: blocking" if workload == "w5" else f"floor: tokio {shape}"
