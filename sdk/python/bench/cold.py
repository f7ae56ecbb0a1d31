#!/usr/bin/env python3
"""Cold starts: from the request to the whole answer when nothing runs yet that could give it.

    sdk/python/bench/cold.py --pilotlight target/release/pilotlight --python VENV/bin/python [--rounds 10]

The service ends by itself when it is idle; a client that has been connected before then asks. Services of the pipe: the
plain SDK with each core, executed and as a fork of a zygote, and Flask as such a fork. Beside them uWSGI in its cheap
mode, whose master has been executed and forks a worker that loads the application. Rounds alternate. Milliseconds, the
median, least and greatest: until the answer, and of processor time, the gateway's (uWSGI's) with it.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

from programs import CpuTime, Program, executable, free_port

HERE = Path(__file__).resolve().parent
PLAIN = """
import pilotlight
pilotlight.serve(lambda request: (200, {"content-type": "text/plain"}, "hello, world\\n"))
"""
WSGI = """
def app(environ, start):
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "13")])
    return [b"hello, world\\n"]
"""
SERVICE = """
[services.{name}]
command = {command}
dir = {dir}
transport = "pipe"
idle_timeout = "200ms"
env = {{ PYTHONPATH = {path}, PILOTLIGHT_PURE = "{pure}" }}
{more}
[[routes]]
path = "/{name}"
service = "{name}"
cache = false
strip_prefix = true
"""
REQUEST = "GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n"
IDLE_SECONDS = 20


def ask(port, target):
    """Milliseconds until the whole answer, and the answer."""
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        begun = time.perf_counter()
        client.sendall(REQUEST.format(target).encode())
        data = b""
        while b"hello, world\n" not in data:
            piece = client.recv(65_536)
            if not piece:
                raise RuntimeError(f"{target}: {data!r:.300}")
            data += piece
        return (time.perf_counter() - begun) * 1000


def await_rest(program, count):
    """Waits until the instance has ended: no more than `count` processes are left."""
    until = time.monotonic() + IDLE_SECONDS
    while len(program.pids) > count:
        if time.monotonic() > until:
            raise RuntimeError(f"{program.name} does not become idle: {list(map(executable, program.pids))}")
        time.sleep(0.02)


def gateway(options, folder, name, command, more="", pure=0):
    path = os.pathsep.join([str(HERE.parent), str(HERE), folder])
    port = free_port()
    words = {"command": json.dumps(list(map(str, command))), "dir": json.dumps(folder), "path": json.dumps(path)}
    config = Path(folder) / f"{name}.toml"
    service = SERVICE.format(name=name, more=more, pure=pure, **words)
    config.write_text(f'listen = "127.0.0.1:{port}"\nworkers = 1\n{service}')
    program = Program([options.pilotlight, "run", "--config", config], Path(folder) / "log", options.core)
    return program, port, f"/{name}/hello"


def uwsgi(options, folder):
    port = free_port()
    words = ["--http-socket", f"127.0.0.1:{port}", "--module", "plain_wsgi:app", "--master", "--cheap", "--idle", "1"]
    words += ["--lazy-apps", "--processes", "1", "--disable-logging", "--chdir", folder]
    environment = {"VIRTUAL_ENV": str(Path(options.python).parents[1])}
    program = Program([Path(options.python).parent / "uwsgi", *words], Path(folder) / "log", options.core, environment)
    return program, port, "/hello"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilotlight", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--core", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotlight-cold-") as folder:
        (Path(folder) / "plain.py").write_text(PLAIN)
        (Path(folder) / "plain_wsgi.py").write_text(WSGI)
        plain = [options.python, "-S", "plain.py"]
        flask = [options.python, "-m", "pilotlight.wsgi", "flask_app:app"]
        variants = {
            "plain, compiled core": gateway(options, folder, "compiled", plain),
            "plain, Python": gateway(options, folder, "pure", plain, pure=1),
            "plain, zygote": gateway(options, folder, "forked", plain, 'preload = ["pilotlight"]'),
            "flask, zygote": gateway(options, folder, "flask", flask, 'preload = ["flask_app", "pilotlight.wsgi"]'),
            "uwsgi, cheap": uwsgi(options, folder),
        }
        found = {name: [] for name in variants}
        try:
            time.sleep(2)  # masters start
            for _, port, target in variants.values():
                ask(port, target)
            time.sleep(4)  # zygotes import, and what has been started ends
            at_rest = {name: len(program.pids) for name, (program, *_) in variants.items()}
            for number in range(options.rounds + 1):
                for name, (program, port, target) in variants.items():
                    await_rest(program, at_rest[name])
                    before = CpuTime.of(program.pids)
                    taken = ask(port, target)
                    cpu = CpuTime.of(program.pids).since(before)
                    if number:
                        found[name].append((taken, cpu * 1000))
        finally:
            for program, *_ in variants.values():
                program.stop()
    for name, values in found.items():
        shown = [f"{statistics.median(one):5.1f} ({min(one):.1f}-{max(one):.1f})" for one in zip(*values)]
        print(f"{name:22} {shown[0]} ms, CPU {shown[1]} ms")


if __name__ == "__main__":
    main()
