"""HTTP through the gateway: routes, fields, streams, limits, upgrades, pools (issue 2, part 4)."""

import hashlib
import json
import time
import unittest

import websocket
from harness import (
    BINARY, Cut, Gateway, TestCase, config, demo_gateway, eventually, in_threads, limits, route, service, setUpModule,
)  # fmt: skip
from origin import Origin

__all__ = ["setUpModule"]


def fields_of(told, name):
    return [value for key, value in told["fields"] if key.lower() == name]


class WithOrigin(TestCase):
    """An HTTP server in this process, reached by URL over TCP; the tests of a class share it and the gateway."""

    BLOCKS = ()

    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())
        blocks = service("web", url=cls.origin.url), route(service="web"), *cls.BLOCKS
        cls.gateway = cls.share(Gateway(BINARY, config(*blocks)))

    def setUp(self):
        super().setUp()
        self.origin.forget()


class Routes(TestCase):
    def test_precedence_does_not_depend_on_order(self):
        """Exact host, then the longest wildcard, then none; exact path, then the longest prefix; on segment boundaries."""
        with Origin() as plain, Origin() as named, Origin() as wild, Origin() as deep:
            blocks = [
                service("plain", url=plain.url), service("named", url=named.url),
                service("wild", url=wild.url), service("deep", url=deep.url),
                route("/", "plain"), route("/", "wild", host="*.example.org"), route("/", "named", host="a.example.org"),
                route("/a/b", "deep"), route("/a", "plain"), route("/a/exact", "deep", exact=True),
            ]  # fmt: skip
            expected = [
                ("x.test", "/", plain), ("x.test", "/a/b", deep), ("x.test", "/a/b/c", deep), ("x.test", "/a/bc", plain),
                ("x.test", "/a/exact", deep), ("x.test", "/a/exact/more", plain),
                ("b.example.org", "/q", wild), ("a.example.org", "/q", named), ("A.Example.ORG:8080", "/q", named),
                ("example.org", "/q", plain),
            ]  # fmt: skip
            for order in (blocks, blocks[:4] + blocks[:3:-1]):
                with Gateway(BINARY, config(*order)) as gateway:
                    for host, path, wanted in expected:
                        before = len(wanted.seen)
                        self.assert_status(gateway.get(path, host=host), 200)
                        self.assertEqual(len(wanted.seen), before + 1, f"{host}{path} went elsewhere")

    def test_strip_prefix(self):
        with Origin() as origin:
            blocks = service("web", url=origin.url), route("/api", "web", strip_prefix=True)
            gateway = self.start(Gateway(BINARY, config(*blocks)))
            self.assertEqual(self.assert_json(gateway.get("/api/show?x=%2F"))["target"], "/show?x=%2F")

    def test_no_route_is_a_problem_document(self):
        gateway = self.start(Gateway(BINARY, config(service(), route("/only"))))
        self.assert_problem(gateway.get("/else"), 404)

    def test_dot_segments_do_not_leave_a_route(self):
        with Origin() as secret, Origin() as public:
            blocks = service("secret", url=secret.url), service("public", url=public.url), route("/public", "public")
            gateway = self.start(Gateway(BINARY, config(*blocks, route("/admin", "secret"))))
            for target in ("/public/../admin", "/public/%2e%2e/admin", "/public/x/../../admin"):
                gateway.get(target)
            self.assertEqual(public.seen, [], "a target that means /admin was sent to the service of /public")


class Fields(WithOrigin):
    def test_as_sent_in_order_with_duplicates(self):
        fields = [("X-One", "1"), ("X-Two", "2"), ("X-One", "3"), ("Cookie", "a=1; b=2")]
        told = self.assert_json(self.gateway.get("/show", fields))
        sent = [(name.lower(), value) for name, value in told["fields"] if name.lower() in ("x-one", "x-two", "cookie")]
        self.assertEqual([value for name, value in sent if name == "x-one"], ["1", "3"])
        self.assertIn(("cookie", "a=1; b=2"), sent)

    def test_two_set_cookie(self):
        answer = self.gateway.get("/make?h=set-cookie:a%3D1&h=set-cookie:b%3D2")
        self.assertEqual(answer.all("set-cookie"), ["a=1", "b=2"])

    def test_hop_by_hop_fields_are_removed(self):
        fields = [("Connection", "x-hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=1"), ("TE", "gzip"),
                  ("Proxy-Connection", "close"), ("X-Stays", "1")]  # fmt: skip
        told = self.assert_json(self.gateway.get("/show", fields))
        for name in ("x-hop", "keep-alive", "te", "proxy-connection"):
            self.assertEqual(fields_of(told, name), [], name)
        self.assertEqual(fields_of(told, "x-stays"), ["1"])

    def test_hop_by_hop_fields_of_the_answer_are_removed(self):
        answer = self.gateway.get("/make?h=connection:x-mine&h=x-mine:1&h=keep-alive:timeout%3D5&h=x-stays:1")
        for name in ("x-mine", "keep-alive"):
            self.assertEqual(answer.all(name), [], name)
        self.assertEqual(answer.get("x-stays"), "1")

    def test_forwarded_fields_are_added(self):
        told = self.assert_json(self.gateway.get("/show"))
        self.assertEqual(fields_of(told, "x-forwarded-for"), ["127.0.0.1"])
        self.assertEqual(fields_of(told, "x-forwarded-proto"), ["http"])
        self.assertEqual(fields_of(told, "x-forwarded-host"), ["demo.test"])
        self.assertIn("for=127.0.0.1", fields_of(told, "forwarded")[0])
        self.assertIn("1.1 ", fields_of(told, "via")[0])
        self.assertTrue(fields_of(told, "x-request-id")[0])

    def test_spoofed_forwarded_fields_are_replaced(self):
        fields = [("X-Forwarded-For", "6.6.6.6"), ("Forwarded", "for=6.6.6.6"), ("X-Forwarded-Proto", "https"),
                  ("X-Forwarded-Host", "evil.test"), ("X_Forwarded_For", "6.6.6.6")]  # fmt: skip
        told = self.assert_json(self.gateway.get("/show", fields))
        for name in ("x-forwarded-for", "forwarded", "x-forwarded-proto", "x-forwarded-host"):
            values = fields_of(told, name)
            self.assertEqual(len(values), 1, name)
            self.assertNotRegex(values[0], "6.6.6.6|https|evil", name)

    def test_request_id_is_on_answer_and_request_alike(self):
        answer = self.gateway.get("/show")
        self.assertEqual(fields_of(self.assert_json(answer), "x-request-id"), answer.all("x-request-id"))
        other = self.gateway.get("/show")
        self.assertNotEqual(answer.get("x-request-id"), other.get("x-request-id"))

    def test_via_is_extended(self):
        told = self.assert_json(self.gateway.get("/show", [("Via", "1.0 other")]))
        self.assertTrue(", ".join(fields_of(told, "via")).startswith("1.0 other, 1.1 "))

    def test_bad_requests_are_refused(self):
        """RFC 9112: what could be read in two ways is not passed on."""
        bad = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        ]
        for raw in bad:
            with self.subTest(raw=raw), self.gateway.client(timeout=8) as client:
                client.send(raw)
                self.assert_status(client.answer("POST"), 400)
        self.assertEqual([path for _, path, _ in self.origin.seen if path != "/"], [])

    def test_both_lengths_never_smuggle(self):
        """RFC 9112 §6.1: Transfer-Encoding with Content-Length is an error or ends the connection; no second request."""
        with self.gateway.client(timeout=8) as client:
            client.send(b"POST /show HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
                        b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")  # fmt: skip
            client.answer("POST")
            self.assertTrue(client.ended(), "the connection stays open after an ambiguous request")
        self.assertEqual(self.origin.requests("/smuggled"), [])


class Streams(WithOrigin):
    BLOCKS = (limits(body_timeout="3s"),)

    def test_answer_arrives_chunk_by_chunk(self):
        with self.gateway.client() as client:
            client.send_head("GET", "/stream?chunks=4&ms=300")
            times = [time.monotonic() for _ in client.body(client.head())]
        self.assertGreater(times[-1] - times[0], 0.5)

    def test_large_bodies_both_ways(self):
        size = 20_000_000
        body = bytes(1000) * (size // 1000)
        told = self.assert_json(self.gateway.request("POST", "/upload", body=body, timeout=60))
        self.assertEqual((told["bytes"], told["sha256"]), (size, hashlib.sha256(body).hexdigest()))

    def test_chunked_upload(self):
        with self.gateway.client() as client:
            client.send_head("POST", "/upload", [("Transfer-Encoding", "chunked")])
            for _ in range(10):
                client.send_chunk(b"0123456789")
            client.end_chunks()
            self.assertEqual(json.loads(client.answer("POST").body)["bytes"], 100)

    def test_client_that_goes_away_cancels(self):
        with self.gateway.client() as client:
            client.send_head("GET", "/wait")
            next(client.body(client.head()))
        done = eventually(lambda: self.gateway.get("/gone").body == b"1")
        self.assertTrue(done, "10 s after the client had gone the service still was answering")

    def test_origin_that_dies_cuts_the_answer(self):
        with Origin() as origin:
            gateway = self.start(Gateway(BINARY, config(service("web", url=origin.url), route(service="web"))))
            with gateway.client() as client:
                client.send(b"GET /make?h=content-length:100 HTTP/1.0\r\nHost: a\r\n\r\n")
                answer = client.head()
                if answer.get("content-length") == "100":
                    with self.assertRaises(Cut):
                        list(client.body(answer))

    def test_expect_100_continue(self):
        with self.gateway.client() as client:
            client.send_head("POST", "/upload", [("Expect", "100-continue"), ("Content-Length", "4")])
            client.send(b"body")
            self.assertEqual(json.loads(client.answer("POST").body)["bytes"], 4)

    def test_head(self):
        with self.gateway.client() as client:
            answer = client.request("HEAD", "/make")
            self.assertEqual((answer.status, answer.body), (200, b""))
            self.assertGreater(int(answer.get("content-length")), 0)
            self.assert_status(client.request("GET", "/show"), 200)

    def test_pipelined_requests_are_answered_in_order(self):
        with self.gateway.client() as client:
            for number in range(10):
                client.send_head("GET", f"/show?n={number}")
            targets = [json.loads(client.answer().body)["target"] for _ in range(10)]
        self.assertEqual(targets, [f"/show?n={number}" for number in range(10)])

    def test_http_1_0(self):
        with self.gateway.client() as client:
            client.send(b"GET /stream?chunks=2 HTTP/1.0\r\nHost: a\r\n\r\n")
            answer = client.head()
            self.assertIsNone(answer.get("transfer-encoding"), "chunked to an HTTP/1.0 client")
            self.assertEqual(b"".join(client.body(answer)), b"chunk 0\nchunk 1\n")


class Limits(TestCase):
    """Each limit is a setting, and its error names it."""

    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.share(demo_gateway(limits(body_size="1KiB", header_size="4KiB", body_timeout="1s")))

    def gateway_with(self, **settings):
        return self.start(demo_gateway(limits(**settings)))

    def test_body_too_large(self):
        problem = self.assert_problem(self.gateway.request("POST", "/echo", body=b"x" * 1025), 413)
        self.assertIn("body_size", problem["detail"])
        self.assertEqual(self.gateway.request("POST", "/echo", body=b"x" * 1024).body, b"x" * 1024)

    def test_a_route_without_a_limit_of_its_bodies(self):
        own = route("/echo", body_size="none")
        gateway = self.start(demo_gateway(limits(body_size="1KiB"), own))
        self.assertEqual(gateway.request("POST", "/echo", body=b"x" * 5000).body, b"x" * 5000)
        self.assert_problem(gateway.request("POST", "/upload", body=b"x" * 5000), 413)

    def test_chunked_body_too_large(self):
        with self.gateway.client() as client:
            client.send_head("POST", "/upload", [("Transfer-Encoding", "chunked")])
            client.send_chunk(b"x" * 2000)
            client.end_chunks()
            problem = self.assert_problem(client.answer("POST"), 413)
        self.assertIn("body_size", problem["detail"])

    def test_header_too_large(self):
        with self.gateway.client() as client:
            client.send_head("GET", "/echo", [("X-Big", "x" * 5000)])
            problem = self.assert_problem(client.answer(), 431)
        self.assertIn("header_size", problem["detail"])

    def test_slow_header_is_cut(self):
        """Slowloris: bytes that keep coming do not extend the limit."""
        gateway = self.gateway_with(header_timeout="1s")
        with gateway.client(timeout=1) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
            begin, ended = time.monotonic(), False
            while not ended and time.monotonic() - begin < 10:
                try:
                    client.send(b"X-Slow: 1\r\n")
                    ended = client.ended() or True
                except TimeoutError:
                    continue
                except OSError:
                    ended = True
            self.assertTrue(ended, "still open after 10 s, header_timeout is 1 s")
        self.assert_status(gateway.get("/status?code=200"), 200)

    def test_many_slow_clients_hold_nobody_up(self):
        gateway = self.gateway_with(header_timeout="5s")
        slow = [gateway.client() for _ in range(200)]
        for client in slow:
            client.send(b"GET / HTTP/1.1\r\nX-")
        begin = time.monotonic()
        self.assert_status(gateway.get("/status?code=200"), 200)
        self.assertLess(time.monotonic() - begin, 3)
        for client in slow:
            client.close()

    def test_slow_body_is_cut(self):
        with self.gateway.client(timeout=10) as client:
            client.send_head("POST", "/upload", [("Content-Length", "100")])
            client.send(b"half")
            begin = time.monotonic()
            problem = self.assert_problem(client.answer("POST"), 408)
            self.assertLess(time.monotonic() - begin, 6)
        self.assertIn("body_timeout", problem["detail"])


class WebSockets(TestCase):
    @classmethod
    def setUpClass(cls):
        origin = cls.enterClassContext(Origin())
        routes = route("/", "web"), route("/brief", "web", cache="5s"), route("/cached", "web", cache=True)
        cls.gateway = cls.share(Gateway(BINARY, config(service("web", url=origin.url), *routes)))

    def check(self, gateway, target="/ws"):
        with gateway.client() as client:
            socket = websocket.Client(client, target)
            for size in (0, 5, 126, 70_000):
                socket.send(websocket.BINARY, b"\x00\xff" * size)
                self.assertEqual(socket.receive(), (websocket.BINARY, b"\x00\xff" * size))
            socket.send(websocket.PING, b"there?")
            self.assertEqual(socket.receive(), (websocket.PONG, b"there?"))
            socket.send(websocket.CLOSE, b"\x03\xe8")
            self.assertEqual(socket.receive(), (websocket.CLOSE, b"\x03\xe8"))
            self.assertTrue(client.ended())

    def test_upgrade_over_tcp(self):
        self.check(self.gateway)

    def test_upgrade_over_unix(self):
        gateway = Gateway(BINARY, config(service("web", url="unix:@FOLDER@/web.sock"), route(service="web")))
        with Origin(gateway.folder / "web.sock"):
            self.check(self.start(gateway))

    def test_upgrade_on_a_cached_route(self):
        self.check(self.gateway, "/brief/ws")

    def test_other_peoples_client(self):
        from websockets.sync.client import connect  # `make test` installs it

        with connect(f"ws://127.0.0.1:{self.gateway.address[1]}/cached/ws", compression=None) as socket:
            for message in ("text", b"\x00\xff" * 50_000):
                socket.send(message)
                self.assertEqual(socket.recv(timeout=5), message)
            self.assertTrue(socket.ping().wait(5), "no pong")

    def test_refused_upgrade_is_an_answer(self):
        self.assert_status(self.gateway.get("/ws"), 426)

    def test_idle_sockets_live(self):
        """Limits between requests do not end an upgraded connection."""
        with Origin() as origin:
            blocks = service("web", url=origin.url), route(service="web"), limits(body_timeout="1s", keepalive_timeout="1s")
            gateway = self.start(Gateway(BINARY, config(*blocks)))
            with gateway.client() as client:
                socket = websocket.Client(client, "/ws")
                time.sleep(2.5)  # longer than both limits: that is what is tested
                socket.send(websocket.TEXT, b"still there")
                self.assertEqual(socket.receive(), (websocket.TEXT, b"still there"))


class Pools(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.share(demo_gateway())

    def check(self, origin, gateway):
        with gateway.client() as client:
            for _ in range(50):
                self.assert_status(client.request("GET", "/show"), 200)
        self.assertLessEqual(origin.connections, 2, "fifty requests in a row opened more than a connection or two")
        in_threads(20, lambda _: [gateway.get("/show") for _ in range(5)])
        self.assertLess(origin.connections, 60, "150 requests: connections are not kept")

    def test_tcp(self):
        with Origin() as origin:
            gateway = self.start(Gateway(BINARY, config(service("web", url=origin.url), route(service="web"))))
            self.check(origin, gateway)

    def test_unix(self):
        gateway = Gateway(BINARY, config(service("web", url="unix:@FOLDER@/web.sock"), route(service="web")))
        with Origin(gateway.folder / "web.sock") as origin:
            self.check(origin, self.start(gateway))

    def test_server_that_is_not_there(self):
        gateway = self.start(Gateway(BINARY, config(service("web", url="http://127.0.0.1:1"), route(service="web"))))
        self.assert_problem(gateway.get("/"), 502)

    def test_client_connections_are_kept(self):
        with self.gateway.client() as client:
            for number in range(50):
                self.assert_status(client.request("GET", f"/status?code={200 + number % 3}"), 200 + number % 3)

    def test_connection_close_is_obeyed(self):
        with self.gateway.client() as client:
            self.assert_status(client.request("GET", "/status?code=200", [("Connection", "close")]), 200)
            self.assertTrue(client.ended())


if __name__ == "__main__":
    unittest.main()
