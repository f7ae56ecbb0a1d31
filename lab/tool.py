#!/usr/bin/python3
"""`pilotlight redis bench` and `fill` beside redis-benchmark and rueidis, in alternating rounds: tables, the figures that are wanted, and
report.json, which `pilotlight lab show` and `pilotlight lab figures` read."""
import argparse
import json
import shutil
import signal
import sys
from functools import partial

from harness.arguments import add_common, names_of
from harness.document import Run, write
from harness.lab import Lab
from harness.machine import version
from harness.paths import GATEWAY_BIN, REDIS_OUTPUT, REDIS_PEERS, ROOT
from harness.program import Failed
from harness.redis_cluster import Cluster, node_of
from harness.redis_load import REDIS_BENCHMARK, benchmark_batches, client_batches, fill_for_benchmark, parse_benchmark, run_to_end
from harness.report import Column, figures_table, ratios

VERSIONS = {"redis-server": ["redis-server", "--version"], "redis-benchmark": ["redis-benchmark", "--version"], "rustc": ["rustc", "--version"],
            "Go": ["go", "version"]}
TITLE = "The tool for Redis beside redis-benchmark and a client in Go"
HYPOTHESIS = "It loads a cluster about half as fast as redis-benchmark and faster than a good client, finds what redis-benchmark finds, and fills almost as fast"
SECTIONS = ["bench", "agree", "fill"]
OURS, TOOL, RUEIDIS = "pilotlight", "redis-benchmark", "rueidis"
RUEIDIS_BIN = REDIS_OUTPUT / "go/rueidis"
EXTRA_SECONDS = 30
# redis-benchmark is told how many commands, not how long. With threads it looks every 250 ms whether it has ended, and counts that time
# as well: a second too few of them would make it 20 % slower than it is.
COMMANDS_PER_SECOND = {"agree": 600_000, "fill": 150_000}
# The same for both: connections that each have a thread, and one batch under way, of a command that takes the server longer than either client:
# whoever measures rightly finds the server's own rate. With a SET the rate is that of whichever client leaves the server more of two processors.
AGREE_CONNECTIONS, AGREE_PIPELINE, AGREE_BYTES = 2, 64, 16_384
AGREE_KEY = "{one}:bits"
FILL_VALUE_BYTES = 512
# as redis-benchmark's own keys, key:000000000000
FILL_KEY_BYTES = 16
# Of which redis-benchmark takes a random key for each SET. `fill` writes each key once: among as many keys as commands a third of the SETs of
# redis-benchmark would replace a value, which costs the servers less than a new key.
KEY_SPACE = 1_000_000_000
AT_LEAST_OF_RUEIDIS, AT_LEAST_OF_TOOL, AT_LEAST_OF_FILL, AGREE_WITHIN = 1.15, 0.45, 0.8, 0.1
MAX_FILL_MB = 200
OPERATIONS = [Column("ops_s", "throughput", "/s"), Column("p50", "p50", "µs", 1), Column("p99", "p99", "µs", 1),
              Column("cpu_us", "CPU of the client for a command", "µs", 2)]
# title, what is done, and the columns of each section
TABLES = {
    "bench": ("Batches of GET on five primaries", "16 callers with 64 commands under way each", OPERATIONS),
    "agree": ("The same load by both on one server", f"BITCOUNT of {AGREE_BYTES // 1024} KiB, {AGREE_CONNECTIONS} connections × {AGREE_PIPELINE}", OPERATIONS),
    "fill": ("Filling five primaries", f"values of {FILL_VALUE_BYTES} bytes", [Column("mb_s", "rate", "MB/s", 1), Column("rss_mb", "memory", "MB", 1)]),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    add_common(parser, "tool", rounds=5, secs=5)
    parser.add_argument("--work", type=names_of("section", SECTIONS), default=SECTIONS, metavar="A,B", help=",".join(SECTIONS))
    return parser.parse_args()


class Tools:
    """What is run against a cluster; for one node, its first."""

    def __init__(self, lab, cluster):
        self.cluster = cluster
        self.seconds = lab.options.secs
        self.log = lab.scratch / "log"

    def pilotlight(self, mode, *arguments):
        command = [GATEWAY_BIN, "redis", mode, "--json", *arguments]
        return json.loads(run_to_end([str(part) for part in command], self.log, 10 * self.seconds + EXTRA_SECONDS))

    def bench(self, *arguments):
        result = self.pilotlight("bench", "--duration", self.seconds, *arguments)["results"][0]
        latency = result["latency_us"]
        return {"ops_s": result["operations_per_second"], "cpu_us": result["client_cpu_us_per_operation"], "p50": latency["p50"],
                "p99": latency["p99"], "errors": result["errors"]}

    def published(self):
        """The published parameters; GET only."""
        return self.bench("-c", "-p", self.cluster.ports[0], "--operation", "get", "--workers", 16, "--pipeline", 64, "--lanes", 4)

    def one_node(self):
        """One key, hence one node of the cluster."""
        self.node().connection.command("SET", AGREE_KEY, "x" * AGREE_BYTES)
        return self.bench("-p", self.cluster.ports[0], "-c", "--workers", AGREE_CONNECTIONS, "--pipeline", AGREE_PIPELINE,
                          "--threads", AGREE_CONNECTIONS, "--", "BITCOUNT", AGREE_KEY)

    def benchmark(self, port, count, *arguments):
        command = [REDIS_BENCHMARK, "-h", "127.0.0.1", "-p", port, "-n", count, "--csv", *arguments]
        result = parse_benchmark(run_to_end([str(part) for part in command], self.log, 10 * self.seconds + EXTRA_SECONDS))
        return {**result, "errors": 0}

    def one_node_benchmark(self):
        """As `one_node`."""
        self.node().connection.command("SET", AGREE_KEY, "x" * AGREE_BYTES)
        count = int(COMMANDS_PER_SECOND["agree"] * self.seconds)
        return self.benchmark(self.cluster.ports[node_of(AGREE_KEY.encode())], count, "-c", AGREE_CONNECTIONS, "--threads", AGREE_CONNECTIONS,
                              "-P", AGREE_PIPELINE, "BITCOUNT", AGREE_KEY)

    def node(self):
        return self.cluster.nodes[node_of(AGREE_KEY.encode())]

    def fill(self):
        """Strings under keys of redis-benchmark's size, on the whole cluster."""
        count = int(COMMANDS_PER_SECOND["fill"] * self.seconds)
        result = self.pilotlight("fill", "-c", "-p", self.cluster.ports[0], "--flush", "--yes", "--count", count, "--key-size", FILL_KEY_BYTES,
                                 "--value-size", FILL_VALUE_BYTES, "--sample", 100)
        peak = result["peak_memory_bytes"]
        return {"mb_s": result["written"] / result["seconds"] * FILL_VALUE_BYTES / 1e6, "rss_mb": peak / 1e6 if peak else None,
                "errors": result["failed"] + result["missing"]}

    def fill_benchmark(self):
        count = int(COMMANDS_PER_SECOND["fill"] * self.seconds)
        for node in self.cluster.nodes:
            node.connection.command("FLUSHALL")
        result = self.benchmark(self.cluster.ports[0], count, "--cluster", "-t", "set", "-P", 64, "-r", KEY_SPACE, "-d", FILL_VALUE_BYTES)
        return {"mb_s": result["ops_s"] * FILL_VALUE_BYTES / 1e6, "errors": 0}


def functions(tools, section, rueidis):
    if section == "agree":
        return {OURS: tools.one_node, TOOL: tools.one_node_benchmark}
    if section == "fill":
        return {OURS: tools.fill, TOOL: tools.fill_benchmark}
    chosen = {OURS: tools.published, TOOL: partial(benchmark_batches, tools.cluster, tools.seconds, tools.log)}
    if rueidis:
        chosen[RUEIDIS] = partial(client_batches, tools.cluster, rueidis, tools.seconds, tools.log)
    return chosen


def add_figures(lab, section, samples):
    rate = "mb_s" if section == "fill" else "ops_s"

    def beside(other, at_least, name):
        lab.figure(f"{name}: {OURS} / {other}", at_least, " ×", ratios(samples.values(OURS, rate), samples.values(other, rate)), at_least=True)

    if section == "agree":
        values = [abs(value - 1) for value in ratios(samples.values(OURS, rate), samples.values(TOOL, rate))]
        lab.figure(f"agree: difference to {TOOL}", AGREE_WITHIN, "", values)
    elif section == "fill":
        beside(TOOL, AT_LEAST_OF_FILL, f"fill, {FILL_VALUE_BYTES} bytes")
        lab.figure("fill: memory", MAX_FILL_MB, " MB", samples.values(OURS, "rss_mb"))
    else:
        beside(TOOL, AT_LEAST_OF_TOOL, "bench GET 16 × 64")
        if RUEIDIS in samples.rounds:
            beside(RUEIDIS, AT_LEAST_OF_RUEIDIS, "bench GET 16 × 64")


def build(lab):
    """The program with rueidis, if it is wanted and can be built; the binary can."""
    lab.build_gateway(["nice", "cargo", "build", "--release", "--quiet"])
    lab.require(OURS, GATEWAY_BIN)
    if not shutil.which(REDIS_BENCHMARK):
        raise Failed(f"{REDIS_BENCHMARK} is not installed; install: apt-get install redis-tools")
    if "bench" not in lab.options.work:
        return None
    lab.build(RUEIDIS, [REDIS_PEERS / "build.sh", "go"], ROOT)
    return RUEIDIS_BIN if RUEIDIS not in lab.build_errors else None


def measure(lab, rueidis):
    for section in lab.options.work:
        with Cluster(lab) as cluster:
            tools = Tools(lab, cluster)
            if section == "bench":
                cluster.fill()
                fill_for_benchmark(cluster, tools.log)
            samples = lab.run_rounds(section, functions(tools, section, rueidis))
        title, workload, columns = TABLES[section]
        lab.table(section, title, f"{workload}; {lab.options.secs:g} s", samples, columns)
        add_figures(lab, section, samples)


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("tool: ended by SIGTERM"))  # so that what was started is stopped
    with Lab(options) as lab:
        try:
            rueidis = build(lab)
            run = Run(sys.argv, lab.note)
            versions = {name: version(command) for name, command in VERSIONS.items() if name != "Go" or rueidis}
            software = [{"name": name, "version": text, "settings": []} for name, text in versions.items() if text]
            skipped = [{"what": what, "why": why, "install": "lab/peers/redis/build.sh go"} for what, why in lab.build_errors.items()]
            lab.experiment("tool", TITLE, HYPOTHESIS, software, skipped=skipped)
            measure(lab, rueidis)
        except Failed as error:
            sys.exit(f"tool: {error}")
        print(f"\n{figures_table(lab.figures)}\n\nwritten: {write(options.out, run.document(lab.experiments))}")
    sys.exit(0 if all(experiment.complete for experiment in lab.experiments) else 1)


if __name__ == "__main__":
    main()
