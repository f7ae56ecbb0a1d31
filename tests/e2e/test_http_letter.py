"""HTTP to the letter on the client's side: raw sockets against a gateway with real services, over HTTP and over the pipe.

Each case looks at three things: the status, whether the connection can be used again, and what the service has seen.
"""

import functools
import http.client
import json
import socket
import struct
import threading
import unittest

from harness import (
    BINARY, PYTHON, ROOT, Gateway, TestCase, config, eventually, route, service, setUpModule,
)  # fmt: skip
from origin import Origin
from scripted import Script, answer

__all__ = ["setUpModule"]

# A pipe service that answers with what it was told.
TELLS = [PYTHON, "-B", "-c", "; ".join((
    "import json, sys",
    f"sys.path.insert(0, {str(ROOT / 'sdk' / 'python')!r})",
    "import pilotlight",
    "names = ('forwarded', 'x-forwarded-proto', 'x-forwarded-host')",
    "tell = lambda r: {n: r.headers.get(n) for n in names} | {'scheme': r.scheme, 'target': r.target}",
    "pilotlight.serve(lambda r: (200, {}, json.dumps(tell(r))))",
))]  # fmt: skip
NEXT = b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"


def serve_all(peer):
    """An HTTP service that reads requests as RFC 9112 says, and answers each with its own head."""
    while head := peer.head():
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        if b"chunked" in fields.get(b"transfer-encoding", b""):
            while size := int(line_of(peer), 16):
                peer.read(size + 2)
            trailers = []
            while line := line_of(peer):
                trailers.append(line)
            head += b"\r\n" + b"\r\n".join(b"trailer-" + line for line in trailers)
        else:
            peer.read(int(fields.get(b"content-length", b"0")))
        peer.send(answer(head))


def line_of(peer):
    line = b""
    while not line.endswith(b"\r\n"):
        byte = peer.read(1)
        if not byte:
            raise OSError("the connection ended within a line")
        line += byte
    return line[:-2]


class Letter(TestCase):
    def gateway_to(self, handler=serve_all, *blocks, cache=False, top=None, rules=None, **settings):
        """A gateway in front of an HTTP server that does what `handler` does; `rules` are sections of its route."""
        script = Script(handler)
        script.__enter__()
        self.addCleanup(script.__exit__)
        settings |= {} if rules else {"cache": cache}
        web = [service("web", url=script.url), route(service="web", **settings)]
        if rules:
            web[1] = web[1].replace("cache = false\n", rules)
        return self.start(Gateway(BINARY, config(*web, *blocks, **({"workers": 1} | (top or {}))))), script

    @classmethod
    @functools.cache
    def shared(cls, cache):
        script = cls.enterClassContext(Script(serve_all))
        web = service("web", url=script.url), route(service="web", cache=cache)
        return cls.share(Gateway(BINARY, config(*web, workers=1))), script

    def plain(self, cache=False):
        """The gateway in front of `serve_all` that the tests of the class share, and its script, with no heads yet."""
        gateway, script = self.shared(cache)
        script.heads.clear()
        return gateway, script

    def both(self, *blocks, cache=False, top=None, **settings):
        """A gateway with the same demo over the pipe (`/pipe`), and an HTTP service (`/http`) whose requests are kept."""
        origin = Origin()
        origin.__enter__()
        self.addCleanup(origin.__exit__)
        services = service("demo"), service("web", url=origin.url)
        routes = (
            route("/pipe", "demo", strip_prefix=True, cache=cache, **settings),
            route("/http", "web", strip_prefix=True, cache=cache, **settings),
        )
        return self.start(Gateway(BINARY, config(*services, *routes, *blocks, **({"workers": 1} | (top or {}))))), origin

    def assert_usable(self, client, target="/next"):
        """The connection takes a further request."""
        self.assertLess(client.request("GET", target).status, 500)

    def assert_closed(self, client):
        self.assertTrue(client.ended(), "the connection stays open")


def requested(script):
    return [head.split(b" ")[1] for head in script.heads]


class Connection(Letter):
    """RFC 9110 §7.6.1: what `Connection` names is of this connection, and never a part of a key."""

    ANSWER = b"cache-control: max-age=60\r\nvary: accept-language, origin\r\n"

    def vary_gateway(self, key=None):
        def handler(peer):
            while head := peer.head():
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
                said = [fields.get(name, b"none") for name in (b"accept-language", b"origin", b"x-tenant")]
                peer.send(answer(b" ".join(said), self.ANSWER))

        return self.gateway_to(handler, cache=True, rules=key)

    def body(self, gateway, fields, target="/"):
        return gateway.get(target, fields).body

    def test_a_named_field_chooses_no_variant(self):
        gateway, script = self.vary_gateway()
        for name, value in (("Accept-Language", "de"), ("Origin", "https://evil.example")):
            with self.subTest(name):
                poison = [(name, value), ("Connection", name.lower())]
                target = f"/{name}"
                self.assertEqual(self.body(gateway, poison, target), b"none none none")
                self.assertIn(value.encode(), self.body(gateway, [(name, value)], target))
                self.assertEqual(self.body(gateway, [], target), b"none none none")
                self.assertEqual(len(script.heads), 2, "the answer without the field was not used again")
                script.heads.clear()

    def test_a_named_field_is_in_no_key(self):
        gateway, script = self.vary_gateway(key='[routes.cache.key]\nheaders = ["x-tenant"]\n')
        self.assertEqual(self.body(gateway, [("X-Tenant", "a"), ("Connection", "x-tenant, close")]), b"none none none")
        self.assertEqual(self.body(gateway, [("X-Tenant", "a")]), b"none none a")
        self.assertEqual(self.body(gateway, []), b"none none none")
        self.assertEqual(len(script.heads), 2)

    def test_a_stored_variant_is_not_given_for_a_named_field(self):
        gateway, _ = self.vary_gateway()
        self.assertEqual(self.body(gateway, [("Accept-Language", "de")]), b"de none none")
        self.assertEqual(self.body(gateway, [("Accept-Language", "de"), ("Connection", "accept-language")]), b"none none none")

    def test_what_frames_identifies_or_authorises_cannot_be_named(self):
        gateway, script = self.gateway_to(top={"trust_forwarded": True})
        kept = {
            "Authorization": "Bearer 1", "Cookie": "a=b", "Content-Type": "text/x", "Cache-Control": "no-store",
            "X-Forwarded-For": "10.0.0.9", "X-Real-IP": "10.0.0.9", "X-Request-Id": "req-1234", "Forwarded": "for=10.0.0.9",
        }  # fmt: skip
        names = ", ".join([*kept, "Host", "Content-Length", "Via", "X-Mine"])
        fields = [*kept.items(), ("X-Mine", "1"), ("Connection", names)]
        self.assert_status(gateway.request("POST", "/", fields, body=b"1234"), 200)
        head = script.heads[0].lower()
        for name in kept:
            self.assertIn(b"\r\n" + name.lower().encode() + b": ", head)
        self.assertIn(b"content-length: 4", head)
        self.assertNotIn(b"x-mine", head)


class Hosts(Letter):
    """RFC 9110 §7.2, RFC 3986 §3.2.2: what is no host is refused, in `Host` and in an absolute target."""

    WRONG = (
        "a:x", "a:80:80", "[::1", "[zz]", "a%zz", "a%2", "::1", ":80", "a:65536", "a:-1", "[::1]x", "[::1]:x", "[]", "a b", "a/b",
        "a?b", "a#b", "u@a", "a\\b", "[fe80::1%25eth0]", "[v1]", "a,b", "a\"", "a[b]", "a]",
    )  # fmt: skip
    RIGHT = ("a", "a:80", "a:", "A.b-c_d~:8080", "[::1]", "[::1]:80", "127.0.0.1:1", "%61", "a%2Db:1", "a!$&'()*+;=b", "[v1.a:b]")

    def test_wrong(self):
        for cache in (False, "60s"):
            gateway, script = self.plain(cache)
            for host in self.WRONG:
                with self.subTest(host=host, cache=cache), gateway.client(timeout=10) as client:
                    client.send(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host.encode())
                    self.assert_problem(client.answer(), 400)
            self.assertEqual(script.heads, [])

    def test_wrong_in_a_target(self):
        gateway, script = self.plain()
        for host in ("a:x", "a:80:80", "[::1", "[zz]", "a%zz", "u@a", ":80"):
            with self.subTest(host=host), gateway.client(timeout=10) as client:
                client.send(b"GET http://%b/ HTTP/1.1\r\nHost: a\r\n\r\n" % host.encode())
                self.assertEqual(client.answer().status, 400)
        self.assertEqual(script.heads, [])

    def test_right(self):
        for cache in (False, "60s"):
            gateway, script = self.plain(cache)
            with gateway.client(timeout=10) as client:
                for host in self.RIGHT * 2:
                    with self.subTest(host=host):
                        self.assert_status(client.request("GET", "/", host=host), 200)


class Targets(Letter):
    """RFC 9112 §3.2: the four forms of a target, and which of them reach a service as what."""

    def pairs(self):
        """The same gateway to a service over HTTP and to one over the pipe, and what either says that it has seen."""
        script = Script(serve_all)
        script.__enter__()
        self.addCleanup(script.__exit__)
        services = service("web", url=script.url), service("demo", TELLS)
        routes = route("/", "web", host="a", cache=False), route("/", "demo", host="b", cache=False)
        gateway = self.start(Gateway(BINARY, config(*services, *routes, workers=1)))

        def ask(line, fields=b""):
            with gateway.client(timeout=10) as client:
                client.send(line.replace(b"HOST", b"a") + b"\r\nHost: a\r\n" + fields + b"\r\n")
                over_http = client.answer(line.split(b" ")[0].decode())
                client.send(line.replace(b"HOST", b"b") + b"\r\nHost: b\r\n" + fields + b"\r\n")
                over_pipe = client.answer(line.split(b" ")[0].decode())
                self.assert_usable(client)
            return over_http, over_pipe

        return ask

    def test_a_query_without_a_path_gets_one(self):
        ask = self.pairs()
        for line, seen in ((b"GET http://HOST?x=1 HTTP/1.1", "/?x=1"), (b"GET http://HOST HTTP/1.1", "/"),
                           (b"GET http://HOST/p?x=1 HTTP/1.1", "/p?x=1"), (b"OPTIONS http://HOST/ HTTP/1.1", "/"),
                           (b"OPTIONS http://HOST?x=1 HTTP/1.1", "/?x=1"), (b"OPTIONS http://HOST HTTP/1.1", "*")):
            with self.subTest(line=line):
                over_http, over_pipe = ask(line)
                self.assertEqual(over_http.body.split(b" ")[1].decode(), seen)
                self.assertEqual(json.loads(over_pipe.body)["target"], seen)

    def test_a_query_without_a_path_is_one_key_with_its_path(self):
        gateway, script = self.plain("60s")
        with gateway.client(timeout=10) as client:
            for line in (b"GET http://a?x=1 HTTP/1.1", b"GET http://a/?x=1 HTTP/1.1", b"GET /?x=1 HTTP/1.1"):
                client.send(line + b"\r\nHost: a\r\n\r\n")
                self.assert_status(client.answer(), 200)
        self.assertEqual(requested(script), [b"/?x=1"])

    def test_options_of_the_gateway_itself(self):
        gateway, script = self.plain()
        with gateway.client(timeout=10) as client:
            client.send(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
            got = client.answer("OPTIONS")
            self.assert_status(got, 204)
            self.assertIn("GET", got.get("allow"))
            self.assertIsNone(got.get("content-length"))
            self.assert_usable(client)
        with gateway.client(timeout=10) as client:
            client.send(b"GET * HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assert_problem(client.answer(), 400)
        self.assertEqual(requested(script), [b"/next"])


class MaxForwards(Letter):
    """RFC 9110 §7.6.2."""

    def ask(self, client, method, value, more=b""):
        client.send(b"%b /x?y HTTP/1.1\r\nHost: a\r\nMax-Forwards: %b\r\n%b\r\n" % (method, value, more))
        return client.answer(method.decode())

    def test_none_left(self):
        gateway, script = self.plain()
        with gateway.client(timeout=10) as client:
            options = self.ask(client, b"OPTIONS", b"0")
            self.assert_status(options, 204)
            self.assertIn("OPTIONS", options.get("allow"))
            trace = self.ask(client, b"TRACE", b"0", b"X-Kept: 1\r\nCookie: secret\r\nAuthorization: secret\r\n")
            self.assert_status(trace, 200)
            self.assertEqual(trace.get("content-type"), "message/http")
            lines = trace.body.decode().lower().split("\r\n")
            self.assertEqual(lines[0], "trace /x?y http/1.1")
            self.assertIn("x-kept: 1", lines)
            self.assertNotIn("secret", trace.body.decode())
            self.assert_usable(client)
        self.assertEqual(requested(script), [b"/next"])

    def test_one_less(self):
        gateway, script = self.plain()
        with gateway.client(timeout=10) as client:
            for method in (b"OPTIONS", b"TRACE"):
                for sent, seen in ((b"1", b"0"), (b"10", b"9"), (b"007", b"6"), (b"99999999999999999999", None)):
                    script.heads.clear()
                    self.assert_status(self.ask(client, method, sent), 200)
                    fields = [line for line in script.heads[0].lower().split(b"\r\n") if line.startswith(b"max-forwards")]
                    self.assertEqual(len(fields), 1)
                    if seen:
                        self.assertEqual(fields[0], b"max-forwards: " + seen)

    def test_other_methods_and_what_is_no_number(self):
        gateway, script = self.plain()
        with gateway.client(timeout=10) as client:
            self.assert_status(self.ask(client, b"GET", b"0"), 200)
            self.assertIn(b"\r\nmax-forwards: 0", script.heads[0].lower())
            for wrong in (b"x", b"-1", b"", b"1, 2", b"1\r\nMax-Forwards: 2"):
                self.assert_problem(self.ask(client, b"TRACE", wrong), 400)
        self.assertEqual(len(script.heads), 1)


class Scheme(Letter):
    """The scheme is a part of the key, and the same in the pipe's head, in `Forwarded` and in `X-Forwarded-Proto`."""

    TRUST = {"trust_forwarded": True}
    ADMIN = '[admin]\nsocket = "@FOLDER@/admin.sock"\n'

    def redirecting(self, peer):
        while head := peer.head():
            is_secure = b"x-forwarded-proto: https" in head.lower()
            if is_secure:
                peer.send(answer(b"secure", b"cache-control: max-age=60\r\n"))
            else:
                fields = b"cache-control: max-age=60\r\nlocation: https://a/\r\n"
                peer.send(answer(b"", fields, b"301 Moved Permanently"))

    def test_a_redirect_to_https_is_not_given_to_https(self):
        gateway, script = self.gateway_to(self.redirecting, cache=True, top=self.TRUST)
        secure = [("X-Forwarded-Proto", "https")]
        for _ in range(3):
            self.assert_status(gateway.get("/", host="a"), 301)
            self.assertEqual(gateway.get("/", secure, host="a").body, b"secure")
            # The default port of a scheme is no part of the key.
            self.assertEqual(gateway.get("/", secure, host="a:443").body, b"secure")
            self.assert_status(gateway.get("/", host="a:80"), 301)
        self.assertEqual(len(script.heads), 2, "an answer was not stored for its scheme")

    def test_a_forwarded_element_says_it_as_well(self):
        # The last element is the proxy's that connects; the one before it is another's, if that one is trusted too.
        chain = [("Forwarded", 'for=1.2.3.4; proto="https", for=5.6.7.8;proto=http')]
        gateway, script = self.gateway_to(self.redirecting, cache=True, top={"trust_forwarded": ["127.0.0.1", "5.6.7.8"]})
        self.assertEqual(gateway.get("/", chain).body, b"secure")
        self.assert_status(gateway.get("/"), 301)
        self.assertEqual(len(script.heads), 2)
        gateway, script = self.gateway_to(self.redirecting, cache=True, top=self.TRUST)
        self.assert_status(gateway.get("/", chain), 301)
        self.assertEqual(gateway.get("/", [("Forwarded", 'for=1.2.3.4; proto="https"')]).body, b"secure")
        self.assertEqual(len(script.heads), 2)

    def test_a_client_that_is_not_trusted_has_no_say(self):
        gateway, script = self.gateway_to(self.redirecting, cache=True)
        self.assert_status(gateway.get("/", [("X-Forwarded-Proto", "https")]), 301)
        self.assert_status(gateway.get("/"), 301)
        self.assertEqual(len(script.heads), 1)

    def test_public_hosts_behind_one_inner_host_are_apart(self):
        def handler(peer):
            while head := peer.head():
                host = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"x-forwarded-host: "))
                peer.send(answer(host[18:], b"cache-control: max-age=60\r\n"))

        gateway, _ = self.gateway_to(handler, cache=True, top=self.TRUST)
        for _ in range(2):
            for host in ("one.example", "two.example"):
                self.assertEqual(gateway.get("/", [("X-Forwarded-Host", host)], host="inner").body, host.encode())

    def test_what_a_service_is_told_agrees(self):
        blocks = service("demo", TELLS), route("/", "demo", cache=False)
        gateway = self.start(Gateway(BINARY, config(*blocks, workers=1, **self.TRUST)))
        for sent, scheme in (([("X-Forwarded-Proto", "HTTPS")], "https"), ([], "http"), ([("X-Forwarded-Proto", "gopher")], "http")):
            told = json.loads(gateway.get("/", sent, host="a").body)
            self.assertEqual(told["scheme"], scheme)
            self.assertEqual(told["x-forwarded-proto"], scheme)
            self.assertTrue(told["forwarded"].endswith(f";proto={scheme}"), told)

    def test_purging_by_url_knows_the_scheme(self):
        gateway, script = self.gateway_to(self.redirecting, self.ADMIN, cache=True, top=self.TRUST)
        secure = [("X-Forwarded-Proto", "https")]
        gateway.get("/", secure, host="a")
        gateway.get("/", host="a")
        self.assertEqual(len(script.heads), 2)
        told = self.purge(gateway, "https://a:443/")
        self.assertEqual((told["what"], told["purged"]), (["https://a/"], True))
        gateway.get("/", host="a")
        self.assertEqual(len(script.heads), 2, "the purge of https took http with it")
        self.assertEqual(gateway.get("/", secure, host="a").body, b"secure")
        self.assertEqual(len(script.heads), 3)

    def test_without_trust_an_https_url_is_what_is_stored(self):
        """A proxy that speaks TLS in front of a gateway that does not listen to it: there is one scheme."""
        gateway, script = self.gateway_to(self.redirecting, self.ADMIN, cache=True)
        gateway.get("/", host="a")
        self.assertTrue(self.purge(gateway, "https://a/")["purged"])
        gateway.get("/", host="a")
        self.assertEqual(len(script.heads), 2)

    def purge(self, gateway, url):
        body = json.dumps({"url": url}).encode()
        with socket.socket(socket.AF_UNIX) as admin:
            admin.settimeout(10)
            admin.connect(str(gateway.folder / "admin.sock"))
            admin.sendall(b"POST /purge HTTP/1.1\r\nHost: admin\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            told = http.client.HTTPResponse(admin)
            told.begin()
            return json.loads(told.read())



class Chunks(Letter):
    """RFC 9112 §7.1: chunked framing is exact to the byte, or the request is refused and the connection closed."""

    def test_the_answer_survives_what_is_still_being_sent(self):
        """A close with unread bytes resets the connection, and the client loses the answer."""
        gateway, _ = self.plain()
        for body in (b"--5\r\n" + b"x" * 200_000, b"0\r\n\nmore" + b"x" * 200_000):
            for _ in range(10):
                with gateway.client(timeout=10) as client:
                    client.send(self.HEAD)
                    for piece in (body[:1], body[1:2], body[2:]):
                        client.send(piece)
                    self.assertEqual(client.answer().status, 400)

    HEAD = b"POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    HIDDEN = b"POST /victim HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    WRONG = (
        b"0\r\n\n",
        b"0\r\nX: a\r\n\n",
        b"0\r\nX: a\n\n",
        b"0\r\nX: a\n\r\n",
        b"0\r\n\r\r\n\r\n",
        b"0\n\r\n",
        b"0\n\n",
        b"3\nabc\r\n0\r\n\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3;x=\n\r\nabc\r\n0\r\n\r\n",
        b"3;x=y\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\rabc\r\n0\r\n\r\n",
        b"\r\n0\r\n\r\n",
        b";x\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"-1\r\n\r\n",
        b"11111111111111111\r\n",
    )
    RIGHT = (
        b"0\r\n\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"3;x=y;z=\"q\"\r\nabc\r\n000\r\nX: a\r\n\r\n",
        b"A\r\n\r\n\n\n\n0\r\n\r\n\r\n0\r\n\r\n",
    )

    def test_what_is_not_exact_is_refused(self):
        gateway, script = self.plain()
        for wrong in self.WRONG:
            with self.subTest(wrong=wrong), gateway.client(timeout=10) as client:
                client.send(self.HEAD + wrong + self.HIDDEN + NEXT)
                self.assert_problem(client.answer("POST"), 400)
                self.assert_closed(client)
        self.assertFalse({b"/victim", b"/next"} & set(requested(script)), "a request came out of a body")

    def test_what_is_exact_is_taken(self):
        gateway, script = self.gateway_to()  # heads of refused requests may still come to the shared one
        with gateway.client(timeout=10) as client:
            for right in self.RIGHT:
                with self.subTest(right=right):
                    client.send(self.HEAD + right + NEXT)
                    self.assert_status(client.answer("POST"), 200)
                    self.assert_status(client.answer(), 200)
        self.assertEqual(requested(script), [b"/one", b"/next"] * len(self.RIGHT))

    def test_split_at_every_byte(self):
        gateway, script = self.plain()
        for whole, status in ((self.HEAD + b"0\r\n\n" + self.HIDDEN, 400), (self.HEAD + b"3\r\nabc\r\n0\r\nX: a\r\n\r\n", 200)):
            for at in range(1, len(whole)):
                with gateway.client(timeout=10) as client:
                    client.send(whole[:at])
                    client.send(whole[at:])
                    self.assertEqual(client.answer("POST").status, status, whole[:at])
        self.assertNotIn(b"/victim", requested(script))

    def test_after_hits_after_lengths_and_behind_others(self):
        """Wherever on a connection the request stands, and whatever was answered before."""
        gateway, script = self.plain("60s")
        length = b"POST /two HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n0\r\n\n\r\n0"
        for before in (NEXT, NEXT * 9, length, NEXT + length + self.HEAD + b"2\r\n\n\n\r\n0\r\n\r\n" + NEXT):
            with self.subTest(before=before), gateway.client(timeout=10) as client:
                client.send(before + self.HEAD + b"0\r\n\n" + self.HIDDEN)
                for head in before.split(b" HTTP/1.1\r\n")[:-1]:
                    self.assert_status(client.answer(head.split(b"\n")[-1].split(b" ")[0].decode()), 200)
                self.assert_problem(client.answer("POST"), 400)
                self.assert_closed(client)
        self.assertNotIn(b"/victim", requested(script))

    def test_over_the_pipe(self):
        gateway, _ = self.both()
        for wrong in self.WRONG[:4]:
            with self.subTest(wrong=wrong), gateway.client(timeout=10) as client:
                client.send(b"POST /pipe/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + wrong + self.HIDDEN)
                self.assert_problem(client.answer("POST"), 400)
                self.assert_closed(client)


class Unread(Letter):
    """An answer of the gateway's own to a request whose body it has not read: the rest is read, or the end is announced."""

    def gateways(self):
        yield 404, self.start(Gateway(BINARY, config(service("web", url="http://127.0.0.1:1"), route("/only", "web"), workers=1)))
        yield 502, self.start(Gateway(BINARY, config(service("web", url="http://127.0.0.1:1"), route("/", "web"), workers=1)))
        yield 503, self.start(Gateway(BINARY, config(service("web", ["false"], max_failures=1), route("/", "web"), workers=1)))

    def test_the_next_request_is_answered_or_the_end_announced(self):
        for status, gateway in self.gateways():
            for size, reuse in ((1, True), (5_000, True), (60_000, True), (3_000_000, False)):
                for at_once in (True, False):
                    with self.subTest(status=status, size=size, at_once=at_once), gateway.client(timeout=20) as client:
                        self.post(client, size, at_once)
                        got = client.answer("POST")
                        self.assert_problem(got, status)
                        self.assertEqual(got.get("connection") != "close", reuse, got)
                        if reuse:
                            self.assert_status(client.request("GET", "/"), status)
                        else:
                            self.assert_closed(client)

    def post(self, client, size, at_once):
        head = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size
        try:
            if at_once:
                client.send(head + b"x" * size)
            else:
                client.send(head)
                client.send(b"x" * size)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the answer says why

    def test_chunked(self):
        _, gateway = next(self.gateways())
        with gateway.client(timeout=20) as client:
            client.send(Chunks.HEAD + b"3\r\nabc\r\n0\r\n\r\n")
            got = client.answer("POST")
            self.assert_problem(got, 404)
            self.assertIsNone(got.get("connection"))
            self.assert_usable(client)

    def test_a_body_that_does_not_come_is_not_waited_for(self):
        _, gateway = next(self.gateways())
        for more in (b"", b"Expect: 100-continue\r\n"):
            with gateway.client(timeout=20) as client:
                client.send(b"POST /x HTTP/1.1\r\nHost: a\r\n%bContent-Length: 9\r\n\r\n" % more)
                got = client.answer("POST")
                self.assert_problem(got, 404)
                self.assertEqual((got.get("connection"), got.interim), ("close", []))
                self.assert_closed(client)

    def test_the_last_word_is_not_lost(self):
        """A whole body is read before an answer: nothing is closed."""
        def handler(peer):
            peer.head()
            peer.read(3)

        gateway, script = self.gateway_to(handler)
        with gateway.client(timeout=20) as client:
            client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            got = client.answer("POST")
            self.assert_problem(got, 502)
            self.assertIsNone(got.get("connection"))


class HalfClosed(Letter):
    """RFC 9112 §9.6: a client that has said its last word may still listen."""

    def ask(self, gateway, data):
        """Sends, ends its own direction, and reads to the end."""
        with socket.create_connection(gateway.address, timeout=20) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65_536), b""))

    def test_the_answer_comes(self):
        gateway, origin = self.both()
        for target in (b"/http/make?ms=300", b"/pipe/slow?chunks=3&ms=100", b"/http/stream?chunks=3&ms=100"):
            for version in (b"1.1", b"1.0"):
                with self.subTest(target=target, version=version):
                    got = self.ask(gateway, b"GET %b HTTP/%b\r\nHost: a\r\n\r\n" % (target, version))
                    self.assertTrue(got.startswith(b"HTTP/1."), got)
                    self.assertIn(b" 200 OK\r\n", got[:20])
                    self.assertIn(b"chunk 2" if b"chunks" in target else b"serial", got)

    def test_bodies_and_pipelines(self):
        gateway, script = self.gateway_to(lambda peer: (self.after(0.3), serve_all(peer)))
        post = b"POST /one HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
        chunked = Chunks.HEAD + b"3\r\nabc\r\n0\r\n\r\n"
        for data, count in ((post, 1), (chunked, 1), (NEXT * 3, 3), (post + chunked + NEXT, 3)):
            with self.subTest(data=data):
                self.assertEqual(self.ask(gateway, data).count(b"HTTP/1.1 200 OK\r\n"), count)
        self.assertEqual(len(script.heads), 8)

    def test_with_and_without_the_cache(self):
        gateway, script = self.gateway_to(lambda peer: (self.after(0.2), serve_all(peer)), cache="60s")
        for _ in range(2):
            got = self.ask(gateway, NEXT)
            self.assertTrue(got.startswith(b"HTTP/1.1 200 OK\r\n") and b"GET /next" in got, got)
        self.assertEqual(len(script.heads), 1)

    def test_half_a_request_is_none(self):
        gateway, script = self.plain()
        self.ask(gateway, b"POST /one HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
        self.assertEqual(self.ask(gateway, b"GET / HTTP/1.1\r\nHost: a\r\n"), b"")
        # The service is not told that half a body was the whole.
        self.assertFalse(any(head.startswith(b"GET / ") for head in script.heads))

    def test_a_long_wait_is_announced_and_answered(self):
        """After a second the gateway asks whether the client still listens, with an interim answer."""
        gateway, _ = self.both()
        for version, interim in ((b"1.1", True), (b"1.0", False)):
            got = self.ask(gateway, b"GET /http/make?ms=1600 HTTP/%b\r\nHost: a\r\n\r\n" % version)
            self.assertEqual(got.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"), interim, got)
            self.assertIn(b" 200 OK\r\n", got)

    def test_a_client_that_has_gone_cancels(self):
        """By FIN, where only the next word to it finds out, and by RST."""
        for linger in (None, struct.pack("ii", 1, 0)):
            ended, begun = threading.Event(), threading.Event()

            def handler(peer, begun=begun, ended=ended):
                peer.head()
                begun.set()
                peer.ended()
                ended.set()

            gateway, _ = self.gateway_to(handler)
            client = socket.create_connection(gateway.address, timeout=20)
            client.sendall(NEXT)
            self.assertTrue(begun.wait(10))
            if linger:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.close()
            self.assertTrue(ended.wait(10), "the request to the service goes on, for nobody")

    @staticmethod
    def after(seconds):
        threading.Event().wait(seconds)


class Trailers(Letter):
    """RFC 9110 §6.5.1: a trailer that frames, routes, identifies or authorises is left out."""

    SENT = (
        "Host: evil", "Content-Length: 7", "Transfer-Encoding: chunked", "Content-Type: text/evil", "Content-Encoding: gzip",
        "Authorization: Bearer evil", "Cookie: user=evil", "Proxy-Authorization: evil", "X-Forwarded-For: 6.6.6.6",
        "X-Forwarded-Proto: https", "X-Forwarded-Host: evil", "Forwarded: for=6.6.6.6", "X-Real-IP: 6.6.6.6", "Via: 1.1 evil",
        "X-Request-Id: evil", "Connection: close", "TE: gzip", "Trailer: x", "Range: bytes=0-1", "If-Match: evil",
        "Cache-Control: no-store", "Expect: 100-continue", "Max-Forwards: 1", "Upgrade: evil", "Keep-Alive: 9",
    )  # fmt: skip

    def test_only_what_is_of_the_body_passes(self):
        gateway, _ = self.plain()
        with gateway.client(timeout=10) as client:
            body = "".join(f"{line}\r\n" for line in (*self.SENT, "X-Checksum: 12")).encode()
            client.send(Chunks.HEAD + b"3\r\nabc\r\n0\r\n" + body + b"\r\n")
            got = client.answer("POST")
            self.assert_status(got, 200)
            trailers = [line for line in got.body.split(b"\r\n") if line.startswith(b"trailer-")]
            self.assertEqual(trailers, [b"trailer-x-checksum: 12"])
            self.assert_usable(client)


class Heads(Letter):
    """Request heads that other parsers judge otherwise."""

    def test_lengths_beyond_any_body(self):
        gateway, script = self.plain()
        for length in (b"18446744073709551613", b"18446744073709551615", b"18446744073709551616", b"99999999999999999999"):
            with self.subTest(length=length), gateway.client(timeout=10) as client:
                client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %b\r\n\r\n" % length)
                self.assertEqual(client.answer().status, 400)
                self.assert_closed(client)
        self.assertEqual(script.heads, [])

    def test_chunked_is_applied_once(self):
        gateway, script = self.plain()
        for coding in (b"chunked\r\nTransfer-Encoding: chunked", b"chunked, chunked", b"gzip, chunked"):
            with self.subTest(coding=coding), gateway.client(timeout=10) as client:
                client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %b\r\n\r\n0\r\n\r\n" % coding)
                self.assertIn(client.answer().status, (400, 501))
        self.assertEqual(script.heads, [])

    def test_other_schemes_are_not_served(self):
        gateway, script = self.plain()
        for target in (b"ftp://a/r", b"://a/r", b"1http://a/r", b"ws://a/r", b"file:///r"):
            with self.subTest(target=target), gateway.client(timeout=10) as client:
                client.send(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
                self.assertEqual(client.answer().status, 400)
        self.assertEqual(script.heads, [])
        with gateway.client(timeout=10) as client:
            client.send(b"GET HTTP://a/r HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assert_status(client.answer(), 200)

    def test_underscores_hide_nothing(self):
        gateway, script = self.plain()
        with gateway.client(timeout=10) as client:
            fields = b"X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Proto: https\r\nForwarded: for=6.6.6.6\r\nx_request_id: 7\r\nX_Mine: kept\r\n"
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n")
            self.assert_status(client.answer(), 200)
        self.assertNotIn(b"6.6.6.6", script.heads[0])
        for name in (b"x_forwarded_for", b"x-forwarded_proto", b"x_request_id"):
            self.assertNotIn(name, script.heads[0].lower())
        self.assertIn(b"x_mine: kept", script.heads[0].lower())

    def test_a_later_minor_version_is_the_highest_known(self):
        """RFC 9110 §2.5; however the head comes."""
        request = b"GET /later HTTP/1.%d\r\nHost: a\r\n\r\n"
        for cache in (False, "60s"):
            gateway, script = self.plain(cache)
            for minor in (2, 9):
                for split in (None, 10, 18, 19, 20, 21):
                    with self.subTest(minor=minor, split=split, cache=cache), gateway.client(timeout=10) as client:
                        whole = request % minor
                        client.send(whole[:split])
                        if split:
                            self.after(0.005)  # read by itself, mostly
                            client.send(whole[split:])
                        self.assert_status(client.answer(), 200)
                        self.assert_usable(client)

    @staticmethod
    def after(seconds):
        threading.Event().wait(seconds)


class Upgrades(Letter):
    """RFC 9110 §7.8: a connection switches only to what its route lists; everything else is an ordinary request."""

    @staticmethod
    def switches(peer):
        """Switches to whatever is asked for, and echoes; without a question it answers."""
        while head := peer.head():
            asked = [line.split(b": ", 1)[1] for line in head.split(b"\r\n") if line.lower().startswith(b"upgrade: ")]
            if asked:
                peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: %b\r\n\r\n" % asked[0])
                peer.send(peer.read(4))
                return
            peer.send(answer(b"plain"))

    def ask(self, gateway, offer, more=b""):
        """Whether the connection was switched."""
        with gateway.client(timeout=10) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: %b\r\n%b\r\n" % (offer, more))
            if client.head().status == 101:
                client.send(b"ping")
                self.assertEqual(client.read(4), b"ping")
                return True
        with gateway.client(timeout=10) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: %b\r\n%b\r\n" % (offer, more))
            self.assertEqual(client.answer().body, b"plain")
            self.assert_usable(client)
            return False

    def test_websocket_alone_by_default(self):
        for cache in (False, "60s"):
            gateway, script = self.gateway_to(self.switches, cache=cache)
            settings = b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
            for offer, switched in ((b"websocket", True), (b"WebSocket", True), (b"h2c, websocket", True), (b"foo/2", False),
                                    (b"h2c", False), (b"TLS/1.0", False), (b"HTTP/2.0", False), (b"foo", False)):  # fmt: skip
                with self.subTest(offer=offer, cache=cache):
                    self.assertEqual(self.ask(gateway, offer, settings), switched)
            for head in script.heads:
                self.assertNotIn(b"h2c", head.lower())
                self.assertNotIn(b"http2-settings", head.lower())

    def test_what_a_route_lists(self):
        gateway, _ = self.gateway_to(self.switches, upgrades=["Chat/2"])
        self.assertTrue(self.ask(gateway, b"chat/2"))
        self.assertFalse(self.ask(gateway, b"websocket"))
        gateway, _ = self.gateway_to(self.switches, upgrades=[])
        self.assertFalse(self.ask(gateway, b"websocket"))

    def test_a_service_chooses_from_the_offer(self):
        def other(peer):
            peer.head()
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")
            peer.read(1)

        gateway, _ = self.gateway_to(other)
        with gateway.client(timeout=10) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            self.assert_problem(client.answer(), 502)


class Strangers(Letter):
    """Bytes of another protocol on a plaintext port are named in the log, once for each peer and minute."""

    TLS = bytes.fromhex("16030100c8010000c40303") + bytes(190)

    def test_they_are_named_once(self):
        for data, name, split in ((self.TLS, "TLS", 3),):
            for cache in (False, True):
                with self.subTest(name=name, cache=cache):
                    gateway, script = self.gateway_to(cache=cache)
                    for number in range(6):
                        with gateway.client(timeout=10) as client:
                            client.send(data[:split] if number % 2 else data)
                            if number % 2:
                                client.send(data[split:])
                            self.ended(client)
                    self.assertTrue(eventually(lambda: f"a client speaks {name}" in gateway.output()), gateway.output())  # noqa: B023
                    self.assertEqual(gateway.output().count("a client speaks"), 1)
                    self.assert_logged(gateway, "127.0.0.1")
                    self.assertEqual(script.heads, [])
                    self.assert_status(gateway.get("/"), 200)

    def ended(self, client):
        while not client.ended():
            pass

    def test_an_ordinary_mistake_is_not(self):
        gateway, _ = self.gateway_to()
        for data in (b"nonsense\r\n\r\n", b"PRINT / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"):
            with gateway.client(timeout=10) as client:
                client.send(data)
                client.answer()
        self.assertNotIn("a client speaks", gateway.output())


if __name__ == "__main__":
    unittest.main()
