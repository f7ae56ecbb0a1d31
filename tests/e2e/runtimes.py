"""What every runtime has to do: the same tests for a process and for a container.

A subclass says how a service is run there (`run_with`), what is left of it (`left`), and what happens when the runtime
or the gateway is killed. The program is contained.c.
"""

import json
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import BINARY, Gateway, TestCase, config, eventually, route, service
from programs import program

LIMIT = 60.0  # for what takes a second on a quiet machine
QUICK = {"transport": "http", "start_timeout": "60s", "stop_grace": "2s"}


def together(*calls):
    """What they return, all begun at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [done.result(LIMIT) for done in [pool.submit(call) for call in calls]]


class Again(Gateway):
    """A gateway that may be killed, and started again with the same configuration file."""

    def kill(self):
        self.process.kill()
        self.process.wait()
        while self._ready.get(timeout=LIMIT) is not None:
            pass

    def again(self, text=None):
        self._config = text or self._config
        return self.start()

    def command(self, *words):
        line = [self._binary, *words, "--config", str(self.folder / "pilotlight.toml")]
        return subprocess.run(line, capture_output=True, check=True, timeout=LIMIT).stdout


class RuntimeCase(TestCase):
    def text(self, *, top=None, head="", **settings):
        """A configuration with the service `demo`, which may have a `container` in the place of a command."""
        values = QUICK | settings
        if "container" in values:
            demo = service(url="-", **values).replace('url = "-"\n', "")
        else:
            demo = service(argv=values.pop("command"), **values)
        return config(head, demo, route(), **(top or {}))

    def gateway(self, **settings):
        return self.start(Again(BINARY, self.text(**settings), start_limit=LIMIT, stop_limit=LIMIT))

    def status(self, gateway):
        said = json.loads(gateway.command("status", "--json"))
        return next(one for one in said["services"] if one["name"] == "demo")

    def assert_hello(self, gateway, target="/", timeout=LIMIT):
        """The number of the instance that answers."""
        answer = gateway.get(target, timeout=timeout)
        self.assert_status(answer, 200)
        self.assertTrue(answer.body.startswith(b"hello from"), answer.body)
        return answer.body.decode().split()[-1]

    def exits(self, gateway, status):
        """A request that ends the program; not one that is tried again."""
        return gateway.request("POST", f"/exit/{status}", timeout=LIMIT)

    def assert_said(self, gateway, *words, limit=LIMIT):
        said = lambda: all(word in gateway.output() for word in words)  # noqa: E731
        self.assertTrue(eventually(said, limit), (words, gateway.output()[-3000:]))


class Conformance:
    """The suite; a mixin, so that it is not run by itself."""

    def run_with(self, **settings):
        """A gateway with the program as `demo`."""
        raise NotImplementedError

    def left(self):
        """What is there of the service's instances, wherever it runs."""
        raise NotImplementedError

    def assert_nothing_left(self):
        self.assert_eventually(lambda: not self.left(), f"something is left: {self.left()}", LIMIT)

    def test_start_and_idle_stop(self):
        gateway = self.run_with(idle_timeout="300ms", env={"WORD": "set"})
        self.assertFalse(self.left())
        self.assertEqual(self.assert_hello(gateway), "1")
        self.assertEqual(gateway.get("/env/WORD", timeout=LIMIT).body, b"set\n")
        self.assert_said(gateway, "begins", "a word to standard error", "idle: stopping")
        self.assert_nothing_left()
        self.assertGreater(int(self.assert_hello(gateway)), 1)

    def test_requests_wait_until_it_is_ready(self):
        gateway = self.run_with(env={"AFTER_MS": "500"})
        answers = together(*[lambda: self.assert_hello(gateway)] * 8)
        self.assertEqual(set(answers), {"1"})

    def test_it_dies_while_it_starts(self):
        gateway = self.run_with(env={"DIES": "3"}, top={"dev": True})
        problem = self.assert_problem(gateway.get("/", timeout=LIMIT), 503)
        self.assertIn("exited with status 3 before it was ready", json.dumps(problem))
        self.assertIn("a word to standard error", json.dumps(problem))
        self.assert_nothing_left()

    def test_it_never_becomes_ready(self):
        gateway = self.run_with(env={"AFTER_MS": "100000"}, start_timeout="8s", top={"dev": True})
        problem = self.assert_problem(gateway.get("/", timeout=LIMIT), 503)
        self.assertIn("listens", json.dumps(problem))
        self.assert_nothing_left()

    def test_it_dies_later(self):
        gateway = self.run_with()
        self.assertEqual(self.assert_hello(gateway), "1")
        self.assert_status(self.exits(gateway, 7), 502)
        self.assert_said(gateway, "exited with status 7")
        self.assertEqual(self.assert_hello(gateway), "2")
        self.assert_eventually(lambda: len(self.left()) == 1, "the old one is left", LIMIT)

    def test_freeze_and_thaw(self):
        gateway = self.run_with(freeze_after="200ms", idle_timeout="10m")
        self.assert_hello(gateway)
        for _ in range(3):
            self.assert_eventually(lambda: self.status(gateway)["state"] == "frozen", "it is not frozen", LIMIT)
            self.assert_eventually(lambda: self.is_frozen(self.status(gateway)), "it only says so", LIMIT)
            self.assertEqual(self.assert_hello(gateway), "1")
        self.assert_eventually(lambda: self.status(gateway)["state"] == "frozen", "it is not frozen", LIMIT)
        self.assertEqual(gateway.stop(), 0)
        self.assert_nothing_left()

    def test_drain_and_a_program_that_is_deaf(self):
        gateway = self.run_with(env={"DEAF": "1"}, stop_grace="1s")
        self.assert_hello(gateway)

        def stop():
            busy = lambda: self.status(gateway)["instances"][0]["in_flight"] == 1  # noqa: E731
            self.assert_eventually(busy, "no request", LIMIT)
            gateway.command("stop", "demo")

        answer, _ = together(lambda: gateway.get("/slow/3000", timeout=LIMIT), stop)
        self.assert_status(answer, 200)
        self.assert_nothing_left()
        self.assertEqual(self.assert_hello(gateway), "2")

    def test_several_instances(self):
        gateway = self.run_with(max_instances=2, concurrency=1, scale_up_after="10ms")
        answers = together(*[lambda: self.assert_hello(gateway, "/slow/5000")] * 2)
        self.assertEqual(set(answers), {"1", "2"})

    def test_replacement_loses_no_request(self):
        gateway = self.run_with()
        self.assert_hello(gateway)
        stop, answers = threading.Event(), []

        def ask():
            while not stop.is_set():
                answers.append(self.assert_hello(gateway))

        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(ask)
            gateway.command("restart", "demo")
            self.assert_eventually(lambda: answers and answers[-1] == "2", "it is not replaced", LIMIT)
            stop.set()
            asking.result(LIMIT)
        self.assert_eventually(lambda: len(self.left()) == 1, "the old one is left", LIMIT)

    def test_a_stop_of_the_gateway_leaves_nothing(self):
        gateway = self.run_with()
        self.assert_hello(gateway)
        self.assertEqual(gateway.stop(), 0)
        self.assertFalse(self.left())


def build(folder):
    """The program, for a service that is a process."""
    built = Path(folder) / "contained"
    source = Path(__file__).with_name("contained.c")
    subprocess.run([program("gcc"), "-static", "-O1", "-pthread", "-o", built, source], check=True, timeout=LIMIT)
    return built


def runs(program):
    """The processes that execute this file."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.readlink(f"/proc/{entry}/exe") == str(program):
                    found.append(int(entry))
            except OSError:
                continue
    return found
