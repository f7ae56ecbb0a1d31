#!/usr/bin/env python3
"""Processor time of a request to a Python service over the pipe, beside other servers of Python: with the same gateway
in front of them, and without one.

    sdk/python/bench/bench.py --pilotlight target/release/pilotlight --load target/release/examples/load \\
        --python VENV/bin/python [--only flask,starlette,fastapi,websocket] [--rounds 5] [--secs 2] [--out FILE]

VENV has flask, starlette, fastapi, uvloop, uvicorn, httptools, websockets, gunicorn, granian and uwsgi; what is missing
is left out. What is counted is the processor time of the gateway and the service together, from /proc, for each answer: the
load's is not, nor is that of others on the machine. All variants take turns in each round; the first round warms up. A
ratio is one of the same round: its median, and the least and the greatest.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from programs import CpuTime, Failed, Program, free_port

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SDK = HERE.parent


def peers(options, group):
    """Name, and a function from (socket or None, port) to a command."""
    bin, python = Path(options.python).parent, options.python
    wsgi, asgi = ("flask_app:app", "starlette_app:app")
    echo = group == "websocket"
    app = {"flask": wsgi, "websocket": "echo_app:app", "fastapi": "fastapi_app:app"}.get(group, asgi)
    uvicorn = [python, "-m", "uvicorn", app, "--loop", "uvloop", "--http", "httptools", "--ws", "websockets"]
    uvicorn += ["--no-access-log", "--log-level", "warning"] + (["--ws-per-message-deflate", "false"] if echo else [])
    granian = [bin / "granian", app, "--workers", "1", "--no-access-log", "--log-level", "warning", "--no-ws"]
    granian = granian[:-1] if echo else granian

    def of_uvicorn(path, port):
        return uvicorn + (["--uds", path] if path else ["--port", str(port)])

    def of_granian(path, port):
        kind = ["--interface", "wsgi", "--blocking-threads", "1"] if group == "flask" else ["--interface", "asgi"]
        where = ["--uds", path] if path else ["--port", str(port)]
        return granian + kind + where + ([] if group == "flask" else ["--loop", "uvloop"])

    def of_gunicorn(path, port):
        words = [bin / "gunicorn", app, "--worker-class", "gthread", "--threads", "8", "--keep-alive", "60"]
        return words + ["--bind", f"unix:{path}" if path else f"127.0.0.1:{port}", "--log-level", "warning"]

    def of_uwsgi(path, port):
        words = [bin / "uwsgi", "--http-socket", path or f"127.0.0.1:{port}", "--module", app, "--master"]
        return words + ["--enable-threads", "--threads", options.uwsgi_threads, "--disable-logging", "--need-app"]

    if group == "flask":
        return {"uwsgi": of_uwsgi, "granian": of_granian, "gunicorn": of_gunicorn}
    return {"uvicorn": of_uvicorn} if echo else {"granian": of_granian, "uvicorn": of_uvicorn}


class Bench:
    """All variants of one group, running."""

    def __init__(self, options, group, folder):
        self.options, self.group, self.folder, self.programs, self.variants = options, group, folder, [], {}
        where = str(Path(options.python).parents[1])
        self.environment = {"PYTHONPATH": f"{HERE}{os.pathsep}{SDK}", "VIRTUAL_ENV": where}

    def begin(self):
        waiting, urls = [], {}
        for name, command in peers(self.options, self.group).items():
            path, port = f"{self.folder}/{name}.sock", free_port()
            behind, bare = self.start(command(path, None)), self.start(command(None, port))
            urls[name] = path
            waiting += [(behind, lambda path=path: os.path.exists(path)), (bare, lambda port=port: is_open(port))]
            self.variants[f"{name} bare"] = (port, "", [bare])
            self.variants[f"{name} gateway"] = (None, f"/{name}", [behind])
        for program, is_ready in waiting:
            program.wait_until(is_ready)
        self.gateway(urls)

    def start(self, command):
        program = Program(command, Path(self.folder) / "log", self.options.core, self.environment)
        self.programs.append(program)
        return program

    def gateway(self, urls):
        port = free_port()
        module, app = {
            "flask": ("wsgi", "flask_app:app"),
            "starlette": ("asgi", "starlette_app:app"),
            "fastapi": ("asgi", "fastapi_app:app"),
            "websocket": ("asgi", "echo_app:app"),
        }[self.group]
        services = ""
        for name, pure in (("native", "0"), ("pure", "1")):
            command = json.dumps([str(self.options.python), "-m", f"pilotlight.{module}", app])
            services += f'[services.{name}]\ncommand = {command}\ntransport = "pipe"\nidle_timeout = "1h"\n'
            services += f'env = {{ PILOTLIGHT_PURE = "{pure}" }}\n'
        services += "".join(f'[services.{name}]\nurl = "unix:{path}"\n' for name, path in urls.items())
        routes = "".join(
            f'[[routes]]\npath = "/{name}"\nservice = "{name}"\ncache = false\nstrip_prefix = true\n'
            for name in ["native", "pure", *urls]
        )
        config = Path(self.folder) / "pilotlight.toml"
        config.write_text(f'listen = "127.0.0.1:{port}"\nworkers = {self.options.workers}\n{services}{routes}')
        gateway = self.start([self.options.pilotlight, "run", "--config", config])
        gateway.wait_until(lambda: is_open(port))
        for name in ("native", "pure"):
            self.variants[f"{name} pipe"] = (port, f"/{name}", [gateway])
        for name in urls:
            _, prefix, programs = self.variants[f"{name} gateway"]
            self.variants[f"{name} gateway"] = (port, prefix, [gateway, *programs])

    def measure(self, name, target, connections):
        """Microseconds for an answer, and answers a second."""
        port, prefix, programs = self.variants[name]
        load = self.ab if name == "uwsgi bare" else self.load
        load(port, prefix + target, connections, 0.3)
        pids = [pid for program in programs for pid in program.pids]
        before, begun = CpuTime.of(pids), time.monotonic()
        count = load(port, prefix + target, connections, self.options.secs)
        return CpuTime.of(pids).since(before) / count * 1e6, count / (time.monotonic() - begun)

    def load(self, port, target, connections, secs):
        if self.group == "websocket":
            words = [self.options.lab, "lab-service", "websocket-load", f"127.0.0.1:{port}", target, connections, secs, 32]
        else:
            words = [self.options.load, f"127.0.0.1:{port}", connections, 1, secs, target]
        command = ["taskset", "-c", str(self.options.load_core), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=secs + 30)
        if done.returncode:
            log = (Path(self.folder) / "log").read_text()
            raise Failed(f"{self.group} {target}: {done.stderr.strip()[-300:]} {log[-500:]}")
        if self.group == "websocket":
            return int(done.stdout)
        said = json.loads(done.stdout)
        wrong = {status: count for status, count in dict(said["statuses"]).items() if str(status) != "200" and count}
        if wrong:
            raise Failed(f"{self.group} {target} at port {port}: statuses {said['statuses']}")
        return said["answers"]

    def ab(self, port, target, connections, secs):
        """uWSGI without a router of its own closes after each answer, which the lab's load takes for an error."""
        url, most = f"http://127.0.0.1:{port}{target}", 10_000_000
        words = ["ab", "-q", "-c", connections, "-t", max(1, round(secs)), "-n", most, url]
        command = ["taskset", "-c", str(self.options.load_core), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=secs + 30, check=True)
        return int(re.search(r"Complete requests:\s+(\d+)", done.stdout)[1])

    def stop(self):
        for program in reversed(self.programs):
            program.stop()


def is_open(port):
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def run(options, group):
    """Measures a group and prints its figures."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="pilotlight-bench-") as folder:
        bench = Bench(options, group, folder)
        try:
            bench.begin()
            targets = ["/"] if group == "websocket" else options.targets.split(",")
            for number in range(options.rounds + 1):
                names = list(bench.variants)
                names = names[number % len(names) :] + names[: number % len(names)]
                for target in targets:
                    for connections in map(int, options.connections.split(",")):
                        for name in names:
                            measured = bench.measure(name, target, connections)
                            print(f"{number} {name} {target} {connections}: {measured[0]:.0f} us", file=sys.stderr)
                            if number:  # the first round warms up
                                found.setdefault((target, connections), {}).setdefault(name, []).append(measured)
        finally:
            bench.stop()
    for (target, connections), variants in found.items():
        clients = f"{connections} connection{'s' * (connections > 1)}"
        print(f"\n{group} {target}, {clients}: CPU of an answer; answers a second")
        for name, values in sorted(variants.items(), key=lambda pair: statistics.median(cpu for cpu, _ in pair[1])):
            cpu, rate = zip(*values)
            print(f"  {name:20} {statistics.median(cpu):7.1f} us  {statistics.median(rate):8.0f}")
        for place in ("gateway", "bare"):
            others = [values for name, values in variants.items() if name.endswith(place)]
            for ours in ("native pipe", "pure pipe"):
                ratios = [
                    own[0] / min(other[at][0] for other in others) for at, own in enumerate(variants[ours])
                ]
                print(f"  {ours} / the best {place}: {spread(ratios)}", flush=True)
    return {f"{target} {connections}": variants for (target, connections), variants in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilotlight", required=True, help="the gateway, a release build")
    parser.add_argument("--load", default=ROOT / "target/release/examples/load", help="the lab's load, its example")
    parser.add_argument("--lab", default=ROOT / "target/release/pilotlight-lab", help="the lab, whose clients are the load")
    parser.add_argument("--python", default=sys.executable, help="of an environment with the other servers")
    parser.add_argument("--only", default="flask,starlette,fastapi,websocket")
    parser.add_argument("--targets", default="/hello,/json")
    parser.add_argument("--connections", default="64,1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--secs", type=float, default=2)
    parser.add_argument("--workers", type=int, default=1, help="of the gateway")
    parser.add_argument("--uwsgi-threads", default="8")
    parser.add_argument("--core", type=int, default=0, help="where gateway and services run")
    parser.add_argument("--load-core", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file for what was measured, as JSON")
    options = parser.parse_args()
    results = {group: run(options, group) for group in options.only.split(",")}
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
