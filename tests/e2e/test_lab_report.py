"""`pilotlight lab` and its report: real, short runs of the smallest experiment. What is measured is not looked at, but what is made of it."""

import base64
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
import zlib
from pathlib import Path

from harness import BINARY, ROOT, TestCase, alive, descendants, setUpModule
from schemas import mismatches

__all__ = ["setUpModule"]

SCHEMA = json.loads((ROOT / "docs" / "lab" / "report.schema.json").read_text())
RUN_LIMIT = 500  # a minute, on a machine that is not busy
EXPERIMENTS = [
    "layers", "gateway", "instructions", "capacity", "cache", "eviction", "front", "servers", "limits", "php", "saves", "transport", "lambda", "mcp", "containers",
    "rest", "redis", "tool", "tunnel", "factors", "study", "equals",
]  # fmt: skip
# Those that a quick run of everything leaves out.
LONG = ["instructions", "capacity", "eviction", "limits", "php", "containers", "tunnel"]
SHORT = ["--rounds", "8", "--secs", "0.05", "--noisy-anyway"]


class Lab(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-lab-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "tmp").mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.folder / "tmp")}

    def lab(self, *arguments, expected=0):
        done = subprocess.run(
            [BINARY, "lab", *arguments], env=self.environment, capture_output=True, text=True, timeout=RUN_LIMIT, cwd=self.folder
        )
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        self.assertEqual(os.listdir(self.folder / "tmp"), [])
        return done

    def report(self):
        report = json.loads((self.folder / "lab-results" / "report.json").read_text())
        self.assertEqual(list(mismatches(report, SCHEMA)), [])
        return report


class Report(Lab):
    def test_a_run_is_reported_as_the_schema_says(self):
        done = self.lab("equals", "--quick", "--json", *SHORT)
        report = self.report()
        self.assertEqual(json.loads(done.stdout), report)
        self.assertEqual(report["command"][1:3], ["lab", "equals"])
        self.assertEqual([experiment["name"] for experiment in report["experiments"]], ["equals"])
        [group] = report["experiments"][0]["groups"]
        self.assertEqual([variant["id"] for variant in group["variants"]], ["base", "equal", "slower", "base (again)"])
        for variant in group["variants"]:
            self.check_variant(variant)
        self.assertEqual([control["metric"] for control in group["controls"]], group["metrics"])
        self.assertEqual([(c["one"], c["other"]) for c in group["comparisons"]], [("equal", "base"), ("slower", "base")])
        for comparison in group["comparisons"]:
            self.assertLessEqual(comparison["value"]["low"], comparison["value"]["high"])
            self.assertEqual(comparison["reason"] is None, comparison["verdict"] in ("less", "more"))
        self.assertIn("equals work: round 8 of 8", done.stderr)
        permissions = [file.stat().st_mode & 0o777 for file in (self.folder / "lab-results").glob("report.*")]
        self.assertEqual(permissions, [0o666 & ~self.mask()] * 3)

    def mask(self):
        mask = os.umask(0o22)
        os.umask(mask)
        return mask

    def check_variant(self, variant):
        self.assertIsNone(variant["failed"])
        self.assertEqual(len(variant["rounds"]), 8)
        self.assertGreater(variant["cpu_us"]["server"], 0)
        percentiles = variant["latency"]["percentiles"]
        self.assertEqual(percentiles, sorted(percentiles))
        self.assertEqual(percentiles[-1][0], 100)
        # HDR V2, deflated: a cookie, the length, and a stream of zlib that begins with the cookie of V2.
        hdr = base64.b64decode(variant["latency"]["hdr"])
        self.assertEqual((hdr[:4].hex(), int.from_bytes(hdr[4:8], "big")), ("1c849314", len(hdr) - 8))
        self.assertEqual(zlib.decompress(hdr[8:])[:4].hex(), "1c849313")

    def test_verdicts_of_several_times_are_counted(self):
        self.lab("equals", "--times", "2", *SHORT)
        [found] = self.report()["experiments"]
        self.assertEqual([group["id"] for group in found["groups"]], ["work-1", "work-2"])
        verdicts = {one: [c["verdict"] for g in found["groups"] for c in g["comparisons"] if c["one"] == one] for one in ("equal", "slower")}
        wrong, planted = found["figures"]
        self.assertEqual(wrong["measured"]["median"], sum(verdict in ("less", "more") for verdict in verdicts["equal"]))
        self.assertEqual(planted["measured"]["median"], verdicts["slower"].count("more"))
        self.assertEqual((wrong["wanted"], planted["wanted"]), ("≤ 0 of 2", "≥ 2 of 2"))
        self.assertRegex(found["findings"][0], r"a factor of 1\.\d+, the median of 16 rounds")

    def test_the_same_rounds_give_the_same_intervals_and_tables_show_them(self):
        done = self.lab("equals", *SHORT)
        report = self.report()
        [group] = report["experiments"][0]["groups"]
        for text in ("believed before: Two equal servers", "CPU of a request, slower / base", "verdict", "noise before and after"):
            self.assertIn(text, done.stdout)
        self.assertIn(f"written: {Path('lab-results') / 'report.json'}", done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn(f"{group['comparisons'][0]['value']['median']:.3f}", done.stdout)

    def test_the_list_says_what_there_is_and_what_is_missing(self):
        for arguments in (["--list"], ["all", "--list"]):
            done = self.lab(*arguments)
            self.assertIn("equals: What can be told apart here\n  believed: Two equal servers", done.stdout)
            self.assertRegex(done.stdout, r"  takes: about \d+ s\n    base ")
            self.assertRegex(done.stdout, r"\n  groups: work \(\d+ s\)\n")
            self.assertRegex(done.stdout, r"\neverything takes about \d+ min, and up to 20 s until the machine is quiet\n$")
        self.assertFalse((self.folder / "lab-results").exists())

    def test_a_quick_run_of_everything_is_planned_for_100_s(self):
        """Two minutes, less the time that a machine may take to become quiet; with everything built that there is to build."""
        listed = self.list_with_everything("--quick")
        takes = dict(re.findall(r"^(\w+): .*\n  believed: .*\n  takes: (.*)$", listed, re.MULTILINE))
        self.assertEqual(list(takes), EXPERIMENTS)
        self.assertEqual([name for name, time in takes.items() if not re.fullmatch(r"about \d+ s", time)], LONG, takes)
        [everything] = re.findall(r"^everything takes about (\d+) s,", listed, re.MULTILINE)
        self.assertLessEqual(int(everything), 100, takes)

    def test_a_run_of_everything_is_planned_for_40_minutes(self):
        [everything] = re.findall(r"^everything takes about (\d+) min,", self.list_with_everything(), re.MULTILINE)
        self.assertLessEqual(int(everything), 40)

    def test_a_whole_run_of_everything_has_all_that_each_experiment_has(self):
        def listed(*arguments):
            return re.sub(r"pilotlight-lab-\w+", "", self.lab(*arguments, "--list").stdout).strip()

        whole = listed("all", "--whole")
        for name in EXPERIMENTS:
            self.assertIn(listed(name), whole)
        self.assertRegex(whole, r"\neverything takes about \d+\.\d h,")

    def list_with_everything(self, *options):
        """What there is to measure where everything is built that there is to build."""
        peers = self.folder / "lab" / "peers"
        (peers / "redis").mkdir(parents=True)
        built = rf"{re.escape(str(self.folder))}/(?:lab|target)/[^\s;]*"
        for _ in range(4):  # some are only missed when others are there
            listed = self.lab("all", *options, "--list", "--peers", str(peers)).stdout
            for absent in re.findall(built, listed):
                file = Path(absent)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("")
        self.assertEqual(re.findall(built, listed), [])
        return listed

    def test_arguments_are_checked(self):
        for arguments in (["equals", "--rounds", "0"], ["equals", "--secs", "soon"], ["nothing"], [], ["--list", "all"], ["all", "--whole", "--quick"]):
            self.lab(*arguments, expected=2)

    def test_a_folder_that_cannot_be_written_is_said_before_anything_is_measured(self):
        (self.folder / "file").write_text("")
        done = self.lab("equals", "--out", "file/report", expected=1)
        self.assertIn("cannot make the folder file/report", done.stderr)
        self.assertNotIn("round", done.stderr)

    def test_ctrl_c_keeps_what_is_complete_and_leaves_nothing_running(self):
        with open(self.folder / "output", "wb") as output:
            lab = subprocess.Popen(
                [BINARY, "lab", "layers", "--quick", "--groups", "many", "--rounds", "1000", "--secs", "0.05", "--noisy-anyway"],
                env=self.environment, stdout=output, stderr=output, cwd=self.folder,
            )
        self.addCleanup(lab.wait)
        self.addCleanup(lab.kill)
        self.assert_eventually(lambda: "round 4 of 1000" in (self.folder / "output").read_text(), "the run did not begin", 240)
        started = descendants(lab.pid)
        self.assertGreaterEqual(len(started), 4)
        lab.send_signal(signal.SIGINT)
        self.assertEqual(lab.wait(60), 1)
        self.assertIn("interrupted", (self.folder / "output").read_text())
        self.assertEqual(alive(started), {})
        report = self.report()
        self.assertTrue(report["interrupted"])
        [group] = report["experiments"][0]["groups"]
        self.assertGreaterEqual(group["rounds"], 3)
        self.assertEqual({len(variant["rounds"]) for variant in group["variants"]}, {group["rounds"]})
        self.assertEqual({variant["failed"] for variant in group["variants"]}, {None})

    def test_an_interrupted_run_goes_on(self):
        command = ["layers", "--quick", "--groups", "many,one", "--noisy-anyway"]
        with open(self.folder / "output", "wb") as output:
            lab = subprocess.Popen(
                [BINARY, "lab", *command], env=self.environment, stdout=output, stderr=output, cwd=self.folder,
            )
        self.addCleanup(lab.wait)
        self.addCleanup(lab.kill)
        self.assert_eventually(lambda: "layers one: round 2" in (self.folder / "output").read_text(), "the run did not come so far", 240)
        lab.send_signal(signal.SIGINT)
        self.assertEqual(lab.wait(60), 1)
        self.assertIn("--resume goes on with it", (self.folder / "output").read_text())
        before = self.report()
        self.assertIn("of another seed", self.lab(*command, "--seed", "2", "--resume", expected=1).stderr)
        other = self.lab("layers", "--quick", "--groups", "one", "--noisy-anyway", "--resume", expected=1)
        self.assertIn("has the group many of layers, which is not asked for now", other.stderr)
        done = self.lab(*command, "--resume")
        self.assertNotIn("layers many: round", done.stderr)
        report = self.report()
        self.assertFalse(report["interrupted"])
        [(many, one), (was_many, was_one)] = [found["experiments"][0]["groups"] for found in (report, before)]
        self.assertEqual((many["id"], one["id"]), ("many", "one"))
        # Numbers are read and written once more, to their last digit but one.
        measured = lambda group: [(one["id"], one["requests"], one["latency"]["hdr"]) for one in group["variants"]]  # noqa: E731
        self.assertEqual(measured(many), measured(was_many))
        self.assertLess(was_one["rounds"], one["rounds"])
        self.assertEqual(report["started_at"], before["started_at"])
        self.assertGreater(report["duration_seconds"], before["duration_seconds"])
        self.assertIn("is whole: nothing is left to measure", self.lab(*command, "--resume", expected=1).stderr)
        (self.folder / "lab-results" / "report.json").unlink()
        self.assertIn("there is no report", self.lab(*command, "--resume", expected=1).stderr)

    def test_noise_is_refused_and_said(self):
        """Other programs use all processors, so nothing is compared."""
        burn = "while :; do :; done"
        others = [subprocess.Popen(["sh", "-c", burn]) for _ in range(2 * (os.cpu_count() or 1))]
        for other in others:
            self.addCleanup(other.wait)
            self.addCleanup(other.kill)
        done = self.lab("equals", "--rounds", "8", "--secs", "0.05", expected=1)
        report = self.report()
        self.assertIn("other programs used", report["noise"]["refused"])
        self.assertFalse(report["noise"]["overridden"])
        self.assertEqual({c["verdict"] for c in report["experiments"][0]["groups"][0]["comparisons"]}, {"not-comparable"})
        self.assertIn("waiting for a quiet machine", done.stderr)
        self.assertIn("nothing will be compared (--noisy-anyway compares)", done.stderr)
        self.assertIn("not comparable: the machine is too noisy", done.stdout)
        self.lab("equals", *SHORT)
        report = self.report()
        self.assertTrue(report["noise"]["overridden"])


if __name__ == "__main__":
    unittest.main()
