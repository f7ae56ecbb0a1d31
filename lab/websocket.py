#!/usr/bin/env python3
"""CPU time of an echoed WebSocket message: over the pipe, over HTTP, and through a relay without HTTP (the floor).

    cargo build --release -p pilotlight
    cargo build --release -p pilotlight-pipe --example websocket_echo
    lab/websocket.py target/release/pilotlight [--before OTHER] [--rounds 12] [--secs 1] [--clients 64] [--bytes 32]

The service is one program, as a service of the pipe and as a web server of its own, on TCP and on a Unix socket. What
is counted is the CPU time of the gateway and of the service together, from /proc, for each message; the load's is not.
All variants take turns in each round, and each round begins with another one; the first round warms up. A ratio is one
of the same round: its median, and the least and the greatest.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import procfs
from programs import Program

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 10
POLL_SECONDS = 0.01


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def await_port(port):
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(POLL_SECONDS)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.running, self.variants = options, folder, [], {}
        self.tcp, self.unix = f"127.0.0.1:{free_port()}", f"{folder}/echo.sock"
        self.on_tcp = self.start([options.echo, "serve", f"tcp:{self.tcp}"])
        self.on_unix = self.start([options.echo, "serve", f"unix:{self.unix}"])
        await_port(int(self.tcp.rpartition(":")[2]))
        for name, binary in [("", options.gateway), (" before", options.before)]:
            if binary:
                self.gateway(name, binary)
        for name, to, service in [("tcp", f"tcp:{self.tcp}", self.on_tcp), ("unix", f"unix:{self.unix}", self.on_unix)]:
            port = free_port()
            relay = self.start([options.echo, "relay", f"tcp:127.0.0.1:{port}", to])
            await_port(port)
            self.variants[f"relay, {name}"] = (port, "/", [relay, service])

    def gateway(self, name, binary):
        port, config = free_port(), Path(self.folder) / f"pilotlight{len(self.running)}.toml"
        config.write_text(
            f'listen = "127.0.0.1:{port}"\nworkers = 1\n'
            f'[services.pipe]\ncommand = ["{self.options.echo}"]\ntransport = "pipe"\nidle_timeout = "1h"\n'
            f'[services.tcp]\nurl = "http://{self.tcp}"\n[services.unix]\nurl = "unix:{self.unix}"\n'
            + "".join(f'[[routes]]\npath = "/{one}"\nservice = "{one}"\n' for one in ("pipe", "tcp", "unix"))
        )
        gateway = self.start([binary, "run", "--config", config])
        await_port(port)
        for service, others in [("pipe", []), ("tcp", [self.on_tcp]), ("unix", [self.on_unix])]:
            self.variants[f"{service}{name}"] = (port, f"/{service}", [gateway, *others])

    def start(self, command):
        program = Program(command, Path(self.folder) / "log", core=self.options.core)
        self.running.append(program)
        return program

    def stop(self):
        for program in reversed(self.running):
            program.stop()

    def measure(self, name):
        """Microseconds of CPU time for a message, and messages a second."""
        port, target, programs = self.variants[name]
        options = self.options
        pids = lambda: [pid for program in programs for pid in program.pids]  # noqa: E731
        self.load(port, target, 0.05)  # whoever is started by it is there
        before = procfs.CpuTime.of(pids())
        begun = time.monotonic()
        count = self.load(port, target, options.secs)
        return procfs.CpuTime.of(pids()).since(before) / count * 1e6, count / (time.monotonic() - begun)

    def load(self, port, target, secs):
        words = [f"127.0.0.1:{port}", target, self.options.clients, secs, self.options.bytes]
        command = ["taskset", "-c", str(self.options.load_core), self.options.echo, "load", *map(str, words)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=secs + 30).stdout)


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway", help="the binary pilotlight, a release build")
    parser.add_argument("--before", help="another one to compare with")
    parser.add_argument("--echo", default=ROOT / "target" / "release" / "examples" / "websocket_echo")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--secs", type=float, default=1)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--bytes", type=int, default=32, help="of a message")
    parser.add_argument("--core", type=int, default=0, help="where gateway and service run")
    parser.add_argument("--load-core", type=int, default=1)
    parser.add_argument("--out", help="a file for the measured values, as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        try:
            names = list(bench.variants)
            costs, rates = {name: [] for name in names}, {name: [] for name in names}
            for number in range(options.rounds + 1):
                turn = number % len(names)
                for name in names[turn:] + names[:turn]:
                    cost, rate = bench.measure(name)
                    if number:
                        costs[name].append(cost)
                        rates[name].append(rate)
        except subprocess.CalledProcessError as error:
            sys.exit(f"websocket: the load failed: {error.stderr}")
        finally:
            bench.stop()
    print(f"{options.clients} clients, {options.bytes} bytes, {options.rounds} rounds of {options.secs} s\n")
    print(f"{'':16} {'µs of CPU a message':24} messages a second")
    for name in names:
        print(f"{name:16} {spread(costs[name]):24} {statistics.median(rates[name]):.0f}")
    print()
    pairs = [("pipe", "tcp"), ("pipe", "unix"), ("relay, unix", "relay, tcp")]
    pairs += [("pipe", "relay, unix"), ("tcp", "relay, tcp")]
    pairs += [(name, f"{name} before") for name in ("pipe", "tcp", "unix")] + [("pipe before", "tcp before")]
    for one, other in pairs:
        if one in costs and other in costs:
            print(f"{one} / {other}: {spread([a / b for a, b in zip(costs[one], costs[other])])}")
    if options.out:
        measured = {"argv": sys.argv, "uname": os.uname().release, "us": costs, "per_second": rates}
        Path(options.out).write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
