"""The traces of `pilotlight lab gateway`: real, short runs. What was measured is not looked at."""

import unittest

import test_lab_report
from harness import setUpModule

__all__ = ["setUpModule"]



class More(test_lab_report.Lab):
    def groups(self, *arguments):
        """The measured groups by name, and the figures; nothing has failed."""
        self.lab(*arguments, "--rounds", "1", "--noisy-anyway")
        [found] = self.report()["experiments"]
        self.assertEqual([v["failed"] for g in found["groups"] for v in g["variants"] if v["failed"]], [])
        return {group["id"]: group for group in found["groups"]}, found["figures"]

    def test_traces(self):
        groups, _ = self.groups("gateway", "--groups", "traces", "--secs", "0.2")
        self.assertEqual(list(groups), ["traces-stored", "traces-passed"])
        for group in groups.values():
            self.assertEqual([v["id"] for v in group["variants"]], ["without", "with", "without (again)"])


if __name__ == "__main__":
    unittest.main()
