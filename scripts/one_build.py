#!/usr/bin/env python3
"""Checks that nothing is compiled twice for the tests: each unit that nextest's build wants is one of the build before it.

cargo's unit graph says for each compilation the package, target, profile and features. The graph is an unstable option of
cargo, which the stable one accepts with RUSTC_BOOTSTRAP.
"""

import json
import os
import subprocess
import sys
from collections import Counter

import suites


def units(*words):
    """What cargo would compile: package, target, mode, profile, features."""
    command = ["cargo", *words, "--unit-graph", "-Z", "unstable-options"]
    environment = os.environ | {"RUSTC_BOOTSTRAP": "1"}
    done = subprocess.run(command, cwd=suites.ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    return [key(unit) for unit in json.loads(done.stdout)["units"]]


def key(unit):
    # The profiles `dev` and `test` are the same but for their name.
    profile = {name: value for name, value in unit["profile"].items() if name != "name"}
    target = unit["target"]
    package = unit["pkg_id"].removeprefix("registry+").split("/")[-1]
    return (package, target["name"], *target["kind"], unit["mode"], json.dumps(profile), *unit["features"])


def compiled_twice(built):
    """Crates of ours that one build compiles more than once. Others are, where a procedural macro needs them."""
    libraries = Counter(unit[:2] for unit in built if unit[2] == "lib" and unit[3] == "build" and is_ours(unit))
    return [library for library, count in libraries.items() if count > 1]


def is_ours(unit):
    return not unit[0].startswith("crates.io-index")


def main():
    wrong = []
    for ring, members in (("test", []), ("all", ["--workspace"])):
        built = units("build", *suites.cargo_words(ring))
        tested = units("test", "--no-run", "--tests", *members)
        wrong += [f"ring {ring}: the tests want another build of {describe(unit)}" for unit in sorted(set(tested) - set(built))]
        wrong += [f"compiled twice: {describe(unit)}" for unit in compiled_twice(built)]
        programs = [unit for unit in built if unit[2] in ("test", "example") or "test" in unit[3:5]]
        print(f"ring {ring}: {len(built)} units, {len(programs)} test and example programs")
    print("\n".join(wrong) or "one build: the tests run what the build makes")
    sys.exit(bool(wrong))


def describe(unit):
    return " ".join(part for part in unit if not part.startswith("{"))


if __name__ == "__main__":
    main()
