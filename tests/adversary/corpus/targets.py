"""RFC 9112 §3.2, §3.3: the four forms of a target; RFC 9110 §7.2 and RFC 3986 §3.2: Host."""

from .case import BAD, LENIENT, OK, Case, Saw, accept, either, get, head, refuse, shown

ORIGIN, ABSOLUTE, AUTHORITY, ASTERISK = "RFC 9112 §3.2.1", "RFC 9112 §3.2.2", "RFC 9112 §3.2.3", "RFC 9112 §3.2.4"
HOSTS = "RFC 9112 §3.2"
ROUTED = frozenset({200, 400, 404})  # a target that is in no normal form may be refused, or have no route


def target(text, host=b"Host: a.test\r\n"):
    return head(b"GET " + text + b" HTTP/1.1", host=host)


def as_sent(text, **more):
    return Saw(b"GET " + text + b" HTTP/1.1", **more)


def hosted(value):
    return get(host=b"Host: " + value + b"\r\n")


CASES = [
    accept(ORIGIN, f"target {text.decode('latin-1')}", target(text), as_sent(text))
    for text in (
        b"/r/@@?", b"/r/@@?a=b", b"/r/@@?a=b&c=d&&", b"/r/@@?a=/../b", b"/r/@@?http://b.test/", b"/r/@@?a?b?c", b"/r/@@?%20", b"/r/@@?a=%00",
        b"/r/@@/", b"/r/@@:80", b"/r/@@;p=1", b"/r/@@/~u", b"/r/@@/a@b", b"/r/@@/a:b@c", b"/r/@@/!$&'()*+,;=", b"/r/@@/%C3%A9", b"/r/@@/%2F",
        b"/r/@@/%25", b"/r/@@/a.b", b"/r/@@/...", b"/r/@@/.hidden", b"/r/@@?" + b"&".join(b"k%d=v" % n for n in range(500)),
    )
]  # fmt: skip
CASES += [
    either(ORIGIN, f"target {text!r}, in no normal form", target(text), Saw((b"GET " + text + b" HTTP/1.1",)), status=ROUTED)
    for text in (b"/r/@@/.", b"/r/@@/%2e", b"/r/@@//x", b"/r//@@", b"/r/@@/%zz", b"/r/@@/%", b"/r/@@/%0", b"/r/@@/%00", b"/r/@@/%0d%0aX:%20y")
]
CASES += [
    either(ORIGIN, f"a target with {shown(byte)}", target(b"/r/@@%cx" % byte), as_sent(b"/r/@@%cx" % byte), status=ROUTED)
    for byte in (*b'"<>\\^`{|}[]', 0x80, 0xC3, 0xFF)
]
CASES += [refuse(ORIGIN, f"a target with {shown(byte)}", target(b"/r/@@%cx" % byte)) for byte in (*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F)]
# Dot segments mean another path: no route has it, and what is routed as one path must not be read as another.
CASES += [
    refuse(ORIGIN, f"{text.decode()} leaves its route", target(text), frozenset({400, 404}), after="any")
    for text in (b"/r/../secret/@@", b"/r/%2e%2e/secret/@@", b"/r/.%2E/secret/@@", b"/r/x/../../secret/@@", b"/../secret/@@", b"/r/./../secret/@@")
]
CASES += [
    either(ORIGIN, "an encoded slash is no slash", target(b"/r/..%2fsecret/@@"), as_sent(b"/r/..%2fsecret/@@"), status=ROUTED),
    either(ORIGIN, "a fragment", target(b"/r/@@#x"), Saw((b"GET /r/@@ HTTP/1.1", b"GET /r/@@#x HTTP/1.1"))),
    refuse(ORIGIN, "a relative target", target(b"r/@@"), after="any"),
    refuse(ORIGIN, "a target that is a query", target(b"?@@"), after="any"),
    refuse(ORIGIN, "a target that is a dot", target(b"."), after="any"),
    either(ORIGIN, "a target that begins with two slashes", target(b"//r/@@"), as_sent(b"//r/@@"), status=ROUTED),
    either(ORIGIN, "a target that begins with a backslash", target(b"\\r\\@@"), as_sent(b"\\r\\@@"), status=frozenset({400, 404})),
    refuse(ORIGIN, "a path that no route has", target(b"/nowhere/@@"), frozenset({404}), after="any"),
]

HOST_IS_A = {b"host": b"a.test"}
CASES += [
    accept(ABSOLUTE, name, target(text, host), Saw(b"GET " + path + b" HTTP/1.1", has=has))
    for name, text, host, path, has in (
        ("the host of the target", b"http://a.test/r/@@", b"Host: a.test\r\n", b"/r/@@", HOST_IS_A),
        ("another Host is ignored", b"http://a.test/r/@@", b"Host: b.test\r\n", b"/r/@@", HOST_IS_A),
        ("the scheme in capitals", b"HTTP://a.test/r/@@", b"Host: a.test\r\n", b"/r/@@", HOST_IS_A),
        ("with a query", b"http://a.test/r/@@?x=1", b"Host: a.test\r\n", b"/r/@@?x=1", HOST_IS_A),
        ("with a port", b"http://a.test:81/r/@@", b"Host: a.test:81\r\n", b"/r/@@", {b"host": b"a.test:81"}),
        ("a target within the query", b"http://a.test/r/@@?http://b.test/", b"Host: a.test\r\n", b"/r/@@?http://b.test/", HOST_IS_A),
        ("an IPv6 address", b"http://[::1]/r/@@", b"Host: [::1]\r\n", b"/r/@@", {b"host": b"[::1]"}),
        ("no path, a query", b"http://@@.test?x=1", b"Host: @@.test\r\n", b"/?x=1", {b"host": b"@@.test"}),
        ("no path", b"http://@@.test", b"Host: @@.test\r\n", b"/", {b"host": b"@@.test"}),
        ("no path and an empty query", b"http://@@.test?", b"Host: @@.test\r\n", b"/?", {b"host": b"@@.test"}),
    )
]  # fmt: skip
CASES += [
    accept(ABSOLUTE, "a POST", head(b"POST http://a.test/r/@@ HTTP/1.1", b"Content-Length: 2") + b"hi", Saw(b"POST /r/@@ HTTP/1.1", b"hi", HOST_IS_A)),
    either(ABSOLUTE, "https", target(b"https://a.test/r/@@"), as_sent(b"/r/@@"), status=frozenset({200, 400, 421})),
    either(ABSOLUTE, "an empty Host beside it", target(b"http://a.test/r/@@", b"Host:\r\n"), as_sent(b"/r/@@", has=HOST_IS_A)),
    either(ABSOLUTE, "a fragment", target(b"http://a.test/r/@@#x"), Saw((b"GET /r/@@ HTTP/1.1", b"GET /r/@@#x HTTP/1.1"))),
    refuse(ABSOLUTE, "no Host beside it", target(b"http://a.test/r/@@", b""), after="any"),
    refuse(ABSOLUTE, "two Host beside it", target(b"http://a.test/r/@@", b"Host: a.test\r\nHost: a.test\r\n"), after="any"),
]  # fmt: skip
CASES += [
    refuse(ABSOLUTE, f"target {text!r}", target(text), after="any")
    for text in (
        b"http://", b"http:///r/@@", b"http:/r/@@", b"http:r/@@", b"http://:80/r/@@", b"http://a.test:x/r/@@", b"http://a.test:80:80/r/@@",
        b"http://a.test:99999/r/@@", b"http://[::1/r/@@", b"http://[zz]/r/@@", b"http://a%zz/r/@@", b"http://u:p@a.test/r/@@", b"http://u@a.test/r/@@",
        b"http://a.test\\r/@@", b"ftp://a.test/r/@@", b"file:///r/@@", b"javascript:@@", b"://a.test/r/@@", b"1http://a.test/r/@@", b"http//a.test/r/@@",
    )
]  # fmt: skip
CASES += [
    refuse(AUTHORITY, f"GET {text.decode()}", target(text), after="any") for text in (b"a.test:80", b"a.test", b"127.0.0.1:80", b"[::1]:80", b"@@", b"a.test/r/@@")
]
ANSWERED = frozenset({200, 204})
CASES += [
    Case(ASTERISK, "OPTIONS * is answered", head(b"OPTIONS * HTTP/1.1", host=b"Host: @@.test\r\n"), (ANSWERED,), "open"),
    Case(ASTERISK, "OPTIONS * twice", head(b"OPTIONS * HTTP/1.1", host=b"Host: @@.test\r\n") * 2, (ANSWERED, ANSWERED), "open"),
    Case(ASTERISK, "OPTIONS * with Max-Forwards: 0", head(b"OPTIONS * HTTP/1.1", b"Max-Forwards: 0"), (ANSWERED,), "open"),
    Case(ASTERISK, "OPTIONS * of HTTP/1.0", b"OPTIONS * HTTP/1.0\r\n\r\n", (ANSWERED,), "closed"),
    refuse(ASTERISK, "OPTIONS * without Host", b"OPTIONS * HTTP/1.1\r\n\r\n", after="any"),
    # Answered here, or passed on as `*`: never as `/`.
    Case(ASTERISK, "OPTIONS http://host means *", head(b"OPTIONS http://@@.test HTTP/1.1", host=b"Host: @@.test\r\n"), (ANSWERED,), "open",
         (Saw((None, b"OPTIONS * HTTP/1.1")),)),
    accept(ASTERISK, "OPTIONS http://host/ means /", head(b"OPTIONS http://@@.test/ HTTP/1.1", host=b"Host: @@.test\r\n"), Saw(b"OPTIONS / HTTP/1.1")),
    accept(ASTERISK, "OPTIONS http://host?x means /?x", head(b"OPTIONS http://@@.test?x HTTP/1.1", host=b"Host: @@.test\r\n"),
           Saw(b"OPTIONS /?x HTTP/1.1")),
]  # fmt: skip
CASES += [
    refuse(ASTERISK, f"{method} *", head(method.encode() + b" * HTTP/1.1"), BAD, after="any", methods=(method,))
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PROPFIND")
]
CASES += [refuse(ASTERISK, f"OPTIONS {text}", head(b"OPTIONS " + text.encode() + b" HTTP/1.1"), after="any") for text in ("**", "*/r/@@", "*?@@")]

CASES += [
    refuse(HOSTS, "no Host", get(host=b""), after="any"),
    refuse(HOSTS, "two Host", get(host=b"Host: a.test\r\nHost: b.test\r\n"), after="any"),
    refuse(HOSTS, "two equal Host", get(host=b"Host: a.test\r\nHost: a.test\r\n"), after="any"),
    refuse(HOSTS, "Host and another after other fields", get(b"X: 1", b"HOST: b.test"), after="any"),
    refuse(HOSTS, "a space before its colon", get(host=b"Host : a.test\r\n")),
    refuse(HOSTS, "a list", hosted(b"a.test, b.test"), after="any"),
    either(HOSTS, "an empty Host", hosted(b"")),
    either(HOSTS, "a folded Host", get(host=b"Host:\r\n a.test\r\n"), after="any"),
    accept("RFC 9110 §7.2", "Host named by Connection stays", get(b"Connection: host"), Saw(b"GET /r/@@ HTTP/1.1", has=HOST_IS_A), status=LENIENT, after="any"),
    accept("RFC 9110 §5.6.3", "Host between spaces and tabs", hosted(b" \t a.test \t"), Saw(b"GET /r/@@ HTTP/1.1", has=HOST_IS_A)),
    accept("RFC 9110 §5.1", "hOsT", get(host=b"hOsT: a.test\r\n"), Saw(b"GET /r/@@ HTTP/1.1", has=HOST_IS_A)),
]  # fmt: skip
CASES += [
    accept(HOSTS, f"Host {value.decode()}", hosted(value), status=OK)
    for value in (
        b"a", b"A.TEST", b"a.test:80", b"a.test:8080", b"a.test:65535", b"127.0.0.1", b"127.0.0.1:80", b"[::1]", b"[::1]:80", b"[2001:db8::1]:443",
        b"[::ffff:1.2.3.4]", b"a-b.test", b"a_b.test", b"xn--nxasmq6b.test", b"a.test.", b"1.2.3", b"localhost", b"x" * 63 + b".test",
    )
]  # fmt: skip
CASES += [either(HOSTS, f"Host {value.decode()}", hosted(value)) for value in (b"a.test:", b"a%41.test", b"a!$&'()*+;=b", b"[v1.x]", b"~", b"a.test:080")]
CASES += [
    refuse(HOSTS, f"Host {value!r}", hosted(value), after="any")
    for value in (
        b"a:x", b"a:80:80", b"a:-1", b"a:+80", b"a:99999", b"a: 80", b"a :80", b":80", b":", b"::1", b"[::1", b"::1]", b"[]", b"[zz]", b"[::1]x", b"[::1]:x",
        b"[::1]80", b"[::1]]", b"[[::1]]", b"[1.2.3.4", b"[::1%25eth0", b"a%zz", b"a%", b"a%4", b"a b", b"a\tb", b"a/b", b"a/", b"a?b", b"a#b", b"a@b", b"u:p@a.test",
        b"http://a.test", b"a\\b", b"<a>", b'"a"', b"a^b", b"a`b", b"a{b}", b"a|b", b"a.test:80/x", b"a\x80b", b"\xc3\xa9.test", b"a,b c",
    )
]  # fmt: skip
