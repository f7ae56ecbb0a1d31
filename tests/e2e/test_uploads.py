"""Bodies of requests, read ahead before a service is asked: slow ones take no place of it, and all arrive as they were sent."""

import contextlib
import hashlib
import threading
import unittest

from harness import BINARY, ORIGIN, PYTHON, ROOT, Gateway, TestCase, config, limits, route, service, setUpModule
from scripted import PIPE

__all__ = ["setUpModule"]

ONE = {"concurrency": 1, "max_instances": 1}
OVER_HTTP = {"argv": ORIGIN, "transport": "http"}
# fields, the first half and the second half of a body
LENGTH = b"Content-Length: 6", b"abc", b"def"
CHUNKED = b"Transfer-Encoding: chunked", b"3\r\nabc\r\n", b"3\r\ndef\r\n0\r\n\r\n"

# An HTTP service that answers one request on each connection, and closes it when it has read the next.
CLOSES = r"""
import socket, threading
def serve(peer):
    with peer, peer.makefile("rb") as file:
        for number in range(2):
            while (line := file.readline()).strip():
                pass
            while line and not file.readline().startswith(b"end"):
                pass
            if line and number == 0:
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
server = socket.socket(fileno=3)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
CLOSES = [PYTHON, "-B", "-c", f"exec({CLOSES!r})"]


class Uploads(TestCase):
    def gateway(self, *blocks, route_settings=None, **settings):
        return self.start(Gateway(BINARY, config(service(**settings), route(**route_settings or {}), *blocks)))


class Drips(Uploads):
    """A client that sends a small body byte by byte takes no place of the service, however the body is framed."""

    DRIPS = 3

    def check(self, framing, **settings):
        fields, first, second = framing
        gateway = self.gateway(**settings, **ONE)
        self.assert_status(gateway.get("/pid"), 200)
        with contextlib.ExitStack() as stack:
            drips = [stack.enter_context(gateway.client(timeout=30)) for _ in range(self.DRIPS)]
            other = stack.enter_context(gateway.client(timeout=10))  # connected, so that nothing lies between them
            for client in drips:
                client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n%b" % (fields, first))
            self.assert_status(other.request("GET", "/pid"), 200)
            for client in drips:
                client.send(second)
            for client in drips:
                answer = client.answer("POST")
                self.assert_status(answer, 200)
                self.assertIn(b"abcdef", answer.body)

    def test_of_a_length_over_the_pipe(self):
        self.check(LENGTH)

    def test_of_a_length_over_http(self):
        self.check(LENGTH, **OVER_HTTP)

    def test_chunked_over_the_pipe(self):
        self.check(CHUNKED)

    def test_chunked_over_http(self):
        self.check(CHUNKED, **OVER_HTTP)

    def test_one_that_drips_for_too_long_is_given_up(self):
        gateway = self.gateway(limits(body_timeout="1s"))
        self.assertIn("body_timeout", self.dripping(gateway, b"Content-Length: 60", b"a")["detail"])

    def dripping(self, gateway, fields, drip, status=408):
        """The problem that a client gets who sends a drip each 0.2 s."""
        with gateway.client(timeout=30) as client:
            client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n" % fields)
            stop = threading.Event()

            def send():
                with contextlib.suppress(OSError):  # the gateway has closed
                    for _ in range(59):
                        if stop.wait(0.2):
                            return
                        client.send(drip)

            threading.Thread(target=send, daemon=True).start()
            try:
                return self.assert_problem(client.answer("POST"), status)
            finally:
                stop.set()

    def test_a_routes_timeout_names_the_slow_client(self):
        """Not the service, which has not been asked or waits for the client: held, longer than is held, and too large for it."""
        for settings in ({}, OVER_HTTP):
            gateway = self.gateway(route_settings={"timeout": "2s"}, **settings)
            self.assert_status(gateway.get("/pid"), 200)
            for fields, drip in ((b"Content-Length: 60", b"a"), (CHUNKED[0], b"1\r\na\r\n"), (b"Content-Length: 60000", b"a")):
                with self.subTest(fields=fields, **settings):
                    detail = self.dripping(gateway, fields, drip)["detail"]
                    self.assertIn("request body", detail)
                    self.assertIn("the route's timeout (2 s)", detail)
                    self.assertNotIn("service", detail)


class ReadAhead(Uploads):
    """A chunked body that is read before the service is asked reaches it as it was sent."""

    CHUNKS = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n"
    # A service that answers each piece of the body as it comes.
    TALKS = [PYTHON, "-B", "-c", "; ".join((
        "import sys",
        f"sys.path.insert(0, {str(ROOT / 'sdk' / 'python')!r})",
        "import pilotlight",
        "pilotlight.serve(lambda r: (200, {}, r.stream()))",
    ))]  # fmt: skip

    def ask(self, gateway, data):
        with gateway.client(timeout=20) as client:
            client.send(data)
            answer = client.answer("POST")
            self.assert_status(answer, 200)
            self.assert_status(client.request("GET", "/"), 200)
            return answer

    def test_whole_over_the_pipe(self):
        gateway = self.gateway(argv=PIPE, env={"MODE": "tells"})
        self.assertEqual(self.ask(gateway, self.CHUNKS + b"\r\n").body, b"shared abcdef")
        self.assertEqual(self.ask(gateway, self.CHUNKS + b"X-Sum: 6\r\n\r\n").body, b"own, DATA abcdef, TRAILERS x-sum\x006\x00")
        empty = self.CHUNKS.partition(b"\r\n\r\n")[0] + b"\r\n\r\n0\r\n\r\n"
        self.assertEqual(self.ask(gateway, empty).body, b"shared ")

    def test_whole_over_http(self):
        gateway = self.gateway(**OVER_HTTP)
        for trailers in ([], ["x-sum: 6"]):
            told = self.assert_json(self.ask(gateway, self.CHUNKS + b"".join(b"%b\r\n" % line.encode() for line in trailers) + b"\r\n"))
            self.assertEqual((told["body"], told["trailers"]), ("abcdef", trailers))

    def test_larger_than_is_read_ahead(self):
        """Whatever the sizes of its chunks, and also where the limit is met within one."""
        for settings in ({}, OVER_HTTP):
            gateway = self.gateway(**settings)
            for size in (7, 1000, 32_768, 40_000, 300_000):
                body = bytes(index % 251 for index in range(300_000))
                with self.subTest(size=size, **settings), gateway.client(timeout=60) as client:
                    client.send_head("POST", "/upload", [("Transfer-Encoding", "chunked")])
                    client.send(b"".join(b"%x\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size]) for at in range(0, len(body), size)))
                    client.end_chunks()
                    told = self.assert_json(client.answer("POST"))
                    self.assertEqual((told["bytes"], told["sha256"]), (len(body), hashlib.sha256(body).hexdigest()))

    def test_a_conversation_goes_on(self):
        """A client that sends a piece and waits for the answer to it, with all of the service's places or one."""
        for settings in ({"argv": self.TALKS}, OVER_HTTP, {"argv": self.TALKS} | ONE):
            gateway = self.gateway(**settings)
            with self.subTest(**settings), gateway.client(timeout=20) as client:
                client.send_head("POST", "/talk", [("Transfer-Encoding", "chunked")])
                client.send_chunk(b"one")
                answer = client.head()
                pieces = client.body(answer)
                self.assertEqual(next(pieces), b"one")
                for said in (b"two", b"three"):
                    client.send_chunk(said)
                    self.assertEqual(next(pieces), said)
                client.end_chunks()
                self.assertEqual(list(pieces), [])

    def test_a_client_that_waits_for_100_is_asked_for_its_body(self):
        for settings in ({}, OVER_HTTP):
            gateway = self.gateway(**settings)
            for fields, first, second in (CHUNKED, LENGTH):
                with self.subTest(fields=fields, **settings), gateway.client(timeout=20) as client:
                    client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n%b\r\n\r\n" % fields)
                    self.assertEqual(client.read(25), b"HTTP/1.1 100 Continue\r\n\r\n")
                    client.send(first + second)
                    answer = client.answer("POST")
                    self.assert_status(answer, 200)
                    self.assertIn(b"abcdef", answer.body)

    def test_what_is_held_is_sent_again(self):
        """RFC 9112 §9.3.1: a kept connection that was closed just then costs an idempotent request nothing."""
        gateway = self.gateway(argv=CLOSES, transport="http")
        for fields, body in ((b"Content-Length: 5", b"end\r\n"), (CHUNKED[0], b"3\r\nend\r\n0\r\n\r\n")):
            for number in range(4):
                with self.subTest(fields=fields, number=number), gateway.client(timeout=20) as client:
                    client.send(b"PUT / HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n%b" % (fields, body))
                    self.assert_status(client.answer("PUT"), 200)

    def test_limits_hold_before_the_service_is_asked(self):
        gateway = self.gateway(limits(body_size="1KiB"), argv=["false"])
        for body, status in ((b"401\r\n" + b"x" * 0x401, 413), (b"x\r\n", 400)):
            with gateway.client(timeout=20) as client:
                client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
                self.assert_problem(client.answer("POST"), status)


if __name__ == "__main__":
    unittest.main()
