#!/usr/bin/python3
"""The benchmark beside peers: builds what it needs, measures in alternating rounds, prints tables and the figures that are wanted."""
import argparse
import importlib
import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import asdict

from harness.lab import Lab
from harness.load import GENERATORS
from harness.paths import ROOT
from harness.program import Failed
from harness.report import figures_table

SECTIONS = ["cached", "pipelined", "proxy", "pipe", "cold", "scaling", "idle", "memory"]
VERSIONS = [["nginx", "-v"], ["haproxy", "-v"], ["/usr/bin/python3", "--version"], ["node", "--version"], ["rustc", "--version"]]


def section_names(text):
    names = text.split(",")
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    return names


def positive(kind):
    def parse(text):
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError("must be more than 0")
        return value
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", type=section_names, default=SECTIONS, metavar="A,B", help=",".join(SECTIONS))
    parser.add_argument("--rounds", type=positive(int), default=3)
    parser.add_argument("--secs", type=positive(float), default=4, help="length of each measurement, seconds")
    parser.add_argument("--generator", choices=GENERATORS, default="cbench", help="load of the sections cached and pipelined")
    parser.add_argument("--upload-gb", type=positive(int), default=10, help="section memory: size of the transfers, 10⁹ bytes")
    parser.add_argument("--json", metavar="FILE", help="writes every sample there")
    return parser.parse_args()


def machine():
    """What the figures depend on."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    facts = {"cpu": models[0] if models else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(),
             "load average": os.getloadavg()[0]}
    for command in VERSIONS:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            facts[os.path.basename(command[0])] = (done.stdout + done.stderr).splitlines()[0]
        except FileNotFoundError:
            facts[command[0]] = "not installed"
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return {**facts, "commit": done.stdout.strip() or "unknown"}


def write_json(path, options, facts, lab):
    document = {"machine": facts, "options": vars(options), "figures": [{**asdict(figure), "met": figure.met} for figure in lab.figures],
                "samples": {name: samples.rounds for name, samples in lab.samples.items()}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)


def main():
    options = parse_arguments()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("bench: the server and the load each need a core of their own; this process may use only one")
    facts = machine()
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
            write_json(options.json, options, facts, lab)
        unmet = [figure for figure in lab.figures if not figure.met]
        print(f"\n{len(lab.figures) - len(unmet)} of {len(lab.figures)} figures met")
    sys.exit(1 if unmet else 0)


if __name__ == "__main__":
    main()
