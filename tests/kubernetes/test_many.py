"""A thousand pods that KWOK's controller pretends: they have addresses and are ready, and nobody answers there."""

import pytest
from conftest import Load, wait
from things import deployment, ingress, named, service

PODS, NODES = 1000, 10
FAKE = "kwok.x-k8s.io/node"
LONG = 300.0  # seconds


@pytest.fixture(scope="module")
def nodes(cluster):
    for at in range(NODES):
        node = named("v1", "Node", f"fake-{at}")
        node["metadata"] |= {"annotations": {FAKE: "fake"}, "labels": {"type": "kwok"}}
        node["spec"] = {"taints": [{"key": FAKE, "value": "fake", "effect": "NoSchedule"}]}
        room = {"cpu": "640", "memory": "2560Gi", "pods": str(2 * PODS // NODES)}
        cluster.api.apply(node)
        cluster.api.merge(f"/api/v1/nodes/fake-{at}/status", {"status": {"capacity": room, "allocatable": room}})
    yield
    for at in range(NODES):
        cluster.api.delete(f"/api/v1/nodes/fake-{at}")


def pretended(name, namespace, replicas, **settings):
    made = deployment(name, namespace, replicas, **settings)
    made["spec"]["template"]["spec"] |= {
        "nodeSelector": {"type": "kwok"},
        "tolerations": [{"key": FAKE, "operator": "Exists", "effect": "NoSchedule"}],
    }
    return made


def ready_replicas(space, name):
    return space.read("apps/v1", "deployments", name)["status"].get("readyReplicas", 0)


def test_a_thousand_pods_come_and_go(installed, space, nodes):
    """Beside a service of real pods, whose requests do not notice; idle, they are scaled to zero as one would be."""
    space.backend(replicas=2)
    space.apply(ingress("web", space.name, space.host, "app"))
    space.wait_ready(2)
    installed.wait_for(space.host, text="app-")
    with Load(installed.ready().values(), space.host, connections=2, pause=0.02) as asked:
        idle = {"pilotlight.dev/idle-timeout": "10m"}
        space.apply(
            pretended("many", space.name, PODS, annotations=idle),
            service("many", space.name),
            ingress("many", space.name, f"many.{space.host}", "many"),
        )
        wait(lambda: ready_replicas(space, "many") == PODS, "a thousand pods are ready", LONG)
        asked.answered(100)
        space.apply(pretended("many", space.name, PODS, annotations={"pilotlight.dev/idle-timeout": "2s"}))
        wait(lambda: space.replicas("many") == 0, "they are scaled to zero", LONG)
        wait(lambda: not space.pods("many"), "they are gone", LONG)
        asked.answered(100)
    assert not asked.failures, (asked.results, asked.failures[:5])
