#!/usr/bin/env python3
"""Figures of the gateway in a cluster: what of a scale from zero is its own, many routes, an API server that is away.

    target/venv/bin/python -B tests/kubernetes/cluster.py inside -- target/venv/bin/python -B \
        tests/kubernetes/measure.py PART [--binary target/release/pilotlight] [--rounds 100] [--limit 900]
        [--routes 1000] [--endpoints 5000] [--seconds 600]

PART is `wake`, `scale` or `away`. The binary is that of `pilotlight`, which has `pilotlight-kubernetes` beside it; by
default that of `PILOTLIGHT`, else target/debug/pilotlight: name one that is optimized. Rounds end when `--limit`
seconds are over, however many there were. Times are wall-clock times of a machine that may do other things as well.

- wake: a request to a workload of zero pods, from the request to the API server's event of the patched scale, and from
  the event of the first ready endpoint to the answer; what is between is the cluster's. In every other round the floor
  of both: this program patches the scale by itself, and asks the pod itself when its endpoint is ready. What the
  gateway takes beyond that is its own part.
- scale: so many HTTPRoutes, Services and endpoints; memory of a replica without its pages of files, and how long it
  takes from the API server's answer to a changed route, or to a changed endpoint, until a request is answered by it.
  The floor is how long another watcher waits for the event of that change.
- away: requests to running pods while there is no API server.
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "sdk" / "conformance")]

import things  # noqa: E402
from api import path_of  # noqa: E402
import cluster  # noqa: E402
from conftest import Installed, Load, Space, wait  # noqa: E402

SERVICES_NETWORK = 93  # 10.93.x.y: endpoints that nobody asks
SETTLED = 0.3  # seconds for the gateway to learn what the API server has said
BATCH = 16  # threads that write to the API server
POLL = 0.002  # seconds between two requests that ask whether a change is there: without, they take a core from it


def millis(seconds):
    return f"{seconds * 1000:.1f} ms"


def at_quantile(values, quantile):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * quantile))]


def spread(values):
    p50, p99 = at_quantile(values, 0.5), at_quantile(values, 0.99)
    return f"p50 {millis(p50)}, p99 {millis(p99)}, most {millis(max(values))}, of {len(values)}"


class Events:
    """When the API server said what, by threads that watch."""

    def __init__(self, api, path, wanted):
        self._wanted = wanted
        self.forget()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(api, path), daemon=True)
        self._thread.start()

    def forget(self):
        self.seen, self.thing = None, None
        self.happened = threading.Event()

    def wait(self, limit=60.0):
        assert self.happened.wait(limit), "an event has not come"
        return self.thing

    def _run(self, api, path):
        for kind, thing in api.watch(path, self._stopping):
            if kind in ("ADDED", "MODIFIED") and self.seen is None and self._wanted(thing):
                self.seen, self.thing = time.monotonic(), thing
                self.happened.set()


def is_ready(endpoints):
    return any(one["conditions"].get("ready") for one in endpoints.get("endpoints") or [])


class Parts:
    """Of one way to wake a workload: until its scale is patched, from its first endpoint on, and the whole."""

    def __init__(self):
        self.before, self.after, self.whole = [], [], []

    def add(self, begin, scaled, ready, end):
        self.before.append(scaled - begin)
        # An answer can be there before another watcher is told.
        self.after.append(max(0.0, end - ready))
        self.whole.append(end - begin)

    def both(self):
        return [before + after for before, after in zip(self.before, self.after, strict=True)]

    def print(self, name):
        print(f"{name}: until the patched scale is seen: {spread(self.before)}")
        print(f"{name}: from the ready endpoint to the answer of the pod: {spread(self.after)}")
        print(f"{name}: both: {spread(self.both())}")
        print(f"{name}: from the begin to the answer: {spread(self.whole)}")


def wake(installed, options):
    space = Space(installed.cluster, "wake")
    space.apply(things.named("v1", "Namespace", space.name))
    space.backend(annotations={"pilotlight.dev/idle-timeout": "1h"})
    space.apply(things.ingress("web", space.name, space.host, "app"))
    installed.wait_for(space.host)
    scaled = Events(space.api, path_of("apps/v1", "deployments", space.name), lambda one: one["spec"]["replicas"] == 1)
    slices = path_of("discovery.k8s.io/v1", "endpointslices", space.name)
    ready = Events(space.api, slices, is_ready)
    gateway, floor, address = Parts(), Parts(), installed.address()

    def through_gateway():
        answer = installed.get(space.host, address=address, timeout=60.0)
        assert answer.status == 200, answer

    def by_hand():
        space.scale("app", 1)
        ready.wait()
        pod = next(one["addresses"][0] for one in ready.thing["endpoints"] if one["conditions"].get("ready"))
        assert installed.get(space.host, address=pod, port=things.PORT).status == 200

    begun = time.monotonic()
    for at in range(2 * (options.rounds + 1)):
        space.scale("app", 0)
        wait(lambda: not space.pods() and not any(map(is_ready, space.api.get(slices)["items"])), "nothing runs")
        time.sleep(SETTLED)
        scaled.forget()
        ready.forget()
        begin = time.monotonic()
        (by_hand if at % 2 else through_gateway)()
        end = time.monotonic()
        scaled.wait(5.0)
        ready.wait(5.0)
        if at > 1:  # the first are for warming up
            (floor if at % 2 else gateway).add(begin, scaled.seen, ready.seen, end)
        if is_over(begun, options, at // 2):
            break
    gateway.print("gateway")
    floor.print("floor")
    for name, quantile in (("p50", 0.5), ("p99", 0.99)):
        own = at_quantile(gateway.both(), quantile) - at_quantile(floor.both(), quantile)
        print(f"own part of a scale from zero, {name} of the gateway less {name} of the floor: {millis(own)}")


def is_over(begun, options, rounds):
    is_late = time.monotonic() - begun > options.limit
    if is_late:
        print(f"{options.limit:.0f} s are over after {rounds} rounds")
    return is_late


def anonymous(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:")) / 1024


def memory(installed):
    """Of the process that has most, in MiB: the gateway beside its guardian."""
    return {name: max(map(anonymous, installed.processes(name))) for name in installed.ready()}


def in_threads(work, items):
    items = list(items)
    parts = [items[at::BATCH] for at in range(BATCH)]
    threads = [threading.Thread(target=lambda part=part: [work(item) for item in part]) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def endpoints(name, namespace, addresses):
    made = things.named("discovery.k8s.io/v1", "EndpointSlice", name, namespace, addressType="IPv4")
    made["metadata"]["labels"] = {"kubernetes.io/service-name": name}
    made["endpoints"] = [{"addresses": [address], "conditions": {"ready": True}} for address in addresses]
    return made | {"ports": [{"name": "http", "port": things.PORT, "protocol": "TCP"}]}


def scale(installed, options):
    space = Space(installed.cluster, "scale")
    space.apply(things.named("v1", "Namespace", space.name))
    space.apply(things.gateway("gateway", space.name))
    space.backend("app", replicas=2)
    space.apply(things.http_route("app", space.name, space.host, things.rule("app")))
    space.wait_ready(2)
    installed.wait_for(space.host, text="app-")
    empty = memory(installed)
    each = options.endpoints // options.routes

    def make(at):
        name = f"many-{at}"
        numbers = range(at * each, (at + 1) * each)
        addresses = [f"10.{SERVICES_NETWORK}.{number // 250}.{number % 250 + 1}" for number in numbers]
        without = things.service(name, space.name)
        del without["spec"]["selector"]
        route = things.http_route(name, space.name, f"{name}.test", things.rule(name, matches=[things.prefix("/a")]))
        space.apply(without, endpoints(name, space.name, addresses), route)

    begin = time.monotonic()
    in_threads(make, range(options.routes))
    made = time.monotonic() - begin
    # A host whose route is the last one answers by its own service, not 404: there nobody listens.
    last = [f"many-{at}.test" for at in range(0, options.routes, max(1, options.routes // 20))]
    redirect = {"type": "RequestRedirect", "requestRedirect": {"hostname": "done.test", "statusCode": 302}}
    space.apply(things.http_route("end", space.name, "end.test", {"filters": [redirect]}))
    installed.wait_for("end.test", status=302, limit=300.0)
    assert all(installed.get(host, "/b").status == 404 for host in last)
    time.sleep(5.0)  # until what was freed went back
    full = memory(installed)
    print(f"{options.routes} routes and {options.routes * each} endpoints, made in {made:.0f} s")
    print(f"memory of a replica: {', '.join(f'{full[one]:.1f} MiB, before {empty[one]:.1f}' for one in full)}")
    changed(installed, space, options)


def changed(installed, space, options):
    address = installed.address()
    routes, seen, servers = [], [], []
    of_routes = path_of("gateway.networking.k8s.io/v1", "httproutes", space.name)
    target = ["none.test"]
    told = Events(space.api, of_routes, lambda one: target[0] in str(one["spec"]))
    begun = time.monotonic()
    for at in range(options.rounds):
        target[0] = f"to-{at}.test"
        moved = {"type": "RequestRedirect", "requestRedirect": {"hostname": target[0], "statusCode": 302}}
        told.forget()
        begin = time.monotonic()
        space.apply(things.http_route("end", space.name, "end.test", {"filters": [moved]}))
        routes.append(until(lambda: installed.get("end.test", address=address).get("location"), target[0]))
        told.wait()
        seen.append(told.seen - begin)
        if is_over(begun, options, at):
            break
    print(f"a changed route, from the API server's answer to the first request by it: {spread(routes)}")
    print(f"  floor: from the begin of that change to its event at another watcher: {spread(seen)}")
    # One Service whose endpoints are one of two real pods, then the other.
    pods = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in space.pods()}
    without = things.service("turn", space.name)
    del without["spec"]["selector"]
    space.apply(without, things.http_route("turn", space.name, "turn.test", things.rule("turn")))
    names, begun = sorted(pods), time.monotonic()
    for at in range(options.rounds):
        name = names[at % 2]
        space.apply(endpoints("turn", space.name, [pods[name]]))
        took = until(lambda: installed.get("turn.test", address=address).body.decode(), name)
        if at:  # the first came with its service
            servers.append(took)
        if is_over(begun, options, at):
            break
    print(f"a changed endpoint: {spread(servers)}")


def until(read, text, limit=30.0):
    begin = time.monotonic()
    while text not in (read() or ""):
        assert time.monotonic() - begin < limit, text
        time.sleep(POLL)
    return time.monotonic() - begin


def away(installed, options):
    space = Space(installed.cluster, "away")
    space.apply(things.named("v1", "Namespace", space.name))
    space.backend(replicas=3)
    space.apply(things.ingress("web", space.name, space.host, "app"))
    space.wait_ready(3)
    installed.wait_for(space.host)
    with Load(installed.ready().values(), space.host, connections=2, pause=0.01) as asked:
        installed.cluster.kill_api()
        time.sleep(options.seconds)
        during = sum(asked.results.values())
        installed.cluster.start_api()
        time.sleep(5.0)
    failed = len(asked.failures)
    print(f"API server away for {options.seconds:.0f} s: {during} requests meanwhile, {failed} failed")
    print(*asked.failures[:3], sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["wake", "scale", "away"])
    parser.add_argument("--binary", type=Path, help="of pilotlight, with pilotlight-kubernetes beside it")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for the rounds of one figure")
    parser.add_argument("--routes", type=int, default=1000)
    parser.add_argument("--endpoints", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=600.0)
    options = parser.parse_args()
    if options.binary:
        cluster.use(options.binary.resolve())
    with tempfile.TemporaryDirectory(prefix="pilotlight-kubernetes-") as folder, cluster.Cluster(folder) as started:
        {"wake": wake, "scale": scale, "away": away}[options.part](Installed(started).apply(), options)


if __name__ == "__main__":
    main()
