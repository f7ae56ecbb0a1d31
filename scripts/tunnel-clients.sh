#!/usr/bin/env bash
# Installs the clients that try the tunnel (crates/redis-tool/tests/it/tunnel/clients.rs) into a folder, which PILOTLIGHT_TUNNEL_CLIENTS then names.
# go-redis only where there is a Go.
set -euo pipefail
folder=${1:?usage: scripts/tunnel-clients.sh FOLDER}
cd "$(dirname "$0")/.."
mkdir -p "$folder/python" "$folder/node"
folder=$(cd "$folder" && pwd)

retry=$PWD/scripts/retry.sh
python=python3
[ -x target/venv/bin/python ] && python=target/venv/bin/python
"$retry" "$python" -m pip install --quiet --disable-pip-version-check --upgrade --target "$folder/python" redis==8.1.0

if command -v go >/dev/null; then
  (cd crates/redis-tool/tests/clients/goredis && "$retry" go build -o "$folder/goredis-client" .)
fi

cd "$folder/node"
[ -f package.json ] || echo '{"private":true}' >package.json
"$retry" npm install --no-audit --no-fund ioredis@5.9.2
