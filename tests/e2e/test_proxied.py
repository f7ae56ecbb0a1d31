"""Behind load balancers and proxies: the PROXY protocol from named networks (issue 17, part 5)."""

import json
import socket
import struct
import time

from harness import BINARY, Client, Gateway, config, limits, route, service, setUpModule
from test_access import STORED, AccessCase

__all__ = ["setUpModule"]

BALANCER = "127.0.0.2"  # the one that is believed; this machine has all addresses of 127.0.0.0/8
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
GET = b"GET /show HTTP/1.1\r\nHost: demo.test\r\n\r\n"


def line(client="192.0.2.7", port=4711):
    return f"PROXY TCP4 {client} 198.51.100.1 {port} 80\r\n".encode()


def binary(client="192.0.2.7", port=4711, command=1, tlvs=b""):
    addresses = socket.inet_aton(client) + socket.inet_aton("198.51.100.1") + struct.pack(">HH", port, 80)
    return SIGNATURE + struct.pack(">BBH", 0x20 | command, 0x11, len(addresses + tlvs)) + addresses + tlvs


def connect(gateway, source=BALANCER):
    client = Client.__new__(Client)
    client._sock = socket.create_connection(gateway.address, timeout=20, source_address=(source, 0))
    client._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client._timeout, client._inbox = 20, bytearray()
    return client


class ProxyProtocol(AccessCase):
    def gateway(self, *routes, **settings):
        return self.gateway_with(*(routes or [route("/", "web")]), proxy_protocol=[BALANCER], **settings)

    def assert_says(self, gateway, text):
        self.assert_eventually(lambda: text in gateway.output(), f"{text!r} is not in the log")

    def seen(self, gateway, header, source=BALANCER):
        """X-Forwarded-For and Forwarded of a request behind this header."""
        with connect(gateway, source) as client:
            client.send(header + GET)
            fields = dict((name.lower(), value) for name, value in json.loads(client.answer().body)["fields"])
            return fields["x-forwarded-for"], fields["forwarded"].partition(";")[0]

    def test_who_floods_again_and_again_is_not_let_in_for_a_while(self):
        gateway = self.gateway()
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5)
        for _ in range(8):
            with connect(gateway) as client:
                client.send(line() + preface + (b"\0\0\x08\6\0" + bytes(12)) * 3_000)
                while not client.ended():
                    client.read(1)
        with connect(gateway) as client:
            client.send(line() + GET)
            self.assertTrue(client.ended())
        self.assert_says(gateway, "new connections from there are closed at once")
        self.assertEqual(self.seen(gateway, line("192.0.2.8"))[0], "192.0.2.8")

    def test_the_client_is_who_the_header_says(self):
        gateway = self.gateway()
        address = socket.inet_pton(socket.AF_INET6, "2001:db8::7")
        v6 = SIGNATURE + b"\x21\x21\0\x24" + address + bytes(16) + b"\1\2\0\x50"
        mapped = b"PROXY TCP6 ::ffff:192.0.2.9 ::1 4711 80\r\n"
        for header, address in (
            (line(), "192.0.2.7"), (binary(), "192.0.2.7"), (binary(tlvs=b"\x04\0\x05hello" * 40), "192.0.2.7"),
            (b"PROXY TCP6 2001:db8::7 ::1 4711 80\r\n", "2001:db8::7"), (v6, "2001:db8::7"), (mapped, "192.0.2.9"),
        ):  # fmt: skip
            with self.subTest(header):
                node = f'"[{address}]"' if ":" in address else address
                self.assertEqual(self.seen(gateway, header), (address, f"for={node}"))

    def test_who_says_nothing_of_clients_is_the_client(self):
        """Health checks of the balancer itself (§2.1 UNKNOWN, §2.2 LOCAL), and Unix sockets behind it."""
        gateway = self.gateway()
        unix = SIGNATURE + b"\x21\x31\0\xd8" + bytes(216)
        for header in (b"PROXY UNKNOWN\r\n", b"PROXY UNKNOWN ::1 ::1 1 2\r\n", binary(command=0), unix):
            with self.subTest(header):
                self.assertEqual(self.seen(gateway, header), (BALANCER, f"for={BALANCER}"))

    def test_byte_by_byte_and_many_requests(self):
        gateway = self.gateway()
        for header in (line(), binary(tlvs=bytes(100))):
            with connect(gateway) as client:
                for byte in header + GET:
                    client.send(bytes([byte]))
                for _ in range(3):
                    self.assertIn(b"192.0.2.7", client.answer().body)
                    client.send(GET)
                client.answer()

    def test_from_elsewhere_it_is_no_request(self):
        gateway = self.gateway()
        for header in (line(), binary()):
            with connect(gateway, "127.0.0.1") as client:
                client.send(header + GET)
                self.assert_status(client.answer(), 400)
        self.assertEqual(self.seen(gateway, b"", "127.0.0.1"), ("127.0.0.1", "for=127.0.0.1"))
        self.assert_says(gateway, "a client sends a header of the PROXY protocol, and is not believed")

    def test_what_is_no_header_is_closed(self):
        """Nothing is answered: whose it is nobody knows."""
        gateway = self.gateway()
        for wrong in (
            GET, b"\x16\x03\x01\0\0", b"PROXY TCP4 1.2.3.4\r\n" + GET, b"PROXY UNKNOWN " + b"x" * 200,
            SIGNATURE + b"\x11\x11\0\x0c" + bytes(12) + GET, SIGNATURE + b"\x21\x11\xff\xff" + bytes(2_000),
        ):  # fmt: skip
            with self.subTest(wrong), connect(gateway) as client:
                client.send(wrong)
                self.assertTrue(client.ended())
        self.assertEqual(self.origin.seen, [])
        self.assert_says(gateway, "does not begin with a PROXY protocol header")

    def test_a_header_that_does_not_come(self):
        gateway = Gateway(BINARY, config(
            service("web", url=self.origin.url), route("/", "web"), limits(header_timeout="1s"),
            proxy_protocol=[BALANCER],
        ))  # fmt: skip
        self.start(gateway)
        for part in (b"", line()[:20], binary()[:14]):
            with self.subTest(part), connect(gateway) as client:
                client.send(part)
                self.assertTrue(client.ended())
        self.assert_says(gateway, "did not come within limits.header_timeout (1 s)")

    def test_rules_and_limits_know_the_client(self):
        gateway = self.gateway(
            route("/", "web", limit={"rate": "2/h", "by": "client"}),
            route("/in", "web", allow={"networks": ["192.0.2.0/24"]}),
        )

        def status(target, client):
            with connect(gateway) as connection:
                connection.send(line(client))
                return connection.request("GET", target).status

        self.assertEqual([status("/show", "198.51.100.7") for _ in range(3)], [200, 200, 429])
        self.assertEqual(status("/show", "198.51.100.8"), 200)
        self.assertEqual((status("/in/show", "192.0.2.1"), status("/in/show", "198.51.100.7")), (200, 403))

    def test_stored_answers(self):
        gateway = self.gateway_with(route("/", "web", cache=True), proxy_protocol=[BALANCER])
        with connect(gateway) as client:
            client.send(line())
            answers = [client.request("GET", STORED) for _ in range(3)]
        self.assertIn("hit", answers[-1].get("cache-status"))

    def test_a_waiting_connection_does_not_hold_the_stop(self):
        gateway = self.gateway()
        with connect(gateway) as client:
            client.send(line()[:10])
            time.sleep(0.2)  # so that it has been accepted
            begun = time.monotonic()
            gateway.signal(15)
            self.assertEqual(gateway.wait(14), 0)
            self.assertLess(time.monotonic() - begun, 8, "limits.header_timeout is 10 s")

    def test_the_access_log(self):
        gateway = Gateway(BINARY, config(
            service("web", url=self.origin.url), route("/", "web"), '[access_log]\npath = "@FOLDER@/access.log"\n',
            proxy_protocol=[BALANCER],
        ))  # fmt: skip
        self.start(gateway)
        self.seen(gateway, line())
        log = gateway.folder / "access.log"
        self.assert_eventually(lambda: log.exists() and "192.0.2.7:4711" in log.read_text(), "the client is not in it")


class TrustForwarded(AccessCase):
    """Proxies in front of each other at 127.0.0.2 and in 10.0.0.0/8; whoever else claims something is not believed."""

    TRUSTED = [BALANCER, "10.0.0.0/8"]

    def fields(self, gateway, fields, source=BALANCER, target="/show"):
        with connect(gateway, source) as client:
            answer = client.request("GET", target, fields)
        self.assert_status(answer, 200)
        return dict((name.lower(), value) for name, value in json.loads(answer.body)["fields"])

    def test_by_the_network_of_who_connects(self):
        gateway = self.gateway_with(route("/", "web"), trust_forwarded=self.TRUSTED)
        claims = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "https")]
        claims += [("Forwarded", "for=6.6.6.6;proto=https")]
        seen = self.fields(gateway, claims)
        self.assertEqual((seen["x-forwarded-for"], seen["x-forwarded-proto"]), (f"6.6.6.6, {BALANCER}", "https"))
        self.assertTrue(seen["forwarded"].startswith(f"for=6.6.6.6;proto=https, for={BALANCER};"), seen["forwarded"])
        seen = self.fields(gateway, claims, "127.0.0.1")
        self.assertEqual((seen["x-forwarded-for"], seen["x-forwarded-proto"]), ("127.0.0.1", "http"))
        self.assertTrue(seen["forwarded"].startswith("for=127.0.0.1;"), seen["forwarded"])

    def test_the_client_is_the_first_from_the_right_who_is_no_proxy(self):
        gateway = self.gateway_with(
            route("/", "web"),
            route("/in", "web", allow={"networks": ["192.0.2.0/24"]}),
            route("/told", "web", request_fields={"set": {"x-real-ip": "{client}"}}),
            trust_forwarded=self.TRUSTED,
        )
        for fields, client in (
            ([("X-Forwarded-For", "192.0.2.1")], "192.0.2.1"),
            ([("X-Forwarded-For", "6.6.6.6, 192.0.2.1, 10.1.1.1")], "192.0.2.1"),
            ([("X-Forwarded-For", "192.0.2.1, 6.6.6.6, 10.1.1.1")], "6.6.6.6"),
            ([("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-For", "6.6.6.6")], "6.6.6.6"),
            ([("Forwarded", 'for=6.6.6.6, for="192.0.2.1:80", for=10.1.1.1;by="[::1]"')], "192.0.2.1"),
            ([("Forwarded", 'for="[2001:db8::1]:4711"')], "2001:db8::1"),
            ([("Forwarded", 'for=192.0.2.1, for="6.6.6.6')], BALANCER),
            ([], BALANCER),
        ):
            with self.subTest(fields):
                self.assertEqual(self.fields(gateway, fields, target="/told/show")["x-real-ip"], client)
                with connect(gateway) as asker:
                    status = asker.request("GET", "/in/show", fields).status
                self.assertEqual(status, 200 if client == "192.0.2.1" else 403)
        with connect(gateway, "127.0.0.1") as stranger:
            self.assert_status(stranger.request("GET", "/in/show", [("X-Forwarded-For", "192.0.2.1")]), 403)

    def test_limits_by_client_and_stored_answers(self):
        gateway = self.gateway_with(
            route("/", "web", cache=True, limit={"rate": "2/h", "by": "client"}), trust_forwarded=self.TRUSTED
        )
        with connect(gateway) as proxy:
            ask = lambda client: proxy.request("GET", STORED, [("X-Forwarded-For", client)]).status  # noqa: E731
            self.assertEqual([ask("192.0.2.1") for _ in range(3)], [200, 200, 429])
            self.assertEqual([ask("192.0.2.2") for _ in range(3)], [200, 200, 429])

    def test_the_scheme_is_a_part_of_the_key(self):
        gateway = self.gateway_with(route("/", "web", cache=True), trust_forwarded=self.TRUSTED)
        with connect(gateway) as proxy:
            def verdict(proto):
                answer = proxy.request("GET", STORED, [("X-Forwarded-Proto", proto)])
                return "hit" in answer.get("cache-status")

            verdicts = [verdict(proto) for proto in ("http", "https", "http", "https")]
        self.assertEqual(verdicts, [False, False, True, True])
        with connect(gateway, "127.0.0.1") as stranger:
            answer = stranger.request("GET", STORED, [("X-Forwarded-Proto", "https")])
            self.assertIn("hit", answer.get("cache-status"))

    def test_scheme_and_host_are_those_of_the_outermost_proxy(self):
        """Behind proxies that append: what a client writes stands in front of what they write, and is ignored."""
        gateway = self.gateway_with(route("/", "web"), trust_forwarded=self.TRUSTED)
        chain = ("X-Forwarded-For", "6.6.6.6, 192.0.2.1, 10.1.1.1")
        elements = "for=6.6.6.6;proto=ftp;host=evil, for=192.0.2.1;proto=https;host=a.test"
        elements += ", for=10.1.1.1;proto=http;host=b"
        for fields, expected in (
            ([("Forwarded", elements)], ("https", "a.test")),
            ([("Forwarded", "for=6.6.6.6;proto=https;host=evil, for=192.0.2.1;proto=http")], ("http", "demo.test")),
            ([("Forwarded", "for=10.6.6.6;proto=https;host=evil"), ("Forwarded", "for=192.0.2.1;proto=http;host=c")],
             ("http", "c")),
            ([("Forwarded", "for=192.0.2.1, for=10.1.1.1;proto=https;host=b")], ("https", "b")),
            ([chain, ("X-Forwarded-Proto", "ftp, https, http"), ("X-Forwarded-Host", "evil, a.test, b")],
             ("https", "a.test")),
            ([chain, ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "a.test")], ("https", "a.test")),
            ([("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "https, http")], ("http", "demo.test")),
            ([("X-Forwarded-Proto", "https"), ("X-Forwarded-Proto", "http")], ("http", "demo.test")),
        ):  # fmt: skip
            seen = self.fields(gateway, fields)
            self.assertEqual((seen["x-forwarded-proto"], seen["x-forwarded-host"]), expected, fields)

    def test_true_is_one_proxy(self):
        gateway = self.gateway_with(
            route("/", "web", request_fields={"set": {"x-real-ip": "{client}"}}), trust_forwarded=True
        )
        fields = [("X-Forwarded-For", "6.6.6.6, 10.1.1.1"), ("X-Forwarded-Proto", "https, http")]
        seen = self.fields(gateway, fields, "127.0.0.1")
        self.assertEqual((seen["x-real-ip"], seen["x-forwarded-proto"]), ("10.1.1.1", "http"))

    def test_a_proxy_behind_a_balancer(self):
        """The PROXY protocol says who has connected, and that decides whether its fields are believed."""
        gateway = self.gateway_with(
            route("/", "web", request_fields={"set": {"x-real-ip": "{client}"}}),
            proxy_protocol=[BALANCER], trust_forwarded=["10.0.0.0/8"],
        )  # fmt: skip
        for peer, client in (("10.1.1.1", "6.6.6.6"), ("192.0.2.1", "192.0.2.1")):
            with connect(gateway) as balancer:
                balancer.send(line(peer))
                told = json.loads(balancer.request("GET", "/show", [("X-Forwarded-For", "6.6.6.6")]).body)["fields"]
            self.assertIn(["x-real-ip", client], [[name.lower(), value] for name, value in told])

    def test_the_access_log(self):
        gateway = Gateway(BINARY, config(
            service("web", url=self.origin.url), route("/", "web", cache=True),
            '[access_log]\npath = "@FOLDER@/access.log"\n', trust_forwarded=self.TRUSTED,
        ))  # fmt: skip
        self.start(gateway)
        with connect(gateway) as proxy:
            for target in ("/show", STORED, STORED):
                proxy.request("GET", target, [("X-Forwarded-For", "6.6.6.6, 192.0.2.1")])
        log = gateway.folder / "access.log"
        told = lambda: log.exists() and log.read_text().count('"192.0.2.1"')  # noqa: E731
        self.assert_eventually(lambda: told() == 3, "the client is not in it")
