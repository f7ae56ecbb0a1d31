"""HTTP/2 with clients: the same requests, routes, cache and limits as over HTTP/1.1, on streams (issue 17, part 4)."""

import base64
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import http2_client as http2
import websocket
from harness import (
    BINARY, Gateway, TestCase, config, demo_gateway, eventually, limits, route, service, setUpModule,
)  # fmt: skip
from http1 import Client
from origin import Origin
from programs import program
from scripted import Script
from test_access import ARGON2ID

__all__ = ["setUpModule"]


class WithOrigin(TestCase):
    """An HTTP/1.1 server behind the gateway, on `/`; `/cached` stores. The tests of a class share both."""

    BLOCKS = ()
    SETTINGS = {}

    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())
        cls.gateway = cls.share(cls.new_gateway())

    @classmethod
    def new_gateway(cls):
        blocks = service("web", url=cls.origin.url), route(service="web"), route("/cached", "web", cache=True)
        return Gateway(BINARY, config(*blocks, *cls.BLOCKS, **cls.SETTINGS))

    def setUp(self):
        super().setUp()
        self.origin.forget()

    def client(self, **settings):
        client = http2.Client(self.gateway.address, **settings)
        self.addCleanup(client.socket.close)
        return client

    def frames(self, **settings):
        frames = http2.Frames(self.gateway.address, **settings)
        self.addCleanup(frames.socket.close)
        return frames


class Requests(WithOrigin):
    SETTINGS = {"access_log": {"path": "access.log", "fields": ["protocol", "method", "target", "status", "cache"]}}

    def test_what_a_service_gets(self):
        forged = ("x-forwarded-for", "6.6.6.6")
        fields = [("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers"), forged, ("x-own", "1")]
        told = json.loads(self.client().request("GET", "/show?x=%2F", fields, host="a.test:81").body)
        self.assertEqual((told["method"], told["target"]), ("GET", "/show?x=%2F"))
        got = {name.lower(): value for name, value in told["fields"]}
        self.assertEqual(len(got), len(told["fields"]), "a field came twice")
        expected = {
            "host": "a.test:81", "cookie": "a=1; b=2", "x-own": "1", "x-forwarded-for": "127.0.0.1",
            "x-forwarded-host": "a.test:81", "via": "2.0 pilotlight",
        }  # fmt: skip
        self.assertEqual({name: got.get(name) for name in expected}, expected)
        self.assertNotIn("te", got)

    def test_methods_bodies_and_lengths(self):
        client = self.client()
        for method in ("POST", "PUT", "PATCH"):
            told = json.loads(client.request(method, "/show", body=b"some of it").body)
            self.assertEqual((told["method"], told["body"]), (method, "some of it"))
        head = client.request("HEAD", "/show")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertGreater(int(head.get("content-length")), 0)
        for status in (204, 304, 404, 500):
            answer = client.request("GET", f"/make?status={status}")
            self.assertEqual(answer.status, status)
            self.assertTrue(answer.get("date"))

    def test_large_bodies_both_ways_at_once(self):
        client, data = self.client(), os.urandom(3_000_000)
        stream = client.begin("POST", "/talk", end=False)
        client.send(stream, data, end=True)
        self.assertEqual(hashlib.sha256(client.answer(stream).body).digest(), hashlib.sha256(data).digest())
        told = json.loads(client.request("POST", "/upload", body=data).body)
        self.assertEqual(told["sha256"], hashlib.sha256(data).hexdigest())

    def test_streams_do_not_wait_for_each_other(self):
        client = self.client()
        waits = client.begin("GET", "/wait")
        streams = [client.begin("GET", f"/show?n={number}") for number in range(50)]
        for number, stream in enumerate(streams):
            self.assertEqual(json.loads(client.answer(stream).body)["target"], f"/show?n={number}")
        self.assertFalse(client.answers[waits].ended)
        client.h2.reset_stream(waits, http2.CANCEL)
        client.flush()
        self.assertTrue(eventually(lambda: self.origin.gone == 1), "the service was not told that its client has gone")

    def test_answers_from_memory(self):
        client, target = self.client(), "/cached/make?h=cache-control:max-age=60"
        first = client.request("GET", target)
        hits = [client.begin("GET", target) for _ in range(20)]
        for stream in hits:
            hit = client.answer(stream)
            self.assertEqual((hit.status, hit.body), (200, first.body))
            self.assertIn("; hit", hit.get("cache-status"))
        self.assertEqual(self.gateway.get(target).body, first.body, "the store is one for all protocols")
        self.assertEqual(client.request("HEAD", target).body, b"")
        self.assertEqual(len(self.origin.seen), 1)

    def test_requests_for_the_same_are_one(self):
        client = self.client()
        target = "/cached/make?h=cache-control:max-age=60&ms=200"
        streams = [client.begin("GET", target) for _ in range(20)]
        self.assertEqual({client.answer(stream).body for stream in streams}, {b"serial 1 for nobody  0"})

    def test_the_answer_to_content_is_nobody_elses(self):
        """RFC 9110 §9.3.1: what a service makes of the content of a GET is in no key, however that is framed."""
        client = self.client()
        target = "/cached/make?h=cache-control:max-age=60&framed"
        evil = client.request("GET", target, body=b"evil")  # DATA without a length
        self.assertEqual(evil.body, b"serial 1 for nobody  4")
        with self.gateway.client(timeout=5) as plain:
            plain.send_head("GET", target, [("Transfer-Encoding", "chunked")])
            plain.send(b"4\r\nevil\r\n0\r\n\r\n")
            self.assertEqual(plain.answer().body, b"serial 2 for nobody  4")
        self.assertEqual(client.request("GET", target).body, b"serial 3 for nobody  0")
        for _ in range(2):
            self.assertEqual(self.gateway.get(target).body, b"serial 3 for nobody  0")
        self.assertIn("hit", self.gateway.get(target).get("cache-status"))
        self.assertEqual(client.request("GET", target, body=b"evil").body, b"serial 4 for nobody  4")

    def test_interim_responses(self):
        answer = self.client().request("GET", "/make?early=3")
        self.assertEqual([interim[":status"] for interim in answer.interim], ["103"] * 3)
        self.assertEqual(answer.interim[2]["link"], "</2.css>; rel=preload")
        client = self.client()
        stream = client.begin("POST", "/upload", [("expect", "100-continue"), ("content-length", "3")], end=False)
        self.assertTrue(client.until(lambda: client.answers[stream].interim), "nobody said 100")
        self.assertEqual(client.answers[stream].interim[0][":status"], "100")
        client.send(stream, b"abc", end=True)
        self.assertEqual(json.loads(client.answer(stream).body)["bytes"], 3)

    def test_curl_and_the_log(self):
        target = "/show?with=curl"
        url = "http://{}:{}".format(*self.gateway.address) + target
        argv = [program("curl"), "-sS", "--http2-prior-knowledge", "-o", os.devnull]
        argv += ["-w", "%{http_version} %{http_code}", url]
        told = subprocess.run(argv, capture_output=True, text=True, timeout=10)
        self.assertEqual(told.stdout, "2 200", told.stderr)
        (entry,) = eventually(lambda: self.logged(target)) or self.fail("nothing was logged")
        self.assertEqual((entry["protocol"], entry["method"], entry["status"]), ("HTTP/2.0", "GET", 200))

    def logged(self, target):
        """The entries of the access log for `target`."""
        log = self.gateway.folder / "access.log"
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("\n")]
        return [entry for entry in entries if entry["target"] == target]

    def test_both_protocols_on_one_port(self):
        self.assert_status(self.gateway.get("/show"), 200)
        # The preface in pieces.
        frames = socket.create_connection(self.gateway.address, 10)
        self.addCleanup(frames.close)
        for byte in http2.PREFACE:
            frames.sendall(bytes([byte]))
        frames.sendall(http2.frame(http2.SETTINGS))
        self.assertEqual(frames.recv(9)[3], http2.SETTINGS)
        # Behind a request of HTTP/1.1 there is none.
        with socket.create_connection(self.gateway.address, 10) as mixed:
            mixed.sendall(b"GET /show HTTP/1.1\r\nhost: a\r\n\r\n" + http2.PREFACE)
            said = b"".join(iter(lambda: mixed.recv(65_536), b""))
        self.assertIn(b"HTTP/1.1 505", said)


class Trailers(TestCase):
    """To and from a service that speaks HTTP/1.1, whose trailers follow a chunked body."""

    def test_both_ways(self):
        heads = []

        def serve(peer):
            heads.append(peer.head())
            heads.append(peer.read(len(b"3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n")))
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-told\r\n\r\n")
            peer.send(b"2\r\nok\r\n0\r\nx-told: yes\r\nx-more: too\r\n\r\n")

        with Script(serve) as script:
            blocks = service("web", url=script.url), route(service="web")
            gateway = self.start(Gateway(BINARY, config(*blocks)))
            with http2.Client(gateway.address) as client:
                stream = client.begin("POST", "/", end=False)
                client.send(stream, b"abc")
                client.h2.send_headers(stream, [("x-sum", "7"), ("content-length", "9")], end_stream=True)
                client.flush()
                answer = client.answer(stream)
        self.assertEqual((answer.status, answer.body), (200, b"ok"))
        self.assertEqual(answer.trailers, [("x-told", "yes"), ("x-more", "too")])
        self.assertEqual(heads[1], b"3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n")


class Admission(TestCase):
    """What is let in, and how often, is the same as over HTTP/1.1, whatever is stored."""

    def test_who_is_let_in(self):
        stored = "/make?h=cache-control:public,max-age=60"
        with Origin() as origin, tempfile.TemporaryDirectory() as folder:
            users = Path(folder) / "users"
            users.write_text(f"ana:{ARGON2ID}\n")
            users.chmod(0o600)
            blocks = (
                service("web", url=origin.url),
                route("/", "web", cache=True, allow={"basic": str(users)}),
                route("/denied", "web", cache=True, deny={"networks": ["127.0.0.0/8"]}),
                route("/few", "web", limit={"rate": "2/m"}),
            )
            gateway = self.start(Gateway(BINARY, config(*blocks)))
            with http2.Client(gateway.address) as client:
                ana = [("authorization", "Basic " + base64.b64encode(b"ana:geheim").decode())]
                first = client.request("GET", stored, ana)
                self.assertEqual((first.status, client.request("GET", stored, ana).body), (200, first.body))
                for fields in ((), [("authorization", "Basic YW5hOng=")]):
                    answer = client.request("GET", stored, fields)
                    self.assertEqual(answer.status, 401, answer)
                    self.assertTrue(answer.get("www-authenticate").startswith("Basic"))
                self.assertEqual(client.request("GET", "/denied/show").status, 403)
                self.assertEqual([client.request("GET", "/few/show").status for _ in range(3)], [200, 200, 429])


class Malformed(WithOrigin):
    BLOCKS = (limits(header_count=20, header_size="4KiB"),)

    def check(self, status, fields=(), text=None, **named):
        answer = self.client().request("GET", "/show", fields, **named)
        self.assertEqual(answer.status, status, answer)
        if text:
            problem = json.loads(answer.body)
            self.assertEqual((answer.get("content-type"), problem["status"]), ("application/problem+json", status))
            self.assertIn(text, problem["detail"])

    def test_requests_that_get_an_answer(self):
        self.check(400, text="neither :authority nor Host", host=None)
        self.check(200, [("host", "demo.test")], host=None)
        self.check(400, [("host", "other.test")], text="differ")
        self.check(400, text="one host", host="user@demo.test")
        self.check(400, [("x-padded", " a")], text="white space")
        self.check(431, [(f"x-{number}", "1") for number in range(30)], text="limits.header_count")
        self.check(431, [("x-large", "a" * 5_000)])
        self.assertFalse(any(b"x-padded" in str(seen).encode() for seen in self.origin.seen))

    def test_requests_that_are_reset(self):
        for fields in (
            [("connection", "close")], [("transfer-encoding", "chunked")], [("keep-alive", "1")], [("upgrade", "h2c")],
            [("te", "gzip")], [("X-Upper", "1")], [("content-length", "5")], [(":path", "/again")],
        ):  # fmt: skip
            client = self.client()
            stream = client.begin("GET", "/show", fields)
            answer = client.answer(stream)
            self.assertTrue(answer.reset == http2.PROTOCOL_ERROR or client.goaway, f"{fields}: {answer}")
        self.assertEqual(self.origin.seen, [])

    def test_connect_is_refused(self):
        client = self.client()
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, [(":method", "CONNECT"), (":authority", "example.org:443")])
        client.flush()
        self.assertTrue(client.until(lambda: client.answers[stream].fields))
        self.assertEqual(client.answers[stream].status, 501)


class Bounds(WithOrigin):
    BLOCKS = (limits(body_timeout="1s", header_timeout="1s", keepalive_timeout="2s", streams=7),)
    SETTINGS = {"metrics": {"listen": "127.0.0.1:0"}}

    def check_flood(self, *flood, times=20_000):
        """The connection ends with ENHANCE_YOUR_CALM, and the gateway serves others."""
        frames = self.frames()
        sender = threading.Thread(target=lambda: [frames.send(b"".join(flood) * 100) for _ in range(times // 100)])
        sender.start()
        self.assertIn(frames.goaway(), (http2.ENHANCE_YOUR_CALM, None))
        frames.socket.close()
        sender.join()
        self.assert_status(self.gateway.get("/show"), 200)
        return frames

    def check_goaway(self, *flood):
        """As above; all of it is sent before anything is read, so GOAWAY is seen for certain."""
        frames = self.frames()
        frames.send(b"".join(flood))
        self.assertEqual(frames.goaway(), http2.ENHANCE_YOUR_CALM)
        self.assert_status(self.gateway.get("/show"), 200)

    def test_floods_of_frames_that_ask_for_nothing(self):
        self.check_goaway(http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 2, 0)) * 3_000)
        self.check_goaway(http2.frame(http2.PRIORITY, 0, 1, bytes(5)) * 3_000)
        self.check_goaway(http2.frame(77, 0, 1, bytes(1)) * 3_000)
        self.check_flood(http2.frame(http2.PING, 0, 0, bytes(8)))
        self.check_flood(http2.frame(http2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))

    def test_flood_of_empty_data(self):
        frames = self.frames()
        block = frames.encoder.encode(
            [(":method", "POST"), (":scheme", "http"), (":path", "/upload"), (":authority", "demo.test")]
        )
        head = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, block)
        frames.send(head + http2.frame(http2.DATA, 0, 1) * 3_000)
        self.assertEqual(frames.goaway(), http2.ENHANCE_YOUR_CALM)

    def test_rapid_reset(self):
        frames = self.frames()
        flood = b"".join(
            http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream, frames.head("/wait"))
            + http2.frame(http2.RST_STREAM, 0, stream, struct.pack(">I", http2.CANCEL))
            for stream in range(1, 4_000, 2)
        )
        frames.send(flood)
        self.assertEqual(frames.goaway(), http2.ENHANCE_YOUR_CALM)
        self.assert_status(self.gateway.get("/show"), 200)

    def test_resets_that_the_client_brings_about(self):
        """A few streams at a time, so that none of them is still at work (CVE-2025-8671)."""
        frames = self.frames()
        window = struct.pack(">I", 0)
        for first in range(1, 2_000, 40):
            flood = b"".join(
                http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream, frames.head("/wait"))
                + http2.frame(http2.WINDOW_UPDATE, 0, stream, window)
                for stream in range(first, first + 40, 2)
            )
            frames.send(flood + http2.frame(http2.PING, 0, 0, bytes(8)))
            got = frames.until(http2.PING, http2.GOAWAY, stream=0)
            if not got or got[0] == http2.GOAWAY:
                break
        self.assertEqual((got[0], got[3][4:8]), (http2.GOAWAY, struct.pack(">I", http2.ENHANCE_YOUR_CALM)))
        self.assertGreater(first, 900, "five hundred of them are allowed")
        self.assert_status(self.gateway.get("/show"), 200)

    def test_flood_of_continuations(self):
        frames = self.frames()
        frames.send(http2.frame(http2.HEADERS, 0, 1, frames.head()))
        for _ in range(2_000):
            if not frames.send(http2.frame(http2.CONTINUATION, 0, 1, frames.encoder.encode([("x-more", "a" * 500)]))):
                break
        self.assertIn(frames.goaway(), (http2.ENHANCE_YOUR_CALM, None))
        self.assert_status(self.gateway.get("/show"), 200)

    def test_header_bomb(self):
        """A field that is in the table once and named a thousand times (CVE-2016-1544)."""
        frames = self.frames()
        large = [("x-bomb", "b" * 3_000)]
        first = frames.head("/show?bomb", large)
        frames.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, first))
        self.assertTrue(frames.until(http2.DATA, stream=1))
        bomb = frames.encoder.encode(large)
        self.assertLess(len(bomb), 3, "it is indexed")
        block = frames.head("/show?bomb") + bomb * 10_000
        frames.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 3, block[:16_384]))
        while got := frames.next():
            self.assertFalse(got[0] == http2.HEADERS and got[2] == 3 and frames_status(got[3]) == 200)
            if got[2] == 3 or got[0] == http2.GOAWAY:
                break
        self.assertEqual(len(self.origin.requests("/show?bomb")), 1)
        self.assert_status(self.gateway.get("/show"), 200)

    def test_a_window_that_never_opens(self):
        frames = self.frames(settings=struct.pack(">HI", 4, 10))
        head = frames.head("/tiny?bytes=100000")
        frames.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, head))
        self.assertEqual(len(frames.until(http2.DATA, stream=1)[3]), 10)
        self.assertEqual(frames.until(http2.DATA, http2.RST_STREAM, stream=1)[0], http2.RST_STREAM)
        self.assertEqual(frames.goaway(), http2.NO_ERROR, "the connection goes on until it is idle")

    def test_a_window_that_opens_by_single_bytes(self):
        """A client makes progress only if it takes a kilobyte within body_timeout, or all that is there."""
        frames = self.frames(settings=struct.pack(">HI", 4, 10))
        frames.socket.settimeout(0.1)
        head = frames.head("/tiny?bytes=100000")
        frames.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, head))
        taken, reset = 0, None
        while reset is None and taken < 1_000:
            try:
                got = frames.next()
            except TimeoutError:
                frames.send(http2.frame(http2.WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)))
                continue
            if got[0] == http2.DATA:
                taken += len(got[3])
            elif got[0] == http2.RST_STREAM:
                reset = struct.unpack(">I", got[3])[0]
        self.assertEqual(reset, http2.CANCEL)
        self.assertGreater(taken, 10, "it took some of it meanwhile")

    def test_a_window_that_opens_slowly(self):
        """Far longer than body_timeout altogether, and to its end."""
        frames = self.frames(settings=struct.pack(">HI", 4, 1_024))
        head = frames.head("/tiny?bytes=8000")
        frames.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, head))
        taken, begun = 0, time.monotonic()
        while got := frames.until(http2.DATA, http2.RST_STREAM, stream=1):
            self.assertEqual(got[0], http2.DATA)
            taken += len(got[3])
            if got[1] & http2.END_STREAM:
                break
            if got[3]:
                time.sleep(0.4)  # the client is slow
                frames.send(http2.frame(http2.WINDOW_UPDATE, 0, 1, struct.pack(">I", len(got[3]))))
        self.assertEqual(taken, 8_000)
        self.assertGreater(time.monotonic() - begun, 2, "longer than body_timeout")

    def test_requests_that_are_malformed(self):
        """Each of them costs RST_STREAM (CVE-2019-9514)."""
        frames = self.frames()
        malformed = frames.head("/show?malformed", [("connection", "close")])
        flood = [http2.frame(http2.HEADERS, 5, stream, malformed) for stream in range(1, 4_000, 2)]
        frames.send(b"".join(flood))
        self.assertEqual(frames.goaway(), http2.ENHANCE_YOUR_CALM)
        self.assertEqual(self.origin.requests("/show?malformed"), [])
        self.assert_status(self.gateway.get("/show"), 200)

    def test_heads_that_are_too_large_are_counted(self):
        # 32 KiB are allowed. Before the connection, whose head has to come within a second: this takes a while.
        block = http2.hpack.Encoder().encode(http2.request_head(fields=[("x-large", "a" * 40_000)]))
        self.gateway = self.start(self.new_gateway())
        frames = self.frames()
        pieces = [block[at : at + 16_384] for at in range(0, len(block), 16_384)]
        frames.send(
            http2.frame(http2.HEADERS, http2.END_STREAM, 1, pieces[0])
            + b"".join(http2.frame(http2.CONTINUATION, 0, 1, piece) for piece in pieces[1:-1])
            + http2.frame(http2.CONTINUATION, http2.END_HEADERS, 1, pieces[-1])
        )
        self.assertIn(b"431", frames.until(http2.HEADERS, stream=1)[3])
        self.assertTrue(eventually(lambda: self.rejected() == 1), "it is in the metrics")

    def rejected(self):
        """Answers of the class 4xx that belong to no route, by the metrics."""
        address = self.find_output(self.gateway, r"metrics on http://([0-9.]+):(\d+)")
        with Client((address[1], int(address[2]))) as client:
            text = client.request("GET", "/metrics").body.decode()
        mine = 'pilotlight_requests_total{route="none",service="none",code="4xx"'
        return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(mine))

    def test_an_answer_of_the_gateway_that_nobody_takes(self):
        """The window is closed before it; no task of the gateway waits for it."""
        frames = self.frames(settings=struct.pack(">HI", 4, 0))
        block = frames.encoder.encode([(":method", "GET"), (":scheme", "http"), (":path", "/show")])
        frames.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, block))
        self.assertTrue(frames.until(http2.HEADERS, stream=1))
        frames.socket.settimeout(20)
        deadline = time.monotonic() + 20
        while frames.next():  # a TimeoutError, too, says that the gateway holds the connection
            self.assertLess(time.monotonic(), deadline, "the gateway holds the connection")

    def test_a_socket_that_is_never_read(self):
        with http2.Frames(self.gateway.address) as frames:
            frames.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            update = http2.frame(http2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30))
            window = http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 4, 2**30))
            head = frames.head("/large?bytes=100000000")
            frames.send(update + window)
            frames.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, head))
            ours = frames.socket.getsockname()[1]
            self.assertTrue(eventually(lambda: not is_open(ours), 20), "the gateway holds the connection")

    def test_more_streams_than_allowed(self):
        frames = self.frames()
        head = [http2.frame(http2.HEADERS, 5, stream, frames.head("/wait")) for stream in range(1, 21, 2)]
        frames.send(b"".join(head))
        refused = set()
        while len(refused) < 3 and (got := frames.next()):
            if got[0] == http2.RST_STREAM:
                self.assertEqual(struct.unpack(">I", got[3])[0], 7, "REFUSED_STREAM")
                refused.add(got[2])
        self.assertEqual(refused, {15, 17, 19})

    def test_idle_and_slow_clients(self):
        idle, slow, silent = self.frames(), self.frames(), socket.create_connection(self.gateway.address, 10)
        self.addCleanup(silent.close)
        slow.send(http2.frame(http2.HEADERS, 0, 1, slow.head()))
        silent.sendall(http2.PREFACE[:10])
        self.assertEqual(idle.goaway(), http2.NO_ERROR)
        self.assertEqual(slow.goaway(), http2.ENHANCE_YOUR_CALM)
        while silent.recv(65_536):
            pass  # 408 by HTTP/1.1, or the end


def is_open(port):
    """Whether a connection from this port is open at the other end (Linux: its state is 1)."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return any(int(row[2].split(":")[1], 16) == port and row[3] == "01" for row in rows)


def frames_status(block):
    """The status of a head whose first field is an indexed one."""
    return {0x88: 200}.get(block[0])


class Stopping(WithOrigin):
    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())

    def setUp(self):
        super().setUp()
        self.gateway = self.start(self.new_gateway())

    def test_streams_finish(self):
        client = self.client()
        streams = [client.begin("GET", f"/make?ms=700&n={number}") for number in range(5)]
        idle = self.client()
        self.assertEqual(idle.request("GET", "/show").status, 200)
        self.assertTrue(eventually(lambda: len(self.origin.seen) == 6), "they did not reach the service")
        self.gateway.signal(signal.SIGTERM)
        for stream in streams:
            self.assertEqual(client.answer(stream).status, 200)
        self.assertTrue(client.until(lambda: client.goaway is not None))
        self.assertEqual(client.goaway, http2.NO_ERROR)
        idle.until(lambda: idle.goaway is not None)
        self.assertEqual(idle.goaway, http2.NO_ERROR)
        self.assertEqual(self.gateway.wait(), 0)


class Tunnel:
    """A stream of an extended CONNECT as `websocket.Client` wants a connection."""

    def __init__(self, client, stream):
        self.client, self.stream, self.taken = client, stream, 0

    def send(self, data):
        self.client.send(self.stream, data)

    def read(self, length):
        answer = self.client.answers[self.stream]
        assert self.client.until(lambda: len(answer.body) - self.taken >= length), "it ended early"
        self.taken += length
        return answer.body[self.taken - length : self.taken]


class WebSockets(WithOrigin):
    """RFC 8441."""

    CONNECT = [(":protocol", "websocket")]
    FIELDS = [("sec-websocket-version", "13"), ("origin", "http://demo.test")]

    def test_echo(self):
        client = self.client()
        self.assertTrue(client.until(lambda: client.h2.remote_settings.enable_connect_protocol == 1), "not offered")
        streams = [client.begin("CONNECT", "/ws", self.FIELDS, end=False, pseudo=self.CONNECT) for _ in range(3)]
        for stream in streams:
            self.assertTrue(client.until(lambda s=stream: client.answers[s].fields))
            answer = client.answers[stream]
            self.assertEqual(answer.status, 200, answer)
            self.assertIsNone(answer.get("sec-websocket-accept"))
            self.assertIsNone(answer.get("upgrade"))
        for size in (5, 300, 70_000, 700_000):
            for stream in streams:
                tunnel = Tunnel(client, stream)
                tunnel.taken = len(client.answers[stream].body)
                tunnel.send(websocket.frame(websocket.BINARY, b"\x00\xff" * size, masked=True))
                self.assertEqual(websocket.read_frame(tunnel.read), (websocket.BINARY, b"\x00\xff" * size))
        for stream in streams:
            client.send(stream, websocket.frame(websocket.CLOSE, b"\x03\xe8", masked=True))
            self.assertTrue(client.answer(stream).ended, "the service's end was not passed on")
        self.assertEqual(client.request("GET", "/show").status, 200)

    def test_over_the_pipe(self):
        gateway = self.start(demo_gateway())
        with http2.Client(gateway.address) as client:
            stream = client.begin("CONNECT", "/ws", self.FIELDS, end=False, pseudo=self.CONNECT)
            self.assertTrue(client.until(lambda: client.answers[stream].fields))
            self.assertEqual(client.answers[stream].status, 200, client.answers[stream])
            tunnel = Tunnel(client, stream)
            tunnel.send(websocket.frame(websocket.TEXT, b"hello", masked=True))
            self.assertEqual(websocket.read_frame(tunnel.read), (websocket.TEXT, b"hello"))

    def test_what_does_not_switch_is_an_answer(self):
        client = self.client()
        for target, status in (("/show", 501), ("/make?status=403", 403)):
            stream = client.begin("CONNECT", target, self.FIELDS, end=False, pseudo=self.CONNECT)
            self.assertTrue(client.until(lambda s=stream: client.answers[s].fields))
            self.assertEqual(client.answers[stream].status, status)

    def test_a_protocol_that_the_route_does_not_let_through_reaches_no_service(self):
        """RFC 8441 §4: the stream is to become that protocol, and is no GET."""
        client, before = self.client(), len(self.origin.seen)
        for target in ("/show", "/cached/show"):
            stream = client.begin("CONNECT", target, end=False, pseudo=[(":protocol", "connect-udp")])
            self.assertTrue(client.until(lambda s=stream: client.answers[s].fields))
            self.assertEqual(client.answers[stream].status, 501)
        self.assertEqual(len(self.origin.seen), before)


if __name__ == "__main__":
    unittest.main()
