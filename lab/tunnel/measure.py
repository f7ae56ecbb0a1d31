#!/usr/bin/env python3
"""What `pilotlight redis tunnel` costs: redis-benchmark through it beside redis-benchmark at the servers, alternating within each round.

    cargo build --release -p pilotlight
    lab/tunnel/measure.py [--binary target/release/pilotlight]… [--rounds 7] [--requests 1000000]

Each binary given with --binary is measured in the same rounds, in alternating order: two of them compare two versions.

Two setups: one server behind `smart`, against the server; three primaries behind `smart`, against `redis-benchmark --cluster`. For each: 50 clients that
pipeline 16 (throughput, and the CPU time of a command: of the servers, the load and the tunnel together), and one client without pipelining (what is added to
the median, in microseconds). Figures are medians of the rounds' ratios and differences, with the least and the greatest. Where all cores are busy, throughput
is what the CPU time allows; on a machine with other work its ratio still says something when that of throughput does not. What stays different: each client of `--cluster` speaks to one node alone, and one through the tunnel to all three, so its
sixteen commands are three batches and wait for the slowest.

Below the ratios is what a command costs each program, in microseconds of its CPU time: the tunnel in user space and
in the kernel, the load and all servers, directly, through the tunnel, and through `relay.rs`, a bare relay to one
server that only copies bytes, with a thread for each direction (no floor: one thread for many clients may cost less).
From these follows what would be left with a core for the load, one for the tunnel and one for each server, where the
slowest program decides: sharing two cores is a part of the ratios.
--quick has the CPU times alone. Needs redis-server, redis-benchmark and redis-cli; everything listens on the loopback interface and ends with it.
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

    def relay(self, port):
        program = os.path.join(self.folder.name, "relay")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "relay.rs")
        subprocess.run(["rustc", "-O", "-o", program, source], check=True)
        process = subprocess.Popen([program, f"127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return int(process.stdout.readline()), process

    def tunnel(self, binary, *options):
        command = [binary, *([] if os.path.basename(binary) == "pilotlight-redis" else ["redis"]), "tunnel", "--listen", "0", "--json", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return int(json.loads(process.stdout.readline())["listening"][0]["local"].rsplit(":", 1)[1]), process

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


TICK = 1e6 / os.sysconf("SC_CLK_TCK")


def times(processes):
    """Microseconds in user space and in the kernel so far."""
    user = system = 0
    for process in processes:
        with open(f"/proc/{process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        user, system = user + int(fields[11]) * TICK, system + int(fields[12]) * TICK
    return user, system


def each(servers, middle, *run):
    """What a command costs: the middle in user space and in the kernel, the load, the servers."""
    before = times(middle), resource.getrusage(resource.RUSAGE_CHILDREN), times(servers)
    rates = bench(*run)
    after = times(middle), resource.getrusage(resource.RUSAGE_CHILDREN), times(servers)
    commands = len(rates) * run[3]
    load = after[1].ru_utime + after[1].ru_stime - before[1].ru_utime - before[1].ru_stime
    numbers = (after[0][0] - before[0][0], after[0][1] - before[0][1], load * 1e6, sum(after[2]) - sum(before[2]))
    return [number / commands for number in numbers]


def show_times(name, size, rounds, floor):
    """`rounds`: by what the commands went through, the costs of each round."""
    print(f"{name}: CPU time of a command, microseconds (median; least … greatest of a round)")
    middle = {}
    for title, rows in rounds.items():
        columns = list(zip(*rows))
        user, system, load, servers = (statistics.median(column) for column in columns)
        totals = [row[0] + row[1] for row in rows]
        middle[title] = max(load, user + system, servers / (1 if title == floor else size))
        parts = f"{min(totals):.2f} … {max(totals):.2f}; user {user:.2f}, kernel {system:.2f}"
        print(f"  {title:60} in between {user + system:5.2f} ({parts})   load {load:5.2f}   servers {servers:5.2f}")
    for title, slowest in middle.items():
        if title not in ("directly", floor):
            rates = f"{1 / middle['directly']:.2f} million/s directly, {1 / slowest:.2f} through {title}"
            print(f"  a core for each program: {rates}: {middle['directly'] / slowest:.2f} of direct", flush=True)


def quick(bed, arguments, binaries, single, cluster):
    relay, relaying = bed.relay(single)
    for name, direct, options, where, as_many, size in setups(single, cluster):
        tunnels = {binary: bed.tunnel(binary, *where) for binary in binaries}
        rounds, floor = {}, "a bare relay to one server"
        for turn in range(arguments.rounds):
            ways = [("directly", direct, [], options), (floor, relay, [relaying], as_many)]
            ways += [(binary, port, [process], as_many) for binary, (port, process) in tunnels.items()]
            for title, port, middle, more in ways[:: 1 if turn % 2 == 0 else -1]:
                rounds.setdefault(title, []).append(each(bed.servers, middle, port, 50, 16, arguments.requests, *more))
        show_times(name, size, {title: rounds[title] for title, *_ in ways}, floor)


def setups(single, cluster):
    return [
        ("one server", single, (), ("-p", str(single)), (), 1),
        # redis-benchmark takes a thread for each node of a cluster by itself; through the tunnel it is to have as many.
        ("three primaries", cluster[0], ("--cluster",), ("-c", "-p", str(cluster[0])), ("--threads", "3"), len(cluster)),
    ]


def spread(numbers):
    return f"{statistics.median(numbers):8.2f}   ({min(numbers):.2f} … {max(numbers):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", action="append", dest="binaries")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="the CPU time of each program alone, beside a bare relay")
    arguments = parser.parse_args()
    binaries = arguments.binaries or ["target/release/pilotlight"]
    bed = Bed()
    try:
        single = bed.server()
        cluster = bed.cluster(3)
        bed.servers = list(bed.processes)
        if arguments.quick:
            return quick(bed, arguments, binaries, single, cluster)
        for name, direct, options, where, as_many, _ in setups(single, cluster):
            tunnels = [bed.tunnel(binary, *where)[0] for binary in binaries]
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
        quick(bed, arguments, binaries, single, cluster)
    finally:
        bed.close()


main()
