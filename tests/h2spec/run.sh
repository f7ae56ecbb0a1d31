#!/bin/sh
# h2spec, strictly, against the gateway with TLS and without: every case passes but those that are listed here, with why.
#
#     tests/h2spec/run.sh [PILOTLIGHT]     the binary; target/debug/pilotlight unless it is given
#
# It needs Go, for h2spec itself, python3 and openssl.
set -eu
cd "$(dirname "$0")/../.."

# A port without TLS speaks HTTP/1.1 as well, by which it answers what is not the preface of HTTP/2: 400, and the
# connection closes. h2spec expects that it closes without a word.
known_plain='Sends invalid connection preface'
CASES=146

pilotlight=$(realpath "${1:-target/debug/pilotlight}")
tool=target-tools/bin/h2spec
if [ ! -x "$tool" ]; then
  command -v go >/dev/null || { echo "h2spec: Go is missing, which builds it: install golang" >&2; exit 1; }
  echo "h2spec: building it into $tool"
  GOBIN=$(realpath -m target-tools/bin) go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
fi
folder=$(mktemp -d)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$folder/key.pem" -out "$folder/cert.pem" 2>"$folder/openssl"
chmod 600 "$folder/key.pem"
cat >"$folder/pilotlight.toml" <<TOML
listen = ["127.0.0.1:0", "https://127.0.0.1:0"]
[tls]
certificates = { certificate = "cert.pem", key = "key.pem" }
[services.origin]
command = ["python3", "$PWD/tests/e2e/origin.py"]
transport = "http"
min_instances = 1
[[routes]]
path = "/"
service = "origin"
https = "allow" # both listeners answer the same
TOML
"$pilotlight" --config "$folder/pilotlight.toml" >"$folder/log" 2>&1 &
gateway=$!
# Whatever becomes of the commands here, the exit status stays; the end of this file judges how the gateway ended.
trap 'set +e; kill "$gateway" 2>/dev/null; wait "$gateway"; rm -r "$folder"' EXIT

port() {
  sed -n "s|.*listening on $1://127.0.0.1:\([0-9]*\).*|\1|p" "$folder/log" | head -1
}

for _ in $(seq 100); do
  [ -z "$(port http)" ] || [ -z "$(port https)" ] || break
  sleep 0.1
done
[ -n "$(port https)" ] || { echo "h2spec: the gateway did not start:" >&2; cat "$folder/log" >&2; exit 1; }

check() { # what, failures that are known, arguments
  what=$1 known=$2
  shift 2
  # It ends with 1 where a case has failed: what it says of each of them is looked at below. Anything else is no run.
  status=0
  "$tool" --strict --host 127.0.0.1 --path /show --timeout 5 "$@" >"$folder/out" 2>&1 || status=$?
  summary=$(grep -E '^[0-9]+ tests, [0-9]+ passed, [0-9]+ skipped, [0-9]+ failed$' "$folder/out") || summary=
  echo "$what: ${summary:-h2spec ended with $status, and without its summary}"
  total=${summary%% tests,*}
  skipped=${summary#*passed, } skipped=${skipped%% skipped*}
  failed=${summary##*, } failed=${failed% failed}
  known_failed=$(awk -v known="$known" '/^Failures:/ { listed = 1 } listed && /×/ && index($0, known) { n++ }
    END { print n + 0 }' "$folder/out")
  if [ -z "$summary" ] || [ "$status" -gt 1 ] || [ "$total" -lt "$CASES" ] || [ "$skipped" -gt 0 ] ||
    [ "$failed" -ne "$known_failed" ]; then
    cat "$folder/out"
    return 1
  fi
}

check "with TLS" 'no failure is known' --port "$(port https)" --tls --insecure
check "without TLS" "$known_plain" --port "$(port http)"
# The gateway has served all along, without a panic of a task, and stops without an error.
bad() {
  echo "h2spec: the gateway $1:" >&2
  cat "$folder/log" >&2
  exit 1
}
kill -0 "$gateway" || bad "has ended"
kill "$gateway"
status=0
wait "$gateway" || status=$?
[ "$status" -eq 0 ] || bad "has ended with $status"
if grep -q panicked "$folder/log"; then bad "has panicked"; fi
