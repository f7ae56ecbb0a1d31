"""Starts under load: how soon a request reaches a service that has become ready, and how many instances a burst starts.

The service says when it was about to dial and when its handler began; both are its own clock's, which is the client's. So the time
from ready to the handler holds connecting, HELLO, WELCOME, the request, and the SDK's part of these, and nothing of the client's; to the
client the answer's way is added, and that of a client in Python. The service in Rust is the one whose own part is the smallest.
"""
import selectors
import statistics
import time

from harness.cold import IDLE_TIMEOUT, REQUEST, wait_until_stopped
from harness.gateway import Gateway, route_table, service_table
from harness.paths import PEER_BIN, PIPE_SERVICES, PYTHON
from harness.program import Failed, dial
from harness.report import Column

TITLE = "Starts under load"
HYPOTHESIS = "A request waits no longer than its service does, and many first requests start few instances"
PROGRAMS = ["Python"]
AFTER_MS = [20, 100, 300]
# commands that want the milliseconds as their last argument
SERVICES = {"Rust": [PEER_BIN / "svcpipe", "late"], "Python": [PYTHON, PIPE_SERVICES / "late.py"]}
STARTS = 20
BURST, CONCURRENCY, MAX_INSTANCES = 1000, 100, 4
BURST_SECONDS = 60
COLUMNS = [Column("handler", "ready → handler, p50", "ms", 2), Column("handler_max", "slowest", "ms", 2),
           Column("client", "ready → first byte at the client, p50", "ms", 2), Column("client_max", "slowest", "ms", 2)]
BURST_COLUMNS = [Column("instances", "instances"), Column("took", "until all are answered", "ms")]


def run(lab):
    names = {f"{language}, ready after {ms} ms": after(lab, [*command, str(ms)])
             for ms in AFTER_MS for language, command in SERVICES.items()}
    samples = lab.run_rounds("scaling", names)
    lab.table("ready", "A service becomes ready", f"{STARTS} starts", samples, COLUMNS)
    for name in names:
        lab.figure(f"{name}: the request is there, p50", 1, " ms", samples.values(name, "handler"))
        lab.figure(f"{name}: the request is there, slowest of {STARTS}", 5, " ms", samples.values(name, "handler_max"))
    samples = lab.run_rounds("burst", {"burst": lambda: burst(lab)})
    workload = f"concurrency {CONCURRENCY}, at most {MAX_INSTANCES} instances"
    lab.table("burst", f"{BURST:,} first requests at once", workload, samples, BURST_COLUMNS)
    lab.figure(f"{BURST:,} first requests: instances", MAX_INSTANCES, "", samples.values("burst", "instances"))


def tables(command, **settings):
    settings = {"command": list(map(str, command)), "transport": "pipe", "idle_timeout": IDLE_TIMEOUT, **settings}
    return [service_table("late", **settings), route_table("/", "late")]


def after(lab, command):
    def measured():
        handler, client = [], []
        with Gateway(lab, "scaling", tables(command), core=None) as gateway:
            for _ in range(STARTS):
                wait_until_stopped(gateway)
                with dial(gateway.port) as connection:
                    connection.sendall(REQUEST)
                    answer = connection.recv(4096)
                    now = time.monotonic_ns()
                    while piece := connection.recv(4096):
                        answer += piece
                head, _, body = answer.partition(b"\r\n\r\n")
                if b" 200 " not in head.splitlines()[0]:
                    raise Failed(f"a cold start was answered with {head!r}")
                ready, began = map(int, body.split())
                handler.append((began - ready) / 1e6)
                client.append((now - ready) / 1e6)
        return {"handler": statistics.median(handler), "handler_max": max(handler), "client": statistics.median(client),
                "client_max": max(client)}
    return measured


def burst(lab):
    settings = {"concurrency": CONCURRENCY, "max_instances": MAX_INSTANCES}
    with Gateway(lab, "burst", tables([*SERVICES["Python"], "500"], **settings), core=None) as gateway, selectors.DefaultSelector() as selector:
        begin = time.monotonic()
        for _ in range(BURST):
            connection = dial(gateway.port)
            connection.sendall(REQUEST)
            selector.register(connection, selectors.EVENT_READ, bytearray())
        good = ended = 0
        ready_times = set()
        while ended < BURST:
            if time.monotonic() - begin > BURST_SECONDS:
                raise Failed(f"{BURST - ended} of {BURST} requests have no answer after {BURST_SECONDS} s")
            for key, _ in selector.select(1):
                if piece := key.fileobj.recv(4096):
                    key.data.extend(piece)
                    continue
                selector.unregister(key.fileobj)
                key.fileobj.close()
                ended += 1
                head, _, body = bytes(key.data).partition(b"\r\n\r\n")
                good += b" 200 " in head[:13]
                ready_times.update(body.split()[:1])
        return {"instances": len(ready_times), "errors": BURST - good, "took": (time.monotonic() - begin) * 1000}
