#!/usr/bin/env bash
# Compiles the SDK, its demo service and its tests: sdk/java/build.sh [FOLDER = target/java]
# pilotlight.jar is what programs need; demo.jsa lets the JVM start the demo without parsing its classes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../target/java}
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "$out/sdk" "$out/demo" "$out/test"

# Concatenation by StringBuilder: the other way costs 10 ms of a cold start.
# Lints: all but those that a library without serialized forms has no use for.
compile() {
  local to=$1 path=$2
  shift 2
  find "$@" -name '*.java' -print0 |
    xargs -0 javac --release 17 -encoding UTF-8 -XDstringConcat=inline -XDignore.symbol.file -Xlint:all,-serial -nowarn \
      -cp "$path" -d "$to"
}
compile "$out/sdk" "" "$here/src/main/java"
jar --create --file "$out/pilotlight.jar" --date 1980-01-01T00:00:02Z -C "$out/sdk" .
compile "$out/demo" "$out/pilotlight.jar" "$here/src/demo/java"
printf 'Main-Class: Demo\nClass-Path: pilotlight.jar\n' >"$out/demo.mf"
jar --create --file "$out/demo.jar" --manifest "$out/demo.mf" --date 1980-01-01T00:00:02Z -C "$out/demo" .
compile "$out/test" "$out/pilotlight.jar:$out/demo.jar" "$here/src/test/java"
