#!/bin/sh
# Installs the clients that try the tunnel (crates/redis-tool/tests/it/tunnel/clients.rs) into a folder, which PILOTLIGHT_TUNNEL_CLIENTS then names.
set -eu
folder=${1:?usage: scripts/tunnel-clients.sh FOLDER}
mkdir -p "$folder/python" "$folder/node"
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/python" 'redis>=6'
cd "$folder/node"
[ -f package.json ] || echo '{"private":true}' > package.json
npm install --silent --no-audit --no-fund 'ioredis@>=5'
