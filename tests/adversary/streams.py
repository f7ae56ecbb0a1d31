"""Requests over HTTP/2, composed at random of what is ordinary and what is forged: ends of lines in names, values and
pseudo-fields, lengths that are wrong, fields of a connection, trailers that would frame a message.

Whatever the gateway makes of one, a strict server of HTTP/1.1 behind it sees no request, field or byte of a body that
no client sent, and nobody gets the answer to another request.
"""

import asyncio
import random
import time

import hpack
import http2_client as http2
from harness import BINARY, Gateway, config, limits, route, service

from .recorder import Recorder

SMUGGLED = "GET /r/smuggled HTTP/1.1\r\nhost: a.test\r\n\r\n"
ENDS = [
    "\r\n", "\n", "\r", "\0", "\r\nx-b: forged", "\r\n\r\n" + SMUGGLED, " ", "\t", "\x7f", "\x80", ":", ";", ",", ", x",
]  # fmt: skip
NAMES = [
    "x-a", "x-b", "cookie", "te", "content-length", "transfer-encoding", "connection", "upgrade", "host", "keep-alive",
    "expect", "proxy-connection", "x-forwarded-for", "x_forwarded_for", "forwarded", "via", "range", ":path",
    ":method", ":authority", ":protocol", ":other", "X-A", "", "x a", "x-a:", "content_length", "Content-Length",
    "trailer", "authorization",
]  # fmt: skip
VALUES = [
    "", "1", "0", "5", "40", "chunked", "close", "x-a", "websocket", "h2c", "100-continue", "trailers", "a=1", "+5",
    "5, 5", "0x5",
]  # fmt: skip
# What frames a message, or says whose it is.
NO_TRAILERS = {
    b"content-length", b"transfer-encoding", b"host", b"authorization", b"cookie", b"x-forwarded-for", b"connection",
}  # fmt: skip
KEPT = (b"x-a", b"x-b")  # fields that a service gets as they were sent, or not at all
AT_ONCE = 20  # streams of a connection
WAIT = 10.0  # seconds for all answers on it


class Sent:
    """One request, with its mark."""

    def __init__(self, number, chance):
        self.chance, self.number = chance, number
        methods = ["GET", "GET", "HEAD", "POST", "PUT", "CONNECT", "G", "get"]
        self.method = chance.choice([*methods * 4, self.forged("GET")])
        self.path = f"/r/q{number}q{self.seldom()}"
        self.authority = f"a.test{self.seldom()}"
        pseudo = [(":method", self.method), (":scheme", "http"), (":path", self.path), (":authority", self.authority)]
        self.is_tunnel = self.method == "CONNECT"
        if self.is_tunnel:
            pseudo.append((":protocol", f"websocket{self.seldom()}"))
        self.fields = self.drawn(3)
        self.body = None
        if chance.random() < 0.6:
            self.body = bytes(chance.choices(b"ab\r\n0: GET/", k=chance.choice([0, 1, 5, 40])))
        if self.body is not None and chance.random() < 0.4:
            self.fields.append(("content-length", str(max(0, len(self.body) + chance.choice([0, 0, 0, -1, 1, 40])))))
        self.trailers = self.drawn(2) if self.body is not None and chance.random() < 0.4 else []
        self.head = pseudo + self.fields
        if chance.random() < 0.01:
            chance.shuffle(self.head)

    def seldom(self):
        """The end of an ordinary text."""
        return self.chance.choice(ENDS) if self.chance.random() < 0.02 else ""

    def forged(self, text):
        return text + self.chance.choice(ENDS)

    def drawn(self, most):
        fields = []
        for _ in range(self.chance.randrange(most + 1)):
            name = self.chance.choice(NAMES[:2]) if self.chance.random() < 0.9 else self.chance.choice(NAMES)
            value = self.chance.choice(VALUES) + self.seldom()
            fields.append((name, value))
        return fields

    def frames(self, stream, encoder):
        more = self.body is not None or self.is_tunnel
        last = http2.END_HEADERS | http2.END_STREAM
        yield http2.frame(http2.HEADERS, http2.END_HEADERS if more else last, stream, encoder.encode(self.head))
        if self.body is not None:
            cut = self.chance.randrange(len(self.body) + 1)
            yield http2.frame(http2.DATA, 0, stream, self.body[:cut])
            yield http2.frame(http2.DATA, 0 if self.trailers else http2.END_STREAM, stream, self.body[cut:])
        if self.trailers:
            yield http2.frame(http2.HEADERS, last, stream, encoder.encode(self.trailers))

    def said(self):
        """The body, as far as its length was told: that it is wrong comes out when the head has been passed on."""
        lengths = [value for name, value in self.fields if name == "content-length" and value.isdigit()]
        return (self.body or b"")[: int(lengths[0]) if lengths else None]

    def fault(self, request):
        """Why this is not what the service should have seen of it."""
        method = b"GET" if self.is_tunnel else self.method.encode("latin-1", "replace")
        target = self.path.encode().partition(b"#")[0]
        if request.line != b"%b %b HTTP/1.1" % (method, target):
            return "another request line"
        if request.body != (b"" if self.is_tunnel else self.said()):
            return "another body"
        if self.is_tunnel and request.all(b"content-length"):
            return "a length of what has no body"
        for found, sent in ((request.fields, self.fields), (request.trailers, self.trailers)):
            sent = [(name.encode(), value.strip(" \t").encode()) for name, value in sent]
            for name, value in found:
                if name.lower() in KEPT and (name.lower(), value) not in sent:
                    return f"a field that was not sent: {name!r}: {value!r}"
        if any(name.lower() in NO_TRAILERS for name, _ in request.trailers):
            return "a trailer that frames a message, or says whose it is"
        return None


def run(seed, seconds, report):
    asyncio.run(Streams(seed, seconds, report).run())


class Streams:
    def __init__(self, seed, seconds, report):
        self.chance, self.seconds, self.report = random.Random(seed), seconds, report
        self.sent, self.checked, self.answered = {}, 0, 0

    async def run(self):
        self.recorder = await Recorder().start()
        blocks = service("web", url=self.recorder.url), route("/", "web"), limits(body_timeout="5s")
        self.gateway = Gateway(BINARY, config(*blocks, workers=1))
        try:
            self.gateway.start()
            deadline = time.monotonic() + self.seconds
            while time.monotonic() < deadline:
                await asyncio.to_thread(self.connection)
                self.check()
            if self.answered == 0:
                self.report.wrong("unexplained", "end", "no request was answered with 200")
            if self.gateway.process.poll() is not None or "panicked" in self.gateway.output():
                self.report.wrong("unexplained", "end", f"the gateway: {self.gateway.output()[-2000:]}")
        finally:
            if self.gateway.process:
                self.gateway.stop()
            await self.recorder.stop()

    def connection(self):
        """Some streams of one connection; what is malformed as HTTP/2 may end it."""
        with http2.Frames(self.gateway.address, timeout=WAIT) as client:
            streams = {}
            for stream in range(1, 1 + 2 * self.chance.randrange(1, AT_ONCE), 2):
                sent = Sent(len(self.sent), self.chance)
                self.sent[sent.number] = streams[stream] = sent
                if not client.send(b"".join(sent.frames(stream, client.encoder))):
                    break
            self.report.count("requests", len(streams))
            self.report.progress(f"{len(self.sent)} requests")
            try:
                self.answers(client, dict(streams))
            except TimeoutError:
                heads = [one.head for one in streams.values()]
                self.report.wrong("wrong", max(self.sent), f"no answer and no end: {heads}")

    def answers(self, client, open_streams):
        decoder, statuses = hpack.Decoder(), {}
        while open_streams and (got := client.next()):
            kind, flags, stream, payload = got
            if kind == http2.GOAWAY:
                return
            if kind == http2.HEADERS:
                statuses.setdefault(stream, dict(decoder.decode(payload)).get(":status"))
            sent = open_streams.get(stream)
            if kind == http2.DATA and sent and statuses.get(stream) == "200" and not sent.is_tunnel:
                self.answered += 1
                if payload and b"q%dq" % sent.number not in payload:
                    text = f"an answer to another request: {payload!r} for {sent.head}"
                    self.report.wrong("wrong", sent.number, text)
            if kind == http2.RST_STREAM or (kind in (http2.HEADERS, http2.DATA) and flags & http2.END_STREAM):
                open_streams.pop(stream, None)

    def check(self):
        for breach in self.recorder.breaches:
            self.report.wrong("wrong", max(self.sent), f"the gateway sent what no client may send: {breach}")
        for stray in self.recorder.strays:
            self.report.wrong("wrong", max(self.sent), f"a request that no client sent: {stray}")
        self.recorder.breaches.clear()
        self.recorder.strays.clear()
        for number, seen in list(self.recorder.seen.items()):
            for request in seen:
                self.report.count("cases")
                sent = self.sent.get(number)
                if fault := sent.fault(request) if sent else "nobody sent it":
                    parts = sent and (sent.head, sent.body, sent.trailers)
                    self.report.wrong("wrong", number, f"{fault}: {request}; sent {parts}")
            del self.recorder.seen[number]
