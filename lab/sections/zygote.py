"""Cold starts of Python services that import much, with and without a zygote, and requests that find their service frozen.

Services answer with their process id, so that an answer is known to come from a fresh process, or from the one that was frozen.
"""
import os
import statistics
import time
from pathlib import Path

from harness.cold import REQUEST
from harness.gateway import Gateway, route_table, service_table
from harness.paths import PIPE_SERVICES, ROOT, VENV_PYTHON
from harness.program import Failed, dial
from harness.report import Column

TITLE = "Starts from a zygote, and requests to frozen services"
HYPOTHESIS = "A Python service that imports much starts from a zygote in a few milliseconds, and a frozen one answers almost at once"
PROGRAMS = ["Python"]
STARTS, THAWS = 20, 30
IDLE_TIMEOUT, FREEZE_AFTER = "250ms", "100ms"  # a zygote makes its next fork 100 ms after the last
WAIT_SECONDS, POLL_SECONDS = 10, 0.01
START_LIMIT_MS, THAW_LIMIT_MS = 12, 5
SERVICES = {
    "Flask application": (["-m", "pilotlight.wsgi", "flask_app:app"], ["flask_app"]),
    "300 ms of imports": (["imports.py"], ["heavy"]),
}
COLUMNS = [Column("p50", "request → first byte, p50", "ms", 2), Column("max", "slowest", "ms", 2)]
THAW_COLUMNS = [Column("frozen", "frozen, p50", "ms", 2), Column("warm", "warm, p50", "ms", 2), Column("difference", "difference", "ms", 2),
                Column("max", "slowest frozen", "ms", 2)]


def run(lab):
    variants = {f"{name}, {way}": start(lab, command, modules if way == "zygote" else [])
                for name, (command, modules) in SERVICES.items() for way in ("zygote", "executed")}
    samples = lab.run_rounds("zygote", variants)
    lab.table("starts", "Starts of Python services", f"{STARTS} starts", samples, COLUMNS)
    for name in SERVICES:
        lab.figure(f"zygote start, {name}, p50", START_LIMIT_MS, " ms", samples.values(f"{name}, zygote", "p50"))
    samples = lab.run_rounds("frozen", {"Python service, frozen": lambda: thaw(lab)})
    lab.table("frozen", "Requests to a frozen service", f"{THAWS} requests, each followed by a warm one", samples, THAW_COLUMNS)
    lab.figure("a frozen service answers after its warm time, p50", THAW_LIMIT_MS, " ms", samples.values("Python service, frozen", "difference"))


def gateway(lab, command, **keys):
    if not VENV_PYTHON.exists():
        raise Failed(f"no {VENV_PYTHON.relative_to(ROOT)}: run lab/setup.sh")
    environment = {"PYTHONPATH": str(ROOT / "sdk/python")}
    table = service_table("imports", command=[str(VENV_PYTHON), *command], dir=str(PIPE_SERVICES), **keys)
    table += "env = { " + ", ".join(f'{name} = "{value}"' for name, value in environment.items()) + " }\n"
    return Gateway(lab, "zygote", [table, route_table("/", "imports")], core=None)


def start(lab, command, modules):
    def measured():
        times, seen = [], set()
        keys = {"preload": modules} if modules else {}
        with gateway(lab, command, idle_timeout=IDLE_TIMEOUT, **keys) as program:
            resting = 2 if modules else 0  # the zygote and the fork that it has made ahead
            for number in range(STARTS + 1):
                wait(lambda: len(program.service_pids) == resting, f"{resting} processes are left of it when it is stopped")
                took, pid = ask(program.port)
                if pid in seen:
                    raise Failed(f"process {pid} answered two starts")
                seen.add(pid)
                if number:  # the first finds cold files
                    times.append(took)
                wait(lambda: not os.path.exists(f"/proc/{pid}"), "it is stopped when idle")
        return {"p50": statistics.median(times), "max": max(times)}
    return measured


def thaw(lab):
    frozen, warm = [], []
    with gateway(lab, ["imports.py"], freeze_after=FREEZE_AFTER) as program:
        _, first = ask(program.port)
        for _ in range(THAWS):
            wait(lambda: state(first) == "T", "it is frozen when idle")
            took, pid = ask(program.port)
            frozen.append(took)
            took, again = ask(program.port)
            warm.append(took)
            if {pid, again} != {first}:
                raise Failed(f"processes {pid} and {again} answered for {first}")
    result = {"frozen": statistics.median(frozen), "warm": statistics.median(warm), "max": max(frozen)}
    return {**result, "difference": result["frozen"] - result["warm"]}


def ask(port):
    """Milliseconds from connecting to the first byte, and the process that answered."""
    before = time.perf_counter()
    with dial(port) as connection:
        connection.sendall(REQUEST)
        answer = connection.recv(4096)
        took = (time.perf_counter() - before) * 1000
        while piece := connection.recv(4096):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.splitlines()[0]:
        raise Failed(f"it was answered with {answer[:500]!r}")
    return took, int(body)


def state(pid):
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat[stat.rindex(")") + 2]


def wait(holds, what):
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise Failed(f"after {WAIT_SECONDS} s it does not hold that {what}")
        time.sleep(POLL_SECONDS)
