#!/usr/bin/env bash
# rustdoc as scripts/public_api.py needs it: a stable one that writes JSON. Only the crate that is described is
# compiled with unstable options; what it depends on is shared with other checks.
set -euo pipefail
export RUSTC_BOOTSTRAP=1
exec rustdoc "$@"
