#!/bin/sh
# Builds the service that sdk/conformance drives: target/sdk/c/demo, and one with the sanitizers: demo-checked.
set -eu
cd "$(dirname "$0")"
out=../../target/sdk/c
mkdir -p "$out"
compile() { ${CC:-cc} -std=c99 -Wall -Wextra -Werror -pedantic -Wshadow pilotlight.c demo.c "$@"; }
compile -O2 -o "$out/demo"
compile -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -o "$out/demo-checked"
