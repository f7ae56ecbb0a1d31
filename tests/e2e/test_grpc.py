"""gRPC passes through: a client and a service of `grpcio`, with the gateway between them (issue 17, part 4)."""

import json
import sys
import threading
import unittest
from pathlib import Path

import grpc
import http2_client as http2
from grpc_service import Server
from harness import BINARY, Gateway, TestCase, config, eventually, in_threads, limits, route, service, setUpModule
from origin import Origin

__all__ = ["setUpModule"]


class Calls:
    """The methods of the test service through a gateway."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel("{}:{}".format(*address))
        self.once = self.channel.unary_unary("/t.Test/Once")
        self.down = self.channel.unary_stream("/t.Test/Down")
        self.up = self.channel.stream_unary("/t.Test/Up")
        self.talk = self.channel.stream_stream("/t.Test/Talk")
        self.fail = self.channel.unary_stream("/t.Test/Fail")
        self.wait = self.channel.unary_unary("/t.Test/Wait")
        self.unknown = self.channel.unary_unary("/t.Test/Unknown")


class WithServer(TestCase):
    BLOCKS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())
        blocks = service("calls", url=f"h2c://127.0.0.1:{cls.server.port}"), route("/t.Test", "calls"), *cls.BLOCKS
        cls.gateway = cls.share(Gateway(BINARY, config(*blocks)))
        cls.calls = Calls(cls.gateway.address)
        cls.addClassCleanup(cls.calls.channel.close)

    def assert_fails(self, call, code, text=""):
        with self.assertRaises(grpc.RpcError) as raised:
            call()
        self.assertEqual(raised.exception.code(), code, raised.exception)
        self.assertIn(text, raised.exception.details())
        return raised.exception


class Passing(WithServer):
    def test_unary(self):
        answer, call = self.calls.once.with_call(b"hello", metadata=(("tell", "x"),), timeout=10)
        self.assertEqual(answer, b"HELLO")
        self.assertEqual(dict(call.initial_metadata())["initial"], "first")
        trailers = dict(call.trailing_metadata())
        self.assertEqual((trailers["told"], trailers["bytes-bin"]), ("x", b"\x00\xff"))
        large = b"m" * 3_000_000
        self.assertEqual(self.calls.once(large, timeout=20), large.upper())

    def test_streams(self):
        self.assertEqual(list(self.calls.down(b"500", timeout=20))[-1], b"message 499")
        self.assertEqual(self.calls.up((b"x" * 10_000 for _ in range(300)), timeout=20), b"300 3000000")
        self.assertEqual(list(self.calls.down(b"0", timeout=20)), [])

    def test_both_ways_at_once(self):
        """Each message is answered before the next is sent: nothing waits for the end of a direction."""
        answered, sent = threading.Semaphore(1), []

        def messages():
            for number in range(20):
                self.assertTrue(answered.acquire(timeout=10))
                sent.append(number)
                yield b"%d" % number

        for number, answer in enumerate(self.calls.talk(messages(), timeout=30)):
            self.assertEqual((answer, len(sent)), (b"%d" % number, number + 1))
            answered.release()
        self.assertEqual(len(sent), 20)

    def test_errors_with_trailers(self):
        for messages in (0, 3):
            got, call = [], self.calls.fail(b"%d" % messages, timeout=10)
            error = self.assert_fails(lambda c=call, g=got: g.extend(c), grpc.StatusCode.NOT_FOUND, "nothing é here")
            self.assertEqual(dict(error.trailing_metadata())["why"], "because")
        self.assert_fails(lambda: self.calls.unknown(b"", timeout=10), grpc.StatusCode.UNIMPLEMENTED)

    def test_deadlines_and_clients_that_go(self):
        self.calls.once(b"", timeout=7)
        self.assertLess(self.server.deadlines[-1], 7.1)  # clients round what they send up
        self.assert_fails(lambda: self.calls.wait(b"", timeout=0.5), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertTrue(eventually(lambda: self.server.gone == 1), "the service was not told")
        call = self.calls.wait.future(b"", timeout=20)
        self.assertTrue(eventually(lambda: self.server.waits == 2), "it did not reach the service")
        call.cancel()
        self.assertTrue(eventually(lambda: self.server.gone == 2), "the service was not told")

    def test_many_at_once(self):
        def some(_):
            return [self.calls.once(b"a", timeout=30) for _ in range(50)]

        self.assertEqual(in_threads(16, some), [[b"A"] * 50] * 16)


class Refusals(WithServer):
    BLOCKS = (
        service("old", url="http://127.0.0.1:1"), route("/t.Test/Once", "old"),
        service("away", url="h2c://127.0.0.1:1"), route("/t.Test/Down", "away"),
        route("/t.Test/Up", "calls", body_size="10KiB"), route("/t.Test/Wait", "calls", timeout="300ms"),
    )  # fmt: skip

    def test_what_the_gateway_says_is_a_status_of_grpc(self):
        calls, codes = self.calls, grpc.StatusCode
        self.assert_fails(lambda: calls.once(b"", timeout=10), codes.UNIMPLEMENTED, 'transport = "h2c"')
        self.assert_fails(lambda: list(calls.down(b"1", timeout=10)), codes.UNAVAILABLE, "away")
        self.assert_fails(lambda: calls.wait(b"", timeout=10), codes.DEADLINE_EXCEEDED, "the route's timeout")
        other = calls.channel.unary_unary("/other.Service/Method")
        self.assert_fails(lambda: other(b"", timeout=10), codes.UNIMPLEMENTED, "no route matches")
        large = (b"x" * 1_000 for _ in range(100))
        self.assert_fails(lambda: calls.up(large, timeout=10), codes.RESOURCE_EXHAUSTED, "body_size")

    def test_a_client_without_http2_is_told(self):
        answer = self.gateway.request("POST", "/t.Test/Talk", [("Content-Type", "application/grpc")], b"\0\0\0\0\0")
        self.assertIn("HTTP/2 from the client", self.assert_problem(answer, 505)["detail"])

    def test_a_service_that_speaks_http1_is_named(self):
        with Origin() as origin:
            blocks = service("old", url=origin.url.replace("http:", "h2c:")), route(service="old")
            gateway = self.start(Gateway(BINARY, config(*blocks)))
            problem = self.assert_problem(gateway.get("/show"), 502)
            self.assertIn("prior knowledge", problem["detail"])


class Silence(WithServer):
    BLOCKS = (limits(body_timeout="1s", response_body_timeout="1s"),)

    def test_a_talk_may_be_silent(self):
        """Longer than both limits, which are not for gRPC: its clients have deadlines."""
        go_on = threading.Event()

        def messages():
            yield b"first"
            go_on.wait(20)
            yield b"last"

        talk = self.calls.talk(messages(), timeout=30)
        self.assertEqual(next(talk), b"first")
        threading.Timer(3, go_on.set).start()
        self.assertEqual(list(talk), [b"last"])


class Managed(TestCase):
    def test_a_service_that_pilotlight_starts(self):
        program = Path(__file__).with_name("grpc_service.py")
        blocks = service("calls", [sys.executable, program], transport="h2c", socket="port"), route("/", "calls")
        gateway = self.start(Gateway(BINARY, config(*blocks)))
        calls = Calls(gateway.address)
        self.addCleanup(calls.channel.close)
        self.assertEqual(calls.once(b"started", timeout=20), b"STARTED")


class PlainServices(TestCase):
    """What is no gRPC over h2c: bodies, lengths, the cache. The service is another gateway."""

    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())
        cls.behind = cls.share(cls.gateway_behind(cls.origin))
        cls.gateway = cls.share(cls.gateway_to(cls.behind))

    @staticmethod
    def gateway_behind(origin, **settings):
        return Gateway(BINARY, config(service("web", url=origin.url), route(service="web"), **settings))

    @staticmethod
    def gateway_to(behind):
        blocks = (
            service("behind", url="h2c://{}:{}".format(*behind.address)),
            route(service="behind"), route("/cached", "behind", cache=True),
        )  # fmt: skip
        return Gateway(BINARY, config(*blocks))

    def setUp(self):
        super().setUp()
        self.origin.forget()

    def test_requests_and_answers(self):
        for client in (self.gateway.client(), http2.Client(self.gateway.address)):
            with client:
                told = json.loads(client.request("PUT", "/show?q=%2F", [("x-own", "1")], body=b"a body").body)
                self.assertEqual((told["method"], told["target"], told["body"]), ("PUT", "/show?q=%2F", "a body"))
                fields = {name.lower(): value for name, value in told["fields"]}
                self.assertEqual((fields["x-own"], fields["host"]), ("1", "demo.test"))
                self.assertTrue(fields["via"].endswith("2.0 pilotlight"), fields["via"])
                self.assertEqual(client.request("HEAD", "/show").body, b"")
                for status in (204, 304, 404, 503):
                    self.assertEqual(client.request("GET", f"/make?status={status}").status, status)
                data = bytes(range(256)) * 8_000
                self.assertEqual(client.request("POST", "/talk", body=data).body, data)
                self.assertEqual(len(client.request("GET", "/tiny?bytes=200000").body), 200_000)
                target = "/cached/make?h=cache-control:max-age=60"
                self.assertEqual(client.request("GET", target).body, b"serial 1 for nobody  0")

    def test_a_connection_for_many(self):
        with http2.Client(self.gateway.address) as client:
            streams = [client.begin("GET", f"/make?ms=300&n={number}") for number in range(80)]
            self.assertEqual({client.answer(stream).status for stream in streams}, {200})
        self.assertEqual(len(self.origin.seen), 80)

    def test_a_service_that_ends_its_connections(self):
        behind = self.start(self.gateway_behind(self.origin))
        gateway = self.start(self.gateway_to(behind))
        with http2.Client(gateway.address) as client:
            self.assertEqual(client.request("GET", "/show").status, 200)
            stream = client.begin("GET", "/make?ms=500")
            self.assertTrue(eventually(lambda: len(self.origin.seen) == 2))
            behind.stop()
            self.assertEqual(client.answer(stream).status, 200, "GOAWAY lets open streams finish")
            self.assertEqual(client.request("GET", "/show").status, 502)
            self.start(self.gateway_behind(self.origin, listen="{}:{}".format(*behind.address)))
            self.assertEqual(client.request("GET", "/show").status, 200)


if __name__ == "__main__":
    unittest.main()
