#!/usr/bin/env python3
"""What Pilotlight adds to an engine of containers, in alternating rounds with a bare script that makes the same calls.

    target/venv/bin/python lab/containers.py [--binary target/release/pilotlight] [--rounds 20] [--restarts 20]
    target/venv/bin/python lab/containers.py --soak [--requests 10000] [--restarts 200] [--services 8] [--minutes 60]

Needs root, Podman and gcc. Three parts:

- start: from nothing to the first answer. The bare script creates, starts and inspects a container and asks it as soon
  as it takes connections; beside it a request to a service that is stopped.
- unpause: the bare script unpauses and asks; beside it a request to a service that is frozen.
- first requests while the engine is killed and started again: how many failed, were not answered, or were answered by
  something else.

`--soak` does the last part alone, and at length: first requests to several services at a time, each of which is stopped
before its next one, until there were as many or the time is over. Kills are spread over the requests.

Wall-clock times are those of a machine that does other things as well; the gateway's own processor time beside them is
not. Printed: medians and quartiles.
"""

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from engine import IMAGE, Engine  # noqa: E402
from harness import config, eventually, route, service  # noqa: E402
from runtimes import Again  # noqa: E402

LIMIT = 120.0
PORT = 8080
TICK = 1 / 100  # of /proc/PID/stat


def settings(engine, **more):
    container = {"image": IMAGE, "port": PORT}
    values = {"url": "-", "transport": "http", "container": container, "start_timeout": "60s", "stop_grace": "2s"}
    demo = service(**values | more).replace('url = "-"\n', "")
    return config(f'[containers]\nsocket = "{engine.socket}"\n', demo, route())


def ask(address, port, host="demo"):
    """A request on a connection of its own, tried again until somebody accepts."""
    pause = 0.001
    while True:
        connection = http.client.HTTPConnection(address, port, timeout=LIMIT)
        try:
            connection.request("GET", "/", headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except ConnectionRefusedError:
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        finally:
            connection.close()


def post(engine, target, body=None):
    status, said = engine.call("POST", f"/v1.41{target}", body)
    assert status < 400, (target, status, said)
    return said


def bare_start(engine, number):
    begun = time.perf_counter()
    body = json.dumps({"Image": IMAGE, "Env": [f"PORT={PORT}"], "ExposedPorts": {f"{PORT}/tcp": {}}})
    made = json.loads(post(engine, f"/containers/create?name=bare-{number}", body))["Id"]
    post(engine, f"/containers/{made}/start")
    (network,) = engine.inspect(made)["NetworkSettings"]["Networks"].values()
    status, _ = ask(network["IPAddress"], PORT)
    took = time.perf_counter() - begun
    assert status == 200
    engine.call("DELETE", f"/v1.41/containers/{made}?force=true")
    return took


def own_cpu(gateway):
    """Of the gateway's process and its guardian's, in seconds."""
    fields = Path(f"/proc/{gateway.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def through(gateway):
    begun = time.perf_counter()
    status, body = ask(*gateway.address)
    assert (status, body[:10]) == (200, b"hello from"), (status, body)
    return time.perf_counter() - begun


def shown(name, values, unit=1000):
    low, middle, high = (round(one * unit, 2) for one in statistics.quantiles(values, n=4))
    print(f"{name:34} median {middle:8} ms   quartiles {low} – {high} ms   n = {len(values)}")
    return middle


def starts(engine, binary, rounds):
    gateway = Again(binary, settings(engine), LIMIT, LIMIT).start()
    bare, ours = [], []
    try:
        through(gateway)  # names, caches
        cpu = 0.0
        for number in range(rounds):
            gateway.command("stop", "demo")
            assert eventually(lambda: not engine.containers(service="demo"), LIMIT)
            bare_one = lambda number=number: bare.append(bare_start(engine, number))  # noqa: E731
            parts = [bare_one, lambda: ours.append(through(gateway))]
            if number % 2:
                parts.reverse()
            for part in parts:
                before = own_cpu(gateway)
                part()
                cpu += own_cpu(gateway) - before
    finally:
        gateway.stop()
    difference = shown("start, through the gateway", ours) - shown("start, bare calls", bare)
    print(f"{'start, difference of medians':34}        {difference:8.2f} ms")
    print(f"{'start, of the gateway (processor)':34}        {cpu / rounds * 1000:8.2f} ms each")


def unpauses(engine, binary, rounds):
    gateway = Again(binary, settings(engine, freeze_after="100ms", idle_timeout="1h"), LIMIT, LIMIT).start()
    bare, ours = [], []
    try:
        through(gateway)
        made = json.loads(post(engine, "/containers/create?name=bare", json.dumps({"Image": IMAGE})))["Id"]
        post(engine, f"/containers/{made}/start")
        (network,) = engine.inspect(made)["NetworkSettings"]["Networks"].values()
        ask(network["IPAddress"], PORT)

        def bare_unpause():
            post(engine, f"/containers/{made}/pause")
            begun = time.perf_counter()
            post(engine, f"/containers/{made}/unpause")
            assert ask(network["IPAddress"], PORT)[0] == 200
            bare.append(time.perf_counter() - begun)

        def ours_unpause():
            states = lambda: [one["State"] for one in engine.containers(service="demo")]  # noqa: E731
            assert eventually(lambda: states() == ["paused"], LIMIT)
            ours.append(through(gateway))

        for number in range(rounds):
            for part in (bare_unpause, ours_unpause) if number % 2 else (ours_unpause, bare_unpause):
                part()
    finally:
        gateway.stop()
    difference = shown("unpause, through the gateway", ours) - shown("unpause, bare calls", bare)
    print(f"{'unpause, difference of medians':34}        {difference:8.2f} ms")


def restarts(engine, binary, count):
    """First requests, each to a service that is stopped, while the engine is killed `count` times."""
    gateway = Again(binary, settings(engine), LIMIT, LIMIT).start()
    stop, done, failed, wrong, stuck = threading.Event(), 0, 0, 0, 0
    killed = 0

    def restart():
        nonlocal killed
        chance = random.Random(56)
        while not stop.is_set() and killed < count:
            time.sleep(chance.uniform(0.3, 2.0))
            engine.kill()
            time.sleep(chance.uniform(0.0, 0.5))
            engine.start()
            killed += 1
        stop.set()

    restarter = threading.Thread(target=restart)
    restarter.start()
    try:
        while not stop.is_set():
            try:
                status, body = ask(*gateway.address)
                failed += status != 200
                if status != 200:
                    print(f"failed: {status} {body.decode(errors='replace')[:400]}")
                wrong += status == 200 and not body.startswith(b"hello from")
            except TimeoutError:
                stuck += 1
            done += 1
            gateway.command("stop", "demo")
        restarter.join()
    finally:
        stop.set()
        restarter.join()
        gateway.stop()
    eventually(lambda: not engine.containers(service="demo"), LIMIT)
    left = engine.containers(service="demo")
    for one in left:
        print(f"left: {one['Names']} {one['State']} {one['Status']} {one['Labels']}")
    print(f"first requests {done}, engine killed {killed} times: failed {failed}, stuck {stuck}, wrong {wrong}; "
          f"containers left {len(left)}")


class Soak:
    """First requests to several services at a time, while the engine is killed again and again."""

    PROGRESS = 15.0  # seconds between two lines

    def __init__(self, engine, binary, options):
        self.engine, self.options = engine, options
        self.names = [f"demo-{number}" for number in range(options.services)]
        container = {"image": IMAGE, "port": PORT}
        values = {"transport": "http", "container": container, "start_timeout": "60s", "stop_grace": "2s"}
        blocks = [f'[containers]\nsocket = "{engine.socket}"\n']
        for name in self.names:
            blocks.append(service(name, url="-", env={"NAME": name}, **values).replace('url = "-"\n', ""))
            blocks.append(route("/", name, host=f"{name}.test"))
        self.gateway = Again(binary, config(*blocks), LIMIT, LIMIT)
        self.lock, self.counts, self.took = threading.Lock(), Counter(), []
        self.taken = self.killed = 0
        self.begun = time.monotonic()
        self.until = self.begun + options.minutes * 60

    def run(self):
        self.gateway.start()
        self.begun = time.monotonic()
        lanes = [threading.Thread(target=self.lane, args=(name,)) for name in self.names]
        killer = threading.Thread(target=self.kills)
        try:
            for thread in [*lanes, killer]:
                thread.start()
            while alive := [lane for lane in lanes if lane.is_alive()]:
                alive[0].join(self.PROGRESS)
                print(self.line(), flush=True)
        finally:
            self.until = 0.0
            for thread in [*lanes, killer]:
                thread.join()
            (ROOT / "target" / "containers-soak.log").write_text(self.gateway.output())
            status = self.gateway.stop()
        eventually(lambda: not self.left(), LIMIT)
        for one in self.left():
            print(f"left: {one['Names']} {one['State']} {one['Status']} {one['Labels']}")
        middle, high, top = (self.took[int(len(self.took) * part)] for part in (0.5, 0.99, 1 - 1e-9))
        print(f"{self.line()}; containers left {len(self.left())}, the gateway ended with {status}")
        print(f"an answer took {middle:.2f} s in the median, {high:.2f} in p99, {top:.2f} at most")

    def left(self):
        return [one for name in self.names for one in self.engine.containers(service=name)]

    def line(self):
        with self.lock:
            self.took.sort()
            counted = ", ".join(f"{what} {self.counts[what]}" for what in ("failed", "stuck", "wrong", "not first"))
            spent = time.monotonic() - self.begun
            return f"{spent:6.0f} s: first requests {self.counts['done']}, engine killed {self.killed} times: {counted}"

    def is_over(self):
        return time.monotonic() > self.until

    def lane(self, name):
        """One service: asked, stopped, asked again."""
        last = 0
        while not self.is_over():
            with self.lock:
                if self.taken >= self.options.requests:
                    return
                self.taken += 1
            begun = time.monotonic()
            what, said = self.first(name, last)
            with self.lock:
                self.counts["done"] += 1
                self.counts[what] += 1
                self.took.append(time.monotonic() - begun)
            if what == "right":
                last = said
            else:
                print(f"{time.strftime('%H:%M:%S', time.gmtime())} {name} {what}: {said}", flush=True)
            self.stop(name)

    def first(self, name, last):
        """What became of one request, and what was said."""
        connection = http.client.HTTPConnection(*self.gateway.address, timeout=LIMIT)
        try:
            connection.request("GET", "/who", headers={"Host": f"{name}.test"})
            answer = connection.getresponse()
            status, body = answer.status, answer.read().decode(errors="replace")
        except TimeoutError:
            return "stuck", f"no answer in {LIMIT:.0f} s"
        except (OSError, http.client.HTTPException) as error:
            return "failed", repr(error)
        finally:
            connection.close()
        words = body.split()
        if status != 200:
            return "failed", f"{status} {body[:600]}"
        if len(words) != 2 or words[0] != name:
            return "wrong", body[:600]
        return ("right", int(words[1])) if int(words[1]) > last else ("not first", body)

    def stop(self, name):
        """Until it is stopped, however often the engine is killed meanwhile."""
        until = time.monotonic() + 3 * LIMIT
        while True:
            try:
                return self.gateway.command("stop", name)
            except subprocess.SubprocessError as error:
                said = getattr(error, "stderr", None) or b""
                print(f"{name}: stop: {said.decode(errors='replace').strip() or error}", flush=True)
                if time.monotonic() > until:
                    with self.lock:
                        self.counts["not stopped"] += 1
                    return None

    def kills(self):
        """One kill for each so many requests, at any point of what goes on then."""
        chance = random.Random(56)
        each = self.options.requests / max(1, self.options.restarts)
        while self.killed < self.options.restarts and not self.is_over():
            if self.counts["done"] < (self.killed + 0.5) * each and self.counts["done"] < self.options.requests - 1:
                time.sleep(0.01)
                continue
            time.sleep(chance.uniform(0.0, 0.5))
            self.engine.kill()
            time.sleep(chance.uniform(0.0, 0.5))
            self.engine.start()
            self.killed += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "pilotlight")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--restarts", type=int, help="kills of the engine; 20, and with --soak 200")
    parser.add_argument("--soak", action="store_true", help="first requests alone, many of them")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--services", type=int, default=8, help="asked at a time")
    parser.add_argument("--minutes", type=float, default=60)
    arguments = parser.parse_args()
    if arguments.restarts is None:
        arguments.restarts = 200 if arguments.soak else 20
    with Engine() as engine:
        if arguments.soak:
            return Soak(engine, arguments.binary, arguments).run()
        starts(engine, arguments.binary, arguments.rounds)
        unpauses(engine, arguments.binary, arguments.rounds)
        restarts(engine, arguments.binary, arguments.restarts)


if __name__ == "__main__":
    main()
