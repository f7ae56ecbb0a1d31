"""The commands of the lab's pages about the users service, as they stand there: `pilotlight lab` understands them."""

import subprocess
import unittest

from harness import BINARY, TestCase, setUpModule
from test_users_guide import commands

__all__ = ["setUpModule"]


class Commands(TestCase):
    def test_the_labs_commands_are_understood(self):
        found = [
            command
            for page in ["lab/rest.md", "lab/factors.md"]
            for command in commands(page, "target/release/pilotlight lab ")
        ]
        self.assertGreaterEqual(len(found), 6)
        for command in found:
            listed = [] if "--list" in command else ["--list"]
            done = subprocess.run([BINARY, *command[1:], *listed], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
