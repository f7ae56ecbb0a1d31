#!/usr/bin/env bash
# Checks that the programs compile for macOS, on any system that has `rustup target add x86_64-apple-darwin`.
#
# `cargo check` links nothing, so crates with C code need no compiler for macOS: a stand-in makes empty objects. The lab
# is left out (it needs epoll, timerfd and pinned cores), and so are tests.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROGRAMS=(pilotlight pilotlight-redis-tool pilotlight-kubernetes pilotlight-testkit)
readonly STAND_INS=$PWD/target/check-macos

mkdir -p "$STAND_INS"
cat >"$STAND_INS/cc" <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then : >"$2"; fi
  shift
done
END
cat >"$STAND_INS/ar" <<'END'
#!/bin/sh
for word in "$@"; do
  case $word in *.a) echo '!<arch>' >"$word" ;; esac
done
END
chmod +x "$STAND_INS/cc" "$STAND_INS/ar"

export {CC,CXX}_x86_64_apple_darwin="$STAND_INS/cc" AR_x86_64_apple_darwin="$STAND_INS/ar"
exec cargo check --target x86_64-apple-darwin "${PROGRAMS[@]/#/--package=}" "$@"
