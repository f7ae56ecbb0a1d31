#!/usr/bin/python3
"""Hit ratios of the memory tier's store beside other policies, on published traces.

    git clone --depth 1 https://github.com/ben-manes/caffeine /tmp/caffeine
    lab/eviction.py /tmp/caffeine

The traces lie in Caffeine's simulator (Apache 2.0, each with its own origin; see its parsers). `request` is the sample of AdaptSize, whose
objects have sizes; in the others each object counts as one of 2 KiB, what the memory tier takes a response to weigh. Each trace is played
at several capacities, given as a part of what all its objects weigh.
"""
import argparse
import gzip
import json
import lzma
import os
import struct
import subprocess
from pathlib import Path

PEER = Path(__file__).resolve().parent / "peers" / "cache"
RESOURCES = "simulator/src/main/resources/com/github/benmanes/caffeine/cache/simulator/parser"
OBJECT_BYTES = 2048
PARTS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4]
REFERENCE = ("moka TinyLFU", "foyer W-TinyLFU")
OURS = "quick_cache"


def integers(data, form):
    return [(number, OBJECT_BYTES) for (number,) in struct.iter_unpack(form, data)]


def lines(data):
    return [(int(line), OBJECT_BYTES) for line in data.split() if line.isdigit()]


def sized(data):
    return [(int(key), int(size)) for _, key, size in (line.split() for line in data.splitlines()) if int(size) > 0]


TRACES = {
    "web07": ("cache2k/web07.trace.xz", lambda data: integers(data, ">i")),
    "web12": ("cache2k/web12.trace.xz", lambda data: integers(data, ">i")),
    "request": ("adapt_size/request.trace.xz", sized),
    "scarab-recs": ("scarab/scarab-recs.trace.xz", lambda data: integers(data, ">q")),
    "orm-busy": ("cache2k/orm-busy.trace.xz", lambda data: integers(data, ">i")),
    "w106": ("cloud_physics/w106.trace.xz", lambda data: integers(data, ">I")),
    "multi3": ("lirs/multi3.trace.gz", lines),
    "loop": ("lirs/loop.trace.gz", lines),
}


def requests(folder, name):
    path, parse = TRACES[name]
    data = (folder / RESOURCES / path).read_bytes()
    return parse(lzma.decompress(data) if path.endswith(".xz") else gzip.decompress(data))


def play(binary, trace, capacities):
    """`{capacity: {policy: ratio}}`"""
    text = "".join(f"{key & (1 << 64) - 1} {size}\n" for key, size in trace)
    done = subprocess.run([binary, *map(str, capacities)], input=text, capture_output=True, text=True, check=True)
    found = {}
    for line in map(json.loads, done.stdout.splitlines()):
        found.setdefault(line["capacity"], {})[line["policy"]] = 100 * line["ratio"]
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path, help="a clone of ben-manes/caffeine")
    arguments.add_argument("--traces", default=",".join(TRACES), metavar="A,B")
    options = arguments.parse_args()
    target = Path(os.environ.get("CARGO_TARGET_DIR", PEER / "target"))
    subprocess.run(["cargo", "build", "--release", "--quiet", "--manifest-path", PEER / "Cargo.toml", "--target-dir", target], check=True)
    header = None
    for name in options.traces.split(","):
        trace = requests(options.folder, name)
        whole = sum({key: size for key, size in trace}.values())
        ratios = play(target / "release" / "evict", trace, [max(int(whole * part), 2 * OBJECT_BYTES) for part in PARTS])
        for part, (capacity, row) in zip(PARTS, ratios.items(), strict=True):
            if header is None:
                header = list(row)
                print(f"| trace | requests | capacity | {' | '.join(header)} | behind the better TinyLFU |\n{'|---' * (len(header) + 4)}|")
            behind = max(row[policy] for policy in REFERENCE) - row[OURS]
            cells = " | ".join(f"{row[policy]:.2f}" for policy in header)
            print(f"| {name} | {len(trace)} | {capacity / 2**20:.1f} MiB ({part:.0%}) | {cells} | {behind:+.2f} |", flush=True)


if __name__ == "__main__":
    main()
