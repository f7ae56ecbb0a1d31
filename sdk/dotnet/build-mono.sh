#!/usr/bin/env bash
# Compiles the SDK, its demo service and its tests with Mono: sdk/dotnet/build-mono.sh [FOLDER = target/dotnet]
# With the .NET SDK: dotnet build sdk/dotnet/Pilotlight
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../target/dotnet}
mkdir -p "$out"
flags=(-nowarn:1591 -langversion:latest -optimize+ -warnaserror -r:System.Core.dll)
mcs "${flags[@]}" -target:library "-out:$out/Pilotlight.dll" "$here"/Pilotlight/*.cs
for program in Demo Bench Services; do
  mcs "${flags[@]}" "-r:$out/Pilotlight.dll" "-out:$out/$program.exe" "$here/$program"/*.cs
done
