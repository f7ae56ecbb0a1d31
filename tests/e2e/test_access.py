"""Who is let in on a route, and how often (issue 17, parts 9 and 10)."""

import base64
import http.server
import json
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import http2_client
from certificates import Authority
from harness import BINARY, Client, Gateway, GatewayError, TestCase, config, eventually, route, service, setUpModule
from origin import Origin
from test_cache import make

__all__ = ["setUpModule"]

STORED = make("Cache-Control: max-age=60")


def open_client(gateway, source="127.0.0.1"):
    """A connection from an address of this machine."""
    client = Client.__new__(Client)
    client._sock = socket.create_connection(gateway.address, timeout=20, source_address=(source, 0))
    client._timeout, client._inbox = 20, bytearray()
    return client


# echo -n geheim | argon2 somesalt -id -t 1 -k 64 -p 1 -e
ARGON2ID = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$qASOLaGX+P0epRpm1t9sb89XH6vB26z1m7LoiG0+sDM"


class AccessCase(TestCase):
    def setUp(self):
        self.origin = Origin()
        self.origin.__enter__()
        self.addCleanup(self.origin.__exit__)

    def gateway_with(self, *routes, **settings):
        blocks = [service("web", url=self.origin.url), *routes]
        return self.start(Gateway(BINARY, config(*blocks, metrics={"listen": "127.0.0.1:0"}, **settings)))

    def get(self, gateway, target, source="127.0.0.1", fields=(), method="GET"):
        with open_client(gateway, source) as client:
            return client.request(method, target, fields)

    def refused(self, gateway, path, reason):
        """How many requests the metrics say were not let in."""
        line = f'pilotlight_refused_requests_total{{route="{path}",service="web",reason="{reason}"}}'
        address = re.search(r"metrics on http://([0-9.]+):(\d+)", gateway.output())
        with Client((address[1], int(address[2]))) as client:
            text = client.request("GET", "/metrics").body.decode()
        found = [row for row in text.splitlines() if row.startswith(line)]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0


class Networks(AccessCase):
    def test_by_the_address_of_the_connection(self):
        gateway = self.gateway_with(
            route("/", "web"),
            route("/in", "web", allow={"networks": ["127.0.0.2/32", "127.0.1.0/24"]},
                  deny={"networks": ["127.0.1.7"]}),  # fmt: skip
        )
        for source, status in (("127.0.0.1", 403), ("127.0.0.2", 200), ("127.0.1.1", 200), ("127.0.1.7", 403)):
            with self.subTest(source=source):
                self.assert_status(self.get(gateway, "/in/show", source), status)
        problem = self.assert_problem(self.get(gateway, "/in/show", fields=[("X-Forwarded-For", "127.0.0.2")]), 403)
        self.assertIn("127.0.0.1", problem["detail"])
        self.assert_status(self.get(gateway, "/show"), 200)
        self.assertEqual(self.refused(gateway, "/in", "network"), 3)

    def test_dot_segments_do_not_dodge_it(self):
        gateway = self.gateway_with(route("/", "web"), route("/in", "web", allow={"networks": ["127.0.0.2"]}))
        for target in ("/in/../in/show", "/x/../in/show", "/%2e%2e/in/show", "/x/%2E./in", "//../in/show"):
            self.assert_status(self.get(gateway, target), 403)

    def test_what_is_stored_is_given_only_to_who_is_let_in(self):
        """As a hit on the short way, as one with conditions or a range, and of another method."""
        gateway = self.gateway_with(route("/", "web", cache=True, allow={"networks": ["127.0.0.2"]}))
        for _ in range(2):
            self.assertEqual(self.get(gateway, STORED, "127.0.0.2").body.split()[1], b"1")
        conditions = [("If-None-Match", "*")], [("Range", "bytes=0-1")], [("Cache-Control", "only-if-cached")], []
        for fields in conditions:
            for method in ("GET", "HEAD"):
                self.assert_status(self.get(gateway, STORED, fields=fields, method=method), 403)
        self.assertEqual(self.get(gateway, STORED, "127.0.0.2").body.split()[1], b"1")

    def test_a_unix_socket_has_no_address(self):
        gateway = self.gateway_with(
            route("/", "web", allow={"networks": ["0.0.0.0/0", "::/0"]}),
            route("/out", "web", deny={"networks": ["0.0.0.0/0"]}),
            listen=["127.0.0.1:0", "unix:in.sock"])  # fmt: skip
        for target, status in (("/show", 403), ("/out/show", 200)):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(20)
                connection.connect(str(gateway.folder / "in.sock"))
                connection.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
                self.assertIn(b" %d " % status, connection.recv(100))

    def test_explain_says_it(self):
        rules = 'allow = { networks = ["127.0.0.0/8"] }\nlimit = { rate = "5/m", concurrent = 3 }\n'
        gateway = self.gateway_with(
            f'[[routes]]\npath = "/"\nservice = "web"\n{rules}',
            f'[[routes]]\npath = "/files"\nfiles = "."\n{rules}',
            f'[[routes]]\npath = "/old"\nredirect = "/x"\n{rules}',
        )
        for path in ("/x", "/files/x", "/old"):
            told = subprocess.run([BINARY, "explain", path, "--config", gateway.folder / "pilotlight.toml"],
                                  capture_output=True, text=True, timeout=20)  # fmt: skip
            self.assertIn("allow.networks: 127.0.0.0/8, else 403", told.stdout, told)
            self.assertIn("limit.rate: 5/m by client, at most 5 at once, else 429", told.stdout)
            self.assertIn("limit.concurrent: 3 by client, else 429", told.stdout)


class Rates(AccessCase):
    def statuses(self, gateway, count, target="/show", source="127.0.0.1", fields=()):
        with open_client(gateway, source) as client:
            return [client.request("GET", target, fields).status for _ in range(count)]

    def test_beyond_it_is_429_with_its_fields(self):
        gateway = self.gateway_with(route("/", "web", limit={"rate": "3/h"}))
        self.assertEqual(self.statuses(gateway, 5), [200, 200, 200, 429, 429])
        answer = self.get(gateway, "/show")
        problem = self.assert_problem(answer, 429)
        self.assertEqual(problem["limit"], {"rate": "3/h", "burst": 3, "by": "client"})
        self.assertEqual(answer.get("ratelimit-policy"), '"rate";q=3;w=3600')
        left = re.fullmatch(r'"rate";r=0;t=(\d+)', answer.get("ratelimit"))
        self.assertEqual(answer.get("retry-after"), left[1])
        self.assertTrue(1100 <= int(left[1]) <= 1200, left[1])
        self.assertEqual(self.statuses(gateway, 2, source="127.0.0.9"), [200, 200], "another client")
        self.assertEqual(self.refused(gateway, "/", "rate"), 3)

    def test_hits_are_counted_once_each(self):
        """In one write and one by one: what is stored, what is not, and what turns out not to be a hit."""
        gateway = self.gateway_with(route("/", "web", cache=True, limit={"rate": "10/d"}))
        self.assertEqual(self.statuses(gateway, 4, STORED), [200] * 4)
        with open_client(gateway) as client:
            client.send(f"GET {STORED} HTTP/1.1\r\nHost: demo.test\r\n\r\n".encode() * 5)
            self.assertEqual([client.answer("GET").status for _ in range(5)], [200] * 5)
        self.assertEqual(self.statuses(gateway, 3, make("Cache-Control: no-store")), [200, 429, 429])
        self.assertEqual(self.statuses(gateway, 1, STORED), [429])
        self.assertEqual(self.origin.serials.total(), 2)

    def test_all_workers_count_together(self):
        gateway = self.gateway_with(route("/", "web", limit={"rate": "40/d", "by": "route"}), workers=2)
        seen = []

        def ask():
            for _ in range(5):
                seen.append(self.get(gateway, "/show").status)

        threads = [threading.Thread(target=ask) for _ in range(12)]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
        self.assertEqual((seen.count(200), seen.count(429)), (40, 20))

    def test_by_field_and_cookie(self):
        gateway = self.gateway_with(
            route("/key", "web", limit={"rate": "1/d", "by": "header:X-Api-Key"}),
            route("/sid", "web", limit={"rate": "1/d", "by": "cookie:sid"}))  # fmt: skip
        for fields in ([("X-Api-Key", "a")], [("x-api-key", "b")], []):
            self.assertEqual(self.statuses(gateway, 2, "/key", fields=fields), [200, 429])
        self.assertEqual(self.statuses(gateway, 2, "/sid", fields=[("Cookie", "a=b; sid=1")]), [200, 429])
        self.assertEqual(self.statuses(gateway, 2, "/sid", fields=[("Cookie", "sid=2")]), [200, 429])

    def test_a_key_that_is_there_twice_is_none(self):
        """A service may take another one than the first: whoever puts one before it counts as who has none."""
        cases = []
        for name, limit_by in (("X-Api-Key", "header:X-Api-Key"), ("Cookie", "cookie:sid")):
            value = (lambda text: text) if name == "X-Api-Key" else "sid={}".format
            made = [lambda number: [(name, value(number)), (name, value("real"))]]  # noqa: B023
            if name == "Cookie":
                made.append(lambda number: [(name, f"sid={number}; a=b; sid=real")])
            else:  # the service does not get it either
                made.append(lambda number: [("Connection", name), (name, value(number))])  # noqa: B023
            cases += [(name, value, limit_by, cache, fields) for cache in (False, True) for fields in made]
        gateway = self.gateway_with(*(
            route(f"/{number}", "web", cache=cache, limit={"rate": "2/d", "by": limit_by})
            for number, (_, _, limit_by, cache, _) in enumerate(cases)
        ))  # fmt: skip
        for number, (name, value, _, cache, fields) in enumerate(cases):
            target = make("Cache-Control: max-age=60", path=f"/{number}/make")
            found = [self.statuses(gateway, 1, target, fields=fields(str(client)))[0] for client in range(4)]
            self.assertEqual(found, [200, 200, 429, 429], (fields("n"), cache))
            self.assertEqual(self.statuses(gateway, 3, target, fields=[(name, value("real"))]), [200, 200, 429])

    def test_a_body_that_nobody_wants_does_not_stay_on_the_connection(self):
        gateway = self.gateway_with(route("/", "web", limit={"rate": "1/d"}))
        with open_client(gateway) as client:
            for status in (200, 429, 429):
                answer = client.request("POST", "/show", [("Content-Length", "26")], b"GET /evil HTTP/1.1\r\n\r\n    ")
                self.assert_status(answer, status)
        self.assertFalse([target for _, target, _ in self.origin.seen if "evil" in target])

    def test_it_survives_a_reload(self):
        gateway = self.gateway_with(route("/", "web", limit={"rate": "2/d"}))
        self.assertEqual(self.statuses(gateway, 2), [200, 200])
        file = gateway.folder / "pilotlight.toml"
        file.write_text(file.read_text() + route("/more", "web"))
        gateway.signal(1)
        eventually(lambda: self.get(gateway, "/more/show").status == 200 and "reloaded" in gateway.output())
        self.assertEqual(self.statuses(gateway, 1), [429])


class AtATime(AccessCase):
    def test_places_are_given_back_with_the_end_of_the_answer(self):
        gateway = self.gateway_with(route("/", "web", limit={"concurrent": 2}))
        waiting = [open_client(gateway) for _ in range(2)]
        for client in waiting:
            self.addCleanup(client.close)
            client.send_head("GET", "/wait")
        eventually(lambda: len(self.origin.seen) >= 2)
        answer = self.get(gateway, "/show")
        problem = self.assert_problem(answer, 429)
        self.assertEqual((problem["limit"], answer.get("retry-after")), ({"concurrent": 2, "by": "client"}, "1"))
        self.assert_status(self.get(gateway, "/show", "127.0.0.2"), 200)
        waiting[0].close()
        eventually(lambda: self.get(gateway, "/show").status == 200)
        self.assertEqual([self.get(gateway, "/show").status for _ in range(5)], [200] * 5)

    def test_bodies_keep_to_the_bandwidth(self):
        """Not faster, whatever it is made of; and all of it."""
        size = 300_000
        gateway = self.gateway_with(route("/", "web", cache=True, limit={"bandwidth": "100KiB/s"}))
        target = f"/tiny?bytes={size}"
        begun = time.monotonic()
        answer = self.get(gateway, target)
        took = time.monotonic() - begun
        self.assertEqual(len(answer.body), size)
        # Less what may be ahead, and a piece. No upper bound: the machine may be busy.
        self.assertGreaterEqual(took, size / 102_400 - 0.5)


def basic(user, password):
    return [("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())]


def htpasswd(file, user, password, *options):
    """As people make it."""
    subprocess.run(["htpasswd", "-bB", "-C", "5", *options, file, user, password], check=True, capture_output=True)


class Passwords(AccessCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.users = Path(folder.name) / "users.htpasswd"
        htpasswd(self.users, "ann", "secret", "-c")
        with self.users.open("a") as file:
            file.write("bob:" + ARGON2ID + "\n")

    def protected(self, *routes, **settings):
        allow = {"basic": str(self.users), "realm": "the staff"}
        return self.gateway_with(route("/", "web", cache=True, allow=allow | settings), *routes)

    def test_users_of_the_file_are_let_in(self):
        gateway = self.protected()
        for fields, status in (
            ([], 401), (basic("ann", "secret"), 200), (basic("ann", "secret"), 200), (basic("ann", "Secret"), 401),
            (basic("bob", "geheim"), 200), (basic("bob", "secret"), 401), (basic("eve", "secret"), 401),
            (basic("", ""), 401), ([("Authorization", "Bearer x")], 401), ([("Authorization", "Basic ***")], 401),
        ):  # fmt: skip
            with self.subTest(fields=fields):
                answer = self.get(gateway, "/show", fields=fields)
                self.assert_status(answer, status)
                challenge = 'Basic realm="the staff", charset="UTF-8"' if status == 401 else None
                self.assertEqual(answer.get("www-authenticate"), challenge)
        self.assertEqual(self.refused(gateway, "/", "credentials"), 7)
        self.assertNotIn("secret", gateway.output())

    def test_two_lines_of_authorization(self):
        """Which of the two counts must not be one thing here and another for the service."""
        gateway = self.protected()
        both = basic("ann", "secret") + basic("eve", "x")
        self.assert_status(self.get(gateway, "/show", fields=both), 401)
        self.assertEqual(self.origin.seen, [])

    def test_what_is_stored_behind_it(self):
        """By RFC 9111 §3.5 only what the service calls public; and that is given to who is let in."""
        gateway = self.protected()
        for target, expected in ((STORED, [1, 2, 3]), (make("Cache-Control: public, max-age=60"), [1, 1, 1])):
            serials = [int(self.get(gateway, target, fields=basic("ann", "secret")).body.split()[1]) for _ in range(3)]
            self.assertEqual(serials, expected, target)
            for fields in ([], basic("ann", "x"), [("If-None-Match", "*")], [("Range", "bytes=0-0")]):
                for method in ("GET", "HEAD"):
                    self.assert_status(self.get(gateway, target, fields=fields, method=method), 401)

    def test_the_file_is_followed(self):
        gateway = self.protected()
        self.assert_status(self.get(gateway, "/show", fields=basic("ann", "secret")), 200)
        htpasswd(self.users, "ann", "changed")
        htpasswd(self.users, "cleo", "new")
        eventually(lambda: self.get(gateway, "/show", fields=basic("cleo", "new")).status == 200)
        self.assert_status(self.get(gateway, "/show", fields=basic("ann", "secret")), 401)
        self.assert_status(self.get(gateway, "/show", fields=basic("ann", "changed")), 200)
        self.users.write_text("ann:plain\n")
        eventually(lambda: self.get(gateway, "/show", fields=basic("ann", "plain")).status == 401
                   and "so the users stay as they were: line 1" in gateway.output())  # fmt: skip
        self.assert_status(self.get(gateway, "/show", fields=basic("ann", "changed")), 200)

    def test_a_request_with_a_body(self):
        gateway = self.protected()
        with open_client(gateway) as client:
            for user, status in (("ann", 200), ("eve", 401), ("ann", 200)):
                fields = basic(user, "secret") + [("Content-Length", "26")]
                answer = client.request("POST", "/show", fields, b"GET /evil HTTP/1.1\r\n\r\n    ")
                self.assert_status(answer, status)
        self.assertEqual([target for _, target, _ in self.origin.seen], ["/show", "/show"])

    def test_preflights(self):
        asks = [("Origin", "http://a.test"), ("Access-Control-Request-Method", "PUT")]
        allow = {"basic": str(self.users), "networks": ["127.0.0.1"], "preflight": True}
        gateway = self.protected(route("/cors", "web", allow=allow))
        self.assert_status(self.get(gateway, "/show", fields=asks, method="OPTIONS"), 401)
        self.assert_status(self.get(gateway, "/cors/show", fields=asks, method="OPTIONS"), 200)
        self.assert_status(self.get(gateway, "/cors/show", "127.0.0.2", fields=asks, method="OPTIONS"), 403)
        self.assert_status(self.get(gateway, "/cors/show", fields=asks[:1], method="OPTIONS"), 401)
        self.assert_status(self.get(gateway, "/cors/show", fields=asks), 401)

    def test_check_reads_the_file(self):
        weak = "ann:{SHA}x\n", "line 1: the hash is SHA-1 without a salt ({SHA})"
        for text, expected in (weak, (None, "htpasswd -cB")):
            self.users.write_text(text) if text else self.users.unlink()
            with self.assertRaises(GatewayError) as raised:
                self.protected()
            self.assertIn(expected, str(raised.exception))


class Decider(http.server.ThreadingHTTPServer):
    """Decides by `Authorization`, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                """Quiet."""

            def do_GET(self):
                self.server.asked.append((self.path, self.headers))
                who = self.headers.get("Authorization", "") or self.headers.get("Cookie", "")
                status, fields, body = self.server.answers.get(who, (401, [("WWW-Authenticate", "Own")], b"who?"))
                self.send_response(status)
                for field in fields:
                    self.send_header(*field)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        self.answers = {
            "ann": (200, [("X-User", "ann"), ("X-Other", "no")], b"ignored"), "bob": (204, [("X-User", "bob")], b""),
            "sid=ann": (200, [("X-User", "ann")], b""), "sid=bob": (200, [("X-User", "bob")], b""),
            "eve": (403, [], b"not you"), "new": (302, [("Location", "http://login.test/")], b""),
            "ill": (500, [], b"!"),
        }  # fmt: skip
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class DeciderCase(AccessCase):
    def setUp(self):
        super().setUp()
        self.decider = Decider()
        self.addCleanup(self.decider.server_close)
        self.addCleanup(self.decider.shutdown)
        self.url = "http://127.0.0.1:%d/auth?for=app" % self.decider.server_address[1]

    def guarded(self, *routes, **settings):
        forward = {"url": self.url, "fields": ["X-User"]} | settings
        return self.gateway_with(route("/", "web", cache=True, allow={"forward": forward}), *routes)

    def ask(self, gateway, who=None, target="/show", fields=(), **named):
        return self.get(gateway, target, fields=[*fields, *([("Authorization", who)] if who else [])], **named)

    def seen(self):
        """The last request that the service got, its fields by their names in lower case."""
        method, target, fields = self.origin.seen[-1]
        return method, target, {name.lower(): value for name, value in fields}


class Deciders(DeciderCase):
    def test_who_is_let_in_and_who_is_not(self):
        gateway = self.guarded()
        for who, status in (("ann", 200), ("bob", 200), (None, 401), ("eve", 403), ("new", 302), ("ill", 503)):
            with self.subTest(who=who):
                self.assert_status(self.ask(gateway, who), status)
        answer = self.ask(gateway)
        self.assertEqual((answer.get("www-authenticate"), answer.body), ("Own", b"who?"))
        self.assertEqual(self.ask(gateway, "new").get("location"), "http://login.test/")
        self.assert_problem(self.ask(gateway, "ill"), 503)
        self.assertEqual(len(self.origin.seen), 2)
        self.assertEqual(self.refused(gateway, "/", "forward"), 5)
        self.assertEqual(self.refused(gateway, "/", "undecided"), 2)

    def test_what_is_asked(self):
        gateway = self.guarded()
        forged = [("X-Forwarded-Uri", "/public"), ("X_Forwarded_Method", "GET"), ("X-Forwarded-For", "6.6.6.6"),
                  ("X-Forwarded-Host", "evil.test"), ("If-None-Match", "*"), ("X-Kept", "1")]  # fmt: skip
        with open_client(gateway) as client:
            fields = [*forged, ("Authorization", "ann"), ("Content-Length", "4")]
            answer = client.request("PUT", "/show?a=b", fields, b"body")
        self.assert_status(answer, 200)
        path, asked = self.decider.asked[-1]
        expected = {
            "X-Forwarded-Method": "PUT", "X-Forwarded-Uri": "/show?a=b", "X-Forwarded-Host": "demo.test",
            "X-Forwarded-Proto": "http", "X-Forwarded-For": "127.0.0.1", "X-Kept": "1", "Authorization": "ann",
            "If-None-Match": None, "Content-Length": None, "X_Forwarded_Method": None,
            "Host": "127.0.0.1:%d" % self.decider.server_address[1],
        }  # fmt: skip
        self.assertEqual(path, "/auth?for=app")
        self.assertEqual({name: asked.get(name) for name in expected}, expected)
        self.assertEqual(json.loads(answer.body)["body"], "body", "which stays for the service")

    def test_its_fields_cannot_be_forged(self):
        allow = {"forward": {"url": self.url, "fields": ["X-User"]}, "preflight": True}
        gateway = self.guarded(route("/cors", "web", allow=allow))
        forged = [("X-User", "root"), ("X_User", "root"), ("x-user", "root")]
        for who in ("ann", "bob"):
            self.assert_status(self.ask(gateway, who, fields=forged), 200)
            fields = self.seen()[2]
            self.assertEqual((fields.get("x-user"), fields.get("x_user"), fields.get("x-other")), (who, None, None))
        asks = [("Origin", "http://a.test"), ("Access-Control-Request-Method", "PUT")]
        self.assert_status(self.get(gateway, "/cors/show", fields=asks + forged, method="OPTIONS"), 200)
        self.assertEqual({"x-user", "x_user"} & set(self.seen()[2]), set())
        self.assert_status(self.get(gateway, "/show", fields=asks + forged, method="OPTIONS"), 401)

    def test_its_fields_cannot_be_forged_behind_a_body(self):
        """A service may merge trailers into the fields of the request."""
        gateway = self.guarded()
        with socket.create_connection(gateway.address, timeout=20) as connection:
            connection.sendall(b"POST /show HTTP/1.1\r\nHost: a\r\nAuthorization: ann\r\nConnection: close\r\n"
                               b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
                               b"X-User: root\r\nx_user: root\r\nX-Sum: 6\r\n\r\n")  # fmt: skip
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        told = json.loads(answer.split(b"\r\n\r\n", 1)[1])
        self.assertEqual((told["body"], told["trailers"]), ("abc", ["x-sum: 6"]))

    def test_what_one_was_answered_is_not_anothers(self):
        """Known by a cookie, of which the cache would not know that it is a credential."""
        gateway = self.guarded()
        for target, serials in ((STORED, [1, 2, 3, 4]), (make("Cache-Control: public, max-age=60"), [1, 2, 1, 2])):
            for who, serial in zip(("ann", "bob", "ann", "bob"), serials, strict=True):
                answer = self.get(gateway, target, fields=[("Cookie", f"sid={who}")])
                self.assert_status(answer, 200)
                self.assertEqual(int(answer.body.split()[1]), serial, (target, who))
            for fields in ([], [("Cookie", "sid=eve")], [("X-User", "ann")]):
                self.assert_status(self.get(gateway, target, fields=fields), 401)

    def test_what_is_remembered(self):
        gateway = self.guarded(cache="1h")
        for _ in range(3):
            self.assert_status(self.ask(gateway, "ann"), 200)
            self.assertEqual(self.seen()[2]["x-user"], "ann")
        self.assertEqual(len(self.decider.asked), 1)
        self.ask(gateway, "ann", "/show?other")
        self.ask(gateway, "ann", source="127.0.0.2")
        self.ask(gateway, "ann", fields=[("X-Kept", "1")])
        self.assertEqual(len(self.decider.asked), 4, "another target, client, field")
        for _ in range(2):
            self.assert_status(self.ask(gateway, "eve"), 403)
        self.assertEqual(len(self.decider.asked), 6, "who is turned away is asked for each time")

    def test_who_decides_is_asked_over_tls(self):
        """The same question, and by the authority that the configuration names only."""
        with tempfile.TemporaryDirectory() as folder:
            authority, strange = Authority(folder), Authority(folder, "strange")
            certificate, key = authority.issue("127.0.0.1")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.decider.socket = context.wrap_socket(self.decider.socket, server_side=True)
            self.url = self.url.replace("http:", "https:")
            gateway = self.guarded(ca=str(authority.certificate))
            for who, status in (("ann", 200), (None, 401), ("eve", 403), ("new", 302), ("ill", 503)):
                self.assert_status(self.ask(gateway, who, fields=[("X-User", "root")]), status)
            self.assertEqual(self.seen()[2]["x-user"], "ann")
            answer = self.ask(gateway)
            self.assertEqual((answer.get("www-authenticate"), answer.body), ("Own", b"who?"))
            self.ask(gateway, "ann", "/show?a=b", fields=[("X-Forwarded-For", "6.6.6.6"), ("If-None-Match", "*")])
            path, asked = self.decider.asked[-1]
            expected = {
                "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/show?a=b", "X-Forwarded-Host": "demo.test",
                "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "If-None-Match": None,
                "Authorization": "ann", "Host": "127.0.0.1:%d" % self.decider.server_address[1],
            }  # fmt: skip
            self.assertEqual((path, {name: asked.get(name) for name in expected}), ("/auth?for=app", expected))
            gateway = self.guarded(ca=str(strange.certificate))
            self.assert_problem(self.ask(gateway, "ann"), 503)
            self.assert_eventually(lambda: "certificate" in gateway.output(), "the log says why")

    def test_a_service_decides(self):
        """By the same rules; a route to the auth server may ask it, too."""
        at = "http://127.0.0.1:%d" % self.decider.server_address[1]
        forward = {"service": "decider", "path": "/auth?for=app", "fields": ["X-User"]}
        gateway = self.gateway_with(
            service("decider", url=at), route("/", "web", cache=True, allow={"forward": forward}),
            route("/self", "decider", allow={"forward": forward}))  # fmt: skip
        for who, status in (("ann", 200), ("bob", 200), (None, 401), ("eve", 403), ("new", 302), ("ill", 503)):
            self.assert_status(self.ask(gateway, who), status)
        self.assert_status(self.ask(gateway, "ann", fields=[("X-User", "root"), ("X_User", "root")]), 200)
        fields = self.seen()[2]
        self.assertEqual((fields.get("x-user"), fields.get("x_user")), ("ann", None))
        path, asked = self.decider.asked[-1]
        self.assertEqual((path, asked["X-Forwarded-Uri"], asked["Host"]), ("/auth?for=app", "/show", "demo.test"))
        public = make("Cache-Control: public, max-age=60")
        serials = [int(self.ask(gateway, who, public).body.split()[1]) for who in ("ann", "bob", "ann", "bob")]
        self.assertEqual(serials, [1, 2, 1, 2])
        before = len(self.decider.asked)
        self.assert_status(self.ask(gateway, "ann", "/self/x"), 200)
        self.assertEqual([path for path, _ in self.decider.asked[before:]], ["/auth?for=app", "/self/x"])
        self.assert_status(self.ask(gateway, "eve", "/self/x"), 403)

    def test_a_service_decides_over_the_pipe(self):
        """It is started for the question."""
        echo = {"service": "demo", "path": "/echo", "fields": ["X-Method", "X-Echo-User"]}
        gateway = self.gateway_with(
            service("demo"), route("/", "web", allow={"forward": echo | {"timeout": "1m"}}),
            route("/none", "web", allow={"forward": echo | {"path": "/nothing", "timeout": "1m"}}))  # fmt: skip
        answer = self.get(gateway, "/show", fields=[("X-Method", "forged"), ("X_Echo_User", "forged")], method="PUT")
        self.assert_status(answer, 200)
        fields = self.seen()[2]
        self.assertEqual((fields.get("x-method"), fields.get("x_echo_user")), ("GET", None))
        self.assert_problem(self.get(gateway, "/none/show"), 503)
        self.assertEqual(len(self.origin.seen), 1, "404 is no decision")

    def test_nobody_decides(self):
        gateway = self.guarded(timeout="200ms")
        self.decider.shutdown()
        self.decider.server_close()
        answer = self.ask(gateway, "ann")
        self.assert_problem(answer, 503)
        self.assertEqual((answer.get("retry-after"), self.origin.seen), ("1", []))


class OverHttp2(DeciderCase):
    """A stream is a request as every other."""

    def test_streams_are_let_in_as_requests_are(self):
        users = Path(tempfile.mkdtemp()) / "users"
        self.addCleanup(users.unlink)
        htpasswd(users, "ann", "secret", "-c")
        gateway = self.guarded(
            route("/in", "web", allow={"networks": ["127.0.0.2"]}),
            route("/few", "web", cache=True, limit={"rate": "2/d"}),
            route("/pass", "web", cache=True, allow={"basic": str(users)}))  # fmt: skip
        client = http2_client.Client(gateway.address)
        self.addCleanup(client.socket.close)
        ann = [("authorization", basic("ann", "secret")[0][1])]
        public = make("Cache-Control: public, max-age=60", path="/pass/make")
        for target, fields, statuses in (
            ("/in/show", [], [403]), ("/few" + STORED, [], [200, 200, 429]), (public, ann, [200, 200]),
            (public, [], [401]), ("/show", [("authorization", "ann")], [200]),
            ("/show", [("authorization", "eve")], [403]), ("/show", [], [401]),
        ):  # fmt: skip
            found = [client.request("GET", target, fields, host="demo.test").status for _ in statuses]
            self.assertEqual(found, statuses, target)
        self.assertEqual(self.decider.asked[0][1]["X-Forwarded-Host"], "demo.test")


if __name__ == "__main__":
    unittest.main()
