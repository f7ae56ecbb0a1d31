"""Web frameworks of other people's under `pilotlight.asgi` and `pilotlight.wsgi`, through the real gateway.

Each behaviour is asked of each framework that has it; the applications are in `frameworks/`.
"""

import importlib.util
import json
import os
import sys
import unittest
from pathlib import Path

from harness import SDK

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "sdk" / "conformance"))
from gateway import Gateway, command, quote  # noqa: E402
from http1 import eventually  # noqa: E402

BINARY = ROOT / "target" / "debug" / "pilotlight"
APPS = Path(__file__).parent / "frameworks"
BIG = 3_000_000
CONFIG = """
listen = "127.0.0.1:0"
workers = 1
[services.app]
command = {command}
dir = {dir}
env = {{ PYTHONPATH = {path}{environment} }}
transport = "pipe"
start_timeout = "30s"
{more}
[[routes]]
path = "/"
service = "app"
cache = false
"""


def descendants(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for child in children for found in [child, *descendants(child)]]


def command_line(pid):
    return Path(f"/proc/{pid}/cmdline").read_text()


class Http:
    """What every framework does."""

    module, server, preload, words, environment = None, "asgi", (), (), ""

    @classmethod
    def setUpClass(cls):
        missing = [name for name in cls.needs if importlib.util.find_spec(name) is None]
        if missing:
            raise unittest.SkipTest(f"{missing[0]} is not installed")
        if not BINARY.exists():
            raise unittest.SkipTest(f"no gateway at {BINARY}")
        words = [sys.executable, "-m", f"pilotlight.{cls.server}", cls.module, *cls.words]
        more = f"preload = {json.dumps(list(cls.preload))}" if cls.preload else ""
        path = os.pathsep.join([SDK, str(APPS)])
        said = {"command": command(words), "dir": quote(str(APPS)), "path": quote(path), "more": more}
        config = CONFIG.format(**said, environment=cls.environment)
        cls.gateway = Gateway(str(BINARY), config)
        cls.gateway.start()
        cls.addClassCleanup(cls.gateway.stop)

    def test_a_text_and_its_fields(self):
        answer = self.gateway.get("/hello?name=caf%C3%A9", [("X-Asked", "yes")])
        self.assertEqual((answer.status, answer.body.decode()), (200, "hello café, yes"), self.gateway.output())
        self.assertTrue(answer.get("content-type").startswith("text/plain"))
        self.assertEqual(answer.get("x-made-by"), "app")

    def test_json_both_ways(self):
        body = json.dumps({"numbers": [1, 2, 3]}).encode()
        answer = self.gateway.request("POST", "/json", [("Content-Type", "application/json")], body)
        self.assertEqual((answer.status, json.loads(answer.body)), (200, {"sum": 6}), self.gateway.output())

    def test_a_path_with_a_parameter_and_escapes(self):
        self.assertEqual(self.gateway.get("/items/a%20b").body, b"a b")

    def test_not_found(self):
        self.assertEqual(self.gateway.get("/nowhere").status, 404)

    def test_a_large_upload(self):
        answer = self.gateway.request("POST", "/upload", [("Content-Type", "application/octet-stream")], bytes(BIG))
        self.assertEqual((answer.status, answer.body), (200, str(BIG).encode()), self.gateway.output())

    def test_a_stream(self):
        answer = self.gateway.get("/stream")
        self.assertEqual((answer.status, answer.body), (200, b"".join(b"%d\n" % number for number in range(50))))

    def test_a_file_in_a_form(self):
        parts = b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\nhello\r\n--b--\r\n'
        answer = self.gateway.request("POST", "/form", [("Content-Type", "multipart/form-data; boundary=b")], parts)
        self.assertEqual((answer.status, answer.body), (200, b"a.txt: 5"), self.gateway.output())

    def test_an_error_of_the_application(self):
        self.assertIn(self.gateway.get("/error").status, (500, 502))
        self.assertEqual(self.gateway.get("/hello").status, 200)

    def test_a_head_without_its_body(self):
        answer = self.gateway.request("HEAD", "/file")
        self.assertEqual(answer.body, b"")
        if answer.status == 405:  # FastAPI and Litestar have HEAD only where it is asked for
            return self.assertIn("GET", answer.get("allow"))
        self.assertEqual((answer.status, int(answer.get("content-length"))), (200, self.size()))

    def test_a_file(self):
        answer = self.gateway.get("/file")
        self.assertEqual((answer.status, len(answer.body)), (200, self.size()), self.gateway.output())
        self.assertTrue(answer.body.startswith(b'"""'))

    def size(self):
        module = "of_django" if self.module.startswith("of_channels") else self.module.partition(":")[0]
        return (APPS / f"{module}.py").stat().st_size

    def test_a_redirect(self):
        answer = self.gateway.get("/moved")
        self.assertIn((answer.status, answer.get("location")), [(302, "/hello"), (307, "/hello")])

    def test_cookies(self):
        answer = self.gateway.get("/cookies", [("Cookie", "a=1")])
        self.assertEqual(answer.body, b"1")
        self.assertEqual(sorted(value.partition(";")[0] for value in answer.all("set-cookie")), ["b=2", "c=3"])


class Asgi(Http):
    """And what ASGI has beyond it."""

    def test_what_runs_behind_the_answer(self):
        self.assertEqual(self.gateway.get("/background").body, b"begun")
        self.assertTrue(eventually(lambda: self.gateway.get("/done").body == b"done"))

    def test_the_lifespan_has_begun(self):
        self.assertEqual(self.gateway.get("/started").body, b"started")


class Sockets:
    def open(self):
        from websockets.sync.client import connect

        opened = connect(f"ws://127.0.0.1:{self.gateway.address[1]}/ws", compression=None, subprotocols=["chat"])
        self.addCleanup(opened.socket.close)
        return opened

    @unittest.skipUnless(importlib.util.find_spec("websockets"), "websockets is not installed")
    def test_a_websocket(self):
        opened = self.open()
        for message in ("text é", "x" * 100_000, ""):
            opened.send(message)
            self.assertEqual(opened.recv(timeout=10), f"you said {message}")
        opened.close()

    @unittest.skipUnless(importlib.util.find_spec("websockets"), "websockets is not installed")
    def test_the_application_closes_a_websocket(self):
        from websockets.exceptions import ConnectionClosed

        opened = self.open()
        opened.send("bye")
        with self.assertRaises(ConnectionClosed) as closed:
            opened.recv(timeout=10)
        self.assertEqual(closed.exception.rcvd.code, 4001)


class Starlette(Sockets, Asgi, unittest.TestCase):
    module, needs = "of_starlette:app", ("starlette", "multipart")


@unittest.skipUnless(sys.platform.startswith("linux"), "not here: zygotes need Linux")
class StarletteFromZygote(Sockets, Asgi, unittest.TestCase):
    module, needs, words, preload = "of_starlette:create", ("starlette", "multipart"), ("--factory",), ("of_starlette",)

    def test_it_is_a_fork(self):
        self.assertEqual(self.gateway.get("/hello").status, 200)
        ran = [line.split("\0")[1:3] for line in map(command_line, descendants(self.gateway.process.pid))]
        self.assertIn(["-m", "pilotlight.zygote"], ran)
        self.assertNotIn(["-m", "pilotlight.asgi"], ran)


class FastApi(Sockets, Asgi, unittest.TestCase):
    module, needs = "of_fastapi:app", ("fastapi", "multipart")


class Litestar(Sockets, Asgi, unittest.TestCase):
    module, needs = "of_litestar:app", ("litestar",)


class DjangoAsgi(Http, unittest.TestCase):
    module, needs = "of_django:asgi", ("django",)


@unittest.skipUnless(sys.platform.startswith("linux"), "not here: zygotes need Linux")
class DjangoFromZygote(Http, unittest.TestCase):
    module, needs, preload = "of_django:asgi", ("django",), ("of_django",)


class DjangoWsgi(Http, unittest.TestCase):
    module, needs, server = "of_django:wsgi", ("django",), "wsgi"


class Channels(Sockets, Http, unittest.TestCase):
    module, needs = "of_channels:app", ("django", "channels")


class Flask(Http, unittest.TestCase):
    module, needs, server = "of_flask:app", ("flask",), "wsgi"


class FlaskWithoutTheCore(Flask):
    environment = ', PILOTLIGHT_PURE = "1"'

    def test_the_core_is_not_loaded(self):
        self.assertEqual(self.gateway.get("/hello").status, 200)
        service = [pid for pid in descendants(self.gateway.process.pid) if "pilotlight.wsgi" in command_line(pid)]
        self.assertNotIn("_native", Path(f"/proc/{service[0]}/maps").read_text())


if __name__ == "__main__":
    unittest.main()
