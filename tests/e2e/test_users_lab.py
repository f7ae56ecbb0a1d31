"""`pilotlight lab rest`: a real, short run. What is measured is not looked at, but that everything is."""

import json
import subprocess
import tempfile
from pathlib import Path

from harness import BINARY, TestCase, setUpModule

__all__ = ["setUpModule"]

RUN_LIMIT = 300


class RestLabTest(TestCase):
    def lab(self, *arguments, expected=0):
        self.folder = tempfile.TemporaryDirectory(prefix="pilotlight-lab-test-")
        self.addCleanup(self.folder.cleanup)
        process = subprocess.Popen(
            [BINARY, "lab", "rest", *arguments], cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(process.kill)
        out, err = process.communicate(timeout=RUN_LIMIT)
        self.assertEqual(process.returncode, expected, out + err)
        return out, err

    def test_what_is_there_and_what_is_missing(self):
        out, _ = self.lab("--list")
        self.assertIn("get-warm", out)
        self.assertIn("gateway-cache", out)
        self.assertIn("axum-fred      axum, fred, rusqlite  [there is no", out)

    def test_every_scenario_on_a_server_and_a_cluster(self):
        out, err = self.lab(
            "--quick", "--json", "--services", "users,gateway,gateway-cache,axum-fred", "--cases", "get-warm,get-cold,list,post,mixed"
        )
        report = json.loads(out)
        self.assertEqual(report["schema"], "pilotlight-lab-rest/1")
        self.assertIn("skipped: axum-fred: there is no", err)
        seen = {(result["redis"], result["case"], result["service"]) for result in report["results"]}
        self.assertEqual(len(seen), 2 * 5 * 3)
        for result in report["results"]:
            self.assertIsNone(result["failed"])
            [one] = result["rounds"]
            self.assertGreater(one["cpu_us"], 0)
            self.assertGreaterEqual(one["p99_9_ms"], one["p50_ms"])
            expected = {"post": {"201"}, "mixed": {"200", "201", "204", "404"}}.get(result["case"], {"200"})
            self.assertLessEqual(set(one["statuses"]), expected)
        self.assertEqual(list(Path(self.folder.name).iterdir()), [])

    def test_a_service_that_does_not_start_fails_the_run(self):
        out, err = self.lab("--quick", "--users", "/bin/false", "--services", "users", "--redis", "standalone", expected=1)
        self.assertIn("ended (exit code 1) before it listens", err)
        self.assertEqual(out, "")
