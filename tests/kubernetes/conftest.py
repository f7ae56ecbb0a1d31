"""One cluster for all tests, Pilotlight installed in it as packaging/kubernetes has it, a namespace for each test."""

import http.client
import itertools
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "sdk" / "conformance")]

import things  # noqa: E402
from api import ApiError, eventually, path_of  # noqa: E402
from cluster import Cluster  # noqa: E402
from http1 import Client  # noqa: E402

pytest_plugins = ["skips"]

MANIFESTS = ROOT / "packaging" / "kubernetes"
READY = 60.0  # seconds, for what a cluster does by itself
HTTP, HTTPS = 8080, 8443  # of the gateway's pods
OWN = "pilotlight"  # the namespace of the gateway


def documents(path):
    return [document for document in yaml.load_all(path.read_text(), yaml.CSafeLoader) if document]


def wait(check, what, limit=READY):
    """What `check` gives when it is true; errors of the API are waited over."""
    said = []

    def once():
        try:
            return check()
        except (ApiError, OSError, http.client.HTTPException, KeyError) as error:
            said[:] = [repr(error)]
            return None

    found = eventually(once, limit)
    assert found, f"{what}: not within {limit:.0f} s {' '.join(said)}"
    return found


def condition(things, kind):
    """(status, reason) of a condition, or None."""
    return next(((one["status"], one["reason"]) for one in things or [] if one["type"] == kind), None)


class Installed:
    """Pilotlight in the cluster."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.api = cluster.api

    def apply(self):
        for document in documents(MANIFESTS / "pilotlight.yaml") + documents(MANIFESTS / "gatewayclass.yaml"):
            self.api.apply(document)
        wait(lambda: len(self.ready()) == 2, "two replicas are ready")
        return self

    def pods(self):
        found = self.api.get(path_of("v1", "pods", OWN), labelSelector="app.kubernetes.io/name=pilotlight")
        return [pod for pod in found["items"] if not pod["metadata"].get("deletionTimestamp")]

    def ready(self):
        """Name and address of each replica that is ready, by name."""
        pods = [pod for pod in self.pods() if condition_of_pod(pod, "Ready")]
        return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in pods}

    def address(self):
        """One that answers."""
        return wait(lambda: min(self.ready().values(), default=None), "a replica is ready")

    def lease(self):
        return self.api.get(path_of("coordination.k8s.io/v1", "leases", OWN, "pilotlight"))["spec"]

    def leader(self):
        return self.lease().get("holderIdentity")

    def processes(self, name):
        """The processes of a replica, its first before those that it started."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"POD_NAME={name}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return sorted(found)

    def kill(self, name):
        for pid in self.processes(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def log(self, name):
        logs = self.cluster.folder.glob(f"pods/{OWN}_{name}_*/log")
        return "\n".join(path.read_text(errors="replace") for path in logs)

    def get(self, host, target="/", address=None, timeout=20.0, port=HTTP, fields=()):
        with Client((address or self.address(), port), timeout) as client:
            return client.request("GET", target, fields, None, host)

    def wait_for(self, host, target="/", status=200, text=None, limit=READY):
        """Every replica answers so; the last answer."""

        def all_answer():
            answers = [self.get(host, target, address) for address in self.ready().values()]
            good = [one.status == status and (text is None or text in one.body.decode()) for one in answers]
            return answers[-1] if answers and all(good) else None

        return wait(all_answer, f"{host}{target} answers with {status}", limit)


def condition_of_pod(pod, kind):
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


class Load:
    """Requests without a pause from several connections, over all replicas of the gateway; `with Load(…) as load`."""

    def __init__(self, addresses, host, target="/", connections=4, port=HTTP, pause=0.0):
        self.pause = pause  # seconds between requests of one connection
        self.addresses = itertools.cycle(list(addresses))
        self.host, self.target, self.port = host, target, port
        self.results = Counter()
        self.failures = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(next(self.addresses),)) for _ in range(connections)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def answered(self, count):
        """Waits for that many more answers."""
        end = self.results[200] + count
        assert eventually(lambda: self.results[200] >= end or self.failures, READY), self.results

    def _run(self, address):
        client = None
        while not self._stopping.is_set():
            try:
                client = client or Client((address, self.port), 30.0)
                answer = client.request("GET", self.target, (), None, self.host)
                self.results[answer.status] += 1
                if answer.status != 200:
                    self.failures.append((time.time(), address, repr(answer)))
                if answer.get("connection") == "close":
                    client.close()
                    client = None
                self._stopping.wait(self.pause)
            except Exception as error:  # noqa: BLE001: whatever it was, it is a failed request
                self.results["error"] += 1
                self.failures.append((time.time(), address, repr(error)))
                if client:
                    client.close()
                client = None
                self._stopping.wait(0.1)


class Space:
    """A namespace of one test, and shorthands for what is in it."""

    def __init__(self, cluster, name):
        self.api = cluster.api
        self.name = name
        self.host = f"{name}.test"

    def apply(self, *made):
        for thing in made:
            self.api.apply(thing)

    def backend(self, name="app", service=True, **settings):
        self.apply(things.deployment(name, self.name, **settings))
        if service:
            self.apply(things.service(name, self.name))

    def read(self, version, plural, name):
        return self.api.get(path_of(version, plural, self.name, name))

    def scale(self, name, replicas):
        self.api.merge(path_of("apps/v1", "deployments", self.name, name) + "/scale", {"spec": {"replicas": replicas}})

    def replicas(self, name, plural="deployments"):
        return self.read("apps/v1", plural, name)["spec"]["replicas"]

    def pods(self, app="app"):
        found = self.api.get(path_of("v1", "pods", self.name), labelSelector=f"app={app}")["items"]
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def ready(self, app="app"):
        return [pod["metadata"]["name"] for pod in self.pods(app) if condition_of_pod(pod, "Ready")]

    def wait_ready(self, count, app="app"):
        wait(lambda: len(self.ready(app)) == count == len(self.pods(app)), f"{count} pods of {app} are ready")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    folder = os.environ.get("KUBERNETES_FOLDER") or tmp_path_factory.mktemp("cluster")
    with Cluster(folder, with_kwok=True) as started:
        yield started


@pytest.fixture(scope="session")
def installed(cluster):
    yield Installed(cluster).apply()


@pytest.fixture
def space(cluster, request):
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[-50:].strip("-")
    cluster.api.apply(things.named("v1", "Namespace", name))
    wait(lambda: cluster.api.find(path_of("v1", "serviceaccounts", name, "default")), "the namespace has its account")
    yield Space(cluster, name)
    cluster.api.delete(path_of("v1", "namespaces", name=name))
