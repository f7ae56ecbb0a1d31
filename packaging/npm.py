#!/usr/bin/env python3
"""Writes the packages of npm into target/dist: `pilotlight`, which is the SDK and a command, and `@pilotlight/linux-
CPU`, which has the programs. The first names the second as optional, so that npm installs the one that fits.

The programs are static: one package is right for every libc.
"""

import json

import archives
import project
from archives import Entry
from project import ROOT, VERSION

SDK = ROOT / "sdk" / "node"
CPUS = {"x86_64": "x64", "aarch64": "arm64"}


def described(name, **more):
    """What both packages say of themselves."""
    base = {"name": name, "version": VERSION, "license": project.LICENSE, "homepage": project.HOMEPAGE}
    return base | {"repository": {"type": "git", "url": project.REPOSITORY}} | more


def manifest(content):
    return Entry("package.json", (json.dumps(content, indent=2) + "\n").encode())


def platform_package(programs, cpu):
    files = [Entry(f"bin/{path.name}", path.read_bytes(), 0o755) for path in programs]
    text = f"The programs of Pilotlight for Linux on {cpu}; the package `pilotlight` installs them.\n"
    about = described(f"@pilotlight/linux-{cpu}", description=text.strip(), os=["linux"], cpu=[cpu], files=["bin/"])
    return [manifest(about), Entry("README.md", text.encode()), *files]


def main_package():
    own = json.loads((SDK / "package.json").read_text())
    if own["version"] != VERSION:
        project.die(f"sdk/node/package.json has version {own['version']}, the workspace {VERSION}")
    kept = {key: own[key] for key in ("type", "main", "types", "exports", "files", "engines", "bin")}
    platforms = {f"@pilotlight/linux-{cpu}": VERSION for cpu in CPUS.values()}
    about = described("pilotlight", description=project.DESCRIPTION, **kept, optionalDependencies=platforms)
    names = ["index.js", "index.d.ts", "README.md"]
    names += sorted(str(path.relative_to(SDK)) for folder in ("bin", "lib") for path in (SDK / folder).glob("*.js"))
    files = [Entry(name, (SDK / name).read_bytes(), 0o755 if name.startswith("bin/") else 0o644) for name in names]
    return [manifest(about), *files]


def written(out, name, files):
    files += [Entry(name, (ROOT / name).read_bytes()) for name in ("LICENSE-APACHE", "LICENSE-MIT")]
    path = out / f"{name}-{VERSION}.tgz"
    path.write_bytes(archives.gz(archives.tar(files, project.epoch(), "package/")))
    print(path)


def main():
    options = project.parsed(project.arguments(__doc__.split("\n\n")[0], static=True))
    programs, cpu = project.found(options.bin_dir, "npm"), CPUS[options.arch]
    written(options.out, f"pilotlight-linux-{cpu}", platform_package(programs, cpu))
    written(options.out, "pilotlight", main_package())


if __name__ == "__main__":
    main()
