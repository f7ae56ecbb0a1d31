"""RFC 9112 §2.2, §2.3, §3: the request line; RFC 9110 §9: methods."""

from .case import BAD, HOST, NONE, OK, Case, Saw, accept, either, get, head, refuse, shown

LINE, VERSION, METHOD, START = "RFC 9112 §3", "RFC 9112 §2.3", "RFC 9110 §9.1", "RFC 9112 §2.2"
NOT_HTTP = frozenset({400, 505})
DELIMITERS = b'"(),/:;<=>?@[\\]{}'
TCHARS = b"!#$%&'*+-.^_`|~0"


def line(text):
    return head(text)


CASES = [
    accept(LINE, "the plain request", get()),
    accept(START, "an empty line before the request", b"\r\n" + get()),
    either(START, "two empty lines before the request", b"\r\n\r\n" + get()),
    either(START, "a bare LF before the request", b"\n" + get()),
    refuse(START, "a bare CR before the request", b"\r" + get()),
    refuse(START, "a space before the request", b" " + get()),
    refuse(START, "a tab before the request", b"\t" + get()),
    refuse(START, "a zero byte before the request", b"\0" + get()),
    refuse(START, "a byte order mark before the request", b"\xef\xbb\xbf" + get()),
    either(START, "lines that end with a bare LF", get().replace(b"\r\n", b"\n")),
    either(START, "a request line that ends with a bare LF", get().replace(b"\r\n", b"\n", 1)),
    either(START, "the end of the header is a bare LF", get()[:-2] + b"\n"),
    refuse(START, "a request line that ends with a bare CR", b"GET /r/@@ HTTP/1.1\r" + HOST + b"\r\n"),
    refuse(START, "CR CR LF at the end of the request line", b"GET /r/@@ HTTP/1.1\r\r\n" + HOST + b"\r\n"),
    refuse(START, "a bare CR within the target", line(b"GET /r/@@\rx HTTP/1.1")),
    refuse(START, "a bare CR in place of a space", line(b"GET\r/r/@@ HTTP/1.1")),
    refuse(START, "white space before the first field", b"GET /r/@@ HTTP/1.1\r\n Host: a.test\r\n\r\n"),
    refuse(START, "a line of spaces before the first field", b"GET /r/@@ HTTP/1.1\r\n \r\nHost: a.test\r\n\r\n"),
    either(LINE, "two spaces after the method", line(b"GET  /r/@@ HTTP/1.1")),
    either(LINE, "two spaces before the version", line(b"GET /r/@@  HTTP/1.1")),
    either(LINE, "a tab after the method", line(b"GET\t/r/@@ HTTP/1.1")),
    either(LINE, "a tab before the version", line(b"GET /r/@@\tHTTP/1.1")),
    either(LINE, "a space at the end", line(b"GET /r/@@ HTTP/1.1 ")),
    either(LINE, "a tab at the end", line(b"GET /r/@@ HTTP/1.1\t")),
    refuse(LINE, "a vertical tab after the method", line(b"GET\x0b/r/@@ HTTP/1.1")),
    refuse(LINE, "a form feed before the version", line(b"GET /r/@@\x0cHTTP/1.1")),
    refuse(LINE, "four words", line(b"GET /r/@@ x HTTP/1.1")),
    refuse(LINE, "no version, as in HTTP/0.9", b"GET /r/@@\r\n\r\n", NOT_HTTP),
    refuse(LINE, "no target", line(b"GET HTTP/1.1")),
    refuse(LINE, "an empty target", line(b"GET  HTTP/1.1")),
    refuse(LINE, "no method", line(b" /r/@@ HTTP/1.1")),
    refuse(LINE, "a method and nothing else", b"GET\r\n\r\n"),
    refuse(LINE, "an answer in place of a request", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    refuse(LINE, "a request in quotes", line(b'"GET /r/@@ HTTP/1.1"')),
    accept(LINE, "a request line of 8,000 bytes", line(b"GET /r/@@?" + b"x" * 8000 + b" HTTP/1.1"),
           Saw(b"GET /r/@@?" + b"x" * 8000 + b" HTTP/1.1")),
    accept(LINE, "a request line of 30,000 bytes", line(b"GET /r/@@?" + b"x" * 30_000 + b" HTTP/1.1"),
           Saw(b"GET /r/@@?" + b"x" * 30_000 + b" HTTP/1.1")),
    refuse(LINE, "a request line of 40,000 bytes", line(b"GET /r/@@?" + b"x" * 40_000 + b" HTTP/1.1"), frozenset({414, 431})),
    refuse(LINE, "a method of 40,000 bytes", line(b"G" * 40_000 + b" /r/@@ HTTP/1.1"), frozenset({400, 414, 431, 501})),
    refuse(LINE, "70,000 bytes without an end of line", b"G" * 70_000, frozenset({400, 414, 431, 501})),
    # §3.4 of RFC 9113: the preface itself is HTTP/2, and tests/e2e/test_http2.py's.
    refuse(VERSION, "a preface of another version", b"PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n", frozenset({400, 505, NONE})),
    refuse(VERSION, "a ClientHello of TLS",
           b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(range(32)) + b"\0\0\x20\x13\x02\r\n\r\n", frozenset({400, NONE})),
    refuse(VERSION, "the header of the PROXY protocol", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + get(), NOT_HTTP),
    accept(VERSION, "HTTP/1.2 is treated as HTTP/1.1", get(version=b"HTTP/1.2")),
    accept(VERSION, "HTTP/1.9 is treated as HTTP/1.1", get(version=b"HTTP/1.9")),
]  # fmt: skip

CASES += [
    refuse(VERSION, f"version {version!r}", line(b"GET /r/@@ " + version), NOT_HTTP)
    for version in (
        b"http/1.1", b"Http/1.1", b"HTTP/1.1.1", b"HTTP/1.", b"HTTP/.1", b"HTTP/1", b"HTTP/11", b"HTTP/1.10", b"HTTP/01.1", b"HTTP/1.01",
        b"HTTP /1.1", b"HTTP/ 1.1", b"HTTP/1 .1", b"HTTP/1.1 x", b"HTTP/+1.1", b"HTTP/1,1", b"HTTP/2.0", b"HTTP/2", b"HTTP/3.0",
        b"HTTP/0.9", b"HTTP/0.1", b"HTTP/9.9", b"HTTP/-1.1", b"HTTP/x.y", b"HTTP/1.x", b"HTTP/\xb2.\xb9", b"HTTPS/1.1", b"FTP/1.1",
        b"HTTP-1.1", b"HTTP\\1.1", b"HTP/1.1", b"XHTTP/1.1", b"\xe2\x80\x8bHTTP/1.1", b"HTTP/1.1\0",
    )
]  # fmt: skip

# RFC 9110 §9.1: a method is a token and case-sensitive; what the gateway does not know, the service may.
CASES += [
    accept(METHOD, f"method {method.decode()}", head(method + b" /r/@@ HTTP/1.1"), Saw(method + b" /r/@@ HTTP/1.1"), methods=(method.decode(),))
    for method in (
        b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"PROPFIND", b"PROPPATCH", b"MKCOL", b"COPY", b"MOVE", b"LOCK",
        b"UNLOCK", b"REPORT", b"SEARCH", b"QUERY", b"LINK", b"PURGE", b"get", b"Get", b"gET", b"BREW", b"X", b"CONNECTX", b"PRI",
        b"M-SEARCH", b"VERSION-CONTROL", b"G" * 64,
    )
]  # fmt: skip
CASES += [
    accept(METHOD, f"a method with {shown(byte)}", head(b"X%cY /r/@@ HTTP/1.1" % byte), Saw(b"X%cY /r/@@ HTTP/1.1" % byte)) for byte in TCHARS
]
CASES += [refuse(METHOD, f"a method with {shown(byte)}", head(b"X%cY /r/@@ HTTP/1.1" % byte), BAD) for byte in DELIMITERS]
CASES += [
    refuse(METHOD, f"a method with {shown(byte)}", head(b"X%cY /r/@@ HTTP/1.1" % byte), BAD)
    for byte in (*range(0, 9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F, 0x80, 0xFF)
]

CONNECT = frozenset({400, 405, 501})
CASES += [
    refuse("RFC 9110 §9.3.6", f"CONNECT {target.decode()}", head(b"CONNECT " + target + b" HTTP/1.1"), CONNECT, after="any")
    for target in (b"a.test:80", b"a.test", b"/r/@@", b"http://a.test/r/@@", b"*", b"[::1]:80", b"127.0.0.1:22")
]
TRACED = frozenset({200, 400, 405, 501})
CASES += [
    Case("RFC 9110 §9.3.8", "TRACE", head(b"TRACE /r/@@ HTTP/1.1"), (TRACED,), "any", (Saw(b"TRACE /r/@@ HTTP/1.1"),)),
    Case("RFC 9110 §9.3.8", "TRACE with a body", head(b"TRACE /r/@@ HTTP/1.1", b"Content-Length: 3") + b"abc", (TRACED,), "any",
         (Saw(b"TRACE /r/@@ HTTP/1.1", None),)),
    Case("RFC 9110 §7.6.2", "TRACE with Max-Forwards: 0 goes no further", head(b"TRACE /r/@@ HTTP/1.1", b"Max-Forwards: 0"),
         (frozenset({200, 405, 501}),), "any"),
    Case("RFC 9110 §7.6.2", "TRACE with Max-Forwards: 3", head(b"TRACE /r/@@ HTTP/1.1", b"Max-Forwards: 3"), (TRACED,), "any",
         (Saw(b"TRACE /r/@@ HTTP/1.1", has={b"max-forwards": b"2"}),)),
    Case("RFC 9110 §7.6.2", "OPTIONS with Max-Forwards: 0 goes no further", head(b"OPTIONS /r/@@ HTTP/1.1", b"Max-Forwards: 0"),
         (frozenset({200, 204}),), "open"),
    accept("RFC 9110 §7.6.2", "OPTIONS with Max-Forwards: 1", head(b"OPTIONS /r/@@ HTTP/1.1", b"Max-Forwards: 1"),
           Saw(b"OPTIONS /r/@@ HTTP/1.1", has={b"max-forwards": b"0"})),
    accept("RFC 9110 §7.6.2", "OPTIONS with Max-Forwards: 10", head(b"OPTIONS /r/@@ HTTP/1.1", b"Max-Forwards: 10"),
           Saw(b"OPTIONS /r/@@ HTTP/1.1", has={b"max-forwards": b"9"})),
    accept("RFC 9110 §7.6.2", "Max-Forwards means nothing to GET", get(b"Max-Forwards: 0"), Saw(b"GET /r/@@ HTTP/1.1", has={b"max-forwards": b"0"})),
    either("RFC 9110 §7.6.2", "OPTIONS with Max-Forwards: x", head(b"OPTIONS /r/@@ HTTP/1.1", b"Max-Forwards: x"), Saw(b"OPTIONS /r/@@ HTTP/1.1")),
    either("RFC 9110 §7.6.2", "OPTIONS with Max-Forwards: -1", head(b"OPTIONS /r/@@ HTTP/1.1", b"Max-Forwards: -1"), Saw(b"OPTIONS /r/@@ HTTP/1.1")),
    accept("RFC 9110 §9.3.2", "HEAD and then GET", head(b"HEAD /r/@@ HTTP/1.1"), Saw(b"HEAD /r/@@ HTTP/1.1"), methods=("HEAD",)),
    accept("RFC 9110 §9.3.1", "GET with content", get(b"Content-Length: 5") + b"hello", Saw(b"GET /r/@@ HTTP/1.1", b"hello")),
    accept("RFC 9110 §9.3.5", "DELETE with content", head(b"DELETE /r/@@ HTTP/1.1", b"Content-Length: 5") + b"hello",
           Saw(b"DELETE /r/@@ HTTP/1.1", b"hello")),
    accept("RFC 9110 §9.3.2", "HEAD with content", head(b"HEAD /r/@@ HTTP/1.1", b"Content-Length: 5") + b"hello",
           Saw(b"HEAD /r/@@ HTTP/1.1", b"hello"), methods=("HEAD",)),
    accept("RFC 9110 §9.3.7", "OPTIONS with content", head(b"OPTIONS /r/@@ HTTP/1.1", b"Content-Length: 5") + b"hello",
           Saw(b"OPTIONS /r/@@ HTTP/1.1", b"hello"), status=OK),
]  # fmt: skip
