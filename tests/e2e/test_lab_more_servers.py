"""`pilotlight lab servers`, `limits` and the traces of `gateway`: real, short runs. What was measured is not looked at."""

import unittest

import test_lab_report
from harness import setUpModule
from programs import find

__all__ = ["setUpModule"]

HAPROXY = find("haproxy")
REDIS = find("redis-server", "valkey-server")


class More(test_lab_report.Lab):
    def groups(self, *arguments):
        """The measured groups by name, and the figures; nothing has failed."""
        self.lab(*arguments, "--rounds", "1", "--noisy-anyway")
        [found] = self.report()["experiments"]
        self.assertEqual([v["failed"] for g in found["groups"] for v in g["variants"] if v["failed"]], [])
        return {group["id"]: group for group in found["groups"]}, found["figures"]

    def test_a_slow_server_and_a_killed_one(self):
        groups, figures = self.groups("servers", "--quick")
        peer, asked = (["haproxy"], ["p99-ms", "p50-ms"]) if HAPROXY else ([], [])
        self.assertEqual([v["id"] for v in groups["slow"]["variants"]], ["pilotlight", *peer, "pilotlight (again)"])
        self.assertEqual([c["metric"] for c in groups["slow"]["comparisons"]], asked)
        [killed] = groups["killed"]["variants"]
        *_, failed, noticed = figures
        self.assertEqual(failed["measured"]["median"], killed["rounds"][0]["failed"])
        self.assertEqual(failed["wanted"], f"0 of {killed['requests']}")
        self.assertEqual(noticed["measured"]["median"], killed["rounds"][0]["noticed-ms"])

    @unittest.skipUnless(REDIS, "redis-server is not installed")
    def test_what_is_let_in_and_what_a_limit_costs(self):
        groups, figures = self.groups("limits", "--secs", "1")
        self.assertEqual([v["id"] for v in groups["beyond"]["variants"]], ["5ms", "20ms"])
        self.assertEqual([figure["wanted"] for figure in figures], ["≤ 2 %", "≤ 2 %"])
        for variant in groups["beyond"]["variants"]:
            self.assertEqual(set(variant["rounds"][0]), set(groups["beyond"]["metrics"]))
            self.assertGreater(variant["requests"], 1000)  # of 4500, on a machine that may be busy
        self.assertEqual([v["id"] for v in groups["cost"]["variants"]], ["none", "local", "shared", "none (again)"])

    def test_traces(self):
        groups, _ = self.groups("gateway", "--groups", "traces", "--secs", "0.2")
        self.assertEqual(list(groups), ["traces-stored", "traces-passed"])
        for group in groups.values():
            self.assertEqual([v["id"] for v in group["variants"]], ["without", "with", "without (again)"])


if __name__ == "__main__":
    unittest.main()
