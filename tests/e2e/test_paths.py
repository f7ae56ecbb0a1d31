"""Spellings of a path that a rule protects: none gets past the rule, and no honest path is refused.

Each spelling is sent by HTTP/1.1 and by HTTP/2 to services over HTTP, WSGI and FastCGI, and to a folder.
"""

import http.server
import itertools
import json
import tempfile
import threading
import unittest
from pathlib import Path

import http2_client
from harness import BINARY, HERE, PYTHON, Gateway, TestCase, config, route, service
from harness import setUpModule

__all__ = ["setUpModule"]

WORD = "private"
# What stands for `/`, and what a server may drop, before or after the word.
ROOTS = [
    "/", "//", "///", "/./", "/x/../", "/%2E/", "/x/%2e%2E/", "/x/..%2f", "/x/..%2F", "/x%2f..%2f", "/x/..%5c",
    "/x/..\\", "/%2f", "/%2F%2f", "/\\", "/%5C", "/..;/", "/x/..;/", "/x/..;a=b/", "/;/", "/;a/", "/.;/", "//h/",
    "//h.example/", "/\\h/", "/%252f", "/x/..%252f", "/x/%252e%252e/", "/x%252F..%252F", "/a/b/../../",
    "/a/%2e%2e/./",
]  # fmt: skip
ENDS = [
    "/secret.txt", "/%73ecret.txt", "/./secret.txt", "//secret.txt", "%2fsecret.txt", "%2Fsecret.txt",
    "\\secret.txt", "%5Csecret.txt", ";x/secret.txt", ";/secret.txt", ";a=1;b=2/secret.txt", "%3Bx/secret.txt",
    "%3b/secret.txt", "/x/../secret.txt", "/secret.txt;x", "/secret.txt%00", "/secret.txt%00.png",
    "/secret.txt%3Fx", "/secret.txt%23x", "%252Fsecret.txt", "",
]  # fmt: skip


def escaped(text, digits="x"):
    return "".join(f"%{ord(char):02{digits}}" for char in text)


def words():
    """The word with one letter escaped, two, all; in small digits, capitals, and twice."""
    for at in range(len(WORD)):
        for digits in "xX":
            yield WORD[:at] + escaped(WORD[at], digits) + WORD[at + 1 :]
        yield WORD[:at] + escaped(WORD[at]).replace("%", "%25") + WORD[at + 1 :]
    for one, other in itertools.combinations(range(len(WORD)), 2):
        yield "".join(escaped(char) if at in (one, other) else char for at, char in enumerate(WORD))
    for digits in "xX":
        yield escaped(WORD, digits)
        yield escaped(WORD, digits).replace("%", "%25")


SPELLINGS = sorted(
    {f"{root}{WORD}/secret.txt" for root in ROOTS}
    | {f"/{word}/secret.txt" for word in words()}
    | {f"/{WORD}{end}" for end in ENDS}
    | {f"{root}{escaped(WORD)}{end}" for root in ROOTS[:12] for end in ENDS[:12]}
)
HONEST = [
    "/", "/a", "/privateer", "/a%20b", "/caf%C3%A9", "/caf%c3%a9", "/a%2Fb", "/a%2fb", "/a;b=c", "/a;b", "//a",
    "/a//b", "/100%25", "/a%3Fb", "/a%23b", "/a%5Cb", "/a\\b", "/wiki/Who%3F", "/npm/@scope%2Fname", "/a%252Fb",
    "/.well-known/x", "/a..b", "/~ada", "/%61", "/a/../b", "/a?x=/private", "/a?x=../private",
    "/a?next=%2Fprivate%2F", "/x;/y", "/%E2%82%AC", "/a/b;v=1/c", "/%",
]  # fmt: skip


class Origin:
    """A server over HTTP that says which target it saw."""

    def start(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.requestline.split(" ")[1].encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"


WSGI = """
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["PATH_INFO"].encode("latin-1")]
"""
GUARD = {"allow": {"networks": ["192.0.2.0/24"]}}


class Spellings(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="pilotlight-paths-")))
        (cls.folder / "www/private").mkdir(parents=True)
        (cls.folder / "www/private/secret.txt").write_text("SECRET")
        (cls.folder / "app.py").write_text(WSGI)
        cls.origin = cls.share(Origin())
        program = [PYTHON, "-B", str(HERE / "cgi_service.py"), "fastcgi"]
        wsgi = [PYTHON, "-B", "-m", "pilotlight.wsgi", "app:app"]
        sdk = str(Path(HERE).parents[1] / "sdk" / "python")
        blocks = [
            service("http", url=cls.origin.url),
            service("wsgi", wsgi, dir=str(cls.folder), env={"PYTHONPATH": sdk}),
            service("fastcgi", program, transport="fastcgi", env={"NOTES": str(cls.folder / "notes")}),
        ]
        for host in ("http", "wsgi", "fastcgi"):
            blocks += [route("/", host, host=f"{host}.test"), route(f"/{WORD}", host, host=f"{host}.test", **GUARD)]
        blocks += [files("/", cls.folder / "www"), files(f"/{WORD}", cls.folder / "www/private", **GUARD)]
        cls.gateway = cls.share(Gateway(BINARY, config(*blocks)))

    def answers(self, host, paths):
        """(protocol, path, answer) of each path."""
        for path in paths:
            yield "HTTP/1.1", path, self.gateway.get(path, host=host)
        with http2_client.Client(self.gateway.address) as client:
            for path in paths:
                yield "HTTP/2", path, client.request("GET", path, host=host)

    def check_guarded(self, host):
        self.assertGreaterEqual(len(SPELLINGS), 200)
        wrong = []
        for protocol, path, answer in self.answers(host, SPELLINGS):
            if answer.status not in (400, 403) or b"SECRET" in answer.body:
                wrong.append(f"{protocol} {path}: {answer.status} {answer.body[:60]}")
        self.assertEqual(wrong, [], "\n".join(wrong))

    def check_honest(self, host, saw=None):
        wrong = []
        for protocol, path, answer in self.answers(host, HONEST):
            if answer.status in (400, 403) or saw and answer.body.decode() != saw(path):
                wrong.append(f"{protocol} {path}: {answer.status} {answer.body[:60]}")
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_guarded_over_http(self):
        self.check_guarded("http.test")

    def test_guarded_over_wsgi(self):
        self.check_guarded("wsgi.test")

    def test_guarded_over_fastcgi(self):
        self.check_guarded("fastcgi.test")

    def test_guarded_files(self):
        self.check_guarded("files.test")

    def test_honest_over_http(self):
        """The service sees the bytes that were sent."""
        self.check_honest("http.test", lambda path: path)

    def test_honest_over_wsgi(self):
        self.check_honest("wsgi.test")

    def test_honest_over_fastcgi(self):
        self.check_honest("fastcgi.test")

    def test_the_refusal_names_the_reading(self):
        answer = self.gateway.get("/x/..%2fprivate/y", host="http.test")
        problem = self.assert_problem(answer, 400)
        self.assertIn("/private/y", problem["detail"])

    def test_other_rules_hold_for_the_normal_form(self):
        rules = [
            route("/", "http"),
            route("/limited", "http", limit={"rate": "1/h", "burst": 1}),
            "[[routes]]\npath = \"/gone\"\nrespond = 410\n",
            "[[routes]]\npath = \"/old\"\nredirect = \"/new\"\n",
            route("/only", "http", exact=True, request_fields={"set": {"X-Exact": "1"}}),
        ]
        gateway = self.start(Gateway(BINARY, config(service("http", url=self.origin.url), *rules)))
        self.assertEqual([gateway.get(path).status for path in ("/limited", "/%6cimited")], [200, 429])
        self.assertEqual(gateway.get("/g%6fne").status, 410)
        self.assertEqual(gateway.get("/x/..%2fgone").status, 400)
        self.assertIn(gateway.get("/%6fld").status, (302, 307, 308))

    def test_what_the_operator_allows_is_passed_on(self):
        rules = [route("/", "http", ambiguous_paths="allow"), route(f"/{WORD}", "http", **GUARD)]
        gateway = self.start(Gateway(BINARY, config(service("http", url=self.origin.url), *rules)))
        answer = gateway.get("/x/..%2fprivate")
        self.assertEqual((answer.status, answer.body), (200, b"/x/..%2fprivate"))
        self.assertEqual(gateway.get("/%70rivate").status, 403)

    def test_a_purge_of_one_spelling_finds_the_others(self):
        cached = route("/", "http").replace("cache = false", 'cache = "60s"')
        gateway = self.start(Gateway(BINARY, config(service("http", url=self.origin.url), cached)))
        for path in ("/caf%c3%a9", "/caf%C3%A9"):
            self.assertEqual(gateway.get(path).body.decode(), path)
            self.assertIn("hit", gateway.get(path).get("cache-status"))


def files(path, folder, **settings):
    values = {"path": path, "host": "files.test", "files": str(folder)} | settings
    return "[[routes]]\n" + "\n".join(f"{name} = {toml(value)}" for name, value in values.items()) + "\n"


def toml(value):
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{ " + ", ".join(f"{name} = {toml(one)}" for name, one in value.items()) + " }"


if __name__ == "__main__":
    unittest.main()
