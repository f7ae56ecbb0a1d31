#!/usr/bin/env python3
"""Compares each block of Rust of docs/from with the source that the comment above it names: compiled code.

    check.py          only that, which takes no time; a part of `make lint`
    check.py --run    also compiles the other clients' side, and runs it on a server of its own: `make check-migration`
"""

import argparse
import re
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PAGES = ("redis-rs.md", "fred.md")
BLOCK = re.compile(r"(?:<!-- (?:theirs|not run): (?P<source>\S+) -->\n)?```rust\n(?P<code>.*?)^```$", re.S | re.M)
LIMIT_OF_RUN_S = 60


def is_in(code, source):
    """Whether the lines are in the source one after the other, whatever they are indented by."""
    lines, wanted = source.split("\n"), code.rstrip("\n").split("\n")
    for at in range(len(lines) - len(wanted) + 1):
        if textwrap.dedent("\n".join(lines[at : at + len(wanted)])) == "\n".join(wanted):
            return True
    return False


def wrong():
    for name in PAGES:
        text = (ROOT / "docs" / "from" / name).read_text()
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            if not block["source"]:
                yield f"docs/from/{name}:{line}: no comment says which source has this"
            elif not is_in(block["code"], (ROOT / block["source"]).read_text()):
                yield f"docs/from/{name}:{line}: this is not in {block['source']}"


def run():
    """The other side, on a server that ends with this."""
    subprocess.run(["cargo", "build", "--quiet", "--locked"], cwd=HERE, check=True)
    sys.path.append(str(ROOT / "tests" / "e2e"))
    from redis_servers import Server

    with closing(Server()) as server:
        subprocess.run([HERE / "target" / "debug" / "migration", server.url], check=True, timeout=LIMIT_OF_RUN_S)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--run", action="store_true", help="compile and run the other clients' side")
    options = parser.parse_args()
    if found := list(wrong()):
        sys.exit("\n".join(found))
    if options.run:
        run()


if __name__ == "__main__":
    main()
