#!/usr/bin/env bash
# Builds what `pilotlight lab redis` compares: lab/peers/redis/build.sh [rust] [pilotlight] [go] [java] [node]. What cannot be built is said, and left out.
set -uo pipefail
cd "$(dirname "$0")"
readonly OUT=$PWD/../../../target/lab-peers-redis
mkdir -p "$OUT"

failed=0
part() {
  local name=$1 program=$2
  shift 2
  command -v "$program" >/dev/null || { echo "build.sh: $name: $program is missing" >&2; failed=1; return; }
  if (set -e; "$@"); then echo "build.sh: $name is built"; else echo "build.sh: $name could not be built (see above)" >&2; failed=1; fi
}

build_cargo() { nice cargo build --release --quiet --target-dir "$OUT/rust" "$@"; }
build_go() { cd go && go build -o "$OUT/go/" ./rueidis ./goredis; }
build_java() { cd java && mvn --quiet --batch-mode "-Doutput=$OUT/java" compile dependency:copy-dependencies; }
build_node() { mkdir -p "$OUT/node" && cp node/package.json "$OUT/node/" && npm install --silent --no-audit --no-fund --prefix "$OUT/node"; }

[ $# -gt 0 ] || set -- rust pilotlight go java node
for name in "$@"; do
  case $name in
    rust) part rust cargo build_cargo --locked --manifest-path rust/Cargo.toml ;;
    pilotlight) part pilotlight cargo build_cargo --manifest-path rust/p-pilotlight/Cargo.toml ;;
    go) part go go build_go ;;
    java) part java mvn build_java ;;
    node) part node npm build_node ;;
    *) echo "usage: build.sh [rust] [pilotlight] [go] [java] [node]" >&2; exit 2 ;;
  esac
done
[ "$failed" = 0 ]
