"""What a run of the lab shows, `pilotlight lab show` and `pilotlight lab figures`, with the report of a real, short run."""

import json
import subprocess

import test_lab_report as runs
from harness import BINARY, TestCase, setUpModule
from schemas import mismatches
from test_lab_report import SCHEMA, SHORT

__all__ = ["setUpModule"]


class Show(TestCase):
    setUp, lab = runs.Report.setUp, runs.Report.lab

    def stored(self):
        return self.folder / "lab-results" / "report.json"

    def test_a_run_writes_its_page_and_the_same_is_made_again(self):
        done = self.lab("equals", "--quick", *SHORT)
        made = {path.relative_to(self.folder / "lab-results"): path.read_text() for path in self.stored().parent.rglob("*.*")}
        names = {str(name) for name in made}
        self.assertLessEqual({"report.json", "report.html", "report.md", "plots/equals-work-values.svg"}, names)
        self.assertIn("written: lab-results/report.json, lab-results/report.html, lab-results/report.md\n", done.stdout)
        again = self.lab("show", str(self.stored()), "--out", "again")
        self.assertEqual(again.stdout, "written: again/report.html\nwritten: again/report.md\n")
        for name, text in made.items():
            if name.suffix != ".json":
                self.assertTrue((self.folder / "again" / name).read_text() == text, name)
        text = self.lab("show", str(self.stored()), "--text").stdout
        self.assertIn(text, done.stdout)
        self.assertIn("debug build", made[self.stored().with_suffix(".html").relative_to(self.stored().parent)])

    def test_what_cannot_be_shown_is_refused(self):
        for content, expected in (
            ('{"schema": "pilotlight-lab/3"}', "its schema is pilotlight-lab/3, and this pilotlight"),
            ('{"schema": "pilotlight-lab-rest/1"}', "which is no report of all experiments"),
            ("nothing", "it is not the JSON of a report"),
        ):
            file = self.folder / "other.json"
            file.write_text(content)
            done = self.lab("show", str(file), expected=1)
            self.assertIn(f"{file} cannot be shown", done.stderr)
            self.assertIn(expected, done.stderr)
        self.assertIn("cannot read", self.lab("show", "nowhere.json", expected=1).stderr)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.suffix != ".json"], ["tmp"])

    def test_figures_of_documents(self):
        report = json.loads(self.fixture())
        # Groups without anything are in it on purpose.
        self.assertEqual([m for m in mismatches(report, SCHEMA) if not m.endswith(": 0 items")], [])
        (self.folder / "report.json").write_text(json.dumps(report))
        document = self.folder / "a.md"
        document.write_text("A hit takes <!-- figures: cache/cached/cpu-us/pilotlight -->nothing<!-- /figures -->.\n")
        arguments = ["figures", "--report", "report.json", "a.md"]
        told = self.lab(*arguments, "--check", expected=1).stdout
        self.assertIn("a.md:1: cache/cached/cpu-us/pilotlight is not what report.json says", told)
        self.assertIn("to write what was measured: pilotlight lab figures --report report.json a.md", told)
        self.lab(*arguments)
        self.assertIn("-->6.46 (6.14–6.98) µs<!--", document.read_text())
        self.assertEqual(self.lab(*arguments, "--check").stdout, "")
        (self.folder / "report.json").write_text(json.dumps({**report, "debug_build": True}))
        self.assertIn("report.json is of a debug build", self.lab(*arguments, expected=1).stderr)

    def test_figures_of_several_reports(self):
        report = json.loads(self.fixture())
        cache = next(one for one in report["experiments"] if one["name"] == "cache")
        for name in ("one", "other"):
            (self.folder / f"{name}.json").write_text(json.dumps({**report, "version": name, "experiments": [{**cache, "name": name}]}))
        document = self.folder / "a.md"
        document.write_text("<!-- figures: one/run --><!-- /figures -->, <!-- figures: other/run --><!-- /figures -->\n")
        arguments = ["figures", "--report", "one.json", "--report", "other.json", "a.md"]
        self.assertIn("other/run is not what other.json says\n", self.lab(*arguments, "--check", expected=1).stdout)
        self.lab(*arguments)
        self.assertRegex(document.read_text(), "Pilotlight one.*Pilotlight other")
        self.assertEqual(self.lab(*arguments, "--check").stdout, "")
        told = self.lab(*arguments, "--report", "one.json", expected=1).stderr
        self.assertIn("a.md:1: one/run: one is in two reports, one.json and one.json", told)
        told = self.lab("figures", "--report", "other.json", "a.md", expected=1).stderr
        self.assertIn('a.md:1: one/run: there is no experiment "one" in a report, but other', told)

    def test_two_reports_are_compared(self):
        report = json.loads(self.fixture())
        slower = json.loads(self.fixture())
        group = next(one for one in slower["experiments"] if one["name"] == "cache")["groups"][0]
        ours = next(variant for variant in group["variants"] if variant["id"] == "pilotlight")
        for at in [*ours["rounds"], ours["summary"]["cpu-us"]]:
            at.update({key: value * 1.5 for key, value in at.items() if key in ("cpu-us", "median", "low", "high")})
        for name, content in (("before", report), ("after", slower), ("none", {**report, "experiments": []})):
            (self.folder / f"{name}.json").write_text(json.dumps(content))
        same = self.lab("compare", "before.json", "before.json").stdout
        self.assertIn("\n0 worse, 0 better, ", same)
        told = json.loads(self.lab("compare", "before.json", "after.json", "--json", expected=1).stdout)
        worse = [row for row in told["figures"] if row["verdict"] == "worse"]
        self.assertEqual([row["figure"] for row in worse], ["cache/cached/cpu-us/pilotlight"])
        self.assertAlmostEqual(worse[0]["ratio"]["median"], 1.5)
        told = self.lab("compare", "before.json", "none.json", expected=1).stderr
        self.assertIn("before.json and none.json have no figure in common: the one has cache, ", told)
        (self.folder / "other.json").write_text("{}")
        self.assertIn("other.json cannot be shown", self.lab("compare", "other.json", "before.json", expected=1).stderr)

    def test_reports_are_drawn_over_commits(self):
        (self.folder / "report.json").write_text(self.fixture())
        text = self.lab("history", "report.json", "--only", "cache/cached/cpu-us").stdout
        self.assertRegex(text, r"cache/cached/cpu-us/pilotlight +6\.46 \(6\.14–6\.98\) µs")
        told = json.loads(self.lab("history", "report.json", "--json").stdout)
        self.assertEqual(told["schema"], "pilotlight-lab-history/1")
        self.assertIn("written: new/history.html\n", self.lab("history", "report.json", "--out", "new").stdout)
        self.assertIn("no such figure", self.lab("history", "report.json", "--only", "nothing", expected=1).stderr)

    def fixture(self):
        return subprocess.run([BINARY.parent / "examples" / "report_fixture"], check=True, capture_output=True, text=True).stdout

