#!/usr/bin/python3
"""The benchmark of our own figures: builds what it needs, measures in alternating rounds, prints tables and the figures that are wanted, and
writes report.json, which `pilotlight lab show` and `pilotlight lab figures` read."""
import argparse
import importlib
import os
import signal
import sys

from harness.arguments import add_common, names_of, positive
from harness.document import Run, write
from harness.lab import Lab
from harness.machine import version
from harness.paths import GATEWAY_BIN, PYTHON
from harness.program import Failed
from harness.report import figures_table

SECTIONS = ["redis_tier", "gateways", "turns", "zygote", "scaling", "isolation", "idle", "memory", "chunks", "flood"]
VERSIONS = {"rustc": ["rustc", "--version"], "Python": [PYTHON, "--version"], "nginx": ["nginx", "-v"], "redis-server": ["redis-server", "--version"]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", type=names_of("section", SECTIONS), default=SECTIONS, metavar="A,B", help=",".join(SECTIONS))
    add_common(parser, "bench", rounds=3, secs=4)
    parser.add_argument("--upload-gb", type=positive(int), default=10, help="section memory: size of the transfers, 10⁹ bytes")
    parser.add_argument("--flood-requests", type=positive(int), default=10_000_000, help="section flood: distinct targets with small bodies")
    return parser.parse_args()


def software(section):
    """Versions of what a section measures with; what is not installed takes no part."""
    versions = {name: version(VERSIONS[name]) for name in ["rustc", *section.PROGRAMS]}
    return [{"name": name, "version": text, "settings": []} for name, text in versions.items() if text]


def main():
    options = parse_arguments()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("bench: the server and the load each need a core of their own; this process may use only one")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended by SIGTERM"))  # so that what was started is stopped
    with Lab(options) as lab:
        try:
            sections = {name: importlib.import_module(f"sections.{name}") for name in options.sections}
            lab.build_all(peers=any(getattr(section, "NEEDS_PEERS", True) for section in sections.values()))
            lab.require("pilotlight", GATEWAY_BIN)
        except Failed as error:
            sys.exit(f"bench: {error}")
        run = Run(sys.argv, lab.note)
        for name, section in sections.items():
            lab.experiment(name.replace("_", "-"), section.TITLE, section.HYPOTHESIS, software(section))
            section.run(lab)
        print(f"\nFigures (median (min–max) over {options.rounds} rounds)\n\n{figures_table(lab.figures)}")
        print(f"\nwritten: {write(options.out, run.document(lab.experiments))}")
        met = sum(figure.met is True for figure in lab.figures)
        print(f"{met} of {len(lab.figures)} figures met")
    sys.exit(0 if all(experiment.complete for experiment in lab.experiments) else 1)


if __name__ == "__main__":
    main()
