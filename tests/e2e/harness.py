"""What the end-to-end tests share: a gateway with a configuration, services for it, processes that can be counted.

The gateway's binary is `PILOTLIGHT`, by default target/debug/pilotlight.
"""

import json
import os
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "sdk" / "conformance"))

from gateway import Gateway, GatewayError, command, quote  # noqa: E402
from http1 import Client, Cut, eventually  # noqa: E402
from live import in_threads  # noqa: E402

__all__ = ["Client", "Cut", "Gateway", "GatewayError", "command", "eventually", "in_threads", "quote"]

BINARY = Path(os.environ.get("PILOTLIGHT", ROOT / "target" / "debug" / "pilotlight"))
PYTHON = sys.executable
# `make test-all`: more bytes where `make test` sends what shows the same fault.
IS_LONG = os.environ.get("PILOTLIGHT_TEST_FORM") == "long"
DEMO = [PYTHON, str(ROOT / "sdk" / "python" / "demo.py")]
ORIGIN = [PYTHON, "-B", str(HERE / "origin.py")]


def setUpModule():
    """Imported by every test module: says at once what is missing."""
    if not BINARY.exists():
        raise FileNotFoundError(f"no gateway at {BINARY}: build it with `cargo build`, or set PILOTLIGHT")


def service(name="demo", argv=None, **settings):
    """The configuration of one service; values are written as TOML, strings quoted."""
    values = {} if "url" in settings else {"command": argv or DEMO}
    return _table(f"[services.{name}]", values | settings)


def route(path="/", service="demo", **settings):
    return _table("[[routes]]", {"path": path, "service": service, "cache": False} | settings)


def limits(**settings):
    return _table("[limits]", settings)


def config(*blocks, **settings):
    """A whole configuration: top-level settings, then the blocks."""
    return _table("", {"listen": "127.0.0.1:0", "workers": 2} | settings) + "\n".join(blocks)


def rss_kib(gateway):
    """Memory of the gateway's process, its pages of files included."""
    return _memory_kib(gateway, "VmRSS:")


def heap_kib(gateway):
    """The same without pages of files: the program's own text and data come as they are used."""
    return _memory_kib(gateway, "RssAnon:")


def _memory_kib(gateway, name):
    with open(f"/proc/{gateway.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def demo_gateway(*blocks, dev=True, **settings):
    """A gateway with the Python demo service over the pipe on `/`."""
    return Gateway(BINARY, config(service(**settings), route(), *blocks, dev=dev))


class TestCase(unittest.TestCase):
    """A test with gateways: `self.start` starts one for the test, `cls.share` one for all tests of the class.

    A class shares its gateway where its tests only send requests. Each test then uses paths, cache keys and users that
    no other test uses, and reads the log from `len(gateway.output())` before its request on. A class is the unit that
    a worker of pytest-xdist runs, so it takes a few seconds, and at most 20.

    A test starts its own gateway if it stops, kills or reloads one, or if it depends on a fresh one: it asserts
    counters, processes, memory, connections or the whole log since the start, or it fills a limit that other tests
    need. Such a test calls `self.start` in the same class, or in a class that does not share.
    """

    _shared = ()

    @classmethod
    def share(cls, server):
        """Starts `server` (a gateway, or another object with `start` and `stop`) for all tests of the class.

        In `setUpClass`: `cls.gateway = cls.share(demo_gateway())`. It stops after the last test of the class.
        """
        cls.addClassCleanup(server.stop)
        cls._shared = (*cls._shared, server)
        return server.start()

    def setUp(self):
        """Fails if a shared server has ended; the cleanup fails the test during which it ended."""
        self._assert_shared_run()
        self.addCleanup(self._assert_shared_run)

    def _assert_shared_run(self):
        for server in self._shared:
            process = getattr(server, "process", None)
            status = process.poll() if process else None
            if status is not None:
                said = "\n".join(server.output().splitlines()[-20:])
                self.fail(f"the {type(server).__name__} that {type(self).__name__} shares ended with {status}:\n{said}")

    def start(self, gateway):
        """Starts `gateway` for this test only: it stops at the end of the test."""
        self.addCleanup(gateway.stop)
        return gateway.start()

    def find_output(self, gateway, pattern):
        """Waits until the gateway's output matches `pattern`, and returns the match.

        A gateway answers requests before it has printed all of its addresses.
        """
        found = lambda: re.search(pattern, gateway.output())  # noqa: E731
        self.assert_eventually(found, f"the output of the gateway does not match {pattern}")
        return found()

    def assert_logged(self, gateway, text):
        """Waits until the gateway's output has this text: it may answer a request before it writes the line."""
        self.assert_eventually(lambda: text in gateway.output(), f"{text!r} is not in the log", 30)

    def assert_status(self, answer, status):
        self.assertEqual(answer.status, status, answer)

    def assert_problem(self, answer, status):
        """The gateway's own answer: RFC 9457, with the request id of the header. Returns the document."""
        self.assert_status(answer, status)
        self.assertEqual(answer.get("content-type"), "application/problem+json")
        problem = json.loads(answer.body)
        self.assertEqual(problem["status"], status)
        self.assertTrue(problem["title"])
        self.assertTrue(problem["detail"])
        self.assertTrue(problem["request_id"])
        self.assertEqual(answer.get("x-request-id"), problem["request_id"])
        return problem

    def assert_json(self, answer, status=200):
        self.assert_status(answer, status)
        return json.loads(answer.body)

    def assert_eventually(self, check, message, limit=10.0):
        self.assertTrue(eventually(check, limit), message)


def processes():
    """Every process: pid -> (parent, start time, command line). A pid with its start time is never used again."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
                line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, parent, *rest = stat[stat.rindex(")") + 2 :].split()
            if state != "Z":
                found[int(entry)] = (int(parent), int(rest[17]), line.strip())
    return found


def descendants(pid):
    """All processes below `pid`: {(pid, start time): command line}."""
    everything, below, grown = processes(), {pid}, True
    while grown:
        more = {child for child, (parent, _, _) in everything.items() if parent in below} - below
        below, grown = below | more, bool(more)
    return {(child, everything[child][1]): everything[child][2] for child in below - {pid}}


def alive(known):
    """Those of `known` (as `descendants` gives them) that still run."""
    now = processes()
    return {key: line for key, line in known.items() if key[0] in now and now[key[0]][1] == key[1]}


def _table(head, values):
    return "\n".join([head] + [f"{name} = {_toml(value)}" for name, value in values.items()]) + "\n"


def _toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + " }"
    return quote(value)
