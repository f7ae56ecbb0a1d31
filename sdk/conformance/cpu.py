"""Processor time of a service for an exchange, and of its start: ways to reach the gateway against each other.

    cpu.py --pilotlight target/release/pilotlight [--requests 20000] [--rounds 5]
           'pipe=ruby hello.rb' 'http-unix=puma --bind-to-activated-sockets only …'

Each argument is a name and a command. Names that begin with `pipe` are services of the pipe, with `http-unix` HTTP
servers that inherit a Unix socket, others HTTP servers on the port in PORT. Each is behind a gateway of its own, and all
answer `GET /` with the same bytes. They get requests from `ab` (Debian: apache2-utils), 64 at once, in turn in each
round, after a first round that warms them up and does not count. What counts is user and system time of the service's
processes, in /proc: it depends little on what else the machine does. The others are compared with the last one.
"""

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from gateway import Gateway, command, quote

TICKS = os.sysconf("SC_CLK_TCK")
CONFIG = """
listen = "127.0.0.1:0"
workers = 1
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


def descendants(pid):
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from descendants(int(child))


def seconds(gateway):
    """User and system time of the processes below the gateway; its guardian has next to none."""
    pids = descendants(gateway.process.pid)
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS


def transport(name):
    if name.startswith("pipe"):
        return 'transport = "pipe"'
    kind = "unix" if name.startswith("http-unix") else "port"
    return f'transport = "http"\nsocket = "{kind}"'


def gateway_for(name, text, options):
    words = command(shlex.split(text))
    config = CONFIG.format(command=words, dir=quote(os.getcwd()), transport=transport(name))
    return Gateway(options.pilotlight, config)


def first_answer(gateway, text):
    """Seconds until the first answer, which starts the service."""
    begin = time.monotonic()
    answer = gateway.get("/", timeout=60)
    if answer.status != 200:
        raise SystemExit(f"GET / of {text!r} is {answer.status}:\n{gateway.output()}")
    return time.monotonic() - begin


def load(gateway, name, options):
    host, port = gateway.address
    target = f"http://{host}:{port}/"
    ab = ["ab", "-q", "-k", "-c", str(options.flight), "-n", str(options.requests), "-s", "60", target]
    said = subprocess.run(ab, capture_output=True, text=True, check=True, timeout=600).stdout
    failed = int(re.search(r"Failed requests: +(\d+)", said)[1]) + said.count("Non-2xx")
    if failed:
        raise SystemExit(f"{name}: {failed} requests failed\n{said}")


def warm(variants, options):
    """Microseconds per exchange: by name, one number for each round."""
    found = {name: [] for name in variants}
    with ExitStack() as stack:
        gateways = {name: stack.enter_context(gateway_for(name, text, options)) for name, text in variants.items()}
        for turn in range(options.rounds + 1):
            for name, gateway in gateways.items():
                first_answer(gateway, variants[name])
                before = seconds(gateway)
                load(gateway, name, options)
                if turn:
                    found[name].append((seconds(gateway) - before) * 1e6 / options.requests)
    return found


def cold(variants, options):
    """Milliseconds of processor time, and of time, until the first answer: pairs by name."""
    found = {name: [] for name in variants}
    for _ in range(options.rounds):
        for name, text in variants.items():
            with gateway_for(name, text, options) as gateway:
                took = first_answer(gateway, text)
                found[name].append((seconds(gateway) * 1000, took * 1000))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilotlight", required=True, help="the gateway's binary")
    parser.add_argument("--requests", type=int, default=20_000, help="in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flight", type=int, default=64, help="requests at once")
    parser.add_argument("variants", nargs="+", metavar="NAME=COMMAND")
    options = parser.parse_args()
    variants = dict(one.split("=", 1) for one in options.variants)
    *_, base = variants
    found = warm(variants, options)
    for name, numbers in found.items():
        ratios = [one / other for one, other in zip(numbers, found[base], strict=True)]
        middle, spread = statistics.median(ratios), f"{min(ratios):.2f}-{max(ratios):.2f}"
        times = f"{statistics.median(numbers):7.1f} µs of CPU per exchange, {min(numbers):.1f}-{max(numbers):.1f}"
        print(f"{name:<14} {times}; against {base}: {middle:.2f}, {spread}", flush=True)
    for name, pairs in cold(variants, options).items():
        cpu, wall = (statistics.median(numbers) for numbers in zip(*pairs, strict=True))
        print(f"{name:<14} first answer after {wall:.0f} ms, {cpu:.0f} ms of CPU (medians of {options.rounds})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
