#!/usr/bin/env python3
"""Runs every suite, two at a time, and says at the end what failed and how long what took.

Run through `make test` and `make test-all`, which install what is needed.

    test.py                 the short form: without what takes longest (tests/slow.txt), and with fewer kills and bytes
    test.py --long          the long form: everything; what CI runs
    test.py --only WORD     the suites whose name contains this; may be given several times
    test.py --list          their names
    test.py --note-slow     writes tests/slow.txt anew, from the times of the last run of the long form

A suite's output stays in target/test-results; its last lines are printed when it ends. What failed, and why, is at the
very end. CI fails on a test that skips because something is missing here: see tests/skips.py.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

import slow_tests

ROOT = Path(__file__).resolve().parents[1]
PYTHON = str(ROOT / "target" / "venv" / "bin" / "python")
GATEWAY = str(ROOT / "target" / "debug" / "pilotlight")
RESULTS = ROOT / "target" / "test-results"
HASKELL = ROOT / "target" / "haskell"
# What sdk/node runs on, and what a fetch handler cannot express: trailers, two fields of one name.
NODES = {"node": "node", "deno": f"{ROOT}/target/js/bin/deno run -A", "bun": f"{ROOT}/target/js/bin/bun"}
NOT_BY_FETCH = ("answer-trailers", "shared-echo", "trailers", "echo")
LANES = 2
# What the suites run.
BUILDS = (
    ["cargo", "build", "--workspace", "--all-targets"],
    ["sdk/python/native/build.sh"],
    ["sdk/go/build.sh"],
    ["sdk/c/build.sh"],
    ["sdk/java/build.sh", "target/java"],
    ["sdk/dotnet/build-mono.sh", "target/dotnet"],
    ["sdk/haskell/build.sh", str(HASKELL)],
    ["lab/peers/languages/build.sh"],
)
# Transcripts start a process each: what makes that quick.
JAVA = "-Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# End-to-end tests wait most of the time: for processes to start, limits to pass, servers to notice.
AT_ONCE = 4
# What fails is run once more, and named at the end.
AGAIN = ("--reruns", "1")
# Transcripts, each with a gateway or a service of its own, likewise.
TRANSCRIPTS_AT_ONCE = 4
# Suites of the long form only, by how their names begin: variants of others, and those that run for minutes.
LONG_ONLY = (
    *("sdk deno fetch", "sdk bun fetch", "sdk node on deno", "sdk node on bun", "sdk c:", "sdk python native asgi"),
    *("end to end: testssl", "end to end: instructions and layers", "crates for others"),
)
# The suites of which the short form leaves out what is slow.
SIFTED = ("end to end", "rust", "pages in a browser")
LIMIT_S = 3600.0
SLOWEST = 50
# What node says of a test that was left out.
NOT_CHOSEN = "test name does not match pattern"
# Characters of the command of a suite that failed.
COMMAND = 300
# Lines that are printed: of a suite that passed, of one that failed, of the reason of a test that failed.
LINES = {"passed": 3, "failed": 150, "reason": 24}
# What pytest, sdk/conformance and nextest print of a test that failed and passed when it was run once more.
FLAKY = re.compile(r"^PASSED (\S+)|^flaky (.+)|^ +FLAKY .*?\] +(?:\(.*?\) +)?(.+)$", re.M)
# What the programs of sdk/conformance print of each transcript and check.
LINE = re.compile(r"^(ok  |FAIL|skip) (.*?)(?: \(P-[^)]*\))?(?: (\d+\.\d+) s)?$", re.M)


@dataclass
class Suite:
    name: str
    command: list
    folder: Path = ROOT
    # Where the suite writes its results as JUnit's XML; without it, its output has a line for each test.
    junit: Path | None = None
    environment: dict = field(default_factory=dict)
    # Nothing else runs meanwhile.
    alone: bool = False


@dataclass
class Case:
    name: str
    seconds: float
    outcome: str  # passed, failed, skipped
    reason: str = ""


@dataclass
class Result:
    suite: Suite
    status: int
    wall: float
    cpu: float
    cases: list
    # Tests that failed, and passed when they were run once more.
    flaky: list = field(default_factory=list)
    # The last lines of its output.
    end: str = ""

    def count(self, outcome):
        return sum(case.outcome == outcome for case in self.cases)


def last(text, count):
    return "\n".join(text.rstrip().splitlines()[-count:])


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def pytest(name, folder, *words, environment=None, **settings):
    """Tests of unittest and pytest; `-p skips` is tests/skips.py."""
    junit = RESULTS / f"{slug(name)}.xml"
    plugins = ["-p", "skips", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:hypothesispytest"]
    command = [PYTHON, "-m", "pytest", "--quiet", *plugins, *AGAIN, "-rR", f"--junitxml={junit}", *words]
    environment = {"PYTHONPATH": str(ROOT / "tests"), **(environment or {})}
    return Suite(name, command, ROOT / folder, junit, environment, **settings)


def node(name, folder, pattern, *words, environment=None):
    """Tests of node's own runner."""
    junit = RESULTS / f"{slug(name)}.xml"
    reporters = [
        *("--test-reporter=spec", "--test-reporter-destination=stdout"),
        *("--test-reporter=junit", f"--test-reporter-destination={junit}"),
    ]
    files = sorted(str(file) for file in (ROOT / folder).glob(pattern))
    return Suite(name, ["node", "--test", *words, *reporters, *files], ROOT / folder, junit, environment or {})


def conformance(name, service, megabytes, without=()):
    folder = "sdk/conformance"
    left_out = [word for each in without for word in ("--without", each)]
    play = [f"{folder}/run_service.py", "--cmd", service, "--jobs", str(TRANSCRIPTS_AT_ONCE), *AGAIN, *left_out]
    live = [f"{folder}/live.py", "--pilotlight", GATEWAY, "--service", service, "--name", name, *left_out]
    return [
        Suite(f"sdk {name}: transcripts", [PYTHON, *play]),
        Suite(f"sdk {name}: through the gateway", [PYTHON, *live, *AGAIN, "--megabytes", str(megabytes)]),
    ]


def of_node(name, megabytes):
    """The Node SDK on one of the programs that run it: both kinds of handlers, and its own tests."""
    command, folder = NODES[name], ROOT / "sdk" / "node"
    own = "sdk node" if name == "node" else f"sdk node on {name}"
    return [
        *conformance(name, f"{command} {folder}/demo.js", megabytes),
        *conformance(f"{name} fetch", f"{command} {folder}/demo-fetch.js", megabytes, NOT_BY_FETCH),
        node(own, "sdk/node", "test/*.test.js", "--test-concurrency=3", environment={"SDK_RUNTIME": command}),
    ]


def suites(is_long):
    """Those that take longest first: a lane that is free takes the next."""
    every = every_suite(is_long)
    return every if is_long else [suite for suite in every if not suite.name.startswith(LONG_ONLY)]


def every_suite(is_long):
    megabytes = 64 if is_long else 16
    slow = {} if is_long else slow_tests.read()
    not_slow = {
        "end to end": slow_tests.words_of_pytest(slow.get("end to end", [])),
        "rust": slow_tests.words_of_nextest(slow.get("rust", [])),
        "pages": slow_tests.words_of_node(slow.get("pages in a browser", [])),
    }
    nextest = [str(ROOT / "target" / "venv" / "bin" / "cargo-nextest"), "nextest", "run", "--workspace"]
    rust = Suite("rust", [*nextest, *not_slow["rust"]], junit=ROOT / "target" / "nextest" / "default" / "junit.xml")
    transcripts = ["sdk/conformance/run_gateway.py", "--pilotlight", GATEWAY, "--jobs", str(TRANSCRIPTS_AT_ONCE), *AGAIN]
    adversary = ["-m", "adversary", "--time", "60" if is_long else "20"]
    others = ("--ignore=test_lab_layers.py", "--ignore=test_testssl.py")
    return [
        pytest("end to end", "tests/e2e", "--numprocesses", str(AT_ONCE), *others, *not_slow["end to end"]),
        rust,
        # A thousand handshakes in a shell script.
        pytest("end to end: testssl", "tests/e2e", "test_testssl.py"),
        node("pages in a browser", "tests/page", "*.test.mjs", "--test-concurrency=3", *not_slow["pages"]),
        Suite("adversary", [PYTHON, *adversary], ROOT / "tests"),
        Suite("rust: examples of the documentation", ["cargo", "test", "--quiet", "--doc", "--workspace"]),
        Suite("gateway: transcripts", [PYTHON, *transcripts]),
        *(suite for name in NODES for suite in of_node(name, megabytes)),
        *conformance("c", f"{ROOT}/target/sdk/c/demo", megabytes),
        *conformance("c with sanitizers", f"{ROOT}/target/sdk/c/demo-checked", megabytes),
        *conformance("go", f"{ROOT}/target/sdk/go/demo", megabytes),
        *conformance("python", f"env PILOTLIGHT_PURE=1 {PYTHON} {ROOT}/sdk/python/demo.py", megabytes),
        *conformance("python native", f"{PYTHON} {ROOT}/sdk/python/demo.py", megabytes),
        *conformance("python asgi", f"env PILOTLIGHT_PURE=1 {PYTHON} {ROOT}/sdk/python/demo_asgi.py", megabytes),
        *conformance("python native asgi", f"{PYTHON} {ROOT}/sdk/python/demo_asgi.py", megabytes),
        *conformance("rust", f"{ROOT}/target/debug/examples/demo", megabytes),
        *conformance("ruby", f"ruby --disable-gems {ROOT}/sdk/ruby/demo.rb", megabytes),
        *conformance("haskell", str(HASKELL / "demo"), megabytes),
        *conformance("php", f"php {ROOT}/sdk/php/demo.php", megabytes),
        *conformance("java", f"java {JAVA} -jar {ROOT}/target/java/demo.jar", megabytes),
        *conformance("dotnet", f"mono {ROOT}/target/dotnet/Demo.exe", megabytes),
        pytest("sdk c", "sdk/c", "tests"),
        Suite("sdk go", ["sdk/go/test.sh"]),
        Suite("sdk ruby", ["ruby", "test/all.rb"], ROOT / "sdk" / "ruby"),
        Suite("sdk haskell", [str(HASKELL / "tests")]),
        Suite("sdk php", ["php", "tests/all.php"], ROOT / "sdk" / "php"),
        pytest("sdk java", "sdk/java", "tests"),
        pytest("sdk dotnet", "sdk/dotnet", "tests"),
        pytest("sdk python native", "sdk/python", "tests"),
        pytest("sdk python", "sdk/python", "tests", environment={"PILOTLIGHT_PURE": "1"}),
        pytest("conformance: its own tests", "sdk/conformance", "tests"),
        pytest("make run, as a user would try it", "scripts", "test_demo.py"),
        pytest("scripts: their own tests", "scripts", "test_tidy.py"),
        pytest("crates/redis: its generator", "crates/redis", "codegen"),
        Suite("crates for others: each feature alone, none, all", [PYTHON, "-B", "scripts/features.py"]),
        # Lifetimes of a second.
        Suite("public suite of HTTP cache tests", [PYTHON, "tests/http-cache-tests/run.py"], alone=True),
        # Instructions of a gateway are the same each time only if nobody keeps its client waiting.
        pytest("end to end: instructions and layers", "tests/e2e", "test_lab_layers.py", alone=True),
    ]


def play(suite, environment):
    log = RESULTS / f"{slug(suite.name)}.log"
    begin = time.monotonic()
    with open(log, "wb") as output:
        own = environment | suite.environment
        process = subprocess.Popen(
            suite.command, cwd=suite.folder, env=own, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        watch = threading.Timer(LIMIT_S, process.kill)
        watch.start()
        # Not `process.wait`: this tells the processor time, too.
        _, status, usage = os.wait4(process.pid, 0)
        watch.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    cases = of_junit(suite.junit) if suite.junit else of_lines(text)
    flaky = sorted({"".join(found) for found in FLAKY.findall(text)})
    wall, cpu = time.monotonic() - begin, usage.ru_utime + usage.ru_stime
    return Result(suite, process.returncode, wall, cpu, cases, flaky), text


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
            told = found.get("failure", found.get("error"))
            reason = last(f"{told.get('message', '')}\n{told.text or ''}".split("stack backtrace:")[0], LINES["reason"])
        name = f"{one.get('classname', '')} {one.get('name')}".removeprefix("test ")
        cases.append(Case(name, float(one.get("time") or 0), outcome, reason))
    return cases


def of_lines(text):
    outcomes = {"ok  ": "passed", "FAIL": "failed", "skip": "skipped"}
    return [Case(name, float(seconds or 0), outcomes[mark]) for mark, name, seconds in LINE.findall(text)]


class Run:
    """All suites: those that can stand each other in lanes, then the others one by one."""

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
            result, text = play(suite, self.environment)
            with self.lock:
                self.results.append(result)
                end = "passed"
                if result.status:
                    end = f"FAILED with status {result.status}: {textwrap.shorten(' '.join(suite.command), COMMAND)}"
                print(f"\n=== {suite.name}\n{last(text, LINES['failed' if result.status else 'passed'])}", flush=True)
                result.end = last(text, LINES["reason"])
                print(f"=== {suite.name}: {end}, in {result.wall:.0f} s\n", flush=True)


def report(results, seconds, built):
    print(f"=== how long what took: {os.cpu_count()} processors, load at the end {os.getloadavg()[0]:.1f}\n")
    print(f"{'suite':<40} {'seconds':>8} {'CPU':>8} {'tests':>6} {'failed':>6} {'skipped':>7}")
    for one in sorted(results, key=lambda one: -one.wall):
        counts = (len(one.cases), one.count("failed"), one.count("skipped"))
        print(f"{one.suite.name:<40} {one.wall:>8.1f} {one.cpu:>8.1f} {counts[0]:>6} {counts[1]:>6} {counts[2]:>7}")
    tests, cpu = sum(len(one.cases) for one in results), sum(one.cpu for one in results)
    print(f"{f'all, after building in {built:.0f} s':<40} {seconds:>8.1f} {cpu:>8.1f} {tests:>6}")
    cases = [(one.suite.name, case) for one in results for case in one.cases]
    print(f"\n=== the {SLOWEST} slowest tests\n")
    for name, case in sorted(cases, key=lambda each: -each[1].seconds)[:SLOWEST]:
        print(f"{case.seconds:>8.1f} s  {name}: {case.name}")
    print("\n=== flaky: failed, and passed when it was run once more\n")
    for one in results:
        for name in one.flaky:
            print(f"  {one.suite.name}: {name}")
    print("\n=== skipped\n")
    for name, case in cases:
        if case.outcome == "skipped":
            print(f"  {name}: {case.name}" + (f": {case.reason}" if case.reason else ""))


def report_failures(failed):
    """Every test that failed with the text of its assertion; the last thing that is printed."""
    print("\n=== FAILED")
    for one in failed:
        cases = [case for case in one.cases if case.outcome == "failed"]
        for case in cases:
            print(f"\n--- {one.suite.name}: {case.name}")
            if case.reason:
                print(textwrap.indent(case.reason, "    "))
        if not any(case.reason for case in cases):
            print(f"\n--- {one.suite.name}: status {one.status}; the end of its output")
            print(textwrap.indent(one.end, "    "))


def environment_of(is_long):
    own = {
        "PILOTLIGHT": GATEWAY,
        "PILOTLIGHT_TUNNEL_CLIENTS": str(ROOT / "target" / "tunnel-clients"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return dict(os.environ) | own | ({"PILOTLIGHT_TEST_FORM": "long"} if is_long else {})


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="the long form")
    parser.add_argument("--only", action="append", metavar="WORD", help="suites whose name contains this")
    parser.add_argument("--list", action="store_true", help="the names of the suites")
    parser.add_argument("--note-slow", action="store_true", help="write tests/slow.txt, after a run of the long form")
    options = parser.parse_args()
    options.chosen = [one for one in suites(options.long) if any(word in one.name for word in options.only or [""])]
    if not options.chosen:
        parser.error(f"no suite's name contains {' or '.join(options.only)}; --list has them")
    return options


def note_slow():
    """From what the last run has left."""
    suites = [suite for suite in every_suite(is_long=True) if suite.junit and suite.name in SIFTED]
    times = [(suite.name, case.name, case.seconds) for suite in suites for case in of_junit(suite.junit)]
    print(f"{slow_tests.FILE}: {slow_tests.write(times)} of {len(times)} tests")
    return 0


def main():
    options = parse()
    if options.list:
        print("\n".join(suite.name for suite in options.chosen))
        return 0
    if options.note_slow:
        return note_slow()
    environment = environment_of(options.long)
    begin = time.monotonic()
    print("=== building", flush=True)
    if any(subprocess.run(build, cwd=ROOT).returncode for build in BUILDS):
        return 1
    built = time.monotonic() - begin
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    results = Run(options.chosen, environment).run()
    report(results, time.monotonic() - begin - built, built)
    failed = [one for one in results if one.status]
    if failed:
        report_failures(failed)
        print(f"\nsuites that failed: {', '.join(one.suite.name for one in failed)}")
    print(f"\n{len(results) - len(failed)} passed, {len(failed)} failed")
    if not options.long:
        print("`make test-all` runs what takes longest as well: tests/slow.txt")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
