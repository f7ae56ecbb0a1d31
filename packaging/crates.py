#!/usr/bin/env python3
"""Packs the crates that are meant for others, and those that they need, into target/package.

Each is compiled as its users would get it, unless --no-verify says that this was done elsewhere.
"""

import argparse
import json

import project
from project import run

# The crates that people name; the rest is what `pilotlight` consists of.
PUBLIC = (
    "pilotlight",
    "pilotlight-redis",
    "pilotlight-redis-pools",
    "pilotlight-resp",
    "pilotlight-pipe",
    "pilotlight-http1",
    "pilotlight-cache",
)
WANTED = ("description", "license", "readme", "repository", "homepage", "keywords", "categories")


def published():
    """The packages of the workspace that may be published, as `cargo metadata` describes them."""
    packages = json.loads(run("cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"))["packages"]
    return {package["name"]: package for package in packages if package["publish"] is None}


def wrong(packages):
    """What is missing, or would make the registry refuse a crate."""
    yield from (f"{name} is not a crate that may be published" for name in PUBLIC if name not in packages)
    for name, package in sorted(packages.items()):
        yield from (f"{name} has no {key}" for key in WANTED if not package[key])
        if package["version"] != project.VERSION:
            yield f"{name} has version {package['version']}, the workspace {project.VERSION}"
        for dependency in package["dependencies"]:
            if dependency.get("path") and dependency["kind"] != "dev":
                if dependency["name"] not in packages:
                    yield f"{name} needs {dependency['name']}, which is not published"
                elif dependency["req"] != f"^{project.VERSION}":
                    yield f"{name} needs {dependency['name']} {dependency['req']}, the workspace has {project.VERSION}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--no-verify", action="store_true", help="do not compile them")
    parser.add_argument("--list", action="store_true", help="print what is packed, and pack nothing")
    parser.add_argument("--allow-dirty", action="store_true", help="also if something is not committed")
    options = parser.parse_args()
    packages = published()
    if said := list(wrong(packages)):
        project.die("\n  ".join(said))
    if options.list:
        print("\n".join(sorted(packages)))
        return
    names = [word for name in sorted(packages) for word in ("--package", name)]
    flags = [f"--{key.replace('_', '-')}" for key in ("no_verify", "allow_dirty") if getattr(options, key)]
    run("cargo", "package", "--quiet", "--locked", *flags, *names)
    for name in sorted(packages):
        path = project.ROOT / "target" / "package" / f"{name}-{project.VERSION}.crate"
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
