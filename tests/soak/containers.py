#!/usr/bin/env python3
"""First requests to services in containers while the engine is killed and started again: how many failed, were not
answered, were answered by something else, or came to a container that had answered before (all 0).

    target/venv/bin/python tests/soak/containers.py --requests 10000 --restarts 200 --services 8 --minutes 60

Several services at a time, each of which is stopped before its next request, until there were as many or the time is
over. Kills are spread over the requests. Exit code 1 if anything was wrong, or a container is left. `PILOTLIGHT` names
the binary. Needs root, Podman and gcc.
"""

import argparse
import http.client
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from engine import IMAGE, Engine  # noqa: E402
from harness import BINARY, config, eventually, route, service  # noqa: E402
from runtimes import Again  # noqa: E402

LIMIT = 120.0
PORT = 8080
WRONG = ("failed", "stuck", "wrong", "not first", "not stopped")


class Soak:
    """First requests to several services at a time, while the engine is killed again and again."""

    PROGRESS = 15.0  # seconds between two lines

    def __init__(self, engine, options):
        self.engine, self.options = engine, options
        self.names = [f"demo-{number}" for number in range(options.services)]
        container = {"image": IMAGE, "port": PORT}
        values = {"transport": "http", "container": container, "start_timeout": "60s", "stop_grace": "2s"}
        blocks = [f'[containers]\nsocket = "{engine.socket}"\n']
        for name in self.names:
            blocks.append(service(name, url="-", env={"NAME": name}, **values).replace('url = "-"\n', ""))
            blocks.append(route("/", name, host=f"{name}.test"))
        self.gateway = Again(BINARY, config(*blocks), LIMIT, LIMIT)
        self.lock, self.counts, self.took = threading.Lock(), Counter(), []
        self.taken = self.killed = 0
        self.begun = time.monotonic()
        self.until = self.begun + options.minutes * 60

    def run(self):
        """Whether all was right."""
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
        return not (self.left() or status or any(self.counts[what] for what in WRONG))

    def left(self):
        return [one for name in self.names for one in self.engine.containers(service=name)]

    def line(self):
        with self.lock:
            self.took.sort()
            counted = ", ".join(f"{what} {self.counts[what]}" for what in WRONG)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--restarts", type=int, default=200, help="kills of the engine")
    parser.add_argument("--services", type=int, default=8, help="asked at a time")
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    with Engine() as engine:
        return 0 if Soak(engine, options).run() else 1


if __name__ == "__main__":
    sys.exit(main())
