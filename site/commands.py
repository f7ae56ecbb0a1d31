#!/usr/bin/env python3
"""Writes docs/commands.md: every command of `pilotlight` as its `--help` describes it.

    site/commands.py [PROGRAM]             target/debug/pilotlight unless said otherwise
    site/commands.py --check [PROGRAM]     exit code 1 if the page is not what it would be
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "commands.md"
# Programs of their own, which have guides; and what every program has.
ELSEWHERE = {"redis", "lab", "kubernetes", "help"}
HEAD = """# Commands

What `pilotlight COMMAND --help` prints; `pilotlight man` writes the same as manual pages. The commands that need a
running gateway find it [like this](guide/operations.md#which-gateway), and every one has
[these exit codes](guide/operations.md#commands-and-exit-codes). `pilotlight redis` has
[guides of its own](guide/redis-client.md), and so have [`pilotlight lab`](../lab/README.md) and
[`pilotlight kubernetes`](guide/kubernetes.md).

This page is made by `make generate`.
"""


def help_of(program, *command):
    settings = {"stdin": subprocess.DEVNULL, "env": os.environ | {"COLUMNS": "120", "NO_COLOR": "1"}}
    settings |= {"capture_output": True, "text": True, "timeout": 30, "check": True}
    done = subprocess.run([program, *command, "--help"], **settings)
    return "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())


def commands(text):
    """The names below `Commands:` of a help."""
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    names = re.findall(r"^  (\S+)", listed[1] if listed else "", re.MULTILINE)
    return [name for name in names if name not in ELSEWHERE]


def sections(program, *command):
    text = help_of(program, *command)
    level = "#" * max(2, len(command) + 1)
    yield f"{level} `{' '.join(('pilotlight', *command))}`\n\n```text\n{text}\n```\n"
    for name in commands(text):
        yield from sections(program, *command, name)


def page(program):
    return "\n".join([HEAD, *sections(program)])


def main():
    arguments = [word for word in sys.argv[1:] if word != "--check"]
    text = page(arguments[0] if arguments else ROOT / "target" / "debug" / "pilotlight")
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit(f"{PAGE.relative_to(ROOT)} is not what the commands say: make generate")


if __name__ == "__main__":
    main()
