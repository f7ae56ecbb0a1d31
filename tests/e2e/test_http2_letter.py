"""What HTTP/2 can say and HTTP/1.1 cannot (RFC 9113 §8.2-8.3): none of it becomes a line or a request of a service."""

import unittest

import hpack
import http2_client as http2
from harness import BINARY, Gateway, TestCase, config, route, service, setUpModule
from scripted import Script, answer

__all__ = ["setUpModule"]

CONNECT = [
    (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/ws"), (":authority", "a"),
]  # fmt: skip
MARK = b"GET /evil"


def head(method="GET", path="/x", authority="a.test", *fields):
    return [(":method", method), (":scheme", "http"), (":path", path), (":authority", authority), *fields]


class Letter(TestCase):
    """A service that answers each head at once, whatever the head says of a body."""

    @classmethod
    def setUpClass(cls):
        cls.script = cls.enterClassContext(Script(cls.serve))
        cls.gateway = cls.share(cls.gateway_to(cls.script))

    @staticmethod
    def serve(peer):
        while peer.head():
            peer.send(answer(b"ok"))

    @staticmethod
    def gateway_to(script):
        blocks = service("web", url=script.url), route(service="web")
        return Gateway(BINARY, config(*blocks, workers=1))

    def setUp(self):
        super().setUp()
        self.script.heads.clear()

    def send(self, fields, *frames, end=True):
        """(status, the error of a reset or of GOAWAY) for one request on a connection of its own."""
        with http2.Frames(self.gateway.address) as client:
            flags = http2.END_HEADERS | (http2.END_STREAM if end else 0)
            client.send(http2.frame(http2.HEADERS, flags, 1, client.encoder.encode(fields)) + b"".join(frames))
            decoder, status = hpack.Decoder(), None
            while got := client.next():
                kind, flags, stream, payload = got
                if kind in (http2.RST_STREAM, http2.GOAWAY):
                    return status, int.from_bytes(payload[4:8] if kind == http2.GOAWAY else payload, "big")
                if kind == http2.HEADERS:
                    status = int(dict(decoder.decode(payload))[":status"])
                if stream == 1 and flags & http2.END_STREAM and kind in (http2.HEADERS, http2.DATA):
                    return status, None
        return status, None

    def refused(self, *requests):
        """None of these reaches the service, and what comes behind them is what it was."""
        for fields in requests:
            with self.subTest(fields):
                status, error = self.send(fields)
                is_reset = (status, error) == (None, http2.PROTOCOL_ERROR)
                self.assertTrue(is_reset or status in (400, 501), (status, error))
        self.assertEqual(self.script.heads, [])
        self.assert_status(self.gateway.get("/after"), 200)
        self.assertEqual([one.split(b"\r\n")[0] for one in self.script.heads], [b"GET /after HTTP/1.1"])

    def test_ends_of_lines(self):
        forged = f"a\r\n\r\n{MARK.decode()} HTTP/1.1\r\n\r\n"
        inside = ["a\r\nx-evil: 1", "a\nx-evil: 1", "a\rx-evil: 1", "a\0b", forged]
        self.refused(
            *(head("GET", "/x", "a.test", ("x-a", value)) for value in inside),
            *(head("GET", "/x", "a.test", (name, "1")) for name in inside),
            *(head("GET", f"/{value}") for value in inside),
            *(head("GET", "/x", value) for value in inside),
            *(head(value) for value in inside),
            *([*CONNECT[:1], (":protocol", value), *CONNECT[2:]] for value in inside),
            *(head("GET", "/x", "a.test", ("cookie", "a=1"), ("cookie", value)) for value in inside),
        )

    def test_names(self):
        names = ["", " ", "x a", "x:", "x:a", ":x", "X-Upper", "x-\u00e9", "x(a)", "content-length ", "host ", "x\t"]
        self.refused(*(head("GET", "/x", "a.test", (name, "1")) for name in names))

    def test_targets_authorities_and_methods(self):
        paths = ["", "x", "*", "/a b", "/a?b c", "/a HTTP/1.1", "http://b.test/", "/a\x7f", "/<", "?x"]
        authorities = ["", " ", "a b", "a/b", "a?b", "a@b", "a,b", "a:b", "a#b", "u:p@a.test", "\u00e9", "a\\b"]
        self.refused(
            *(head("GET", path) for path in paths),
            *(head("GET", "/x", authority) for authority in authorities),
            *(head(method) for method in ["", "GE T", "GET ", "G\u00c9T", "GET/x", "get:"]),
        )

    def test_pseudo_fields(self):
        ordinary = head()
        self.refused(
            [*ordinary, ("x", "1"), (":path", "/again")], [*ordinary, (":path", "/again")],
            [*ordinary, (":status", "200")], [*ordinary, (":other", "1")],
            [("x", "1"), *ordinary], ordinary[1:], [ordinary[0], *ordinary[2:]],
            [*ordinary[:2], *ordinary[3:]], [*ordinary, (":protocol", "websocket")], [*ordinary, ("host", "b.test")],
            [*ordinary[:3], ("host", "a.test"), ("host", "a.test")], [*ordinary[:3]],
        )  # fmt: skip

    def test_fields_of_a_connection_and_lengths(self):
        fields = [
            [("transfer-encoding", "chunked")], [("transfer-encoding", "identity")],
            [("connection", "x-a"), ("x-a", "1")], [("keep-alive", "1")],
            [("proxy-connection", "close")], [("upgrade", "h2c")], [("te", "gzip")],
            [("content-length", "5")], [("content-length", "+0")], [("content-length", "0, 0")],
            [("content-length", "-0")], [("content-length", "0x0")],
            [("content-length", "")], [("content-length", "0"), ("content-length", "1")],
            [("content-length", "18446744073709551616")],
        ]  # fmt: skip
        self.refused(*(head("POST", "/x", "a.test", *more) for more in fields))

    def test_a_body_that_is_not_as_long_as_it_said(self):
        """The service has seen the head; its connection is not used again, and nothing behind the length goes out."""
        self.script = self.enterContext(Script(self.serve))
        self.gateway = self.start(self.gateway_to(self.script))
        for length, data in ((3, MARK + b" HTTP/1.1\r\n\r\n"), (30, b"abc")):
            fields = head("POST", "/x", "a.test", ("content-length", str(length)))
            frames = http2.frame(http2.DATA, http2.END_STREAM, 1, data)
            self.send(fields, frames, end=False)
            self.assert_status(self.gateway.get("/after"), 200)
        lines = {one.split(b"\r\n")[0] for one in self.script.heads}
        self.assertLessEqual(lines, {b"POST /x HTTP/1.1", b"GET /after HTTP/1.1"})

    def test_a_length_of_what_has_no_body(self):
        """An extended CONNECT is a GET to the service: with a length, it would take the next request for a body."""
        for value in ("0", "40"):
            status, error = self.send([*CONNECT, ("content-length", value)], end=False)
            self.assertEqual((status, error), (400, None))
        self.assertEqual(self.script.heads, [])
        for _ in range(2):
            self.assert_status(self.gateway.get("/after"), 200)
        self.assertEqual(len(self.script.heads), 2)

    def test_crumbs_are_one_cookie(self):
        crumbs = [("cookie", "a=1"), ("x", "1"), ("cookie", "b=2; c=3"), ("cookie", "d=4")]
        self.assertEqual(self.send(head("GET", "/x", "a.test", *crumbs)), (200, None))
        lines = self.script.heads[0].split(b"\r\n")
        self.assertEqual([line for line in lines if line.startswith(b"cookie")], [b"cookie: a=1; b=2; c=3; d=4"])

    def test_trailers(self):
        """What frames a message, names its target or says whose it is, is no trailer (RFC 9110 §6.5.1)."""
        heads = []

        def serve(peer):
            heads.append(peer.head())
            heads.append(peer.head())
            peer.send(answer(b"ok"))

        script = self.enterContext(Script(serve))
        gateway = self.start(Gateway(BINARY, config(service("web", url=script.url), route(service="web"))))
        bad = [("content-length", "3"), ("host", "b"), ("authorization", "x"), ("cookie", "a=1")]
        bad.append(("x-forwarded-for", "6.6.6.6"))
        with http2.Client(gateway.address) as client:
            stream = client.begin("POST", "/", end=False)
            client.send(stream, b"abc")
            client.h2.send_headers(stream, [*bad, ("x-sum", "7")], end_stream=True)
            client.flush()
            self.assertEqual(client.answer(stream).body, b"ok")
        self.assertEqual(heads[1], b"3\r\nabc\r\n0\r\nx-sum: 7")


if __name__ == "__main__":
    unittest.main()
