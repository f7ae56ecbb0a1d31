#!/usr/bin/env bash
# Builds the native core with maturin and puts it beside the modules of the SDK, which then use it: build.sh [PYTHON]
# PYTHON is an interpreter whose environment has maturin; what is not out of date is not built again.
set -euo pipefail
cd "$(dirname "$0")/../../.."

readonly PYTHON=${1:-target/venv/bin/python}
readonly MODULE=sdk/python/pilotlight/_native.abi3.so
readonly TARGET=${CARGO_TARGET_DIR:-$PWD/target}/python-native

if [ -e "$MODULE" ] && [ -z "$(find sdk/python/native crates/pipe/src crates/pipe/Cargo.toml -newer "$MODULE" -type f)" ]; then
  exit 0
fi
export CARGO_TARGET_DIR=$TARGET
"$PYTHON" -m maturin build --quiet --release --manifest-path sdk/python/native/Cargo.toml --interpreter "$PYTHON" --out "$TARGET/wheels"
# A new file, not another content: what runs has mapped the old one.
rm -f "$MODULE"
"$PYTHON" - "$TARGET/wheels" "$MODULE" <<'END'
import pathlib, sys, zipfile

wheel = max(pathlib.Path(sys.argv[1]).glob("*.whl"), key=lambda path: path.stat().st_mtime)
with zipfile.ZipFile(wheel) as files:
    name = next(name for name in files.namelist() if name.endswith(".so"))
    pathlib.Path(sys.argv[2]).write_bytes(files.read(name))
END
