"""`pilotlight lab lambda` and `pilotlight lab mcp`: real, short runs. Times are not looked at."""

import unittest

import test_lab_report
from harness import setUpModule

__all__ = ["setUpModule"]


class Functions(test_lab_report.Lab):
    def measured(self, *arguments, rounds=2):
        self.lab(*arguments, "--rounds", str(rounds), "--secs", "0.05", "--noisy-anyway")
        [found] = self.report()["experiments"]
        self.assertEqual([v["failed"] for g in found["groups"] for v in g["variants"] if v["failed"]], [])
        return found

    def test_a_function_is_invoked_through_the_gateway_and_at_the_barest_api(self):
        found = self.measured("lambda", "--groups", "python,node")
        self.assertEqual(found["skipped"], [])
        self.assertEqual([group["id"] for group in found["groups"]], ["python", "node"])
        for group in found["groups"]:
            through, bare, _ = group["variants"]
            self.assertEqual(sorted(through["cpu_us"]), ["function", "gateway"])
            self.assertGreater(through["cpu_us"]["gateway"], bare["cpu_us"]["gateway"])
            self.assertGreater(bare["cpu_us"]["function"], 0)
            self.assertEqual([(c["one"], c["other"]) for c in group["comparisons"]], [("gateway", "bare")] * 2)
        self.assertEqual([figure["wanted"] for figure in found["figures"]], ["≤ 1 ms"] * 2)

    def test_a_hundred_invocations_run_at_once(self):
        found = self.measured("lambda", "--groups", "at-once", rounds=1)
        [group] = found["groups"]
        [once] = group["variants"][0]["rounds"]
        self.assertEqual(once["instances"], 100)
        self.assertEqual([(figure["wanted"], figure["met"]) for figure in found["figures"]], [("≥ 100", True)])

    def test_a_call_over_http_stands_beside_the_programs_own_streams(self):
        [group] = self.measured("mcp")["groups"]
        self.assertEqual([v["id"] for v in group["variants"]], ["session", "stateless", "bare", "session (again)"])
        for variant in group["variants"][:2]:
            self.assertEqual(sorted(variant["cpu_us"]), ["adapter", "gateway", "program"])
            self.assertGreater(min(variant["cpu_us"].values()), 0)
        asked = [(c["one"], c["metric"], c["difference"]) for c in group["comparisons"]]
        over_http = ("session", "stateless")
        self.assertEqual(asked, [(one, metric, True) for metric in ("cpu-us", "p50-ms") for one in over_http])

    def test_what_is_not_installed_is_named(self):
        done = self.lab("lambda", "--list", "--peers", str(self.folder / "lab" / "peers"))
        missing = f"there is no {self.folder}/target/lambda/python/awslambdaric; scripts/lambda-clients.sh"
        self.assertIn(missing, done.stdout)


if __name__ == "__main__":
    unittest.main()
