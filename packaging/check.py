#!/usr/bin/env python3
"""Refuses a release whose parts disagree: says every place that does not have the version of Cargo.toml; exit code 1
if any.

The version is written in one place, `workspace.package` of Cargo.toml; what has to repeat it is compared with that
here.
"""

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path

import crates
import project


def toml(path):
    return tomllib.loads(path.read_text())


# Where the SDKs without a package here, and what installs the image, repeat the version.
SDKS = {
    "sdk/python/pilotlight/_pipe.py": r'__version__ = "([^"]*)"',
    "sdk/python/native/Cargo.toml": r'^version = "([^"]*)"',
    "sdk/python/native/pyproject.toml": r'^version = "([^"]*)"',
    "sdk/go/conn.go": r'version += "([^"]*)"',
    "sdk/c/pilotlight.c": r"sdk=c/([\d.]+)",
    "sdk/ruby/lib/pilotlight.rb": r'VERSION = "([^"]*)"',
    "sdk/php/pilotlight.php": r"const VERSION = '([^']*)'",
    "sdk/haskell/pilotlight.cabal": r"^version: +(\S+)",
    "sdk/haskell/src/Pilotlight/Service.hs": r"sdk=pilotlight-haskell/([\d.]+)",
    "sdk/java/src/main/java/pilotlight/Link.java": r"sdk=pilotlight-java/([\d.]+)",
    "sdk/dotnet/Pilotlight/Link.cs": r"sdk=pilotlight-dotnet/([\d.]+)",
    "sdk/dotnet/Pilotlight/Pilotlight.csproj": r"<Version>([^<]*)</Version>",
    "sdk/dotnet/AspNetCore/Pilotlight.AspNetCore.csproj": r"<Version>([^<]*)</Version>",
    "sdk/java/pom.xml": r"<version>([^<]*)</version>",
    "packaging/kubernetes/pilotlight.yaml": r"image: localhost/pilotlight-kubernetes:(\S+)",
    "packaging/kubernetes/chart/values.yaml": r"^image: localhost/pilotlight-kubernetes:(\S+)",
    "packaging/kubernetes/chart/Chart.yaml": r"^appVersion: (\S+)",
}


def versions(root):
    """(place, what it says) for each place that repeats the version."""
    workspace = toml(root / "Cargo.toml")["workspace"]
    for name, dependency in workspace["dependencies"].items():
        if "path" in dependency and "version" in dependency:
            yield f"Cargo.toml: {name}", dependency["version"]
    ours = {name for name, dependency in workspace["dependencies"].items() if "path" in dependency}
    for package in toml(root / "Cargo.lock")["package"]:
        if package["name"] in ours | {"pilotlight"} and "source" not in package:
            yield f"Cargo.lock: {package['name']}", package["version"]
    yield "sdk/python/pyproject.toml", toml(root / "sdk/python/pyproject.toml")["project"]["version"]
    yield "sdk/node/package.json", json.loads((root / "sdk/node/package.json").read_text())["version"]
    lock = json.loads((root / "sdk/node/package-lock.json").read_text())
    yield "sdk/node/package-lock.json", lock["version"]
    yield "sdk/node/package-lock.json: packages", lock["packages"][""]["version"]
    for place, pattern in SDKS.items():
        found = re.search(pattern, (root / place).read_text(), re.MULTILINE)
        yield place, found[1] if found else "none"
    heading = re.search(r"^## \[(\d[^]]*)\]", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    yield "CHANGELOG.md: the first heading with a version", heading[1] if heading else "none"


def built(dist):
    """The same of what has been built: recipes and packages in the folder of a release."""
    for name, pattern in (
        ("pilotlight.rb", r'version "([^"]*)"'),
        ("PKGBUILD", r"pkgver=(\S*)"),
        (".SRCINFO", r"pkgver = (\S*)"),
    ):
        if (path := dist / name).exists():
            yield name, re.search(pattern, path.read_text())[1]
    for path in sorted(dist.glob("pilotlight*")):
        if found := re.search(r"\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)[\d.]*)?", path.name):
            yield path.name, found[0]
    for path in sorted(dist.glob("bin/*/pilotlight")):
        try:
            said = project.run(path, "--version").split()[-1]
        except OSError:
            continue  # for another processor
        yield str(path.relative_to(dist)), said
        title = re.search(r"^\.TH .*?(\d+\.\d+\.\d+[^\s\"]*)", project.run(path, "man"), re.MULTILINE)
        yield f"{path.relative_to(dist)}: the manual page", title[1] if title else "none"


def problems(root, dist):
    version = toml(root / "Cargo.toml")["workspace"]["package"]["version"]
    if not re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?", version):
        yield f"Cargo.toml: `{version}` is not a version of SemVer"
    for place, said in [*versions(root), *built(dist)]:
        if said != version:
            yield f"{place}: {said}, and Cargo.toml has {version}"


def unpublished(root):
    """What nobody could download from: names that RFC 2606 keeps for examples."""
    package = toml(root / "Cargo.toml")["workspace"]["package"]
    for key in ("repository", "homepage"):
        if package[key].split("/")[2].endswith(".example"):
            yield f"Cargo.toml: `{key}` is {package[key]}, which is nobody's; name where the project is published"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--root", type=Path, default=project.ROOT)
    parser.add_argument("--dist", type=Path, help="the folder of what has been built [target/dist]")
    parser.add_argument(
        "--publish", action="store_true", help="also what stands in the way of publishing; the tag is vVERSION"
    )
    parser.add_argument("--tag", help="the tag of the release")
    options = parser.parse_args()
    found = list(problems(options.root, options.dist or options.root / "target" / "dist"))
    if options.root == project.ROOT:
        found += crates.wrong(crates.published())
    if options.tag and options.tag != f"v{project.VERSION}":
        found.append(f"the tag is {options.tag}, and Cargo.toml has {project.VERSION}")
    if options.publish:
        found += unpublished(options.root)
    for line in found:
        print(f"release-check: {line}", file=sys.stderr)
    if found:
        sys.exit(1)
    print(f"release-check: {project.VERSION} everywhere")


if __name__ == "__main__":
    main()
