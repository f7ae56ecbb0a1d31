#!/usr/bin/env bash
# Builds what the tests with Kubernetes run, from the modules that go.mod names, outside of this repository:
#
#     tests/kubernetes/build.sh [PROGRAM…]    builds what is missing; prints the folder at the end
#
# It takes a quarter of an hour or more, once for each set of versions. JOBS=number builds so many packages at a time.
set -euo pipefail
cd "$(dirname "$0")"

readonly CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/pilotlight
VERSION=$(sed -n 's|^\tk8s.io/kubernetes v\([0-9.]*\).*|\1|p' go.mod)
OUT=$CACHE/kubernetes-$VERSION-$(cat go.mod go.sum build.sh | sha256sum | cut -c 1-8)
readonly VERSION OUT
readonly SAID=k8s.io/component-base/version # what the programs say of themselves

# In the order in which they are needed: etcd and the API server are of use without the others.
readonly PROGRAMS=(
  etcd=go.etcd.io/etcd/server/v3
  kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver
  kubectl=k8s.io/kubernetes/cmd/kubectl
  kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager
  kube-scheduler=k8s.io/kubernetes/cmd/kube-scheduler
  echo-basic=sigs.k8s.io/gateway-api/conformance/echo-basic
  conformance=./conformance
  kwok=sigs.k8s.io/kwok/cmd/kwok
  helm=helm.sh/helm/v3/cmd/helm
)

export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
readonly FLAGS=(-p "${JOBS:-$(nproc)}" -trimpath
  -ldflags "-s -w -X $SAID.gitVersion=v$VERSION -X $SAID.gitMajor=1 -X $SAID.gitMinor=$(cut -d . -f 2 <<<"$VERSION")")

say() { echo "kubernetes: $*" >&2; }

build() {
  local name=$1 package=$2 begin=$SECONDS
  [ -x "$OUT/$name" ] && return
  say "building $name ($3 of ${#PROGRAMS[@]})"
  case $package in
    # Without vet, which would also look at the 700 packages that it is made of: minutes for nothing.
    ./*) go test -c -vet=off "${FLAGS[@]}" -o "$OUT/.$name" "$package" ;;
    *) go build "${FLAGS[@]}" -o "$OUT/.$name" "$package" ;;
  esac
  mv "$OUT/.$name" "$OUT/$name"
  say "built $name in $((SECONDS - begin)) s, $(du -m "$OUT/$name" | cut -f 1) MiB"
}

# The custom resources of the Gateway API, from its module.
copy_crds() {
  local from
  [ -d "$OUT/gateway-api" ] && return
  from=$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)
  mkdir -p "$OUT/.gateway-api"
  install -m 644 "$from"/config/crd/standard/gateway.networking.k8s.io_*.yaml "$OUT/.gateway-api"
  mv "$OUT/.gateway-api" "$OUT/gateway-api"
}

# What KWOK's nodes and pods do, from its module.
copy_stages() {
  local from each
  [ -e "$OUT/kwok.yaml" ] && return
  from=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
  for each in "$from"/kustomize/stage/{node/fast,node/heartbeat-with-lease,pod/fast}/{node,pod}-*.yaml; do
    [ ! -e "$each" ] || { echo --- && cat "$each"; }
  done >"$OUT/.kwok.yaml"
  mv "$OUT/.kwok.yaml" "$OUT/kwok.yaml"
}

main() {
  command -v go >/dev/null || { say "go is not installed: scripts/setup.sh kubernetes installs it"; exit 1; }
  mkdir -p "$OUT"
  exec 9>"$OUT/.lock"
  flock --nonblock 9 || { say "waiting for another build"; flock 9; }
  say "downloading modules"
  go mod download
  copy_crds
  copy_stages
  local at=0 each
  for each in "${PROGRAMS[@]}"; do
    at=$((at + 1))
    [ $# = 0 ] || [[ " $* " == *" ${each%%=*} "* ]] || continue
    build "${each%%=*}" "${each#*=}" $at
  done
  echo "$OUT"
}

main "$@"
