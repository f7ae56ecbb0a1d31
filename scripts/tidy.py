#!/usr/bin/env python3
"""Holds the house tidy: width, size of files and functions, tuples of arguments, circles among modules and among
rooms, arrows between crates, names in tests/slow.txt.

    scripts/tidy.py            what is untidy; exit code 1 if anything is
    scripts/tidy.py --fix      reflows comments of Rust and prose of Markdown to 120 columns
    scripts/tidy.py --accept   writes scripts/tidy.json anew

A tuple of arguments is a function's parameter that is a pattern, `(a, b): (A, B)`; its parts are parameters, or fields
of a struct with a name. Closures may have such parameters.

A room is a top-level module of a crate with all modules below it. `scripts/rust_modules.py crates/NAME/src` prints the
circles of a crate.

`scripts/tidy.json` has what was untidy when this was written: files and functions that are too long, tuples of
arguments, modules and rooms in circles, wide lines of Python. Each number there may shrink, and none may grow; what is
not there has no excuse.
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import reflow
import rust_modules
import slow_tests

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ROOT / "scripts" / "tidy.json"
WIDTH = 120
MAX_FILE = 500  # lines without tests
MAX_FUNCTION = 70  # lines
CRATES = ("crates/*/src", "lab/src", "lab/gate/src", "examples/*/src", "sdk/python/native/src")
MODULES = ("bloom", "json", "search", "time_series", "vector_set")
GENERATED = ("crates/redis/src/commands/typed.rs", "crates/redis/src/commands/spec.rs", "crates/redis/COMMANDS.md") + tuple(
    f"crates/redis/src/commands/modules/{module}.rs" for module in MODULES
)
EXPECTED = re.compile(r"/snapshots/|^crates/redis/tests/.*\.md$")  # what tests compare with
SIGNATURE = re.compile(r"\bfn \w.*?(?:\{|;$)", re.DOTALL | re.MULTILINE)
TUPLE = re.compile(r"[(,]\s*&?\([\w\s,&]+\):")
FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn (\w+)")


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def files(*patterns):
    listed = run("git", "ls-files", *patterns).split("\n")
    ours = (name for name in listed if name and name not in GENERATED and not EXPECTED.search(name))
    return [name for name in ours if (ROOT / name).exists()]


def without_tests(text):
    return rust_modules.TESTS_INLINE.split(text)[0].removesuffix("\n").split("\n")


def wide():
    """Files of which something is too wide, as they are and as they should be. rustfmt does so for code."""
    for patterns, reflowed in (("*.rs", reflow.comments), ("*.md", reflow.markdown)):
        for name in files(patterns):
            lines = (ROOT / name).read_text().split("\n")
            if (better := reflowed(lines, WIDTH)) != lines:
                yield name, lines, better


def functions(lines):
    """Name and length of each function."""
    for at, line in enumerate(lines):
        if (found := FUNCTION.match(line)) and not line.rstrip().endswith(";"):
            is_one_line = line.rstrip().endswith("}")
            end = at if is_one_line else next(i for i in range(at, len(lines)) if lines[i].startswith(found[1] + "}"))
            yield found[2], end - at + 1


def tuples(lines):
    """How many parameters of functions are patterns of tuples."""
    code = "\n".join(line.split("//")[0] for line in lines)
    return sum(len(TUPLE.findall(signature)) for signature in SIGNATURE.findall(code))


def arrows():
    """`a → b` for each dependency of the workspace's crates, and those that ARCHITECTURE.md has."""
    packages = json.loads(run("cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"))["packages"]
    names = {package["name"]: Path(package["manifest_path"]).parent for package in packages}
    crates = {name: folder.name for name, folder in names.items() if folder.parent == ROOT / "crates"}
    real = {
        (crates[dependency["name"]], crates[package["name"]])
        for package in packages
        if package["name"] in crates
        for dependency in package["dependencies"]
        if dependency["name"] in crates and dependency["kind"] is None
    }
    text = (ROOT / "ARCHITECTURE.md").read_text()
    drawn = set()
    for chain in re.findall(r"`([\w\-, ]+(?: → [\w\-, ]+)+)`", text):
        steps = [[name.strip() for name in step.split(",")] for step in chain.split("→")]
        drawn |= {(a, b) for left, right in zip(steps, steps[1:], strict=False) for a in left for b in right}
    inside = set(crates.values())
    return real, {(a, b) for a, b in drawn if a in inside and b in inside}


def circles():
    """Counts the modules, and the rooms, that are in circles: (kind, crate, number)."""
    for folder in sorted(folder for pattern in CRATES for folder in ROOT.glob(pattern)):
        needs = rust_modules.graph(folder)
        crate = str(folder.parent.relative_to(ROOT)).removeprefix("crates/")
        for kind, graph in (("modules in circles", needs), ("rooms in circles", rust_modules.rooms(needs))):
            if found := rust_modules.circles(graph):
                yield kind, crate, sum(map(len, found))


def decisions():
    """The list of decisions against their files: each once, in order, with its number as its title begins."""
    folder = ROOT / "docs" / "adr"
    pages = sorted(page.name for page in folder.glob("[0-9]*.md"))
    listed = re.findall(r"^\| \[\d{4}\]\(([^)]+)\)", (folder / "README.md").read_text(), re.M)
    wrong = [] if listed == pages else ["docs/adr/README.md: not each page once and in order"]
    for page in pages:
        if not (folder / page).read_text().startswith(f"# {page[:4]}: "):
            wrong.append(f"docs/adr/{page}: its title does not begin with `# {page[:4]}: `")
    return wrong


def stale_names():
    """Lists the names in tests/slow.txt that no test has."""
    lines = slow_tests.FILE.read_text().splitlines()
    for suite, test in slow_tests.stale(slow_tests.read()):
        yield f"tests/slow.txt:{lines.index(test) + 1}: no test of [{suite}] has this name (renamed, moved?): {test}"


def stale_classes():
    """Lists the names in LONGEST of tests/e2e/conftest.py that no file or class of the end-to-end tests has."""
    folder = ROOT / "tests" / "e2e"
    for name in re.search(r'LONGEST = """(.*?)"""', (folder / "conftest.py").read_text(), re.S)[1].split():
        file, _, own = name.partition("::")
        text = (folder / file).read_text() if (folder / file).exists() else ""
        if not re.search(rf"^class {own}\b", text, re.M):
            yield f"tests/e2e/conftest.py: no class in tests/e2e has this name (renamed, moved?): {name}"


def look():
    """What is untidy beyond excuse, and what is as it is."""
    wrong = []
    for name, lines, better in wide():
        pairs = enumerate(zip(lines, better, strict=False), 1)
        line = next((at for at, (one, other) in pairs if one != other), len(lines))
        wrong.append(f"{name}:{line}: wider than {WIDTH} columns: scripts/tidy.py --fix")
    known = {"files": {}, "functions": {}, "modules in circles": {}, "rooms in circles": {}}
    known |= {"tuples of arguments": {}, "wide lines of Python": 0}
    for name in files("*.rs"):
        text = (ROOT / name).read_text()
        if name.startswith("fuzz/") or "/tests/" in name or name.endswith("/tests.rs"):
            continue
        if count := tuples(text.split("\n")):
            crate = name.split("/src/")[0].removeprefix("crates/")
            known["tuples of arguments"][crate] = known["tuples of arguments"].get(crate, 0) + count
        code = without_tests(text)
        if len(code) > MAX_FILE:
            known["files"][name] = len(code)
        for function, length in functions(code):
            if length > MAX_FUNCTION:
                known["functions"][f"{name} {function}"] = length
    python = (line for name in files("*.py") for line in (ROOT / name).read_text().split("\n"))
    known["wide lines of Python"] = sum(len(line) > WIDTH for line in python)
    for kind, crate, number in circles():
        known[kind][crate] = number
    real, drawn = arrows()
    wrong += [f"ARCHITECTURE.md: no arrow {a} → {b}, which Cargo.toml has" for a, b in sorted(real - drawn)]
    wrong += [f"ARCHITECTURE.md: an arrow {a} → {b}, which Cargo.toml does not have" for a, b in sorted(drawn - real)]
    wrong += decisions()
    wrong += stale_names()
    wrong += stale_classes()
    return wrong, known


def grown(known, accepted):
    """What is longer, or more, than what was accepted."""
    for kind, now in known.items():
        before = accepted.get(kind, {})
        if not isinstance(now, dict):
            now, before = {kind: now}, {kind: before}
        for name, number in now.items():
            limit = before.get(name, 0) if isinstance(before, dict) else 0
            if number > limit:
                yield f"{kind}: {name}: {number}, where {limit or 'none'} was"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="reflow what is too wide")
    parser.add_argument("--accept", action="store_true", help="write scripts/tidy.json")
    options = parser.parse_args()
    if options.fix:
        for name, _, better in wide():
            (ROOT / name).write_text("\n".join(better))
    wrong, known = look()
    if options.accept:
        KNOWN.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    wrong += grown(known, json.loads(KNOWN.read_text()) if KNOWN.exists() else {})
    print("\n".join(wrong) or "tidy: nothing beyond what scripts/tidy.json has")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
