#!/usr/bin/env python3
"""A thousand saves under `pilotlight dev` while four clients ask: counts answers, programs that were seen, and what was
no good answer, which fails it.

    tests/soak/saves.py --saves 1000 --pause 0.06

`PILOTLIGHT` names the binary.
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from test_dev import WSGI, Dev, saves_under_load  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saves", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.06, help="seconds between two saves")
    options = parser.parse_args()
    begun = time.monotonic()
    with Dev({"service.py": WSGI % "0"}) as dev:
        answers, wrong = saves_under_load(dev, options.saves, options.pause)
    found = {"saves": options.saves, "seconds": round(time.monotonic() - begun, 1), "answers": len(answers)}
    print(json.dumps(found | {"programs_seen": len(set(answers)), "failed": len(wrong), "first": wrong[:5]}, indent=2))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
