"""`pilotlight lab saves`: a real, short run. What was measured is not looked at, but what is made of it."""

import os
import sys
import unittest

import test_lab_report
from harness import setUpModule

__all__ = ["setUpModule"]

PROJECTS = ["flask", "node", "rust"]


class Saves(test_lab_report.Lab):
    def test_projects_of_three_kinds_are_saved_and_started_by_hand(self):
        peers = self.folder / "lab" / "peers"
        (peers / "http" / "target").mkdir(parents=True)
        os.symlink(sys.prefix, peers / "http" / "target" / "venv")
        self.lab("saves", "--rounds", "2", "--peers", str(peers), "--noisy-anyway")
        [found] = self.report()["experiments"]
        variants = {group["id"]: [variant["id"] for variant in group["variants"]] for group in found["groups"]}
        interpreted = ["dev", "by-hand", "dev (again)"]
        self.assertEqual(variants, {"flask": interpreted, "node": interpreted, "rust": ["dev", "dev (again)"]})
        for variant in (variant for group in found["groups"] for variant in group["variants"]):
            self.assertEqual((variant["failed"], variant["requests"]), (None, 2), variant["id"])
            self.assertGreater(variant["summary"]["cold-ms"]["median"], 0)
        self.assertEqual([figure["wanted"] for figure in found["figures"]], ["≤ 50 ms", "≤ 250 ms", "≤ 20 ms"])

    def test_without_flask_the_others_are_left(self):
        listed = self.lab("saves", "--list", "--peers", str(self.folder)).stdout
        self.assertIn("there is no Python with Flask", listed)
        self.assertRegex(listed, r"takes: about \d+ s")


if __name__ == "__main__":
    unittest.main()
