#!/usr/bin/env python3
"""Deploys and rollbacks while requests run: failed requests, broken releases that got one, times of rollbacks.

    target/venv/bin/python tests/soak/deploys.py --requests 1000000 --broken 100 --minutes 15

Clients keep their connections and have 16 requests under way on each. Meanwhile a broken release is deployed, a good
one, and gone back to, again and again; there are ten kinds of broken. Every answer has to be 200 and the name of a
release that was good. Each release notes that it got a request other than the one for its health. The run ends when
both numbers are reached, or the time is over.

A rollback's time is that of the whole command, from its start to its end, when no other release takes requests any
more: what is asked next has to be answered by the release that it went to. `PILOTLIGHT` names the binary.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from harness import BINARY, PYTHON, Gateway, config, route, service  # noqa: E402

DEPTH = 16
APP = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, os.environ["SDK"])
import pilotlight
KIND, RELEASE = Path("kind").read_text(), os.environ["PILOTLIGHT_RELEASE"]
NOTE, noted = Path(os.environ["NOTES"]) / RELEASE, False
if KIND == "ends":
    sys.exit("no module named flask")
if KIND == "hangs":
    time.sleep(1000)
def handle(request):
    global noted
    if request.path == "/health":
        if KIND == "silent":
            time.sleep(1000)
        if KIND == "dies":
            os._exit(3)
        if KIND == "raises":
            raise ValueError("no such table")
        return int(KIND) if KIND.isdigit() else 200, [], "health"
    if not noted:
        noted = True
        NOTE.touch()
    return 200, [], RELEASE
pilotlight.serve(handle)
"""
KINDS = ("ends", "hangs", "silent", "dies", "raises", "500", "503", "404", "302", "syntax")


class Client(threading.Thread):
    """Asks until it is told to stop; counts answers by their body, or what went wrong."""

    def __init__(self, address, stop):
        super().__init__(daemon=True)
        self.address, self.stop = address, stop
        self.answers, self.errors = Counter(), []

    def run(self):
        while not self.stop.is_set():
            try:
                self.connection()
            except (OSError, ValueError, EOFError) as error:
                self.errors.append(repr(error))

    def connection(self):
        with socket.create_connection(self.address, 30) as client, client.makefile("rb", 65536) as answers:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            batch = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * DEPTH
            while not self.stop.is_set():
                client.sendall(batch)
                for _ in range(DEPTH):
                    self.answer(answers)

    def answer(self, answers):
        line = answers.readline()
        if not line:
            raise EOFError("closed without an answer")
        length = 0
        while (field := answers.readline()) not in (b"\r\n", b""):
            name, _, value = field.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = answers.read(length).decode()
        self.answers[body] += 1
        if not line.startswith(b"HTTP/1.1 200 "):
            self.errors.append(f"{line!r} {body[:200]}")


class Run:
    def __init__(self, gateway, options):
        self.gateway, self.options = gateway, options
        self.good, self.wrong, self.times, self.kinds = set(), [], {"deploy": [], "rollback": []}, Counter()
        self.random = random.Random(options.seed)

    def build(self, kind):
        folder = self.gateway.folder / "build" / kind
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kind").write_text(kind)
        (folder / "app.py").write_text("def:" if kind == "syntax" else APP)
        return folder

    def command(self, *arguments):
        begun = time.monotonic()
        line = [BINARY, *arguments, "--json", "--socket", self.gateway.folder / "admin.sock"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        return done, time.monotonic() - begun

    def step(self, number):
        if sum(self.kinds.values()) < self.options.broken:
            kind = KINDS[number % len(KINDS)]
            done, _ = self.command("deploy", self.build(kind), "--label", f"bad-{kind}")
            self.kinds[kind] += 1
            if done.returncode != 1 or "is not used" not in done.stderr:
                self.wrong.append(f"a release that {kind}: {done.returncode} {done.stdout}{done.stderr}")
        self.change("deploy", "deploy", self.build("200"))
        if self.random.random() < 0.5:
            self.change("rollback", "rollback")

    def change(self, what, *arguments):
        done, took = self.command(*arguments)
        if done.returncode:
            self.wrong.append(f"{what}: {done.stderr}")
            return
        self.times[what].append(took)
        release = json.loads(done.stdout)["release"]
        self.good.add(release)
        if (body := self.gateway.get("/").body.decode()) != release:
            self.wrong.append(f"{what}: {body} answers after {release} was made the current one")


def summary(times):
    ordered = sorted(times)
    if not ordered:
        return None
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    times = {"median_s": statistics.median(ordered), "p99_s": p99, "max_s": ordered[-1]}
    return {"count": len(ordered)} | {name: round(time, 3) for name, time in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--broken", type=int, default=100)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=18)
    options = parser.parse_args()
    app = service(
        "app", [PYTHON, "-B", "app.py"], releases="srv", health={"path": "/health", "timeout": "500ms"},
        start_timeout="5s", max_instances=options.instances, concurrency=64,
        env={"NOTES": "@FOLDER@/notes", "SDK": str(ROOT / "sdk" / "python")},
    )  # fmt: skip
    gateway = Gateway(BINARY, config(app, route(service="app"), '[admin]\nsocket = "@FOLDER@/admin.sock"\n'))
    (gateway.folder / "notes").mkdir()
    with gateway:
        run = Run(gateway, options)
        run.change("deploy", "deploy", run.build("200"))
        stop, begun = threading.Event(), time.monotonic()
        clients = [Client(gateway.address, stop) for _ in range(options.clients)]
        for client in clients:
            client.start()
        number = 0
        while time.monotonic() - begun < options.minutes * 60:
            run.step(number)
            number += 1
            done = sum(sum(client.answers.copy().values()) for client in clients)
            if done >= options.requests and sum(run.kinds.values()) >= options.broken:
                break
        stop.set()
        for client in clients:
            client.join(60)
        took = time.monotonic() - begun
        bodies = sum((client.answers for client in clients), Counter())
        noted = {entry.name for entry in (gateway.folder / "notes").iterdir()}
    errors = [error for client in clients for error in client.errors]
    report = {
        "binary": str(BINARY), "seconds": round(took, 1), "requests": sum(bodies.values()),
        "failed": len(errors), "errors": errors[:10],
        "answers_of_other_releases": sum(count for body, count in bodies.items() if body not in run.good),
        "broken_releases": sum(run.kinds.values()), "kinds": run.kinds,
        "broken_releases_that_got_requests": len([name for name in noted if "-bad-" in name]),
        "deploys": summary(run.times["deploy"]), "rollbacks": summary(run.times["rollback"]),
        "wrong": run.wrong[:10],
        "load": os.getloadavg()[0],
    }  # fmt: skip
    print(json.dumps(report, indent=2))
    broken = report["answers_of_other_releases"] + report["broken_releases_that_got_requests"]
    return bool(errors or run.wrong or broken)


if __name__ == "__main__":
    sys.exit(main())
