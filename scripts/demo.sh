#!/usr/bin/env bash
# Serves the demo: scripts/demo.sh [CONFIG]. Starts the one server that Pilotlight does not start (examples/old) and becomes
# Pilotlight. Descriptor 9 is that server's standard input; it ends when that does, so nothing is left however Pilotlight ends.
set -euo pipefail
cd "$(dirname "$0")/.."

config=${1:-pilotlight.toml}
pilotlight=${PILOTLIGHT:-target/quick/pilotlight}
port=${OLD_PORT:-9000} # as in [services.old]

mkdir -p target/demo
ready=$(mktemp -d target/demo/ready.XXXXXX)
mkfifo "$ready/fifo"
exec 9> >(exec target/venv/bin/python examples/old/server.py --port "$port" --until-eof >"$ready/fifo")
if ! read -r line <"$ready/fifo"; then
  line="old: not running, so /old is answered with 502 or by whatever listens on port $port"
fi
rm -r "$ready"
echo "$line"
exec "$pilotlight" run --config "$config"
