#!/usr/bin/env python3
"""ring against aws-lc-rs as the provider of rustls: handshakes, records, build time, size. For docs/adr/0030.

    lab/peers/tls/run.py [ROUNDS [SECONDS]]     10 rounds, 0.2 s for each measurement of a round
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROVIDERS = ("ring", "aws-lc-rs")
KINDS = {"ec": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["-newkey", "rsa:2048"]}


def build(provider):
    """The binary, and the seconds of CPU that building everything took."""
    target = HERE / "target" / provider
    shutil.rmtree(target, ignore_errors=True)
    command = ["cargo", "build", "--quiet", "--release", "--features", provider, "--target-dir", target]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=HERE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return target / "release" / "tls-provider", spent


def stripped_bytes(binary):
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "stripped"
        subprocess.run(["strip", "-o", copy, binary], check=True)
        return copy.stat().st_size


def certificates(folder):
    for name, kind in KINDS.items():
        command = ["openssl", "req", "-x509", *kind, "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        command += ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
        command += ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    seconds = sys.argv[2] if len(sys.argv) > 2 else "0.2"
    binaries, found = {}, {}
    for provider in PROVIDERS:
        binaries[provider], spent = build(provider)
        print(f"{provider}: built in {spent:.1f} s of CPU, {stripped_bytes(binaries[provider]):,} bytes stripped")
    with tempfile.TemporaryDirectory() as folder:
        certificates(folder)
        for number in range(rounds):
            # Each round in the other order: whatever else the machine does meets both.
            for provider in PROVIDERS if number % 2 else reversed(PROVIDERS):
                said = subprocess.check_output([binaries[provider], folder, seconds], text=True)
                for line in said.splitlines():
                    what, value = line.split("\t")
                    found.setdefault(what, {}).setdefault(provider, []).append(float(value))
    what = f"the server's CPU time, µs; medians of {rounds} rounds"
    print(f"\n| {what} | ring | aws-lc-rs | ring / aws-lc-rs (least–greatest) |")
    print("|---|---|---|---|")
    for what, of in found.items():
        ratios = [one / other for one, other in zip(of["ring"], of["aws-lc-rs"])]
        one, other = (statistics.median(of[provider]) for provider in PROVIDERS)
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        print(f"| {what} | {one:.1f} | {other:.1f} | {spread} |")


if __name__ == "__main__":
    os.nice(5)
    main()
