"""TLS at the listeners, with OpenSSL (Python's ssl, s_client) and curl as clients (issue 17, number 1)."""

import base64
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import threading
import unittest
from pathlib import Path

import websocket
from certificates import RSA, Authority
from harness import BINARY, ORIGIN, Gateway, config, limits, route, service, setUpModule
from harness import TestCase as Case
from http1 import Client, Cut
from programs import program
from test_access import Decider
from test_operate import ADMIN, Unix

__all__ = ["setUpModule"]

ADDRESS = re.compile(r"listening on https://([0-9.]+):(\d+)")
BOTH = ("127.0.0.1:0", "https://127.0.0.1:0")
WEB = service("web", ORIGIN, transport="http"), route("/", "web", https="allow")
CACHED = service("web", ORIGIN, transport="http"), route("/", "web", cache=True, https="allow")


class SecureClient(Client):
    """The same over a socket with TLS."""

    def __init__(self, sock, timeout=20.0):  # not by address: the handshake is the test's business
        self._sock, self._timeout, self._inbox = sock, timeout, bytearray()


class ByHand:
    """TLS of a client without a socket."""

    def __init__(self, context):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="demo.test")

    def step(self, received=b""):
        """Goes on with the handshake; whether it is over."""
        self.incoming.write(received)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def seal(self, plain, is_end=False):
        self._tls.write(plain)
        if is_end:
            with contextlib.suppress(ssl.SSLWantReadError):  # ours is said, theirs not yet
                self._tls.unwrap()
        return self.outgoing.read()

    def open(self, received):
        self.incoming.write(received)
        plain = b""
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while piece := self._tls.read(65_536):
                plain += piece
        return plain


def secured(*blocks, tls="", listen=BOTH, names=("demo.test",), issue=None, **settings):
    """A gateway with a plain listener and one with TLS, and the authority of its certificate, which is for `names`.

    `issue(authority)` issues other certificates, for `tls`.
    """
    gateway = Gateway(BINARY, "")
    authority = Authority(gateway.folder)
    issue(authority) if issue else authority.issue(*names, file="server")
    tls = tls or 'certificates = { certificate = "server.pem", key = "server.key" }'
    gateway._config = config(*blocks, f"[tls]\n{tls}\n", listen=list(listen), **settings)
    return gateway, authority


class Tls(Case):
    def setUp(self):
        super().setUp()
        for gateway in self._shared:
            self.addCleanup(self.assert_no_bug, gateway)

    @classmethod
    def share_secured(cls, *blocks):
        gateway, cls.authority = secured(*blocks)
        cls.gateway = cls.share(gateway)

    def begin(self, *blocks, **settings):
        gateway, self.authority = secured(*blocks, **settings)
        self.start(gateway)
        self.addCleanup(self.assert_no_bug, gateway)
        return gateway

    def assert_no_bug(self, gateway):
        self.assertNotIn("bug of Pilotlight", gateway.output())

    def address(self, gateway):
        host, port = self.find_output(gateway, ADDRESS).groups()
        return host, int(port)

    def context(self, version=None, **settings):
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if version:
            context.minimum_version = context.maximum_version = version
        for name, value in settings.items():
            setattr(context, name, value)
        return context

    def socket(self, gateway, context=None, name="demo.test", session=None, timeout=20.0):
        plain = socket.create_connection(self.address(gateway), timeout=timeout)
        self.addCleanup(plain.close)
        # Else the request waits for the ACK of the end of the handshake, up to 40 ms.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secure = (context or self.context()).wrap_socket(plain, server_hostname=name, session=session)
        self.addCleanup(secure.close)
        return secure

    def secure(self, gateway, *arguments, **named):
        return SecureClient(self.socket(gateway, *arguments, **named))

    def get(self, gateway, target="/show", fields=(), **named):
        return self.secure(gateway, **named).request("GET", target, fields)

    def curl(self, gateway, *arguments, host="demo.test", target="/show", code=0):
        port = self.address(gateway)[1]
        command = [program("curl"), "-sS", "--max-time", "20", "--cacert", self.authority.certificate]
        command += ["--connect-to", f"::127.0.0.1:{port}", *arguments, f"https://{host}:{port}{target}"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def by_hand(self, gateway, ahead=b"", split=0):
        """A socket behind a handshake, with what is `ahead` of its hello, and what seals and opens its bytes."""
        secure = ByHand(self.context())
        connection = socket.create_connection(self.address(gateway), timeout=20)
        self.addCleanup(connection.close)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secure.step()
        first = ahead + secure.outgoing.read()
        connection.sendall(first[:split])
        connection.sendall(first[split:])
        while not secure.step(connection.recv(65_536)):
            connection.sendall(secure.outgoing.read())
        connection.sendall(secure.outgoing.read())
        return connection, secure


def serial(number):
    """The body of an answer to order."""
    return b"serial %d for nobody  0" % number


def name_of(secure):
    """The first name of the server's certificate."""
    return secure.getpeercert()["subjectAltName"][0][1]


class Handshakes(Tls):
    @classmethod
    def setUpClass(cls):
        cls.share_secured(*WEB)

    def test_both_versions_and_curl(self):
        gateway = self.gateway
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            secure = self.socket(gateway, self.context(version))
            self.assertEqual(secure.version(), version.name.replace("v1_", "v1."))
            self.assert_status(SecureClient(secure).request("GET", "/show"), 200)
        self.assertIn("127.0.0.1", self.curl(gateway))
        self.assertIn("127.0.0.1", self.curl(gateway, "--tls-max", "1.2"))

    def test_alpn(self):
        gateway = self.gateway
        for offered, agreed in ((["http/1.1"], "http/1.1"), (["http/1.1", "h2"], "h2")):
            context = self.context()
            context.set_alpn_protocols(offered)
            self.assertEqual(self.socket(gateway, context).selected_alpn_protocol(), agreed)
        self.assertIsNone(self.socket(gateway).selected_alpn_protocol())
        for flag, version in (("--http1.1", "1.1"), ("--http2", "2")):
            said = self.curl(gateway, flag, "-o", gateway.folder / "body", "-w", "%{http_version}")
            self.assertEqual(said, version)
            fields = json.loads((gateway.folder / "body").read_text())["fields"]
            self.assertIn(["x-forwarded-proto", "https"], [[name.lower(), value] for name, value in fields])

    def test_plain_http_is_told_what_is_wrong(self):
        gateway = self.gateway
        with Client(self.address(gateway)) as client:
            answer = client.request("GET", "/show")
            self.assertIn("https://", self.assert_problem(answer, 400)["detail"])
        garbage = socket.create_connection(self.address(gateway), timeout=20)
        self.addCleanup(garbage.close)
        garbage.sendall(b"\x00" * 100)
        while garbage.recv(100):  # an alert, then the end
            pass

    def test_plain_http_is_told_in_the_middle_of_its_body(self):
        """Closed with bytes unread the connection would be reset, and the answer lost with it."""
        gateway = self.gateway
        with Client(self.address(gateway)) as client:
            body = bytes(3_000_000)
            client.send(b"POST /show HTTP/1.1\r\nHost: demo.test\r\nContent-Length: %d\r\n\r\n" % len(body))
            client.send(body)
            self.assertIn("https://", self.assert_problem(client.answer("POST"), 400)["detail"])
            self.assertTrue(client.ended())

    def test_tls_to_the_plain_port_is_refused(self):
        gateway = self.gateway
        plain = socket.create_connection(gateway.address, timeout=20)
        self.addCleanup(plain.close)
        with self.assertRaises(ssl.SSLError):
            self.context().wrap_socket(plain, server_hostname="demo.test")


class HandshakeSettings(Tls):
    """Each with its own configuration, or its own load."""

    def test_the_least_version(self):
        pair = '{ certificate = "server.pem", key = "server.key" }'
        gateway = self.begin(*WEB, tls=f'certificates = {pair}\nmin_version = "1.3"')
        self.assertEqual(self.socket(gateway).version(), "TLSv1.3")
        with self.assertRaises(ssl.SSLError):
            self.socket(gateway, self.context(ssl.TLSVersion.TLSv1_2))

    def test_names(self):
        gateway = Gateway(BINARY, "")
        self.authority = Authority(gateway.folder)
        pairs = []
        for names in (["first.test"], ["*.example.test"], ["www.example.test", "other.test"]):
            pairs.append(self.authority.issue(*names))
        listed = ", ".join(f'{{ certificate = "{cert}", key = "{key}" }}' for cert, key in pairs)
        gateway._config = config(*WEB, f"[tls]\ncertificates = [{listed}]\n", listen=BOTH)
        self.start(gateway)
        context = self.context(check_hostname=False)
        for name, expected in (
            ("www.example.test", "www.example.test"),
            ("WWW.example.test", "www.example.test"),
            ("any.example.test", "*.example.test"),
            ("other.test", "www.example.test"),
            ("a.any.example.test", "first.test"),
            ("unknown.test", "first.test"),
            (None, "first.test"),
        ):
            self.assertEqual(name_of(self.socket(gateway, context, name)), expected, name)

    def test_ecdsa_for_those_who_can_and_rsa_for_the_others(self):
        gateway = Gateway(BINARY, "")
        self.authority = Authority(gateway.folder)
        self.authority.issue("demo.test", file="rsa", kind=RSA)
        self.authority.issue("demo.test", file="ec")
        listed = ", ".join(f'{{ certificate = "{name}.pem", key = "{name}.key" }}' for name in ("rsa", "ec"))
        gateway._config = config(*WEB, f"[tls]\ncertificates = [{listed}]\n", listen=BOTH)
        self.start(gateway)
        for ciphers, expected in (("ECDHE-RSA-AES128-GCM-SHA256", "RSA"), ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDSA")):
            context = self.context(ssl.TLSVersion.TLSv1_2)
            context.set_ciphers(ciphers)
            self.assertIn(expected, self.socket(gateway, context).cipher()[0])
        for algorithms, expected in (("RSA-PSS+SHA256", "RSA-PSS"), ("ECDSA+SHA256:RSA-PSS+SHA256", "ECDSA")):
            said = self.s_client(gateway, "-tls1_3", "-sigalgs", algorithms)
            self.assertIn(f"Peer signature type: {expected}", said)

    def s_client(self, gateway, *arguments, send=""):
        host, port = self.address(gateway)
        command = [program("openssl"), "s_client", "-connect", f"{host}:{port}", "-servername", "demo.test", *arguments]
        done = subprocess.run(command, input=send, capture_output=True, text=True, timeout=30)
        return done.stdout + done.stderr

    def test_a_session_is_resumed_at_every_worker(self):
        gateway = self.begin(*WEB, workers=4)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(version)
            first = self.socket(gateway, context)
            SecureClient(first).request("GET", "/show")  # a ticket of 1.3 comes with the answer
            reused = 0
            for _ in range(24):  # each goes to a worker of the system's choice
                again = self.socket(gateway, context, session=first.session)
                self.assert_status(SecureClient(again).request("GET", "/show"), 200)
                reused += again.session_reused
            self.assertEqual(reused, 24)

    def test_a_session_is_resumed_after_an_upgrade(self):
        gateway = self.begin(*WEB, '[admin]\nsocket = "admin.sock"\n')
        first = self.socket(gateway, context := self.context())
        SecureClient(first).request("GET", "/show")
        old = gateway.process
        command = [BINARY, "upgrade", "--json", "--socket", gateway.folder / "admin.sock"]
        told, session = json.loads(subprocess.check_output(command)), first.session
        self.addCleanup(lambda: os.kill(told["pid"], signal.SIGTERM))
        first.close()
        self.assertEqual(old.wait(20), 0)
        again = self.socket(gateway, context, session=session)
        self.assertTrue(again.session_reused)
        self.assert_status(SecureClient(again).request("GET", "/show"), 200)

    def test_a_handshake_that_takes_too_long_is_ended(self):
        gateway = self.begin(*WEB, limits(handshake_timeout="1s"))
        for begin in (b"", b"\x16\x03\x01\x02\x00\x01"):
            silent = socket.create_connection(self.address(gateway), timeout=20)
            self.addCleanup(silent.close)
            silent.sendall(begin)
            self.assertEqual(silent.recv(100), b"")
        self.assert_status(self.get(gateway), 200)

    def test_handshakes_are_bounded_and_those_beyond_wait(self):
        gateway = self.begin(*WEB, limits(handshakes=1, handshake_timeout="2s"), workers=1)
        silent = [socket.create_connection(self.address(gateway), timeout=20) for _ in range(3)]
        for one in silent:
            self.addCleanup(one.close)
        self.assert_status(self.get(gateway), 200)
        self.assertEqual([self.is_closed(one) for one in silent], [True] * 3, "it did not wait for its place")

    def test_those_who_say_nothing_do_not_keep_all_places(self):
        gateway = self.begin(*WEB, limits(handshakes=4, handshake_timeout="5m"), workers=1)
        silent = [socket.create_connection(self.address(gateway), timeout=20) for _ in range(6)]
        for one in silent:
            self.addCleanup(one.close)
        for _ in range(3):
            self.assert_status(self.get(gateway), 200)
        closed = lambda: [self.is_closed(one) for one in silent]  # noqa: E731
        self.assert_eventually(lambda: closed() == [False] * 2 + [True] * 4, "other ones than those of the crowd")

    def is_closed(self, sock):
        sock.setblocking(False)
        try:
            return sock.recv(1) == b""
        except BlockingIOError:
            return False

    def test_an_open_connection_is_served_while_others_flood(self):
        gateway = self.begin(*WEB, workers=1)
        client, over = self.secure(gateway), threading.Event()
        context = self.context()

        def flood():
            while not over.is_set():
                try:
                    plain = socket.create_connection(self.address(gateway), timeout=20)
                    with plain, context.wrap_socket(plain, server_hostname="demo.test"):
                        pass
                except OSError:
                    pass

        threads = [threading.Thread(target=flood) for _ in range(8)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(50):
                self.assert_status(client.request("GET", "/show"), 200)
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def test_a_proxy_header_that_is_not_believed_is_named_in_the_log(self):
        gateway = self.begin(*WEB)
        line = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n"
        binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12)
        for begin in (line, binary):
            with Client(self.address(gateway)) as client:
                client.send(begin)
                self.assertTrue(client.ended())
        said = "a client sends a header of the PROXY protocol, and is not believed"
        self.assert_eventually(lambda: said in gateway.output(), "nothing is said of it")

    def test_a_proxy_header_that_is_believed_stands_before_the_handshake(self):
        gateway = self.begin(*WEB, proxy_protocol=["127.0.0.1"])
        for split in (0, 20):  # the hello comes in one piece with the header, and behind it
            connection, secure = self.by_hand(gateway, b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n", split)
            connection.sendall(secure.seal(b"GET /show HTTP/1.1\r\nHost: demo.test\r\nConnection: close\r\n\r\n"))
            answer = secure.open(b"".join(iter(lambda: connection.recv(65_536), b"")))
            self.assertIn(b'["x-forwarded-for", "192.0.2.7"]', answer)


class Http(Tls):
    @classmethod
    def setUpClass(cls):
        web = {"service": "web", "https": "allow"}
        upgraded = route("/upgraded", upgrades=["websocket"], **web)
        cls.share_secured(*WEB, route("/cached", cache=True, **web), upgraded)

    def test_services_are_told_the_scheme(self):
        gateway = self.gateway
        fields = {name.lower(): value for name, value in self.assert_json(self.get(gateway))["fields"]}
        self.assertEqual(fields["x-forwarded-proto"], "https")
        self.assertIn("proto=https", fields["forwarded"])
        fields = {name.lower(): value for name, value in self.assert_json(gateway.get("/show"))["fields"]}
        self.assertEqual(fields["x-forwarded-proto"], "http")

    def test_what_is_stored_belongs_to_its_scheme(self):
        gateway = self.gateway
        target = "/cached/make?h=cache-control:max-age=60&of=scheme"
        client = self.secure(gateway)
        stored = [client.request("GET", target).body for _ in range(3)]
        self.assertEqual(set(stored), {serial(1)})
        plain = [gateway.get(target).body for _ in range(2)]
        self.assertEqual(set(plain), {serial(2)})
        self.assertIn("hit", client.request("GET", target).get("cache-status"))

    def test_keep_alive_and_pipelining(self):
        gateway = self.gateway
        client = self.secure(gateway)
        target = "/cached/make?h=cache-control:max-age=60&of=pipelining"
        client.request("GET", target)
        count = 200
        client.send(f"GET {target} HTTP/1.1\r\nHost: demo.test\r\n\r\n".encode() * count)
        self.assertEqual([client.answer().body for _ in range(count)], [serial(1)] * count)
        self.assert_status(client.request("GET", "/show"), 200)

    def test_uploads(self):
        gateway = self.gateway
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            client = self.secure(gateway, self.context(version))
            body = os.urandom(3_000_001)
            known = self.assert_json(client.request("POST", "/upload", body=body))
            client.send_head("POST", "/upload", [("Transfer-Encoding", "chunked")])
            for at in range(0, len(body), 70_001):
                client.send_chunk(body[at : at + 70_001])
            client.end_chunks()
            chunked = self.assert_json(client.answer("POST"))
            for told in (known, chunked):
                self.assertEqual((told["bytes"], told["sha256"]), (len(body), hashlib.sha256(body).hexdigest()))

    def test_large_answers(self):
        gateway = self.gateway
        client = self.secure(gateway)
        for size in (1, 16_383, 16_384, 16_385, 65_537, 5_000_000):
            self.assertEqual(client.request("GET", f"/blob?bytes={size}").body, random.Random(1).randbytes(size))
        self.assertEqual(len(client.request("GET", "/tiny?bytes=100000").body), 100_000)

    def test_a_reader_of_small_pieces_gets_everything(self):
        """What it has not taken waits encrypted, chunks of a length and without."""
        gateway = self.gateway
        for target in ("/blob?bytes=3000000", "/print?bytes=0", "/stream?chunks=3"):
            secure = self.socket(gateway)
            secure.sendall(f"GET {target} HTTP/1.1\r\nHost: demo.test\r\nConnection: close\r\n\r\n".encode())
            received = bytearray()
            while piece := secure.recv(1000):
                received += piece
            self.assertTrue(received.startswith(b"HTTP/1.1 200"), received[:100])
            if target.startswith("/blob"):
                self.assertTrue(received.endswith(random.Random(1).randbytes(3_000_000)))

    def test_the_end_is_said(self):
        gateway = self.gateway
        secure = self.socket(gateway, self.context(), timeout=20)
        secure.suppress_ragged_eofs = False
        secure.sendall(b"GET /show HTTP/1.1\r\nHost: demo.test\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := secure.recv(65_536):  # an end without close_notify raises
            received += piece
        self.assertTrue(received.startswith(b"HTTP/1.1 200"))

    def test_half_closed(self):
        gateway = self.gateway
        secure = self.socket(gateway)
        secure.sendall(b"GET /make?ms=300&of=half HTTP/1.1\r\nHost: demo.test\r\n\r\n")
        socket.socket.shutdown(secure, socket.SHUT_WR)  # of TCP, as a client that has gone may
        self.assertEqual(SecureClient(secure).answer().body, serial(1))

    def test_a_client_that_says_its_end_is_still_answered(self):
        """RFC 8446 §6.1: close_notify ends one direction."""
        gateway = self.gateway
        connection, secure = self.by_hand(gateway)
        connection.sendall(secure.seal(b"GET /make?ms=300&of=end HTTP/1.1\r\nHost: demo.test\r\n\r\n", is_end=True))
        answer = secure.open(b"".join(iter(lambda: connection.recv(65_536), b"")))
        self.assertTrue(answer.endswith(serial(1)), answer)

    def test_websocket(self):
        gateway = self.gateway
        secure = self.socket(gateway)
        client = SecureClient(secure)
        key = base64.b64encode(os.urandom(16)).decode()
        fields = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", key)]
        client.send_head("GET", "/upgraded/ws", [*fields, ("Sec-WebSocket-Version", "13")])
        answer = client.head()
        self.assert_status(answer, 101)
        self.assertEqual(answer.get("sec-websocket-accept"), websocket.accept(key))
        read = secure.makefile("rb").read
        for size in (1, 1000, 200_000):
            payload = os.urandom(size)
            secure.sendall(websocket.frame(websocket.BINARY, payload, True))
            self.assertEqual(websocket.read_frame(read), (websocket.BINARY, payload))

    def test_records_of_one_byte(self):
        gateway = self.gateway
        secure = self.socket(gateway)
        for byte in b"GET /make?of=records HTTP/1.1\r\nHost: demo.test\r\n\r\n":
            secure.sendall(bytes([byte]))
        self.assertEqual(SecureClient(secure).answer().body, serial(1))

    def test_bytes_one_by_one_below_tls(self):
        """The bytes of the handshake and of the records come in as many reads as there can be."""
        gateway = self.gateway
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        secure = self.context().wrap_bio(incoming, outgoing, server_hostname="demo.test")
        plain = socket.create_connection(self.address(gateway), timeout=20)
        self.addCleanup(plain.close)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def until(done):
            while True:
                try:
                    return done()
                except ssl.SSLWantReadError:
                    for byte in outgoing.read():
                        plain.sendall(bytes([byte]))
                    incoming.write(plain.recv(65_536))

        until(secure.do_handshake)
        secure.write(b"GET /make HTTP/1.1\r\nHost: demo.test\r\n\r\n")
        self.assertTrue(until(lambda: secure.read(65_536)).startswith(b"HTTP/1.1 200"))


class HttpSettings(Tls):
    def test_the_access_log_has_the_scheme(self):
        log = '[access_log]\npath = "access.log"\nfields = ["scheme", "status"]\n'
        gateway = self.begin(*CACHED, log)
        target = "/make?h=cache-control:max-age=60"
        for _ in range(2):
            self.get(gateway, target)
            gateway.get(target)
        path = gateway.folder / "access.log"
        self.assert_eventually(lambda: path.exists() and path.read_text().count("\n") == 4, "four lines")
        schemes = [json.loads(line)["scheme"] for line in path.read_text().splitlines()]
        self.assertEqual(sorted(schemes), ["http", "http", "https", "https"])

    def test_a_client_that_takes_nothing_is_cut(self):
        gateway = self.begin(*WEB, limits(body_timeout="1s"), ADMIN)
        stuck = self.socket(gateway)
        stuck.sendall(b"GET /large?bytes=60000000 HTTP/1.1\r\nHost: demo.test\r\n\r\n")
        self.assert_eventually(lambda: self.connections(gateway) == 0, "the connection stays open")

    def test_a_slow_head_is_answered(self):
        gateway = self.begin(*WEB, limits(header_timeout="1s"))
        client = self.secure(gateway)
        client.send(b"GET / HTTP/1.1\r\nHost:")
        self.assert_problem(client.answer(), 408)

    def test_an_answer_that_is_cut_has_no_end(self):
        gateway = self.begin(*WEB, limits(response_body_timeout="1s"))
        secure = self.socket(gateway)
        secure.suppress_ragged_eofs = False
        secure.sendall(b"GET /stream?chunks=2&ms=20000 HTTP/1.0\r\nHost: demo.test\r\n\r\n")
        with self.assertRaises((ssl.SSLEOFError, ConnectionResetError)):
            while secure.recv(65_536):
                pass

    def connections(self, gateway):
        with contextlib.closing(Unix(gateway.folder / "admin.sock")) as connection:
            connection.request("GET", "/status")
            told = json.loads(connection.getresponse().read())["gateway"]
        return told["connections_open"] if told["connections"] else -1


class Redirects(Tls):
    def location(self, answer):
        self.assert_status(answer, 308)
        return answer.get("location")

    def test_plain_http_goes_to_https_where_a_certificate_names_the_host(self):
        gateway = self.begin(
            service("web", ORIGIN, transport="http"),
            route("/", "web", cache=True),
            route("/open", "web", https="allow", strip_prefix=True),
            names=("demo.test", "*.star.test"),
        )
        port = self.address(gateway)[1]
        target = "/make?h=cache-control:max-age=60&x=%2F"
        self.assertEqual(self.location(gateway.get(target)), f"https://demo.test:{port}{target}")
        self.assertEqual(self.location(gateway.get("/", host="Any.star.test:80")), f"https://Any.star.test:{port}/")
        self.assertEqual(self.location(gateway.request("POST", "/x", body=b"1")), f"https://demo.test:{port}/x")
        self.assert_status(gateway.get(target, host="other.test"), 200)
        self.assert_status(gateway.get("/open/show"), 200)
        with gateway.client() as client:  # what is stored for another host is no way around it
            self.assertEqual([client.request("GET", target, host="other.test").status for _ in range(2)], [200, 200])
            self.assertEqual([client.request("GET", target).status for _ in range(2)], [308, 308])
            self.assertEqual([client.request("GET", "/open" + target).status for _ in range(2)], [200, 200])
        self.assert_status(self.get(gateway, target), 200)
        self.assertEqual(self.curl(gateway, "-L", "-o", gateway.folder / "body", "-w", "%{http_code}"), "200")

    def test_commands_know_it(self):
        gateway = self.begin(*CACHED[:1], route("/", "web"), '[admin]\nsocket = "admin.sock"\n')
        port = self.address(gateway)[1]

        def said(*arguments):
            command = [BINARY, *arguments, "--socket", gateway.folder / "admin.sock"]
            return subprocess.check_output(command, text=True)

        self.assertIn(f"https://demo.test:{port}/x?y (308)", said("explain", "http://demo.test/x?y"))
        for url in (f"https://demo.test:{port}/x", "http://other.test/x"):
            self.assertNotIn("308", said("explain", url))
        self.get(gateway)
        self.assertRegex(said("status"), r"tls 1 certificate, demo\.test ends in \d+ days")
        tls = json.loads(said("status", "--json"))["tls"]
        self.assertEqual((tls["handshakes"]["full"], tls["certificates"][0]["names"]), (1, ["demo.test"]))
        command = [program("curl"), "-sS", "--unix-socket", gateway.folder / "admin.sock", "http://localhost/metrics"]
        metrics = subprocess.check_output(command, text=True)
        self.assertIn('pilotlight_tls_handshakes_total{result="full"} 1', metrics)
        self.assertRegex(metrics, r'pilotlight_tls_certificate_end_seconds\{name="demo.test"\} \d+')

    def test_always_and_behind_a_proxy(self):
        web = service("web", ORIGIN, transport="http"), route("/", "web", cache=True, https="redirect")
        gateway = self.start(Gateway(BINARY, config(*web, trust_forwarded=True)))
        target = "/make?h=cache-control:max-age=60"
        for _ in range(2):
            self.assertEqual(self.location(gateway.get(target)), f"https://demo.test{target}")
            self.assert_status(gateway.get(target, [("X-Forwarded-Proto", "https")]), 200)

    def test_strict_transport_security(self):
        gateway = self.begin(
            service("web", ORIGIN, transport="http"),
            route("/", "web", cache=True, hsts="180d", https="allow"),
            route("/none", "web", https="allow"),
        )
        target = "/make?h=cache-control:max-age=60"
        client = self.secure(gateway)
        for answer in (client.request("GET", target), client.request("GET", target), client.request("GET", "/show")):
            self.assertEqual(answer.all("strict-transport-security"), ["max-age=15552000"])
        self.assertIn("hit", client.request("GET", target).get("cache-status"))
        self.assertEqual(client.request("GET", "/none").all("strict-transport-security"), [])
        for _ in range(2):
            self.assertEqual(gateway.get(target).all("strict-transport-security"), [])


class Changes(Tls):
    def test_a_file_that_is_replaced_counts_for_new_connections(self):
        gateway = self.begin(*WEB)
        open_one, number = self.socket(gateway), lambda: self.socket(gateway).getpeercert()["serialNumber"]
        first = number()
        self.authority.issue("demo.test", file="server")
        self.assert_eventually(lambda: number() != first, "the new certificate is not used", 20)
        second = number()
        (gateway.folder / "server.pem").write_text("broken")
        self.assert_eventually(lambda: "cannot be used" in gateway.output(), "nothing is said of it", 20)
        self.assertEqual(number(), second)
        self.assert_logged(gateway, "there is no certificate in it")
        self.assert_status(SecureClient(open_one).request("GET", "/show"), 200)

    def test_a_reload_changes_certificates_and_listeners(self):
        gateway = self.begin(*WEB, '[admin]\nsocket = "admin.sock"\n')
        client = self.secure(gateway)
        self.assert_status(client.request("GET", "/show"), 200)
        self.authority.issue("new.test", file="new")
        file = gateway.folder / "pilotlight.toml"
        good = file.read_text()

        def reload(text, code=0):
            file.write_text(text)
            done = subprocess.run([BINARY, "reload"], cwd=gateway.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode == 0, code == 0, done.stdout + done.stderr)
            return done.stdout + done.stderr

        self.assertIn("missing.pem", reload(good.replace("server.pem", "missing.pem"), code=1))
        self.assertEqual(name_of(self.socket(gateway)), "demo.test")
        reload(good.replace("server.", "new."))
        self.assertEqual(name_of(self.socket(gateway, name="new.test")), "new.test")
        self.assert_status(client.request("GET", "/show"), 200)

    def test_a_port_changes_between_plain_and_tls(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        gateway = self.begin(*WEB, listen=("127.0.0.1:0", f"http://127.0.0.1:{port}"))
        with Client(("127.0.0.1", port)) as client:
            self.assert_status(client.request("GET", "/show"), 200)
        file = gateway.folder / "pilotlight.toml"
        file.write_text(file.read_text().replace(f"http://127.0.0.1:{port}", f"https://127.0.0.1:{port}"))
        subprocess.run([BINARY, "reload"], cwd=gateway.folder, check=True, capture_output=True)
        plain = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.addCleanup(plain.close)
        with self.context().wrap_socket(plain, server_hostname="demo.test") as secure:
            self.assert_status(SecureClient(secure).request("GET", "/show"), 200)

    def test_check_names_every_mistake_with_its_place(self):
        gateway = self.begin(*WEB)
        folder = gateway.folder
        self.authority.issue("other.test", file="other")
        self.authority.issue("late.test", file="late")
        command = [program("openssl"), "pkey", "-in", folder / "other.key", "-aes256", "-passout", "pass:x"]
        (folder / "encrypted.key").write_bytes(subprocess.check_output(command))
        os.chmod(folder / "encrypted.key", 0o600)

        def check(certificate, key, expected, extra=""):
            text = f'[tls]\ncertificates = {{ certificate = "{certificate}", key = "{key}" }}\n{extra}'
            (folder / "checked.toml").write_text(config(*WEB, text, listen=["https://127.0.0.1:0"]))
            command = [BINARY, "check", "--config", folder / "checked.toml"]
            done = subprocess.run(command, capture_output=True, text=True)
            said = done.stdout + done.stderr
            self.assertIn(expected, said)
            self.assertEqual(done.returncode, 0 if expected == "is valid" else 2, said)
            return said

        check("server.pem", "server.key", "is valid")
        check("server.pem", "other.key", "does not belong to the certificate in")
        check("missing.pem", "server.key", "No such file")
        check("server.key", "server.key", "there is no certificate in it")
        check("server.pem", "server.pem", "other users may read")
        check("other.pem", "encrypted.key", "is encrypted")
        os.chmod(folder / "late.key", 0o644)
        said = check("late.pem", "late.key", "other users may read this private key (mode 0644)")
        self.assertRegex(said, r"checked.toml:\d+:\d+: error")
        self.assertIn("chmod 600", said)
        check("server.pem", "server.key", "cannot be read", 'client_certificates = { ca = "none.pem" }\n')


class ClientCertificates(Tls):
    TLS = """
certificates = {{ certificate = "server.pem", key = "server.key" }}
client_certificates = {{ ca = "clients.pem", mode = "{}" }}
"""

    @classmethod
    def share_with(cls, mode, *blocks):
        """The authority of clients is made before the gateway starts."""
        gateway, cls.authority = secured(*blocks, tls=cls.TLS.format(mode))
        cls.clients = Authority(gateway.folder, "clients")
        cls.pair = cls.clients.issue("client.test", usage="clientAuth")
        cls.gateway = cls.share(gateway)

    def shown(self, pair=None, version=None):
        context = self.context(version)
        context.load_cert_chain(*(pair or self.pair))
        return context

    def identity(self, answer):
        fields = self.assert_json(answer)["fields"]
        return [value for name, value in fields if name.lower() == "client-cert"]

    def expected(self):
        return [":" + base64.b64encode(ssl.PEM_cert_to_DER_cert(Path(self.pair[0]).read_text())).decode() + ":"]


class RequiredClientCertificates(ClientCertificates):
    @classmethod
    def setUpClass(cls):
        cls.share_with("required", *WEB)

    def test_required(self):
        gateway = self.gateway
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            answer = self.get(gateway, context=self.shown(version=version), fields=[("Client-Cert", ":Zm9yZ2Vk:")])
            self.assertEqual(self.identity(answer), self.expected())
            wrong = self.authority.issue("client.test", usage="clientAuth")
            for context in (self.context(version), self.shown(wrong, version)):
                with self.assertRaises((ssl.SSLError, ConnectionResetError, Cut)):
                    self.get(gateway, context=context)

    def test_a_resumed_session_has_the_same_identity(self):
        gateway = self.gateway
        context = self.shown()
        first = self.socket(gateway, context)
        SecureClient(first).request("GET", "/show")
        again = self.socket(gateway, context, session=first.session)
        self.assertTrue(again.session_reused)
        self.assertEqual(self.identity(SecureClient(again).request("GET", "/show")), self.expected())


class OptionalClientCertificates(ClientCertificates):
    @classmethod
    def setUpClass(cls):
        cls.decider = Decider()
        cls.addClassCleanup(cls.decider.server_close)
        cls.addClassCleanup(cls.decider.shutdown)
        forward = {"url": "http://127.0.0.1:%d/auth" % cls.decider.server_address[1], "cache": "1h"}
        web = {"service": "web", "https": "allow"}
        cls.share_with(
            "optional", *WEB, route("/cached", cache=True, **web), route("/decided", allow={"forward": forward}, **web)
        )

    def test_optional_and_forged(self):
        gateway = self.gateway
        forged = [("Client-Cert", ":Zm9yZ2Vk:"), ("client_cert", "x"), ("Client-Cert-Chain", ":Zm9yZ2Vk:")]
        self.assertEqual(self.identity(self.get(gateway, context=self.shown(), fields=forged)), self.expected())
        self.assertEqual(self.identity(self.get(gateway, fields=forged)), [])
        self.assertEqual(self.identity(gateway.get("/show", forged)), [])
        text = json.dumps(self.assert_json(gateway.get("/show", forged))).lower()
        self.assertFalse("client-cert" in text or "client_cert" in text, text)

    def test_trailers_say_nothing_of_who_asks(self):
        gateway = self.gateway
        forged = b"Client-Cert: 1\r\nclient_cert: 2\r\nClient_Cert_Chain: 3\r\nX_Forwarded_For: 4\r\nOk: 5\r\n"
        client = self.secure(gateway)
        head = b"POST /show HTTP/1.1\r\nHost: demo.test\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.send(head + b"1\r\nx\r\n0\r\n" + forged + b"\r\n")
        trailers = self.assert_json(client.answer("POST"))["trailers"]
        self.assertEqual([trailer.lower() for trailer in trailers], ["ok: 5"])

    def test_what_one_client_was_answered_is_no_other_client_s(self):
        gateway = self.gateway
        target = "/cached/make?h=cache-control:max-age=60"
        known = self.secure(gateway, self.shown())
        self.assertEqual([known.request("GET", target).body for _ in range(2)], [serial(1), serial(2)])
        stranger = self.secure(gateway)
        self.assertEqual([stranger.request("GET", target).body for _ in range(2)], [serial(3), serial(3)])
        self.assertEqual(known.request("GET", target).body, serial(4))

    def test_a_decision_for_one_certificate_is_for_no_other(self):
        gateway, decider = self.gateway, self.decider
        other = self.clients.issue("other.test", usage="clientAuth")
        for pair, asked in ((self.pair, 1), (self.pair, 1), (other, 2), (self.pair, 2), (other, 2)):
            answer = self.get(gateway, "/decided/show", context=self.shown(pair), fields=[("Authorization", "ann")])
            self.assert_status(answer, 200)
            self.assertEqual(len(decider.asked), asked)
        self.assertNotEqual(*(fields["Client-Cert"] for _, fields in decider.asked))


if __name__ == "__main__":
    unittest.main()
