"""Workloads with `pilotlight.dev/idle-timeout`: to zero when nobody asks, and back with the first request."""

import threading

import pytest
from conftest import READY, wait
from things import gateway, http_route, ingress, rule

IDLE = {"pilotlight.dev/idle-timeout": "2s"}


def served(installed, space, annotations=IDLE, drain=1, **settings):
    """A backend with an Ingress that has answered once; it goes on for a second when it is to end."""
    space.backend(annotations=annotations, drain=drain, **settings)
    space.apply(ingress("web", space.name, space.host, "app"))
    installed.wait_for(space.host, text="app-")


def wait_for_zero(space, plural="deployments"):
    wait(lambda: space.replicas("app", plural) == 0, "it is scaled to zero")
    wait(lambda: not space.pods(), "its pods are gone")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_idle_is_scaled_to_zero_and_woken(installed, space, kind):
    plural = kind.lower() + "s"
    served(installed, space, kind=kind)
    wait_for_zero(space, plural)
    answer = installed.get(space.host, "/first", timeout=READY)
    assert answer.status == 200 and b"/first" in answer.body, answer
    assert space.replicas("app", plural) == 1
    wait_for_zero(space, plural)


def test_a_request_while_the_last_pod_ends(installed, space):
    """The pod ends at once, before anybody is told; in each round the request comes some milliseconds later."""
    served(installed, space, drain=0)
    for _ in range(5):
        wait(lambda: space.replicas("app") == 0, "it is scaled to zero")
        answer = installed.get(space.host, timeout=READY)
        assert answer.status == 200, answer


def test_all_first_requests_wait_for_one_wake(installed, space):
    """Of both replicas of the gateway at once; the pod takes a second until it is ready."""
    served(installed, space, READY_AFTER=1)
    wait_for_zero(space)
    answers = []

    def ask(address):
        answers.append(installed.get(space.host, address=address, timeout=READY))

    threads = [threading.Thread(target=ask, args=(address,)) for address in [*installed.ready().values()] * 10]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers] == [200] * len(threads), answers
    assert len({answer.body.split()[0] for answer in answers}) == 1
    assert space.replicas("app") == 1


def test_wakes_through_an_http_route(installed, space):
    space.backend(annotations=IDLE, drain=1)
    space.apply(gateway("gateway", space.name), http_route("route", space.name, space.host, rule("app")))
    installed.wait_for(space.host, text="app-")
    wait_for_zero(space)
    assert installed.get(space.host, timeout=READY).status == 200


def test_an_open_request_keeps_it(installed, space):
    served(installed, space)
    answer = installed.get(space.host, "/?delay=6", timeout=READY)
    assert answer.status == 200, answer
    wait_for_zero(space)


def test_min_replicas(installed, space):
    served(installed, space, annotations=IDLE | {"pilotlight.dev/min-replicas": "2"}, replicas=2)
    wait_for_zero(space)
    assert installed.get(space.host, timeout=READY).status == 200
    wait(lambda: space.replicas("app") == 2, "two are wanted")


def test_without_the_annotation_it_is_left_alone(installed, space):
    """One that has it is scaled beside it: the one without was looked at as long."""
    served(installed, space)
    space.backend("other")
    space.apply(ingress("other", space.name, f"other.{space.host}", "other"))
    installed.wait_for(f"other.{space.host}", text="other-")
    wait_for_zero(space)
    assert space.replicas("other") == 1


def test_scaled_to_zero_by_somebody_without_the_annotation_stays_there(installed, space):
    space.backend()
    space.apply(ingress("web", space.name, space.host, "app"))
    installed.wait_for(space.host, text="app-")
    space.scale("app", 0)
    wait(lambda: not space.pods(), "its pods are gone")
    assert installed.wait_for(space.host, status=503)
    assert space.replicas("app") == 0
