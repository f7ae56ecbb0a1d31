#!/usr/bin/env python3
"""Builds the programs of a release for one target, stripped, into target/dist/bin/TARGET; their debug information into
target/dist/debug/TARGET.

The bytes do not depend on the folder that they are built in: paths are mapped, and there is no time in them.
"""

import os
import shutil
import tomllib
from pathlib import Path

import project
from project import DIST, ROOT, run


def environment(target, target_dir):
    """Of Cargo: in what compilers write, our folder is /pilotlight, that of its registry /cargo."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    # The last that fits is used, and the folder of what was built may be in ours.
    folders = {ROOT: "/pilotlight", home: "/cargo", target_dir: "/target"}
    rust = [f"--remap-path-prefix={folder}={name}" for folder, name in folders.items()]
    c = [f"-ffile-prefix-map={folder}={name}" for folder, name in folders.items()]
    settings = os.environ | {"SOURCE_DATE_EPOCH": str(project.epoch())}
    settings["RUSTFLAGS"] = " ".join([os.environ.get("RUSTFLAGS", ""), *rust]).strip()
    # A variable of the environment is used in place of the one in .cargo/config.toml.
    ours = tomllib.loads((ROOT / ".cargo" / "config.toml").read_text())["env"]["CFLAGS"]
    settings["CFLAGS"] = " ".join([os.environ.get("CFLAGS", ours), *c])
    if target == project.MUSL.format(os.uname().machine) and shutil.which("musl-gcc"):
        settings[f"CC_{target.replace('-', '_')}"] = "musl-gcc"
    return settings


def strip(built, stripped, debug):
    """The program without debug information and symbols; those into a file apart, which debuggers find by its name."""
    run("objcopy", "--only-keep-debug", built, debug)
    run("objcopy", "--strip-all", "--remove-section=.comment", built, stripped)
    run("objcopy", f"--add-gnu-debuglink={debug}", stripped)


def main():
    parser = project.arguments(__doc__.split("\n\n")[0])
    parser.add_argument("--profile", default="release", help="of Cargo [%(default)s]")
    parser.add_argument("--program", help="only this one")
    parser.add_argument("--package", help="only programs of this kind of package: deb, image, image-kubernetes, wheel, npm")
    parser.add_argument("--target-dir", type=Path, default=ROOT / "target", help="of Cargo [%(default)s]")
    options = project.parsed(parser)
    have = project.binaries()
    wanted = [(name, package) for name, package in project.programs(options.package) if name in have]
    wanted = [one for one in wanted if options.program in (None, one[0])]
    packages = [word for _, package in wanted for word in ("-p", package)]
    if options.target.endswith("-musl"):
        installed = run("rustup", "target", "list", "--installed").split()
        if options.target not in installed:
            run("rustup", "target", "add", options.target)
    where = ["--target", options.target, "--target-dir", options.target_dir, "--profile", options.profile]
    run("cargo", "build", "--quiet", "--locked", *where, *packages, env=environment(options.target, options.target_dir))
    folder = options.target_dir / options.target / {"dev": "debug"}.get(options.profile, options.profile)
    debug = DIST / "debug" / options.target
    for path in (options.bin_dir, debug):
        path.mkdir(parents=True, exist_ok=True)
    for name, _ in wanted:
        strip(folder / name, options.bin_dir / name, debug / f"{name}.debug")
        print(f"{options.bin_dir / name}: {(options.bin_dir / name).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
