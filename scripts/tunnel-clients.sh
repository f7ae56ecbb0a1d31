#!/bin/sh
# Installs the clients that try the tunnel (crates/redis-tool/tests/it/tunnel/clients.rs) into a folder, which PILOTLIGHT_TUNNEL_CLIENTS then names.
set -eu
folder=${1:?usage: scripts/tunnel-clients.sh FOLDER}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder/python" "$folder/node"
folder=$(cd "$folder" && pwd)
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/python" 'redis>=6'
(cd "$here/crates/redis-tool/tests/clients/goredis" && go build -o "$folder/goredis-client" .)
cd "$folder/node"
[ -f package.json ] || echo '{"private":true}' > package.json
npm install --silent --no-audit --no-fund 'ioredis@>=5'
