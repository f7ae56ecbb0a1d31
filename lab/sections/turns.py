"""Hits and misses by turns on each connection beside the mean of the two apart: what changing over costs."""
from harness.gateway import Gateway, one_service, route_table
from harness.load import cbench, measure
from harness.paths import PEER_BIN
from harness.report import Column, ratios

TITLE = "Hits and misses by turns"
HYPOTHESIS = "A connection on which hits and misses alternate costs what they cost apart"
PROGRAMS = []
LIMIT = 1.1
CONNECTIONS = 64
WARM_UP_SECONDS = 0.5
HITS, MISSES, TURNS = "hits", "misses", "by turns"
PATHS = {HITS: "/stored", MISSES: "/passed", TURNS: "/stored|/passed"}
COLUMNS = [
    Column("gateway_us", "CPU of the gateway", "µs", 2),
    Column("service_us", "CPU of the service", "µs", 2),
    Column("rps", "throughput", "/s"),
    Column("p50", "p50", "µs"),
    Column("p99", "p99", "µs"),
]


def run(lab):
    samples = lab.run_rounds("turns", {name: variant(lab, path) for name, path in PATHS.items()})
    each = f"{CONNECTIONS} connections, one request in flight on each"
    workload = f"{each}; gateway and service on core 0; {lab.options.secs:g} s"
    title = "200 bytes of JSON from memory, from a service over HTTP, and by turns"
    lab.table("turns", title, workload, samples, COLUMNS)
    hits, misses, turns = (samples.values(name, "gateway_us") for name in PATHS)
    apart = [(hit + miss) / 2 for hit, miss in zip(hits, misses)]
    lab.figure("hits and misses by turns: gateway CPU / mean of the two apart", LIMIT, " ×", ratios(turns, apart))


def variant(lab, path):
    def measured():
        stored = route_table("/stored", "service", cache="10h")
        with Gateway(lab, "turns", [*one_service(lab, "http", [PEER_BIN / "svchyper"]), stored]) as gateway:
            cbench(gateway.target, CONNECTIONS, 1, WARM_UP_SECONDS, path)
            groups = {"gateway": gateway.own_pids, "service": gateway.service_pids}
            return measure(cbench, groups, gateway.target, CONNECTIONS, 1, lab.options.secs, path)
    return measured
