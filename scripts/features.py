#!/usr/bin/env python3
"""Checks published crates with each of their features alone, with none, and with all; and that none of them needs std
where it says so. A warning is a failure.

    features.py             with the compiler at hand
    features.py --oldest    with the Rust that `rust-version` names, the default and all features only; it is installed
                            by rustup below target-tools. Crates without std are compiled for a processor without any.
"""

import argparse
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Shared with scripts/public_api.py.
TARGET = ROOT / "target" / "features"
CRATES = ("pilotlight-redis", "pilotlight-resp", "pilotlight-pipe", "pilotlight-redis-pools")
# Those that need an allocator only: a program without std, and what has none by itself.
WITHOUT_STD = {"pilotlight-resp": ROOT / "crates" / "resp" / "tests" / "no_std" / "Cargo.toml"}
BARE_TARGET = "thumbv7em-none-eabihf"
OLDEST = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]


def features():
    """The features of each crate of the workspace."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return {package["name"]: sorted(package["features"]) for package in json.loads(done.stdout)["packages"]}


def combinations(names):
    """Words for cargo: no feature, each alone, all. `default` is what is there anyway."""
    alone = [name for name in names if name != "default"]
    if not alone:
        return [()]
    none = ("--no-default-features",)
    return [none, *((*none, "--features", name) for name in alone), ("--all-features",)]


def check(title, words, environment=None):
    """Whether cargo has nothing to say against it."""
    command = ["cargo", *words, "--quiet", "--target-dir", str(TARGET)]
    options = {"cwd": ROOT, "env": os.environ | (environment or {}), "text": True}
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False, **options)
    is_good = done.returncode == 0 and "warning" not in done.stderr
    print(f"{'ok  ' if is_good else 'FAIL'} {title}", flush=True)
    if not is_good:
        print(done.stderr, flush=True)
    return is_good


def all_features():
    known = features()
    for name in CRATES:
        for words in combinations(known[name]):
            yield check(f"{name} {' '.join(words)}", ["check", "--lib", "--package", name, *words])
    for name, manifest in WITHOUT_STD.items():
        yield check(f"{name} in a program without std", ["check", "--manifest-path", str(manifest)])


def with_oldest():
    home = {"RUSTUP_HOME": str(ROOT / "target-tools" / "rustup"), "RUSTUP_TOOLCHAIN": OLDEST}
    options = ["--profile", "minimal", "--no-self-update", "--target", BARE_TARGET]
    install = ["rustup", "toolchain", "install", OLDEST, *options]
    if subprocess.run(install, env=os.environ | home, check=False).returncode:
        sys.exit(f"features: Rust {OLDEST} could not be installed; it comes from static.rust-lang.org")
    for name in CRATES:
        for words in ((), ("--all-features",)):
            title = f"{name} {' '.join(words)} with Rust {OLDEST}"
            yield check(title, ["check", "--lib", "--package", name, *words], home)
    for name in WITHOUT_STD:
        words = ["check", "--lib", "--package", name, "--target", BARE_TARGET]
        yield check(f"{name} for {BARE_TARGET} with Rust {OLDEST}", words, home)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--oldest", action="store_true", help="with the Rust that `rust-version` names")
    results = list(with_oldest() if parser.parse_args().oldest else all_features())
    if not all(results):
        sys.exit(f"features: {results.count(False)} of {len(results)} combinations failed")


if __name__ == "__main__":
    main()
