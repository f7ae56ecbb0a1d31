"""WebSocket and event streams over the pipe: the SDKs behind the gateway, with other people's client."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

import websocket
from harness import DEMO, HERE, PYTHON, ROOT, descendants, limits, route, service
from harness import setUpModule as needs_gateway
from programs import needs
from test_reload import Reloading
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.sync.client import connect

OLD_SDK = [PYTHON, "-B", str(HERE / "old_sdk.py")]
RUST_DEMO = ROOT / "target" / "debug" / "examples" / "demo"
WS = ROOT / "sdk" / "node" / "node_modules" / "ws"
HASKELL_DEMO = ROOT / "target" / "haskell" / "demo"
CALM = {"drain_timeout": "10s", "stop_grace": "1s"}


def setUpModule():
    needs_gateway()
    if not RUST_DEMO.exists():
        build = "cargo build -p pilotlight-pipe --examples"
        raise FileNotFoundError(f"no demo service at {RUST_DEMO}: build it with `{build}`")


class OverThePipe:
    """The same for each SDK, whose demo answers `/ws` with an echo, and `/switch` with one of bytes."""

    argv = None

    def gateway(self, *blocks, **settings):
        return self.begin(service(argv=self.argv, **CALM | settings), route(), *blocks)

    def open(self, gateway, **settings):
        opened = connect(f"ws://127.0.0.1:{gateway.address[1]}/ws", max_size=None, **{"compression": None} | settings)
        self.addCleanup(opened.socket.close)  # whatever has become of it
        return opened

    def service_pid(self, gateway):
        return json.loads(gateway.get("/pid").body)["pid"]

    def test_echo(self):
        """Kinds and sizes, fragments, pings; compression is the client's and the service's business."""
        gateway = self.gateway()
        with self.open(gateway) as opened:
            for size in (0, 1, 125, 126, 65_535, 65_536, 1 << 20, 16 << 20):
                message = os.urandom(size)
                opened.send(message)
                self.assertEqual(opened.recv(timeout=20), message, size)
            opened.send("text, ä and 🔥")
            self.assertEqual(opened.recv(timeout=5), "text, ä and 🔥")
            pieces = [os.urandom(size) for size in (1, 70_000, 0, 125)]
            opened.send(iter(pieces))
            self.assertEqual(opened.recv(timeout=5), b"".join(pieces))
            opened.send(iter(["half a 🔥 ", "and the rest"]))
            self.assertEqual(opened.recv(timeout=5), "half a 🔥 and the rest")
            self.assertTrue(opened.ping(b"there?").wait(5), "no pong")
        with self.open(gateway, compression="deflate") as opened:
            opened.send("x" * 100_000)
            self.assertEqual(opened.recv(timeout=5), "x" * 100_000)

    def test_both_ways_at_once(self):
        """Many messages are under way in each direction, more than all buffers hold."""
        count, message = 300, os.urandom(100_000)
        with self.gateway().client() as client:
            opened = websocket.Client(client, "/ws")  # one that reads while it writes
            sends = lambda: [opened.send(websocket.BINARY, message) for _ in range(count)]  # noqa: E731
            sender = threading.Thread(target=sends, daemon=True)
            sender.start()
            for number in range(count):
                self.assertEqual(opened.receive(), (websocket.BINARY, message), number)
            sender.join(5)

    def test_the_client_closes(self):
        with self.open(self.gateway()) as opened:
            opened.send("x")
            opened.recv(timeout=5)
            opened.close(4321, "enough")
            with self.assertRaises(ConnectionClosed) as closed:
                opened.recv(timeout=5)
            self.assertEqual((closed.exception.rcvd.code, closed.exception.rcvd.reason), (4321, "enough"))
            self.assertTrue(closed.exception.rcvd_then_sent is False, "the service has closed first")

    def test_the_service_closes_when_it_is_to_end(self):
        """P-43: DRAIN reaches the handler, which says so to its client; the instance ends behind that."""
        gateway = self.gateway()
        opened = self.open(gateway)
        opened.send("x")
        opened.recv(timeout=5)
        pid = self.service_pid(gateway)
        self.command(gateway, "restart", "demo")
        with self.assertRaises(ConnectionClosedOK) as closed:
            opened.recv(timeout=8)
        self.assertEqual(closed.exception.rcvd.code, 1001)
        self.assert_eventually(lambda: not os.path.exists(f"/proc/{pid}"), "the old instance stays")
        self.assertNotIn("killed", gateway.output())

    def test_the_service_is_killed(self):
        gateway = self.gateway()
        opened = self.open(gateway)
        opened.send("x")
        opened.recv(timeout=5)
        os.kill(self.service_pid(gateway), signal.SIGKILL)
        with self.assertRaises(ConnectionClosedError) as closed:
            opened.recv(timeout=8)
        self.assertIsNone(closed.exception.rcvd, "nobody has closed it in order")
        # A request that comes before the gateway has seen the end of the other socket as well is answered with an error.
        self.assert_eventually(lambda: json.loads(gateway.get("/pid").body).keys() == {"pid"}, "nothing answers")

    def test_the_client_is_gone(self):
        """Without a Close. The handler notices, and what it held is free: the instance becomes idle."""
        gateway = self.gateway(idle_timeout="300ms")
        opened = self.open(gateway)
        opened.send("x")
        opened.recv(timeout=5)
        pid = self.service_pid(gateway)
        opened.socket.shutdown(socket.SHUT_RDWR)
        opened.socket.close()
        self.assert_eventually(lambda: not os.path.exists(f"/proc/{pid}"), "the instance is still busy")

    def test_an_open_socket_is_use(self):
        """P-42: idle_timeout does not run while one is open, however quiet."""
        gateway = self.gateway(idle_timeout="300ms")
        pid = self.service_pid(gateway)
        opened = self.open(gateway)
        pid = self.service_pid(gateway)
        time.sleep(1.5)  # five times idle_timeout: that is what is tested
        opened.send("still there")
        self.assertEqual(opened.recv(timeout=5), "still there")
        self.assertTrue(os.path.exists(f"/proc/{pid}"))
        opened.close()
        self.assert_eventually(lambda: not os.path.exists(f"/proc/{pid}"), "the instance is still busy")

    def test_more_sockets_than_own_connections(self):
        """P-42: 64 own connections are the SDKs' default."""
        gateway = self.gateway()
        all_open = [self.open(gateway) for _ in range(100)]
        for number, opened in enumerate(all_open):
            opened.send(str(number))
        self.assertEqual([opened.recv(timeout=10) for opened in all_open], [str(number) for number in range(100)])
        self.assertEqual(gateway.request("POST", "/upload", body=b"x" * 100_000).status, 200)

    def test_the_gateway_stops(self):
        gateway = self.gateway(limits(shutdown_timeout="1s"))
        opened = self.open(gateway)
        opened.send("x")
        opened.recv(timeout=5)
        begun = descendants(gateway.process.pid)
        self.assertTrue(begun)
        gateway.signal(signal.SIGTERM)
        with self.assertRaises(ConnectionClosed):
            opened.recv(timeout=10)
        self.assertEqual(gateway.wait(14), 0)

    def test_declined(self):
        gateway = self.gateway()
        with self.assertRaises(InvalidStatus) as refused:
            connect(f"ws://127.0.0.1:{gateway.address[1]}/nothing-here")
        self.assertEqual(refused.exception.response.status_code, 404)
        self.assertEqual(gateway.get("/ws").status, 426)
        self.assertEqual(gateway.get("/switch").status, 426)

    def test_half_closed(self):
        """P-41: the end of one direction is passed on behind what came before it."""
        gateway = self.begin(service(argv=self.argv, **CALM), route(upgrades=["echo"]))
        with gateway.client() as client:
            client.send_head("GET", "/switch", [("Upgrade", "echo"), ("Connection", "upgrade")])
            self.assertEqual((client.head().status), 101)
            data = os.urandom(500_000)
            sender = threading.Thread(target=lambda: (client.send(data), client.shut()), daemon=True)
            sender.start()
            self.assertEqual(client.read(len(data)), data)
            self.assertTrue(client.ended())

    def test_events_are_not_held_back(self):
        """Each event of a stream is with the client before the next one is made."""
        gateway = self.gateway()
        with gateway.client() as client:
            client.send_head("GET", "/slow?chunks=3&ms=1500", [("Accept", "text/event-stream")])
            pieces, begun = client.body(client.head()), time.monotonic()
            self.assertEqual(next(pieces), b"chunk 0\n")
            self.assertLess(time.monotonic() - begun, 1.4, "it came with the next one")
            self.assertEqual(next(pieces), b"chunk 1\n")
            self.assertEqual(next(pieces), b"chunk 2\n")


class Python(OverThePipe, Reloading):
    argv = DEMO

    def test_a_client_that_breaks_rules_is_told(self):
        """RFC 6455 §7.4.1, by `pilotlight.websocket`."""
        gateway = self.gateway()
        for frame, code in (
            (b"\x81\x01x", 1002),  # not masked
            (b"\xc1\x80\0\0\0\0", 1002),  # a reserved bit
            (b"\x83\x80\0\0\0\0", 1002),  # a reserved opcode
            (b"\x80\x80\0\0\0\0", 1002),  # a continuation of nothing
            (b"\x09\x80\0\0\0\0", 1002),  # a ping in fragments
            (b"\x01\x80\0\0\0\0\x81\x80\0\0\0\0", 1002),  # a message within a message
            (b"\x81\x82\0\0\0\0\xff\xff", 1007),  # not UTF-8
            (b"\x82\xff\0\0\0\0\x10\0\0\0\0\0\0\0", 1009),  # 256 MiB
            (b"\x88\x81\0\0\0\0x", 1002),  # half a code
            (b"\x88\x82\0\0\0\0\x03\xed", 1002),  # 1005 is for nobody's wire
            (b"\x88\x84\0\0\0\0\x03\xe8\xff\xff", 1007),  # a reason that is not UTF-8
        ):
            with self.subTest(frame), gateway.client(timeout=5) as client:
                client.send_head("GET", "/ws", HANDSHAKE)
                self.assertEqual(client.head().status, 101)
                client.send(frame)
                first, size = client.read(2)
                self.assertEqual(first, 0x88)
                self.assertEqual(int.from_bytes(client.read(size)[:2], "big"), code)
        for wrong in ("8", ""):
            fields = [field for field in HANDSHAKE if field[0] != "Sec-WebSocket-Version"]
            answer = gateway.get("/ws", fields + [("Sec-WebSocket-Version", wrong)] * bool(wrong))
            self.assertEqual((answer.status, answer.get("sec-websocket-version")), (426, "13"))

    def test_an_old_sdk_is_not_affected(self):
        """P-37: minor version 0. The request comes without its Upgrade; its client gets what the service answers."""
        gateway = self.begin(service(argv=OLD_SDK, **CALM), route())
        answer = gateway.get("/old", HANDSHAKE)
        self.assertEqual((answer.status, answer.get("upgrade"), answer.body), (200, None, b"no upgrade, no connection"))
        answers = [gateway.request("POST", "/old", body=b"x" * size).status for size in (0, 10, 200_000)]
        self.assertEqual(answers, [200] * 3)


class Asgi(OverThePipe, Reloading):
    argv = [PYTHON, "-B", str(ROOT / "sdk" / "python" / "demo_asgi.py")]

    test_a_client_that_breaks_rules_is_told = Python.test_a_client_that_breaks_rules_is_told


@unittest.skipUnless(WS.exists(), "ws (npm, for sdk/node) is not installed")
class Node(OverThePipe, Reloading):
    argv = ["node", str(ROOT / "sdk" / "node" / "demo.js")]


class Rust(OverThePipe, Reloading):
    argv = [str(RUST_DEMO)]


@needs("ruby")
class Ruby(OverThePipe, Reloading):
    argv = ["ruby", str(ROOT / "sdk" / "ruby" / "demo.rb")]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if subprocess.run(["ruby", "-e", 'require "websocket/driver"'], capture_output=True).returncode:
            raise unittest.SkipTest("websocket-driver of Ruby is not installed")


@unittest.skipUnless(HASKELL_DEMO.exists(), "the demo in Haskell (sdk/haskell/build.sh) is not installed")
class Haskell(OverThePipe, Reloading):
    argv = [str(HASKELL_DEMO)]


HANDSHAKE = [
    ("Upgrade", "websocket"), ("Connection", "Upgrade"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13"),
]  # fmt: skip
