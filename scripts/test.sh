#!/usr/bin/env bash
# Builds and runs every suite; stops at the first that fails. Run through `make test`, which installs what is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PYTHON=$PWD/target/venv/bin/python
readonly GATEWAY=target/debug/pilotlight
readonly AT_ONCE=2 # classes of end-to-end tests; what they measure needs a processor
export PILOTLIGHT=$PWD/$GATEWAY
export PILOTLIGHT_TUNNEL_CLIENTS=$PWD/target/tunnel-clients
export PYTHONDONTWRITEBYTECODE=1

passed=0

suite() {
  local title=$1 begin=$SECONDS
  shift
  printf '\n=== %s\n' "$title"
  if ! "$@"; then
    printf '\n=== %s: FAILED after %s s\n    %s\n%s passed, 1 failed\n' "$title" $((SECONDS - begin)) "$*" "$passed"
    exit 1
  fi
  passed=$((passed + 1))
  echo "=== $title: passed in $((SECONDS - begin)) s"
}

unittests() {
  (cd "$1" && "$PYTHON" -m unittest discover --start-directory "$2" --top-level-directory "$2")
}

# A folder whose tests wait more than they work, but for one module.
at_once() {
  (cd "$1" && "$PYTHON" -m pytest --quiet --numprocesses "$AT_ONCE" --ignore "$2.py")
}

alone() {
  (cd "$1" && "$PYTHON" -m unittest "$2")
}

# All parts in a minute; the seed is another each time, and printed.
adversary() {
  (cd tests && "$PYTHON" -m adversary --time "$1")
}

# name of the SDK, command of its demo service
conformance() {
  suite "conformance of sdk $1: transcripts" "$PYTHON" sdk/conformance/run_service.py --cmd "$2"
  suite "conformance of sdk $1: through the gateway" \
    "$PYTHON" sdk/conformance/live.py --pilotlight "$GATEWAY" --service "$2" --name "$1"
}

printf '=== building\n'
cargo build --workspace --all-targets

suite "rust: unit, property and integration tests, fuzz corpora" cargo test --workspace
suite "crates/redis: its generator" unittests crates/redis codegen
suite "sdk/python" unittests sdk/python tests
suite "sdk/node" npm --prefix sdk/node test
suite "conformance: its own tests" unittests sdk/conformance tests
suite "conformance of the gateway: transcripts" "$PYTHON" sdk/conformance/run_gateway.py --pilotlight "$GATEWAY"
conformance python "$PYTHON $PWD/sdk/python/demo.py"
conformance node "node $PWD/sdk/node/demo.js"
conformance rust "$PWD/target/debug/examples/demo"
suite "end to end" at_once tests/e2e test_lab_layers
# Instructions of a gateway are the same each time only if nobody keeps its client waiting.
suite "end to end: instructions and layers" alone tests/e2e test_lab_layers
suite "adversary: short" adversary 45
suite "the public suite of HTTP cache tests" "$PYTHON" tests/http-cache-tests/run.py
suite "the lab's report, pages for errors and lists of files in a browser" npm --prefix tests/page test --silent
suite "demo: make run, as a user would try it" "$PYTHON" scripts/test_demo.py
suite "lab: its own tests" "$PYTHON" -m unittest discover --start-directory lab/tests --top-level-directory lab

printf '\n%s passed, 0 failed (suites, in %s s)\n' "$passed" "$SECONDS"
