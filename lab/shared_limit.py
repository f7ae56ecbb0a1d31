#!/usr/bin/python3
"""How many requests several gateways let in that share a rate through one Redis, and what that costs a request.

    lab/shared_limit.py                              # 8 gateways, 1000/s, burst 10, 12 windows of a second
    LAB_GATEWAY=target/debug/pilotlight lab/shared_limit.py --budget 50ms --json
    lab/shared_limit.py --cost                       # a request without a limit, with one, and with a shared one

What is let in is answered with a redirect of the gateway's own, what is beyond the rate with 429. It is counted twice,
in windows of a second that follow each other from the first one that was let in:

- when Redis let it in, by its clock (`MONITOR` shows what its script writes);
- when the load had the answer. On a busy machine answers of one window come in the next one.

The first is judged, and what the load had beyond that in all, evenly over all windows: that was let in by gateways
alone, which Redis did not answer within the budget. (Of those, Redis has let in some as well, and refused some.)

The burst counts as beyond the rate.
"""
import argparse
import json
import os
import re
import selectors
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

from procfs import CpuTime
from programs import Failed, Program, accepts, dial, free_port, get

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "e2e"))

from redis_servers import Server  # noqa: E402

GATEWAY_BIN = Path(os.environ.get("LAB_GATEWAY", ROOT / "target/release/pilotlight")).resolve()

HEAD_END = b"\r\n\r\n"
STATUS = re.compile(rb"HTTP/1\.1 (\d+)")
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
MOST_OVER = 0.02
LATE_SECONDS = 2
ROUTES = {"no limit": "/none", "a limit": "/local", "a shared limit": "/shared"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateways", type=int, default=8)
    parser.add_argument("--windows", type=int, default=12, help="seconds of load")
    parser.add_argument("--rate", type=int, default=1000, help="requests in a second, of all gateways together")
    parser.add_argument("--burst", type=int, default=10)
    parser.add_argument("--offered", type=float, default=3.0, help="the load, as a multiple of the rate")
    parser.add_argument("--budget", default="5ms", help="cache.redis.budget")
    parser.add_argument("--cost", action="store_true", help="measure what a request costs instead")
    parser.add_argument("--rounds", type=int, default=10, help="of --cost")
    parser.add_argument("--requests", type=int, default=1000, help="of each route in a round of --cost")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


class Admissions:
    """When Redis has let in something, by its clock."""

    WRITES = re.compile(rb'\+([0-9.]+) \[\d+ lua\] "SET" "[^"]*:rate:1:')

    def __init__(self, port):
        self.socket, self.times = dial(port), []
        self.socket.sendall(b"*1\r\n$7\r\nMONITOR\r\n")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        with self.socket.makefile("rb") as lines:
            for line in lines:
                if found := self.WRITES.match(line):
                    self.times.append(float(found[1]))

    def close(self):
        """All that Redis had to say was read then."""
        self.socket.shutdown(socket.SHUT_WR)
        self.reader.join()
        self.socket.close()
        return self.times


class Gateway(Program):
    """One worker; what is let in is redirected by the gateway itself."""

    def __init__(self, folder, redis, limits, budget):
        self.port, self.metrics_port = free_port(), free_port()
        limited = {path: f"limit = {limit}\n" if limit else "" for path, limit in limits.items()}
        routes = [
            f'[[routes]]\npath = "{path}"\nredirect = "https://example.org/"\n{limit}'
            for path, limit in limited.items()
        ]
        folder.mkdir()
        file = folder / "pilotlight.toml"
        file.write_text("\n".join([
            f'listen = "127.0.0.1:{self.port}"\nworkers = 1\nadmin = false',
            f'[metrics]\nlisten = "127.0.0.1:{self.metrics_port}"',
            f'[cache.redis]\nurl = "redis://127.0.0.1:{redis}"\nbudget = "{budget}"', *routes]))  # fmt: skip
        if not GATEWAY_BIN.exists():
            raise Failed(f"{GATEWAY_BIN} is not built; LAB_GATEWAY names another one")
        super().__init__([GATEWAY_BIN, "--config", file], folder / "log", core=None)

    def __enter__(self):
        covered = "\npilotlight_cache_coherence_covered 1\n"
        try:
            self.wait_until(lambda: accepts(self.metrics_port) and covered in self.metrics())
        except BaseException:
            self.stop()
            raise
        return self

    def metrics(self):
        return get(self.metrics_port, "/metrics")[1].decode()

    def counted(self):
        """What Redis said of requests, by result."""
        found = re.findall(r'pilotlight_shared_rate_requests_total\{result="(\w+)"\} (\d+)', self.metrics())
        return {result: int(count) for result, count in found}


class Connection:
    """Sends requests and reads their answers."""

    def __init__(self, port, path):
        self.socket, self.unread = dial(port), b""
        self.request = f"GET {path} HTTP/1.1\r\nHost: lab\r\n\r\n".encode()

    def send(self, count):
        self.socket.sendall(self.request * count)

    def statuses(self):
        """Those of all answers that are here whole, after one read."""
        data = self.socket.recv(65_536)
        if not data:
            raise Failed("a gateway has closed a connection")
        self.unread += data
        found = []
        while (end := self.unread.find(HEAD_END)) >= 0:
            head = self.unread[:end + 2]
            length = LENGTH.search(head)
            whole = end + len(HEAD_END) + (int(length[1]) if length else 0)
            if len(self.unread) < whole:
                break
            found.append(int(STATUS.match(head)[1]))
            self.unread = self.unread[whole:]
        return found


def ready(selector, seconds):
    """The answers that come within some time, once there are any."""
    found = []
    for key, _ in selector.select(seconds):
        statuses = key.data.statuses()
        now = time.monotonic()
        found += [(now, status) for status in statuses]
    return found


def load(gateways, path, options):
    """Open loop: each gateway gets a request at even intervals, whatever has become of those before. Moments and
    statuses of their answers."""
    selector, answers, sent = selectors.DefaultSelector(), [], 0
    connections = [Connection(gateway.port, path) for gateway in gateways]
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    interval = 1 / (options.rate * options.offered)
    begun = time.monotonic()
    end = begun + options.windows + 0.5
    while (now := time.monotonic()) < end:
        due = int((now - begun) / interval)
        for at, connection in enumerate(connections):
            count = (due + at) // len(connections) - (sent + at) // len(connections)
            if count:
                connection.send(count)
        sent = due
        answers += ready(selector, interval)
    while len(answers) < sent and (late := ready(selector, LATE_SECONDS)):
        answers += late
    if len(answers) < sent:
        raise Failed(f"{sent - len(answers)} requests have no answer")
    for connection in connections:
        connection.socket.close()
    return sent / (end - begun), answers


def let_in(answers):
    """When the load had the answers of those that were."""
    wrong = {status for _, status in answers if status >= 400 and status != 429}
    if wrong:
        raise Failed(f"answers with {wrong}")
    return [at for at, status in answers if status < 400]


def windows_of(times, options):
    """How many are in each second from the first one on."""
    windows = [0] * options.windows
    for at in times:
        if (window := int(at - times[0])) < options.windows:
            windows[window] += 1
    return windows


def most_in_a_second(times):
    most, first = 0, 0
    for last, at in enumerate(times):
        while at - times[first] >= 1:
            first += 1
        most = max(most, last - first + 1)
    return most


def measure(options, folder):
    limit = f'{{ rate = "{options.rate}/s", burst = {options.burst}, shared = true }}'
    with ExitStack() as stack:
        redis = stack.enter_context(closing(Server())).port
        gateways = [
            stack.enter_context(Gateway(folder / f"gateway-{at}", redis, {"/": limit}, options.budget))
            for at in range(options.gateways)
        ]
        admissions = Admissions(redis)
        offered, answers = load(gateways, "/", options)
        times, answered = admissions.close(), let_in(answers)
        counted = {}
        for gateway in gateways:
            for result, count in gateway.counted().items():
                counted[result] = counted.get(result, 0) + count
    alone = max(0, len(answered) - len(times))
    windows, rate = windows_of(times, options), options.rate
    each = alone / (times[-1] - times[0]) / rate
    return {
        "gateways": options.gateways, "rate": rate, "burst": options.burst, "budget": options.budget,
        "offered": round(offered), "redis": counted, "let_in_without_redis": alone,
        "let_in": windows, "answered": windows_of(answered, options),
        "over_worst_window": max(windows) / rate - 1 + each,
        "over_worst_second": most_in_a_second(times) / rate - 1 + each,
        "over_all": sum(windows) / (rate * len(windows)) - 1 + each,
        "answered_in_all": len(answered) / (rate * (answered[-1] - answered[0])) - 1,
        "wanted": MOST_OVER,
    }  # fmt: skip


def show(found):
    rate, percent = found["rate"], "{:+.2%}".format
    print(f"{found['gateways']} gateways, one Redis: {rate}/s, burst {found['burst']}, {found['offered']}/s offered, "
          f"budget {found['budget']}\n")  # fmt: skip
    print("| window | let in | beyond the rate | answers that the load had |\n|---|---|---|---|")
    for at, (count, answered) in enumerate(zip(found["let_in"], found["answered"], strict=True), 1):
        print(f"| {at} | {count} | {count / rate - 1:+.1%} | {answered} |")
    print(f"\nbeyond the rate, with {found['let_in_without_redis']} let in without Redis; wanted: {percent(found['wanted'])} at most")
    for name in ("over_worst_window", "over_worst_second", "over_all", "answered_in_all"):
        print(f"{name.replace('_', ' ')}: {percent(found[name])}")
    print(f"Redis said: {found['redis']}")


def cost(options, folder):
    """One request at a time on a connection, the routes by turns."""
    free = '{ rate = "1000000/s", burst = 1000000'
    limits = {"/none": None, "/local": free + " }", "/shared": free + ", shared = true }"}
    found = {name: {"us": [], "cpu_us": []} for name in ROUTES}
    with ExitStack() as stack:
        redis = stack.enter_context(closing(Server())).port
        gateway = stack.enter_context(Gateway(folder / "gateway", redis, limits, options.budget))
        connections = {name: Connection(gateway.port, path) for name, path in ROUTES.items()}
        for _ in range(options.rounds):
            for name, connection in connections.items():
                before, times = CpuTime.of(gateway.pids), []
                for _ in range(options.requests):
                    begun = time.perf_counter()
                    connection.send(1)
                    while not connection.statuses():
                        pass
                    times.append(time.perf_counter() - begun)
                used = CpuTime.of(gateway.pids).since(before)
                found[name]["us"].append(statistics.median(times) * 1e6)
                found[name]["cpu_us"].append(used / options.requests * 1e6)
        counted = gateway.counted()
    return {"rounds": options.rounds, "requests": options.requests, "routes": found, "redis": counted}


def show_cost(found):
    rounds, requests = found["rounds"], found["requests"]
    print(f"{rounds} rounds of {requests} requests, one at a time; medians of rounds, least and greatest\n")
    print("| route | µs | CPU of the gateway, µs |\n|---|---|---|")
    for name, values in found["routes"].items():
        cells = [f"{statistics.median(of):.1f} ({min(of):.1f}–{max(of):.1f})" for of in values.values()]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\nRedis said: {found['redis']}")


def main():
    options = parse_arguments()
    folder = Path(tempfile.mkdtemp(prefix="pilotlight-lab-"))
    try:
        found = (cost if options.cost else measure)(options, folder)
    except Failed as failed:
        sys.exit(f"lab/shared_limit.py: {failed}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps(found))
    else:
        (show_cost if options.cost else show)(found)


if __name__ == "__main__":
    main()
