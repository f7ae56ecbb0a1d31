"""`pilotlight lab containers`: a real, short run with an engine of its own. What was measured is not looked at."""

import os
import unittest
from pathlib import Path

import test_lab_report
from harness import processes, setUpModule
from programs import needs

__all__ = ["setUpModule"]

ENGINE = "pilotlight-lab-engine-"  # how the folder of one begins
WANTED = {"start": "≤ 5 ms", "unpause": "≤ 2 ms"}


class Containers(test_lab_report.Lab):
    @unittest.skipUnless(os.geteuid() == 0, "not here: only root can start the engine")
    @needs("podman")
    def test_starts_and_unpauses_are_held_against_a_bare_client(self):
        self.lab("containers", "--rounds", "1", "--noisy-anyway")
        [found] = self.report()["experiments"]
        self.assertEqual([group["id"] for group in found["groups"]], list(WANTED))
        for group in found["groups"]:
            variants = {one["id"]: one for one in group["variants"]}
            self.assertEqual(list(variants), ["pilotlight", "bare", "pilotlight (again)"])
            self.assertEqual({one["failed"] for one in variants.values()}, {None})
            self.assertEqual([one["role"] for one in variants.values()], ["subject", "floor", "control"])
            self.assertGreater(variants["pilotlight"]["summary"]["gateway-cpu-us"]["median"], 0)
            [added] = group["comparisons"]
            self.assertTrue(added["difference"])
        figures = {figure["name"]: figure["wanted"] for figure in found["figures"]}
        self.assertEqual(figures, {f"{group}: what the gateway adds": wanted for group, wanted in WANTED.items()})
        self.assertEqual([line for _, _, line in processes().values() if ENGINE in line], [])
        self.assertEqual(list(Path("/tmp").glob(f"{ENGINE}*")), [])

    def test_what_is_missing_is_said(self):
        self.environment["PATH"] = str(self.folder)
        self.assertIn("apt install podman", self.lab("containers", "--list").stdout)


if __name__ == "__main__":
    unittest.main()
