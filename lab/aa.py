#!/usr/bin/env python3
"""Whether verdicts can be believed: `pilotlight lab equals --quick`, many times.

Each run has two equal servers, started apart (a verdict of a difference between them is wrong), a control, and a server that
really does 5 % more work (no verdict `more` is a miss). Prints a line for each run and the counts.

    lab/aa.py target/release/pilotlight [--runs 20] [--noisy-anyway] [--rounds N] [--secs S]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

RUN_LIMIT = 600


def run(program, seed, arguments, folder):
    command = [program, "lab", "equals", "--quick", "--json", "--seed", str(seed), "--out", folder, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT)
    if not done.stdout:
        sys.exit(f"{' '.join(command)} printed no report: {done.stderr}")
    return json.loads(done.stdout)


def shown(comparison):
    value = comparison["value"]
    interval = f"{value['median']:.3f} ({value['low']:.3f}-{value['high']:.3f})" if value else "-"
    return f"{interval} {comparison['verdict']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the binary pilotlight, a release build")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--save", help="a file for all reports, as a JSON array")
    options, others = parser.parse_known_args()
    reports, wrong, found, refused, controls, ratios = [], 0, 0, 0, [0, 0], []
    with tempfile.TemporaryDirectory(prefix="pilotlight-aa-") as folder:
        for number in range(options.runs):
            report = run(options.program, number + 1, others, folder)
            reports.append(report)
            [group] = report["experiments"][0]["groups"]
            equal, slower = group["comparisons"]
            noise = report["noise"]
            wrong += equal["verdict"] in ("less", "more")
            found += slower["verdict"] == "more"
            refused += noise["refused"] is not None
            controls[0] += sum(not control["passed"] for control in group["controls"])
            controls[1] += len(group["controls"])
            rounds = {variant["id"]: variant["rounds"] for variant in group["variants"]}
            ratios += [one["cpu-us"] / other["cpu-us"] for one, other in zip(rounds["slower"], rounds["base"])]
            too_noisy = f"; too noisy: {noise['refused']}" if noise["refused"] else ""
            print(f"{number + 1:2}: equal {shown(equal)}; slower {shown(slower)}; {report['duration_seconds']:.0f} s{too_noisy}", flush=True)
    if options.save:
        with open(options.save, "w") as file:
            json.dump(reports, file)
    print(f"equals told apart in {wrong} of {options.runs} runs (at most 1 of 20 is wanted)")
    print(f"5 % more work found in {found} of {options.runs} runs (at least 18 of 20 are wanted)")
    print(f"controls failed: {controls[0]} of {controls[1]}; machine too noisy in {refused} runs")
    if ratios:
        print(f"planted, over all rounds: a factor of {statistics.median(ratios):.4f}")


if __name__ == "__main__":
    main()
