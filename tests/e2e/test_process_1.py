"""The gateway as process 1 of a container: it buries what others leave there."""

import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import BINARY, Gateway, TestCase, config, processes, route, service, setUpModule

__all__ = ["setUpModule"]

LIMIT = 30.0  # for what takes milliseconds on a quiet machine
SLEEPER = f"sleep 7001.{os.getpid()}"


def state(pid):
    """The letter of a process in /proc, Z if nobody has buried it; None if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


@unittest.skipUnless(os.geteuid() == 0, "not here: only root can make a namespace of processes")
class Process1(TestCase):
    def first(self, *blocks):
        """A gateway that is process 1 of a namespace, and its pid out here."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        script = Path(folder.name) / "first"
        script.write_text(f'#!/bin/sh\nexec unshare --pid --fork --mount-proc --kill-child "{BINARY}" "$@"\n')
        script.chmod(0o755)
        gateway = self.start(Gateway(script, config(*blocks)))
        below = [pid for pid, (parent, _, _) in processes().items() if parent == gateway.process.pid]
        self.assertEqual(len(below), 1)
        self.addCleanup(os.kill, below[0], signal.SIGTERM)  # unshare does not pass it on
        status = Path(f"/proc/{below[0]}/status").read_text()
        self.assertEqual(status.partition("\nNSpid:")[2].split("\n")[0].split()[-1], "1")
        return gateway, below[0]

    def child(self, parent, words):
        """The child with these words."""
        found = [pid for pid, (above, _, line) in processes().items() if above == parent and words in line]
        return found[0] if found else None

    def test_orphans_are_buried(self):
        gateway, first = self.first(service(), route())
        # The shell's own parent is out here; what it leaves goes to process 1.
        enter = ["nsenter", "--target", str(first), "--pid", "--mount", "sh", "-c", f"{SLEEPER} >/dev/null 2>&1 &"]
        subprocess.run(enter, check=True, timeout=LIMIT)
        self.assert_eventually(lambda: self.child(first, SLEEPER), "the orphan was not adopted", LIMIT)
        orphan = self.child(first, SLEEPER)
        os.kill(orphan, signal.SIGKILL)
        self.assert_eventually(lambda: state(orphan) is None, "nobody buries the orphan", LIMIT)
        self.assert_status(gateway.get("/pid"), 200)

    def test_the_guardian_is_left_to_who_started_it(self):
        gateway, first = self.first(service(), route())
        self.assert_status(gateway.get("/pid"), 200)
        guardian = self.child(first, " guardian ")
        os.kill(guardian, signal.SIGKILL)
        self.assert_eventually(lambda: state(guardian) is None, "nobody buries the guardian", LIMIT)
        self.assert_eventually(lambda: gateway.get("/pid").status == 200, "no service starts any more", LIMIT)
        self.assertNotEqual(self.child(first, " guardian "), guardian)
        self.assertNotIn("cannot wait for the guardian", gateway.output())
