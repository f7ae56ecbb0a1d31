#!/bin/sh
# Builds and runs bench.c: run.sh [SECONDS] [ROUNDS] [STARTS]. It needs libfcgi-dev, and Linux.
set -eu
cd "$(dirname "$0")"
out=../../../target/sdk/c
mkdir -p "$out"
compile() { ${CC:-cc} -std=c99 -Wall -Wextra -O2 "$@"; }
compile -o "$out/service-pipe" service.c ../pilotlight.c
compile -DFASTCGI -o "$out/service-fastcgi" service.c -lfcgi
compile -o "$out/bench" bench.c
exec "$out/bench" "$out" "$@"
