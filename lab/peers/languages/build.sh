#!/usr/bin/env bash
# Builds the services of other languages that `pilotlight lab transport` measures: lab/peers/languages/build.sh [c] [coreclr] [dotnet] [go] [haskell] [java] [php] [ruby].
# What cannot be built is said, and left out. They are the programs in the folders `bench` of the SDKs.
set -uo pipefail
cd "$(dirname "$0")"
readonly OUT=$PWD/target SDK=$PWD/../../../sdk
mkdir -p "$OUT"

failed=0
part() {
  local name=$1 program=$2
  command -v "$program" >/dev/null || { echo "build.sh: $name: $program is missing" >&2; failed=1; return; }
  rm -rf "${OUT:?}/$name"
  mkdir -p "$OUT/$name"
  (set -e; "build_$name" "$OUT/$name") # not as a condition: there the shell goes on after a failure
  local status=$?
  if [ "$status" = 0 ]; then
    echo "build.sh: $name is built"
  else
    rm -rf "${OUT:?}/$name"
    echo "build.sh: $name could not be built (see above)" >&2
    failed=1
  fi
}

# The first line of what a program says of itself, for the report.
version() { "$@" 2>&1 | sed -n 1p; }

build_c() {
  local compile=(cc -std=c99 -O2)
  "${compile[@]}" -o "$1/pipe" "$SDK/c/bench/service.c" "$SDK/c/pilotlight.c"
  "${compile[@]}" -DFASTCGI -o "$1/fastcgi" "$SDK/c/bench/service.c" -lfcgi
  version cc --version >"$1/version"
}

build_coreclr() {
  dotnet publish coreclr/Service.csproj --configuration Release --nologo --verbosity quiet --artifacts-path "$1/artifacts" --output "$1"
  echo ".NET $(dotnet --version)" >"$1/version"
}

build_dotnet() {
  "$SDK/dotnet/build-mono.sh" "$1"
  version mono --version >"$1/version"
}

build_go() {
  (cd "$SDK/go" && GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-buildvcs=false go build -o "$1/service" ./bench)
  version go version >"$1/version"
}

build_haskell() {
  ghc --make -v0 -O1 "-i$SDK/haskell/src" -outputdir "$1/objects" "$SDK/haskell/bench/Main.hs" -o "$1/service"
  version ghc --version >"$1/version"
}

build_java() {
  "$SDK/java/build.sh" "$1"
  version java --version >"$1/version"
}

build_php() {
  cp -R "$SDK/php/." "$1/"
  version php --version >"$1/version"
}

build_ruby() {
  cp -R "$SDK/ruby/." "$1/"
  ruby -e 'require "rack"'
  version ruby --version >"$1/version"
}

if [ $# = 0 ]; then
  set -- c dotnet go haskell java php ruby
  if command -v dotnet >/dev/null; then set -- "$@" coreclr; else echo "build.sh: coreclr is left out: the .NET SDK is not installed"; fi
fi
for name in "$@"; do
  case $name in
    c) part c cc ;;
    coreclr) part coreclr dotnet ;;
    dotnet) part dotnet mcs ;;
    go) part go go ;;
    haskell) part haskell ghc ;;
    java) part java javac ;;
    php) part php php ;;
    ruby) part ruby ruby ;;
    *) echo "usage: build.sh [c] [coreclr] [dotnet] [go] [haskell] [java] [php] [ruby]" >&2; exit 2 ;;
  esac
done
[ "$failed" = 0 ]
