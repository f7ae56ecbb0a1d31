#!/usr/bin/env bash
# Builds the programs of `pilotlight lab factors` into target/release: lab/peers/factors/build.sh
set -euo pipefail
cd "$(dirname "$0")"
cargo build --release --locked --target-dir target
