#!/usr/bin/env bash
# Installs what `pilotlight lab` compares with: lab/setup.sh [all]
#
# Without `all`, what `lab cache`, `front` and `transport` need, in some ten minutes; with it what every experiment of `lab all` does: the
# Redis clients, the services of `lab rest`, `factors` and `study`, the traces of `lab eviction`, in half an hour. Asks for sudo only if a system
# package is missing. Debian's packages of nginx, Varnish, HAProxy, H2O and Caddy may start servers of their own; the lab starts its own on other
# ports.
set -euo pipefail
cd "$(dirname "$0")"
if [ $# -gt 1 ] || [ "${1:-all}" != all ]; then
  echo "usage: lab/setup.sh [all]" >&2
  exit 2
fi

declare -A package=([nginx]=nginx-light [haproxy]=haproxy [varnishd]=varnish [h2o]=h2o [caddy]=caddy [wrk]=wrk [h2load]=nghttp2-client [valgrind]=valgrind [node]=nodejs [cc]=build-essential [pebble]=pebble [faketime]=faketime
  [uwsgi-core]="uwsgi-core uwsgi-plugin-python3" [apache2]="apache2-bin libapache2-mod-fcgid" [php]=php-cli [php-cgi]=php-cgi
  [mcs]="mono-mcs mono-runtime" [ghc]="ghc libghc-wai-dev libghc-network-dev" [ruby]="ruby ruby-rack" [puma]=puma)
# Without a program of their own: a file that tells whether they are there.
declare -A library=([/usr/include/fcgiapp.h]=libfcgi-dev [/usr/share/doc/libghc-warp-dev]=libghc-warp-dev [/usr/share/doc/libghc-aeson-dev]=libghc-aeson-dev
  [/usr/share/doc/libghc-hedis-dev]=libghc-hedis-dev [/usr/share/doc/libghc-persistent-sqlite-dev]=libghc-persistent-sqlite-dev [/usr/share/doc/libghc-scotty-dev]=libghc-scotty-dev)
venv=peers/http/target/venv
modules=(uvicorn uvloop httptools flask gunicorn granian hypercorn maturin)

missing=()
for program in "${!package[@]}"; do
  PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null && continue
  read -ra names <<<"${package[$program]}"
  missing+=("${names[@]}")
done
for file in "${!library[@]}"; do
  [ -e "$file" ] || missing+=("${library[$file]}")
done
/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ] && ! command -v apt-get >/dev/null; then
  echo "lab/setup.sh: missing, and left out unless you install it (Debian's names): ${missing[*]}" >&2
elif [ ${#missing[@]} -gt 0 ]; then
  echo "lab/setup.sh: installing the packages ${missing[*]}"
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get install -o DPkg::Lock::Timeout=300 --yes --no-install-recommends "${missing[@]}"
fi
if ! command -v cargo >/dev/null && [ ! -x ../bin/pilotlight-lab ]; then
  echo "lab/setup.sh: cargo is missing; install Rust from https://rustup.rs" >&2
  exit 1
fi

if [ ! -x "$venv/bin/uvicorn" ] || [ ! -x "$venv/bin/maturin" ]; then
  echo "lab/setup.sh: installing ${modules[*]} into lab/$venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet "${modules[@]}"
fi
if ! command -v cargo >/dev/null; then
  echo "lab/setup.sh: there is no cargo: the peers in Rust are those that came with this folder"
  peers/languages/build.sh || true # what cannot be built is said, and left out
  peers/rest/build.sh go node java haskell slowsync || true
  if command -v dotnet >/dev/null; then peers/rest/build.sh dotnet || true; fi
  echo "lab/setup.sh: ready; run bin/pilotlight lab --list"
  exit 0
fi
echo "lab/setup.sh: building what \`pilotlight lab cache\` compares with"
(cd peers/http && cargo build --quiet --release -p limit -p hyperd)
(cd peers/proxyfloor && cargo build --quiet --release)
../sdk/python/native/build.sh "$PWD/$venv/bin/python" # the compiled core of the SDK
peers/languages/build.sh || true # what cannot be built is said, and left out
if [ "${1:-}" = all ]; then
  for what in redis rest factors cache; do
    echo "lab/setup.sh: building lab/peers/$what"
    bash peers/$what/build.sh || echo "lab/setup.sh: lab/peers/$what is not built whole, for the reason above; what lacks is left out" >&2
  done
fi
echo "lab/setup.sh: ready; run target/release/pilotlight lab ${1:-cache}"
