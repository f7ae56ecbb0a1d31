"""A pod of the kubelet's double: its one container started, probed, started again when it ends, and stopped.

What is not understood (more containers than one, probes that execute a program) is an error of the container that the
pod's status has, so that no test passes by what was left out.
"""

import base64
import http.client
import json
import re
import shlex
import signal
import socket
import ssl
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import sandbox
from api import ApiError, path_of

PROBE_FIRST = 0.05  # seconds between probes until the first that succeeds
MAX_BACKOFF = 10.0  # seconds before a container that ended is started again
LOOKED = 0.2  # seconds between looks at a process
API_AWAY = 0.5  # seconds before something is said to the API server again
VARIABLE = re.compile(r"\$\(([A-Za-z_][\w.-]*)\)|\$\$")


class Refused(Exception):
    """A pod that this double cannot run."""


def _refused(error):
    return {"waiting": {"reason": "CreateContainerConfigError", "message": str(error)}}


def now():
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Pod(threading.Thread):
    """`tell` brings what the API server has; the thread runs until the pod is gone."""

    def __init__(self, node, pod, address):
        super().__init__(daemon=True, name=pod["metadata"]["name"])
        self.node = node
        self.pod = pod
        self.address = address
        meta = pod["metadata"]
        self.name, self.namespace, self.uid = meta["name"], meta["namespace"], meta["uid"]
        self.path = path_of("v1", "pods", self.namespace, self.name)
        self.folder = node.folder / "pods" / f"{self.namespace}_{self.name}_{self.uid[:8]}"
        self.log = self.folder / "log"
        self.started = now()
        self.restarts = 0
        self.process = None
        self.said = None
        self.ending = threading.Event()  # it was deleted, gently or not
        self.gone = threading.Event()  # the API server has it no more

    def tell(self, pod):
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self.ending.set()

    def forget(self):
        self.gone.set()
        self.ending.set()

    def run(self):
        try:
            spec = self.pod["spec"]
            if len(spec["containers"]) != 1 or spec.get("initContainers"):
                raise Refused("the double runs pods of one container")
            self.folder.mkdir(parents=True)
            while not self.ending.is_set():
                try:
                    self._live(spec["containers"][0])
                except ApiError as error:  # what it mounts is not there yet, say
                    self._say("Pending", _refused(error))
                    self.ending.wait(API_AWAY)
        except (Refused, FileNotFoundError) as error:
            self._say("Pending", _refused(error))
            self.ending.wait()
        finally:
            self._stop()
            self._remove()
            self.node.released(self)

    def _live(self, container):
        argv, environment, mounts = self._argv(container), self._environment(container), self._mounts(container)
        backoff = 0.1
        while not self.ending.is_set():
            begin = time.monotonic()
            with self.log.open("ab") as log:
                folder = container.get("workingDir")
                security = container.get("securityContext", {})
                self.process = sandbox.start(argv, environment, self.address, mounts, security, log, folder)
            self._watch(container)
            if self.ending.is_set():
                return
            status = self.process.wait()
            with self.log.open("a") as log:
                log.write(f"double: {now()}: it ended with {status}\n")
            policy = self.pod["spec"].get("restartPolicy", "Always")
            ended = {"terminated": {"exitCode": max(status, 128 - status if status < 0 else 0), "finishedAt": now()}}
            if policy == "Never" or (policy == "OnFailure" and status == 0):
                self._say("Failed" if status else "Succeeded", ended)
                self.ending.wait()
                return
            self._say("Running", {"waiting": {"reason": "CrashLoopBackOff", "message": f"it ended with {status}"}})
            backoff = 0.1 if time.monotonic() - begin > MAX_BACKOFF else min(backoff * 2, MAX_BACKOFF)
            self.ending.wait(backoff)
            self.restarts += 1

    def _watch(self, container):
        """Until the process ends or the pod is deleted: probes, and what they say."""
        running = {"running": {"startedAt": now()}}
        probes = {kind: Probe(self.address, container, kind) for kind in Probe.KINDS if kind in container}
        startup, readiness, liveness = (probes.get(kind) for kind in Probe.KINDS)
        self._say("Running", running, is_ready=False if startup or readiness else True)
        while self.process.poll() is None and not self.ending.is_set():
            due = [startup] if startup and not startup.passed else [readiness, liveness]
            waiting = [probe for probe in due if probe]
            for probe in waiting:
                probe.look()
            if (liveness and liveness.failed) or (startup and startup.failed):
                with self.log.open("a") as log:
                    log.write(f"double: {now()}: its probes failed too often\n")
                self._end(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
                return
            is_up = not startup or startup.passed
            self._say("Running", running, is_ready=is_up and (not readiness or readiness.passed))
            wake = min((probe.due for probe in waiting), default=time.monotonic() + LOOKED)
            self.ending.wait(max(0.0, min(wake - time.monotonic(), LOOKED)))

    def _stop(self):
        if not self.process or self.process.poll() is not None:
            return
        meta = self.pod["metadata"]
        grace = 0 if self.gone.is_set() else meta.get("deletionGracePeriodSeconds", 30)
        hook = self.pod["spec"]["containers"][0].get("lifecycle", {}).get("preStop", {})
        if grace and "sleep" in hook:
            self.gone.wait(min(hook["sleep"]["seconds"], grace))
        self._end(grace)

    def _end(self, grace):
        if grace:
            self.process.send_signal(signal.SIGTERM)
            end = time.monotonic() + grace
            while self.process.poll() is None and time.monotonic() < end and not self.gone.is_set():
                time.sleep(0.01)
        self.process.kill()
        self.process.wait()

    def _remove(self):
        while not self.gone.is_set():
            try:
                self.node.api.delete(self.path, gracePeriodSeconds=0)
                return
            except (OSError, ApiError, http.client.HTTPException):
                self.gone.wait(API_AWAY)

    def _say(self, phase, state, is_ready=False):
        """Writes the status if it is another than before; waits for an API server that is away."""
        status = self._status(phase, state, is_ready)
        shown = json.dumps(status)
        if shown == self.said:
            return
        while not self.gone.is_set():
            try:
                self.node.api.merge(self.path + "/status", {"status": status})
                self.said = shown
                return
            except ApiError as error:
                if error.status == 404:
                    return
                self.gone.wait(API_AWAY)
            except (OSError, http.client.HTTPException):
                # Who runs goes on: it is said when the API server is back.
                return

    def _status(self, phase, state, is_ready):
        ready = "True" if is_ready else "False"
        # Times of changes would make every status another: the pod's start is what they all have.
        conditions = [
            {"type": kind, "status": value, "lastTransitionTime": self.started}
            for kind, value in (
                ("PodScheduled", "True"),
                ("Initialized", "True"),
                ("ContainersReady", ready),
                ("Ready", ready),
            )
        ]
        container = self.pod["spec"]["containers"][0]
        return {
            "phase": phase,
            "conditions": conditions,
            "hostIP": self.node.address,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": self.started,
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "local",
                    "ready": is_ready,
                    "started": "running" in state,
                    "restartCount": self.restarts,
                    "state": state,
                }
            ],
        }

    def _argv(self, container):
        image = container["image"].rsplit("/", 1)[-1].split("@")[0].split(":")[0]
        program = container.get("command") or self.node.images.get(image)
        if not program:
            raise Refused(f"no local program for the image {container['image']}, and no command")
        return [expand(word, self._environment(container)) for word in [*program, *container.get("args", [])]]

    def _environment(self, container):
        values = dict(self.node.environment)
        for source in container.get("envFrom", []):
            raise Refused(f"envFrom is not understood: {source}")
        for each in container.get("env", []):
            text = each.get("value")
            values[each["name"]] = expand(text, values) if text is not None else self._from(each.get("valueFrom"))
        return values

    def _from(self, source):
        if not source:
            return ""
        if field := source.get("fieldRef"):
            known = {
                "metadata.name": self.name,
                "metadata.namespace": self.namespace,
                "metadata.uid": self.uid,
                "spec.nodeName": self.node.name,
                "spec.serviceAccountName": self.pod["spec"].get("serviceAccountName", "default"),
                "status.podIP": self.address,
                "status.hostIP": self.node.address,
            }
            return known[field["fieldPath"]]
        if key := source.get("configMapKeyRef"):
            return self.node.api.get(path_of("v1", "configmaps", self.namespace, key["name"]))["data"][key["key"]]
        if key := source.get("secretKeyRef"):
            data = self.node.api.get(path_of("v1", "secrets", self.namespace, key["name"]))["data"]
            return base64.b64decode(data[key["key"]]).decode()
        raise Refused(f"a variable from {source} is not understood")

    def _mounts(self, container):
        volumes = {volume["name"]: volume for volume in self.pod["spec"].get("volumes", [])}
        mounts = []
        for mount in container.get("volumeMounts", []):
            if "subPath" in mount:
                raise Refused("subPath is not understood")
            mounts.append((self._volume(volumes[mount["name"]]), mount["mountPath"]))
        return mounts

    def _volume(self, volume):
        folder = self.folder / "volumes" / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        for source in sources:
            for name, data in self._files(source).items():
                (folder / name).write_bytes(data)
        return folder

    def _files(self, source):
        if "emptyDir" in source:
            return {}
        if "configMap" in source:
            read = self.node.api.get(path_of("v1", "configmaps", self.namespace, source["configMap"]["name"]))
            return {name: text.encode() for name, text in read.get("data", {}).items()}
        if "secret" in source:
            wanted = source["secret"]
            name = wanted.get("secretName") or wanted["name"]
            read = self.node.api.get(path_of("v1", "secrets", self.namespace, name))
            data = {name: base64.b64decode(text) for name, text in read["data"].items()}
            items = wanted.get("items")
            return {item["path"]: data[item["key"]] for item in items} if items else data
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: self._token().encode()}
        if "downwardAPI" in source:
            items = source["downwardAPI"]["items"]
            return {item["path"]: self._from({"fieldRef": item["fieldRef"]}).encode() for item in items}
        raise Refused(f"a volume of {sorted(source)} is not understood")

    def _token(self):
        account = self.pod["spec"].get("serviceAccountName", "default")
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": self.name, "uid": self.uid}},
        }
        path = path_of("v1", "serviceaccounts", self.namespace, account) + "/token"
        return self.node.api.request("POST", path, asked)["status"]["token"]


class Probe:
    """One probe of a container: when it is due, and whether it has passed or failed often enough."""

    KINDS = ("startupProbe", "readinessProbe", "livenessProbe")

    def __init__(self, address, container, kind):
        self.address = address
        self.probe = container[kind]
        self.ports = {port.get("name"): port["containerPort"] for port in container.get("ports", [])}
        self.passed = False
        self.failed = False
        self.failures = 0
        self.due = time.monotonic() + self.probe.get("initialDelaySeconds", 0)
        if not self.probe.keys() & {"httpGet", "tcpSocket"}:
            raise Refused(f"a {kind} that is neither httpGet nor tcpSocket is not understood")

    def look(self):
        if time.monotonic() < self.due:
            return
        if self._succeeds():
            self.passed, self.failures = True, 0
        else:
            self.failures += 1
            if self.failures >= self.probe.get("failureThreshold", 3):
                self.failed, self.passed = True, False
        period = self.probe.get("periodSeconds", 10)
        self.due = time.monotonic() + (period if self.passed or self.failed else min(PROBE_FIRST, period))
        # What is asked more often than a kubelet asks must not count as more failures.
        if not self.passed and period > PROBE_FIRST and self.failures:
            self.failures -= 1 - PROBE_FIRST / period

    def _port(self, port):
        return port if isinstance(port, int) else self.ports[port]

    def _succeeds(self):
        timeout = self.probe.get("timeoutSeconds", 1)
        try:
            if "tcpSocket" in self.probe:
                socket.create_connection((self.address, self._port(self.probe["tcpSocket"]["port"])), timeout).close()
                return True
            return 200 <= self._http(self.probe["httpGet"], timeout) < 400
        except (OSError, http.client.HTTPException):
            return False

    def _http(self, get, timeout):
        port = self._port(get["port"])
        host = get.get("host", self.address)
        if get.get("scheme") == "HTTPS":
            tls = ssl._create_unverified_context()
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=tls)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout)
        try:
            fields = {field["name"]: field["value"] for field in get.get("httpHeaders", [])}
            connection.request("GET", get.get("path", "/"), headers=fields)
            return connection.getresponse().status
        finally:
            connection.close()


def expand(text, values):
    """`$(NAME)` as Kubernetes has it: what is not known stays, `$$` is a dollar."""
    return VARIABLE.sub(lambda found: "$" if found[0] == "$$" else values.get(found[1], found[0]), text)


def images(words):
    """NAME=PROGRAM WORD… of the command line."""
    split = (word.split("=", 1) for word in words)
    return {name: shlex.split(program) for name, program in split}


def make_folder(path):
    Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)
