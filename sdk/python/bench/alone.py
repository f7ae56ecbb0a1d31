#!/usr/bin/env python3
"""Processor time of an answer of an ASGI service alone: over the pipe, with this program in the gateway's place, beside
Granian and uvicorn without a gateway.

    sdk/python/bench/alone.py --load target/debug/examples/load --python VENV/bin/python [--app starlette_app:app] \\
        [--targets /hello,/json] [--rounds 5] [--before FOLDER]

FOLDER is another checkout's sdk/python. VENV is that of bench.py. Rounds alternate, the first warms up; microseconds,
and ratios of the same round: the median, least and greatest.
"""

import argparse
import json
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from programs import CpuTime, Program, free_port

HERE = Path(__file__).resolve().parent
TOKEN = "0123456789abcdef" * 2
WELCOME, REQUEST, RESPONSE, END = 2, 3, 4, 1
FIELDS = [("accept", "*/*"), ("x-request-id", TOKEN), ("x-forwarded-for", "127.0.0.1"), ("x-forwarded-proto", "http")]
START_SECONDS = 60


def frame(kind, exchange, payload, flags=0):
    return struct.pack("<IBBH", len(payload), kind, flags, exchange) + payload


def request(exchange, target):
    strings = ["GET", "http", "localhost:8080", target, "HTTP/1.1", "127.0.0.1:5", "request-1"]
    strings += [text for pair in FIELDS for text in pair]
    block = "".join(text + "\0" for text in strings).encode()
    return frame(REQUEST, exchange, struct.pack("<II", len(block), 0) + block, END)


class Pipe:
    """A service of the SDK, and its shared connection."""

    def __init__(self, options, folder, sdk, pure=0):
        path = tempfile.mkdtemp(dir=folder) + "/s"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            listener.settimeout(START_SECONDS)
            environment = {"PILOTLIGHT_SOCKET": path, "PILOTLIGHT_TOKEN": TOKEN, "PILOTLIGHT_PURE": str(pure)}
            environment["PYTHONPATH"] = f"{sdk}:{HERE}"
            words = [options.python, "-m", "pilotlight.asgi", options.app]
            self.program = Program(words, Path(folder) / "log", options.core, environment)
            self.sock, _ = listener.accept()
        self.sock.recv(4096)  # HELLO
        self.sock.sendall(frame(WELCOME, 0, b"PIPE/1\nworker=0\nmax_frame=65536\nminor=1\nnew=1\nservice=t\n"))

    def load(self, target, connections, secs):
        data = b"".join(request(number + 1, target) for number in range(connections))
        count, end = 0, time.monotonic() + secs
        while time.monotonic() < end:
            self.sock.sendall(data)
            self.await_answers(connections)
            count += connections
        return count

    def await_answers(self, left):
        data = b""
        while left:
            data, start = data + self.sock.recv(1 << 20), 0
            while len(data) - start >= 8:
                size, kind, flags, _ = struct.unpack_from("<IBBH", data, start)
                if len(data) - start < 8 + size:
                    break
                if (kind, flags) != (RESPONSE, END):
                    raise RuntimeError(f"a frame of type {kind}: {data[start : start + 200]}")
                left, start = left - 1, start + 8 + size
            data = data[start:]


class Http:
    """Another server, without a gateway."""

    def __init__(self, options, folder, words):
        self.options, self.port = options, free_port()
        words = [*words, options.app, "--port", self.port]
        self.program = Program(words, Path(folder) / "log", options.core, {"PYTHONPATH": str(HERE)})
        self.program.wait_until(self.is_open)

    def is_open(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def load(self, target, connections, secs):
        words = [self.options.load, f"127.0.0.1:{self.port}", connections, 1, secs, target]
        command = ["taskset", "-c", str(self.options.load_core), *map(str, words)]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["answers"]


def started(options, folder):
    quiet = ["--no-access-log", "--log-level", "warning"]
    granian = [Path(options.python).parent / "granian", "--workers", "1", "--interface", "asgi", "--loop", "uvloop"]
    uvicorn = [options.python, "-m", "uvicorn", "--loop", "uvloop", "--http", "httptools"]
    variants = {"native": Pipe(options, folder, HERE.parent), "pure": Pipe(options, folder, HERE.parent, 1)}
    if options.before:
        variants["before"] = Pipe(options, folder, options.before)
    variants["granian"] = Http(options, folder, [*granian, "--no-ws", *quiet])
    variants["uvicorn"] = Http(options, folder, [*uvicorn, *quiet])
    return variants


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def measure(options, variants):
    """Microseconds by target and connections, then by variant."""
    found = {}
    for number in range(options.rounds + 1):
        names = list(variants)
        names = names[number % len(names) :] + names[: number % len(names)]
        for place in [(target, count) for target in options.targets.split(",") for count in (64, 1)]:
            for name in names:
                variants[name].load(*place, 0.2)
                pids = variants[name].program.pids
                before = CpuTime.of(pids)
                count = variants[name].load(*place, options.secs)
                taken = CpuTime.of(pids).since(before) / count * 1e6
                if number:
                    found.setdefault(place, {}).setdefault(name, []).append(taken)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", required=True, help="the lab's load, its example")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--app", default="starlette_app:app")
    parser.add_argument("--targets", default="/hello,/json")
    parser.add_argument("--before", help="the folder sdk/python of another checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--secs", type=float, default=0.7)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--load-core", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotlight-alone-") as folder:
        variants = started(options, folder)
        try:
            found = measure(options, variants)
        finally:
            for variant in variants.values():
                variant.program.stop()
    for (target, connections), taken in found.items():
        print(f"\n{options.app} {target}, {connections} at once: CPU of an answer")
        for name, values in taken.items():
            ratios = [one / min(others) for one, *others in zip(values, taken["granian"], taken["uvicorn"])]
            print(f"  {name:8} {spread(values, 0)} us, / the best of granian and uvicorn {spread(ratios)}")


if __name__ == "__main__":
    main()
