"""report.json of `tool.py`: as the schema says, with values that can be computed again, and read by `pilotlight lab`."""
import importlib.util
import json
import os
import re
import statistics
import subprocess
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import tool
from harness import document, noise
from harness.lab import Lab
from harness.paths import ROOT
from harness.program import Failed
from harness.report import Column, Figure, Samples, Table

BINARY = os.environ.get("PILOTLIGHT", ROOT / "target/debug/pilotlight")
SCHEMA = json.loads((ROOT / "docs/lab/report.schema.json").read_text())
QUIET = {"load_average": [0.1, 0.2], "steal": 0.0, "spread": [0.01, 0.02], "busy": [0.0, None], "refused": None, "overridden": False}
ROUNDS = {"whole": [{"size": 3.5, "count": 2}, {"size": 1.25, "count": 2}, {"size": 2.0, "count": 2, "other": "text"}]}


def mismatches(report):
    """As the tests of `pilotlight lab` look at its reports; their folder has a `harness` of its own, so only this file is loaded."""
    spec = importlib.util.spec_from_file_location("schemas", ROOT / "tests/e2e/schemas.py")
    schemas = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(schemas)
    return list(schemas.mismatches(report, SCHEMA))


def measured(rounds, functions):
    """The lab after rounds of an experiment whose variants do this."""
    lab = Lab(SimpleNamespace(rounds=rounds))
    lab.note = lambda text: None
    with lab:
        lab.experiment("idle", "Idle", "It needs little", [{"name": "Python", "version": "3.11.2", "settings": []}],
                       skipped=[{"what": "rueidis", "why": "no Go", "install": "lab/peers/redis/build.sh go"}])
        samples = lab.run_rounds("idle", functions)
        columns = [Column("size", "size", "MiB", 1), Column("count", "count"), Column("rss_after", "after", "MiB")]
        lab.experiments[-1].tables.append(Table("memory", "Memory", "nothing is asked", rounds, samples, columns))
        lab.figure("size", 2, " MiB", samples.values("whole", "size"))
        lab.figure("the broken one's size", 2, " MiB", samples.values("broken", "size"), at_least=True)
    return lab


def functions():
    whole, broken = iter(ROUNDS["whole"]), iter([{"size": 1.0}, {"size": 1.0, "errors": 3}])
    return {"whole": lambda: next(whole), "broken": lambda: next(broken)}


class Document(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def report(self):
        """As a run would write it, without waiting for a quiet machine and without asking a release build for its version."""
        run = document.Run.__new__(document.Run)
        run.command, run.commit, run.begin = ["lab/tool.py", "--rounds", "3"], None, 0.0
        run.watch, run.started_at = SimpleNamespace(end=lambda: QUIET), document.datetime(2026, 11, 22, 10, tzinfo=document.timezone.utc)
        before, document.version = document.version, lambda command: "0.1.0"
        try:
            report = run.document(measured(3, functions()).experiments)
        finally:
            document.version = before
        document.write(self.folder, report)
        return json.loads((self.folder / "report.json").read_text())

    def test_it_is_as_the_schema_says(self):
        report = self.report()
        self.assertEqual(mismatches(report), [])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["report.json"])
        self.assertEqual((report["started_at"], report["command"]), ("2026-11-22T10:00:00Z", ["lab/tool.py", "--rounds", "3"]))
        report["experiments"][0]["tables"][0]["rows"][0]["rounds"][0]["size"] = "3.5"
        self.assertEqual(len(mismatches(report)), 1)

    def test_each_round_is_kept_and_gives_the_summary_again(self):
        [experiment] = self.report()["experiments"]
        whole, broken = experiment["tables"][0]["rows"]
        self.assertEqual(whole["rounds"], [{"size": 3.5, "count": 2}, {"size": 1.25, "count": 2}, {"size": 2.0, "count": 2}])
        self.assertEqual(whole["summary"], {"size": {"median": 2.0, "low": 1.25, "high": 3.5}, "count": {"median": 2, "low": 2, "high": 2}})
        met, missing = experiment["figures"]
        self.assertEqual((met["wanted"], met["rounds"], met["met"]), ("≤ 2 MiB", [3.5, 1.25, 2.0], True))
        self.assertEqual(met["measured"], whole["summary"]["size"])
        # What failed once has no rounds, and a figure of it is not measured.
        self.assertEqual((broken["rounds"], broken["summary"], broken["failed"]), ([], {}, "3 answers were none or wrong"))
        self.assertEqual((missing["wanted"], missing["measured"], missing["rounds"], missing["met"]), ("≥ 2 MiB", None, [], None))

    def test_pilotlight_shows_it_and_documents_have_its_figures(self):
        self.report()
        page = self.folder / "a.md"
        page.write_text("<!-- figures: idle/run -->\n<!-- /figures -->\n<!-- figures: idle/figures -->\n<!-- /figures -->\n"
                        "<!-- figures: idle/memory -->\n<!-- /figures -->\nIt takes <!-- figures: idle/memory/size/whole --><!-- /figures -->.\n")
        self.lab("figures", "--report", "report.json", "a.md")
        text = page.read_text()
        for part in ("`lab/tool.py --rounds 3`, 2026-11-22, Pilotlight 0.1.0, on ", "With Python 3.11.2.", "broken failed in “Memory”",
                     "2.00 (1.25–3.50) |", "It takes <!-- figures: idle/memory/size/whole -->2.00 (1.25–3.50) MiB<!-- /figures -->."):
            self.assertIn(part, text)
        self.lab("figures", "--report", "report.json", "--check", "a.md")
        page.write_text(text.replace("It takes <!-- figures: idle/memory/size/whole -->2.00", "It takes <!-- figures: idle/memory/size/whole -->1.00"))
        self.assertIn("a.md:18: idle/memory/size/whole is not what report.json says", self.lab("figures", "--report", "report.json", "--check", "a.md", status=1))
        self.assertIn("nothing is asked · 3 rounds", self.lab("show", "report.json", "--text"))

    def lab(self, *arguments, status=0):
        done = subprocess.run([BINARY, "lab", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_a_report_is_written_whole_or_not_at_all(self):
        document.write(self.folder, {"a": 1})
        with self.assertRaises(ValueError):
            document.write(self.folder, {"a": float("nan")})
        self.assertEqual([(path.name, json.loads(path.read_text())) for path in self.folder.iterdir()], [("report.json", {"a": 1})])

    def test_every_section_has_a_table(self):
        self.assertEqual(list(tool.TABLES), tool.SECTIONS)


class Summary(unittest.TestCase):
    def test_of_one_round_it_is_that(self):
        self.assertEqual(document.summary([2.5]), {"median": 2.5, "low": 2.5, "high": 2.5})

    def test_of_many_it_leaves_out_what_is_rare(self):
        values = [10 + number / 10 for number in range(29)] + [1000]
        found = document.summary(values)
        self.assertEqual(found["median"], statistics.median(values))
        self.assertTrue(10 < found["low"] < found["median"] < found["high"] < 13, found)
        self.assertEqual(document.summary(values), found, "the same rounds give the same interval")


class Noise(unittest.TestCase):
    def test_limits_are_those_of_the_other_experiments(self):
        source = (ROOT / "lab/src/experiment/noise.rs").read_text()
        for name in ("MAX_SPREAD", "MAX_BUSY", "MAX_STEAL"):
            self.assertEqual(float(re.search(rf"pub const {name}: f64 = ([\d.]+);", source)[1]), getattr(noise, name))
        self.assertEqual(int(re.search(r"MAX_WAIT: Duration = Duration::from_secs\((\d+)\)", source)[1]), noise.MAX_WAIT_SECONDS)

    def test_shares_of_the_processors(self):
        before = noise.Ticks.parse("cpu  100 0 50 1000 10 0 5 20 0 0\ncpu0 1 1 1 1\n")
        passed = noise.Ticks.parse("cpu  160 0 60 1100 10 0 5 50 0 0\n").since(before)
        self.assertEqual((passed.all, passed.busy, passed.steal), (200, 70, 30))
        self.assertAlmostEqual(passed.others(50 / noise.TICKS_PER_SECOND), 0.1)
        self.assertIsNone(before.since(before).others(1))

    def test_what_is_above_its_limit_is_said_with_the_limit(self):
        quiet, busy = noise.Probe(0.02, 0.01), noise.Probe(0.5, 0.125)
        self.assertIsNone(noise.noise([quiet, noise.Probe(0.02, None)], [0, 0], 0.01)["refused"])
        self.assertEqual(noise.noise([quiet, busy], [0, 0], 0.5)["refused"],
                         "after the run the times of equal work spread by 50 %, more than 25 % and other programs used 12 % of the processors, "
                         "more than 10 %; other virtual machines took 50 % of the time, more than 2.0 %")

    def test_this_machine_can_be_looked_at(self):
        probe = noise.Probe.take()
        self.assertGreaterEqual(probe.spread, 0)
        self.assertTrue(probe.busy is None or 0 <= probe.busy <= 1, probe)


class Failures(unittest.TestCase):
    def test_what_failed_is_not_measured_again(self):
        tried = []

        def broken():
            tried.append(1)
            raise Failed("out of order")

        lab = measured(3, {"whole": lambda: {"size": 1.0}, "broken": broken})
        self.assertEqual(len(tried), 1)
        self.assertEqual(lab.experiments[0].tables[0].samples.failed, {"broken": "out of order"})
        self.assertFalse(lab.experiments[0].complete)

    def test_a_figure_has_a_side(self):
        self.assertIs(Figure("x", 0.8, " ×", [0.7, 0.9, 0.9], at_least=True).met, True)
        self.assertIs(Figure("x", 0.8, " ×", [0.7, 0.7, 0.9], at_least=True).met, False)
        self.assertEqual(Figure("x", 0.8, " ×", [None, 1.0], at_least=True).values, [1.0])

    def test_samples_of_what_was_given_up_are_none(self):
        samples = Samples()
        samples.add("a", {"size": 1})
        samples.give_up("a", "why")
        self.assertEqual((samples.values("a", "size"), samples.rounds), ([], {"a": []}))


if __name__ == "__main__":
    unittest.main()
