#!/bin/sh
# Builds the service that sdk/conformance drives: target/sdk/go/demo. It needs Go 1.19 or later, and no network.
set -eu
cd "$(dirname "$0")"
GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-buildvcs=false go build -o ../../target/sdk/go/demo ./demo
