"""Tests of what the benches share."""

import os
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import programs  # noqa: E402
from programs import CpuTime, Failed, Program  # noqa: E402


class Time(unittest.TestCase):
    def test_nanoseconds_count_unless_a_thread_has_ended(self):
        before = CpuTime(ticks=1.0, exact=1.0)
        self.assertAlmostEqual(CpuTime(ticks=2.0, exact=2.0049).since(before), 1.0049)
        self.assertAlmostEqual(CpuTime(ticks=2.0, exact=1.3).since(before), 1.0)

    def test_the_cpu_time_of_an_ended_thread_is_counted(self):
        def spin():
            end = time.thread_time() + 0.3
            while time.thread_time() < end:
                pass

        pids = [os.getpid()]
        before = CpuTime.of(pids)
        thread = threading.Thread(target=spin)
        thread.start()
        thread.join()
        self.assertGreater(CpuTime.of(pids).since(before), 0.25)


class Programs(unittest.TestCase):
    def start(self, *command):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Program(command, Path(folder.name) / "log", 0)
        self.addCleanup(program.stop)
        return program

    def test_a_program_that_ends_says_its_last_words(self):
        program = self.start(sys.executable, "-c", "raise SystemExit('no such colour')")
        with self.assertRaisesRegex(Failed, "status 1: no such colour"):
            program.wait_until(lambda: False)

    def test_stopping_ends_the_children_too(self):
        program = self.start("sh", "-c", "sleep 60 & sleep 60 & wait")
        program.wait_until(lambda: len(program.pids) == 3)
        pids = program.pids
        program.stop()
        end = time.monotonic() + 5
        while any(programs.stat_fields(pid)[:1] not in ([], ["Z"]) for pid in pids):
            self.assertLess(time.monotonic(), end, "a child is still there")


if __name__ == "__main__":
    unittest.main()
