"""RFC 9112 §7.1: chunks, extensions, trailers."""

from .case import OK, Case, Saw, accept, either, get, post, refuse, shown

SIZE, EXTENSION, DATA, TRAILERS, SMUGGLE = "RFC 9112 §7.1", "RFC 9112 §7.1.1", "RFC 9112 §7.1", "RFC 9112 §7.1.2", "RFC 9112 §11.2"
POST = b"POST /r/@@ HTTP/1.1"
END = b"0\r\n\r\n"
VICTIM = b"POST /r/victim/@@ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"
TOO_MUCH = frozenset({400, 431})


def chunked(body, *fields):
    return post(b"Transfer-Encoding: chunked", *fields, body=body)


def posted(body=b"hello", **more):
    return Saw(POST, body, **more)


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


CASES = [
    accept(SIZE, f"size {size.decode('latin-1')!r}", chunked(size + b"\r\nhello\r\n" + END), posted())
    for size in (b"5", b"05", b"0005", b"000000000000005")
]  # fmt: skip
CASES += [either(SIZE, f"size {size!r}", chunked(size + b"\r\nhello\r\n" + END), posted()) for size in (b"0" * 16 + b"5", b"0" * 40 + b"5")]
CASES += [
    accept(SIZE, "no chunk", chunked(END), posted(b"")),
    accept(SIZE, "the last chunk is 000", chunked(chunk(b"hello") + b"000\r\n\r\n"), posted()),
    accept(SIZE, "hexadecimal a", chunked(b"a\r\n0123456789\r\n" + END), posted(b"0123456789")),
    accept(SIZE, "hexadecimal A", chunked(b"A\r\n0123456789\r\n" + END), posted(b"0123456789")),
    accept(SIZE, "hexadecimal 1F", chunked(b"1F\r\n" + b"x" * 31 + b"\r\n" + END), posted(b"x" * 31)),
    accept(SIZE, "chunks of one byte", chunked(b"".join(chunk(b"x") for _ in range(200)) + END), posted(b"x" * 200)),
    accept(SIZE, "a chunk of 100,000 bytes", chunked(chunk(b"x" * 100_000) + END), posted(b"x" * 100_000)),
    accept(DATA, "a chunk that looks like the end", chunked(chunk(b"0\r\n\r\n") + END), posted(b"0\r\n\r\n")),
    accept(DATA, "CR LF as data", chunked(chunk(b"\r\n") + END), posted(b"\r\n")),
    Case(DATA, "two requests with chunks", chunked(chunk(b"hello") + END) * 2, (OK, OK), "open", (posted(), posted())),
    Case(SIZE, "the stream ends within a size", chunked(b"5"), (frozenset({0, 400, 408}),), "closed", fin=True),
    Case(SIZE, "the stream ends within a chunk", chunked(b"5\r\nhel"), (frozenset({0, 400, 408}),), "closed", fin=True),
    Case(SIZE, "the stream ends before the last chunk", chunked(chunk(b"hello")), (frozenset({0, 400, 408}),), "closed", fin=True),
    Case(SIZE, "the stream ends within the last chunk", chunked(chunk(b"hello") + b"0\r\n"), (frozenset({0, 400, 408}),), "closed", fin=True),
    Case(SIZE, "the stream ends within the trailers", chunked(chunk(b"hello") + b"0\r\nX-A: 1\r\n"), (frozenset({0, 400, 408}),), "closed", fin=True),
]  # fmt: skip
CASES += [
    refuse(SIZE, f"size {size!r}", chunked(size + b"\r\nhello\r\n" + END))
    for size in (
        b"", b"g", b"x5", b"5x", b"-5", b"+5", b"0x5", b"0X5", b"5h", b"5.0", b"5,", b"5 5", b"\x0b5", b"5\x0b", b"5\x0c", b"5\0", b"\0", b"\xb5", b"\xd9\xa5", b"five", b"5_",
        b"10000000000000005", b"fffffffffffffffff", b"100000000000000000000000000000005",
        b"5\r", b"\r5", b"--5", b'"5"', b"5=1", b":5", b"0-5",
    )
]  # fmt: skip
# These may be waited for: they are sizes, if no machine has so much.
CASES += [
    Case(SIZE, f"size {size!r}", chunked(size + b"\r\nhello\r\n" + END), (frozenset({0, 400, 408, 413}),), "closed", fin=True)
    for size in (b"ffffffffffffffff", b"FFFFFFFFFFFFFFFF", b"8000000000000000", b"7fffffffffffffff", b"ffffffff", b"80000000")
]
CASES += [
    refuse(SIZE, "a space before the size", chunked(b" 5\r\nhello\r\n" + END)),
    refuse(SIZE, "a tab before the size", chunked(b"\t5\r\nhello\r\n" + END)),
    either(SIZE, "a space after the size", chunked(b"5 \r\nhello\r\n" + END), posted()),
    either(SIZE, "a tab after the size", chunked(b"5\t\r\nhello\r\n" + END), posted()),
    refuse(SIZE, "a bare LF after the size", chunked(b"5\nhello\r\n" + END)),
    refuse(SIZE, "a bare CR after the size", chunked(b"5\rhello\r\n" + END)),
    refuse(SIZE, "LF CR after the size", chunked(b"5\n\rhello\r\n" + END)),
    refuse(DATA, "a bare LF after the data", chunked(b"5\r\nhello\n" + END)),
    refuse(DATA, "a bare CR after the data", chunked(b"5\r\nhello\r" + END)),
    refuse(DATA, "nothing after the data", chunked(b"5\r\nhello" + END)),
    refuse(DATA, "more data than announced", chunked(b"5\r\nhello!\r\n" + END)),
    refuse(DATA, "less data than announced", chunked(b"6\r\nhello\r\n" + END + b"\r\n\r\n")),
    refuse(DATA, "a space after the data", chunked(b"5\r\nhello \r\n" + END)),
    refuse(SIZE, "a bare LF after the last chunk", chunked(chunk(b"hello") + b"0\n\r\n")),
    refuse(SIZE, "an empty line in place of the last chunk", chunked(chunk(b"hello") + b"\r\n\r\n")),
    refuse(SIZE, "a minus before the last chunk", chunked(chunk(b"hello") + b"-0\r\n\r\n")),
]  # fmt: skip
CASES += [
    accept(EXTENSION, f"extension {text.decode()!r}", chunked(b"5" + text + b"\r\nhello\r\n" + END), posted())
    for text in (b";a", b";a=b", b";a=b;c=d", b';a="b c"', b';a="\\""', b";a=" + b"x" * 100)
]  # fmt: skip
CASES += [
    either(EXTENSION, f"extension {text!r}", chunked(b"5" + text + b"\r\nhello\r\n" + END), posted())
    for text in (b" ;a", b"; a", b"; a = b", b";", b";;", b";=", b";a=", b';a="b', b";a=\x80", b";a\tb", b';a="\t"')
]  # fmt: skip
CASES += [
    refuse(EXTENSION, f"extension {text!r}", chunked(b"5" + text + b"\r\nhello\r\n" + END))
    for text in (b";a\n", b";a=b\nX: c", b";\n", b";a\r", b";a=\rb", b';a="\n"', b';a="\r"', b";\nhello\r\n0\r\n\r\n")
]  # fmt: skip
CASES += [
    either(EXTENSION, "a zero byte in an extension", chunked(b"5;a=\0\r\nhello\r\n" + END), posted()),
    accept(EXTENSION, "an extension of the last chunk", chunked(chunk(b"hello") + b"0;a=b\r\n\r\n"), posted()),
    refuse(EXTENSION, "a bare LF in an extension of the last chunk", chunked(chunk(b"hello") + b"0;a\n\r\n\r\n")),
    refuse(EXTENSION, "an extension of 100,000 bytes", chunked(b"5;" + b"a" * 100_000 + b"\r\nhello\r\n" + END), TOO_MUCH),
    refuse(EXTENSION, "extensions of 100,000 bytes together", chunked(b"".join(b"1;" + b"a" * 1000 + b"\r\nx\r\n" for _ in range(100)) + END), TOO_MUCH),
]  # fmt: skip

# RFC 9110 §6.5.1: what routes, frames, identifies or authorises does not belong into trailers.
CASES += [
    accept(TRAILERS, "a trailer", chunked(chunk(b"hello") + b"0\r\nX-Checksum: 1\r\n\r\n", b"Trailer: X-Checksum"), posted()),
    accept(TRAILERS, "a trailer without announcement", chunked(chunk(b"hello") + b"0\r\nX-Checksum: 1\r\n\r\n"), posted()),
    accept(TRAILERS, "three trailers", chunked(chunk(b"hello") + b"0\r\nX-A: 1\r\nX-B: 2\r\nX-A: 3\r\n\r\n"), posted()),
    accept(TRAILERS, "trailers of no chunk", chunked(b"0\r\nX-A: 1\r\n\r\n"), posted(b"")),
    Case(TRAILERS, "a request after trailers", chunked(b"0\r\nX-A: 1\r\n\r\n") + get(), (OK, OK), "open", (posted(b""), Saw(b"GET /r/@@ HTTP/1.1"))),
]  # fmt: skip
CASES += [
    either("RFC 9110 §6.5.1", f"{line.split(b':')[0].decode()} as a trailer", chunked(chunk(b"hello") + b"0\r\n" + line + b"\r\n\r\n",
           b"Trailer: " + line.split(b":")[0]), posted(lacks=(b"trailer:" + line.split(b":")[0].lower(),)))
    for line in (
        b"Host: evil.test", b"Content-Length: 100", b"Transfer-Encoding: chunked", b"Connection: close", b"Authorization: Basic eDp5", b"Cookie: a=evil",
        b"Content-Type: text/evil", b"Content-Encoding: gzip", b"Content-Range: bytes 0-1/2", b"X-Forwarded-For: 6.6.6.6", b"Forwarded: for=6.6.6.6",
        b"X-Forwarded-Host: evil", b"X-Forwarded-Proto: https", b"X-Request-Id: evil", b"Upgrade: websocket", b"Expect: 100-continue", b"TE: trailers",
        b"Proxy-Authorization: x", b"Via: 1.1 evil", b"Max-Forwards: 0", b"Range: bytes=0-0", b"If-None-Match: *", b"Cache-Control: no-store", b"Keep-Alive: 1",
        b"Trailer: x", b"Set-Cookie: a=b", b"X-Real-IP: 6.6.6.6",
    )
]  # fmt: skip
# A bare LF here ends the section for one reader and not for another.
CASES += [
    Case(SMUGGLE, f"{name} and then a request", chunked(chunk(b"hello") + text + VICTIM), (frozenset({400}),), "closed", ())
    for name, text in (
        ("0 CR LF LF", b"0\r\n\n"), ("0 LF LF", b"0\n\n"), ("0 LF CR LF", b"0\n\r\n"), ("a trailer, CR LF LF", b"0\r\nX: a\r\n\n"), ("a trailer, LF LF", b"0\r\nX: a\n\n"),
        ("a trailer, LF CR LF", b"0\r\nX: a\n\r\n"), ("a trailer, LF, a trailer", b"0\r\nX: a\nY: b\r\n\r\n"), ("a trailer, CR", b"0\r\nX: a\rY: b\r\n\r\n"),
        ("0 CR CR LF", b"0\r\n\r\r\n"), ("a LF before a trailer", b"0\r\n\nX: a\r\n\r\n"), ("an empty chunk line", b"\r\n0\r\n\r\n"),
    )
]  # fmt: skip
CASES += [
    refuse(TRAILERS, name, chunked(chunk(b"hello") + b"0\r\n" + text + b"\r\n\r\n"))
    for name, text in (
        ("no colon", b"X-A"), ("a space before the colon", b"X-A : 1"), ("no name", b": 1"), ("a space in the name", b"X A: 1"), ("a fold", b"X-A: 1\r\n 2"),
        ("white space first", b" X-A: 1"), ("a zero byte", b"X-A: \0"), ("a zero byte in the name", b"X\0A: 1"), ("a bare CR", b"X-A: a\rb"), ("brackets in the name", b"X[A]: 1"),
        ("a request line", b"GET /r/victim/@@ HTTP/1.1"), ("a byte from 0x80 in the name", b"X\x80: 1"),
    )
]  # fmt: skip
CASES += [
    refuse(TRAILERS, "trailers of 100,000 bytes", chunked(chunk(b"hello") + b"0\r\nX-A: " + b"v" * 100_000 + b"\r\n\r\n"), TOO_MUCH),
    refuse(TRAILERS, "5,000 trailers", chunked(chunk(b"hello") + b"0\r\n" + b"X: 1\r\n" * 5000 + b"\r\n"), TOO_MUCH),
]
# Whatever byte stands in the place of the CR LF after a chunk's data: it is no end.
CASES += [
    refuse(DATA, f"{shown(byte)} LF after the data", chunked(b"5\r\nhello%c\n" % byte + END)) for byte in (0, 9, 0x0B, 0x20, 0x30, 0x3B, 0x85, 0xFF)
]
CASES += [refuse(DATA, f"CR {shown(byte)} after the data", chunked(b"5\r\nhello\r%c" % byte + END)) for byte in (0, 9, 0x0D, 0x20, 0x30, 0x85)]
