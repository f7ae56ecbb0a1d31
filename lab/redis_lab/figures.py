"""What is wanted of our client, and the tables that show it beside the others."""
from harness.report import ratios, spread

from .variants import OTHER, OURS, floor_of
from .workloads import TITLES

COLUMNS = [("client CPU µs/op", "cpu_us", 2), ("server CPU µs/op", "server_us", 2), ("both", "both_us", 2), ("ops/s", "ops_s", 0),
           ("commands/read", "commands_per_read", 1), ("p50 µs", "p50", 1), ("p99 µs", "p99", 0), ("p99.9 µs", "p999", 0)]

MAX_FLOOR_RATIO = 1.4
MAX_OTHER_RATIO = 0.6
MAX_BATCH_US = 0.9
MAX_P50_RATIO = 1.05


def main_key(workload):
    """What a workload is about: its latency for one caller, else CPU."""
    return "p50" if workload == "w5" else "cpu_us"


def best_other(samples, variants, shape, key):
    """The name of the best other client of this shape, or None."""
    return samples.best([variant.name for variant in variants if variant.kind == OTHER and variant.shape == shape], key)


def print_workload(lab, workload, variants):
    """The table of a workload, best first, with ratios to the floor and to the best other client of the same shape and round."""
    samples = lab.samples[workload]
    key = main_key(workload)
    shapes = {variant.name: variant.shape for variant in variants}

    def against(name, other):
        return spread(ratios(samples.values(name, key), samples.values(other, key)))

    def sorting(name):
        median = samples.median(name, key)
        return (median is None, median or 0)

    ratio_of = "p50" if key == "p50" else "CPU"
    columns = [*COLUMNS,
               (f"{ratio_of} × floor", lambda name: against(name, floor_of(shapes[name], workload))),
               (f"{ratio_of} × best other", lambda name: against(name, best_other(samples, variants, shapes[name], key))),
               ("errors", lambda name: f"{samples.errors(name):,.0f}")]
    lab.print_table(f"**{TITLES[workload]}**", samples, columns, sorted(samples.rounds, key=sorting))


def add_figures(lab, workload, variants):
    """The figures that this run can show: those of our variants that it measured."""
    samples = lab.samples[workload]
    for variant in variants:
        if variant.kind == OURS and workload in variant.workloads:
            for what, limit, unit, values, note in wanted(samples, workload, variant, variants):
                lab.figure(f"{workload}, {variant.name}: {what}", limit, unit, values, note, samples.errors(variant.name))


def wanted(samples, workload, variant, variants):
    """`(what, limit, unit, values, note)` of each figure of one of our variants."""
    key = main_key(workload)
    values = samples.values(variant.name, key)
    if workload == "w2":
        return [("client CPU", MAX_BATCH_US, " µs", values, "")]
    floor = floor_of(variant.shape, workload)
    to_floor = ratios(values, samples.values(floor, key))
    if workload == "w5":
        return [("p50 / floor", MAX_P50_RATIO, "×", to_floor, floor)]
    other = best_other(samples, variants, variant.shape, key)
    to_other = ratios(values, samples.values(other, key))
    return [("CPU / floor", MAX_FLOOR_RATIO, "×", to_floor, floor),
            ("CPU / best other", MAX_OTHER_RATIO, "×", to_other, other or "none measured")]
