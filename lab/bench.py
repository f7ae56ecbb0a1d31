#!/usr/bin/python3
"""The benchmark of our own figures: builds what it needs, measures in alternating rounds, prints tables and the figures that are wanted."""
import argparse
import importlib
import os
import signal
import sys

from harness.arguments import names_of, positive
from harness.lab import Lab
from harness.machine import machine
from harness.program import Failed
from harness.report import figures_table

SECTIONS = ["redis_tier", "zygote", "scaling", "isolation", "idle", "memory", "flood"]
VERSIONS = [["nginx", "-v"], ["/usr/bin/python3", "--version"], ["node", "--version"], ["rustc", "--version"]]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", type=names_of("section", SECTIONS), default=SECTIONS, metavar="A,B", help=",".join(SECTIONS))
    parser.add_argument("--rounds", type=positive(int), default=3)
    parser.add_argument("--secs", type=positive(float), default=4, help="length of each measurement, seconds")
    parser.add_argument("--upload-gb", type=positive(int), default=10, help="section memory: size of the transfers, 10⁹ bytes")
    parser.add_argument("--flood-requests", type=positive(int), default=10_000_000, help="section flood: distinct targets with small bodies")
    parser.add_argument("--json", metavar="FILE", help="writes every sample there")
    return parser.parse_args()


def main():
    options = parse_arguments()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("bench: the server and the load each need a core of their own; this process may use only one")
    facts = machine(VERSIONS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended by SIGTERM"))  # so that what was started is stopped
    with Lab(options) as lab:
        try:
            lab.build_all()
        except Failed as error:
            sys.exit(f"bench: {error}")
        print("\n".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
        for name in options.sections:
            importlib.import_module(f"sections.{name}").run(lab)
        print(f"\n**Figures** (median (min–max) over {options.rounds} rounds)\n\n{figures_table(lab.figures)}")
        if options.json:
            lab.write_json(options.json, facts)
        unmet = [figure for figure in lab.figures if not figure.met]
        print(f"\n{len(lab.figures) - len(unmet)} of {len(lab.figures)} figures met")
    sys.exit(1 if unmet else 0)


if __name__ == "__main__":
    main()
