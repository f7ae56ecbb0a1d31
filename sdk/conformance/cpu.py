"""Processor time of a service for an exchange: over the pipe, and over the HTTP server usual for its language.

    cpu.py --pilotlight target/release/pilotlight --pipe 'ruby hello.rb' --http 'puma …' [--socket unix|port]
           [--in-flight 64] [--requests 20000] [--rounds 5] [--workers 1]

Both run behind the same gateway, one after the other in each round, and answer `GET /` with the same bytes. Only the
processor time of the service's processes counts (from /proc), after a warm-up: it depends little on what else the
machine does. The time of the first request, which starts the service, is shown beside it. The load is made by `ab`
(Debian: apache2-utils).
"""

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

from gateway import Gateway, command, quote

CONFIG = """
listen = "127.0.0.1:0"
workers = {workers}
[services.it]
command = {command}
dir = {dir}
{transport}
start_timeout = "30s"
[[routes]]
path = "/"
service = "it"
cache = false
"""
TRANSPORTS = {
    "pipe": 'transport = "pipe"',
    "unix": 'transport = "http"\nsocket = "unix"',
    "port": 'transport = "http"\nsocket = "port"',
}
TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid):
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from descendants(int(child))


def seconds(pids):
    """Processor time of these processes, in user and system mode."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS


def load(address, requests, options):
    host, port = address
    words = ["ab", "-q", "-k", "-c", str(options.in_flight), "-n", str(requests), f"http://{host}:{port}/"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True).stdout
    failed = re.search(r"Failed requests:\s+(\d+)", said)
    if not failed or failed[1] != "0" or "Non-2xx" in said:
        raise SystemExit(f"some requests failed:\n{said}")


def measure(words, transport, options):
    """Microseconds of an exchange, and milliseconds of the first one."""
    config = CONFIG.format(
        command=command(shlex.split(words)), dir=quote(os.getcwd()), transport=TRANSPORTS[transport], workers=options.workers
    )
    with Gateway(options.pilotlight, config) as gateway:
        begin = time.monotonic()
        answer = gateway.get("/")
        cold = (time.monotonic() - begin) * 1000
        if answer.status != 200:
            raise SystemExit(f"GET / of {words!r} is {answer.status}:\n{gateway.output()}")
        load(gateway.address, options.requests // 4, options)
        pids = list(descendants(gateway.process.pid))
        before = seconds(pids)
        load(gateway.address, options.requests, options)
        return (seconds(pids) - before) / options.requests * 1e6, cold


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilotlight", required=True, help="the gateway's binary")
    parser.add_argument("--pipe", required=True, help="command line of the service on the pipe")
    parser.add_argument("--http", required=True, help="command line of the HTTP server")
    parser.add_argument("--socket", choices=("unix", "port"), default="unix", help="what the HTTP server gets")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1, help="of the gateway")
    options = parser.parse_args()
    ratios = []
    for number in range(1, options.rounds + 1):
        pipe, pipe_cold = measure(options.pipe, "pipe", options)
        http, http_cold = measure(options.http, options.socket, options)
        ratios.append(pipe / http)
        print(
            f"round {number}: pipe {pipe:.1f} µs, http {http:.1f} µs, ratio {pipe / http:.2f}; "
            f"first request {pipe_cold:.0f} ms, {http_cold:.0f} ms",
            flush=True,
        )
    print(f"CPU, pipe / http: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
