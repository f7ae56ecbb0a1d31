#!/usr/bin/python3
"""`pilotlight redis bench` and `fill` beside redis-benchmark and rueidis, in alternating rounds: tables and the figures that are wanted."""
import argparse
import json
import os
import shutil
import signal
import sys
from functools import partial

from harness.arguments import names_of, positive
from harness.lab import Lab
from harness.machine import machine
from harness.paths import GATEWAY_BIN, REDIS_OUTPUT, REDIS_PEERS, ROOT
from harness.program import Failed
from harness.redis_cluster import Cluster, node_of
from harness.redis_load import REDIS_BENCHMARK, benchmark_batches, client_batches, fill_for_benchmark, parse_benchmark, run_to_end
from harness.report import figures_table, ratios

VERSIONS = [["redis-server", "--version"], ["redis-benchmark", "--version"], ["rustc", "--version"], ["go", "version"]]
SECTIONS = ["bench", "agree", "fill"]
OURS, TOOL, RUEIDIS = "pilotlight", "redis-benchmark", "rueidis"
RUEIDIS_BIN = REDIS_OUTPUT / "go/rueidis"
EXTRA_SECONDS = 30
# redis-benchmark is told how many commands, not how long. With threads it looks every 250 ms whether it has ended, and counts that time
# as well: a second too few of them would make it 20 % slower than it is.
COMMANDS_PER_SECOND = {"agree": 1_500_000, "fill": 150_000}
# The same for both: connections that each have a thread, and one batch under way, enough of them that the server is never without work.
AGREE_CONNECTIONS, AGREE_PIPELINE = 2, 64
FILL_VALUE_BYTES = 512
# as redis-benchmark's own keys, key:000000000000
FILL_KEY_BYTES = 16
AT_LEAST_OF_RUEIDIS, AT_LEAST_OF_TOOL, AT_LEAST_OF_FILL, AGREE_WITHIN = 1.15, 0.45, 0.8, 0.1
MAX_FILL_MB = 200


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--secs", type=positive(float), default=5, help="length of each measurement, seconds")
    parser.add_argument("--work", type=names_of("section", SECTIONS), default=SECTIONS, metavar="A,B", help=",".join(SECTIONS))
    parser.add_argument("--binary", metavar="FILE", help="a built pilotlight (default: it is built)")
    parser.add_argument("--json", metavar="FILE", default=REDIS_OUTPUT / "tool.json", help="every sample (default: %(default)s)")
    return parser.parse_args()


class Tools:
    """What is run against a cluster; for one node, its first."""

    def __init__(self, lab, cluster, binary):
        self.cluster, self.binary = cluster, binary
        self.seconds = lab.options.secs
        self.log = lab.scratch / "log"

    def pilotlight(self, mode, *arguments):
        command = [self.binary, "redis", mode, "--json", *arguments]
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
        """The keys of a cluster's node: one hash tag."""
        return self.bench("-p", self.cluster.ports[0], "-c", "--operation", "set", "--workers", AGREE_CONNECTIONS, "--pipeline", AGREE_PIPELINE,
                          "--threads", AGREE_CONNECTIONS, "--key-prefix", "{one}:")

    def benchmark(self, port, count, *arguments):
        command = [REDIS_BENCHMARK, "-h", "127.0.0.1", "-p", port, "-n", count, "--csv", *arguments]
        result = parse_benchmark(run_to_end([str(part) for part in command], self.log, 10 * self.seconds + EXTRA_SECONDS))
        return {**result, "errors": 0}

    def one_node_benchmark(self):
        """As `one_node`: a SET of 64 bytes under one of 100,000 keys with that tag."""
        count = int(COMMANDS_PER_SECOND["agree"] * self.seconds)
        return self.benchmark(self.port_of_tag(), count, "-c", AGREE_CONNECTIONS, "--threads", AGREE_CONNECTIONS, "-P", AGREE_PIPELINE,
                              "-r", 100_000, "SET", "{one}:__rand_int__", "x" * 64)

    def port_of_tag(self):
        return self.cluster.ports[node_of(b"{one}")]

    def fill(self):
        """Strings under keys of redis-benchmark's size, on the whole cluster."""
        count = int(COMMANDS_PER_SECOND["fill"] * self.seconds)
        result = self.pilotlight("fill", "-c", "-p", self.cluster.ports[0], "--flush", "--yes", "--count", count, "--key-size", FILL_KEY_BYTES,
                                 "--value-size", FILL_VALUE_BYTES, "--sample", 100)
        return {"mb_s": result["written"] / result["seconds"] * FILL_VALUE_BYTES / 1e6, "rss_mb": (result["peak_memory_bytes"] or 0) / 1e6,
                "errors": result["failed"] + result["missing"]}

    def fill_benchmark(self):
        count = int(COMMANDS_PER_SECOND["fill"] * self.seconds)
        for node in self.cluster.nodes:
            node.connection.command("FLUSHALL")
        result = self.benchmark(self.cluster.ports[0], count, "--cluster", "-t", "set", "-P", 64, "-r", count, "-d", FILL_VALUE_BYTES)
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


def add_figures(lab, section):
    samples = lab.samples[section]
    rate = "mb_s" if section == "fill" else "ops_s"

    def slower(other, at_least, name):
        """A figure is met if it is small, so it is how many times faster the other may be."""
        values = ratios(samples.values(other, rate), samples.values(OURS, rate))
        lab.figure(f"{name}: {other} ÷ {OURS}", 1 / at_least, "", values, f"that is at least {at_least} ×", samples.errors(OURS))

    if section == "agree":
        values = [abs(value - 1) for value in ratios(samples.values(OURS, rate), samples.values(TOOL, rate))]
        lab.figure("agree: difference to redis-benchmark", AGREE_WITHIN, "", values, f"SET, {AGREE_CONNECTIONS} connections × {AGREE_PIPELINE}", samples.errors(OURS))
    elif section == "fill":
        slower(TOOL, AT_LEAST_OF_FILL, "fill, 512 bytes")
        lab.figure("fill: memory", MAX_FILL_MB, " MB", samples.values(OURS, "rss_mb"))
    else:
        slower(TOOL, AT_LEAST_OF_TOOL, "bench GET 16 × 64")
        if RUEIDIS in samples.rounds:
            slower(RUEIDIS, AT_LEAST_OF_RUEIDIS, "bench GET 16 × 64")


def build(lab):
    """The binary, and the program with rueidis if it is wanted and can be built."""
    binary = lab.options.binary
    if not binary:
        lab.build(OURS, ["nice", "cargo", "build", "--release", "--quiet", "-p", "pilotlight"], ROOT)
        lab.require(OURS, GATEWAY_BIN)
        binary = GATEWAY_BIN
    if not shutil.which(REDIS_BENCHMARK):
        raise Failed(f"{REDIS_BENCHMARK} is not installed; install: apt-get install redis-tools")
    if "bench" not in lab.options.work:
        return binary, None
    lab.build(RUEIDIS, [REDIS_PEERS / "build.sh", "go"], ROOT)
    if RUEIDIS in lab.build_errors:
        print(f"SKIPPED {RUEIDIS}: {lab.build_errors[RUEIDIS]}", flush=True)
        return binary, None
    return binary, RUEIDIS_BIN


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("tool: ended by SIGTERM"))  # so that what was started is stopped
    os.makedirs(REDIS_OUTPUT, exist_ok=True)
    facts = machine(VERSIONS)
    with Lab(options) as lab:
        try:
            binary, rueidis = build(lab)
            print("\n".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
            for section in options.work:
                with Cluster(lab) as cluster:
                    tools = Tools(lab, cluster, binary)
                    if section == "bench":
                        cluster.fill()
                        fill_for_benchmark(cluster, tools.log)
                    lab.run_rounds(section, functions(tools, section, rueidis))
        except Failed as error:
            sys.exit(f"tool: {error}")
        for section in options.work:
            rate = ("MB/s", "mb_s", 1) if section == "fill" else ("ops/s", "ops_s", 0)
            lab.print_table(f"## {section}", lab.samples[section], [rate, ("p50 µs", "p50", 1), ("p99 µs", "p99", 1), ("client CPU µs/op", "cpu_us", 2)])
            add_figures(lab, section)
        print(f"\n{figures_table(lab.figures)}")
        lab.write_json(options.json, facts)
        failed = [name for samples in lab.samples.values() for name, rounds in samples.rounds.items() if None in rounds]
    unmet = [figure.name for figure in lab.figures if not figure.met]
    sys.exit(1 if failed or unmet else 0)


if __name__ == "__main__":
    main()
