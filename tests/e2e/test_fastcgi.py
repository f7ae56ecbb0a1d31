"""FastCGI, SCGI and uwsgi: what a program is told, what becomes of its answers, and how it is run (docs/guide/php.md).
The program is cgi_service.py; PHP itself is in test_php.py."""

import hashlib
import json
import socket
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from harness import BINARY, HERE, PYTHON, Cut, Gateway, TestCase, config, in_threads, limits, route, service
from harness import setUpModule
from programs import needs

__all__ = ["setUpModule"]

PROTOCOLS = ["fastcgi", "scgi", "uwsgi"]


class CgiCase(TestCase):
    """`self.gateways` has a gateway for each protocol, shared by the class; `self.serve` starts another."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="pilotlight-cgi-")))
        cls.gateways = {protocol: cls.share(cls.gateway_for(protocol)) for protocol in PROTOCOLS}

    @classmethod
    def notes(cls, protocol):
        """The file in which the program notes how its requests ended."""
        return cls.folder / f"{protocol}.notes"

    @classmethod
    def program(cls, protocol, **settings):
        argv = [PYTHON, "-B", str(HERE / "cgi_service.py"), protocol]
        return service("app", argv, transport=protocol, env={"NOTES": str(cls.notes(protocol))}, **settings)

    @classmethod
    def gateway_for(cls, protocol, *more, way=None, **settings):
        return Gateway(BINARY, config(cls.program(protocol, **settings), route("/", "app", **(way or {})), *more))

    def serve(self, protocol, *more, **settings):
        return self.start(self.gateway_for(protocol, *more, **settings))

    def noted(self, protocol, text):
        file = self.notes(protocol)
        return file.exists() and text in file.read_text().split("\n")


class Requests(CgiCase):
    def test_what_a_program_is_told(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                gateway = self.gateways[protocol]
                fields = [("X-Two-Words", "a"), ("X-Two-Words", "b"), ("Cookie", "a=1"), ("Cookie", "b=2")]
                fields += [("Proxy", "http://evil/"), ("X_User", "root"), ("Content-Type", "text/plain")]
                answer = gateway.request("POST", "/a%20b/c?q=%C3%A9&x", fields, b"body", host="site.test:81")
                found = self.assert_json(answer)
                params = found["params"]
                expected = {
                    "GATEWAY_INTERFACE": "CGI/1.1",
                    "SERVER_PROTOCOL": "HTTP/1.1",
                    "REQUEST_METHOD": "POST",
                    "REQUEST_URI": "/a%20b/c?q=%C3%A9&x",
                    "QUERY_STRING": "q=%C3%A9&x",
                    "SCRIPT_NAME": "",
                    "PATH_INFO": "/a b/c",
                    "SERVER_NAME": "site.test",
                    "SERVER_PORT": "81",
                    "REQUEST_SCHEME": "http",
                    "REMOTE_ADDR": "127.0.0.1",
                    "CONTENT_LENGTH": "4",
                    "CONTENT_TYPE": "text/plain",
                    "HTTP_HOST": "site.test:81",
                    "HTTP_X_TWO_WORDS": "a, b",
                    "HTTP_COOKIE": "a=1; b=2",
                    "HTTP_X_FORWARDED_PROTO": "http",
                }
                self.assertEqual({name: params.get(name) for name in expected}, expected)
                self.assertTrue(params["REMOTE_PORT"].isdigit())
                for name in ["HTTP_PROXY", "HTTP_X_USER", "HTTP_CONTENT_LENGTH", "HTTP_CONNECTION", "HTTPS"]:
                    self.assertNotIn(name, params)
                self.assertEqual(found["body"], [4, hashlib.sha256(b"body").hexdigest()])
                self.assertEqual(answer.all("set-cookie"), ["a=1", "b=2"])

    def test_a_prefix_that_is_cut_off_is_the_scripts_name(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                way = route("/app", "app", strip_prefix=True)
                gateway = self.start(Gateway(BINARY, config(self.program(protocol), way)))
                params = self.assert_json(gateway.get("/app/x/y?z"))["params"]
                self.assertEqual((params["SCRIPT_NAME"], params["PATH_INFO"]), ("/app", "/x/y"))
                self.assertEqual(params["REQUEST_URI"], "/app/x/y?z")

    def test_variables_of_the_configuration_win(self):
        gateway = self.serve("fastcgi", cgi={"params": {"APP_ENV": "prod", "SERVER_SOFTWARE": "mine"}})
        params = self.assert_json(gateway.get("/env"))["params"]
        self.assertEqual((params["APP_ENV"], params["SERVER_SOFTWARE"]), ("prod", "mine"))

    def test_bodies(self):
        large = bytes(range(256)) * 4096 * 3
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                gateway = self.gateways[protocol]
                for body in [b"", b"x", large]:
                    found = self.assert_json(gateway.request("PUT", "/env", body=body))
                    self.assertEqual(found["body"], [len(body), hashlib.sha256(body).hexdigest()])
                with gateway.client() as client:  # chunked, and small: read before the program is asked
                    client.send_head("POST", "/env", [("Transfer-Encoding", "chunked")])
                    client.send_chunk(b"one")
                    client.send_chunk(b"two")
                    client.end_chunks()
                    found = self.assert_json(client.answer("POST"))
                self.assertEqual(found["params"]["CONTENT_LENGTH"], "6")
                self.assertEqual(found["body"][0], 6)

    def test_a_long_body_of_unknown_length_is_refused(self):
        gateway = self.gateways["fastcgi"]
        with gateway.client() as client:
            client.send_head("POST", "/env", [("Transfer-Encoding", "chunked")])
            client.send_chunk(b"x" * 100_000)
            problem = self.assert_problem(client.answer("POST"), 411)
        self.assertIn("Content-Length", problem["detail"])

    def test_too_many_variables_for_a_packet(self):
        gateway = self.serve("uwsgi", limits(header_size="56KiB"))
        fields = [(f"X-{number}", "y" * 1000) for number in range(40)]
        self.assert_json(gateway.get("/env", fields))
        argv = [PYTHON, "-B", str(HERE / "cgi_service.py"), "uwsgi"]
        large = service("app", argv, transport="uwsgi", env={"NOTES": "x"}, cgi={"params": {"A": "y" * 40_000}})
        gateway = self.start(Gateway(BINARY, config(large, route("/", "app"), limits(header_size="56KiB"))))
        self.assert_problem(gateway.get("/env", fields), 503)


class Answers(CgiCase):
    def test_streams_go_both_ways(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                gateway = self.gateways[protocol]
                with gateway.client() as client:
                    client.send_head("POST", "/stream", [("Content-Length", "80006")])
                    client.send(b"a" * 40_000)  # more than is held back
                    answer = client.head()
                    pieces = client.body(answer)
                    got = next(pieces)
                    client.send(b"b" * 40_006)
                    got += b"".join(pieces)
                self.assertEqual(got.replace(b"<", b"").replace(b">", b""), b"a" * 40_000 + b"b" * 40_006)

    def test_large_answers(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                gateway = self.gateways[protocol]
                with gateway.client() as client:
                    for count in [0, 1, 20_000, 5_000_000]:
                        answer = client.request("GET", f"/large/{count}")
                        self.assertEqual((len(answer.body), answer.get("content-length")), (count, str(count)))
                    head = client.request("HEAD", "/large/100")
                    self.assertEqual((head.status, head.get("content-length")), (200, "100"))
                    self.assert_status(client.request("GET", "/env"), 200)

    def test_heads(self):
        gateway = self.gateways["fastcgi"]
        for status in ["404", "503", "201"]:
            answer = gateway.get(f"/status/{status}")
            self.assertEqual((answer.status, answer.body), (int(status), b"body"))
        self.assertEqual(gateway.get("/status/204").status, 204)
        answer = gateway.get("/location")
        self.assertEqual((answer.status, answer.get("location")), (302, "/elsewhere"))

    def test_wrong_answers(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                gateway = self.gateways[protocol]
                for path in ["/broken", "/nothing", "/status/abc", "/status/101"]:
                    self.assert_problem(gateway.get(path), 502)
                try:
                    self.assertEqual(gateway.get("/short").status, 502)
                except Cut:
                    pass
                self.assertEqual(gateway.get("/long").body, b"long")
                self.assert_status(gateway.get("/env"), 200)

    def test_overloaded(self):
        self.assert_problem(self.gateways["fastcgi"].get("/busy"), 503)

    def test_standard_error_is_in_the_services_log(self):
        gateway = self.gateways["fastcgi"]
        self.assertEqual(gateway.get("/stderr").body, b"ok")
        for line in ["first line", "second line"]:
            self.assert_eventually(
                lambda line=line: any("app" in one and one.endswith(line) for one in gateway.output().split("\n")), line
            )

    def test_what_passes_a_gateway_passes(self):
        """Compression and the cache look at these answers as at all others."""
        gateway = self.serve("fastcgi", way={"compress": True, "cache": "1m"})
        answer = gateway.get("/large/5000", [("Accept-Encoding", "gzip")])
        self.assertEqual(answer.get("content-encoding"), "gzip")
        again = gateway.get("/large/5000", [("Accept-Encoding", "gzip")])
        self.assertEqual((again.get("content-encoding"), again.body), ("gzip", answer.body))
        self.assertIn("hit", again.get("cache-status"))


class Running(CgiCase):
    def test_a_client_that_leaves_is_told_of(self):
        words = dict(zip(PROTOCOLS, ["aborted", "closed", "closed"], strict=True))
        for protocol, gateway in self.gateways.items():
            with self.subTest(protocol), gateway.client() as client:
                self.notes(protocol).unlink(missing_ok=True)
                client.send_head("GET", "/abort")
                self.assertEqual(next(client.body(client.head())), b"begun")
        for protocol, word in words.items():
            with self.subTest(protocol):
                self.assert_eventually(lambda protocol=protocol, word=word: self.noted(protocol, word), word)

    def test_a_deadline_ends_a_request(self):
        gateway = self.serve("fastcgi", way={"timeout": "1s"})
        self.notes("fastcgi").unlink(missing_ok=True)
        with self.assertRaises(Cut):
            gateway.get("/abort")
        self.assert_eventually(lambda: self.noted("fastcgi", "aborted"), "it was not told")

    def test_connections_are_kept_if_that_is_wanted(self):
        gateway = self.serve("fastcgi", cgi={"keep_connections": 1})
        with gateway.client() as client:
            for _ in range(20):
                self.assertTrue(self.assert_json(client.request("GET", "/env"))["keep"])
            self.assertEqual(len(client.request("GET", "/large/2000000").body), 2_000_000)
            self.assert_status(client.request("GET", "/env"), 200)
        self.assertFalse(self.assert_json(self.gateways["fastcgi"].get("/env"))["keep"])

    def test_an_instance_that_dies_is_replaced(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                gateway = self.serve(protocol)
                first = self.assert_json(gateway.get("/env"))["pid"]
                self.assert_problem(gateway.request("POST", "/exit", body=b"x"), 502)
                self.assertNotEqual(self.assert_json(gateway.get("/env"))["pid"], first)

    def test_instances_by_concurrency(self):
        gateway = self.serve("scgi", concurrency=1, max_instances=3, scale_up_after="1ms")

        def hold():
            with gateway.client() as client:
                client.send_head("GET", "/abort")
                pieces = client.body(client.head())
                next(pieces)
                barrier.wait(15)

        barrier = threading.Barrier(4)
        threads = [threading.Thread(target=hold) for _ in range(3)]
        for thread in threads:
            thread.start()
        barrier.wait(15)  # three at once, so three processes
        for thread in threads:
            thread.join()
        pids = {self.assert_json(answer)["pid"] for answer in in_threads(6, lambda _: gateway.get("/env"))}
        self.assertGreaterEqual(len(pids), 1)

    def test_it_stops_when_idle_and_starts_again(self):
        gateway = self.serve("uwsgi", idle_timeout="200ms")
        first = self.assert_json(gateway.get("/env"))["pid"]
        self.assert_eventually(lambda: not Path(f"/proc/{first}").exists(), "it goes on")
        self.assertNotEqual(self.assert_json(gateway.get("/env"))["pid"], first)

    def test_explain_without_scripts(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                gateway = self.gateways[protocol]
                command = [BINARY, "explain", "http://demo.test/a/b%20c?d", "--json"]
                command += ["--config", gateway.folder / "pilotlight.toml"]
                told = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=20).stdout)
                self.assertEqual(told["program"], {"SCRIPT_NAME": "", "PATH_INFO": "/a/b c"})

    def test_servers_of_somebody_else(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol):
                listener = socket.create_server(("127.0.0.1", 0))
                self.addCleanup(listener.close)
                argv = [PYTHON, "-B", str(HERE / "cgi_service.py"), protocol, str(listener.fileno())]
                process = subprocess.Popen(argv, pass_fds=[listener.fileno()])
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
                url = f"{protocol}://127.0.0.1:{listener.getsockname()[1]}"
                gateway = self.start(Gateway(BINARY, config(service("app", url=url), route("/", "app"))))
                self.assertEqual(self.assert_json(gateway.get("/env"))["params"]["PATH_INFO"], "/env")


class Files(CgiCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "store").mkdir()
        (cls.folder / "store" / "a b.txt").write_text("0123456789")
        (cls.folder / "secret").write_text("secret")
        (cls.folder / "store" / "out").symlink_to("../secret")
        block = cls.program("fastcgi")
        block += f'[services.app.cgi]\nsendfile = {{ "/private" = {json.dumps(str(cls.folder / "store"))} }}\n'
        cls.site = cls.share(Gateway(BINARY, config(block, route("/", "app"))))

    def test_an_answer_names_a_file(self):
        gateway = self.site
        for field in [f"X-Sendfile: {self.folder}/store/a b.txt", "X-Accel-Redirect: /private/a%2520b.txt"]:
            with self.subTest(field):
                answer = gateway.get("/send?" + field.replace(" ", "%20"))
                self.assertEqual((answer.status, answer.body), (200, b"0123456789"))
                self.assertEqual((answer.get("content-type"), answer.get("x-own")), ("application/x-test", "kept"))
                self.assertIsNone(answer.get("x-sendfile") or answer.get("x-accel-redirect"))
                part = gateway.get("/send?" + field.replace(" ", "%20"), [("Range", "bytes=2-4")])
                self.assertEqual((part.status, part.body), (206, b"234"))
                posted = gateway.request("POST", "/send?" + field.replace(" ", "%20"), body=b"x")
                self.assertEqual((posted.status, posted.body), (200, b"0123456789"))

    def test_only_below_the_named_folders(self):
        gateway = self.site
        paths = [f"X-Sendfile:{self.folder}/secret", "X-Sendfile:/etc/passwd", "X-Sendfile:store/a b.txt"]
        paths += [f"X-Sendfile:{self.folder}/store/../secret", f"X-Sendfile:{self.folder}/store/out"]
        paths += ["X-Accel-Redirect:/private/../secret", "X-Accel-Redirect:/private/out", "X-Accel-Redirect:/other/x"]
        paths += ["X-Accel-Redirect:/privatea%20b.txt", "X-Accel-Redirect:/private/%252e%252e/secret"]
        for path in paths:
            answer = gateway.get("/send?" + path.replace(" ", "%20"))
            self.assertEqual((answer.status, answer.body), (404, b""), path)

    def test_without_folders_the_field_passes(self):
        answer = self.gateways["fastcgi"].get("/send?X-Accel-Redirect:/x")
        self.assertEqual((answer.body, answer.get("x-accel-redirect")), (b"not this", "/x"))


@needs("uwsgi")
class Uwsgi(CgiCase):
    """uWSGI itself, on the socket that it inherits."""

    APP = """
def application(environ, start_response):
    body = environ['wsgi.input'].read()
    start_response('201 Made', [('Content-Type', 'text/plain'), ('X-Path', environ['PATH_INFO'])])
    yield environ['REQUEST_METHOD'].encode() + b' '
    yield body
"""

    def test_a_wsgi_application(self):
        (self.folder / "app.py").write_text(self.APP)
        argv = ["uwsgi", "--plugin", "python3", "--wsgi-file", "app.py", "--master", "--processes", "2", "--need-app"]
        program = service("app", [*argv, "--die-on-term"], transport="uwsgi", dir=str(self.folder))
        gateway = self.start(Gateway(BINARY, config(program, route("/", "app"))))
        for body in [b"x" * 100_000, b""]:
            answer = gateway.request("POST", "/a/b?c", body=body)
            self.assertEqual((answer.status, answer.get("x-path"), answer.body), (201, "/a/b", b"POST " + body))


if __name__ == "__main__":
    unittest.main()
