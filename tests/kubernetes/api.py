"""A small client of the Kubernetes API, JSON over HTTPS, for the tests and the kubelet's double.

It knows no kinds: the API server says which resources it has.
"""

import base64
import http.client
import json
import ssl
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

TIMEOUT = 30.0  # seconds, for one answer; a watch has none
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
MANAGER = "pilotlight-tests"


class ApiError(Exception):
    """What the API server refused, with its own words."""

    def __init__(self, status, answer):
        self.status = status
        self.answer = answer
        super().__init__(f"{status}: {answer.get('message', answer) if isinstance(answer, dict) else answer}")


class Api:
    """One user of the API. Threads may share it: each has a connection of its own."""

    def __init__(self, kubeconfig):
        config = json.loads(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server = urlsplit(cluster["server"])
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        if "client-certificate" in user:
            self._tls.load_cert_chain(user["client-certificate"], user["client-key"])
        self._fields = {"authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._own = threading.local()
        self._resources = {}  # (apiVersion, kind) -> (plural, whether it has namespaces)

    def connect(self, timeout=TIMEOUT):
        return http.client.HTTPSConnection(self.server.hostname, self.server.port, timeout=timeout, context=self._tls)

    def request(self, method, path, body=None, content_type="application/json", **query):
        """The answer's document; `ApiError` for what is refused, `OSError` if there is nobody."""
        data = None if body is None else json.dumps(body)
        target = path + ("?" + urlencode(query) if query else "")
        fields = self._fields | ({"content-type": content_type} if data else {})
        for last in (False, True):
            kept = getattr(self._own, "connection", None)
            connection = kept or self.connect()
            self._own.connection = None
            try:
                connection.request(method, target, data, fields)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                if kept is None or last:
                    raise
                continue  # what was kept may have been closed meanwhile
            self._own.connection = connection
            document = _document(text)
            if answer.status >= 300:
                raise ApiError(answer.status, document)
            return document

    def get(self, path, **query):
        return self.request("GET", path, **query)

    def find(self, path):
        """What is there, or None."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def create(self, thing, **query):
        path = self.path(thing)
        return self.request("POST", path.rsplit("/", 1)[0] if _has_name(thing) else path, thing, **query)

    def apply(self, thing, **query):
        """Server-side apply, strict: an unknown or doubled field is an error."""
        asked = {"fieldManager": MANAGER, "force": "true", "fieldValidation": "Strict"} | query
        return self.request("PATCH", self.path(thing), thing, APPLY, **asked)

    def merge(self, path, change, **query):
        return self.request("PATCH", path, change, MERGE, **query)

    def delete(self, path, **query):
        try:
            return self.request("DELETE", path, **query)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def path(self, thing):
        """Where this thing is, or where it will be."""
        plural, has_namespace = self._resource(thing["apiVersion"], thing["kind"])
        return path_of(
            thing["apiVersion"],
            plural,
            thing["metadata"].get("namespace", "default") if has_namespace else None,
            thing["metadata"].get("name"),
        )

    def _resource(self, version, kind):
        if (version, kind) not in self._resources:
            for one in self.get(path_of(version))["resources"]:
                if "/" not in one["name"]:
                    self._resources[version, one["kind"]] = one["name"], one["namespaced"]
        return self._resources[version, kind]

    def watch(self, path, stopping, **query):
        """(type, thing) for ever: what is there as ADDED, then what happens. Comes back when the API server does."""
        while not stopping.is_set():
            try:
                yield from self._watch(path, query)
            except (OSError, http.client.HTTPException, ApiError):
                stopping.wait(0.2)

    def _watch(self, path, query):
        listed = self.get(path, **query)
        yield "LISTED", listed["items"]
        since = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        connection = self.connect(timeout=None)
        try:
            connection.request("GET", path + "?" + urlencode(query | since), headers=self._fields)
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError(answer.status, _document(answer.read()))
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return  # too old: listed anew
                yield event["type"], event["object"]
        finally:
            connection.close()


def path_of(version, plural=None, namespace=None, name=None):
    """The path of a resource, of all in a namespace, or of one."""
    parts = ["/apis/" + version if "/" in version else "/api/" + version]
    if namespace:
        parts.append(f"namespaces/{quote(namespace)}")
    if plural:
        parts.append(plural)
    if name:
        parts.append(quote(name))
    return "/".join(parts)


def _has_name(thing):
    return bool(thing["metadata"].get("name"))


def _document(text):
    try:
        return json.loads(text)
    except ValueError:
        return text.decode(errors="replace")


def write_kubeconfig(path, server, authority, **user):
    """As JSON, which is YAML. `user`: client_certificate and client_key, or token."""
    fields = {name.replace("_", "-"): str(value) for name, value in user.items()}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "test", "cluster": {"server": server, "certificate-authority": str(authority)}}
                ],
                "users": [{"name": "user", "user": fields}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
                "current-context": "test",
            },
            indent=1,
        )
    )
    path.chmod(0o600)
    return path


def encoded(data):
    return base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()


def eventually(check, limit, every=0.05):
    """The first true answer of `check`, or None when `limit` seconds are over."""
    end = time.monotonic() + limit
    while True:
        if answer := check():
            return answer
        if time.monotonic() > end:
            return None
        time.sleep(every)
