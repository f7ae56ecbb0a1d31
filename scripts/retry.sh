#!/usr/bin/env bash
# Runs a command that uses the network until it succeeds: scripts/retry.sh COMMAND [ARGUMENTS]
# What it prints is shown only where it fails, since registries fail for moments and nobody needs to read about that.
set -uo pipefail
readonly WAITS="5 20 60" # seconds before each further try; a registry that is away for longer is reported
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for wait in $WAITS ""; do
  "$@" >"$log" 2>&1 </dev/null
  code=$?
  [ "$code" -eq 0 ] && exit 0
  [ -n "$wait" ] || break
  echo "retry: '${*:1:3} …' failed ($(tail -n 1 "$log")); trying again in $wait s" >&2
  sleep "$wait"
done
cat "$log" >&2
echo "retry: '$*' failed each time" >&2
exit "$code"
