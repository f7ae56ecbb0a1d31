#!/usr/bin/env python3
"""Writes the wheel into target/dist: the Python SDK, and the programs as scripts, so that `pip install pilotlight` is
all.

It is for every Python (py3-none): nothing in it is linked with Python. The platform tag is what the programs need: a
static program runs beside every libc, one that is linked with glibc beside the version whose symbols it names and
later ones.
"""

import base64
import hashlib
import re
import subprocess
import tomllib

import archives
import project
from archives import Entry
from project import ROOT

SDK = ROOT / "sdk" / "python"


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


def entries(programs, tag):
    described = tomllib.loads((SDK / "pyproject.toml").read_text())["project"]
    info, data = f"pilotlight-{project.VERSION}.dist-info", f"pilotlight-{project.VERSION}.data"
    scripts = "".join(f"{name} = {where}\n" for name, where in described["scripts"].items())
    yield from (
        Entry(f"pilotlight/{path.name}", path.read_bytes()) for path in sorted((SDK / "pilotlight").glob("*.py"))
    )
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
    options = project.parsed(project.arguments(__doc__.split("\n\n")[0], static=True))
    programs = project.found(options.bin_dir, "wheel")
    tag = platform(programs, options.arch)
    files = list(entries(programs, tag))
    wheel = options.out / f"pilotlight-{project.VERSION}-py3-none-{tag}.whl"
    wheel.write_bytes(archives.zipped([*files, record(files)], project.epoch()))
    print(wheel)


if __name__ == "__main__":
    main()
