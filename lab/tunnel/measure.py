#!/usr/bin/env python3
"""What `pilotlight redis tunnel` costs: redis-benchmark through it beside redis-benchmark at the servers, alternating within each round.

    cargo build --release -p pilotlight
    lab/tunnel/measure.py [--binary target/release/pilotlight]… [--rounds 7] [--requests 1000000]

Each binary given with --binary is measured in the same rounds, in alternating order: two of them compare two versions.

Two setups: one server behind `smart`, against the server; three primaries behind `smart`, against `redis-benchmark --cluster`. For each: 50 clients that
pipeline 16 (throughput, and the CPU time of a command: of the servers, the load and the tunnel together), and one client without pipelining (what is added to
the median, in microseconds). Figures are medians of the rounds' ratios and differences, with the least and the greatest. Where all cores are busy, throughput
is what the CPU time allows; on a machine with other work its ratio still says something when that of throughput does not. What stays different: each client of `--cluster` speaks to one node alone, and one through the tunnel to all three, so its
sixteen commands are three batches and wait for the slowest. Needs redis-server, redis-benchmark and redis-cli; everything listens on the loopback interface and ends with it.
"""

import argparse
import csv
import io
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time


def free_port():
    # With a bus port 10,000 above.
    while True:
        with socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            if port > 55_000:
                continue
            try:
                bus.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port


def cli(port, *words):
    return subprocess.run(["redis-cli", "-p", str(port), *words], check=True, capture_output=True, text=True).stdout


class Bed:
    def __init__(self):
        self.processes, self.folder = [], tempfile.TemporaryDirectory()

    def server(self, *options):
        port = free_port()
        folder = os.path.join(self.folder.name, str(port))
        os.mkdir(folder)
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder, *options]
        self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        until(lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None)
        return port

    def cluster(self, size):
        ports = [self.server("--cluster-enabled", "yes") for _ in range(size)]
        nodes = [f"127.0.0.1:{port}" for port in ports]
        subprocess.run(["redis-cli", "--cluster", "create", *nodes, "--cluster-yes"], check=True, capture_output=True)
        until(lambda: all("cluster_state:ok" in cli(port, "cluster", "info") for port in ports))
        return ports

    def tunnel(self, binary, *options):
        command = [binary, *(["redis"] if not binary.endswith("-tool") else []), "tunnel", "--listen", "0", "--json", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return int(json.loads(process.stdout.readline())["listening"][0]["local"].rsplit(":", 1)[1])

    def close(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(10)
        self.folder.cleanup()


def until(is_so, patience=30):
    deadline = time.monotonic() + patience
    while True:
        try:
            if is_so():
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            sys.exit("the servers do not come up")
        time.sleep(0.05)


def bench(port, clients, pipeline, requests, *options):
    """Requests per second, and the median latency in microseconds, for GET and SET."""
    command = ["redis-benchmark", "-p", str(port), "-c", str(clients), "-P", str(pipeline), "-n", str(requests), "-d", "64", "-r", "100000", "-t", "set,get", "--csv", *options]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = csv.DictReader(io.StringIO(out[out.index('"test"'):]))
    return {row["test"]: (float(row["rps"]), float(row["p50_latency_ms"]) * 1000) for row in rows}


def cpu(processes):
    """CPU time so far, in microseconds, of these and of the programs that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    nanoseconds = 0
    for process in processes:
        tasks = f"/proc/{process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat") as file:
                nanoseconds += int(file.read().split()[0])
    return nanoseconds / 1000 + (ended.ru_utime + ended.ru_stime) * 1e6


def costs(processes, *run):
    """What `bench` says, and the CPU time of a command."""
    begin = cpu(processes)
    rates = bench(*run)
    return rates, (cpu(processes) - begin) / (len(rates) * run[3])


def spread(numbers):
    return f"{statistics.median(numbers):8.2f}   ({min(numbers):.2f} … {max(numbers):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", action="append", dest="binaries")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=1_000_000)
    arguments = parser.parse_args()
    binaries = arguments.binaries or ["target/release/pilotlight"]
    bed = Bed()
    try:
        single = bed.server()
        cluster = bed.cluster(3)
        setups = [
            ("one server", single, (), ("-p", str(single)), ()),
            # redis-benchmark takes a thread for each node of a cluster by itself; through the tunnel it is to have as many.
            ("three primaries", cluster[0], ("--cluster",), ("-c", "-p", str(cluster[0])), ("--threads", "3")),
        ]
        for name, direct, options, where, as_many in setups:
            tunnels = [bed.tunnel(binary, *where) for binary in binaries]
            figures = [{} for _ in binaries]
            for turn in range(arguments.rounds):
                beside, spent = costs(bed.processes, direct, 50, 16, arguments.requests, *options)
                alone = bench(direct, 1, 1, arguments.requests // 50, *options)
                for at in range(len(binaries))[:: 1 if turn % 2 == 0 else -1]:
                    through, more = costs(bed.processes, tunnels[at], 50, 16, arguments.requests, *as_many)
                    lone = bench(tunnels[at], 1, 1, arguments.requests // 50)
                    rows = figures[at]
                    rows.setdefault("both  CPU time of a command, direct / through the tunnel:", []).append(spent / more)
                    for test in ("GET", "SET"):
                        throughput = through[test][0] / beside[test][0]
                        added = lone[test][1] - alone[test][1]
                        rows.setdefault(f"{test}   throughput through the tunnel / direct:          ", []).append(throughput)
                        rows.setdefault(f"{test}   added to the median, microseconds:               ", []).append(added)
            for binary, rows in zip(binaries, figures):
                for title, numbers in sorted(rows.items()):
                    print(f"{name:16} {binary + '  ' if len(binaries) > 1 else ''}{title} {spread(numbers)}", flush=True)
    finally:
        bed.close()


main()
