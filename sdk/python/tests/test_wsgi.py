"""`pilotlight.wsgi`: PEP 3333, checked by wsgiref.validate and by what the gateway sees."""

import os
import subprocess
import sys
import unittest
from wsgiref.validate import validator

from harness import CANCELLED, DATA, END, INTERNAL, PING, PONG, RESET, RESPONSE, SDK, GatewayCase, frame, request, reset

sys.path.insert(0, SDK)
from pilotlight import wsgi  # noqa: E402

APP = """
import json, time
from wsgiref.validate import validator

TEXT = [("Content-Type", "text/plain")]
closed = []

class Pieces:
    def __init__(self, *pieces): self.pieces = iter(pieces)
    def __iter__(self): return self
    def __next__(self): return next(self.pieces)
    def close(self): closed.append(1)

def environ_app(environ, start):
    start("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({k: v for k, v in environ.items() if isinstance(v, (str, bool))}).encode("latin-1")]

def body_app(environ, start):
    stream = environ["wsgi.input"]
    got = [stream.read(3), stream.readline(), stream.readline(2), stream.readlines(1), list(stream), stream.read()]
    start("200 OK", TEXT)
    return [repr(got).encode()]

def app(environ, start):
    path = environ["PATH_INFO"]
    if path == "/environ": return environ_app(environ, start)
    if path == "/body": return body_app(environ, start)
    if path == "/closed":
        start("200 OK", TEXT)
        return [str(len(closed)).encode()]
    if path == "/short":
        start("200 OK", TEXT + [("Content-Length", "6")])
        return Pieces(b"", b"abc", b"def")
    if path == "/long":
        start("200 OK", TEXT + [("Content-Length", "200000")])
        return Pieces(bytes(100000), bytes(100000))
    if path == "/stream":
        start("200 OK", TEXT)
        return Pieces(b"abc", b"def")
    if path == "/ticks":
        def ticks():
            try:
                while True:
                    yield b"tick"
                    time.sleep(0.01)
            finally:
                closed.append(1)
        start("200 OK", TEXT)
        return ticks()
    if path == "/generator":
        def generate():
            start("202 Accepted", TEXT)
            yield b""
            yield b"late start"
        return generate()
    if path == "/lies":
        start("200 OK", TEXT + [("Content-Length", "9")])
        return Pieces(b"abc")
    if path == "/write":
        write = start("200 OK", TEXT)
        write(b"one ")
        write(b"two ")
        return Pieces(b"three")
    if path == "/exc_info":
        import sys
        start("200 OK", TEXT)
        try: raise KeyError("x")
        except KeyError: start("500 Oops", TEXT, sys.exc_info())
        return [b"replaced"]
    if path == "/exc_info_late":
        import sys
        start("200 OK", TEXT)(b"sent")
        try: raise KeyError("too late")
        except KeyError: start("500 Oops", TEXT, sys.exc_info())
        return [b"never"]
    if path == "/twice":
        start("200 OK", TEXT); start("200 OK", TEXT)
    if path == "/hop":
        start("200 OK", [("Connection", "close")])
    if path == "/file":
        start("200 OK", TEXT)
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    if path == "/cookies":
        start("200 OK", [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
        return [b""]
    if path == "/fails":
        start("200 OK", TEXT)
        pieces = Pieces(b"abc")
        pieces.__class__ = type("Broken", (Pieces,), {"__next__": lambda self: 1 / 0})
        return pieces
    if path == "/nothing": return [b"no start"]
    start("404 Not Found", TEXT)
    return [b""]

checked = validator(app)
"""


class Wsgi(GatewayCase):
    def run_app(self, name="app:app", *options):
        with open(os.path.join(self.folder, "app.py"), "w") as file:
            file.write(APP)
        self.shared = self.serve(None, "-m", "pilotlight.wsgi", name, *options)

    def get(self, path, exchange=1, **more):
        self.shared.send(request(exchange, path, **more))
        return self.shared.next()

    def environ(self, path, **more):
        import json

        return json.loads(self.get(path, **more).body)

    def test_environ(self):
        self.run_app()
        fields = [
            ("content-type", "text/x"),
            ("x-a", "1"),
            ("x-a", "2"),
            ("cookie", "c=1"),
            ("cookie", "d=2"),
            ("x_user", "spoofed"),
        ]
        got = self.environ("/environ?a=%20b&c", method="PUT", headers=fields, body=b"12", authority="example.org:81")
        expected = {
            "REQUEST_METHOD": "PUT",
            "SCRIPT_NAME": "",
            "PATH_INFO": "/environ",
            "QUERY_STRING": "a=%20b&c",
            "CONTENT_TYPE": "text/x",
            "CONTENT_LENGTH": "2",
            "SERVER_NAME": "example.org",
            "SERVER_PORT": "81",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "REMOTE_PORT": "5",
            "HTTP_HOST": "example.org:81",
            "HTTP_X_A": "1,2",
            "HTTP_COOKIE": "c=1; d=2",
            "wsgi.url_scheme": "http",
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
        }
        self.assertEqual({key: got.get(key) for key in expected}, expected)
        self.assertNotIn("HTTP_X_USER", got)
        got = self.environ("/%65nviron", authority="[::1]")
        self.assertEqual((got["PATH_INFO"], got["SERVER_NAME"], got["SERVER_PORT"]), ("/environ", "::1", "80"))
        self.assertNotIn("CONTENT_LENGTH", got)

    def test_paths_are_decoded_to_latin_1(self):
        check = {"/a%20b": "/a b", "/%C3%A9": "/\xc3\xa9", "/%zz%2": "/%zz%2", "/%2f%25": "//%", "/%+1": "/%+1"}
        self.assertEqual({path: wsgi.unquote(path) for path in check}, check)

    def test_mount_moves_the_prefix_to_script_name(self):
        self.run_app("app:app", "--mount=/wsgi/")
        got = self.environ("/wsgi/environ")
        self.assertEqual((got["SCRIPT_NAME"], got["PATH_INFO"]), ("/wsgi", "/environ"))
        self.assertEqual(self.get("/wsgix/environ").status, 404)

    def test_one_thread_is_told_to_the_application(self):
        self.run_app("app:app", "--threads", "1")
        self.assertIs(self.environ("/environ")["wsgi.multithread"], False)

    def test_one_thread_runs_one_request_at_a_time_with_its_body(self):
        self.run_app("app:app", "--threads", "1")
        own = self.own(self.shared)
        own.send(request(1, "/ticks"))
        self.assertEqual(own.next().body, b"tick")
        self.shared.send(request(2, "/closed"), frame(PING, 0, b"12345678"))
        self.assertEqual(self.shared.next().kind, PONG)
        self.assertTrue(self.shared.quiet())  # it waits for the end of the stream
        own.send(reset(1, CANCELLED))
        self.assertEqual(self.shared.next().body, b"1")

    def test_the_body_is_a_file(self):
        self.run_app()
        body = b"abcdef\nghij\nkl\nmn\nop"
        expected = repr([b"abc", b"def\n", b"gh", [b"ij\n"], [b"kl\n", b"mn\n", b"op"], b""]).encode()
        self.assertEqual(self.get("/body", body=body).body, expected)
        own = self.own(self.shared)
        own.send(request(1, "/body", end=False))
        for number, byte in enumerate(body):
            own.send(frame(DATA, 1, bytes((byte,)), END if number == len(body) - 1 else 0))
        self.assertEqual(own.next().body, expected)

    def test_a_short_answer_of_known_length_is_one_frame(self):
        self.run_app()
        answer = self.get("/short")
        self.assertEqual((answer.body, answer.end), (b"abcdef", True))
        self.assertEqual(self.get("/closed").body, b"1")

    def test_a_stream_is_streamed_and_closed(self):
        self.run_app()
        known = []
        for number, (path, size) in enumerate((("/stream", 6), ("/long", 200000), ("/generator", 10)), 1):
            self.shared.send(request(number, path))
            first, body, _ = self.answer_connection(known).answer(number)
            self.assertEqual((first.status, len(body)), (202 if path == "/generator" else 200, size))
        self.eventually(lambda: self.get("/closed", 9).body == b"2")

    def test_head_and_304_send_no_body(self):
        self.run_app()
        for path in ("/short", "/long", "/stream"):
            answer = self.get(path, method="HEAD")
            self.assertEqual((answer.kind, answer.body, answer.end), (RESPONSE, b"", True))
        self.assertEqual(self.get("/closed").body, b"3")

    def test_write(self):
        self.run_app()
        self.shared.send(request(1, "/write"))
        answers = self.accept()
        self.assertEqual(answers.next().body, b"one ")
        self.assertEqual(answers.next().payload, b"two ")
        self.assertEqual(answers.next().payload, b"three")
        self.assertTrue(answers.next().end)

    def test_exc_info(self):
        self.run_app()
        answer = self.get("/exc_info")
        self.assertEqual((answer.status, answer.body), (500, b"replaced"))
        self.shared.send(request(2, "/exc_info_late"))
        answers = self.accept()
        self.assertEqual(answers.next().body, b"sent")
        self.assertEqual(answers.next().code, INTERNAL)
        self.assertIn("KeyError: 'too late'", self.stderr())

    def test_mistakes_of_the_application_are_502(self):
        self.run_app()
        for path, text in {
            "/twice": "start_response was called before",
            "/hop": "Connection belongs to the connection",
            "/lies": "content-length says 9",
            "/fails": "ZeroDivisionError",
            "/nothing": "before it called start_response",
        }.items():
            answer = self.get(path)
            self.assertEqual((answer.kind, answer.code), (RESET, INTERNAL), path)
            self.assertIn(text, self.stderr())
        self.assertEqual(self.get("/closed").body, b"2")  # /lies and /fails

    def test_file_wrapper_and_cookies(self):
        self.run_app()
        self.assertEqual(self.get("/cookies").headers, [("set-cookie", "a=1"), ("set-cookie", "b=2")])
        self.shared.send(request(2, "/file"))
        self.assertEqual(self.accept().answer(2)[1], APP.encode())

    def test_the_validator_of_the_standard_library_agrees(self):
        self.run_app("app:checked")
        known = []
        for number, (path, body) in enumerate(
            (("/environ?a=b", b""), ("/missing", b"abc"), ("/stream", b""), ("/short", b"")), 1
        ):
            for method in ("GET", "POST"):
                self.shared.send(request(number, path, body, method=method, headers=[("content-type", "text/plain")]))
                if path == "/short":
                    self.assertEqual(self.shared.next().body, b"abcdef")
                else:
                    self.answer_connection(known).answer(number)
        own = self.own(self.shared)
        own.send(request(1, "/environ", end=False), frame(DATA, 1, b"x", END))
        self.assertIn(b"REQUEST_METHOD", self.answer_connection([own]).answer(1)[1])
        self.assertEqual(self.stderr(), "")

    def test_the_validator_finds_what_is_wrong(self):  # the test above can fail
        with self.assertRaises(AssertionError):
            validator(lambda environ, start: start("200", []))({}, None)

    def test_the_command_line(self):
        for arguments in ((), ("a", "b"), ("app:app", "--threads", "0"), ("app:app", "--threads"), ("--help",)):
            done = subprocess.run(
                [sys.executable, "-m", "pilotlight.wsgi", *arguments], cwd=SDK, capture_output=True, timeout=10
            )
            self.assertEqual(done.returncode, 0 if arguments == ("--help",) else 2, arguments)
            self.assertIn(b"usage:", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
