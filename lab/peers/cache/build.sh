#!/usr/bin/env bash
# Builds what `pilotlight lab eviction` plays, and fetches the traces: lab/peers/cache/build.sh
#
# The traces lie in the simulator of Caffeine (Apache 2.0; each has its own origin, which its parsers name). CAFFEINE is
# a clone to take them from instead. Needs cargo, git, xz and gzip.
set -euo pipefail
cd "$(dirname "$0")"
cargo build --release --locked --target-dir target

from=${CAFFEINE:-https://github.com/ben-manes/caffeine}
folder=simulator/src/main/resources/com/github/benmanes/caffeine/cache/simulator/parser
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT
git clone --quiet --depth 1 --no-checkout --filter=blob:none "$from" "$clone"
mkdir "$clone/traces"
for trace in cache2k/{web07,web12,orm-busy}.trace.xz adapt_size/request.trace.xz scarab/scarab-recs.trace.xz \
    cloud_physics/w106.trace.xz lirs/{multi3,loop}.trace.gz; do
    name=$(basename "${trace%.trace.*}")
    unpack=xz
    [[ $trace == *.gz ]] && unpack=gzip
    git -C "$clone" show "HEAD:$folder/$trace" | $unpack -dc > "$clone/traces/$name"
done
# Whoever finds the folder finds all of them.
rm -rf target/traces
mv "$clone/traces" target/traces
