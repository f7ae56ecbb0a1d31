#!/bin/sh
# h2spec, strictly, against the gateway: every case passes but those that are listed here, with why.
#
#     tests/h2spec/run.sh [PILOTLIGHT]     the binary; target/debug/pilotlight unless it is given
#
# It needs Go, for h2spec itself, and python3.
set -eu
cd "$(dirname "$0")/../.."

# A port without TLS speaks HTTP/1.1 as well, by which it answers what is not the preface of HTTP/2: 400, and the
# connection closes. h2spec expects that it closes without a word.
known='Sends invalid connection preface'

pilotlight=$(realpath "${1:-target/debug/pilotlight}")
tool=target-tools/bin/h2spec
if [ ! -x "$tool" ]; then
  command -v go >/dev/null || { echo "h2spec: Go is missing, which builds it: install golang" >&2; exit 1; }
  echo "h2spec: building it into $tool"
  GOBIN=$(realpath -m target-tools/bin) go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
fi
folder=$(mktemp -d)
cat >"$folder/pilotlight.toml" <<TOML
listen = "127.0.0.1:0"
[services.origin]
command = ["python3", "$PWD/tests/e2e/origin.py"]
transport = "http"
min_instances = 1
[[routes]]
path = "/"
service = "origin"
TOML
"$pilotlight" --config "$folder/pilotlight.toml" >"$folder/log" 2>&1 &
gateway=$!
trap 'kill "$gateway" 2>/dev/null || true; wait "$gateway" 2>/dev/null || true; rm -r "$folder"' EXIT
port=
for _ in $(seq 100); do
  port=$(sed -n 's|.*listening on http://127.0.0.1:\([0-9]*\).*|\1|p' "$folder/log" | head -1)
  [ -z "$port" ] || break
  sleep 0.1
done
[ -n "$port" ] || { echo "h2spec: the gateway did not start:" >&2; cat "$folder/log" >&2; exit 1; }

"$tool" --strict --host 127.0.0.1 --port "$port" --path /show --timeout 5 >"$folder/out" 2>&1 || true
tail -1 "$folder/out"
unexpected=$(sed -n '/^Failures:/,$p' "$folder/out" | grep '×' | grep -v "$known" || true)
total=$(sed -n 's/^\([0-9]*\) tests, .*/\1/p' "$folder/out")
if [ -n "$unexpected" ] || [ "${total:-0}" -lt 146 ]; then
  sed -n '/^Failures:/,$p' "$folder/out"
  exit 1
fi
