#!/usr/bin/env bash
# Builds and packs this commit twice, in folders with names of different lengths, and compares every byte: packaging/reproducible.sh PROFILE
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-release}
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
cpu=$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for name in one another-name; do
  git clone --quiet --no-checkout . "$work/$name"
  (
    cd "$work/$name"
    git checkout --quiet "$commit"
    for target in "$cpu-unknown-linux-gnu" "$cpu-unknown-linux-musl"; do
      python3 -B packaging/build.py --target "$target" --profile "$profile"
      python3 -B packaging/core.py --target "$target"
    done
    python3 -B packaging/deb.py
    python3 -B packaging/image.py --any-size
    python3 -B packaging/wheel.py
    python3 -B packaging/npm.py
    python3 -B packaging/recipes.py
    python3 -B packaging/sbom.py
    cd target/dist
    find . -type f ! -path './debug/*' | LC_ALL=C sort | xargs sha256sum >"$work/$name.sums"
  )
  rm -rf "${work:?}/$name"
done
if ! diff "$work/one.sums" "$work/another-name.sums"; then
  echo "reproducible: these differ" >&2
  exit 1
fi
cat "$work/one.sums"
echo "reproducible: the same bytes in both folders"
