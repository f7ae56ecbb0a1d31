"""What a package has to know of the project: its version, its programs, where they were built, and the time of a
release.
"""

import argparse
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "target" / "dist"
MANIFEST = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
VERSION = MANIFEST["package"]["version"]
REPOSITORY = MANIFEST["package"]["repository"]
HOMEPAGE = MANIFEST["package"]["homepage"]
LICENSE = MANIFEST["package"]["license"]
DESCRIPTION = "A gateway for small services: starts them on the first request, caches, HTTPS by itself"
MAINTAINER = f"The Pilotlight developers <maintainers@{HOMEPAGE.split('/')[2]}>"
GNU, MUSL = "{}-unknown-linux-gnu", "{}-unknown-linux-musl"


def die(text):
    sys.exit(f"packaging: {text}")


def run(*command, **options):
    """The standard output of a command; a failure ends the program with what the command said."""
    done = subprocess.run(
        [str(word) for word in command], text=True, stdout=subprocess.PIPE, **({"cwd": ROOT} | options)
    )
    if done.returncode:
        die(f"`{' '.join(str(word) for word in command)}` failed with {done.returncode}")
    return done.stdout


def epoch():
    """The time that files of a package have: SOURCE_DATE_EPOCH, else that of the last commit."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct"))


def programs(package=None):
    """(program, package of Cargo) for each program, or for each that a kind of package carries."""
    lines = (line.split("#")[0].split() for line in (ROOT / "packaging" / "programs").read_text().splitlines())
    return [(words[0], words[1]) for words in lines if words and (package is None or package in words[2:])]


def binaries():
    """The names of all programs of the workspace."""
    packages = json.loads(run("cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"))["packages"]
    return {target["name"] for package in packages for target in package["targets"] if "bin" in target["kind"]}


def found(folder, package):
    """The paths of the programs that a kind of package carries. Only the gateway has to be there."""
    paths = [folder / name for name, _ in programs(package)]
    if not paths[0].exists():
        die(f"no {paths[0].name} in {folder}: packaging/build.py writes it, or name a folder with --bin-dir")
    return [path for path in paths if path.exists()]


def arguments(text, static=False):
    """The arguments that every script here takes."""
    parser = argparse.ArgumentParser(description=text)
    triple = (MUSL if static else GNU).format(os.uname().machine)
    parser.add_argument("--target", default=triple, help="what the programs were built for [%(default)s]")
    parser.add_argument("--bin-dir", type=Path, help="the folder of the programs, stripped [target/dist/bin/TARGET]")
    parser.add_argument("--out", type=Path, default=DIST, help="where the package is written [%(default)s]")
    return parser


def parsed(parser):
    options = parser.parse_args()
    options.bin_dir = (options.bin_dir or DIST / "bin" / options.target).resolve()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    options.arch = options.target.split("-")[0]
    return options
