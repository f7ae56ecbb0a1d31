"""The suites that scripts/test.py runs: what each needs, and in which ring it is.

Rings: `test` is for each change and needs nothing but Rust, a C compiler, Python and Node; `all` is what CI runs; `release`
is what takes hours or measures. A ring has the suites of the rings before it, but for `release`, which has its own only.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import slow_tests

ROOT = Path(__file__).resolve().parents[1]
PYTHON = str(ROOT / "target" / "venv" / "bin" / "python")
NEXTEST = str(ROOT / "target" / "venv" / "bin" / "cargo-nextest")
GATEWAY = str(ROOT / "target" / "debug" / "pilotlight")
RESULTS = ROOT / "target" / "test-results"
HASKELL = ROOT / "target" / "haskell"
RINGS = ("test", "all", "release")

# Programs that sdk/node runs on, and transcripts that a fetch handler cannot express: trailers, two fields of one name.
NODES = {"node": "node", "deno": f"{ROOT}/target/js/bin/deno run -A", "bun": f"{ROOT}/target/js/bin/bun"}
NOT_BY_FETCH = ("answer-trailers", "shared-echo", "trailers", "echo")
# What makes a JVM start quickly.
JAVA = "-Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# End-to-end tests, and transcripts, mostly wait: for processes to start, for limits to pass, for servers to notice.
AT_ONCE = 4
# Tests in Rust of the ring `all`: many start a cluster of six servers, which do not agree in time where more of them run.
SERVERS_AT_ONCE = 3
# Each transcript of the gateway starts a gateway, which waits nearly all the time.
GATEWAYS_AT_ONCE = 8
# Examples that tests run; cargo builds the others for clippy only.
EXAMPLES = {"test": ("demo", "stub", "enter"), "all": ("demo", "stub", "enter", "report_fixture")}
# Tests in Rust that start servers of Redis.
WITH_REDIS = " + ".join(
    f"(package({name}) & kind({kind}))"
    for name, kind in {
        "pilotlight-acme": "test",
        "pilotlight-cache-redis": "test",
        "pilotlight-redis": "test",
        "pilotlight-redis-tool": "test",
        "pilotlight-testkit": "test",
        "users": "bin",
    }.items()
)
# Files of end-to-end tests that other suites run.
LAB = ("test_lab*.py", "test_users_lab.py")
APART = (*LAB, "test_testssl.py", "test_wordpress.py")


@dataclass
class Suite:
    name: str
    command: list
    folder: Path = ROOT
    ring: str = "all"
    # Programs without which the suite is left out of the ring `test`.
    needs: tuple = ()
    # The file to which the suite writes JUnit's XML; without it, its output has a line for each test.
    junit: Path | None = None
    environment: dict = field(default_factory=dict)
    # Whether no other suite may run at the same time.
    alone: bool = False
    # A change of these files makes a suite of the ring `release` part of `all --base`.
    paths: tuple = ()

    def missing(self):
        return [program for program in self.needs if not shutil.which(program)]


@dataclass
class Build:
    name: str
    command: list
    ring: str = "all"


def builds(ring):
    """What the suites of a ring run. One cargo build has all programs: scripts/one_build.py checks that it has."""
    every = [
        Build("build: workspace", ["cargo", "build", *cargo_words(ring)], "test"),
        Build("build: Python's core", ["sdk/python/native/build.sh"]),
        Build("build: Go", ["sdk/go/build.sh"]),
        Build("build: C", ["sdk/c/build.sh"]),
        Build("build: Java", ["sdk/java/build.sh", "target/java"]),
        Build("build: .NET", ["sdk/dotnet/build-mono.sh", "target/dotnet"]),
        Build("build: Haskell", ["sdk/haskell/build.sh", str(HASKELL)]),
        Build("build: languages of the lab", ["lab/peers/languages/build.sh"], "release"),
    ]
    return [build for build in every if RINGS.index(build.ring) <= RINGS.index(ring)]


def cargo_words(ring):
    members = [] if ring == "test" else ["--workspace"]
    examples = EXAMPLES["test" if ring == "test" else "all"]
    return [*members, "--bins", "--tests", *(word for name in examples for word in ("--example", name))]


def suites(ring):
    """The suites of a ring, those that take longest first: a lane that is free takes the next."""
    every = every_suite(ring)
    if ring == "release":
        return [suite for suite in every if suite.ring == ring]
    return [suite for suite in every if RINGS.index(suite.ring) <= RINGS.index(ring)]


def slug(name):
    return "".join(char if char.isalnum() else " " for char in name.lower()).strip().replace(" ", "-")


def pytest(name, folder, *words, environment=None, **settings):
    """Tests of unittest and pytest; `-p skips` is tests/skips.py."""
    junit = RESULTS / f"{slug(name)}.xml"
    plugins = ["-p", "skips", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:hypothesispytest"]
    command = [PYTHON, "-m", "pytest", "--quiet", *plugins, f"--junitxml={junit}", *words]
    environment = {"PYTHONPATH": str(ROOT / "tests"), **(environment or {})}
    return Suite(name, command, ROOT / folder, junit=junit, environment=environment, **settings)


def node(name, folder, pattern, *words, without=(), environment=None, **settings):
    """Tests of node's own runner: the files that match, but for those named in `without`."""
    junit = RESULTS / f"{slug(name)}.xml"
    reporters = [
        *("--test-reporter=spec", "--test-reporter-destination=stdout"),
        *("--test-reporter=junit", f"--test-reporter-destination={junit}"),
    ]
    files = sorted(str(file) for file in (ROOT / folder).glob(pattern) if file.name not in without)
    command = ["node", "--test", *words, *reporters, *files]
    return Suite(name, command, ROOT / folder, junit=junit, environment=environment or {}, **settings)


def conformance(name, service, megabytes, without=(), **settings):
    """The transcripts of sdk/conformance, played to a service, and the same service behind the gateway."""
    folder = "sdk/conformance"
    left_out = [word for each in without for word in ("--without", each)]
    play = [f"{folder}/run_service.py", "--cmd", service, "--jobs", str(AT_ONCE), *left_out]
    live = [f"{folder}/live.py", "--pilotlight", GATEWAY, "--service", service, "--name", name, *left_out]
    return [
        Suite(f"sdk {name}: transcripts", [PYTHON, *play], **settings),
        Suite(f"sdk {name}: through the gateway", [PYTHON, *live, "--megabytes", str(megabytes)], **settings),
    ]


def of_node(name, megabytes, ring):
    """The Node SDK on one of the programs that run it: both kinds of handlers, and its own tests."""
    command, folder = NODES[name], ROOT / "sdk" / "node"
    own = "sdk node" if name == "node" else f"sdk node on {name}"
    environment = {"SDK_RUNTIME": command}
    return [
        *conformance(name, f"{command} {folder}/demo.js", megabytes, ring=ring),
        *conformance(f"{name} fetch", f"{command} {folder}/demo-fetch.js", megabytes, NOT_BY_FETCH),
        node(own, "sdk/node", "test/*.test.js", "--test-concurrency=3", environment=environment),
    ]


def rust(ring):
    """Tests of the workspace, of which the ring `test` leaves out those of tests/slow.txt."""
    junit = ROOT / "target" / "nextest" / "default" / "junit.xml"
    command = [NEXTEST, "nextest", "run", "--tests"]
    if ring != "test":
        threads = ("--test-threads", str(SERVERS_AT_ONCE))
        return Suite("rust", [*command, "--workspace", *threads], ring="test", junit=junit)
    chosen = slow_tests.nextest_filter(slow_tests.read().get("rust", []))
    if not has_redis():
        chosen = f"({chosen}) - ({WITH_REDIS})"
    return Suite("rust", [*command, "-E", chosen], ring="test", junit=junit, environment={"PROPTEST_CASES": "64"})


def end_to_end(ring):
    words = ["--numprocesses", str(AT_ONCE), *(f"--ignore-glob={name}" for name in APART)]
    if ring == "test":
        words += slow_tests.pytest_words(slow_tests.read().get("end to end", []))
    return pytest("end to end", "tests/e2e", *words, ring="test")


def has_redis():
    names = ("redis-server", "valkey-server")
    return "PILOTLIGHT_REDIS_SERVER" in os.environ or any(shutil.which(name, path=search_path()) for name in names)


def search_path():
    """`PATH`, and at its end the servers of Redis that scripts/setup.sh has installed."""
    return os.pathsep.join([os.environ.get("PATH", ""), str(ROOT / "target" / "redis-servers" / "bin")])


def every_suite(ring):
    megabytes = 16 if ring == "test" else 64
    transcripts = ["sdk/conformance/run_gateway.py", "--pilotlight", GATEWAY, "--jobs", str(GATEWAYS_AT_ONCE)]
    python = f"{ROOT}/sdk/python"
    return [
        end_to_end(ring),
        rust(ring),
        node("pages in a browser", "tests/page", "*.test.mjs", "--test-concurrency=3", without=["wordpress.test.mjs"]),
        Suite("adversary", [PYTHON, "-m", "adversary", "--time", "60"], ROOT / "tests"),
        Suite("rust: examples of the documentation", ["cargo", "test", "--quiet", "--doc", "--workspace"]),
        Suite("gateway: transcripts", [PYTHON, *transcripts], ring="test"),
        *of_node("node", megabytes, "test"),
        *of_node("deno", megabytes, "all"),
        *of_node("bun", megabytes, "all"),
        *conformance("c", f"{ROOT}/target/sdk/c/demo", megabytes),
        *conformance(
            "c with sanitizers", f"{ROOT}/target/sdk/c/demo-checked", megabytes, ring="release", paths=("sdk/c",)
        ),
        *conformance("go", f"{ROOT}/target/sdk/go/demo", megabytes),
        *conformance("python", f"env PILOTLIGHT_PURE=1 {PYTHON} {python}/demo.py", megabytes, ring="test"),
        *conformance("python native", f"{PYTHON} {python}/demo.py", megabytes),
        *conformance("python asgi", f"env PILOTLIGHT_PURE=1 {PYTHON} {python}/demo_asgi.py", megabytes),
        *conformance(
            "python native asgi",
            f"{PYTHON} {python}/demo_asgi.py",
            megabytes,
            ring="release",
            paths=("sdk/python",),
        ),
        *conformance("rust", f"{ROOT}/target/debug/examples/demo", megabytes, ring="test"),
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
        pytest("conformance: its own tests", "sdk/conformance", "tests", ring="test"),
        pytest("make run, as a user would try it", "scripts", "test_demo.py"),
        pytest("scripts", "scripts", "test_tidy.py", ring="test"),
        pytest("crates/redis: its generator", "crates/redis", "codegen", ring="test"),
        Suite("crates for others: their features", [PYTHON, "-B", "scripts/features.py"]),
        # Its responses live for a second.
        Suite("public suite of HTTP cache tests", [PYTHON, "tests/http-cache-tests/run.py"], alone=True),
        *release(),
    ]


def release():
    """What takes long or measures: before a release, or when its files have changed."""
    lab = ("lab", "docs/lab", "docs/figures.md", "tests/e2e/test_lab*", "tests/e2e/test_users_lab.py")
    soak = {"SOAK": "1"}
    return [
        pytest(
            "end to end: the lab",
            "tests/e2e",
            *("--numprocesses", str(AT_ONCE), "--ignore=test_lab_layers.py"),
            *sorted(str(path.relative_to(ROOT / "tests/e2e")) for name in LAB for path in (ROOT / "tests/e2e").glob(name)),
            ring="release",
            paths=lab,
        ),
        # A thousand handshakes in a shell script.
        pytest("end to end: testssl", "tests/e2e", "test_testssl.py", ring="release", paths=("crates/tls",)),
        pytest("end to end: WordPress", "tests/e2e", "test_wordpress.py", ring="release", paths=("crates/cgi",)),
        node("WordPress in a browser", "tests/page", "wordpress.test.mjs", ring="release", paths=("crates/cgi",)),
        pytest("end to end: 1,000 random cycles", "tests/e2e", "test_soak.py", ring="release", environment=soak),
        Suite(
            "crates for others: every feature, aws-lc as well",
            [PYTHON, "-B", "scripts/features.py", "--every"],
            ring="release",
            paths=("crates/redis/Cargo.toml",),
        ),
        # A gateway's instructions are the same each time only if its client is never kept waiting.
        pytest(
            "end to end: instructions and layers",
            "tests/e2e",
            "test_lab_layers.py",
            ring="release",
            alone=True,
            paths=lab,
        ),
        Suite(
            "gate: instructions of every hot path",
            ["target/debug/pilotlight-lab", "gate"],
            ring="release",
            alone=True,
            paths=("lab/gate",),
        ),
    ]
