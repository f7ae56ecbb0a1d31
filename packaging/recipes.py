#!/usr/bin/env python3
"""Writes the source archive of this commit into target/dist, and what Homebrew and Arch need to build a package of
it, from packaging/templates.
"""

import argparse
import subprocess

import archives
import project
from project import DIST, ROOT, VERSION

RECIPES = ("pilotlight.rb", "PKGBUILD", ".SRCINFO")


def source():
    """The files of the last commit, as an archive whose bytes are the same wherever it is made."""
    prefix = f"--prefix=pilotlight-{VERSION}/"
    command = ["git", "archive", "--format=tar", f"--mtime=@{project.epoch()}", prefix, "HEAD"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:  # git before 2.42 takes the time of the commit, which is the same one
        done = subprocess.run(
            [word for word in command if "mtime" not in word], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
    return archives.gz(done.stdout)


def rendered(name, words):
    text = (ROOT / "packaging" / "templates" / f"{name.strip('.')}.in").read_text()
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("recipe", nargs="*", metavar="RECIPE", help=f"of {', '.join(RECIPES)} [all]")
    parser.add_argument("--out", type=project.Path, default=DIST)
    options = parser.parse_args()
    if unknown := set(options.recipe) - set(RECIPES):
        project.die(f"there is no recipe {', '.join(unknown)}")
    options.out.mkdir(parents=True, exist_ok=True)
    archive = options.out / f"pilotlight-{VERSION}.tar.gz"
    archive.write_bytes(source())
    words = {
        "version": VERSION,
        "description": project.DESCRIPTION,
        "homepage": project.HOMEPAGE,
        "maintainer": project.MAINTAINER,
        "url": f"{project.REPOSITORY}/releases/download/v{VERSION}/{archive.name}",
        "sha256": archives.sha256(archive.read_bytes()),
    }
    for name in options.recipe or RECIPES:
        (options.out / name).write_text(rendered(name, words))
        print(options.out / name)


if __name__ == "__main__":
    main()
