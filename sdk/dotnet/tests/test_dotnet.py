"""The .NET SDK over a real Unix socket, by Mono: what its handlers see and do.

sdk/dotnet/build-mono.sh compiles what runs here. The gateway's side is that of the Python SDK's tests.
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

SERVICES = ROOT / "target" / "dotnet" / "Services.exe"
UPGRADE = 0x02
EXEC = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
MAX_LINES = 930  # of the SDK without ASP.NET Core: no blank lines, comments, imports, or lines of brackets


class Handlers(GatewayCase):
    def setUp(self):
        super().setUp()
        self.assertTrue(shutil.which("mono"), "mono is missing")
        self.assertTrue(SERVICES.exists(), "sdk/dotnet/build-mono.sh has not run")
        self.fifo = os.path.join(self.folder, "gate")
        os.mkfifo(self.fifo)
        self.command = ["mono", str(SERVICES), self.fifo]

    def handlers(self):
        return self.serve(None, "-c", EXEC, *self.command)

    def ask(self, connection, target, **more):
        connection.send(request(1, target, **more))
        return connection.next()

    def upgradable(self, shared):
        shared.send(frame(MORE, 0, struct.pack("<HHI", 1, 1, 0)))
        connection = self.accept(welcome=False)
        connection.send(frame(WELCOME, 0, b"PIPE/1\nworker=0\nmax_frame=65536\nminor=1\n"))
        return connection

    def test_without_a_gateway_it_says_how_to_start_it(self):
        done = subprocess.run(self.command, env={"PATH": os.environ["PATH"]}, capture_output=True, timeout=10)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"pilotlight.toml", done.stderr)

    def test_a_refused_hello_ends_the_service_with_the_reason(self):  # P-4
        self.start(None, "-c", EXEC, *self.command)
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
        self.assertEqual(self.line(), b"cancelled True\n")

    def test_the_end_of_an_answer_connection_is_a_cancel(self):  # P-34
        shared = self.handlers()
        shared.send(request(3, "/wait"))
        self.accept().close()
        self.assertEqual(self.line(), b"cancelled True\n")

    def test_a_failure_behind_the_first_frame_cuts_the_answer(self):  # P-29
        shared = self.handlers()
        shared.send(request(3, "/fail-late"))
        answer = self.accept()
        self.assertEqual((answer.next().body, answer.next().code), (b"x", INTERNAL))

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

    def test_a_handler_that_waits_is_no_thread(self):
        connection = self.handlers()
        connection.send(*(request(number, "/later") for number in range(1, 65)))
        self.assertEqual({connection.next().exchange for _ in range(64)}, set(range(1, 65)))

    def test_a_body_may_be_read_by_blocking_calls(self):
        own = self.own(self.handlers())
        own.send(request(3, "/read-blocking", b"one ", end=False, method="POST"))
        own.send(frame(DATA, 3, b"two"), frame(DATA, 3, b"", END))
        self.assertEqual(own.next().body, b"one two")

    def test_the_sdk_has_no_more_lines_than_it_may(self):
        files = (ROOT / "sdk/dotnet/Pilotlight").glob("*.cs")
        lines = [line.strip() for file in files for line in file.read_text().splitlines()]
        code = [line for line in lines if line.strip("{}();") and not line.startswith(("//", "using System"))]
        self.assertLessEqual(len(code), MAX_LINES)


if __name__ == "__main__":
    unittest.main()
