"""Figure 5: cold start. What the gateway adds to what the bare process needs.

The service's own part is measured with `launch`, the gateway's whole with a request that finds the service stopped by its
idle timeout. For a pipe service the bare part ends with HELLO; for an HTTP service, whose accepting nobody sees, with the first
byte of its answer. Nothing is pinned: the client, the gateway and the service run as they would.
"""
import math
import statistics
import time

from harness import peers
from harness.gateway import Gateway
from harness.load import run_json
from harness.paths import PEER_BIN, PEERS, PIPE_SERVICES, PYTHON
from harness.program import Failed, check_answer, dial

from . import idle, pipe

# transport, command, how many other services are configured and stopped
SERVICES = {
    "Rust, pipe": ("pipe", [PEER_BIN / "svcpipe"], 0),
    "Rust, pipe, 10 services": ("pipe", [PEER_BIN / "svcpipe"], 9),
    "Rust, pipe, 1,000 services": ("pipe", [PEER_BIN / "svcpipe"], 999),
    "Python, pipe": ("pipe", [PYTHON, PIPE_SERVICES / "service.py"], 0),
    "Node, HTTP": ("http", ["node", PEERS / "services/http.js"], 0),
}
MIN_STARTS = 15
LIMIT_MS = 2
IDLE_TIMEOUT = "200ms"
STOPPED_SECONDS = 10
POLL_SECONDS = 0.01
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
COLUMNS = [("bare: exec → first connection ms", "first_connection", 2), ("bare: exec → first byte ms", "first_byte", 2),
           ("gateway: request → first byte ms", "total", 2), ("gateway's part ms", "part", 2)]


def run(lab):
    starts = max(math.ceil(MIN_STARTS / lab.options.rounds), 5)
    samples = lab.run_rounds("cold", {name: variant(lab, *service, starts) for name, service in SERVICES.items()})
    title = f"**Cold start** (p50 of {starts} starts in each of {lab.options.rounds} rounds; the spread is over rounds)"
    lab.print_table(title, samples, COLUMNS)
    for name in SERVICES:
        lab.figure(f"cold start, {name}: the gateway's own part, p50", LIMIT_MS, " ms", samples.values(name, "part"))


def variant(lab, kind, command, others, starts):
    def measured():
        bare, totals = [], []
        tables = [*pipe.tables(lab, kind, command, idle_timeout=IDLE_TIMEOUT), *idle.stopped_services(others)]
        with Gateway(lab, "cold", tables, core=None) as gateway:
            bare_start(lab, kind, command)  # page cache
            check_answer(gateway.port, "/", peers.SERVICE_JSON)
            for _ in range(starts):
                wait_until_stopped(gateway)
                bare.append(bare_start(lab, kind, command))
                totals.append(first_byte_ms(gateway.port))
        result = {key: statistics.median(start[key] for start in bare) for key in bare[0]}
        result["total"] = statistics.median(totals)
        result["part"] = result["total"] - result.get("first_connection", result["first_byte"])
        if result["part"] < 0:
            raise Failed(f"with the gateway {result['total']:.1f} ms, without it {result}: other programs disturbed the run")
        return {**result, "bare_starts": bare, "gateway_starts": totals}
    return measured


def bare_start(lab, kind, command):
    """Milliseconds from exec to the `first_connection` (pipe only) and to the `first_byte` of an answer, without a gateway."""
    times = run_json([PEER_BIN / "launch", kind, 1, *command], environment={"TMPDIR": str(lab.scratch)})
    return {key.removesuffix("_ms"): values[0] for key, values in times.items() if values}


def wait_until_stopped(gateway):
    end = time.monotonic() + STOPPED_SECONDS
    while gateway.service_pids:
        if time.monotonic() > end:
            raise Failed(f"the service still runs {STOPPED_SECONDS} s after its idle_timeout of {IDLE_TIMEOUT}")
        time.sleep(POLL_SECONDS)


def first_byte_ms(port):
    before = time.perf_counter()
    with dial(port) as connection:
        connection.sendall(REQUEST)
        status = connection.recv(12)
        elapsed = (time.perf_counter() - before) * 1000
    if not status.endswith(b" 200"):
        raise Failed(f"a cold start was answered with {status!r}")
    return elapsed
