"""The conformance suite of the Gateway API, profile GATEWAY-HTTP, against one replica on the ports that it asks.

`conformance.toml` has the features that Pilotlight says it has, and the tests that it does not pass, each with why. A
test that fails and is not there fails here, as does one that is there and passes.
"""

import copy
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from conftest import MANIFESTS, OWN, documents, wait
from things import named

HERE = Path(__file__).resolve().parent
KNOWN = tomllib.loads((HERE / "conformance.toml").read_text())
CLASS = "conformance"
LIMIT = 3600.0  # seconds
RESULT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): TestGatewayAPI/(\w+) \(", re.MULTILINE)


def enforce(api, level):
    api.merge(f"/api/v1/namespaces/{OWN}", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}})


@pytest.fixture(scope="module")
def alone(installed):
    """One replica that listens where Gateways say; the others do not run meanwhile."""
    api, path = installed.api, f"/apis/apps/v1/namespaces/{OWN}/deployments"
    made = copy.deepcopy(next(one for one in documents(MANIFESTS / "pilotlight.yaml") if one["kind"] == "Deployment"))
    made["metadata"]["name"] = CLASS
    made["spec"] |= {"replicas": 1, "selector": {"matchLabels": {"app": CLASS}}}
    template = made["spec"]["template"]
    template["metadata"]["labels"] = {"app": CLASS}
    template["spec"]["topologySpreadConstraints"] = []
    container = template["spec"]["containers"][0]
    # Of every class: the suite makes one of its own.
    container["args"] = ["kubernetes", "--config=/etc/pilotlight/pilotlight.toml"]
    # Ports below 1024: a capability that the namespace's pods may not have. The double gives what is not dropped.
    del container["securityContext"]["capabilities"]
    api.merge(f"{path}/pilotlight/scale", {"spec": {"replicas": 0}})
    wait(lambda: not installed.pods(), "the other replicas are gone")
    enforce(api, "baseline")
    controller = {"controllerName": "pilotlight.dev/gateway"}
    api.apply(named("gateway.networking.k8s.io/v1", "GatewayClass", CLASS, spec=controller))
    api.apply(made)
    wait(lambda: api.get(f"{path}/{CLASS}")["status"].get("readyReplicas") == 1, "the replica is ready")
    yield installed
    api.delete(f"{path}/{CLASS}")
    enforce(api, "restricted")
    api.merge(f"{path}/pilotlight/scale", {"spec": {"replicas": 2}})
    wait(lambda: len(installed.ready()) == 2, "two replicas are ready")


def test_the_suite(alone, cluster, tmp_path):
    command = [
        str(cluster.programs / "conformance"),
        "-test.v",
        f"-test.timeout={int(LIMIT)}s",
        f"-gateway-class={CLASS}",
        "-conformance-profiles=GATEWAY-HTTP",
        f"-supported-features={','.join(KNOWN['features'])}",
        f"-report-output={tmp_path / 'report.yaml'}",
        "-organization=pilotlight",
        "-project=pilotlight",
        "-url=https://example.org",
        "-version=test",
        "-contact=test",
    ]
    if only := os.environ.get("CONFORMANCE"):
        command.append(f"-run-test={only}")
    log = cluster.folder / "conformance.log"
    with log.open("wb") as output:
        environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
        subprocess.run(command, env=environment, stdout=output, stderr=subprocess.STDOUT, timeout=LIMIT)
    results = {name: result for result, name in RESULT.findall(log.read_text(errors="replace"))}
    counts = {kind: sum(result == kind for result in results.values()) for kind in ("PASS", "FAIL", "SKIP")}
    failed = {name for name, result in results.items() if result == "FAIL"}
    report = tmp_path / "report.yaml"
    print(f"conformance: {counts}; failed: {sorted(failed)}\n{report.read_text() if report.exists() else ''}")
    assert counts["PASS"], log.read_text(errors="replace")[-5000:]
    known = set(KNOWN["fails"])
    assert failed <= known, f"failed, and not known to: {sorted(failed - known)}; see {log}"
    if not only:
        passed = {name for name in known if results.get(name) == "PASS"}
        assert not passed, f"known to fail, and passed: {sorted(passed)}"
