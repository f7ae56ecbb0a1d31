"""Tests of what the programs in Python share: `python3 -m unittest discover -s lab/tests -t lab`."""
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import procfs
from programs import Failed, Program, accepts, free_port


class Procfs(unittest.TestCase):
    def test_nanoseconds_count_unless_a_thread_has_ended(self):
        before = procfs.CpuTime(ticks=1.0, exact=1.0)
        self.assertAlmostEqual(procfs.CpuTime(ticks=2.0, exact=2.0049).since(before), 1.0049)
        self.assertAlmostEqual(procfs.CpuTime(ticks=2.0, exact=1.3).since(before), 1.0)

    def test_the_cpu_time_of_an_ended_thread_is_counted(self):
        def spin():
            end = time.thread_time() + 0.3
            while time.thread_time() < end:
                pass
        pids = [procfs.os.getpid()]
        before = procfs.CpuTime.of(pids)
        thread = threading.Thread(target=spin)
        thread.start()
        thread.join()
        self.assertGreater(procfs.CpuTime.of(pids).since(before), 0.25)


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name) / "log"

    def test_a_program_that_ends_says_its_last_words(self):
        with Program([sys.executable, "-c", "raise SystemExit('no such colour')"], self.log, core=None) as program:
            with self.assertRaisesRegex(Failed, "status 1: no such colour"):
                program.wait_until(lambda: False)

    def test_a_missing_program_is_a_failure_with_advice(self):
        with self.assertRaisesRegex(Failed, "lab/setup.sh"):
            Program(["no-such-program"], self.log, core=None)

    def test_stopping_ends_the_children_too(self):
        command = ["sh", "-c", "sleep 60 & sleep 60 & wait"]
        with Program(command, self.log, core=None) as program:
            program.wait_until(lambda: len(program.pids) == 3)
            pids = program.pids
        end = time.monotonic() + 5
        while any(procfs.stat_fields(pid)[:1] not in ([], ["Z"]) for pid in pids):
            self.assertLess(time.monotonic(), end, "a child is still there")

    def test_ports(self):
        self.assertFalse(accepts(free_port()))


if __name__ == "__main__":
    unittest.main()
