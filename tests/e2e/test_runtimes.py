"""The suite of runtimes with a service that is a process: its runtime is the guardian."""

import os
import signal
import tempfile
import unittest
from pathlib import Path

from harness import descendants, setUpModule
from runtimes import Conformance, RuntimeCase, build, runs

__all__ = ["setUpModule"]


class Process(Conformance, RuntimeCase):
    @classmethod
    def setUpClass(cls):
        cls.program = build(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def run_with(self, **settings):
        return self.gateway(command=[str(self.program)], socket="port", **settings)

    def left(self):
        return runs(self.program)

    def is_frozen(self, status):
        stat = Path(f"/proc/{status['instances'][0]['pid']}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def test_the_runtime_is_killed_and_comes_back(self):
        gateway = self.run_with()
        self.assert_hello(gateway)
        guardians = [pid for (pid, _), line in descendants(gateway.process.pid).items() if "guardian" in line]
        os.kill(guardians[0], signal.SIGKILL)
        self.assert_said(gateway, "the guardian process died")
        self.assertEqual(self.assert_hello(gateway), "2")
        self.assert_eventually(lambda: len(self.left()) == 1, "the old one is left")

    def test_the_gateway_is_killed_and_what_it_had_started_has_ended(self):
        gateway = self.run_with()
        self.assert_hello(gateway)
        gateway.kill()
        self.assert_nothing_left()
        gateway.again()
        self.assertEqual(self.assert_hello(gateway), "1")


if __name__ == "__main__":
    unittest.main()
