#!/usr/bin/env bash
# Installs Deno and Bun into a folder, as FOLDER/bin/deno and FOLDER/bin/bun: the programs of their packages of npm.
set -euo pipefail
folder=${1:?usage: scripts/js-runtimes.sh FOLDER}
readonly DENO=2.9.6 BUN=1.4.5

case $(uname -m) in
  x86_64) deno=linux-x64-glibc bun=bun-linux-x64 ;;
  aarch64) deno=linux-arm64-glibc bun=bun-linux-aarch64 ;;
  *) echo "there is no Deno and no Bun for $(uname -m)" >&2; exit 1 ;;
esac
retry=$(cd "$(dirname "$0")" && pwd)/retry.sh
mkdir -p "$folder/bin"
cd "$folder"
echo '{"private":true}' >package.json
"$retry" npm install --no-audit --no-fund "@deno/$deno@$DENO" "@oven/$bun@$BUN"
ln -sf "../node_modules/@deno/$deno/deno" bin/deno
ln -sf "../node_modules/@oven/$bun/bin/bun" bin/bun
bin/deno --version >/dev/null
bin/bun --version >/dev/null
