"""tests/slow.txt: the tests that `make test` leaves out, because each takes long. `make test-all` runs them all.

A heading in brackets is the name of a suite; the lines below it are tests, by the names that scripts/test.py prints.
"""

import re
import tomllib
from pathlib import Path

import tests_in_sources

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "slow.txt"
# Seconds of wall time on two cores, with three other tests running.
LIMITS_S = {"end to end": 1.0, "rust": 1.5}
HEAD = f"""\
# What `make test` leaves out: tests that took longer than {LIMITS_S["end to end"]:g} s (end to end) or {LIMITS_S["rust"]:g} s (Rust). `make test-all` runs them.
# Written by `scripts/test.py --note-slow` after a run of `make test-all`.
"""


def read():
    """The names of the tests of each suite."""
    slow, names = {}, []
    for line in FILE.read_text().splitlines():
        if line.startswith("["):
            names = slow.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            names.append(line)
    return slow


def write(times):
    """`times`: (suite, test, seconds) of each test that ran. Returns the number of tests that were written."""
    slow = {}
    for suite, test, seconds in times:
        if seconds > LIMITS_S[suite]:
            slow.setdefault(suite, set()).add(test)
    sections = ["\n".join([f"[{suite}]", *sorted(names)]) for suite, names in sorted(slow.items())]
    FILE.write_text(HEAD + "".join(f"\n{section}\n" for section in sections))
    return sum(len(names) for names in slow.values())


def stale(slow):
    """Returns (suite, test) for each name that no test in the sources has."""
    named = [(suite, test) for suite, tests in slow.items() for test in tests]
    return [(suite, test) for suite, test in named if not tests_in_sources.exists(suite, test)]


def pytest_words(names):
    """Words for pytest that leave these tests out: `file.Class test` is file.py::Class::test there."""
    parts = [re.match(r"(\w+)(?:\.(\w+))? (.+)", name).groups() for name in names]
    nodes = ["::".join([f"{file}.py", *([own] if own else []), test]) for file, own, test in parts]
    return [word for node in nodes for word in ("--deselect", node)]


def nextest_filter(names):
    """The filter of nextest that leaves these tests out: `crate::program test` is a test of a program there. Only the
    workspace's default members are compiled."""
    members = default_members()
    tests = [name.split(" ", 1) for name in names]
    slow = [(program, test) for program, test in tests if program.split("::")[0] in members]
    return "all()" + "".join(f" - (binary_id(={program}) & test(={test}))" for program, test in slow)


def default_members():
    """Names of the packages that `cargo build` compiles without `--workspace`."""
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["default-members"]
    return {tomllib.loads((ROOT / member / "Cargo.toml").read_text())["package"]["name"] for member in members}
