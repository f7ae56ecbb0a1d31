#!/bin/sh
# Builds the demo service and the tests with GHC alone, without Cabal: build.sh FOLDER
set -eu
cd "$(dirname "$0")"
for part in Demo.hs:demo test/Main.hs:tests; do
  name=${part#*:}
  mkdir -p "$1/$name.o"
  ghc --make -v0 -O1 -Wall -isrc -outputdir "$1/$name.o" "${part%:*}" -o "$1/$name"
done
