"""RFC 9112 §9: persistence and pipelining; RFC 9110 §7.8, §10.1.1: Upgrade and Expect; HTTP/1.0; clients that stop."""

from .case import BAD, HOST, NONE, OK, Case, Saw, accept, either, get, head, post, refuse

PERSISTENCE, PIPELINE, CLOSE, UPGRADE, EXPECT = "RFC 9112 §9.3", "RFC 9112 §9.3.2", "RFC 9112 §9.6", "RFC 9110 §7.8", "RFC 9110 §10.1.1"
OLD, FIN = "RFC 9112 §9.3", "RFC 9112 §8"
GET, POST = b"GET /r/@@ HTTP/1.1", b"POST /r/@@ HTTP/1.1"
SEEN = Saw(GET)
MISSING = frozenset({404})
CUT = frozenset({NONE, 400, 408})
LOST = b"GET /nowhere/@@ HTTP/1.1"


def old(*fields, host=HOST, line=b"GET /r/@@ HTTP/1.0"):
    return head(line, *fields, host=host)


CASES = [
    accept(CLOSE, f"Connection: {value.decode()}", get(b"Connection: " + value), after="closed")
    for value in (b"close", b"Close", b"CLOSE", b"keep-alive, close", b"close, keep-alive", b"x, close, y", b"close,", b",close", b" close ", b"close, close")
]
CASES += [
    accept(CLOSE, "Connection: close in the second line", get(b"Connection: keep-alive", b"Connection: close"), after="closed"),
    accept(CLOSE, "close on a POST", post(b"Connection: close", b"Content-Length: 3", body=b"abc"), Saw(POST, b"abc"), after="closed"),
    accept(PERSISTENCE, "Connection: keep-alive", get(b"Connection: keep-alive")),
    accept(PERSISTENCE, "Connection: closed is another word", get(b"Connection: closed")),
    accept(PERSISTENCE, "Close: close is another field", get(b"Close: close")),
    either(PERSISTENCE, "Proxy-Connection: close", get(b"Proxy-Connection: close"), SEEN, status=OK),
    Case(CLOSE, "nothing is read after close", get(b"Connection: close") + get(target=b"/r/after/@@"), (OK,), "closed", (SEEN,)),
    Case(CLOSE, "nothing is read after a refusal", get(b"X Y: 1") + get(target=b"/r/after/@@"), (BAD,), "closed"),
    Case(CLOSE, "nothing is read after HTTP/1.0", old() + get(target=b"/r/after/@@"), (OK,), "closed", (SEEN,)),
    Case(PIPELINE, "two requests", get() * 2, (OK,) * 2, "open", (SEEN,) * 2),
    Case(PIPELINE, "ten requests", get() * 10, (OK,) * 10, "open", (SEEN,) * 10),
    Case(PIPELINE, "forty requests", get() * 40, (OK,) * 40, "open", (SEEN,) * 40),
    Case(PIPELINE, "two and then close", get() + get(b"Connection: close"), (OK,) * 2, "closed", (SEEN,) * 2),
    Case(PIPELINE, "HEAD between", get() + head(b"HEAD /r/@@ HTTP/1.1") + get(), (OK,) * 3, "open", (SEEN, Saw(b"HEAD /r/@@ HTTP/1.1"), SEEN), ("GET", "HEAD", "GET")),
    Case(PIPELINE, "a POST between", get() + post(b"Content-Length: 3", body=b"abc") + get(), (OK,) * 3, "open", (SEEN, Saw(POST, b"abc"), SEEN)),
    Case(PIPELINE, "chunks between", get() + post(b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n") + get(), (OK,) * 3, "open",
         (SEEN, Saw(POST, b"abc"), SEEN)),
    Case(PIPELINE, "a 404 between", get() + head(LOST) + get(), (OK, MISSING, OK), "open", (SEEN, SEEN, SEEN)),
    Case(PIPELINE, "a refusal after two", get() * 2 + b"nonsense\r\n\r\n", (OK, OK, BAD), "closed", (SEEN,) * 2),
    Case(PIPELINE, "a bad Host after one", get() + get(host=b"Host: a b\r\n"), (OK, BAD), "any", (SEEN,)),
    Case(PIPELINE, "an empty line between", get() + b"\r\n" + get(), (OK,) * 2, "open", (SEEN,) * 2),
    Case(PIPELINE, "an empty line after a POST", post(b"Content-Length: 3", body=b"abc\r\n") + get(), (OK,) * 2, "open", (Saw(POST, b"abc"), SEEN)),
    Case(PIPELINE, "a second request that is not whole", get() + b"GET /r/@@ HT", (OK, CUT), "closed", (SEEN,), fin=True),
    Case(PIPELINE, "one target twice and another", get() * 2 + get(target=b"/r/other/@@"), (OK,) * 3, "open", (SEEN, SEEN, Saw(b"GET /r/other/@@ HTTP/1.1"))),
]  # fmt: skip

# §9.6: who closes with a body unread must say so, or read it.
CASES += [
    Case(CLOSE, "a 404 before the body came", head(b"POST /nowhere/@@ HTTP/1.1", b"Content-Length: 5") + b"hello", (MISSING,), "any"),
    Case(CLOSE, "a 404 before a large body came", head(b"POST /nowhere/@@ HTTP/1.1", b"Content-Length: 300000") + b"x" * 300_000, (MISSING,), "any"),
    Case(CLOSE, "a 404 before chunks came", head(b"POST /nowhere/@@ HTTP/1.1", b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n", (MISSING,), "any"),
    Case(CLOSE, "a 404 and no body", head(LOST), (MISSING,), "open"),
    Case(CLOSE, "a 404 to HEAD", head(b"HEAD /nowhere/@@ HTTP/1.1"), (MISSING,), "open", (), ("HEAD",)),
    Case(CLOSE, "a 404 and Expect", head(b"POST /nowhere/@@ HTTP/1.1", b"Expect: 100-continue", b"Content-Length: 5"), (MISSING,), "any-no-probe"),
]  # fmt: skip

CASES += [
    accept(OLD, "HTTP/1.0", old(), after="closed"),
    accept(OLD, "HTTP/1.0 without Host", old(host=b""), after="closed"),
    accept(OLD, "HTTP/1.0 with close", old(b"Connection: close"), after="closed"),
    accept(OLD, "HTTP/1.0 with keep-alive", old(b"Connection: keep-alive"), after="any"),
    accept(OLD, "HTTP/1.0 with Keep-Alive", old(b"Connection: Keep-Alive", b"Keep-Alive: timeout=5"), after="any"),
    accept(OLD, "HTTP/1.0 with both", old(b"Connection: keep-alive, close"), after="closed"),
    accept(OLD, "HTTP/1.0 HEAD", old(line=b"HEAD /r/@@ HTTP/1.0"), Saw(b"HEAD /r/@@ HTTP/1.1"), after="closed", methods=("HEAD",)),
    accept(OLD, "HTTP/1.0 POST", old(b"Content-Length: 3", line=b"POST /r/@@ HTTP/1.0") + b"abc", Saw(POST, b"abc"), after="closed"),
    refuse(OLD, "HTTP/1.0 with two Host", old(host=b"Host: a.test\r\nHost: b.test\r\n"), after="closed"),
    refuse(OLD, "HTTP/1.0 with a bad Host", old(host=b"Host: a b\r\n"), after="closed"),
    accept(UPGRADE, "HTTP/1.0 asks for no upgrade", old(b"Upgrade: websocket", b"Connection: upgrade"), Saw(GET, lacks=(b"upgrade",)), after="closed"),
    Case(OLD, "HTTP/1.0 keep-alive twice", old(b"Connection: keep-alive") * 2, (OK, frozenset({NONE, 200})), "any", (SEEN, SEEN)),
]  # fmt: skip

H2C = b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"
CASES += [
    accept(UPGRADE, name, get(*fields), Saw(GET, lacks=(b"upgrade", b"http2-settings") if H2C in fields else (b"upgrade",)))
    for name, fields in (
        ("h2c", (b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings", H2C)),
        ("h2c, Settings not named", (b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings", H2C)),
        ("H2C", (b"Upgrade: H2C", b"Connection: upgrade, http2-settings", H2C)),
        ("TLS/1.0", (b"Upgrade: TLS/1.0", b"Connection: Upgrade")),
        ("an unknown protocol", (b"Upgrade: foo/2", b"Connection: Upgrade")),
        ("HTTP/2.0", (b"Upgrade: HTTP/2.0", b"Connection: Upgrade")),
        ("websocket, not named by Connection", (b"Upgrade: websocket",)),
        ("h2c in a second line", (b"Upgrade: foo", b"Upgrade: h2c", b"Connection: Upgrade")),
    )
]  # fmt: skip
WEBSOCKET = (b"Connection: Upgrade", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13")
CASES += [
    accept(UPGRADE, "websocket passes", get(b"Upgrade: websocket", *WEBSOCKET), Saw(GET, has={b"upgrade": b"websocket"})),
    accept(UPGRADE, "websocket and h2c", get(b"Upgrade: websocket, h2c", *WEBSOCKET), Saw(GET, lacks=(b"upgrade=h2c",))),
    accept(UPGRADE, "h2c and websocket", get(b"Upgrade: h2c, websocket", *WEBSOCKET), Saw(GET, lacks=(b"upgrade=h2c",))),
    either(UPGRADE, "websocket and a body", post(b"Upgrade: websocket", *WEBSOCKET, b"Content-Length: 3", body=b"abc"), Saw(POST, b"abc")),
    Case(UPGRADE, "a request behind a refused upgrade", get(b"Upgrade: h2c", b"Connection: Upgrade") + get(), (OK, OK), "open", (Saw(GET, lacks=(b"upgrade",)), SEEN)),
]  # fmt: skip

CASES += [
    accept(EXPECT, "100-continue and the body at once", post(b"Expect: 100-continue", b"Content-Length: 3", body=b"abc"), Saw(POST, b"abc", lacks=(b"expect",))),
    accept(EXPECT, "100-Continue", post(b"Expect: 100-Continue", b"Content-Length: 3", body=b"abc"), Saw(POST, b"abc")),
    accept(EXPECT, "100-continue and chunks", post(b"Expect: 100-continue", b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n"), Saw(POST, b"abc")),
    accept(EXPECT, "100-continue and no body", get(b"Expect: 100-continue")),
    accept(EXPECT, "100-continue and a length of 0", post(b"Expect: 100-continue", b"Content-Length: 0"), Saw(POST)),
    either(EXPECT, "another expectation", get(b"Expect: x"), SEEN, status=frozenset({200, 400, 417})),
    either(EXPECT, "two expectations", get(b"Expect: 100-continue, x"), SEEN, status=frozenset({200, 400, 417})),
    accept(EXPECT, "100-continue of HTTP/1.0 is ignored", old(b"Expect: 100-continue", b"Content-Length: 3", line=b"POST /r/@@ HTTP/1.0") + b"abc", Saw(POST, b"abc"),
           after="closed"),
]  # fmt: skip

CASES += [
    Case("RFC 9112 §9.6", "a client that half-closes gets its answer", get(), (OK,), "closed", (SEEN,), fin=True),
    Case("RFC 9112 §9.6", "a POST, half-closed", post(b"Content-Length: 3", body=b"abc"), (OK,), "closed", (Saw(POST, b"abc"),), fin=True),
    Case("RFC 9112 §9.6", "chunks, half-closed", post(b"Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n"), (OK,), "closed", (Saw(POST, b"abc"),), fin=True),
    Case("RFC 9112 §9.6", "three requests, half-closed", get() * 3, (OK,) * 3, "closed", (SEEN,) * 3, fin=True),
    Case("RFC 9112 §9.6", "HTTP/1.0, half-closed", old(), (OK,), "closed", (SEEN,), fin=True),
    Case("RFC 9112 §9.6", "a 404, half-closed", head(LOST), (MISSING,), "closed", (), fin=True),
    Case("RFC 9112 §9.6", "nothing at all", b"", (), "closed", (), fin=True),
    Case("RFC 9112 §9.6", "an empty line and nothing else", b"\r\n", (CUT,), "closed", (), fin=True),
]  # fmt: skip
WHOLE = get(b"X-A: 1")
CASES += [Case(FIN, f"the stream ends after {at} bytes of a header", WHOLE[:at], (CUT,), "closed", (), fin=True) for at in range(1, len(WHOLE), 3)]
