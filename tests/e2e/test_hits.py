"""Hits are answered from the head alone (ADR 0025): a connection must not tell who answered what."""

import socket
import time
import unittest

from harness import BINARY, Gateway, TestCase, config, heap_kib, limits, route, service, setUpModule
from origin import Origin
from test_cache import make

__all__ = ["setUpModule"]

TARGET = make("Cache-Control: max-age=60", 'ETag: "a"')
HIT = f"GET {TARGET} HTTP/1.1\r\nHost: demo.test\r\n\r\n".encode()


class HitsCase(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())
        cls.gateway = cls.share(cls.new_gateway())

    @classmethod
    def new_gateway(cls):
        return Gateway(BINARY, config(
            service("web", url=cls.origin.url), route(service="web", cache=True), route("/never", "web", cache=False),
            limits(keepalive_timeout="1s")))  # fmt: skip

    def setUp(self):
        super().setUp()
        self.stored = self.gateway.get(TARGET)

    def assert_hit(self, answer):
        self.assert_status(answer, 200)
        self.assertIn("; hit", answer.get("cache-status"))
        self.assertEqual(answer.body, self.stored.body)


class Connections(HitsCase):
    def test_hits_between_everything_else(self):
        """In one write and one by one, in order; behind a body as well, whatever is in it."""
        others = [
            ("GET", make(path="/never/make"), [], b""), ("HEAD", TARGET, [], b""), ("GET", "/stream?chunks=3", [], b""),
            ("GET", TARGET, [("If-None-Match", '"a"')], b""), ("GET", TARGET, [("Range", "bytes=0-1")], b""),
            ("GET", make("Cache-Control: no-store"), [("Connection", "keep-alive")], b""), ("GET", "/missing", [], b""),
            ("DELETE", "/show", [], b""), ("POST", "/show", [], HIT), ("GET", "/show", [], HIT),
        ]  # fmt: skip
        for at_once in (True, False):
            with self.gateway.client() as client:
                sent = []

                def read(client=client, sent=sent):
                    method = sent.pop(0)
                    answer = client.answer(method or "GET")
                    return self.assert_hit(answer) if method is None else self.assertIn(answer.status, (200, 206, 304, 404))

                for method, target, fields, body in others:
                    fields = fields + ([("Content-Length", len(body))] if body else [])
                    client.send(HIT)
                    client.send_head(method, target, fields)
                    client.send(body + HIT + HIT)
                    sent += [None, method, None, None]
                    while not at_once and sent:
                        read()
                while sent:
                    read()

    def test_both_ways_give_the_same_answer(self):
        with self.gateway.client() as client:
            first = client.request("GET", TARGET)
            other = client.request("GET", TARGET, [("TE", "trailers")])  # a wish about the connection
        self.assert_hit(first)
        self.assertEqual((first.version, first.reason, first.body), (other.version, other.reason, other.body))
        varying = ("age", "cache-status")
        self.assertEqual(*(sorted(f for f in answer.fields if f[0] not in varying) for answer in (first, other)))

    def test_heads_in_pieces(self):
        with self.gateway.client() as client:
            for size in (1, 7, len(HIT) - 1):
                for start in range(0, len(HIT), size):
                    client.send(HIT[start:start + size])
                    time.sleep(0.001)
                self.assert_hit(client.answer())

    def test_more_than_is_gathered(self):
        """Answers beyond what is gathered wait for the client, and none is lost."""
        count = 3000
        with self.gateway.client() as client:
            client.send(HIT * count)
            time.sleep(0.2)
            for _ in range(count):
                self.assert_hit(client.answer())

    def test_the_end_of_the_requests(self):
        with socket.create_connection(self.gateway.address, timeout=5) as client:
            client.sendall(HIT)
            client.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        self.assertTrue(answer.endswith(self.stored.body), answer)

    def test_idle_after_hits_only(self):
        with self.gateway.client(timeout=5) as client:
            client.send(HIT)
            self.assert_hit(client.answer())
            self.assertTrue(client.ended(), "keepalive_timeout is 1 s")

    def test_stop_closes_connections_with_hits_only(self):
        gateway = self.start(self.new_gateway())
        self.stored = gateway.get(TARGET)
        with gateway.client(timeout=5) as client:
            client.send(HIT)
            self.assert_hit(client.answer())
            begin = time.monotonic()
            gateway.stop()
            self.assertLess(time.monotonic() - begin, 3)
            self.assertTrue(client.ended())


class Quiet(TestCase):
    """A client that is quiet for a second is served with less memory from then on; nothing else changes."""

    REST_SECONDS = 1.6  # REST_AFTER and two ticks, and some more
    MISS = b"GET /never/show HTTP/1.1\r\nHost: demo.test\r\n\r\n"

    def begin(self, **settings):
        origin = Origin()
        origin.__enter__()
        self.addCleanup(origin.__exit__)
        blocks = service("web", url=origin.url), route(service="web", cache=True), route("/never", "web", cache=False)
        gateway = self.start(Gateway(BINARY, config(*blocks, limits(**settings))))
        gateway.get(TARGET)
        return gateway

    def answered(self, gateway, first):
        client = gateway.client(timeout=5)
        self.addCleanup(client.close)
        client.send(first)
        self.assert_status(client.answer(), 200)
        return client

    def rested(self, gateway, first=MISS):
        client = self.answered(gateway, first)
        time.sleep(self.REST_SECONDS)
        return client

    def test_whatever_comes_next(self):
        gateway = self.begin()
        body = b"x" * 100_000
        post = b"POST /never/show HTTP/1.1\r\nHost: demo.test\r\nContent-Length: 100000\r\n\r\n" + body
        pairs = [(first, following) for first in (self.MISS, HIT, post) for following in (self.MISS, HIT, post, self.MISS + HIT + self.MISS)]
        clients = [(self.answered(gateway, first), following) for first, following in pairs]
        time.sleep(self.REST_SECONDS)
        for client, following in clients:
            client.send(following[:10])
            client.send(following[10:])
            for _ in range(following.count(b"GET ") or 1):
                self.assert_status(client.answer(), 200)

    def test_its_memory_goes_back_to_the_system(self):
        gateway = self.begin(header_timeout="60s")
        self.rested(gateway)  # what the first of them needs is not counted
        before = heap_kib(gateway)
        # The origin answers with what it was sent.
        large = self.MISS.replace(b"\r\n\r\n", b"\r\nX-Large: %b\r\n\r\n" % (b"x" * 12_000))
        clients = [gateway.client(timeout=30) for _ in range(500)]
        for client in clients:
            self.addCleanup(client.close)
            client.send(large[:-2])
        # However slow the machine is: a head that is not finished is held.
        self.assert_eventually(lambda: heap_kib(gateway) - before > 16 * len(clients), "KiB for 500 heads of 12 KB", 20)
        busy = heap_kib(gateway) - before
        for client in clients:
            client.send(large[-2:])
            self.assert_status(client.answer(), 200)
        self.assert_eventually(lambda: heap_kib(gateway) - before < busy / 2, "half of that is given back", 20)
        for client in clients:
            client.send(self.MISS)
            self.assert_status(client.answer(), 200)

    def test_keepalive_timeout_is_the_whole_time(self):
        gateway = self.begin(keepalive_timeout="3s")
        for first in (self.MISS, HIT):
            client = self.rested(gateway, first)
            begin = time.monotonic()
            self.assertTrue(client.ended(), "keepalive_timeout is 3 s")
            self.assertGreater(time.monotonic() - begin, 3 - self.REST_SECONDS - 0.5, "closed early")

    def test_a_head_that_is_not_finished(self):
        client = self.rested(self.begin(header_timeout="1s"))
        client.send(self.MISS[:20])
        self.assert_status(client.answer(), 408)

    def test_stop_closes_it(self):
        gateway = self.begin()
        client = self.rested(gateway)
        begin = time.monotonic()
        gateway.stop()
        self.assertLess(time.monotonic() - begin, 3)
        self.assertTrue(client.ended())


class Heads(HitsCase):
    """What is stored does not make a request valid."""

    def status_of(self, head):
        with self.gateway.client() as client:
            client.send(head.encode("latin-1") + b"\r\n\r\n")
            answer = client.answer()
            return answer.status, answer.get("cache-status")

    def test_refused_heads(self):
        for head in (f"GET {TARGET} HTTP/1.1", f"GET {TARGET} HTTP/1.1\r\nHost: demo.test\r\nHost: demo.test",
                     f"GET {TARGET} HTTP/1.1\r\nHost: demo.test\r\nHost: other", f"GET {TARGET} HTTP/1.1\r\nHost : demo.test",
                     f"GET {TARGET} HTTP/1.1\r\nHost: user@demo.test", f"GET {TARGET} HTTP/1.1\r\nHost: demo.test\r\n folded: x",
                     f"GET  {TARGET} HTTP/1.1\r\nHost: demo.test", f"GET {TARGET} HTTP/1.x\r\nHost: demo.test"):  # fmt: skip
            self.assertEqual(self.status_of(head)[0], 400, head)

    def test_limits_hold(self):
        fields = "".join(f"\r\nX-{n}: 1" for n in range(300))
        self.assertEqual(self.status_of(f"GET {TARGET} HTTP/1.1\r\nHost: demo.test{fields}")[0], 431)

    def test_close_is_obeyed(self):
        for head in (f"GET {TARGET} HTTP/1.1\r\nHost: demo.test\r\nConnection: close",
                     f"GET {TARGET} HTTP/1.0\r\nHost: demo.test"):  # fmt: skip
            with self.gateway.client(timeout=5) as client:
                begin = time.monotonic()
                client.send(head.encode() + b"\r\n\r\n")
                self.assert_hit(client.answer())
                self.assertTrue(client.ended())
                self.assertLess(time.monotonic() - begin, 0.9, "closed by keepalive_timeout only")

    def test_other_spellings_of_the_target(self):
        for target in (f"http://demo.test{TARGET}", f"{TARGET}#part"):
            status, cache = self.status_of(f"GET {target} HTTP/1.1\r\nHost: demo.test")
            self.assertEqual(status, 200)
            self.assertIn("; hit", cache, target)


if __name__ == "__main__":
    unittest.main()
