"""RFC 9112 §6: how long a body is; RFC 9110 §8.6: Content-Length. Who reads it in two ways can be made to smuggle."""

from .case import BAD, LENIENT, OK, Case, Saw, accept, either, get, head, post, refuse

LENGTH, CODING, BOTH, SMUGGLE = "RFC 9110 §8.6", "RFC 9112 §6.1", "RFC 9112 §6.3", "RFC 9112 §11.2"
POST = b"POST /r/@@ HTTP/1.1"
UNKNOWN = frozenset({400, 501})
CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"
VICTIM = b"GET /r/victim/@@ HTTP/1.1\r\nHost: a.test\r\n\r\n"


def sized(value, body=b"abc"):
    return post(b"Content-Length: " + value, body=body)


def coded(*values, body=CHUNKS):
    return post(*(b"Transfer-Encoding: " + value for value in values), body=body)


def posted(body=b"abc", **more):
    return Saw(POST, body, **more)


CASES = [
    accept(LENGTH, "three bytes", sized(b"3"), posted()),
    accept(LENGTH, "no bytes", sized(b"0", b""), posted(b"")),
    accept(LENGTH, "a POST without a length", post(), posted(b"")),
    accept(LENGTH, "a PUT without a length", head(b"PUT /r/@@ HTTP/1.1"), Saw(b"PUT /r/@@ HTTP/1.1")),
    accept(LENGTH, "GET with a length of 0", get(b"Content-Length: 0")),
    accept(LENGTH, "bytes of every value", sized(b"256", bytes(range(256))), posted(bytes(range(256)))),
    accept(LENGTH, "a body that looks like a request", sized(b"%d" % len(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
           posted(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")),
    accept(LENGTH, "40,000 bytes", sized(b"40000", b"b" * 40_000), posted(b"b" * 40_000)),
    accept(LENGTH, "200,000 bytes", sized(b"200000", b"b" * 200_000), posted(b"b" * 200_000)),
    accept(LENGTH, "spaces around it", sized(b"  3  "), posted()),
    accept("RFC 9110 §5.1", "content-length", post(b"content-length: 3", body=b"abc"), posted()),
    accept("RFC 9110 §5.1", "CONTENT-LENGTH", post(b"CONTENT-LENGTH: 3", body=b"abc"), posted()),
    either(LENGTH, "leading zeros", sized(b"0003"), posted()),
    either(LENGTH, "forty leading zeros", sized(b"0" * 40 + b"3"), posted()),
    either(LENGTH, "a list of equal lengths", sized(b"3, 3"), posted()),
    either(LENGTH, "two equal lengths", post(b"Content-Length: 3", b"Content-Length: 3", body=b"abc"), posted()),
    Case(LENGTH, "a second request after the body", sized(b"3") + get(), (OK, OK), "open", (posted(), Saw(b"GET /r/@@ HTTP/1.1"))),
    Case(LENGTH, "the length ends within what follows", sized(b"3", b"abcGET /r/@@ HTTP/1.1\r\nHost: a.test\r\n\r\n"), (OK, OK), "open",
         (posted(), Saw(b"GET /r/@@ HTTP/1.1"))),
    refuse(LENGTH, "more than body_size", sized(b"2199023255552", b""), frozenset({413}), after="any"),
    Case(LENGTH, "fewer bytes than announced", sized(b"10"), (frozenset({0, 400, 408}),), "closed", fin=True),
    Case(LENGTH, "no byte of what was announced", sized(b"10", b""), (frozenset({0, 400, 408}),), "closed", fin=True),
    # The rest is the next request, and it is broken.
    Case(LENGTH, "more bytes than announced", sized(b"3", b"abcdef\r\n\r\n"), (OK, BAD), "closed", (posted(),)),
]  # fmt: skip
CASES += [
    refuse(LENGTH, f"Content-Length: {value.decode('latin-1')!r}", sized(value))
    for value in (
        b"", b"+3", b"-3", b"-0", b"3.0", b"3e0", b"0x3", b"3 3", b"3;", b"3;x=1", b'"3"', b"3,", b",3", b",", b"3,4", b"3, 4", b"3,,4", b"three", b"\xd9\xa3", b"\xb3",
        b"3\x0b", b"3\x0c", b"\x0b3", b"3_0", b"1,3", b"3 ,x", b"18446744073709551616", b"18446744073709551619",
        b"99999999999999999999999999", b"NaN", b"inf", b"3L", b"0b11", b"3\xa0",
    )
]  # fmt: skip
CASES += [
    refuse(LENGTH, "2^64 - 1", sized(b"18446744073709551615", b""), frozenset({400, 413}), after="any"),
    refuse(LENGTH, "2^63", sized(b"9223372036854775808", b""), frozenset({400, 413}), after="any"),
]
CASES += [
    refuse(LENGTH, f"two lengths, {first.decode()} and {second.decode()}", post(b"Content-Length: " + first, b"Content-Length: " + second, body=b"abcd"))
    for first, second in ((b"3", b"4"), (b"4", b"3"), (b"0", b"3"), (b"3", b"0"), (b"3", b"x"), (b"x", b"3"), (b"3", b"3, 4"), (b"3", b""))
]
CASES += [
    refuse(LENGTH, f"no Content-Length: {name.decode('latin-1')!r}", post(name + b": 3", body=b"abc"))
    for name in (b"Content-Length ", b"Content-Length\t", b"Content-Length\x0b", b"Content-Length\0", b" Content-Length", b"Content Length", b"Content-Length\xa0")
]

CASES += [
    accept(CODING, "chunked", coded(b"chunked"), posted()),
    accept("RFC 9110 §5.6.2", "Chunked", coded(b"Chunked"), posted()),
    accept("RFC 9110 §5.6.2", "CHUNKED", coded(b"CHUNKED"), posted()),
    accept(CODING, "spaces around it", coded(b"  chunked\t "), posted()),
    accept(CODING, "GET", get(b"Transfer-Encoding: chunked") + CHUNKS, Saw(b"GET /r/@@ HTTP/1.1", b"abc")),
    accept("RFC 9110 §5.1", "TRANSFER-ENCODING", post(b"TRANSFER-ENCODING: chunked", body=CHUNKS), posted()),
    either("RFC 9110 §5.6.1", "an empty member before it", coded(b", chunked"), posted(), status=frozenset({200, 400, 501})),
    either("RFC 9110 §5.6.1", "an empty member after it", coded(b"chunked,"), posted(), status=frozenset({200, 400, 501})),
    either("RFC 9110 §5.6.1", "an empty line before it", coded(b"", b"chunked"), posted(), status=frozenset({200, 400, 501})),
    refuse(BOTH, "the first HTTP/1.0 had no codings", head(b"POST /r/@@ HTTP/1.0", b"Transfer-Encoding: chunked") + CHUNKS, UNKNOWN),
    Case(CODING, "a further request after the chunks", coded(b"chunked") + get(), (OK, OK), "open", (posted(), Saw(b"GET /r/@@ HTTP/1.1"))),
]  # fmt: skip
CASES += [
    refuse(CODING, f"Transfer-Encoding: {value.decode('latin-1')!r}", coded(value), UNKNOWN)
    for value in (
        b"", b"identity", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, identity", b"identity, chunked", b"chunked, chunked", b"chunked,chunked", b"xchunked",
        b"chunkedx", b"chunke", b"chunked;q=1", b"chunked; a=b", b'"chunked"', b"'chunked'", b"chun ked", b"chunked chunked", b"chunked\x0b", b"chunked\x0c", b"\x0bchunked",
        b"\xa0chunked", b"chunked\x00", b"chunk\xc3\xa9d", b"ch\xc3\xbcnked", b"chunked\x1f", b"deflate", b"compress, chunked", b"x, chunked", b"chunked, x", b"*",
        b"trailers", b"none", b"0", b"chunked\\", b"(chunked)", b"chunked=1",
    )
]  # fmt: skip
CASES += [
    refuse(CODING, f"two lines, {first.decode()!r} and {second.decode()!r}", coded(first, second), UNKNOWN)
    for first, second in (
        (b"chunked", b"chunked"), (b"identity", b"chunked"), (b"chunked", b"identity"), (b"gzip", b"chunked"), (b"chunked", b"gzip"), (b"x", b"chunked"), (b"chunked", b"x"),
    )
]  # fmt: skip
CASES += [
    refuse(CODING, f"no Transfer-Encoding: {name.decode('latin-1')!r}", post(name + b": chunked", body=CHUNKS))
    for name in (b"Transfer-Encoding ", b"Transfer-Encoding\t", b"Transfer-Encoding\0", b" Transfer-Encoding", b"Transfer Encoding", b"Transfer-Encoding\x0b")
]
# Another name is another field: there is no body then, and what follows is no request.
CASES += [
    Case(CODING, f"{name.decode()} says nothing", post(name + b": chunked", body=CHUNKS), (OK, BAD), "closed", (Saw(POST),))
    for name in (b"X-Transfer-Encoding", b"Transfer-Encodings", b"Content-Transfer-Encoding", b"TransferEncoding")
]
CASES += [
    Case(CODING, "Transfer_Encoding says nothing, or is refused", post(b"Transfer_Encoding: chunked", body=CHUNKS), (LENIENT, frozenset({0, 400})), "closed", (Saw(POST),)),
    Case(LENGTH, "Content_Length says nothing, or is refused", post(b"Content_Length: 3", body=b"abc\r\n\r\n"), (LENIENT, frozenset({0, 400})), "closed", (Saw(POST),)),
]

# Both lengths: refused, or the chunks count, and the connection ends.
for order, fields in (
    ("Content-Length first", (b"Content-Length: 3", b"Transfer-Encoding: chunked")),
    ("Transfer-Encoding first", (b"Transfer-Encoding: chunked", b"Content-Length: 3")),
    ("far apart", (b"Content-Length: 3", b"X-A: 1", b"X-B: 2", b"Transfer-Encoding: chunked")),
    ("Content-Length: 0", (b"Content-Length: 0", b"Transfer-Encoding: chunked")),
    ("in capitals", (b"CONTENT-LENGTH: 3", b"TRANSFER-ENCODING: CHUNKED")),
):
    CASES += [
        Case(BOTH, f"both lengths, {order}", post(*fields, body=CHUNKS), (LENIENT,), "closed", (posted(),)),
        Case(SMUGGLE, f"both lengths and a hidden request, {order}", post(*fields, body=b"0\r\n\r\n" + VICTIM), (LENIENT,), "closed", (posted(b""),)),
    ]
CASES += [
    refuse(BOTH, "both lengths, an unknown coding", post(b"Content-Length: 3", b"Transfer-Encoding: xchunked", body=b"abc"), UNKNOWN),
    refuse(BOTH, "both lengths in HTTP/1.0", head(b"POST /r/@@ HTTP/1.0", b"Content-Length: 3", b"Transfer-Encoding: chunked") + CHUNKS, UNKNOWN),
    refuse(BOTH, "a broken length beside chunks", post(b"Content-Length: x", b"Transfer-Encoding: chunked", body=CHUNKS), BAD),
    Case(SMUGGLE, "an empty POST and a request", sized(b"0", b"") + VICTIM, (OK, OK), "open", (posted(b""), Saw(b"GET /r/victim/@@ HTTP/1.1"))),
]  # fmt: skip
