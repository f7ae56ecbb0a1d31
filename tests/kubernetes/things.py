"""The resources of the tests, as dictionaries."""

import sys
from pathlib import Path

from api import encoded

BACKEND = [sys.executable, "-B", str(Path(__file__).resolve().parent / "backend.py")]
PORT = 8000
CLASS = "pilotlight"


def named(version, kind, name, namespace=None, **fields):
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta} | fields


def annotated(thing, annotations):
    thing["metadata"]["annotations"] = annotations
    return thing


def deployment(name, namespace, replicas=1, drain=0, annotations=None, kind="Deployment", **environment):
    """Pods of backend.py; `drain`: seconds for which a pod that is to end goes on."""
    pod_name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container = {
        "name": "backend",
        "image": "backend",
        "command": BACKEND,
        "env": [pod_name, *({"name": key, "value": str(value)} for key, value in environment.items())],
        "ports": [{"name": "web", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "web"}, "periodSeconds": 1},
    }
    if drain:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": drain}}}
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": drain + 5},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    made = named("apps/v1", kind, name, namespace, spec=spec)
    return annotated(made, annotations) if annotations else made


def service(name, namespace, port_name="http"):
    ports = [{"name": port_name, "port": 80, "targetPort": "web"}]
    return named("v1", "Service", name, namespace, spec={"selector": {"app": name}, "ports": ports})


def ingress(name, namespace, host, to, path="/", tls=None):
    backend = {"service": {"name": to, "port": {"number": 80}}}
    rule = {"host": host, "http": {"paths": [{"path": path, "pathType": "Prefix", "backend": backend}]}}
    spec = {"ingressClassName": CLASS, "rules": [rule]}
    if tls:
        spec["tls"] = [{"hosts": [host], "secretName": tls}]
    return named("networking.k8s.io/v1", "Ingress", name, namespace, spec=spec)


def gateway(name, namespace, *listeners, routes_from="All", gateway_class=CLASS):
    made = [{"allowedRoutes": {"namespaces": {"from": routes_from}}} | listener for listener in listeners or [http()]]
    spec = {"gatewayClassName": gateway_class, "listeners": made}
    return named("gateway.networking.k8s.io/v1", "Gateway", name, namespace, spec=spec)


def http(name="http", port=80, **more):
    return {"name": name, "port": port, "protocol": "HTTP"} | more


def https(secret, hostname, name="https", port=443):
    tls = {"mode": "Terminate", "certificateRefs": [{"name": secret}]}
    return {"name": name, "port": port, "protocol": "HTTPS", "hostname": hostname, "tls": tls}


def http_route(name, namespace, host, *rules, parent="gateway"):
    spec = {"parentRefs": [{"name": parent}], "hostnames": [host], "rules": list(rules)}
    return named("gateway.networking.k8s.io/v1", "HTTPRoute", name, namespace, spec=spec)


def rule(*backends, **more):
    """Backends: names of services, or (name, weight)."""
    refs = [(one, 1) if isinstance(one, str) else one for one in backends]
    return {"backendRefs": [{"name": name, "port": 80, "weight": weight} for name, weight in refs]} | more


def prefix(path):
    return {"path": {"type": "PathPrefix", "value": path}}


def tls_secret(name, namespace, certificate, key):
    data = {"tls.crt": encoded(certificate.read_bytes()), "tls.key": encoded(key.read_bytes())}
    return named("v1", "Secret", name, namespace, type="kubernetes.io/tls", data=data)
