#!/usr/bin/env bash
# Builds what `pilotlight lab rest` compares with: lab/peers/rest/build.sh [rust] [go] [node] [slowsync]. What cannot be built is said, and left out.
set -uo pipefail
cd "$(dirname "$0")"
readonly OUT=$PWD/target
mkdir -p "$OUT"

failed=0
part() {
  local name=$1 program=$2
  shift 2
  command -v "$program" >/dev/null || { echo "build.sh: $name: $program is missing" >&2; failed=1; return; }
  if (set -e; "$@"); then echo "build.sh: $name is built"; else echo "build.sh: $name could not be built (see above)" >&2; failed=1; fi
}

build_rust() { cargo build --quiet --release --locked --manifest-path rust/Cargo.toml --target-dir "$OUT/rust" && cp "$OUT"/rust/release/axum-{fred,redis} "$OUT/"; }
build_go() { cd go && CGO_ENABLED=1 go build -o "$OUT/go-rueidis" .; }
build_node() { mkdir -p "$OUT/node" && cp node/server.js node/package.json node/package-lock.json "$OUT/node/" && npm --prefix "$OUT/node" ci --silent --no-audit --no-fund; }
build_slowsync() { cc -O2 -shared -fPIC -o "$OUT/slowsync.so" slowsync.c -ldl; }

[ $# -gt 0 ] || set -- rust go node slowsync
for name in "$@"; do
  case $name in
    rust) part rust cargo build_rust ;;
    go) part go go build_go ;;
    node) part node npm build_node ;;
    slowsync) part slowsync cc build_slowsync ;;
    *) echo "usage: build.sh [rust] [go] [node] [slowsync]" >&2; exit 2 ;;
  esac
done
[ "$failed" = 0 ]
