"""`python -m adversary --seed N --time SECONDS [--only PART …]`: every part in turn; exit 1 if anything is wrong."""

import argparse
import importlib
import random
import sys
import traceback

from harness import BINARY

from .report import Report, as_json, table

# part -> module, its share of the time
PARTS = {
    "clients": ("clients", 4),
    "streams": ("streams", 2),
    "services": ("services", 3),
    "neighbours": ("neighbours", 2),
    "two-users": ("two_users", 2),
    "lifecycle": ("lifecycle", 4),
    "redis": ("redis_moods", 4),
    "coherence": ("coherence", 2),
    "disk": ("disk", 2),
    "soak": ("soak", 3),
}  # fmt: skip


def main():
    arguments = parse()
    if not BINARY.exists():
        print(f"no gateway at {BINARY}: build it with `cargo build -p pilotlight -p users`, or set PILOTLIGHT", file=sys.stderr)
        return 2
    seed = arguments.seed or random.SystemRandom().randrange(1, 1 << 30)
    chosen = arguments.only or list(PARTS)
    print(f"adversary: seed {seed}, {arguments.time:g} s, {BINARY}", file=sys.stderr, flush=True)
    shares = sum(PARTS[name][1] for name in chosen)
    reports = []
    for name in chosen:
        module, share = PARTS[name]
        report = Report(name, seed)
        try:
            importlib.import_module(f"adversary.{module}").run(seed, arguments.time * share / shares, report)
        except Exception:
            report.wrong("unexplained", "end", "the part itself failed:\n" + traceback.format_exc())
        report.end()
        reports.append(report)
    print(as_json(seed, reports) if arguments.json else table(reports))
    for report in reports:
        for note in report.notes:
            print(f"note: {report.part}: {note}", file=sys.stderr)
    return 0 if all(report.clean for report in reports) else 1


def parse():
    parser = argparse.ArgumentParser(prog="adversary", description="seeded attacks on a real gateway")
    parser.add_argument("--seed", type=int, help="repeats a run; without it one is chosen and printed")
    parser.add_argument("--time", type=float, default=600.0, help="seconds for all parts together (600); short: 60")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="this part alone; may be given several times")
    parser.add_argument("--json", action="store_true", help="the result as JSON on the standard output")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
