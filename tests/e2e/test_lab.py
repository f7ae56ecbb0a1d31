"""`pilotlight lab transport`: real runs of a few requests. What is measured is not looked at, but that everything is."""

import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import BINARY, PYTHON, ROOT, TestCase, alive, descendants, eventually, processes, setUpModule
from schemas import mismatches

__all__ = ["setUpModule"]

SCHEMA = json.loads((ROOT / "docs" / "lab" / "report.schema.json").read_text())
CASES = ["cached", "http-warm", "http-cold", "pipe-warm", "pipe-cold"]
RUN_LIMIT = 180


class Lab(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-lab-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "tmp").mkdir()
        self.folder.chmod(0o755)  # Apache, started by root, becomes another user
        # The lab's own folders are made here, so that one that stays behind is seen.
        self.environment = {**os.environ, "TMPDIR": str(self.folder / "tmp"), "XDG_RUNTIME_DIR": str(self.folder / "tmp")}

    def command(self, *arguments):
        python = [] if "--python" in arguments else ["--python", PYTHON]
        return [str(BINARY), "lab", "transport", "--noisy-anyway", "--out", str(self.folder / "out"), *python, *arguments]

    def run_lab(self, *arguments):
        return subprocess.run(
            self.command(*arguments), env=self.environment, capture_output=True, text=True, timeout=RUN_LIMIT, cwd=self.folder
        )

    def begin(self, *arguments):
        """A run that goes on; its output goes to a file, so that nothing has to be read."""
        with open(self.folder / "output", "wb") as output:
            lab = subprocess.Popen(self.command(*arguments), env=self.environment, stdout=output, stderr=output, cwd=self.folder)
        self.addCleanup(lab.wait)
        self.addCleanup(lab.kill)
        return lab

    def said(self):
        return (self.folder / "output").read_text()

    def results(self):
        report = json.loads((self.folder / "out" / "report.json").read_text())
        self.assertEqual(list(mismatches(report, SCHEMA)), [])
        [experiment] = report["experiments"]
        return experiment

    def measured(self, results, front="pilotlight"):
        """What stands for itself, by language, case and server."""
        variants = [variant for group in results["groups"] for variant in group["variants"] if variant["role"] != "control"]
        parts = {tuple(variant["id"].split("/")): variant for variant in variants}
        return {words[1:]: variant for words, variant in parts.items() if words[0] == front}

    def assert_nothing_left(self):
        self.assertEqual(os.listdir(self.folder / "tmp"), [])

    def test_a_quick_run_measures_all_cases_for_rust_and_python(self):
        done = self.run_lab("--quick", "--services", "rust,python")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = self.results()
        measured = self.measured(results)
        cases = {(language, case) for language in ("rust", "python") for case in CASES}
        self.assertEqual({(language, case) for language, case, _ in measured}, cases)
        groups = {group["id"]: group for group in results["groups"]}
        self.assertEqual(set(groups), {"rust-warm", "rust-cold", "python-warm", "python-cold"})
        for group in groups.values():
            self.assertEqual(len(group["variants"]), len({variant["id"] for variant in group["variants"]}), group["id"])
            self.assertEqual([variant["role"] for variant in group["variants"]].count("control"), 1, group["id"])
            for variant in group["variants"]:
                self.check_variant(group, variant)
        own_parts = {c["one"] for group in groups.values() for c in group["comparisons"] if c["difference"]}
        cold = {variant["id"] for (_, case, _), variant in measured.items() if case.endswith("-cold")}
        self.assertEqual(own_parts, cold)
        for language in ("Rust: ", "Python: "):
            self.assertTrue(any(finding.startswith(language) for finding in results["findings"]), results["findings"])
        for text in ("Rust pipe cold", "Python HTTP warm (http.server)", "published, of another machine: HTTP cold", "written: "):
            self.assertIn(text, done.stdout)
        self.assertIn("transport python-cold: round 8 of 8", done.stderr)
        self.assert_nothing_left()

    def check_variant(self, group, variant):
        self.assertEqual((variant["failed"], variant["requests"]), (None, 8), variant["id"])
        percentiles = [ms for _, ms in variant["latency"]["percentiles"]]
        self.assertEqual(percentiles, sorted(percentiles), variant["id"])
        self.assertEqual(len(variant["rounds"]), 8, variant["id"])
        for measured in variant["rounds"]:
            self.assertLessEqual(set(group["metrics"]), set(measured), variant["id"])
            self.assertGreater(measured["pss-bytes"], 0, variant["id"])
        if "-cold/" in variant["id"]:
            # The start of the process is part of it, and was really there: a warm request costs a service far less.
            self.assertGreater(variant["cpu_us"]["service"], 500, variant["id"])
            if variant["id"].startswith("pilotlight/"):
                phases = {phase["name"] for phase in variant["phases"]}
                self.assertLessEqual({"queue", "spawn", "ready", "service", "total"}, phases, variant["id"])

    def test_cases_and_json_on_request(self):
        done = self.run_lab("--services", "rust", "--cases", "pipe-warm", "--requests", "3", "--rounds", "2", "--no-peers", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = json.loads(done.stdout)
        self.assertEqual(printed, json.loads((self.folder / "out" / "report.json").read_text()))
        [group] = self.results()["groups"]
        ids = ["pilotlight/rust/pipe-warm/SDK", "pilotlight/rust/pipe-warm/SDK (again)"]
        self.assertEqual([variant["id"] for variant in group["variants"]], ids)
        self.assertTrue(all(variant["requests"] == 3 for variant in group["variants"]))

    def test_services_that_are_built_are_measured(self):
        languages = ["c", "dotnet", "go", "haskell", "java", "php", "ruby"]
        amount = ("--cases", "http-warm,pipe-warm", "--requests", "2", "--rounds", "1", "--warmup", "1", "--no-peers")
        done = subprocess.run(
            self.command(*amount, "--services", ",".join(languages)),
            env=self.environment, capture_output=True, text=True, timeout=RUN_LIMIT, cwd=ROOT,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = self.results()
        measured = {words[:2] for words, variant in self.measured(results).items() if variant["failed"] is None}
        names = [".net" if language == "dotnet" else language for language in languages]
        self.assertEqual(measured, {(name, case) for name in names for case in ("http-warm", "pipe-warm")})
        self.assertEqual(results["skipped"], [])

    def test_what_is_missing_is_skipped_and_named(self):
        done = self.run_lab("--quick", "--services", "rust,node", "--cases", "cached", "--node", "/nonexistent/node")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("skipped: Node services: `/nonexistent/node` does not run; apt install nodejs", done.stderr)
        self.assertIn("skipped: other gateways: a quick run has no time for them; leave out --quick", done.stderr)
        self.assertEqual({language for language, *_ in self.measured(self.results())}, {"rust"})

    def test_other_gateways_are_measured_or_named_with_what_to_install(self):
        done = self.run_lab("--services", "python", "--cases", "http-warm,http-cold", "--requests", "4", "--rounds", "2", "--warmup", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = self.results()
        for front, named, cases in [
            ("nginx", "nginx", {"http-warm"}),
            ("uwsgi", "uWSGI", {"http-warm", "http-cold"}),
            ("apache-mod_fcgid", "Apache mod_fcgid", {"http-warm", "http-cold"}),
        ]:
            measured = self.measured(results, front)
            self.assertTrue(all(variant["requests"] == 4 for variant in measured.values()), measured)
            if not measured:
                missing = [s for s in results["skipped"] if s["what"].startswith(named)]
                self.assertTrue(missing and missing[0]["install"].startswith("apt install"), results["skipped"])
                self.assertIn(missing[0]["install"], done.stdout)
            else:
                self.assertEqual({case for _, case, _ in measured}, cases)
        self.assert_nothing_left()

    def test_nothing_to_measure_is_a_failure_that_says_so(self):
        done = self.run_lab("--quick", "--services", "node", "--node", "/nonexistent/node")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no service to measure: Node services", done.stderr)
        report = json.loads((self.folder / "out" / "report.json").read_text())
        self.assertIn("there is no service to measure", report["experiments"][0]["failed"])

    def test_arguments_are_checked(self):
        for arguments in (["--requests", "0"], ["--cases", "luke-warm"], ["--quick", "--requests", "3"], ["--quick", "--rounds", "3"], ["--requests", "3", "--rounds", "4"]):
            self.assertEqual(self.run_lab(*arguments).returncode, 2, arguments)

    def test_a_service_that_does_not_start_fails_visibly_and_the_others_go_on(self):
        broken = self.folder / "python"
        # It says what a Python says when it is asked for its path and version, but runs no service.
        broken.write_text('#!/bin/sh\nif [ "$1" = -c ]; then printf "%s\\tPython 3.99\\n" "$0"; else exit 3; fi\n')
        broken.chmod(0o755)
        done = self.run_lab("--quick", "--services", "rust,python", "--cases", "pipe-warm", "--python", str(broken))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("FAILED: Python pipe warm: status 503", done.stdout)
        rust = [variant for (language, *_), variant in self.measured(self.results()).items() if language == "rust"]
        self.assertTrue(rust and all(variant["requests"] == 8 for variant in rust))

    def cold_starts(self):
        """A run that is in the middle of its cold starts."""
        lab = self.begin("--services", "rust", "--requests", "1000", "--rounds", "1000", "--cases", "pipe-cold,http-cold")
        self.assert_eventually(lambda: "rust-cold: round 1 of 1000" in self.said(), "the run did not begin", 30)
        self.assert_eventually(lambda: len(descendants(lab.pid)) >= 4, "no gateways run", 60)
        return lab

    def stopped_with_a_service_of_its_own(self, lab):
        """Whether the lab, stopped now, has a service that it has started itself; if not it goes on."""
        lab.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, lab.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # a busy process goes on for a moment
        if any(parent == lab.pid and "lab-service http" in line for parent, _, line in processes().values()):
            return True
        lab.send_signal(signal.SIGCONT)
        return False

    def test_ctrl_c_leaves_nothing_running(self):
        lab = self.cold_starts()
        started = descendants(lab.pid)
        lab.send_signal(signal.SIGINT)
        self.assertEqual(lab.wait(30), 1)
        self.assertIn("interrupted", self.said())
        self.assertEqual(alive(started), {})
        self.assert_nothing_left()

    def test_a_killed_lab_leaves_nothing_running(self):
        lab = self.cold_starts()
        self.assert_eventually(lambda: self.stopped_with_a_service_of_its_own(lab), "no service without a gateway runs", 30)
        started = descendants(lab.pid)
        self.assertTrue(any("lab-service http" in line for line in started.values()))
        lab.kill()
        lab.wait(30)
        self.assertTrue(eventually(lambda: not alive(started), 20), f"still running: {alive(started)}")


if __name__ == "__main__":
    unittest.main()
