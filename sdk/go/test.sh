#!/bin/sh
# Formatting, vet and tests of the SDK; with the race detector where there is a C compiler. No network is needed.
set -eu
cd "$(dirname "$0")"
export GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-buildvcs=false
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "gofmt: $unformatted" >&2; exit 1; }
go vet ./...
race=
command -v cc >/dev/null && race=-race
go test $race -timeout 300s ./...
