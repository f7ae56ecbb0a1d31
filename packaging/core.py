#!/usr/bin/env python3
"""Builds the compiled core of the Python SDK for one target into target/dist/core/TARGET/_native.abi3.so: one module
for CPython 3.10 and every later one.

It is linked with the libc of the target. For musl it needs no library besides: what GCC has for unwinding is linked in.
"""

import os
from pathlib import Path

import build
import project
from project import DIST, ROOT, run

MODULE = "_native.abi3.so"
MANIFEST = ROOT / "sdk" / "python" / "native" / "Cargo.toml"
UNWINDER = "INPUT(-lgcc_eh -lgcc)\n"  # a script of the linker: the static libraries where Rust asks for libgcc_s


def environment(target, target_dir):
    settings = build.environment(target, target_dir)
    if target.endswith("-musl"):
        scripts = target_dir / "unwinder"
        scripts.mkdir(parents=True, exist_ok=True)
        (scripts / "libgcc_s.so").write_text(UNWINDER)
        settings["RUSTFLAGS"] += f" -Ctarget-feature=-crt-static -Lnative={scripts}"
        settings[f"CARGO_TARGET_{target.replace('-', '_').upper()}_LINKER"] = "musl-gcc"
    return settings


def main():
    parser = project.arguments(__doc__.split("\n\n")[0])
    folder = ROOT / "target" / "python-native"
    parser.add_argument("--target-dir", type=Path, default=folder, help="of Cargo [%(default)s]")
    options = parser.parse_args()
    where = ["--target", options.target, "--target-dir", options.target_dir, "--manifest-path", MANIFEST]
    settings = environment(options.target, options.target_dir) | {"PYO3_NO_PYTHON": "1"}
    run("cargo", "build", "--quiet", "--locked", "--release", *where, env=settings)
    module = DIST / "core" / options.target / MODULE
    module.parent.mkdir(parents=True, exist_ok=True)
    built = options.target_dir / options.target / "release" / "lib_native.so"
    run("objcopy", "--strip-unneeded", "--remove-section=.comment", built, module)
    os.chmod(module, 0o644)
    print(f"{module}: {module.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
