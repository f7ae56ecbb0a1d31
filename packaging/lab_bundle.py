#!/usr/bin/env python3
"""Packs the lab as a folder that runs on a machine without Rust: the programs, the peers as sources and as far as they
are built, the SDKs, and a script that builds what other languages the machine has.

    packaging/lab_bundle.py --bin-dir target/release    target/dist/pilotlight-lab-VERSION-ARCH.tar.gz
"""

import gzip
import shutil
import tempfile
from pathlib import Path

import archives
import project
from project import ROOT, VERSION, run

PROGRAMS = ("pilotlight", "pilotlight-lab", "users")
SOURCES = ("lab/peers", "lab/setup.sh", "sdk", "LICENSE-APACHE", "LICENSE-MIT")
# What Cargo has built: its programs alone, from the folder of their profile.
CARGO = (
    "lab/peers/factors/target/release",
    "lab/peers/http/target/release",
    "lab/peers/proxyfloor/target/release",
    "target/lab-peers-redis/rust/release",
)
# What other compilers have built, without what they leave beside it.
BUILT = ("lab/peers/rest/target", "lab/peers/languages/target", "target/lab-peers-redis")
LEFT_OUT = {"rust", "objects", "haskell-objects", "artifacts", "dotnet-artifacts"}


def copy(path, folder):
    """A file at its place below `folder`."""
    to = folder / path.relative_to(ROOT)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, to, follow_symlinks=False)


def sources():
    return [ROOT / name for name in run("git", "ls-files", "--", *SOURCES).splitlines()]


def built():
    for folder in CARGO:
        for path in (ROOT / folder).glob("*"):
            if path.is_file() and path.stat().st_mode & 0o100 and path.suffix not in (".d", ".so", ".rlib"):
                yield path
    for folder in BUILT:
        for path in (ROOT / folder).rglob("*"):
            parts = path.relative_to(ROOT / folder).parts
            if not LEFT_OUT & set(parts[:-1]) and (path.is_file() or path.is_symlink()):
                yield path


def main():
    parser = project.arguments(__doc__.split("\n\n")[0])
    options = project.parsed(parser)
    name = f"pilotlight-lab-{VERSION}-{options.arch}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "bin").mkdir()
        for program in PROGRAMS:
            if not (options.bin_dir / program).exists():
                project.die(f"no {program} in {options.bin_dir}: build it, or name a folder with --bin-dir")
            run("objcopy", "--strip-all", options.bin_dir / program, folder / "bin" / program)
        for path in [*sources(), *built()]:
            copy(path, folder)
        shutil.copy2(ROOT / "lab" / "bundle.md", folder / "README.md")
        packed = archives.tar(archives.tree(folder), project.epoch(), f"{name}/")
        data = gzip.compress(packed, 6, mtime=0)  # programs hardly shrink further
    written = options.out / f"{name}.tar.gz"
    written.write_bytes(data)
    print(f"{written}: {len(data) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
