#!/usr/bin/env python3
"""What traces cost: CPU of a gateway with and without them, by turns, for stored answers and for requests passed on.

    lab/traces.py --rounds 11 --requests 60000 --sample 0.01

Two gateways with one worker each stand before the same origin, which is a third one with a file. Each round asks both,
in turn first and second, by h2load over HTTP/1.1 with 64 connections. What counts is user and system time of the
gateway's processes (nanoseconds, from schedstat), its thread that sends spans included; ratios are within a round.
`PILOTLIGHT` names the binary; a release build is what should be measured.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from harness import BINARY, Gateway  # noqa: E402

FILE = json.dumps({"id": 7, "text": "x" * 170})
ORIGIN = """
listen = "127.0.0.1:0"
workers = 1
[[routes]]
path = "/"
files = "@FOLDER@/site"
"""
GATEWAY = """
listen = "127.0.0.1:0"
workers = 1
[services.origin]
url = "http://{origin}"
[[routes]]
path = "/stored"
service = "origin"
strip_prefix = true
cache = "1h"
[[routes]]
path = "/passed"
service = "origin"
strip_prefix = true
cache = false
{traces}
"""


def collect(listener):
    """A collector: takes whatever comes, and says so."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=take, args=(connection,), daemon=True).start()


def take(connection):
    with connection, connection.makefile("rb") as lines:
        while (line := lines.readline()) != b"":
            length = 0
            while line not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
                line = lines.readline()
            lines.read(length)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n")


def nanoseconds(pid):
    """Of all threads of a gateway and of its guardian."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    total = 0
    for thread in (thread for one in pids for thread in Path(f"/proc/{one}/task").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # it has ended
            total += int((thread / "schedstat").read_text().split()[0])
    return total


def cpu(gateway, path, requests):
    """Microseconds of a request."""
    host, port = gateway.address
    before = nanoseconds(gateway.process.pid)
    command = ["h2load", "--h1", "-c", "64", "-n", str(requests), f"http://{host}:{port}/{path}/a.json"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    if f"{requests} succeeded" not in said:
        raise SystemExit(said)
    return (nanoseconds(gateway.process.pid) - before) / requests / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--requests", type=int, default=60_000)
    parser.add_argument("--sample", type=float, default=0.01)
    options = parser.parse_args()
    collector = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=collect, args=(collector,), daemon=True).start()
    endpoint = f"http://127.0.0.1:{collector.getsockname()[1]}/v1/traces"
    traces = f'[traces]\nendpoint = "{endpoint}"\nsample = {options.sample}\n'
    report = {"binary": str(BINARY), "sample": options.sample}
    with contextlib.ExitStack() as stack:
        origin = Gateway(BINARY, ORIGIN)
        (origin.folder / "site").mkdir()
        (origin.folder / "site" / "a.json").write_text(FILE)
        address = "{}:{}".format(*stack.enter_context(origin).address)
        kinds = {"without": "", "with": traces}
        gateways = {
            kind: stack.enter_context(Gateway(BINARY, GATEWAY.format(origin=address, traces=words)))
            for kind, words in kinds.items()
        }
        for path in ("stored", "passed"):
            rounds = []
            for number in range(options.rounds + 1):
                order = list(gateways) if number % 2 else list(reversed(gateways))
                rounds.append({kind: cpu(gateways[kind], path, options.requests) for kind in order})
            del rounds[0]  # it warms up
            ratios = sorted(one["with"] / one["without"] for one in rounds)
            report[path] = {kind: round(statistics.median(one[kind] for one in rounds), 2) for kind in kinds}
            ends = [round(ratios[0], 3), round(ratios[-1], 3)]
            report[path] |= {"ratio": round(statistics.median(ratios), 3), "range": ends}
            print(path, json.dumps(report[path]), file=sys.stderr, flush=True)
    report["load"] = os.getloadavg()[0]
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
