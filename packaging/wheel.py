#!/usr/bin/env python3
"""Writes the wheel into target/dist: the Python SDK, and the programs as scripts, so that `pip install pilotlight` is
all.

It is for every Python (py3-none). The platform tag is what the programs need: a static program runs beside every
libc, one that is linked with glibc beside the version whose symbols it names and later ones. The compiled core is a
module for CPython 3.10 and later (abi3), for each libc one; the SDK does without it where it does not load.
"""

import base64
import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import archives
import project
from archives import Entry
from project import DIST, ROOT

SDK = ROOT / "sdk" / "python"
CORES = {project.GNU: "pilotlight/_native.abi3.so", project.MUSL: "pilotlight/_musl/_native.abi3.so"}


def platform(programs, arch):
    """The platform tags that are true of these programs."""
    dynamic = [path for path in programs if "NEEDED" in dumped("-d", path)]
    if not dynamic:
        # No library is needed: the oldest tags that installers know.
        return f"manylinux_2_17_{arch}.manylinux2014_{arch}.musllinux_1_1_{arch}"
    versions = {(2, 17)}
    for path in dynamic:
        said = dumped("-V", path)
        versions |= {(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", said)}
        if "GLIBC_ABI_DT_RELR" in said:
            versions.add((2, 36))  # the first glibc that reads packed relocations
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{arch}"


def dumped(option, path):
    return subprocess.run(["readelf", "--wide", option, path], capture_output=True, text=True, check=True).stdout


def metadata(described):
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {described['name']}",
        f"Version: {project.VERSION}",
        f"Summary: {project.DESCRIPTION}",
        f"Home-page: {project.HOMEPAGE}",
        f"License: {project.LICENSE}",
        f"Requires-Python: {described['requires-python']}",
        *(f"Classifier: {line}" for line in [*described["classifiers"], "Operating System :: POSIX :: Linux"]),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (SDK / "README.md").read_text()


def cores(folder, arch):
    """The compiled cores that packaging/core.py has built for this kind of processor."""
    for target, name in CORES.items():
        if (path := folder / target.format(arch) / "_native.abi3.so").exists():
            yield Entry(name, path.read_bytes(), 0o755)


def entries(programs, tag, compiled):
    described = tomllib.loads((SDK / "pyproject.toml").read_text())["project"]
    info, data = f"pilotlight-{project.VERSION}.dist-info", f"pilotlight-{project.VERSION}.data"
    scripts = "".join(f"{name} = {where}\n" for name, where in described["scripts"].items())
    yield from (
        Entry(f"pilotlight/{path.name}", path.read_bytes()) for path in sorted((SDK / "pilotlight").glob("*.py"))
    )
    yield from compiled
    yield from (Entry(f"{data}/scripts/{path.name}", path.read_bytes(), 0o755) for path in programs)
    tags = "".join(f"Tag: py3-none-{one}\n" for one in tag.split("."))
    wheel = f"Wheel-Version: 1.0\nGenerator: pilotlight\nRoot-Is-Purelib: false\n{tags}"
    yield Entry(f"{info}/METADATA", metadata(described).encode())
    yield Entry(f"{info}/WHEEL", wheel.encode())
    yield Entry(f"{info}/entry_points.txt", f"[console_scripts]\n{scripts}".encode())
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        yield Entry(f"{info}/licenses/{name}", (ROOT / name).read_bytes())


def record(files):
    """The list of files with their sums, as installers check them."""
    name = f"pilotlight-{project.VERSION}.dist-info/RECORD"
    lines = []
    for entry in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(entry.content).digest()).rstrip(b"=").decode()
        lines.append(f"{entry.name},sha256={digest},{len(entry.content)}\n")
    return Entry(name, "".join([*lines, f"{name},,\n"]).encode())


def main():
    parser = project.arguments(__doc__.split("\n\n")[0], static=True)
    parser.add_argument("--core-dir", type=Path, default=DIST / "core", help="of packaging/core.py [%(default)s]")
    options = project.parsed(parser)
    programs = project.found(options.bin_dir, "wheel")
    tag = platform(programs, options.arch)
    compiled = list(cores(options.core_dir, options.arch))
    if not compiled:
        print(f"packaging: no compiled core in {options.core_dir}, the SDK in this wheel is Python", file=sys.stderr)
    files = list(entries(programs, tag, compiled))
    wheel = options.out / f"pilotlight-{project.VERSION}-py3-none-{tag}.whl"
    wheel.write_bytes(archives.zipped([*files, record(files)], project.epoch()))
    print(wheel)


if __name__ == "__main__":
    main()
