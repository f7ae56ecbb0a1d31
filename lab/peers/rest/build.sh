#!/usr/bin/env bash
# Builds what `pilotlight lab rest` compares with: lab/peers/rest/build.sh [rust] [go] [node] [java] [haskell] [dotnet] [slowsync]. What cannot be built is said, and left out.
set -uo pipefail
cd "$(dirname "$0")"
readonly OUT=$PWD/target
mkdir -p "$OUT"

failed=0
part() {
  local name=$1 program=$2
  shift 2
  command -v "$program" >/dev/null || { echo "build.sh: $name: $program is missing" >&2; failed=1; return; }
  (set -e; "$@") # not as a condition: there the shell goes on after a failure
  local status=$?
  if [ "$status" = 0 ]; then echo "build.sh: $name is built"; else echo "build.sh: $name could not be built (see above)" >&2; failed=1; fi
}

# What a peer is made of, for the report: names and versions in a line, from the standard input.
versions() { paste -sd '\t' | sed 's/\t/, /g' >"$OUT/$1.versions"; }

crates() { cargo tree --quiet --locked --manifest-path rust/Cargo.toml --depth 1 --prefix none | awk -v wanted=" $* " 'index(wanted, " " $1 " ") { print $1, substr($2, 2) }'; }
build_rust() {
  cargo build --quiet --release --locked --manifest-path rust/Cargo.toml --target-dir "$OUT/rust"
  cp "$OUT"/rust/release/axum-{fred,redis} "$OUT/"
  crates axum fred rusqlite | versions axum-fred
  crates axum redis rusqlite | versions axum-redis
}

build_go() {
  (cd go && CGO_ENABLED=1 go build -o "$OUT/go-rueidis" .)
  go version -m "$OUT/go-rueidis" | awk 'NR == 1 { print $NF } $1 == "dep" && /rueidis|go-sqlite3/ { sub(".*/", "", $2); print $2, substr($3, 2) }' | versions go-rueidis
}

# Native parts are compiled where no built one can be fetched: with the headers beside node, if it has brought them.
build_node() {
  local prefix
  prefix=$(dirname "$(dirname "$(node -p process.execPath)")")
  [ ! -e "$prefix/include/node/node_api.h" ] || export npm_config_nodedir=$prefix
  mkdir -p "$OUT/node"
  cp node/server.js node/package.json node/package-lock.json "$OUT/node/"
  npm --prefix "$OUT/node" ci --silent --no-audit --no-fund
  (cd "$OUT/node" && node -p '["node " + process.version.slice(1), ...["fastify", "ioredis", "better-sqlite3"].map(name => name + " " + require("./node_modules/" + name + "/package.json").version)].join("\n")') | versions node-ioredis
}

build_java() {
  rm -rf "$OUT/java"
  (cd java && mvn --quiet --batch-mode "-Doutput=$OUT/java" compile dependency:copy-dependencies)
  { java -version 2>&1 | awk -F '"' 'NR == 1 { print "java", $2 }'; find "$OUT/java/dependency" -name "*.jar" -printf "%f\n" | sort | sed -nE 's/^(vertx-core|lettuce-core|sqlite-jdbc)-([0-9].*)\.jar$/\1 \2/p'; } | versions java-lettuce
}

build_haskell() {
  ghc --make -v0 -O2 -threaded -rtsopts -ihaskell -outputdir "$OUT/haskell-objects" haskell/Main.hs -o "$OUT/haskell-warp"
  {
    echo "GHC $(ghc --numeric-version)"
    for package in warp scotty aeson hedis persistent-sqlite; do echo "$package $(ghc-pkg field --simple-output "$package" version)"; done
  } | versions haskell-warp
}

# Packages come from NuGet.
build_dotnet() {
  dotnet publish dotnet/Users.csproj --configuration Release --nologo --verbosity quiet --artifacts-path "$OUT/dotnet-artifacts" --output "$OUT/dotnet"
  { echo ".NET SDK $(dotnet --version)" && sed -nE 's/.*PackageReference Include="([^"]+)" Version="([^"]+)".*/\1 \2/p' dotnet/Users.csproj; } | versions dotnet-kestrel
}

build_slowsync() { cc -O2 -shared -fPIC -o "$OUT/slowsync.so" slowsync.c -ldl; }

if [ $# = 0 ]; then
  set -- rust go node java haskell slowsync
  if command -v dotnet >/dev/null; then set -- "$@" dotnet; else echo "build.sh: dotnet is left out: the .NET SDK is not installed"; fi
fi
for name in "$@"; do
  case $name in
    rust) part rust cargo build_rust ;;
    go) part go go build_go ;;
    node) part node npm build_node ;;
    java) part java mvn build_java ;;
    haskell) part haskell ghc build_haskell ;;
    dotnet) part dotnet dotnet build_dotnet ;;
    slowsync) part slowsync cc build_slowsync ;;
    *) echo "usage: build.sh [rust] [go] [node] [java] [haskell] [dotnet] [slowsync]" >&2; exit 2 ;;
  esac
done
[ "$failed" = 0 ]
