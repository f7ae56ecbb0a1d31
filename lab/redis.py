#!/usr/bin/python3
"""Pilotlight's Redis client beside others and beside bare loops: builds what can be built here, starts a cluster of five primaries, measures
in alternating rounds, prints tables and the figures that are wanted."""
import argparse
import os
import signal
import sys
from functools import partial

from harness.arguments import names_of, positive
from harness.lab import Lab
from harness.machine import machine
from harness.paths import REDIS_OUTPUT
from harness.program import Failed
from harness.report import figures_table
from redis_lab.builds import build_all
from redis_lab.cluster import Cluster
from redis_lab.figures import add_figures, print_workload
from redis_lab.measure import fill_for_benchmark, measure
from redis_lab.variants import PILOTLIGHT, REDIS_BENCHMARK, RUST, VARIANTS
from redis_lab.workloads import WORKLOADS

VERSIONS = [["redis-server", "--version"], ["rustc", "--version"], ["go", "version"], ["java", "--version"], ["node", "--version"]]
SHOWN = ["cpu_us", "server_us", "ops_s", "p50", "p99", "errors"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=positive(int), default=3)
    parser.add_argument("--secs", type=positive(float), default=5, help="length of each measurement, seconds")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="A,B", help="variants whose name contains one of these")
    parser.add_argument("--work", type=names_of("workload", WORKLOADS), default=WORKLOADS, metavar="W1,W2", help=",".join(WORKLOADS))
    parser.add_argument("--rust-only", action="store_true", help="only the programs in Rust")
    parser.add_argument("--json", metavar="FILE", default=REDIS_OUTPUT / "report.json", help="every sample (default: %(default)s)")
    return parser.parse_args()


def chosen(options):
    """The variants that the arguments ask for."""
    variants = [variant for variant in VARIANTS if set(variant.workloads) & set(options.work)]
    if options.rust_only:
        variants = [variant for variant in variants if variant.build in (RUST, PILOTLIGHT)]
    if options.only:
        variants = [variant for variant in variants if any(part in variant.name for part in options.only)]
    return variants


def build(lab, variants):
    """Returns the variants that can be measured, and says which cannot."""
    skipped = build_all(lab, variants)
    missing = {**skipped, **lab.build_errors}
    for name, reason in missing.items():
        left_out = ", ".join(variant.name for variant in variants if variant.build == name)
        print(f"{'SKIPPED' if name in skipped else 'NOT BUILT'} {left_out}: {reason}", flush=True)
    return [variant for variant in variants if variant.build not in missing]


def run_rounds(lab, cluster, variants):
    options = lab.options
    log = lab.scratch / "log"
    if any(variant.build == REDIS_BENCHMARK for variant in variants):
        lab.note("filling the cluster with the keys of redis-benchmark")
        fill_for_benchmark(cluster, log)
    for number in range(options.rounds):
        for workload in options.work:
            functions = {variant.name: partial(measure, cluster, variant, workload, options.secs, log)
                         for variant in variants if workload in variant.workloads}
            if functions:
                lab.run_round(workload, functions, number, SHOWN)


def measurements(options, variants):
    """How many, and about how many seconds they take together."""
    times = [variant.warm_up_seconds + options.secs + 0.5 for variant in variants for workload in options.work if workload in variant.workloads]
    return options.rounds * len(times), options.rounds * sum(times)


def print_results(lab, variants):
    measured = [workload for workload in lab.options.work if workload in lab.samples]
    for workload in measured:
        print_workload(lab, workload, variants)
        add_figures(lab, workload, variants)
    if lab.figures:
        print(f"\n**Figures** (median (min–max) over {lab.options.rounds} rounds)\n\n{figures_table(lab.figures)}")


def problems(lab):
    """Everything that makes the run a failure, a line each."""
    lines = [f"{build}: not built" for build in lab.build_errors]
    for workload, samples in lab.samples.items():
        for name, rounds in samples.rounds.items():
            if None in rounds:
                lines.append(f"{workload}, {name}: {rounds.count(None)} of {len(rounds)} rounds failed")
            if samples.errors(name):
                lines.append(f"{workload}, {name}: {samples.errors(name):,.0f} errors")
    unmet = [figure for figure in lab.figures if not figure.met]
    if unmet:
        lines.append(f"{len(unmet)} of {len(lab.figures)} figures not met")
    return lines


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("redis: ended by SIGTERM"))  # so that what was started is stopped
    os.makedirs(REDIS_OUTPUT, exist_ok=True)
    facts = machine(VERSIONS)
    with Lab(options) as lab:
        try:
            variants = build(lab, chosen(options))
            if not variants:
                sys.exit("redis: nothing to measure")
            print("\n".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
            lab.note("starting and filling the cluster")
            with Cluster(lab) as cluster:
                cluster.fill()
                count, seconds = measurements(options, variants)
                lab.note(f"{count} measurements, about {seconds / 60:.0f} minutes")
                run_rounds(lab, cluster, variants)
        except Failed as error:
            sys.exit(f"redis: {error}")
        print_results(lab, variants)
        lab.write_json(options.json, facts)
        found = problems(lab)
    print(f"\nwritten: {os.path.relpath(options.json)}\n" + "\n".join(found or ["no errors"]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
