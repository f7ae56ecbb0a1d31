#!/usr/bin/env bash
# Everything that can be said without running the code. Run through `make lint`, which installs what is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/target-tools/bin:$PATH
export PYTHONPYCACHEPREFIX=$PWD/target/pycache

readonly PYTHON=target/venv/bin/python

failed=()

# Every step is taken; what failed is listed at the end. (A shell of its own, as `set -e` is ignored in a condition.)
step() {
  local title=$1 status
  shift
  echo "=== $title"
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
  [ "$status" = 0 ] || failed+=("$title")
}

# The project's own files with this ending, tracked or new, without those that git ignores.
files() {
  git ls-files --cached --others --exclude-standard -z -- "*.$1"
}

# The workspace, and those that are not part of it. (A workspace without a package of its own needs --all.)
formatting() {
  cargo fmt --all --check
  cargo fmt --manifest-path fuzz/Cargo.toml --check
  cargo fmt --manifest-path sdk/python/native/Cargo.toml --check
  cargo fmt --all --manifest-path lab/peers/http/Cargo.toml --check
  cargo fmt --all --manifest-path lab/peers/proxyfloor/Cargo.toml --check
  cargo fmt --all --manifest-path lab/peers/redis/rust/Cargo.toml --check
  cargo fmt --all --manifest-path lab/peers/rest/rust/Cargo.toml --check
  cargo fmt --all --manifest-path lab/peers/factors/Cargo.toml --check
  cargo fmt --all --manifest-path lab/peers/tls/Cargo.toml --check
  cargo fmt --manifest-path lab/peers/migration/Cargo.toml --check
  cargo fmt --manifest-path crates/resp/tests/no_std/Cargo.toml --check
  rustfmt --edition 2024 --check lab/peers/redis/rust/p-pilotlight/src/main.rs
}

python_files() {
  files py | xargs -0 "$PYTHON" -m compileall -q
  files py | xargs -0 "$PYTHON" -m pyflakes
}

javascript_files() {
  { files js && files mjs; } | xargs -0 -n 1 node --check
}

shell_files() {
  files sh | xargs -0 shellcheck .ci/run
}

# Those of documents are those of the stored reports.
figures() {
  local reports=() report
  for report in lab/reports/*.json; do
    reports+=(--report "$report")
  done
  cargo run --quiet -p pilotlight-lab -- figures "${reports[@]}" --check docs/figures.md README.md
}

# Says it and never fails: a figure may be older than what it measures for good reasons.
stale_figures() {
  cargo run --quiet -p pilotlight-lab -- figures --stale
}

step "rustfmt" formatting
step "clippy" cargo clippy --quiet --workspace --all-targets -- -D warnings
step "clippy of the Python SDK's core" env CARGO_TARGET_DIR=target/python-native \
  cargo clippy --quiet --manifest-path sdk/python/native/Cargo.toml --all-targets -- -D warnings
step "cargo-deny: licences, bans, sources" cargo deny --log-level warn check licenses bans sources
step "python: syntax, pyflakes" python_files
step "tidy: width, sizes, circles, arrows" "$PYTHON" -B scripts/tidy.py
step "generated sources" "$PYTHON" crates/redis/codegen/generate.py --check
step "public API: crates/*/public-api.txt" "$PYTHON" -B scripts/public_api.py
step "migration pages show what is compiled" "$PYTHON" -B lab/peers/migration/check.py
step "generated sources of redis-tool" "$PYTHON" crates/redis-tool/codegen/commands.py --check
step "figures of documents" figures
step "figures that are older than what they measure (a warning)" stale_figures
step "javascript: syntax" javascript_files
step "shellcheck" shell_files
step "gate: instructions of the hot paths" cargo run --quiet -p pilotlight-lab -- gate
if [ ${#failed[@]} -gt 0 ]; then
  printf '\nlint: FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "lint: nothing to complain about"
