"""Concurrent misses are one request, answered as it comes, whoever of them goes away and when (issue 6, nos. 2 and 6)."""

import select
import socket
import threading
import unittest

from harness import BINARY, Cut, Gateway, TestCase, config, eventually, in_threads, route, service, setUpModule
from scripted import Script

__all__ = ["setUpModule"]

HALF = b"a" * 500_000
OTHER_HALF = b"b" * 500_000
HEAD = b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: %d\r\n\r\n" % len(HALF + OTHER_HALF)
# the points at which a client may go away
POINTS = ("asked", "head", "half", "whole")


class Service:
    """One answer in steps: each is sent when its event is set. `gone` counts connections that the gateway closed."""

    def __init__(self, breaks_off=0):
        self.steps = [(threading.Event(), piece) for piece in (HEAD, HALF, OTHER_HALF)]
        # so many requests, counted from the first, end after the first half
        self.breaks_off = breaks_off
        self.gone = threading.Event()

    def __call__(self, peer):
        while peer.head():
            for number, (event, piece) in enumerate(self.steps):
                if number == 2 and self.breaks_off > 0:
                    event.wait(20)
                    self.breaks_off -= 1
                    return
                watched = threading.Thread(target=self.watch, args=(peer, event), daemon=True)
                watched.start()
                event.wait(20)
                peer.send(piece)

    def watch(self, peer, event):
        """Notes when the gateway closes the connection while a step is waited for."""
        try:
            while not event.is_set():
                if select.select([peer.sock], [], [], 0.05)[0]:
                    if not peer.sock.recv(1, socket.MSG_PEEK):
                        self.gone.set()
                    return
        except (OSError, ValueError):
            return  # it was closed from this side

    def go(self, steps=3):
        for event, _ in self.steps[:steps]:
            event.set()


class CollapseCase(TestCase):
    def begin(self, breaks_off=0, cache=""):
        self.service = Service(breaks_off)
        self.script = Script(self.service)
        self.script.__enter__()
        self.addCleanup(self.script.__exit__)
        self.addCleanup(self.service.go)
        blocks = (service("web", url=self.script.url), route(service="web", cache=True), f"[cache]\n{cache}\n")
        return self.start(Gateway(BINARY, config(*blocks)))

    def asked(self, count=1):
        self.assert_eventually(lambda: len(self.script.heads) >= count, f"the service has not been asked {count} times")

    def ask(self, gateway):
        """A client that has sent its request."""
        client = gateway.client()
        self.addCleanup(client.close)
        client.send_head("GET", "/slow")
        return client

    def assert_whole(self, client):
        answer = client.answer()
        self.assert_status(answer, 200)
        self.assertEqual((len(answer.body), answer.body == HALF + OTHER_HALF), (1_000_000, True))
        return answer


class Streaming(CollapseCase):
    def test_ten_clients_read_one_slow_answer_as_it_comes(self):
        gateway = self.begin()
        first = self.ask(gateway)
        self.asked()
        clients = [first] + [self.ask(gateway) for _ in range(9)]
        self.service.go(2)

        def half(index):
            answer = clients[index].head()
            body = clients[index].body(answer)
            read = b""
            while len(read) < len(HALF):
                read += next(body)
            return answer, body, read

        read = in_threads(10, half)
        self.assertFalse(self.service.steps[2][0].is_set())
        self.service.go()
        for answer, body, begun in read:
            self.assertEqual(answer.get("content-length"), "1000000")
            self.assertEqual(begun + b"".join(body), HALF + OTHER_HALF)
        self.assertEqual(len(self.script.heads), 1)
        statuses = [answer.get("cache-status") for answer, _, _ in read]
        self.assertEqual(len([status for status in statuses if "collapsed" in status]), 9, statuses)
        self.assertIn("hit", gateway.get("/slow").get("cache-status"))

    def test_an_answer_that_breaks_off_is_cut_for_all_who_read_and_not_stored(self):
        gateway = self.begin(breaks_off=1)
        clients = [self.ask(gateway)]
        self.asked()
        clients += [self.ask(gateway) for _ in range(4)]
        self.service.go(2)

        def begun(index):
            answer = clients[index].head()
            body = clients[index].body(answer)
            return answer, body, next(body)

        read = in_threads(len(clients), begun)
        self.service.go()
        for answer, body, _ in read:
            self.assertEqual((answer.status, answer.get("content-length")), (200, "1000000"))
            with self.assertRaises(Cut):
                b"".join(body)
        self.assertEqual(len(self.script.heads), 1)
        self.assertNotIn("hit", self.assert_whole(self.ask(gateway)).get("cache-status"))
        self.assertEqual(len(self.script.heads), 2, "half an answer was stored")

    def test_who_has_read_nothing_of_an_answer_that_breaks_off_asks_again(self):
        """Before the first byte of the body, nobody but the leader's client knows of the answer."""
        gateway = self.begin()
        broken = threading.Event()

        def handler(peer):
            peer.head()
            if len(self.script.heads) == 1:
                peer.send(HEAD)
                broken.wait(20)
                return
            peer.send(HEAD + HALF + OTHER_HALF)

        self.script._handler = handler
        leader = self.ask(gateway)
        self.assertEqual(leader.head().status, 200)
        followers = [self.ask(gateway) for _ in range(5)]
        self.assertEqual(gateway.get("/slow", [("Cache-Control", "only-if-cached")]).status, 504)
        broken.set()
        for follower in followers:
            self.assert_whole(follower)
        self.assertEqual(len(self.script.heads), 2)


class Leaving(CollapseCase):
    def leave(self, client, point):
        """Lets the answer come so far, and goes away."""
        if point != "asked":
            self.service.go(POINTS.index(point))
            answer = client.head()
            body = client.body(answer)
            if point != "head":
                next(body)
        client.close()

    def test_the_first_of_many_goes_away_at_every_point(self):
        for point in POINTS:
            with self.subTest(point):
                gateway = self.begin()
                leader = self.ask(gateway)
                self.asked()
                followers = [self.ask(gateway) for _ in range(3)]
                self.leave(leader, point)
                self.service.go()
                for follower in followers:
                    self.assert_whole(follower)
                self.assertEqual(len(self.script.heads), 1, "the service was asked again")

    def test_one_of_those_who_wait_goes_away_at_every_point(self):
        for point in POINTS:
            if point == "head":
                continue  # who waits gets the head with the first bytes of the body
            with self.subTest(point):
                gateway = self.begin()
                leader = self.ask(gateway)
                self.asked()
                followers = [self.ask(gateway) for _ in range(3)]
                self.leave(followers.pop(), point)
                self.service.go()
                for client in [leader, *followers]:
                    self.assert_whole(client)
                self.assertEqual(len(self.script.heads), 1, "the service was asked again")

    def test_all_go_away_and_the_answer_is_stored(self):
        for point in POINTS:
            with self.subTest(point):
                gateway = self.begin()
                leader = self.ask(gateway)
                self.asked()
                self.leave(leader, point)
                self.service.go()
                # It is stored when its last byte has come; until then it is waited for, never asked for again.
                self.assert_whole(self.ask(gateway))
                self.assertEqual(len(self.script.heads), 1, "the service was asked again")

    def test_without_finish_abandoned_the_service_learns_of_it(self):
        for point in ("asked", "head", "half"):
            with self.subTest(point):
                gateway = self.begin(cache="finish_abandoned = false")
                leader = self.ask(gateway)
                self.asked()
                self.leave(leader, point)
                self.assertTrue(self.service.gone.wait(10), "the request to the service goes on, for nobody")
                self.service.go()
                self.assert_whole(self.ask(gateway))
                self.assertEqual(len(self.script.heads), 2)

    def test_without_finish_abandoned_it_goes_on_for_those_who_wait(self):
        gateway = self.begin(cache="finish_abandoned = false")
        leader = self.ask(gateway)
        self.asked()
        followers = [self.ask(gateway) for _ in range(3)]
        self.service.go(2)
        for follower in followers:
            self.assertTrue(eventually(lambda: follower.head().status == 200))  # noqa: B023 - called at once
        leader.close()
        self.assertFalse(self.service.gone.wait(0.5))
        self.service.go()
        for follower in followers:
            self.assertEqual(follower.read(1_000_000), HALF + OTHER_HALF)
        self.assertEqual(len(self.script.heads), 1)


if __name__ == "__main__":
    unittest.main()
