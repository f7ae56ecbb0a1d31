"""Which core answers: the compiled one if it is there, Python's if PILOTLIGHT_PURE says so; what both have to do."""

import glob
import os
import struct
import threading
import unittest
from unittest import mock

from harness import DRAIN, RESET, RESPONSE, SDK, GatewayCase, frame, request

BUILT = glob.glob(os.path.join(SDK, "pilotlight", "_native*.so"))
WHICH = """
from pilotlight import _core
pilotlight.serve(lambda request: (200, (), str(_core.native is not None)))
"""
APP = """
import threading, time
from pilotlight import wsgi
together = threading.Barrier(4)

def app(environ, start):
    path = environ["PATH_INFO"]
    if path == "/together":
        together.wait(8)
    if path == "/nap":
        time.sleep(0.002)
    if path == "/request":
        asked = environ["pilotlight.request"]
        body = repr([asked.method, asked.path, asked.query, asked.headers.get("X-A"), asked.body, asked.deadline])
    else:
        body = path
    start("200 OK", [("Content-Length", str(len(body)))])
    return iter([body.encode()])

pilotlight.serve(wsgi.handler(app))
"""


class Which(GatewayCase):
    def which(self, pure):
        with mock.patch.dict(os.environ, {"PILOTLIGHT_PURE": pure}):
            connection = self.serve(WHICH)
        connection.send(request(1))
        return connection.next().body

    def test_python_alone_when_asked(self):
        self.assertEqual(self.which("1"), b"False")

    @unittest.skipUnless(BUILT, "the native core of sdk/python (sdk/python/native/build.sh) is not installed")
    def test_the_compiled_one_when_it_is_there(self):
        self.assertEqual(self.which("0"), b"True")


class Calls(GatewayCase):
    """The same of both cores."""

    def test_the_request_behind_an_environ(self):
        connection = self.serve(APP)
        connection.send(request(1, "/request?q", b"body", method="PUT", headers=[("x-a", "1")], deadline_ms=60_000))
        method, path, query, field, body, deadline = eval(connection.next().body)
        self.assertEqual((method, path, query, field, body), ("PUT", "/request", "q", "1", b"body"))
        self.assertTrue(50 < deadline <= 60, deadline)

    def test_handlers_of_one_batch_run_at_once_if_they_block(self):
        connection = self.serve(APP)
        connection.send(*[request(number, "/together") for number in range(1, 5)])
        self.assertEqual({connection.next().exchange for _ in range(4)}, {1, 2, 3, 4})

    def test_nothing_follows_the_frame_that_says_which_rule_was_broken(self):
        for _ in range(10):
            connection = self.serve(APP)
            connection.send(*[request(number, "/nap") for number in range(1, 31)], frame(99, 1, b"x"))
            frames = list(iter(connection.next, None))
            self.assertEqual((frames[-1].kind, frames[-1].exchange, frames[-1].text[:4]), (RESET, 0, "P-7:"))
            self.assertEqual([one for one in frames if not one.exchange], frames[-1:])

    def test_many_that_wait_a_little(self):
        connection = self.serve(APP)
        for _ in range(20):
            connection.send(*[request(number, "/nap") for number in range(1, 31)])
            self.assertEqual({connection.next().exchange for _ in range(30)}, set(range(1, 31)))

    def test_several_connections_at_once(self):
        first = self.serve(APP)
        first.send(frame(13, 0, struct.pack("<HHI", 2, 1, 1)))  # MORE, shared
        second = self.accept()
        answers = []

        def ask(connection):
            for number in range(1, 200):
                connection.send(request(number, f"/{number}"))
                answers.append(connection.next().body)

        threads = [threading.Thread(target=ask, args=(one,), daemon=True) for one in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual(sorted(answers), sorted(2 * [b"/%d" % number for number in range(1, 200)]))

    def test_an_end_with_a_handler_that_never_ends(self):
        connection = self.serve(APP)
        connection.send(request(1, "/together"), frame(DRAIN, 0, struct.pack("<I", 100)), request(2))
        self.assertNotEqual(connection.next().kind, RESPONSE)
        connection.close()
        self.assertEqual(self.exit_code(), 0)


if __name__ == "__main__":
    unittest.main()
