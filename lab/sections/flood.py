"""Distinct targets without end: what the process holds beside what `cache.memory` says."""
from contextlib import ExitStack

from harness import load
from harness.gateway import Gateway, route_table, service_table
from harness.paths import PEER_BIN
from harness.procfs import memory_mb
from harness.program import Program, accepts, free_port
from harness.report import Column

TITLE = "A flood of distinct targets that may all be stored"
HYPOTHESIS = "Whatever is asked for, a gateway grows by little more than `cache.memory` says"
PROGRAMS = []
CONNECTIONS = 64
WARM_UP = 2_000
STEPS = 50
# `cache.memory` of a gateway under measurement, in units of 1,048,576 bytes
LIMIT_MB = 64
GROWTH_LIMIT = 1.1
# a step that takes longer than this, and than so many requests and bytes a second, has come to a halt: no run is cut off for being long
PATIENCE_SECONDS = 60
SLOWEST_REQUESTS, SLOWEST_BYTES = 500, 5_000_000
# bytes of a body on average, and how many requests a shape is worth beside the others
SHAPES = {"0 to 1 KB": (500, 1), "0 to 40 KB": (20_000, 0.05), "0 to 1 MB": (500_000, 0.002)}
COLUMNS = [Column("n", "requests"), Column("limit", "cache.memory", "MiB"), Column("growth", "peak growth", "MiB", 1),
           Column("ratio", "growth / limit", decimals=3), Column("rps", "throughput", "/s")]


def run(lab):
    samples = lab.run_rounds("flood", {name: variant(lab, *shape) for name, shape in SHAPES.items()})
    workload = f"private RSS of the gateway, from a warm start to its peak, {CONNECTIONS} connections"
    lab.table("flood", "A flood of distinct targets", workload, samples, COLUMNS)
    for name in samples.rounds:
        lab.figure(f"flood, bodies of {name}: growth / cache.memory", GROWTH_LIMIT, " ×", samples.values(name, "ratio"))


def variant(lab, body_bytes, part):
    requests = max(STEPS, int(lab.options.flood_requests * part))

    def measured():
        origin_port = free_port()
        tables = [service_table("origin", url=f"http://127.0.0.1:{origin_port}"), route_table("/", "origin", cache=True)]
        with ExitStack() as stack:
            origin = Program([PEER_BIN / "flood", "serve", origin_port], lab.scratch / "log")
            stack.enter_context(lab.started(origin, lambda: accepts(origin_port)))
            gateway = stack.enter_context(Gateway(lab, "flood", tables))

            def ask(first, count, size):
                command = [PEER_BIN / "flood", "ask", gateway.port, first, count, size, CONNECTIONS]
                return load.run_json(command, patience(count, size))["seconds"]

            ask(0, WARM_UP, 0)
            before, peak, seconds, each = memory_mb(gateway.own_pids, "RssAnon"), 0, 0, max(requests // STEPS, CONNECTIONS)
            for step in range(STEPS):
                seconds += ask(WARM_UP + step * each, each, body_bytes)
                peak = max(peak, memory_mb(gateway.own_pids, "RssAnon"))
        growth = peak - before
        return {"n": each * STEPS, "limit": LIMIT_MB, "growth": growth, "ratio": growth / LIMIT_MB, "rps": each * STEPS / seconds}
    return measured


def patience(count, size):
    """Seconds for so many requests with bodies of this size: a step grows with the flood, and its limit with it."""
    return PATIENCE_SECONDS + count / SLOWEST_REQUESTS + count * size / SLOWEST_BYTES
