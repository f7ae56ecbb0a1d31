#!/usr/bin/env python3
"""A double of a kubelet: a node whose pods are local processes (docs/adr/0064-kubernetes-tested.md).

    kubelet.py --kubeconfig FILE --folder FOLDER [--image NAME=PROGRAM]…

It runs inside the namespaces that cluster.py makes.
"""

import argparse
import http.client
import ipaddress
import itertools
import threading
from datetime import UTC, datetime

from api import Api, ApiError
from pod import Pod, images, make_folder, now
from sandbox import BRIDGE_ADDRESS, NETWORK

RENEWED = 5.0  # seconds between renewals of the node's lease
LEASE = 40  # seconds
MAX_PODS = 2000
RESERVED = 256  # the first addresses of the network


class Node:
    def __init__(self, api, name, folder, known_images):
        self.api = api
        self.name = name
        self.address = BRIDGE_ADDRESS
        self.folder = folder
        self.images = known_images
        self.environment = {
            "KUBERNETES_SERVICE_HOST": api.server.hostname,
            "KUBERNETES_SERVICE_PORT": str(api.server.port),
        }
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._pods = {}  # uid -> Pod
        self._used = set()
        self._addresses = itertools.cycle(list(ipaddress.ip_network(NETWORK).hosts())[RESERVED:])

    def run(self):
        self._register()
        threading.Thread(target=self._renew, daemon=True).start()
        every = self.api.watch("/api/v1/pods", self.stopping, fieldSelector=f"spec.nodeName={self.name}")
        for kind, thing in every:
            if kind == "LISTED":
                self._listed(thing)
            elif kind == "DELETED":
                self._forget(thing["metadata"]["uid"])
            elif kind in ("ADDED", "MODIFIED"):
                self._tell(thing)

    def released(self, pod):
        with self._lock:
            self._pods.pop(pod.uid, None)
            self._used.discard(pod.address)

    def _listed(self, pods):
        for uid in self._pods.keys() - {pod["metadata"]["uid"] for pod in pods}:
            self._forget(uid)
        for pod in pods:
            self._tell(pod)

    def _tell(self, pod):
        with self._lock:
            known = self._pods.get(pod["metadata"]["uid"])
            if known is None:
                if pod["status"].get("phase") in ("Succeeded", "Failed"):
                    return
                address = next(str(each) for each in self._addresses if str(each) not in self._used)
                known = self._pods[pod["metadata"]["uid"]] = Pod(self, pod, address)
                self._used.add(address)
                known.tell(pod)
                known.start()
                return
        known.tell(pod)

    def _forget(self, uid):
        if known := self._pods.get(uid):
            known.forget()

    def _register(self):
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "labels": labels}}
        if not self.api.find(self.api.path(node)):
            self.api.create(node)
        room = {"cpu": "64", "memory": "256Gi", "pods": str(MAX_PODS), "ephemeral-storage": "1Ti"}
        status = {
            "capacity": room,
            "allocatable": room,
            "addresses": [{"type": "InternalIP", "address": self.address}],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Double",
                    "lastHeartbeatTime": now(),
                    "lastTransitionTime": now(),
                }
            ],
        }
        self._beat()
        self.api.merge(self.api.path(node) + "/status", {"status": status})

    def _renew(self):
        while not self.stopping.wait(RENEWED):
            try:
                self._beat()
            except (OSError, ApiError, http.client.HTTPException):
                continue  # the API server is away

    def _beat(self):
        self.api.apply(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.name, "namespace": "kube-node-lease"},
                "spec": {
                    "holderIdentity": self.name,
                    "leaseDurationSeconds": LEASE,
                    "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                },
            }
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--folder", required=True, type=make_folder)
    parser.add_argument("--node", default="double")
    parser.add_argument("--image", action="append", default=[], metavar="NAME=PROGRAM")
    options = parser.parse_args()
    Node(Api(options.kubeconfig), options.node, options.folder, images(options.image)).run()


if __name__ == "__main__":
    main()
