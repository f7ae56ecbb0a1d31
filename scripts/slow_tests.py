"""tests/slow.txt: the tests that `make test` leaves out, because each takes so long. `make test-all` runs them all.

A heading in brackets is the name of a suite; the lines below it are tests, by the names that scripts/test.py prints.
"""

import re
from pathlib import Path

import tests_in_sources

FILE = Path(__file__).resolve().parents[1] / "tests" / "slow.txt"
LIMIT_S = 3.0
HEAD = f"""\
# What `make test` leaves out, as it took longer than {LIMIT_S:g} seconds; `make test-all`, which CI runs, has it all.
# Written by `scripts/test.py --note-slow` after a run of the long form.
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
    """`times`: (suite, test, seconds) of each test that ran."""
    slow = {}
    for suite, test, seconds in times:
        if seconds > LIMIT_S:
            slow.setdefault(suite, set()).add(test)
    sections = ["\n".join([f"[{suite}]", *sorted(names)]) for suite, names in sorted(slow.items())]
    FILE.write_text(HEAD + "".join(f"\n{section}\n" for section in sections))
    return sum(len(names) for names in slow.values())


def stale(slow):
    """Returns (suite, test) for each name that no test in the sources has."""
    named = [(suite, test) for suite, tests in slow.items() for test in tests]
    return [(suite, test) for suite, test in named if not tests_in_sources.exists(suite, test)]


def words_of_pytest(names):
    """`test_file.Class test_name` is test_file.py::Class::test_name there."""
    parts = [re.match(r"(\w+)(?:\.(\w+))? (.+)", name).groups() for name in names]
    nodes = ["::".join([f"{file}.py", *([own] if own else []), test]) for file, own, test in parts]
    return [word for node in nodes for word in ("--deselect", node)]


def words_of_nextest(names):
    """`crate::program test` there is a test of a binary."""
    tests = [name.split(" ", 1) for name in names]
    slow = " + ".join(f"(binary_id(={binary}) & test(={test}))" for binary, test in tests)
    return ["-E", f"not ({slow})"] if slow else []


def words_of_node(names):
    """Node knows only a pattern for the tests that are to run, which the root of a file must not have either."""
    slow = "|".join(re.escape(name) for name in ["<root>", *names]).replace("/", r"\/")
    return [f"--test-name-pattern=/^(?!(?:{slow})$)/"] if slow else []
