"""Clients that smuggle or do not read, services that answer early, lie, or die in the wrong moment."""

import contextlib
import signal
import socket
import threading
import time
import unittest

import websocket
from harness import (
    BINARY, ORIGIN, PYTHON, Cut, Gateway, TestCase, config, demo_gateway, in_threads, limits, route, rss_kib,
    service, setUpModule,
)  # fmt: skip
from origin import Origin
from scripted import PIPE, Script, answer

__all__ = ["setUpModule"]


class Scripted(TestCase):
    def gateway_to(self, handler, *blocks, cache=False, **settings):
        """A gateway in front of an HTTP server that does what `handler` does."""
        script = Script(handler)
        script.__enter__()
        self.addCleanup(script.__exit__)
        settings = {"cache": cache} | settings
        web = service("web", url=script.url), route(service="web", **settings)
        return self.start(Gateway(BINARY, config(*web, *blocks, workers=1))), script

    def pipe_gateway(self, mode, *blocks, cache=False, **settings):
        web = service("demo", PIPE, env={"MODE": mode}), route(cache=cache, **settings)
        return self.start(Gateway(BINARY, config(*web, *blocks, workers=1)))


def serve_all(peer):
    """Reads requests by their content-length, as any server does, and answers each."""
    while head := peer.head():
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        peer.read(int(fields.get(b"content-length", b"0")))
        peer.send(answer(b"%b" % head[:40]))


class Smuggling(Scripted):
    """What one reader takes for a body and another for a request."""

    def test_connection_cannot_name_content_length(self):
        gateway, script = self.gateway_to(serve_all)
        hidden = b"GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"
        with gateway.client(timeout=8) as client:
            client.send(b"POST /one HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: %d\r\n\r\n%b"
                        % (len(hidden), hidden))  # fmt: skip
            client.answer("POST")
        gateway.get("/two")
        seen = [head.split(b" ")[1] for head in script.heads]
        self.assertNotIn(b"/smuggled", seen)

    def test_both_lengths_in_either_order(self):
        gateway, script = self.gateway_to(serve_all)
        hidden = b"GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"
        chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden)
        for both in (b"Content-Length: 4\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 4"):
            with gateway.client(timeout=8) as client:
                client.send(b"POST /one HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n%b" % (both, chunk))
                client.answer("POST")
                self.assertTrue(client.ended())
        for head in script.heads:
            self.assertFalse(b"content-length: 4" in head.lower() and b"chunked" not in head.lower(), head)

    def test_other_codings_are_refused(self):
        """A body whose coding the gateway cannot tell the service about is not passed on."""
        gateway, script = self.gateway_to(serve_all)
        with gateway.client(timeout=8) as client:
            client.send(b"POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")
            self.assert_problem(client.answer("POST"), 501)
        self.assertEqual(script.heads, [])

    def test_userinfo_in_an_absolute_target(self):
        gateway, script = self.gateway_to(serve_all)
        with gateway.client(timeout=8) as client:
            client.send(b"GET http://user:secret@a/ HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assert_problem(client.answer(), 400)
        self.assertEqual(script.heads, [])

    def test_a_get_with_a_body_is_not_stored(self):
        """The body is no part of the key: stored, one client's body would choose the answer of the others."""
        gateway, script = self.gateway_to(
            lambda peer: [peer.send(answer(b"poison", b"cache-control: max-age=60\r\n")) for _ in iter(peer.head, b"")],
            cache=True)  # fmt: skip
        gateway.request("GET", "/fat", body=b"evil=1")
        gateway.get("/fat")
        self.assertEqual(len(script.heads), 2)


class Services(Scripted):
    """HTTP services that do what they should not."""

    def test_an_early_answer_is_whole(self):
        """The service answers before it has read the body, and reads no more."""

        def handler(peer):
            peer.head()
            peer.send(answer(b"too early", b"connection: close\r\n", b"413 Content Too Large"))
            time.sleep(3)

        gateway, _ = self.gateway_to(handler)
        with gateway.client(timeout=8) as client:
            client.send_head("POST", "/", [("Content-Length", "1000")])
            client.send(b"half of it")
            got = client.answer("POST")
            self.assertEqual((got.status, got.body), (413, b"too early"))

    def test_a_kept_connection_is_not_used_after_an_early_answer(self):
        gateway, script = self.gateway_to(
            lambda peer: [peer.send(answer(head.split(b" ")[1])) for head in iter(peer.head, b"")]
        )
        with gateway.client(timeout=8) as client:
            client.send_head("POST", "/early", [("Content-Length", "40")])
            client.send(b"GET /smuggled")
            self.assertEqual(client.answer("POST").body, b"/early")
        self.assertEqual(gateway.get("/next").body, b"/next")
        self.assertEqual([head.split(b" ")[1] for head in script.heads], [b"/early", b"/next"])

    def test_101_that_nobody_asked_for(self):
        def handler(peer):
            peer.head()
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
            peer.ended()

        gateway, script = self.gateway_to(handler)
        self.assert_problem(gateway.get("/"), 502)
        self.assert_problem(gateway.get("/"), 502)
        self.assertGreaterEqual(script.connections, 2, "a connection that speaks something else was kept")

    def test_101_without_a_protocol(self):
        def handler(peer):
            peer.head()
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            peer.ended()

        gateway, _ = self.gateway_to(handler)
        fields = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
        self.assert_problem(gateway.get("/", fields), 502)

    def test_http_1_0_asks_for_no_upgrade(self):
        """RFC 9110 §7.8: Upgrade of an HTTP/1.0 request is ignored."""
        gateway, script = self.gateway_to(serve_all)
        with gateway.client(timeout=8) as client:
            client.send(b"GET / HTTP/1.0\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
            client.answer()
        self.assertNotIn(b"upgrade", script.heads[0].lower())

    def test_what_follows_a_101_at_once_is_passed_on(self):
        def handler(peer):
            peer.head()
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nhello")
            peer.ended()

        gateway, _ = self.gateway_to(handler)
        with gateway.client(timeout=5) as client:
            client.send_head("GET", "/", [("Upgrade", "websocket"), ("Connection", "Upgrade")])
            self.assertEqual(client.head().status, 101)
            self.assertEqual(client.read(5), b"hello")

    def test_interim_answers_are_skipped(self):
        def handler(peer):
            while peer.head():
                peer.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + answer(b"final"))

        gateway, _ = self.gateway_to(handler)
        self.assertEqual(gateway.get("/").body, b"final")

    def test_endless_interim_answers_are_an_error(self):
        """They are counted, and others have their turn between them."""

        def handler(peer):
            if b"/endless" not in peer.head():
                return peer.send(answer(b"mine"))
            with contextlib.suppress(OSError):
                while True:
                    peer.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 100)

        gateway, _ = self.gateway_to(handler)
        problem = self.assert_problem(gateway.get("/endless", timeout=20), 502)
        self.assertIn("sent more than 1000 interim responses", problem["detail"])
        self.assertEqual(gateway.get("/").body, b"mine")

    def test_endless_interim_answers_over_the_pipe_are_an_error(self):
        gateway = self.start(Gateway(BINARY, config(service("demo", PIPE, env={"MODE": "interims"}), route())))
        asked = lambda count: gateway.request("POST", f"/{count}", body=b"x" * 100_000)  # noqa: E731
        self.assertEqual(asked(1000).body, b"final")
        problem = self.assert_problem(asked(1001), 502)
        self.assertIn("sent more than 1000 interim responses", problem["detail"])
        self.assertEqual(asked(3).body, b"final")

    def test_an_answer_before_the_end_of_the_body_says_that_the_connection_ends(self):
        """RFC 9112 §9.6: nobody reads the rest, so the client must not send its next request behind it."""

        def handler(peer):
            while peer.head():
                peer.send(answer(b"early"))

        gateway, _ = self.gateway_to(handler)
        chunk = b"9000\r\n" + b"x" * 0x8800
        for framing, piece in ((b"Content-Length: 100000", b"x" * 10), (b"Transfer-Encoding: chunked", chunk)):
            for _ in range(10):
                with gateway.client(timeout=5) as client:
                    client.send(b"POST / HTTP/1.1\r\nHost: a\r\n" + framing + b"\r\n\r\n" + piece)
                    got = client.answer()
                    self.assertEqual((got.status, got.body, got.get("connection")), (200, b"early", "close"))
                    self.assertTrue(client.ended())

    def test_a_204_with_a_body_does_not_answer_the_next_request(self):
        def handler(peer):
            for number, _ in enumerate(iter(peer.head, b"")):
                first = peer.number == 1 and number == 0
                peer.send(b"HTTP/1.1 204 No Content\r\ncontent-length: 46\r\n\r\n" + answer(b"evil") if first else answer(b"good"))

        gateway, _ = self.gateway_to(handler)
        self.assert_status(gateway.get("/"), 204)
        self.assertEqual(gateway.get("/").body, b"good")

    def test_post_is_never_sent_twice(self):
        """A connection that is closed without an answer, kept or new: the service may have done it."""

        def handler(peer):
            peer.head()
            peer.send(answer(b"first"))
            peer.head()

        gateway, script = self.gateway_to(handler)
        self.assert_status(gateway.get("/"), 200)
        self.assert_problem(gateway.request("POST", "/once"), 502)
        self.assertEqual(sum(head.startswith(b"POST") for head in script.heads), 1)


class Deaths(TestCase):
    """An HTTP service that ends its process when it is asked for /crash."""

    CRASHES = """
import os, socket, sys
listener = socket.socket(fileno=3)
open(sys.argv[1], "a").write("x")
while True:
    peer, _ = listener.accept()
    if b"/crash" in peer.recv(65536):
        os._exit(3)
    peer.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\nconnection: close\\r\\n\\r\\nok")
    peer.close()
"""

    def setUp(self):
        command = ["/bin/sh", "-c", f"exec {PYTHON} @FOLDER@/crashes.py @FOLDER@/starts"]
        blocks = service("web", command, transport="http"), route(service="web")
        gateway = Gateway(BINARY, config(*blocks, workers=1))
        (gateway.folder / "crashes.py").write_text(self.CRASHES.replace("\\\\", "\\"))
        self.gateway = self.start(gateway)
        self.assertEqual(self.gateway.get("/").body, b"ok")

    def test_a_request_that_ends_the_process_is_sent_once(self):
        """GET may be sent again, but this one would end the next instance, too."""
        problem = self.assert_problem(self.gateway.get("/crash"), 502)
        self.assertIn("before it answered", problem["detail"])
        self.assertEqual((self.gateway.folder / "starts").read_text(), "x")

    def test_the_next_request_does_not_meet_the_dead_instance(self):
        """Not even in the moment before the supervisor knows: nothing was sent, so it goes to the next instance."""
        self.assert_status(self.gateway.get("/crash"), 502)
        self.assert_status(self.gateway.request("POST", "/"), 200)


class Times(Scripted):
    def test_a_slow_upload_is_not_a_slow_service(self):
        """response_timeout is the service's time; the client's is body_timeout."""

        def handler(peer):
            head = peer.head()
            peer.read(30 if b"content-length: 30" in head.lower() else 0)
            peer.send(answer(b"done"))

        gateway, _ = self.gateway_to(handler, limits(response_timeout="1s"))
        self.slow_upload(gateway)

    def test_a_slow_upload_over_the_pipe(self):
        gateway = self.start(demo_gateway(limits(response_timeout="1s")))
        gateway.get("/pid")
        self.slow_upload(gateway, 30)  # held, then sent whole
        self.slow_upload(gateway, 60_000)  # streamed on an own connection

    def slow_upload(self, gateway, size=30):
        with gateway.client(timeout=10) as client:
            client.send_head("POST", "/upload", [("Content-Length", str(size))])
            for _ in range(5):
                client.send(b"x" * (size // 5))
                time.sleep(0.5)
            self.assert_status(client.answer("POST"), 200)

    def test_a_service_that_does_not_read_is_timed_out(self):
        gateway, _ = self.gateway_to(lambda peer: time.sleep(10), limits(response_timeout="1s"))
        begin = time.monotonic()
        answered = []

        def upload():
            with gateway.client(timeout=15) as client:
                client.send_head("POST", "/", [("Content-Length", "100000000")])
                threading.Thread(target=self.push, args=(client,), daemon=True).start()
                answered.append(client.answer("POST"))

        upload()
        self.assert_problem(answered[0], 504)
        self.assertLess(time.monotonic() - begin, 6)

    @staticmethod
    def push(client):
        try:
            for _ in range(1000):
                client.send(b"x" * 100_000)
        except OSError:
            pass  # the gateway has closed, as it should

    def test_a_routes_timeout_ends_a_fast_endless_answer(self):
        def handler(peer):
            peer.head()
            peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                peer.send(b"x" * 65_536)

        gateway, _ = self.gateway_to(handler, timeout="1s")
        with gateway.client(timeout=10) as client:
            client.send_head("GET", "/")
            begin = time.monotonic()
            with self.assertRaises((Cut, ValueError)):
                for _ in client.body(client.head()):
                    self.assertLess(time.monotonic() - begin, 5, "the route's timeout is 1 s")

    def test_a_routes_timeout_counts_the_start(self):
        """P-28: deadline_ms is the time that is left."""
        gateway = self.pipe_gateway("deadline", timeout="5s")
        left = int(self.gateway_body(gateway))
        self.assertLess(left, 4200, "1 s of the 5 s went by before the service had started")
        self.assertGreater(left, 1000)

    @staticmethod
    def gateway_body(gateway):
        return gateway.get("/").body

    def test_a_routes_timeout_ends_the_wait_for_a_start(self):
        blocks = service("demo", ["/bin/sleep", "1000"], start_timeout="8s"), route(timeout="1s")
        gateway = self.start(Gateway(BINARY, config(*blocks)))
        begin = time.monotonic()
        self.assert_problem(gateway.get("/"), 504)
        self.assertLess(time.monotonic() - begin, 4)


class OwnConnections(Scripted):
    BODY = b"x" * 60_000  # does not share a connection

    def test_death_while_waiting_for_an_own_connection(self):
        """A service that never answers MORE, and then ends: whoever waits is told at once, not after response_timeout."""
        gateway = self.pipe_gateway("mute")
        gateway.get("/")
        begin = time.monotonic()
        answer = gateway.request("POST", "/", body=self.BODY, timeout=30)
        # Nothing was sent yet, so it is tried once more; by then the service may be in its pause after two short runs.
        self.assert_problem(answer, 503 if b'"phase":"backoff"' in answer.body else 502)
        self.assertLess(time.monotonic() - begin, 15)

    def test_those_that_wait_are_counted(self):
        """The old limits.queue is the default of queue.max, which holds for the wait for an own connection, too."""
        gateway = self.pipe_gateway("mute", limits(queue=2, response_timeout="5s"))
        self.assert_logged(gateway, "`limits.queue` has become a setting of each service")
        gateway.get("/")
        answers = in_threads(8, lambda _: gateway.request("POST", "/", body=self.BODY, timeout=30))
        self.assertIn(503, [answer.status for answer in answers])
        full = [answer for answer in answers if b"2 requests wait for it already (queue.max)" in answer.body]
        self.assertTrue(full, [answer.body for answer in answers])
        problem = self.assert_problem(full[0], 503)
        self.assertEqual((problem["phase"], full[0].get("retry-after")), ("queue", "1"))

    def test_connections_that_are_closed_after_each_exchange(self):
        gateway = self.pipe_gateway("once", limits(response_timeout="8s"))
        answers = in_threads(12, lambda _: gateway.request("POST", "/", body=self.BODY, timeout=30))
        # 502: sent into a connection that was being closed, and the body is not there to be sent again.
        self.assertLessEqual({answer.status for answer in answers}, {200, 502})
        self.assertIn(b"own", [answer.body for answer in answers])

    def test_fewer_than_there_are_workers(self):
        """max_own = 1 and three workers: each gets its turn at the one connection."""
        blocks = service("demo", PIPE, env={"MODE": "own"}), route(), limits(response_timeout="20s")
        gateway = self.start(Gateway(BINARY, config(*blocks, workers=3)))
        answers = [gateway.request("POST", "/", body=self.BODY, timeout=30) for _ in range(12)]
        self.assertEqual({answer.body for answer in answers}, {b"own"})

    def test_a_wrong_length_in_one_frame(self):
        gateway = self.pipe_gateway("lies")
        self.assert_problem(gateway.request("POST", "/", body=self.BODY), 502)

    def test_a_short_answer_is_cut(self):
        gateway = self.pipe_gateway("short")
        with gateway.client(timeout=8) as client, self.assertRaises(Cut):
            client.request("POST", "/", body=self.BODY)


class Clients(TestCase):
    def test_one_that_pipelines_and_does_not_read(self):
        """What is held for it is bounded, and it is cut in the end."""
        with Origin() as origin:
            blocks = service("web", url=origin.url), route(service="web", cache=True), limits(body_timeout="2s")
            gateway = self.start(Gateway(BINARY, config(*blocks, workers=1)))
            target = "/make?h=cache-control:max-age%3D600"
            self.assert_status(gateway.get(target), 200)
            before = rss_kib(gateway)
            request = f"HEAD {target} HTTP/1.1\r\nHost: demo.test\r\n\r\n".encode()
            sock = socket.socket()
            self.addCleanup(sock.close)
            sock.settimeout(1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # little is on the way, so that it is soon too much
            sock.connect(gateway.address)
            begin, cut = time.monotonic(), False
            while time.monotonic() - begin < 30 and not cut:
                try:
                    sock.sendall(request * 500)
                except TimeoutError:
                    continue
                except OSError:
                    cut = True
            self.assertLess(rss_kib(gateway) - before, 16 * 1024, "KiB more for one client that does not read")
            self.assertTrue(cut, "30 s later it is still connected, body_timeout is 2 s")

    def test_pipelined_errors_are_not_taken_for_rejections(self):
        """404s that wait to be written while the next head is half here."""
        gateway = self.start(Gateway(BINARY, config(service(), route("/only"), workers=1)))
        count = 20_000
        requests = b"".join(
            b"GET /%b HTTP/1.1\r\nHost: demo.test\r\n\r\n" % (b"x" * (number % 97)) for number in range(count)
        )
        with gateway.client(timeout=20) as client:
            writer = threading.Thread(target=client.send, args=(requests,), daemon=True)
            writer.start()
            time.sleep(1.5)  # both buffers fill
            for number in range(count):
                got = client.answer()
                self.assertEqual(got.status, 404, f"answer {number}: {got}")
            writer.join(5)


class Stop(TestCase):
    def test_an_open_websocket_does_not_hold_the_stop(self):
        blocks = service("web", ORIGIN, transport="http", drain_timeout="20s"), route(service="web")
        gateway = self.start(Gateway(BINARY, config(*blocks, limits(shutdown_timeout="1s"))))
        with gateway.client() as client:
            opened = websocket.Client(client, "/ws")
            opened.send(websocket.TEXT, b"x")
            opened.receive()
            begin = time.monotonic()
            gateway.signal(signal.SIGTERM)
            self.assertEqual(gateway.wait(14), 0)
            self.assertLess(time.monotonic() - begin, 6, "shutdown_timeout is 1 s")

    def test_an_endless_answer_does_not_hold_the_stop(self):
        gateway = self.start(demo_gateway(limits(shutdown_timeout="1s"), drain_timeout="20s"))
        with gateway.client() as client:
            client.send_head("GET", "/wait?id=x")
            client.head()
            begin = time.monotonic()
            gateway.signal(signal.SIGTERM)
            self.assertEqual(gateway.wait(14), 0)
            self.assertLess(time.monotonic() - begin, 6, "shutdown_timeout is 1 s")


class Relays(Scripted):
    def test_a_client_that_leaves_an_answer_too_large_to_store(self):
        """Nobody wants the rest: the service is told at once, also if it stalls."""
        told = threading.Event()

        def handler(peer):
            peer.head()
            peer.send(b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n")
            peer.send(b"4e20\r\n" + b"x" * 20_000 + b"\r\n")
            peer.ended()
            told.set()

        gateway, _ = self.gateway_to(handler, "[cache]\nmax_object = \"4KiB\"\n", cache="60s")
        with gateway.client() as client:
            client.send_head("GET", "/")
            next(client.body(client.head()))
        self.assertTrue(told.wait(5), "5 s after the client had gone the connection to the service is still open")

    def test_leaders_client_leaves_before_the_head(self):
        def handler(peer):
            while peer.head():
                time.sleep(0.7)
                peer.send(answer(b"kept", b"cache-control: max-age=60\r\n"))

        gateway, _ = self.gateway_to(handler, cache="60s")
        leader = gateway.client()
        leader.send_head("GET", "/")
        time.sleep(0.2)
        timer = threading.Timer(0.2, leader.close)
        timer.start()
        begin = time.monotonic()
        bodies = in_threads(5, lambda _: gateway.get("/").body)
        self.assertEqual(set(bodies), {b"kept"})
        self.assertLess(time.monotonic() - begin, 4)

    def test_leaders_client_leaves_in_the_body(self):
        def handler(peer):
            while peer.head():
                peer.send(b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 8\r\n\r\nhalf")
                time.sleep(0.7)
                peer.send(b"rest")

        gateway, script = self.gateway_to(handler, cache="60s")
        leader = gateway.client()
        leader.send_head("GET", "/")
        leader.head()
        threading.Timer(0.2, leader.close).start()
        bodies = in_threads(5, lambda _: gateway.get("/").body)
        self.assertEqual(set(bodies), {b"halfrest"})
        self.assertEqual(len(script.heads), 1)


if __name__ == "__main__":
    unittest.main()
