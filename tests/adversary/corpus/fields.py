"""RFC 9112 §5, RFC 9110 §5: field lines; §7.6.1: what belongs to one connection; limits."""

from .case import BAD, HOST, LENIENT, OK, Case, Saw, accept, either, get, head, refuse, shown

NAMES, VALUES, LINES, FOLDS, HOPS = "RFC 9110 §5.1", "RFC 9110 §5.5", "RFC 9112 §5.1", "RFC 9112 §5.2", "RFC 9110 §7.6.1"
TOO_LARGE = frozenset({431})
GET = b"GET /r/@@ HTTP/1.1"


def has(**fields):
    return Saw(GET, has={name.replace("_", "-").encode(): value for name, value in fields.items()})


CASES = [accept(NAMES, f"a name with {shown(byte)}", get(b"X%cY: 1" % byte), Saw(GET, has={b"x%cy" % byte: b"1"})) for byte in b"!#$%&'*+-.^`|~0"]
CASES += [
    refuse(NAMES, f"a name with {shown(byte)}", get(b"X%cY: 1" % byte))
    for byte in (*b'"(),/;<=>?@[\\]{} ', *range(0, 10), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F, 0x80, 0xC3, 0xFF)
]
CASES += [
    refuse(LINES, "a space before the colon", get(b"X-A : 1")),
    refuse(LINES, "a tab before the colon", get(b"X-A\t: 1")),
    refuse(LINES, "spaces before the colon of Content-Length", get(b"Content-Length  : 3") + b"abc"),
    refuse(LINES, "no name", get(b": 1")),
    refuse(LINES, "a colon alone", get(b":")),
    refuse(LINES, "no colon", get(b"X-A")),
    refuse(LINES, "an equals sign in place of the colon", get(b"X-A=1")),
    refuse(LINES, "a further request line", get(b"GET /r/@@ HTTP/1.1")),
    accept(LINES, "no space after the colon", get(b"X-A:1"), has(x_a=b"1")),
    accept(LINES, "spaces and tabs around the value", get(b"X-A: \t 1 \t "), has(x_a=b"1")),
    accept(LINES, "colons in the value", get(b"X-A: a:b: c"), has(x_a=b"a:b: c")),
    accept(VALUES, "no value", get(b"X-A:"), has(x_a=b"")),
    accept(VALUES, "a value of spaces", get(b"X-A:    "), has(x_a=b"")),
    accept(VALUES, "a tab within", get(b"X-A: a\tb"), has(x_a=b"a\tb")),
    accept(VALUES, "spaces within", get(b"X-A: a  b"), has(x_a=b"a  b")),
    accept(VALUES, "bytes from 0x80", get(b"X-A: \x80\xff\xc3\xa9"), has(x_a=b"\x80\xff\xc3\xa9")),
    accept(VALUES, "every visible character", get(b"X-A: " + bytes(range(0x21, 0x7F))), has(x_a=bytes(range(0x21, 0x7F)))),
    accept(VALUES, "a value of 8,000 bytes", get(b"X-A: " + b"v" * 8000), has(x_a=b"v" * 8000)),
    accept(NAMES, "a name of 200 bytes", get(b"N" * 200 + b": 1"), Saw(GET, has={b"n" * 200: b"1"})),
    refuse(VALUES, "a zero byte", get(b"X-A: a\0b")),
    refuse(VALUES, "a zero byte alone", get(b"X-A: \0")),
    refuse(VALUES, "a bare CR", get(b"X-A: a\rb")),
    refuse(VALUES, "a bare CR before a name", get(b"X-A: a\rX-B: b")),
    refuse(VALUES, "a bare CR at the end", get(b"X-A: a\r")),
    either("RFC 9112 §2.2", "a field line that ends with a bare LF", head(GET, b"X-A: 1\nX-B: 2"), Saw(GET, has={b"x-a": b"1", b"x-b": b"2"})),
    either("RFC 9112 §2.2", "the last two ends are bare LF", GET + b"\r\n" + HOST + b"X-A: 1\n\n", has(x_a=b"1")),
    either("RFC 9112 §2.2", "CR LF and then a bare LF", GET + b"\r\n" + HOST + b"X-A: 1\r\n\n", has(x_a=b"1")),
    either("RFC 9112 §2.2", "LF CR LF", GET + b"\r\n" + HOST + b"X-A: 1\n\r\n", has(x_a=b"1")),
    either(FOLDS, "a folded value", get(b"X-A: a\r\n b"), Saw(GET)),
    either(FOLDS, "folded by a tab", get(b"X-A: a\r\n\tb"), Saw(GET)),
    either(FOLDS, "folded at once", get(b"X-A:\r\n b"), Saw(GET)),
    either(FOLDS, "folded twice", get(b"X-A: a\r\n b\r\n c"), Saw(GET)),
    either(FOLDS, "a fold of spaces alone", get(b"X-A: a\r\n  ", b"X-B: b"), Saw(GET)),
    either(FOLDS, "what looks like a field is folded", get(b"X-A: a\r\n Content-Length: 3"), Saw(GET, lacks=(b"content-length",))),
    refuse(FOLDS, "a folded Content-Length", get(b"Content-Length:\r\n 3") + b"abc", after="any", status=frozenset({400})),
    refuse(FOLDS, "a folded Transfer-Encoding", get(b"Transfer-Encoding:\r\n chunked") + b"0\r\n\r\n"),
    refuse(FOLDS, "a folded Transfer-Encoding, by a tab", get(b"Transfer-Encoding: chunked\r\n\t, identity") + b"0\r\n\r\n", frozenset({400, 501})),
]  # fmt: skip
# RFC 9110 §5.5: of control characters only CR, LF and NUL must not pass.
CASES += [
    either(VALUES, f"a value with {shown(byte)}", get(b"X-A: a%cb" % byte), has(x_a=b"a%cb" % byte), status=LENIENT)
    for byte in (*range(1, 9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F)
]


def many(count):
    """A request with so many fields, Host included."""
    return get(*(b"X-%d: 1" % number for number in range(count - 1)))


CASES += [
    accept("limits.header_count", "100 fields", many(100)),
    refuse("limits.header_count", "101 fields", many(101), TOO_LARGE),
    refuse("limits.header_count", "1,000 fields", many(1000), TOO_LARGE),
    refuse("limits.header_count", "5,000 fields", many(5000), TOO_LARGE),
    accept("limits.header_size", "a header of nearly 32 KiB", get(b"X-A: " + b"v" * 32_000)),
    refuse("limits.header_size", "a field of 33,000 bytes", get(b"X-A: " + b"v" * 33_000), TOO_LARGE),
    refuse("limits.header_size", "a field of 100,000 bytes", get(b"X-A: " + b"v" * 100_000), TOO_LARGE),
    refuse("limits.header_size", "a name of 40,000 bytes", get(b"X" * 40_000 + b": 1"), TOO_LARGE),
    refuse("limits.header_size", "many middling fields", get(*(b"X-%d: " % n + b"v" * 1000 for n in range(50))), TOO_LARGE),
    accept("limits.body_size", "1,024 bytes where 1 KiB is allowed", head(b"POST /r/small/@@ HTTP/1.1", b"Content-Length: 1024") + b"b" * 1024,
           Saw(b"POST /r/small/@@ HTTP/1.1", b"b" * 1024)),
    refuse("limits.body_size", "1,025 bytes where 1 KiB is allowed", head(b"POST /r/small/@@ HTTP/1.1", b"Content-Length: 1025") + b"b" * 1025,
           frozenset({413}), after="any"),
    accept("limits.body_size", "1,024 bytes in chunks where 1 KiB is allowed",
           head(b"POST /r/small/@@ HTTP/1.1", b"Transfer-Encoding: chunked") + b"200\r\n" + b"b" * 512 + b"\r\n200\r\n" + b"b" * 512 + b"\r\n0\r\n\r\n",
           Saw(b"POST /r/small/@@ HTTP/1.1", b"b" * 1024)),
    refuse("limits.body_size", "1,025 bytes in chunks where 1 KiB is allowed",
           head(b"POST /r/small/@@ HTTP/1.1", b"Transfer-Encoding: chunked") + b"401\r\n" + b"b" * 1025 + b"\r\n0\r\n\r\n", frozenset({413}), after="any"),
    refuse("limits.body_size", "1 TiB where 1 KiB is allowed", head(b"POST /r/small/@@ HTTP/1.1", b"Content-Length: 1099511627776"),
           frozenset({413}), after="any"),
]  # fmt: skip

# What belongs to one connection stays there, and what Connection names goes with it.
CASES += [
    accept(HOPS, f"{line.decode()} does not pass", get(line), Saw(GET, lacks=(line.split(b":")[0].lower(),)))
    for line in (b"Keep-Alive: timeout=5", b"Proxy-Connection: keep-alive", b"TE: gzip", b"TE: trailers", b"Upgrade: h2c", b"Upgrade: foo/2")
]
CASES += [
    accept(HOPS, "a field that Connection names", get(b"Connection: x-a", b"X-A: 1", b"X-B: 2"), Saw(GET, has={b"x-b": b"2"}, lacks=(b"x-a",))),
    accept(HOPS, "in capitals", get(b"Connection: X-A", b"x-a: 1"), Saw(GET, lacks=(b"x-a",))),
    accept(HOPS, "in a list", get(b"Connection: keep-alive , x-a,,x-b", b"X-A: 1", b"X-B: 2"), Saw(GET, lacks=(b"x-a", b"x-b"))),
    accept(HOPS, "in two Connection", get(b"Connection: x-a", b"Connection: x-b", b"X-A: 1", b"X-B: 2"), Saw(GET, lacks=(b"x-a", b"x-b"))),
    accept(HOPS, "twice", get(b"Connection: x-a", b"X-A: 1", b"X-A: 2"), Saw(GET, lacks=(b"x-a",))),
    accept(HOPS, "named before and after", get(b"X-A: 1", b"Connection: x-a", b"X-A: 2"), Saw(GET, lacks=(b"x-a",))),
    accept(HOPS, "a field that is not there", get(b"Connection: x-none", b"X-A: 1"), has(x_a=b"1")),
    # What says who asks cannot be named: a client could take off what a proxy before this one has written.
    accept(HOPS, "Cookie stays", get(b"Connection: cookie", b"Cookie: a=1"), has(cookie=b"a=1")),
    accept(HOPS, "Authorization stays", get(b"Connection: authorization", b"Authorization: Basic eDp5"), has(authorization=b"Basic eDp5")),
    accept(HOPS, "Accept-Language", get(b"Connection: accept-language", b"Accept-Language: de"), Saw(GET, lacks=(b"accept-language",))),
    accept(HOPS, "Content-Length stays", head(b"POST /r/@@ HTTP/1.1", b"Connection: content-length", b"Content-Length: 3") + b"abc",
           Saw(b"POST /r/@@ HTTP/1.1", b"abc"), status=LENIENT, after="any"),
    accept(HOPS, "Transfer-Encoding stays", head(b"POST /r/@@ HTTP/1.1", b"Connection: transfer-encoding", b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n",
           Saw(b"POST /r/@@ HTTP/1.1", b"abc"), status=LENIENT, after="any"),
    accept(HOPS, "Cache-Control", get(b"Connection: cache-control", b"Cache-Control: no-cache"), Saw(GET), status=LENIENT, after="any"),
    accept(HOPS, "Via and X-Forwarded-For are the gateway's", get(b"Connection: via, x-forwarded-for, x-request-id")),
    either(HOPS, "a Connection that is no token", get(b"Connection: x a")),
    either(HOPS, "a Connection in quotes", get(b'Connection: "close"')),
    either(HOPS, "an empty Connection", get(b"Connection:"), status=OK),
    either(HOPS, "a Connection of commas", get(b"Connection: ,,, ,"), status=OK),
    accept(HOPS, "a Connection with 500 names", get(b"Connection: " + b", ".join(b"x-%d" % n for n in range(500)), b"X-499: 1"), Saw(GET, lacks=(b"x-499",))),
]  # fmt: skip
SPOOFED = (b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"forwarded")
CASES += [
    accept("RFC 7239", f"{name.decode()} of a client is replaced", get(name + b": 6.6.6.6"), Saw(GET, lacks=(name + b"=6.6.6.6",))) for name in SPOOFED
]
CASES += [
    accept("RFC 9110 §5.3", "repeated fields keep their order", get(b"X-A: 1", b"X-B: 2", b"X-A: 3"), Saw(GET, has={b"x-a": (b"1", b"3")})),
    accept("RFC 9110 §7.6.3", "Via of a client is kept", get(b"Via: 1.0 other"), Saw(GET)),
    accept("RFC 9110 §5.1", "a field of any name passes", get(b"X-Unknown: 1", b"Sec-Fetch-Mode: cors"), Saw(GET, has={b"x-unknown": b"1", b"sec-fetch-mode": b"cors"})),
    accept("RFC 9110 §14.2", "Range passes, or is served", get(b"Range: bytes=0-3"), status=frozenset({200, 206})),
    accept("RFC 9110 §5.5", "a Cookie as it came", get(b'Cookie: a="b c"; d=e'), has(cookie=b'a="b c"; d=e')),
    Case("RFC 9110 §5.1", "underscores do not become dashes", get(b"X_Forwarded_For: 6.6.6.6"), (frozenset({200, 400}),), "any",
         (Saw(GET, lacks=(b"x_forwarded_for",)),)),
    refuse("RFC 9112 §5", "a field line of UTF-16", get(b"\xff\xfeX\0-\0A\0:\0"), BAD),
]  # fmt: skip
