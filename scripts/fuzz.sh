#!/usr/bin/env bash
# Fuzzes each target for SECONDS: scripts/fuzz.sh SECONDS. New inputs are added to fuzz/corpus, which the tests replay.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"

if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
  echo "fuzz: needs a nightly Rust and cargo-fuzz: rustup toolchain install nightly; cargo install cargo-fuzz --locked" >&2
  exit 1
fi
for target in fuzz_targets/*.rs; do
  target=$(basename "$target" .rs)
  echo "=== $target for $1 s"
  cargo +nightly fuzz run "$target" -- -max_total_time="$1"
done
