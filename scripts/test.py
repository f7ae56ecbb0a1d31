#!/usr/bin/env python3
"""Installs what the suites need, builds, runs the suites two at a time, and says what failed and how long each step took.

    test.py                    the ring `test`: each change, minutes, no system package is installed
    test.py --ring all         what a change can break; CI runs it
    test.py --ring release     what takes hours or measures: before a release
    test.py --only WORD        the suites whose name contains this; may be given several times
    test.py --lint             the steps of `make lint` as well
    test.py --base COMMIT      with --ring all: suites of the ring `release` whose files have changed since
    test.py --no-setup         nothing is installed
    test.py --list             the names of the suites
    test.py --note             writes tests/slow.txt, and the times in docs/internals/testing.md, again from the last runs

docs/internals/testing.md says what is in which ring. The output of a suite stays in target/test-results; its last lines are
printed when it ends. Failures, with their reasons, come last. No test runs twice. CI fails on a test that skips because
a program is missing: see tests/skips.py.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import xml.etree.ElementTree as xml
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatch

if sys.version_info < (3, 11):
    sys.exit(f"test.py: Python 3.11 or later is needed, and this is {sys.version.split()[0]}")

import slow_tests  # noqa: E402
import suites  # noqa: E402
from suites import RESULTS, ROOT, Suite, slug  # noqa: E402

PAGE = ROOT / "docs" / "internals" / "testing.md"
LANES = 2
LIMIT_S = 3600.0
SLOWEST = 30
# What node says of a test that was left out.
NOT_CHOSEN = "test name does not match pattern"
# Characters of the command of a suite that failed.
COMMAND = 300
# Lines that are printed: of a suite that passed, of one that failed, of the reason of a test that failed.
LINES = {"passed": 3, "failed": 150, "reason": 24}
# What the programs of sdk/conformance print of each transcript and check.
LINE = re.compile(r"^(ok  |FAIL|skip) (.*?)(?: \(P-[^)]*\))?(?: (\d+\.\d+) s)?$", re.M)
# How the reason of a skip begins that no installation would change.
NOT_HERE = "not here: "


@dataclass
class Case:
    name: str
    seconds: float
    outcome: str  # passed, failed, skipped
    reason: str = ""


@dataclass
class Result:
    """How a step ended: the setup, a build, a suite."""

    name: str
    status: int
    wall: float
    cpu: float
    cases: list = field(default_factory=list)
    # The last lines of its output.
    end: str = ""

    def count(self, outcome):
        return sum(case.outcome == outcome for case in self.cases)


def last(text, count):
    return "\n".join(text.rstrip().splitlines()[-count:])


def wait(process):
    """Exit status and CPU seconds of a process and its children."""
    watch = threading.Timer(LIMIT_S, process.kill)
    watch.start()
    _, status, usage = os.wait4(process.pid, 0)
    watch.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def step(name, command, environment=None):
    """Runs a command whose output is shown."""
    begin = time.monotonic()
    status, cpu = wait(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment))
    return Result(name, status, time.monotonic() - begin, cpu)


def play(suite, environment):
    """Runs a suite; its output goes to a file."""
    log = RESULTS / f"{slug(suite.name)}.log"
    begin = time.monotonic()
    # Results of an earlier run must not be taken for those of this one.
    if suite.junit:
        suite.junit.unlink(missing_ok=True)
    with open(log, "wb") as output:
        own = environment | suite.environment
        process = subprocess.Popen(
            suite.command, cwd=suite.folder, env=own, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        status, cpu = wait(process)
    text = log.read_text(errors="replace")
    cases = of_junit(suite.junit) if suite.junit else of_lines(text)
    return Result(suite.name, status, time.monotonic() - begin, cpu, cases, last(text, LINES["failed"]))


def of_junit(path):
    if not path.exists():
        return []
    cases = []
    for one in xml.parse(path).iter("testcase"):
        found = {child.tag: child for child in one}
        outcome = "failed" if {"failure", "error"} & found.keys() else "skipped" if "skipped" in found else "passed"
        if outcome == "skipped" and found["skipped"].get("message") == NOT_CHOSEN:
            continue
        reason = found["skipped"].get("message", "") if outcome == "skipped" else ""
        if outcome == "failed":
            report = found.get("failure", found.get("error"))
            text = f"{report.get('message', '')}\n{report.text or ''}".split("stack backtrace:")[0]
            reason = last(text, LINES["reason"])
        name = f"{one.get('classname', '')} {one.get('name')}".removeprefix("test ")
        cases.append(Case(name, float(one.get("time") or 0), outcome, reason))
    return cases


def of_lines(text):
    outcomes = {"ok  ": "passed", "FAIL": "failed", "skip": "skipped"}
    return [Case(name, float(seconds or 0), outcomes[mark]) for mark, name, seconds in LINE.findall(text)]


class Run:
    """Runs suites in lanes, then one by one those that have to run alone."""

    def __init__(self, chosen, environment):
        self.environment = environment
        self.waiting = [suite for suite in chosen if not suite.alone]
        self.alone = [suite for suite in chosen if suite.alone]
        self.results = []
        self.lock = threading.Lock()

    def run(self):
        lanes = [threading.Thread(target=self._lane, args=(self.waiting,)) for _ in range(LANES)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
        self._lane(self.alone)
        return self.results

    def _lane(self, queue):
        while True:
            with self.lock:
                if not queue:
                    return
                suite = queue.pop(0)
                print(f"=== {suite.name}: begins", flush=True)
            result = play(suite, self.environment)
            with self.lock:
                self.results.append(result)
                end = "passed"
                if result.status:
                    end = f"FAILED with status {result.status}: {textwrap.shorten(' '.join(suite.command), COMMAND)}"
                lines = LINES["failed" if result.status else "passed"]
                print(f"\n=== {suite.name}\n{last(result.end, lines)}", flush=True)
                print(f"=== {suite.name}: {end}, in {result.wall:.0f} s\n", flush=True)


def report(results, seconds, ring):
    """The slowest tests and the table of steps, which is stored as well."""
    cases = [(one.name, case) for one in results for case in one.cases]
    print(f"=== the {SLOWEST} slowest tests\n")
    for name, case in sorted(cases, key=lambda each: -each[1].seconds)[:SLOWEST]:
        print(f"{case.seconds:>8.1f} s  {name}: {case.name}")
    print(f"\n=== how long each step took: {os.cpu_count()} processors, load at the end {os.getloadavg()[0]:.1f}\n")
    print(f"{'step':<46} {'wall s':>8} {'CPU s':>8} {'tests':>6} {'failed':>6} {'skipped':>7}")
    for one in sorted(results, key=lambda one: -one.wall):
        counts = [one.count("failed"), one.count("skipped")]
        counts = [len(one.cases), *counts] if one.cases else ["", "", ""]
        print(f"{one.name:<46} {one.wall:>8.1f} {one.cpu:>8.1f} {counts[0]:>6} {counts[1]:>6} {counts[2]:>7}")
    everything = Result("all", 0, seconds, sum(one.cpu for one in results), cases)
    print(f"{everything.name:<46} {seconds:>8.1f} {everything.cpu:>8.1f} {len(cases):>6}")
    rows = [*sorted(results, key=lambda one: -one.wall), everything]
    steps = [{"step": one.name, "wall_s": one.wall, "cpu_s": one.cpu, "tests": len(one.cases)} for one in rows]
    (RESULTS / f"steps-{ring}.json").write_text(json.dumps(steps))


def report_not_run(results, left_out, ring):
    """What a missing program leaves out, a line each."""
    reasons = Counter()
    for one in results:
        reasons.update(case.reason for case in one.cases if case.outcome == "skipped")
    lines = [f"{count} tests: {reason or 'no reason given'}" for reason, count in sorted(reasons.items())]
    lines += [f"{suite.name} ({' and '.join(suite.missing())} not installed)" for suite in left_out]
    if lines:
        print("\nnot run:\n  " + "\n  ".join(lines))
    if ring == "test":
        installs = " installs what these need, and" if any(not reason.startswith(NOT_HERE) for reason in reasons) else ""
        print(f"\n`make test-all`{installs} runs everything that a change can break")


def report_failures(failed):
    """Every test that failed with the text of its assertion."""
    print("\n=== FAILED")
    for one in failed:
        cases = [case for case in one.cases if case.outcome == "failed"]
        for case in cases:
            print(f"\n--- {one.name}: {case.name}")
            if case.reason:
                print(textwrap.indent(case.reason, "    "))
        if not any(case.reason for case in cases):
            print(f"\n--- {one.name}: status {one.status}; the end of its output")
            print(textwrap.indent(last(one.end, LINES["reason"]), "    "))


def environment_of(ring):
    own = {
        "PATH": suites.search_path(),
        "PILOTLIGHT": suites.GATEWAY,
        "PILOTLIGHT_TUNNEL_CLIENTS": str(ROOT / "target" / "tunnel-clients"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return dict(os.environ) | own | ({} if ring == "test" else {"PILOTLIGHT_TEST_FORM": "long"})


def lint_steps():
    """Each step of scripts/lint.sh as a suite."""
    listed = subprocess.run(["scripts/lint.sh", "--list"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    alone = ("gate",)
    return [
        Suite(f"lint: {name}", ["scripts/lint.sh", name], alone=name in alone) for name in listed.stdout.splitlines()
    ]


def changed_since(base):
    diff = subprocess.run(["git", "diff", "--name-only", base], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return diff.stdout.splitlines()


def touched(paths, changed):
    """Whether a changed file is one of these files, or in one of these folders."""
    return any(fnmatch(name, path) or name.startswith(f"{path}/") for path in paths for name in changed)


def chosen_suites(options):
    chosen = suites.suites(options.ring)
    if options.base:
        changed = changed_since(options.base)
        chosen += [suite for suite in suites.suites("release") if touched(suite.paths, changed)]
    if options.lint:
        chosen = lint_steps() + chosen
    return [one for one in chosen if any(word in one.name for word in options.only or [""])]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ring", choices=suites.RINGS, default="test", help="which suites (test)")
    parser.add_argument("--only", action="append", metavar="WORD", help="suites whose name contains this")
    parser.add_argument("--lint", action="store_true", help="the steps of `make lint` as well")
    parser.add_argument("--base", metavar="COMMIT", help="suites of a release whose files have changed since, as well")
    parser.add_argument("--no-setup", action="store_true", help="install nothing")
    parser.add_argument("--list", action="store_true", help="the names of the suites")
    parser.add_argument("--note", action="store_true", help="write the times of the last runs into the repository")
    return parser, parser.parse_args()


def note():
    """Writes the slow tests of the last run of the ring all, and the times of the last run of each ring."""
    page = PAGE.read_text()
    for ring in suites.RINGS:
        stored = RESULTS / f"steps-{ring}.json"
        if stored.exists():
            begin, end = f"<!-- steps: {ring} -->\n", "<!-- end -->"
            head, _, rest = page.partition(begin)
            page = head + begin + table(json.loads(stored.read_text())) + end + rest.partition(end)[2]
    PAGE.write_text(page)
    if not (RESULTS / "steps-all.json").exists():
        sys.exit(f"{PAGE}: written; tests/slow.txt needs a run of `make test-all`")
    every = [suite for suite in suites.suites("all") if suite.junit and suite.name in slow_tests.LIMITS_S]
    times = [(suite.name, case.name, case.seconds) for suite in every for case in of_junit(suite.junit)]
    print(f"{slow_tests.FILE}: {slow_tests.write(times)} of {len(times)} tests")


def table(steps):
    """The steps as Markdown."""
    rows = [f"| {one['step']} | {one['wall_s']:.0f} | {one['cpu_s']:.0f} | {one['tests'] or ''} |" for one in steps]
    return "\n".join(["| step | wall, s | CPU, s | tests |", "|---|---|---|---|", *rows, ""])


def prepare(options):
    """Installs and builds at the same time; whether both succeeded."""
    results = []
    setup = threading.Thread(
        target=lambda: results.append(step("setup", ["scripts/setup.sh", options.ring])), daemon=True
    )
    builds = suites.builds(options.ring)
    if not options.no_setup:
        setup.start()
    environment = dict(os.environ)
    results.append(step(builds[0].name, builds[0].command, environment))
    if not options.no_setup:
        setup.join()
    # The others need what the setup installs.
    if not any(one.status for one in results):
        results += [step(build.name, build.command, environment) for build in builds[1:]]
    return results


def main():
    parser, options = parse()
    if options.note:
        return note()
    if options.list:
        print("\n".join(suite.name for suite in chosen_suites(options)))
        return 0
    # What a shell starts in the background ignores Ctrl-C, and so would all that tests start and press it for.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    begin = time.monotonic()
    RESULTS.mkdir(parents=True, exist_ok=True)
    print(f"=== {'building' if options.no_setup else 'installing and building'}", flush=True)
    prepared = prepare(options)
    if any(one.status for one in prepared):
        print(f"FAILED: {', '.join(one.name for one in prepared if one.status)} (see above)")
        return 1
    chosen = chosen_suites(options)
    if not chosen:
        parser.error(f"no suite's name contains {' or '.join(options.only)}; --list has them")
    left_out = [suite for suite in chosen if suite.missing()] if options.ring == "test" else []
    results = Run([suite for suite in chosen if suite not in left_out], environment_of(options.ring)).run()
    report(prepared + results, time.monotonic() - begin, options.ring)
    report_not_run(results, left_out, options.ring)
    failed = [one for one in results if one.status]
    if failed:
        report_failures(failed)
        print(f"\nsuites that failed: {', '.join(one.name for one in failed)}")
    print(f"\n{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
