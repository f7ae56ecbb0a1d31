"""What a route changes: fields of requests and responses, the path that the service is asked for."""

import json
import subprocess
import unittest
from urllib.parse import quote as encoded

from harness import BINARY, DEMO, Gateway, TestCase, config, route, setUpModule
from origin import Origin

__all__ = ["setUpModule"]

FILE = """
listen = "127.0.0.1:0"
workers = 1
[services.web]
url = "{url}"
[services.pipe]
command = [{demo}]
[services.dead]
url = "http://127.0.0.1:9"
[[routes]]
path = "/"
service = "web"
[routes.request_fields]
set.X-Env = "prod"
set.X-Client = "{{client}}"
set.X-Asked = "{{scheme}}://{{host}}{{path}}{{query}}"
set.Host = "inner.test:81"
add = {{ "X-More" = ["one", "{{request_id}}"] }}
remove = ["Cookie", "X-Secret-*"]
[routes.response_fields]
set = {{ "X-Frame-Options" = "DENY", "X-Id" = "{{request_id}}" }}
add = {{ "Vary" = "X-Other" }}
remove = ["Server", "X-Powered-*", "Cache-Status"]
[[routes]]
path = "/pipe"
service = "pipe"
strip_prefix = true
request_fields = {{ set = {{ "X-Echo-Env" = "prod" }}, remove = ["X-Echo-Gone"] }}
response_fields = {{ set = {{ "X-Frame-Options" = "DENY" }} }}
[[routes]]
path = "/dead"
service = "dead"
response_fields = {{ set = {{ "X-Frame-Options" = "DENY" }}, remove = ["Content-*"] }}
[[routes]]
path = "/plain"
service = "web"
[[routes]]
path = "/old"
service = "web"
rewrite = "/new"
[[routes]]
path = "/blog"
service = "web"
rewrite = {{ pattern = "/blog/*/*.html", to = "/posts/{{2}}" }}
[[routes]]
path = "/below"
service = "web"
strip_prefix = true
restore_prefix = true
"""


def make(*fields, path="/make", **arguments):
    """The target of a response with these fields."""
    query = [f"h={encoded(field)}" for field in fields] + [f"{name}={value}" for name, value in arguments.items()]
    return f"{path}?{'&'.join(query)}"


class RulesCase(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())
        demo = ", ".join(f'"{word}"' for word in DEMO)
        cls.gateway = cls.share(Gateway(BINARY, FILE.format(url=cls.origin.url, demo=demo)))

    def seen(self, target, fields=()):
        """What the service got."""
        answer = self.gateway.request("GET", target, fields=list(fields))
        told = self.assert_json(answer)
        return told["target"], [(name.lower(), value) for name, value in told["fields"]]

    def values(self, fields, name):
        return [value for one, value in fields if one == name]


class Requests(RulesCase):
    def test_the_service_gets_what_the_route_says(self):
        given = [
            ("X-Env", "evil"), ("X_Env", "evil"), ("x-client", "6.6.6.6"), ("Cookie", "a=b"), ("X-Secret-A", "1"),
            ("X_Secret_B", "1"), ("X-Secret", "stays"), ("X-More", "mine"), ("X-Request-Id", "the-id"),
        ]  # fmt: skip
        target, fields = self.seen("/show?a=%2F", given)
        self.assertEqual(target, "/show?a=%2F")
        self.assertEqual(self.values(fields, "x-env"), ["prod"])
        self.assertEqual(self.values(fields, "x_env"), [])
        self.assertEqual(self.values(fields, "x-client"), ["127.0.0.1"])
        self.assertEqual(self.values(fields, "x-forwarded-host"), ["demo.test"])
        self.assertEqual(self.values(fields, "x-asked"), ["http://demo.test/show?a=%2F"])
        self.assertEqual(self.values(fields, "x-more"), ["mine", "one", "the-id"])
        self.assertEqual(self.values(fields, "host"), ["inner.test:81"])
        self.assertEqual(self.values(fields, "x-secret"), ["stays"])
        for gone in ("cookie", "x-secret-a", "x_secret_b"):
            self.assertEqual(self.values(fields, gone), [], gone)

    def test_a_body_is_framed_as_before(self):
        answer = self.gateway.request("POST", "/show", fields=[("X-Env", "evil")], body=b"0123")
        self.assertEqual(self.assert_json(answer)["body"], "0123")

    def test_the_pipe_gets_the_same(self):
        given = [("X-Echo-Env", "evil"), ("X-Echo-Gone", "1"), ("X-Echo-Kept", "1")]
        answer = self.gateway.request("GET", "/pipe/echo", fields=given)
        self.assert_status(answer, 200)
        self.assertEqual(answer.all("x-echo-env"), ["prod"])
        self.assertEqual((answer.get("x-echo-kept"), answer.get("x-echo-gone")), ("1", None))
        self.assertEqual(answer.get("x-frame-options"), "DENY")


class Responses(RulesCase):
    FIELDS = ("Cache-Control: max-age=60", 'ETag: "a"', "X-Powered-By: x", "X-Frame-Options: ALLOW", "Vary: Accept")

    def check(self, answer, request_id):
        self.assert_status(answer, 200)
        fields = [(name.lower(), value) for name, value in answer.fields]
        self.assertEqual(self.values(fields, "x-frame-options"), ["DENY"])
        self.assertEqual(self.values(fields, "vary"), ["Accept", "X-Other"])
        self.assertEqual(self.values(fields, "x-id"), [request_id])
        for gone in ("server", "x-powered-by", "cache-status"):
            self.assertEqual(self.values(fields, gone), [], gone)

    def test_from_the_service_and_from_memory(self):
        target = make(*self.FIELDS)
        for number in range(3):
            answer = self.gateway.request("GET", target, fields=[("X-Request-Id", f"id-{number}")])
            self.check(answer, f"id-{number}")
            self.assertEqual(answer.get("age") is None, number == 0)
            self.assertIn(b"serial 1 ", answer.body)
        answer = self.gateway.request("GET", target, fields=[("If-None-Match", '"a"')])
        self.assert_status(answer, 304)
        self.assertEqual(answer.get("x-frame-options"), "DENY")
        answer = self.gateway.request("HEAD", target)
        self.assertEqual((answer.status, answer.get("x-frame-options"), answer.body), (200, "DENY", b""))

    def test_pipelined_hits_keep_their_order(self):
        first, other = (make(*self.FIELDS, path=path, of="pipelined") for path in ("/make", "/plain/make"))
        for target in (first, other):
            self.assert_status(self.gateway.get(target), 200)
        with self.gateway.client() as client:
            targets = [first, other, first, first, other]
            client.send(b"".join(f"GET {target} HTTP/1.1\r\nHost: demo.test\r\n\r\n".encode() for target in targets))
            for target in targets:
                answer = client.answer("GET")
                self.assert_status(answer, 200)
                self.assertIn(b"serial 1 ", answer.body)
                self.assertEqual(answer.get("x-frame-options"), "DENY" if target is first else "ALLOW")

    def test_errors_of_the_gateway(self):
        answer = self.gateway.get("/dead/x")
        self.assertEqual(answer.status, 502)
        self.assertEqual(answer.get("x-frame-options"), "DENY")
        self.assertIsNone(answer.get("content-type"))
        self.assertEqual(json.loads(answer.body)["status"], 502)

    def test_what_varies_on_a_field_for_one_client_is_not_stored(self):
        target = make("Cache-Control: max-age=60", "Vary: X-Client")
        bodies = [self.gateway.get(target).body for _ in range(2)]
        self.assertNotEqual(*bodies)
        target = make("Cache-Control: max-age=60", "Vary: X-Env")
        bodies = [self.gateway.get(target).body for _ in range(2)]
        self.assertEqual(*bodies)


class Prefixes(RulesCase):
    def test_what_was_cut_off_is_put_back(self):
        """From the service and from memory, which has what the service has said."""
        cookies = ["a=b; Path=/; HttpOnly", "__Host-c=d; Path=/"]
        for location, expected in (
            ("/login?x", "/below/login?x"), ("http://demo.test/a", "http://demo.test/below/a"), ("next", "next"),
            ("https://other.example/a", "https://other.example/a"),
        ):  # fmt: skip
            target = make(f"location:{location}", "cache-control:max-age=60", path="/below/make")
            for _ in range(2):
                self.assertEqual(self.gateway.get(target).get("location"), expected)
        answer = self.gateway.get(make(*[f"set-cookie:{cookie}" for cookie in cookies], path="/below/make"))
        self.assertEqual(answer.all("set-cookie"), ["a=b; Path=/below; HttpOnly", cookies[1]])


class Rewrites(RulesCase):
    def check(self, target, expected):
        self.assertEqual(self.seen(target)[0], expected)

    def test_by_prefix_and_by_pattern(self):
        self.check("/old/show?a=%2F", "/new/show?a=%2F")
        self.check("/old", "/new")
        self.check("/x/../old//evil.test/show", "/new/evil.test/show")
        self.check("/blog/2026/spring.html?x", "/posts/spring?x")
        self.check("/blog/2026/spring", "/blog/2026/spring")

    def test_the_cache_has_the_path_of_the_client(self):
        target, before = make("Cache-Control: max-age=60", path="/old/make"), len(self.origin.requests("/"))
        for verdict in ("stored", "; hit"):
            answer = self.gateway.get(target)
            self.assertIn(verdict, answer.get("cache-status"))
        self.assertEqual(self.origin.requests("/")[before:], [target.replace("/old/", "/new/")])


REDIRECTS = """
listen = "127.0.0.1:0"
workers = 1
[admin]
socket = "admin.sock"
[[routes]]
path = "/"
redirect = "https://new.test{path}{query}"
[[routes]]
path = "/same"
redirect = { to = "{scheme}://www.{host}", status = 302, keep_path = true, keep_query = true }
response_fields = { set = { "X-Rule" = "{path}" } }
[[routes]]
path = "/local"
redirect = { to = "/", status = 307, keep_path = true }
"""


class Redirects(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.share(Gateway(BINARY, REDIRECTS))

    def check(self, target, status, location, **named):
        answer = self.gateway.request(named.pop("method", "GET"), target, **named)
        self.assert_status(answer, status)
        self.assertEqual(answer.all("location"), [location])
        return answer

    def test_where_clients_are_sent(self):
        self.check("/a/b?x=%2F", 308, "https://new.test/a/b?x=%2F")
        self.check("/", 308, "https://new.test/")
        self.check("/a", 308, "https://new.test/a", method="POST", body=b"0123")
        answer = self.check("/same/b?x", 302, "http://www.demo.test/same/b?x", host="demo.test:81")
        self.assertEqual(answer.get("x-rule"), "/same/b")
        self.check("/local/x", 307, "/local/x", method="HEAD")
        self.check("http://other.test/same", 302, "http://www.other.test/same")

    def test_no_request_chooses_another_host(self):
        for path in ("//evil.test", "//evil.test/%2e%2e", "///evil.test", "/..//evil.test", "//@evil.test"):
            answer = self.gateway.get(path)
            self.assertTrue(answer.get("location", "https://new.test/").startswith("https://new.test/"), answer)
        for path in ("/..//local//evil.test", "//evil.test/../local", "/local/..//local"):
            location = self.gateway.get(path).get("location", "/")
            self.assertTrue(location.startswith("https://new.test/") or not location.startswith("//"), location)
        with self.gateway.client() as client:
            client.send(b"GET /same HTTP/1.0\r\n\r\n")
            self.assert_problem(client.answer("GET"), 400)

    def test_many_on_one_connection(self):
        """A redirect is over when its head is: what follows a body is the next request."""
        with self.gateway.client() as client:
            request = b"GET /a HTTP/1.1\r\nHost: demo.test\r\nContent-Length: 3\r\n\r\nabc"
            client.send(request * 3)
            for _ in range(3):
                answer = client.answer("GET")
                self.assertEqual((answer.status, answer.get("location")), (308, "https://new.test/a"))

    def test_explain_says_where_to(self):
        socket = str(self.gateway.folder / "admin.sock")
        command = [BINARY, "explain", "http://demo.test/same/b?x", "--socket", socket]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("302 to http://www.demo.test/same/b?x", done.stdout)
        self.assertIn("response_fields.set: x-rule", done.stdout)


PAGES = """
listen = "127.0.0.1:0"
workers = 1
[admin]
socket = "admin.sock"
[errors]
"404" = "404.html"
"5xx" = "5xx.txt"
[services.web]
url = "{url}"
[services.dead]
url = "http://127.0.0.1:9"
[[routes]]
path = "/web"
service = "web"
[[routes]]
path = "/shown"
service = "web"
errors = {{ 404 = "own.html", intercept = true }}
response_fields = {{ set = {{ "X-Frame-Options" = "DENY" }} }}
[[routes]]
path = "/dead"
service = "dead"
"""
HTML = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")]


class PagesCase(TestCase):
    @staticmethod
    def with_pages(origin):
        gateway = Gateway(BINARY, PAGES.format(url=origin.url))
        for name, text in (
            ("404.html", "<p>nothing here: {status} {request_id}</p><style>p{color:red}</style>"), ("5xx.txt", "down"),
            ("own.html", "own"),
        ):  # fmt: skip
            (gateway.folder / name).write_text(text)
        return gateway

    def check(self, answer, status, media_type, body):
        self.assert_status(answer, status)
        self.assertEqual(answer.get("content-type"), media_type)
        self.assertEqual(answer.body, body)
        self.assertEqual(answer.get("cache-control"), "no-store")


class ErrorPages(PagesCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.share(cls.with_pages(cls.enterClassContext(Origin())))

    def test_errors_of_the_gateway(self):
        given = [("X-Request-Id", "a<b")]
        page = b"<p>nothing here: 404 a&#60;b</p><style>p{color:red}</style>"
        self.check(self.gateway.get("/nowhere", given), 404, "text/html; charset=utf-8", page)
        answer = self.gateway.request("HEAD", "/nowhere", given)
        self.check(answer, 404, "text/html; charset=utf-8", b"")
        self.assertEqual(answer.get("content-length"), str(len(page)))
        answer = self.gateway.get("/nowhere", [*given, ("Range", "bytes=0-3")])
        self.check(answer, 404, "text/html; charset=utf-8", page)
        self.check(self.gateway.get("/dead"), 502, "text/plain; charset=utf-8", b"down")
        self.assert_problem(self.gateway.get("/nowhere", [("Accept", "application/json")]), 404)

    def test_errors_of_services(self):
        """Only where the route says so; the cache keeps what the service has said."""
        missing = make("Cache-Control: max-age=60", "ETag: x", "Allow: GET", path="/web/make", status=404)
        answer = self.gateway.get(missing)
        self.assertIn(b"serial 1 ", answer.body)
        missing = missing.replace("/web/", "/shown/")
        for verdict in ("stored", "; hit", "; hit"):
            answer = self.gateway.get(missing)
            self.check(answer, 404, "text/html; charset=utf-8", b"own")
            self.assertEqual((answer.get("etag"), answer.get("allow")), (None, "GET"))
            self.assertEqual(answer.get("x-frame-options"), "DENY")
            self.assertIn(verdict, answer.get("cache-status"))
        # The general page for 5xx says nothing of services, and no page is that of another status.
        self.assertIn(b"serial 1 ", self.gateway.get(make(path="/shown/make", status=500)).body)
        self.assertIn(b"serial 1 ", self.gateway.get(make(path="/shown/make", status=403)).body)
        answer = self.gateway.request("HEAD", missing)
        self.check(answer, 404, "text/html; charset=utf-8", b"")


class ChangedErrorPages(PagesCase):
    def setUp(self):
        super().setUp()
        self.gateway = self.start(self.with_pages(self.enterContext(Origin())))

    def write(self, name, text):
        (self.gateway.folder / name).write_text(text)

    def test_a_reload_reads_them_again(self):
        self.write("404.html", "another")
        socket = str(self.gateway.folder / "admin.sock")
        done = subprocess.run([BINARY, "reload", "--socket", socket], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check(self.gateway.get("/nowhere"), 404, "text/html; charset=utf-8", b"another")
        # One that is missing refuses the reload, and nothing has changed.
        (self.gateway.folder / "404.html").unlink()
        done = subprocess.run([BINARY, "reload", "--socket", socket], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("404.html", done.stderr)
        self.check(self.gateway.get("/nowhere"), 404, "text/html; charset=utf-8", b"another")

    def test_a_page_that_is_too_large(self):
        self.write("own.html", "x" * (256 * 1024 + 1))
        config = str(self.gateway.folder / "pilotlight.toml")
        done = subprocess.run([BINARY, "check", "--config", config], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("own.html cannot be read: it has more than 262144 bytes", done.stdout + done.stderr)


MADE = """
listen = "127.0.0.1:0"
workers = 1
[errors]
"4xx" = {{ service = "pages", path = "/make?status=200&h=Content-Type:text/html&h=ETag:x&of={{status}}" }}
"502" = {{ service = "pages", path = "/make?status=404" }}
"5xx" = {{ service = "dead", path = "/x" }}
intercept = true
[services.web]
url = "{url}"
[services.pages]
url = "{pages}"
[services.dead]
url = "http://127.0.0.1:9"
[[routes]]
path = "/web"
service = "web"
[[routes]]
path = "/dead"
service = "dead"
"""


class PagesOfServices(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.origin, cls.pages = cls.enterClassContext(Origin()), cls.enterClassContext(Origin())
        cls.gateway = cls.share(Gateway(BINARY, MADE.format(url=cls.origin.url, pages=cls.pages.url)))

    def check(self, answer, status, body):
        self.assert_status(answer, status)
        self.assertIn(body, answer.body)
        self.assertEqual(answer.all("content-type"), ["text/html"])
        self.assertEqual((answer.all("cache-control"), answer.get("etag")), (["no-store"], None))

    def test_of_the_gateway_and_of_services(self):
        fields = [("Accept-Language", "de"), ("Cookie", "a=b"), ("X-Request-Id", "the-id")]
        answer = self.gateway.get("/nowhere", fields)
        self.check(answer, 404, b"serial 1 for nobody de 0")
        self.assertEqual(answer.all("x-request-id"), ["the-id"])
        self.assertIn("of=404", self.pages.requests("/")[-1])
        missing = make("Cache-Control: max-age=60", "Allow: GET", path="/web/make", status=405)
        self.check(self.gateway.get(missing), 405, b"serial 1 for nobody  0")
        self.assertIn("of=405", self.pages.requests("/")[-1])
        stored = make("Cache-Control: max-age=60", path="/web/make", status=404)
        for number, verdict in ((2, "stored"), (3, "; hit")):
            answer = self.gateway.get(stored)
            self.check(answer, 404, b"serial %d for nobody  0" % number)
            self.assertIn(verdict, answer.get("cache-status"))
        self.assertEqual(len(self.origin.requests(stored)), 1)
        head = self.gateway.request("HEAD", "/nowhere")
        self.assertEqual((head.status, head.body), (404, b""))

    def test_pages_that_fail(self):
        self.assert_problem(self.gateway.get("/dead"), 502)
        answer = self.gateway.get(make(path="/web/make", status=500))
        self.assertIn(b"serial 1 ", answer.body)
        self.assert_status(answer, 500)


class BuiltInPage(TestCase):
    def test_a_browser_gets_a_page_that_says_nothing_of_what_is_inside(self):
        file = config('[services.secret-name]\nurl = "http://127.0.0.1:9"\n', route("/dead", "secret-name"))
        gateway = self.start(Gateway(BINARY, file))
        for target, status in (("/dead", 502), ("/nowhere", 404)):
            answer = gateway.get(target, HTML)
            self.assert_status(answer, status)
            self.assertEqual(answer.get("content-type"), "text/html; charset=utf-8")
            self.assertIn("default-src 'none'", answer.get("content-security-policy"))
            text = answer.body.decode()
            self.assertIn(answer.get("x-request-id"), text)
            for inside in ("secret-name", "127.0.0.1", "pilotlight", "/nowhere", "http:"):
                self.assertNotIn(inside, text.lower())
            for accept in ("*/*", "application/json"):
                self.assert_problem(gateway.get(target, [("Accept", accept)]), status)


if __name__ == "__main__":
    unittest.main()
