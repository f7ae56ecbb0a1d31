"""WebSocket from each kind of client to each kind of service: what RFC 6455 says of frames holds on every way, for the
gateway passes bytes and looks at none (cases as those of the Autobahn test suite); half-closes, ends, idleness, drains.

Clients: HTTP/1.1, and HTTP/2 by extended CONNECT. Services: over the pipe (`pilotlight.websocket`), over HTTP/1.1 (the
package `websockets`), over HTTP/2 (h2c, the package `h2`).
"""

import hashlib
import os
import random
import signal
import socket
import struct
import threading
import time
import unittest

import harness
import http2_client as http2
import websocket
from h2c_service import Server as H2cServer
from harness import DEMO, HERE, PYTHON, Gateway, TestCase, config, eventually, route, service, setUpModule
from scripted import Script
from test_reload import Reloading, Unix
from websocket_service import echo
from websockets.sync.server import serve

__all__ = ["setUpModule"]

KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455 §1.3
FIELDS = [("sec-websocket-version", "13"), ("origin", "http://demo.test")]
CALM = {"drain_timeout": "10s", "stop_grace": "1s"}
MANAGED = [PYTHON, "-B", str(HERE / "websocket_service.py")]
ENDED = "ended"


class Http1:
    """An opened tunnel of a client of HTTP/1.1."""

    def __init__(self, address, target, protocol="websocket"):
        self.socket = socket.create_connection(address, 20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inbox = bytearray()
        switch = [("upgrade", protocol), ("connection", "upgrade"), ("sec-websocket-key", KEY)]
        fields = [("host", "demo.test"), *switch, *FIELDS]
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""]
        self.send("\r\n".join(lines).encode())
        while b"\r\n\r\n" not in self.inbox:
            assert self.more(), self.inbox
        head, _, self.inbox = self.inbox.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    def more(self):
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self.inbox += data
        return bool(data)

    def send(self, data):
        self.socket.sendall(data)

    def read(self, count):
        """So many bytes; fewer only at the end."""
        while len(self.inbox) < count and self.more():
            pass
        data = bytes(self.inbox[:count])
        del self.inbox[:count]
        return data

    def shut(self):
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()


class Http2:
    """The same of a client of HTTP/2."""

    def __init__(self, address, target, protocol="websocket"):
        self.client = http2.Client(address, timeout=20)
        assert self.client.until(lambda: self.client.h2.remote_settings.enable_connect_protocol == 1)
        self.stream = self.client.begin("CONNECT", target, FIELDS, end=False, pseudo=[(":protocol", protocol)])
        self.answer, self.taken = self.client.answers[self.stream], 0
        self.client.until(lambda: self.answer.fields)
        self.status, self.fields = self.answer.status, dict(self.answer.fields)

    def is_over(self):
        return self.answer.ended or self.answer.reset is not None

    def send(self, data):
        self.client.send(self.stream, data)

    def read(self, count):
        self.client.until(lambda: len(self.answer.data) - self.taken >= count or self.is_over())
        data = bytes(self.answer.data[self.taken : self.taken + count])
        self.taken += len(data)
        return data

    def shut(self):
        self.client.h2.end_stream(self.stream)
        self.client.flush()

    def close(self):
        self.client.socket.close()


def frame(first, payload=b"", mask=b"\x37\xfa\x21\x3d"):
    """A client's frame; `first` is its first byte: FIN, reserved bits, opcode."""
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", first, 0x80 | size)
    elif size < 65_536:
        head = struct.pack(">BBH", first, 0xFE, size)
    else:
        head = struct.pack(">BBQ", first, 0xFF, size)
    repeated = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return head + mask + masked.to_bytes(size, "big")


TEXT, BINARY, CLOSE, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8A  # final frames
FIRST_TEXT, FIRST_BINARY, MIDDLE, LAST = 0x01, 0x02, 0x00, 0x80


def echoed(opcode, data):
    return (opcode & 0x0F, data)


def fails(code):
    return (8, code)


def close(code, reason=b""):
    return frame(CLOSE, struct.pack(">H", code) + reason)


def cases():
    """(name, what is sent, what comes), by the sections of Autobahn: data as (opcode, bytes), Close as (8, code)."""
    for size in (0, 125, 126, 127, 128, 65_535, 65_536, 1 << 20):  # 1.1, 1.2
        for opcode in (TEXT, BINARY):
            yield f"1 size {size} {opcode}", frame(opcode, b"*" * size), [echoed(opcode, b"*" * size)]
    for size in (0, 8, 125):  # 2
        yield f"2 ping {size}", frame(PING, b"\xfe" * size), [echoed(PONG, b"\xfe" * size)]
    yield "2.5 ping too long", frame(PING, b"x" * 126), [fails(1002)]
    yield "2.7 pong unasked", frame(PONG, b"x") + frame(PING, b"y"), [echoed(PONG, b"y")]
    ten = [b"%d" % number for number in range(10)]
    yield "2.10 pings", b"".join(frame(PING, one) for one in ten), [echoed(PONG, one) for one in ten]
    for bits in (0x10, 0x20, 0x40, 0x70):  # 3
        yield f"3 reserved {bits:x}", frame(TEXT | bits, b"a"), [fails(1002)]
    for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):  # 4
        yield f"4 opcode {opcode}", frame(0x80 | opcode), [fails(1002)]
    yield "5.1 ping in fragments", frame(0x09, b"a") + frame(LAST, b"b"), [fails(1002)]
    yield "5.3 text in fragments", frame(FIRST_TEXT, b"a") + frame(LAST, b"b"), [echoed(TEXT, b"ab")]
    between = frame(FIRST_TEXT, b"a") + frame(PING, b"p") + frame(MIDDLE, b"b") + frame(PING, b"q") + frame(LAST, b"c")
    yield "5.7 pings between", between, [echoed(PONG, b"p"), echoed(PONG, b"q"), echoed(TEXT, b"abc")]
    yield "5.9 nothing to continue", frame(LAST, b"a"), [fails(1002)]
    yield "5.10 nothing to continue", frame(MIDDLE, b"a"), [fails(1002)]
    yield "5.18 a message in a message", frame(FIRST_TEXT, b"a") + frame(TEXT, b"b"), [fails(1002)]
    yield "5.20 empty fragments", frame(FIRST_BINARY) + frame(MIDDLE) + frame(LAST), [echoed(BINARY, b"")]
    text = "κόσμε 🔥 €".encode()
    yield "6.2 text of several bytes", frame(TEXT, text), [echoed(TEXT, text)]
    pieces = [frame(FIRST_TEXT, text[:1]), *(frame(MIDDLE, text[n : n + 1]) for n in range(1, len(text))), frame(LAST)]
    yield "6.2 each byte a fragment", b"".join(pieces), [echoed(TEXT, text)]
    for bad in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xce"):
        yield f"6 not UTF-8 {bad!r}", frame(TEXT, bad), [fails(1007)]
    yield "7.1 a Close", close(1000), [fails(1000)]
    yield "7.3.2 half a code", frame(CLOSE, b"\x03"), [fails(1002)]
    yield "7.3.5 the longest reason", close(1000, b"*" * 123), [fails(1000)]
    yield "7.5 a reason that is not UTF-8", close(1000, b"\xce\xba\xff"), [fails(1007)]
    for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999):
        yield f"7.7 code {code}", close(code), [fails(code)]
    for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535):
        yield f"7.9 code {code}", close(code), [fails(1002)]
    large = b"*" * (4 << 20)
    pieces = [large[n : n + 65_536] for n in range(0, len(large), 65_536)]
    middle = b"".join(frame(MIDDLE, piece) for piece in pieces[1:-1])
    sent = frame(FIRST_BINARY, pieces[0]) + middle + frame(LAST, pieces[-1])
    yield "9 fragments of 64 KiB", sent, [echoed(BINARY, large)]
    yield "9.2 16 MiB", frame(BINARY, b"*" * (16 << 20)), [echoed(BINARY, b"*" * (16 << 20))]


def received(opened, count):
    """So many messages, put together; `ENDED` is the end of the connection."""
    found, kind, pieces = [], None, b""
    while len(found) < count:
        head = opened.read(2)
        if len(head) < 2:
            return [*found, ENDED]
        first, size = head
        size = {126: 2, 127: 8}.get(size, 0) and int.from_bytes(opened.read({126: 2, 127: 8}[size]), "big") or size
        payload, opcode = opened.read(size), first & 0x0F
        if opcode == 8:
            found.append(fails(int.from_bytes(payload[:2], "big")))
        elif opcode > 8:
            found.append((opcode, payload))
        else:
            kind, pieces = opcode or kind, pieces + payload
            if first & 0x80:
                found.append((kind, pieces))
                pieces = b""
    return found


class Echo(TestCase):
    """Every case on every way. The service that does not echo WebSocket but bytes is in `Bytes`."""

    @classmethod
    def setUpClass(cls):
        server = serve(echo, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.shutdown)
        url = "http://127.0.0.1:{}".format(server.socket.getsockname()[1])
        blocks = service(argv=DEMO, **CALM), route("/ws"), service("web", url=url), route("/", "web")
        cls.gateway = cls.share(Gateway(harness.BINARY, config(*blocks)))

    def check(self, opener, target):
        for name, sent, expected in cases():
            with self.subTest(name):
                opened = opener(self.gateway.address, target)
                self.addCleanup(opened.close)
                self.assertIn(opened.status, (101, 200))
                sender = threading.Thread(target=self.send, args=(opened, sent), daemon=True)
                if opener is Http2:
                    opened.send(sent)  # it reads while it waits for room
                else:
                    sender.start()
                found = received(opened, len(expected))
                self.assertEqual([self.short(one) for one in found], [self.short(one) for one in expected])
                if expected[-1][0] == 8:
                    self.assertEqual(opened.read(1), b"", "nothing comes behind a Close")
                opened.close()

    def send(self, opened, data):
        try:
            opened.send(data)
        except OSError:
            pass  # the service has closed before it was all read

    @staticmethod
    def short(message):
        opcode, data = message if message != ENDED else (ENDED, b"")
        is_long = isinstance(data, bytes) and len(data) > 200
        return opcode, (len(data), hashlib.sha256(data).hexdigest()) if is_long else data

    def test_http1_to_http(self):
        self.check(Http1, "/")

    def test_http1_to_the_pipe(self):
        self.check(Http1, "/ws")

    def test_http2_to_http(self):
        self.check(Http2, "/")

    def test_http2_to_the_pipe(self):
        self.check(Http2, "/ws")


class Bytes(TestCase):
    """Behind the switch nothing is changed, kept or thrown away, whatever it is and however it is cut."""

    def begin(self, url):
        blocks = service("web", url=url), route("/", "web", upgrades=["echo", "websocket"]), service(argv=DEMO, **CALM)
        return self.start(Gateway(harness.BINARY, config(*blocks, route("/switch", upgrades=["echo"]))))

    def pieces(self, seed, total):
        numbers = random.Random(seed)
        data, at = numbers.randbytes(total), 0
        while at < total:
            size = numbers.choice((1, 2, 7, 125, 1_000, 16_384, 16_385, 70_000))
            yield data[at : at + size]
            at += size

    def test_both_ways_at_once(self):
        """The service sends other bytes than it gets; both directions end one after the other."""
        total, got = 2_000_000, {}

        def serve_bytes(peer):
            peer.head()
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nearly")
            reader = threading.Thread(target=lambda: got.update(data=peer.read(total + 1)), daemon=True)
            reader.start()
            for piece in self.pieces("down", total):
                peer.send(piece)
            reader.join(20)  # until the client has ended its direction
            peer.send(b"last")

        up, down = b"".join(self.pieces("up", total)), b"".join(self.pieces("down", total))
        for opener in (Http1, Http2):
            with self.subTest(opener.__name__), Script(serve_bytes) as script:
                opened = opener(self.begin(script.url).address, "/")
                self.addCleanup(opened.close)
                if opener is Http1:
                    def send(to=opened):
                        for piece in self.pieces("up", total):
                            to.send(piece)
                        to.shut()

                    threading.Thread(target=send, daemon=True).start()
                else:
                    for piece in self.pieces("up", total):
                        opened.send(piece)
                    opened.shut()
                found = opened.read(5 + total + 4)
                self.assertEqual(found[:5] + found[-4:], b"earlylast")
                self.assertEqual(hashlib.sha256(found[5:-4]).digest(), hashlib.sha256(down).digest())
                self.assertEqual(hashlib.sha256(got["data"]).digest(), hashlib.sha256(up).digest())
                self.assertEqual(opened.read(1), b"")

    def test_echoes_of_the_pipe_and_of_h2c(self):
        data = b"".join(self.pieces("echo", 1_000_000))
        with H2cServer() as server:
            gateway = self.begin(server.url)
            for opener in (Http1, Http2):
                for target in ("/switch", "/"):
                    with self.subTest(f"{opener.__name__} {target}"):
                        opened = opener(gateway.address, target, "echo")
                        self.addCleanup(opened.close)
                        self.assertIn(opened.status, (101, 200))

                        def send(to=opened):
                            for piece in self.pieces("echo", len(data)):
                                to.send(piece)
                            to.shut()

                        if opener is Http1:
                            threading.Thread(target=send, daemon=True).start()
                        else:
                            send()
                        found = opened.read(len(data) + 1)
                        self.assertEqual(hashlib.sha256(found).digest(), hashlib.sha256(data).digest())

    def test_a_side_that_takes_nothing_stops_the_other(self):
        """What the gateway and the kernel hold is bounded; nothing of it is lost."""
        go_on, got, limit = threading.Event(), {}, 64 << 20

        def serve_late(peer):
            peer.head()
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
            go_on.wait(20)
            got["data"] = peer.read(limit)

        with Script(serve_late) as script:
            opened = Http1(self.begin(script.url).address, "/")
            self.addCleanup(opened.close)
            opened.socket.settimeout(2)  # of one send: then nothing moves any more
            sent = 0
            with self.assertRaises(TimeoutError):
                while sent < limit:
                    sent += opened.socket.send(b"x" * 65_536)
            self.assertLess(sent, limit)
            go_on.set()
            opened.shut()
            self.assertTrue(eventually(lambda: "data" in got))
            self.assertEqual(len(got["data"]), sent)

    def test_ends_are_passed_on(self):
        """The service closes, or is gone; the client is gone."""
        ended = []

        def serve_end(peer):
            target = peer.head().split()[1]
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nhello")
            if target == b"/reset":
                peer.read(4)
                peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.sock.close()
            elif target == b"/wait":
                ended.append(peer.ended())

        with Script(serve_end) as script:
            gateway = self.begin(script.url)
            for opener in (Http1, Http2):
                with self.subTest(opener.__name__):
                    opened = opener(gateway.address, "/close")
                    self.assertEqual(opened.read(6), b"hello")
                    opened.close()
                    opened = opener(gateway.address, "/reset")
                    opened.send(b"now!")
                    self.assertEqual(opened.read(6), b"hello")
                    if opener is Http2:
                        self.assertEqual(opened.answer.reset, 10, "CONNECT_ERROR (RFC 9113 §8.5)")
                    opened.close()
                    before = len(ended)
                    opened = opener(gateway.address, "/wait")
                    self.assertEqual(opened.read(5), b"hello")
                    opened.close()
                    self.assertTrue(eventually(lambda: len(ended) > before), "the service was not told")


class H2c(TestCase):
    """Services that speak HTTP/2 (RFC 8441)."""

    def begin(self, server):
        return self.start(Gateway(harness.BINARY, config(service("web", url=server.url), route("/", "web"))))

    def test_the_handshake(self):
        with H2cServer() as server:
            gateway = self.begin(server)
            for opener, status, accept in ((Http1, 101, ACCEPT), (Http2, 200, None)):
                opened = opener(gateway.address, "/chat?x=1")
                self.addCleanup(opened.close)
                self.assertEqual((opened.status, opened.fields.get("sec-websocket-accept")), (status, accept))
                self.assertEqual(opened.fields.get("upgrade"), "websocket" if status == 101 else None)
                self.assertEqual(opened.fields["sec-websocket-protocol"], "a")
                head = server.seen[-1]
                expected = {
                    ":method": "CONNECT", ":protocol": "websocket", ":path": "/chat?x=1", ":scheme": "http",
                    ":authority": "demo.test", "sec-websocket-version": "13", "origin": "http://demo.test",
                }  # fmt: skip
                self.assertEqual({name: head.get(name) for name in expected}, expected)
                self.assertFalse(head.keys() & {"sec-websocket-key", "upgrade", "connection"})
                opened.send(websocket.frame(websocket.TEXT, b"hello", masked=False))
                self.assertEqual(websocket.read_frame(opened.read), (websocket.TEXT, b"hello"))
            self.assertEqual(gateway.get("/").body, b"GET", "others use the connection")

    def test_a_client_that_goes_resets_the_stream(self):
        with H2cServer() as server:
            gateway = self.begin(server)
            for opener in (Http1, Http2):
                opened, before = opener(gateway.address, "/"), len(server.resets)
                opened.send(b"x")
                self.assertEqual(opened.read(1), b"x")
                if opener is Http1:
                    opened.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                opened.close()
                self.assertTrue(eventually(lambda: len(server.resets) > before), f"{opener.__name__}: it was not told")

    def test_a_service_that_declines(self):
        with H2cServer(status="403") as server:
            gateway = self.begin(server)
            for opener in (Http1, Http2):
                opened = opener(gateway.address, "/")
                self.addCleanup(opened.close)
                self.assertEqual(opened.status, 403)

    def test_a_service_that_cannot_is_named(self):
        """RFC 8441 §3: nothing may be asked of it."""
        with H2cServer(connects=False) as server:
            gateway = self.begin(server)
            with gateway.client() as client:
                switch = [("Upgrade", "websocket"), ("Connection", "upgrade"), ("Sec-WebSocket-Key", KEY)]
                client.send_head("GET", "/", [*switch, *FIELDS])
                answer = client.head()
                answer.body = b"".join(client.body(answer))
                problem = self.assert_problem(answer, 501)
            self.assertIn("service web", problem["detail"])
            self.assertIn("SETTINGS_ENABLE_CONNECT_PROTOCOL", problem["detail"])
            opened = Http2(gateway.address, "/")
            self.addCleanup(opened.close)
            self.assertEqual(opened.status, 501)
            self.assertEqual(server.seen, [], "it was asked")
            self.assertEqual(gateway.get("/").body, b"GET")


class Use(Reloading):
    """An open socket is use of its instance; what is open is counted."""

    def metric(self, gateway, name):
        connection = Unix(gateway.folder / "admin.sock")
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name + " ")), None)

    def pid_of(self, gateway, name):
        instances = self.service(gateway, name)["instances"]
        return instances[0]["pid"] if instances else None

    def test_idle(self):
        ways = (("pipe", Http1, "http/1.1"), ("pipe", Http2, "h2"), ("http", Http1, "http/1.1"), ("http", Http2, "h2"))
        for transport, opener, protocol in ways:
            with self.subTest(f"{transport} {protocol}"):
                named = dict(argv=DEMO) if transport == "pipe" else dict(argv=MANAGED, transport="http")
                gateway = self.begin(service(**named, **CALM, idle_timeout="300ms"), route())
                opened = opener(gateway.address, "/ws")
                self.assertIn(opened.status, (101, 200))
                pid = self.pid_of(gateway, "demo")
                labels = f'{{protocol="{protocol}",transport="{transport}"}}'
                self.assertEqual(self.metric(gateway, "pilotlight_upgrades_open" + labels), 1)
                time.sleep(1.5)  # five times idle_timeout: that is what is tested
                opened.send(frame(TEXT, b"still there"))
                self.assertEqual(received(opened, 1), [echoed(TEXT, b"still there")])
                self.assertEqual(self.pid_of(gateway, "demo"), pid)
                opened.send(close(1000))
                self.assertEqual(received(opened, 1), [fails(1000)])
                opened.close()
                self.assert_eventually(lambda g=gateway: self.pid_of(g, "demo") is None, "the instance is still busy")
                self.assertEqual(self.metric(gateway, "pilotlight_upgrades_open" + labels), 0)
                self.assertEqual(self.metric(gateway, "pilotlight_upgrades_total" + labels), 1)
                info = f'pilotlight_service_info{{service="demo",transport="{transport}"}}'
                self.assertEqual(self.metric(gateway, info), 1)
                http2_requests = 1 if opener is Http2 else 0
                self.assertEqual(self.metric(gateway, "pilotlight_http2_requests_total"), http2_requests)
                self.assertEqual(self.metric(gateway, "pilotlight_http2_connections_total"), http2_requests)

    def test_a_service_over_http_is_killed(self):
        for opener in (Http1, Http2):
            with self.subTest(opener.__name__):
                gateway = self.begin(service(argv=MANAGED, transport="http", **CALM), route())
                opened = opener(gateway.address, "/")
                self.addCleanup(opened.close)
                opened.send(frame(TEXT, b"x"))
                self.assertEqual(received(opened, 1), [echoed(TEXT, b"x")])
                os.kill(self.pid_of(gateway, "demo"), signal.SIGKILL)
                self.assertEqual(opened.read(1), b"")

    def test_a_stream_of_events_ends_with_its_client(self):
        """Over the pipe: the service is told, and what it held is free."""
        gateway = self.begin(service(argv=DEMO, **CALM, idle_timeout="300ms"), route())
        for version in ("1.1", "2"):
            with self.subTest(version):
                target = "/slow?chunks=100000&ms=50"
                if version == "1.1":
                    client = gateway.client()
                    client.send_head("GET", target, [("Accept", "text/event-stream")])
                    self.assertEqual(next(client.body(client.head())), b"chunk 0\n")
                    client.close()
                else:
                    client = http2.Client(gateway.address)
                    stream = client.begin("GET", target)
                    self.assertTrue(client.until(lambda c=client, s=stream: b"chunk 1\n" in c.answers[s].body))
                    client.socket.close()
                self.assert_eventually(lambda: self.pid_of(gateway, "demo") is None, "the stream goes on")


if __name__ == "__main__":
    unittest.main()
