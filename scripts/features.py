#!/usr/bin/env python3
"""Checks published crates with each of their features alone, with none, and with all; and that none of them needs std
where it says so. A warning is a failure.

    features.py             with the compiler at hand, without what compiles aws-lc, which is minutes of C
    features.py --every     the same with aws-lc
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
# Features whose C takes minutes to compile.
DEAR = {"tls-aws-lc-rs"}
BARE_TARGET = "thumbv7em-none-eabihf"
OLDEST = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]


def features():
    """The features of each crate of the workspace."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return {package["name"]: sorted(package["features"]) for package in json.loads(done.stdout)["packages"]}


def combinations(names, every):
    """Words for cargo: no feature, each alone, all. `default` is what is there anyway; aws-lc only with `every`."""
    alone = [name for name in names if name != "default" and (every or name not in DEAR)]
    if not alone:
        return [()]
    none = ("--no-default-features",)
    return [none, *((*none, "--features", name) for name in alone), of_all(names, every)]


def of_all(names, every):
    if every or not DEAR & set(names):
        return ("--all-features",)
    return ("--features", ",".join(name for name in names if name not in DEAR))


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


def all_features(every):
    known = features()
    for name in CRATES:
        for words in combinations(known[name], every):
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
    parser.add_argument("--every", action="store_true", help="aws-lc as well")
    options = parser.parse_args()
    results = list(with_oldest() if options.oldest else all_features(options.every))
    if not all(results):
        sys.exit(f"features: {results.count(False)} of {len(results)} combinations failed")


if __name__ == "__main__":
    main()
