"""The Java SDK over a real Unix socket: what its handlers see and do, and HttpServer over the pipe.

sdk/java/build.sh compiles what runs here. The gateway's side is that of the Python SDK's tests.
"""

import os
import shutil
import signal
import struct
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "sdk" / "python" / "tests"))

from harness import (
    CANCELLED, DATA, DRAIN, END, INFO, INTERNAL, LOG, MORE, OVERLOADED, PROTOCOL, REFUSED, REQUEST,
    RESET, RESPONSE, STOP, TOO_LARGE, TRAILERS, WELCOME, GatewayCase, frame, head, request, reset,
)

BUILT = ROOT / "target" / "java"
UPGRADE = 0x02
CLASSES = os.pathsep.join(str(BUILT / name) for name in ("pilotlight.jar", "test"))
FLAGS = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"]
PROVIDER = "-Dcom.sun.net.httpserver.HttpServerProvider=pilotlight.httpserver.PipeServerProvider"
EXEC = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
MAX_LINES = 920  # of the SDK without HttpServer: no blank lines, comments, imports, or lines of brackets


class JavaCase(GatewayCase):
    java = os.environ.get("PILOTLIGHT_TEST_JAVA", "java")

    def setUp(self):
        super().setUp()
        self.assertTrue(shutil.which(self.java), f"{self.java} is missing")
        self.assertTrue((BUILT / "pilotlight.jar").exists(), "sdk/java/build.sh has not run")
        self.fifo = os.path.join(self.folder, "gate")
        os.mkfifo(self.fifo)

    def handlers(self):
        return self.serve(None, "-c", EXEC, self.java, *FLAGS, "-cp", CLASSES, "Services", "handlers", self.fifo)

    def server(self):
        return self.serve(None, "-c", EXEC, self.java, *FLAGS, PROVIDER, "-cp", CLASSES, "Services", "server")

    def ask(self, connection, target, **more):
        connection.send(request(1, target, **more))
        return connection.next()

    def upgradable(self, shared):
        shared.send(frame(MORE, 0, struct.pack("<HHI", 1, 1, 0)))
        connection = self.accept(welcome=False)
        connection.send(frame(WELCOME, 0, b"PIPE/1\nworker=0\nmax_frame=65536\nminor=1\n"))
        return connection


class Handlers(JavaCase):
    def test_without_a_gateway_it_says_how_to_start_it(self):
        command = [self.java, *FLAGS, "-cp", CLASSES, "Services", "handlers", self.fifo]
        done = subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, timeout=10)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"pilotlight.toml", done.stderr)

    def test_a_refused_hello_ends_the_service_with_the_reason(self):  # P-4
        self.start(None, "-c", EXEC, self.java, *FLAGS, "-cp", CLASSES, "Services", "handlers", self.fifo)
        self.accept(welcome=False).send(frame(RESET, 0, struct.pack("<HHI", PROTOCOL, 0, 0) + b"no live instance"))
        self.assertEqual(self.exit_code(), 1)
        self.assertIn("no live instance", self.stderr())

    def test_one_thread_runs_the_quick_handlers_of_a_batch(self):  # P-18
        connection = self.handlers()

        def is_quick():
            """A batch on one thread, or two. The first ones are slow: each costs threads for 256 others."""
            connection.send(*(request(number, "/thread") for number in range(1, 65)))
            answers = [connection.next() for _ in range(64)]
            self.assertEqual(sorted(answer.exchange for answer in answers), list(range(1, 65)))
            return len({answer.body for answer in answers}) <= 2

        self.eventually(is_quick)

    def test_a_handler_that_blocks_holds_up_no_other(self):
        connection = self.handlers()
        connection.send(request(1, "/block"), request(2, "/block"), request(3, "/quick"))
        self.assertEqual(connection.next().body, b"/quick")
        connection.send(request(4, "/quick"))
        self.assertEqual(connection.next().exchange, 4)
        answers = set()

        def answered():
            self.open_gate()
            if not connection.quiet():
                answers.add(connection.next().exchange)
            return answers == {1, 2}

        self.eventually(answered)

    def open_gate(self):
        """Lets those go on that wait at the gate now."""
        try:
            os.close(os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            pass  # nobody waits

    def test_every_request_of_a_mixed_load_has_one_answer(self):
        connection = self.handlers()
        for turn in range(40):
            wanted = {number: f"/{'slow' if (number + turn) % 13 == 0 else 'quick'}/{turn}" for number in range(1, 65)}
            connection.send(*(request(number, target) for number, target in wanted.items()))
            answers = [connection.next() for _ in wanted]
            self.assertEqual({one.exchange: one.body.decode() for one in answers}, wanted)
        self.assertTrue(connection.quiet())

    def test_fields_that_must_not_cross_are_dropped(self):  # P-8, P-9
        answer = self.ask(self.handlers(), "/fields")
        self.assertEqual(answer.headers, [("set-cookie", "a"), ("set-cookie", "b"), ("x-a", "4")])

    def test_a_value_with_a_line_end_is_the_handlers_error(self):  # P-8
        answer = self.ask(self.handlers(), "/bad-value")
        self.assertEqual((answer.kind, answer.code), (RESET, INTERNAL))
        self.assertIn("not allowed in HTTP", self.stderr())

    def test_bodies_stream_both_ways(self):  # P-20
        own = self.own(self.handlers())
        own.send(request(3, "/echo", b"one", end=False, method="POST"))
        answer = own.next()
        self.assertEqual((answer.kind, answer.body), (RESPONSE, b"one"))
        for piece in (b"two", b"x" * 65_536):
            own.send(frame(DATA, 3, piece))
            got = b""
            while len(got) < len(piece):
                got += own.next().payload
            self.assertEqual(got, piece)
        own.send(frame(DATA, 3, b"last", END))
        self.assertEqual(own.next().payload, b"last")
        self.assertTrue(own.next().end)

    def test_trailers_of_the_request_are_seen(self):
        own = self.own(self.handlers())
        own.send(request(3, "/trailers", end=False, method="POST"), frame(TRAILERS, 3, b"x-sum\x007\0"))
        self.assertEqual(own.next().body, b"7")

    def test_an_unread_body_is_stopped_and_thrown_away(self):  # P-21
        own = self.own(self.handlers())
        own.send(request(3, "/quick", b"one", end=False, method="POST"))
        self.assertEqual((own.next().kind, own.next().body), (STOP, b"/quick"))
        own.send(frame(DATA, 3, b"more"), frame(DATA, 3, b"", END), request(4, "/next"))
        self.assertEqual(own.next().body, b"/next")

    def test_a_cancel_is_noticed_while_the_handler_waits(self):  # P-26
        shared = self.handlers()
        own = self.own(shared)
        own.send(request(3, "/wait"))
        self.assertEqual(own.next().kind, RESPONSE)
        own.send(reset(3, CANCELLED))
        self.assertEqual(own.next().kind, RESET)
        self.assertEqual(self.line(), b"cancelled true\n")

    def test_the_end_of_an_answer_connection_is_a_cancel(self):  # P-34
        shared = self.handlers()
        shared.send(request(3, "/wait"))
        self.accept().close()
        self.assertEqual(self.line(), b"cancelled true\n")

    def test_a_failure_behind_the_first_frame_cuts_the_answer(self):  # P-29
        shared = self.handlers()
        shared.send(request(3, "/fail-late"))
        answer = self.accept()
        self.assertEqual((answer.next().body, answer.next().code), (b"x", INTERNAL))

    def test_an_answer_connection_is_used_again(self):  # P-25
        shared = self.handlers()
        known = []
        for text in "abcdef":
            shared.send(request(3, f"/stream?{text}"))
            _, body, _ = self.answer_connection(known).answer(3)
            self.assertEqual(body, text.encode())
        self.assertLess(len(known), 4)  # the next request may come before the last one has let go

    def test_handlers_refuse_by_what_they_throw(self):
        connection = self.handlers()
        answer = self.ask(connection, "/overloaded")
        self.assertEqual((answer.code, answer.retry_after_ms, answer.text), (OVERLOADED, 2000, "busy"))
        self.assertEqual(self.ask(connection, "/too-large").code, TOO_LARGE)
        self.assertEqual(self.stderr(), "")

    def test_an_informational_answer_comes_first(self):
        shared = self.handlers()
        shared.send(request(3, "/hints"))
        answer = self.accept()
        hint = answer.next()
        self.assertEqual((hint.kind, hint.status, hint.headers), (INFO, 103, [("link", "</a.css>")]))
        self.assertEqual(answer.next().body, b"hinted")

    def test_log_lines_belong_to_their_request(self):  # P-36
        connection = self.handlers()
        line = self.ask(connection, "/log")
        self.assertEqual((line.kind, line.exchange, line.payload), (LOG, 1, b"\2from the handler"))

    def test_an_interrupt_that_a_handler_leaves_is_not_for_the_next(self):
        connection = self.handlers()
        for _ in range(3):
            self.assertEqual(self.ask(connection, "/interrupt").status, 200)

    def test_an_upgraded_connection_learns_of_a_drain(self):  # P-42, P-43
        shared = self.handlers()
        own, other = self.upgradable(shared), self.upgradable(shared)
        offer = frame(REQUEST, 3, head("/switch", headers=[("upgrade", "echo")]), END | UPGRADE)
        own.send(offer)
        data = own.sock.recv(4096)
        self.assertIn(b"x-extra\x001\0", data)
        other.send(offer)
        self.assertEqual(other.next().code, OVERLOADED)
        own.sock.sendall(b"bytes")
        self.assertEqual(own.sock.recv(100), b"bytes")
        shared.send(frame(DRAIN, 0, bytes(4)))
        self.assertEqual(own.sock.recv(100), b"bye")
        shared.send(request(9, "/late"))
        self.assertEqual(shared.next().code, REFUSED)
        own.close()
        self.assertEqual(self.exit_code(), 0)

    def test_sigterm_tells_the_gateway(self):  # P-32
        connection = self.handlers()
        self.ask(connection, "/quick")
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(connection.next().kind, DRAIN)
        connection.send(frame(DRAIN, 0, bytes(4)))
        self.assertEqual(self.exit_code(), 0)

    def test_the_sdk_has_no_more_lines_than_it_may(self):
        files = (ROOT / "sdk/java/src/main/java/pilotlight").glob("*.java")
        lines = [line.strip() for file in files for line in file.read_text().splitlines()]
        no_code = ("//", "/*", "*", "import ", "package ", "@")
        code = [line for line in lines if line.strip("{}();") and not line.startswith(no_code)]
        self.assertLessEqual(len(code), MAX_LINES)


class Server(JavaCase):
    """A program of com.sun.net.httpserver that is not changed."""

    def test_handlers_see_their_request(self):
        answer = self.ask(self.server(), "/a%20b?c=d")
        self.assertEqual(answer.body, b"GET /a%20b?c=d localhost:8080 5 own-executor")
        self.assertIn(("content-length", str(len(answer.body))), answer.headers)

    def test_bodies_pass_both_ways(self):
        own = self.own(self.server())
        own.send(request(3, "/echo", b"one", end=False, method="POST", headers=[("content-type", "a/b")]))
        own.send(*(frame(DATA, 3, b"y" * 60_000) for _ in range(5)), frame(DATA, 3, b"", END))
        answer, body, _ = own.answer(3)
        self.assertEqual((answer.status, dict(answer.headers)["x-type"]), (201, "a/b"))
        self.assertEqual(body, b"one" + b"y" * 300_000)

    def test_filters_run(self):
        self.assertEqual(self.ask(self.server(), "/filtered").body, b"filter")

    def test_an_exchange_may_end_on_another_thread(self):
        self.assertEqual(self.ask(self.server(), "/later").body, b"by another thread")

    def test_answers_without_a_body(self):
        connection = self.server()
        self.assertEqual(self.ask(connection, "/none").status, 204)
        self.assertEqual(self.ask(connection, "/", method="HEAD").body, b"")

    def test_an_answer_that_is_missing_or_cut_is_an_error(self):
        connection = self.server()
        for target in ("/unanswered", "/cut", "/throws"):
            answer = self.ask(connection, target)
            self.assertEqual((answer.kind, answer.code), (RESET, INTERNAL), target)


if __name__ == "__main__":
    unittest.main()
