"""What packaging/kubernetes has, against a real API server: every field and right; the chart says the same."""

import copy
import json
import subprocess

import pytest
import yaml
from api import ApiError
from conftest import MANIFESTS, OWN, documents, wait
from things import named

CHART = MANIFESTS / "chart"
PLAIN = documents(MANIFESTS / "pilotlight.yaml") + documents(MANIFESTS / "gatewayclass.yaml")
ACCOUNT = f"system:serviceaccount:{OWN}:pilotlight"
GATEWAY_API = "gateway.networking.k8s.io"
READ = ("list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")

# (group, resource, subresource, namespace, verbs)
ALLOWED = [
    *((GATEWAY_API, each, "", "shop", READ) for each in ("gateways", "httproutes", "referencegrants")),
    (GATEWAY_API, "gatewayclasses", "", "", READ),
    (GATEWAY_API, "gatewayclasses", "status", "", ("patch",)),
    *((GATEWAY_API, each, "status", "shop", ("patch",)) for each in ("gateways", "httproutes")),
    ("networking.k8s.io", "ingresses", "", "shop", READ),
    ("networking.k8s.io", "ingresses", "status", "shop", ("patch",)),
    ("networking.k8s.io", "ingressclasses", "", "", READ),
    ("discovery.k8s.io", "endpointslices", "", "shop", READ),
    *(("", each, "", "shop", READ) for each in ("services", "secrets")),
    ("", "namespaces", "", "", READ),
    *(("apps", each, "", "shop", READ) for each in ("deployments", "statefulsets")),
    *(("apps", each, "scale", "shop", ("patch",)) for each in ("deployments", "statefulsets")),
    ("coordination.k8s.io", "leases", "", OWN, ("get", "list", "create", "patch", "delete")),
]
REFUSED = [
    *((GATEWAY_API, each, "", "shop", WRITE) for each in ("gateways", "httproutes", "referencegrants")),
    ("networking.k8s.io", "ingresses", "", "shop", WRITE),
    *(("", each, "", "shop", WRITE) for each in ("services", "secrets", "configmaps", "pods", "serviceaccounts")),
    *(("", "pods", each, "shop", ("get", "create")) for each in ("exec", "attach", "portforward", "proxy", "log")),
    ("", "serviceaccounts", "token", "shop", ("create",)),
    ("", "serviceaccounts", "token", OWN, ("create",)),
    ("", "configmaps", "", "shop", READ),
    ("", "nodes", "", "", (*READ, *WRITE)),
    ("", "namespaces", "", "", WRITE),
    *(("apps", each, "", "shop", WRITE) for each in ("deployments", "statefulsets", "daemonsets")),
    *(("apps", each, "scale", "shop", ("update",)) for each in ("deployments", "statefulsets")),
    ("coordination.k8s.io", "leases", "", "shop", ("get", *READ, *WRITE)),
    ("coordination.k8s.io", "leases", "", "kube-system", ("get", *READ, *WRITE)),
    ("coordination.k8s.io", "leases", "", OWN, ("deletecollection",)),
    ("rbac.authorization.k8s.io", "clusterroles", "", "", (*READ, *WRITE, "escalate", "bind")),
    ("", "users", "", "", ("impersonate",)),
]


def called(document):
    return f"{document['kind']}/{document['metadata']['name']}"


@pytest.fixture(scope="module")
def accounted(cluster):
    """The namespace, the account and its rights: what the others are looked at beside."""
    for document in PLAIN:
        if document["kind"] in ("Namespace", "ServiceAccount") or "rbac" in document["apiVersion"]:
            cluster.api.apply(document)
    return cluster


@pytest.mark.parametrize("document", PLAIN, ids=called)
def test_the_api_server_takes_it_without_an_unknown_field(accounted, document):
    answer = accounted.api.apply(document, dryRun="All")
    assert answer["metadata"]["name"] == document["metadata"]["name"]


def test_an_unknown_field_would_be_refused(accounted):
    wrong = copy.deepcopy(next(document for document in PLAIN if document["kind"] == "Deployment"))
    wrong["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(ApiError, match="readynessProbe"):
        accounted.api.apply(wrong, dryRun="All")


def test_its_pods_are_let_into_a_restricted_namespace(accounted):
    template = next(document for document in PLAIN if document["kind"] == "Deployment")["spec"]["template"]
    pod = named("v1", "Pod", "looked-at", OWN, spec=copy.deepcopy(template["spec"]))
    accounted.api.create(pod, dryRun="All", fieldValidation="Strict")
    pod["spec"]["containers"][0]["securityContext"]["capabilities"] = {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    with pytest.raises(ApiError, match="restricted"):
        accounted.api.create(pod, dryRun="All")


def may(api, group, resource, subresource, namespace, verb):
    asked = {"group": group, "resource": resource, "subresource": subresource, "namespace": namespace, "verb": verb}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{OWN}", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": ACCOUNT, "groups": groups, "resourceAttributes": asked},
    }
    return api.create(review)["status"]["allowed"]


def rights(api, table):
    return {(one, verb): may(api, *one[:4], verb) for one in table for verb in one[4]}


def test_it_has_the_rights_that_it_needs(accounted):
    # What an authorizer has learnt of a role may be a moment old.
    wait(lambda: all(rights(accounted.api, ALLOWED).values()), "every right is there")


def test_it_has_no_others(accounted):
    assert [asked for asked, is_allowed in rights(accounted.api, REFUSED).items() if is_allowed] == []


def rendered(cluster, *settings, release=OWN):
    words = [f"--set={setting}" for setting in settings]
    helm = [str(cluster.programs / "helm"), "template", release, str(CHART), "--namespace", OWN, *words]
    done = subprocess.run([*helm, "--kube-version", "1.36.3"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


def comparable(documents):
    """By kind and name; rules of roles as the set of what they allow. The namespace is helm's to make."""
    found = {}
    for document in documents:
        if document["kind"] == "Namespace":
            continue
        document = copy.deepcopy(document)
        if "rules" in document:
            document["rules"] = sorted(
                (group, resource, verb)
                for rule in document["rules"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            )
        found[called(document)] = document
    return found


def test_the_chart_says_what_the_plain_files_say(cluster):
    chart, plain = comparable(rendered(cluster)), comparable(PLAIN)
    assert chart.keys() == plain.keys()
    for name in plain:
        one, other = (json.dumps(each[name], indent=1, sort_keys=True) for each in (chart, plain))
        assert one == other, name


VALUES = [
    "replicas=5",
    "namespaces={shop,blog}",
    "scaleToZero=false",
    "service.type=ClusterIP",
    "ingressClass.isDefault=true",
    "args={--address=192.0.2.1}",
    "podAnnotations.a=b",
    "nodeSelector.disk=ssd",
    "imagePullSecrets[0].name=registry",
    "imagePullPolicy=Always",
    "tolerations[0].operator=Exists",
    "service.annotations.a=b",
]


@pytest.mark.parametrize("setting", VALUES)
def test_the_api_server_takes_the_chart_with_values(accounted, setting):
    for name in ("shop", "blog"):
        accounted.api.apply(named("v1", "Namespace", name))
    for document in rendered(accounted, setting, release="edge"):
        accounted.api.apply(document, dryRun="All")


def test_with_namespaces_secrets_elsewhere_cannot_be_read(cluster):
    """By the rules of the chart alone: nothing of all namespaces but classes and names of namespaces."""
    found = comparable(rendered(cluster, "namespaces={shop}", "scaleToZero=false"))
    everywhere = {resource for _, resource, _ in found["ClusterRole/pilotlight"]["rules"]}
    assert everywhere == {"gatewayclasses", "gatewayclasses/status", "ingressclasses", "namespaces"}
    served = found["Role/pilotlight-served"]
    assert served["metadata"]["namespace"] == "shop"
    resources = {resource for _, resource, _ in served["rules"]}
    assert "secrets" in resources and not any("scale" in each or "deployments" in each for each in resources)
    arguments = found["Deployment/pilotlight"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--namespace=shop" in arguments


def test_helm_finds_nothing_wrong_with_the_chart(cluster):
    helm = [str(cluster.programs / "helm"), "lint", "--strict", str(CHART)]
    done = subprocess.run(helm, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
