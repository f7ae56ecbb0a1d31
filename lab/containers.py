#!/usr/bin/env python3
"""What Pilotlight adds to an engine of containers, in alternating rounds with a bare script that makes the same calls.

    target/venv/bin/python lab/containers.py [--binary target/release/pilotlight] [--rounds 20] [--restarts 20]

Needs root, Podman and gcc. Three parts:

- start: from nothing to the first answer. The bare script creates, starts and inspects a container and asks it as soon
  as it takes connections; beside it a request to a service that is stopped.
- unpause: the bare script unpauses and asks; beside it a request to a service that is frozen.
- first requests while the engine is killed and started again: how many failed, were not answered, or were answered by
  something else.

Wall-clock times are those of a machine that does other things as well; the gateway's own processor time beside them is
not. Printed: medians and quartiles.
"""

import argparse
import http.client
import json
import random
import statistics
import sys
import threading
import time
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "pilotlight")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--restarts", type=int, default=20)
    arguments = parser.parse_args()
    with Engine() as engine:
        starts(engine, arguments.binary, arguments.rounds)
        unpauses(engine, arguments.binary, arguments.rounds)
        restarts(engine, arguments.binary, arguments.restarts)


if __name__ == "__main__":
    main()
