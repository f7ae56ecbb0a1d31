#!/usr/bin/env python3
"""`pilotlight dev`: from a saved file to the first byte of the new program; saves while requests run.

    lab/saves.py --rounds 30 --saves 1000

For each kind of project the file is saved as editors do (written beside it, then renamed), and the page is asked for
again and again from that moment on; the time ends with the first byte of an answer of the new program. Node's project
is a server of its own (`node:http`); Rust's is the demo of crates/pipe, whose folder gets a new file: what Cargo takes is not part of it.
Beside Flask and Node stands their floor: the same program started by hand, until its first byte.

Then a thousand saves, one every --pause seconds, while four clients ask: answers other than 200 are counted.
`PILOTLIGHT` names the binary.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from harness import BINARY, PYTHON  # noqa: E402
from ports import free_port  # noqa: E402
from test_dev import FLASK, NODE, WSGI, Dev  # noqa: E402

DEMO = ROOT / "target" / "debug" / "examples" / "demo"
CLIENTS = 4


def save(dev, file, text):
    """Whole, or not at all; returns when that was."""
    temporary = dev.folder / f"{file}~"
    temporary.write_text(text)
    temporary.rename(dev.folder / file)
    return time.monotonic()


def ask(dev, target):
    """The time of the first byte of the answer, and its body."""
    with socket.create_connection(("127.0.0.1", dev.http), 30) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\nhost: shop.localhost\r\nconnection: close\r\n\r\n".encode())
        first = client.recv(65536)
        when, rest = time.monotonic(), b"".join(iter(lambda: client.recv(65536), b""))
    return when, (first + rest).partition(b"\r\n\r\n")[2].decode()


class Kind:
    """A project whose file is saved; `fresh` says whether an answer is the new program's."""

    def __init__(self, name, files, file, target="/", command=()):
        self.name, self.files, self.file, self.target, self.command = name, files, file, target, command

    def text(self, number):
        return self.files[self.file] % f"save-{number}"

    def fresh(self, number, before, body):
        return f"save-{number}" in body

    def start(self):
        return Dev({name: self.text(0) if name == self.file else text for name, text in self.files.items()})


class Program(Kind):
    """A program that is built elsewhere; another process answers after a save."""

    def text(self, number):
        return str(number)

    def fresh(self, number, before, body):
        return body != before

    def start(self):
        return Dev({self.file: "0"}, arguments=["--over", "pipe"], command=[str(DEMO)])


KINDS = [
    Kind("flask", {"requirements.txt": "flask\n", "app.py": FLASK}, "app.py"),
    Kind("node", {"package.json": '{"scripts": {"dev": "node server.js"}}', "server.js": NODE}, "server.js"),
    Program("rust", {"version": "0"}, "version", target="/pid"),
]


def settled(dev, target):
    """Waits for an answer with two hundred and something."""
    end = time.monotonic() + 60
    while dev.get(target)[0] != 200:
        if time.monotonic() > end:
            raise SystemExit(f"no answer: {dev.output()}")
        time.sleep(0.05)


def times_of(kind, rounds):
    times = []
    with kind.start() as dev:
        settled(dev, kind.target)
        for number in range(1, rounds + 1):
            before = ask(dev, kind.target)[1]
            saved = save(dev, kind.file, kind.text(number))
            while True:
                when, body = ask(dev, kind.target)
                if kind.fresh(number, before, body):
                    break
            times.append((when - saved) * 1000)
            time.sleep(0.2)  # the instance before has gone
    return times


# The least that serves the same: this interpreter with wsgiref; node by itself.
WSGIREF = """
import sys, app
from wsgiref.simple_server import make_server
make_server("127.0.0.1", int(sys.argv[1]), app.app).serve_forever()
"""
FLOORS = {"flask": ("app.py", FLASK, [PYTHON, "-B", "-c", WSGIREF]), "node": ("server.js", NODE, ["node", "server.js"])}


def floor(name, rounds):
    """From the start of the same program by hand to its first byte; None where there is no such program."""
    if name not in FLOORS:
        return None
    file, source, command = FLOORS[name]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, file).write_text(source % "x")
        return [started_by_hand([*command], folder) for _ in range(rounds)]


def started_by_hand(command, folder):
    port = free_port()
    begun = time.monotonic()
    words = [*command, str(port)]
    process = subprocess.Popen(words, cwd=folder, env=os.environ | {"PORT": str(port)}, stderr=subprocess.DEVNULL)
    try:
        while time.monotonic() < begun + 60:
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as client:
                    client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                    if client.recv(1):
                        return (time.monotonic() - begun) * 1000
            except OSError:
                time.sleep(0.0005)
    finally:
        process.kill()
        process.wait()
    raise SystemExit(f"{words} has not answered")


def load(dev, stop, answers, wrong):
    connection = http.client.HTTPConnection("127.0.0.1", dev.http, timeout=60)
    while not stop.is_set():
        try:
            connection.request("GET", "/", headers={"host": "shop.localhost"})
            answer = connection.getresponse()
            body = answer.read().decode()
            (answers if answer.status == 200 else wrong).append(f"{answer.status} {body[:200]}")
        except (OSError, http.client.HTTPException) as error:
            wrong.append(repr(error))
            connection.close()
    connection.close()


def saves_under_load(count, pause):
    stop, answers, wrong = threading.Event(), [], []
    with Dev({"service.py": WSGI % "0"}) as dev:
        dev.ready()
        threads = [threading.Thread(target=load, args=(dev, stop, answers, wrong)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        for number in range(1, count + 1):
            save(dev, "service.py", WSGI % str(number))
            time.sleep(pause)
        dev.until(str(count))
        stop.set()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begun
    return {
        "saves": count, "seconds": round(took, 1), "answers": len(answers), "programs_seen": len(set(answers)),
        "failed": len(wrong), "first": wrong[:5],
    }  # fmt: skip


def summary(times):
    if not times:
        return None
    return {f"{of.__name__}_ms": round(of(times), 1) for of in (statistics.median, min, max)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--saves", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.06)
    options = parser.parse_args()
    report = {"binary": str(BINARY)}
    for kind in KINDS:
        times, least = times_of(kind, options.rounds), floor(kind.name, options.rounds)
        report[kind.name] = {"saved_to_first_byte": summary(times), "started_by_hand": summary(least)}
        print(kind.name, json.dumps(report[kind.name]), file=sys.stderr, flush=True)
    report["under_load"] = saves_under_load(options.saves, options.pause)
    report["load"] = os.getloadavg()[0]
    print(json.dumps(report, indent=2))
    return bool(report["under_load"]["failed"])


if __name__ == "__main__":
    sys.exit(main())
