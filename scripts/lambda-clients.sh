#!/usr/bin/env bash
# Installs the vendor's runtime clients of AWS Lambda that tests/e2e/test_lambda.py runs functions with, and builds those functions (tests/lambda).
set -euo pipefail
folder=${1:?usage: scripts/lambda-clients.sh FOLDER}
cd "$(dirname "$0")/.."
mkdir -p "$folder/python" "$folder/node" "$folder/java"
folder=$(cd "$folder" && pwd)
readonly NODE_CLIENT=4.0.2

retry=$PWD/scripts/retry.sh
python=python3
[ -x target/venv/bin/python ] && python=target/venv/bin/python
"$retry" "$python" -m pip install --quiet --disable-pip-version-check --upgrade --target "$folder/python" awslambdaric==4.2.2

# It asks for Node 22 and runs with 20, which is what tests need. Its native part is built as it is installed, a minute of C++.
(
  cd "$folder/node"
  [ -f package.json ] || echo '{"private":true}' >package.json
  "$retry" npm install --no-audit --no-fund "aws-lambda-ric@$NODE_CLIENT"
  [ -f node_modules/aws-lambda-ric/rapid-client.node ] || {
    echo "lambda-clients: the native part of aws-lambda-ric was not built" >&2
    exit 1
  }
)

(cd tests/lambda/go && "$retry" go build -o "$folder/go-function" .)

"$retry" cargo build --quiet --manifest-path tests/lambda/rust/Cargo.toml --target-dir "$folder/rust"

cp -r tests/lambda/java/. "$folder/java/"
(cd "$folder/java" && "$retry" mvn --quiet --batch-mode package dependency:copy-dependencies -DoutputDirectory="$folder/java/jars")
