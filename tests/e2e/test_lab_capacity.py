"""`pilotlight lab capacity`: a real, short run. What was measured is not looked at, but what is made of it."""

import json
import unittest

import test_lab_report
from harness import setUpModule

__all__ = ["setUpModule"]

GROUPS = {
    "work": ["hit", "http", "pipe", "handshake"],
    "memory": ["empty", "connections", "answers", "services"],
    "sizes": ["small", "medium", "large"],
    "redis": ["memory", "limited", "redis"],
    "told": ["second-1", "second-8", "record-1", "record-8", "purge-1", "purge-8"],
}


class Capacity(test_lab_report.Lab):
    def test_three_sizes_are_predicted_and_so_are_10_100_and_1000_machines(self):
        done = self.lab("capacity", "--quick", "--noisy-anyway", "--json")
        report = self.report()
        self.assertEqual(json.loads(done.stdout), report)
        [found] = report["experiments"]
        self.assertEqual({g["id"]: [v["id"] for v in g["variants"]] for g in found["groups"]}, GROUPS)
        self.assertEqual([v["failed"] for g in found["groups"] for v in g["variants"] if v["failed"]], [])
        self.check_sizes(found)
        self.check_fleet(found)

    def check_sizes(self, found):
        names = [figure["name"] for figure in found["figures"]]
        metrics = ("CPU of a request", "memory")
        self.assertEqual(names, [f"{size}: error of the predicted {metric}" for size in GROUPS["sizes"] for metric in metrics])
        predicted = self.rows(found, "predicted")
        [sizes] = [group for group in found["groups"] if group["id"] == "sizes"]
        for variant in sizes["variants"]:
            row, measured = predicted[variant["id"]], variant["summary"]["gateway-cpu-us"]["median"]
            self.assertEqual(row["cpu-measured"], measured)
            self.assertAlmostEqual(row["capacity-measured"], 1e6 / measured, places=3)
            [figure] = [f for f in found["figures"] if f["name"] == f"{variant['id']}: error of the predicted CPU of a request"]
            self.assertAlmostEqual(figure["measured"]["median"], abs(row["cpu-predicted"] / measured - 1) * 100, places=6)
            self.assertEqual(figure["met"], figure["measured"]["median"] <= 15)

    def check_fleet(self, found):
        fleet = self.rows(found, "fleet")
        self.assertEqual(list(fleet), ["10", "100", "1000"])
        for one, other in (("10", "100"), ("100", "1000")):
            self.assertLess(fleet[one]["connections"], fleet[other]["connections"])
            self.assertGreaterEqual(fleet[one]["by-primary"], fleet[other]["by-primary"])
        assumed, *said = found["findings"]
        self.assertIn("Taken for granted of a fleet: 4 cores", assumed)
        for machines, sentence in zip(("10", "100", "1,000"), said, strict=True):
            self.assertRegex(sentence, rf"^{machines} machines: the .* binds? first")

    def rows(self, found, table):
        [table] = [one for one in found["tables"] if one["id"] == table]
        return {row["id"]: row["rounds"][0] for row in table["rows"]}


if __name__ == "__main__":
    unittest.main()
