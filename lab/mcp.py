#!/usr/bin/env python3
"""What a tool call of an MCP server costs over HTTP, beside the same exchange on the server's own standard streams.

    lab/mcp.py [--rounds 9] [--calls 500]

In each round, by turns: calls through the gateway over a kept connection, in a session and without one, and calls of
the same program by the barest client that there can be: a line written, a line read. The program is the tests' own
(tests/e2e/stdio_program.py), so there is no SDK on either side. Processor time for each call, of all that is not the
client: gateway, adapter, program. PILOTLIGHT names the gateway's program (target/gate/pilotlight).
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sdk" / "conformance"))

from http1 import Client  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
PILOTLIGHT = os.environ.get("PILOTLIGHT", str(ROOT / "target" / "gate" / "pilotlight"))
PROGRAM = [sys.executable, "-B", str(ROOT / "tests" / "e2e" / "stdio_program.py")]
NEW = "2026-07-28"
SETTINGS = """listen = "127.0.0.1:0"
workers = 1
[services.session]
command = {session}
transport = "stdio"
[services.stateless]
command = {stateless}
transport = "stdio"
[[routes]]
path = "/session"
service = "session"
[[routes]]
path = "/stateless"
service = "stateless"
"""


def cpu(pid):
    """Seconds of processor time, to the nanosecond; what only waits on the way from fork to exec is in it as well."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def threads_cpu(pid):
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def rpc(method, number, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


class Bare:
    """The program, and a line for a line."""

    def __init__(self):
        self.process = subprocess.Popen([*PROGRAM, "session"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.call(rpc("initialize", 0))

    def call(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def round(self, calls):
        before = cpu(self.process.pid)
        for number in range(calls):
            answer = self.call(rpc("echo", number + 1, text="hello"))
            assert b'"hello"' in answer, answer
        return {"program": (cpu(self.process.pid) - before) / calls}

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)


class Through:
    """The same over HTTP."""

    def __init__(self, gateway, address, path):
        self.gateway, self.path, self.client = gateway, path, Client(address, 30)
        self.fields = [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")]
        self.is_stateless = path == "/stateless"
        if self.is_stateless:
            self.fields += [("MCP-Protocol-Version", NEW), ("Mcp-Method", "echo")]
        else:
            first = self.client.request("POST", path, self.fields, rpc("initialize", 0, protocolVersion="2025-06-18"))
            self.fields.append(("Mcp-Session-Id", first.get("mcp-session-id")))
        self.call(1)
        guardian, = children(gateway.pid)
        wanted = f" {path[1:]}"
        self.adapter, = (pid for pid in children(guardian) if self.line(pid).endswith(wanted))
        self.program, = children(self.adapter)

    def line(self, pid):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()

    def call(self, number):
        meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": NEW}} if self.is_stateless else {}
        answer = self.client.request("POST", self.path, self.fields, rpc("echo", number, text="hello", **meta))
        assert answer.status == 200 and b'"hello"' in answer.body, answer

    def round(self, calls):
        parts = {"gateway": self.gateway.pid, "adapter": self.adapter, "program": self.program}
        before = {name: threads_cpu(pid) for name, pid in parts.items()}
        for number in range(calls):
            self.call(number + 2)
        return {name: (threads_cpu(pid) - before[name]) / calls for name, pid in parts.items()}

    def stop(self):
        self.client.close()


def say(what, seconds):
    us = sorted(1e6 * value for value in seconds)
    print(f"{what:32} {statistics.median(us):7.1f} µs   ({us[0]:.1f} to {us[-1]:.1f}, {len(us)} rounds)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=500)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilotlight-mcp-") as folder:
        file = Path(folder) / "pilotlight.toml"
        commands = {name: json.dumps([*PROGRAM, name]) for name in ("session", "stateless")}
        file.write_text(SETTINGS.format(**commands))
        gateway = subprocess.Popen([PILOTLIGHT, "--config", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        found = next(filter(None, (re.search(r"http://([\d.]+):(\d+)", line) for line in gateway.stdout)))
        address = (found[1], int(found[2]))
        ways = {"bare": Bare(), "session": Through(gateway, address, "/session"),
                "stateless": Through(gateway, address, "/stateless")}
        results = {}
        for number in range(arguments.rounds + 1):
            order = list(ways) if number % 2 else list(reversed(ways))
            for name in order:
                parts = ways[name].round(arguments.calls)
                if number:  # the first is to warm up
                    for part, seconds in (parts | {"all": sum(parts.values())}).items():
                        results.setdefault((name, part), []).append(seconds)
        for (name, part), seconds in sorted(results.items()):
            say(f"{name}: {part}", seconds)
        for name in ("session", "stateless"):
            say(f"{name}: beyond bare", [a - b for a, b in zip(results[name, "all"], results["bare", "all"])])
        for way in ways.values():
            way.stop()
        gateway.send_signal(signal.SIGTERM)
        gateway.wait(30)


if __name__ == "__main__":
    main()
