"""Things that go away: pods under load, the API server, a replica of the gateway and the one that leads."""

import time

from conftest import Load, wait
from things import ingress

AWAY = 20.0  # seconds without an API server; measure.py takes minutes


def served(installed, space, **settings):
    space.backend(**settings)
    space.apply(ingress("web", space.name, space.host, "app"))
    space.wait_ready(settings.get("replicas", 1))
    installed.wait_for(space.host, text="app-")


def load(installed, space, **settings):
    return Load(installed.ready().values(), space.host, **settings)


def test_endpoints_change_under_load(installed, space):
    """Three pods, one, five, then all by others: nobody notices."""
    served(installed, space, replicas=3, drain=2)
    with load(installed, space) as asked:
        for replicas in (1, 5, 2):
            space.scale("app", replicas)
            space.wait_ready(replicas)
            asked.answered(200)
        before = set(space.ready())
        space.backend(replicas=2, drain=2, VERSION=2)
        wait(lambda: len(space.ready()) == 2 and not before & set(space.ready()), "all pods are new ones")
        asked.answered(200)
    assert not asked.failures, (asked.results, asked.failures[:5])


def test_requests_reach_every_pod(installed, space):
    served(installed, space, replicas=3)

    def seen():
        return {installed.get(space.host).body.split()[0].decode() for _ in range(30)} == set(space.ready())

    wait(seen, "each pod answers")


def test_without_an_api_server(installed, space):
    served(installed, space, replicas=2)
    with load(installed, space) as asked:
        installed.cluster.kill_api()
        end = time.monotonic() + AWAY
        while time.monotonic() < end:
            asked.answered(100)
        installed.cluster.start_api()
        installed.api = space.api = installed.cluster.api
        # What changes afterwards is seen again.
        space.scale("app", 3)
        space.wait_ready(3)
        asked.answered(200)
    assert not asked.failures, (asked.results, asked.failures[:5])
    wait(lambda: len(installed.ready()) == 2, "both replicas are ready")

    def third_is_used():
        return len({installed.get(space.host).body.split()[0] for _ in range(30)}) == 3

    wait(third_is_used, "the pod that came meanwhile is used")


def test_the_leader_is_killed(installed, space):
    """The other one leads, or this one again if it is quicker, and goes on scaling; the other's requests were never
    interrupted."""
    served(installed, space, annotations={"pilotlight.dev/idle-timeout": "2s"})
    leader = wait(installed.leader, "somebody leads")
    assert leader in installed.ready(), (leader, installed.ready())
    other = next(address for name, address in installed.ready().items() if name != leader)
    with Load([other], space.host) as asked:
        installed.kill(leader)
        last = installed.lease()["renewTime"]
        wait(lambda: installed.leader() and installed.lease()["renewTime"] != last, "somebody leads again")
        asked.answered(200)
    assert not asked.failures, (asked.results, asked.failures[:5])
    wait(lambda: space.replicas("app") == 0, "it is scaled to zero by whoever leads now")
    wait(lambda: len(installed.ready()) == 2, "both replicas are ready")
    assert installed.get(space.host, timeout=60).status == 200


def test_a_rolling_restart_of_the_gateway(installed, space):
    """What a Deployment's rollout does; clients go where the Service would send them: to pods that are ready."""
    served(installed, space, replicas=2)
    before = installed.ready()
    change = {"spec": {"template": {"metadata": {"annotations": {"restarted": space.name}}}}}
    installed.api.merge("/apis/apps/v1/namespaces/pilotlight/deployments/pilotlight", change)
    failures = []

    def replaced():
        for address in installed.ready().values():
            answer = installed.get(space.host, address=address)
            if answer.status != 200:
                failures.append(repr(answer))
        now = installed.ready()
        return len(now) == 2 and not before.keys() & now.keys()

    wait(replaced, "both replicas are new ones", 120.0)
    assert not failures, failures[:5]
