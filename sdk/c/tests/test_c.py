"""Tests of the C SDK: real processes, compiled with the sanitizers, against a small gateway's side.

    python3 -m unittest discover -s sdk/c/tests
"""

import ctypes
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "sdk" / "conformance"))
import pipe1  # noqa: E402

OUT = ROOT / "target" / "sdk" / "c"
CC = os.environ.get("CC", "cc")
FLAGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-g"]
CHECKED = ["-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FAILING = [f"-D{name}=test_{name}" for name in ("malloc", "calloc", "realloc")] + ["-include", str(HERE / "failing.h")]
LIMIT_S = 30
WELCOME = b"PIPE/1\nworker=3\nmax_frame=65536\nminor=1\n"
DRAIN = bytes(4)
OWN = struct.pack("<HHI", 1, 1, 3)


def compile_all():
    """The service with the sanitizers, and without them for valgrind."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name, flags in (("test-service", CHECKED), ("test-service-plain", ["-O1"])):
        objects = [str(OUT / f"{name}.o"), str(OUT / name)]
        source = str(HERE.parent / "pilotlight.c")
        subprocess.run([CC, "-std=c99", *FLAGS, *flags, *FAILING, "-c", source, "-o", objects[0]], check=True)
        service = str(HERE / "service.c")
        subprocess.run([CC, "-std=c99", *FLAGS, *flags, "-pthread", service, objects[0], "-o", objects[1]], check=True)


def setUpModule():
    compile_all()


class Peer:
    """A connection that the service has dialled."""

    def __init__(self, sock):
        self.sock, self.bytes = sock, bytearray()
        self.hello = self.next("HELLO").payload.decode()
        self.send("WELCOME", 0, WELCOME)

    def send(self, kind, exchange, payload=b"", flags=0):
        self.sock.sendall(pipe1.encode(pipe1.Frame(pipe1.TYPES[kind], flags, exchange, payload)))

    def request(self, exchange, target, body=b"", flags=pipe1.END, method="GET", fields=(), deadline=0):
        words = [method, "http", "test.local", target, "HTTP/1.1", "127.0.0.1:5000", f"req-{exchange}", *fields]
        head = b"".join(word.encode() + b"\0" for word in words)
        self.send("REQUEST", exchange, struct.pack("<II", len(head), deadline) + head + body, flags)

    def next(self, kind):
        """The next frame, which has to be of this type; None at the end of the stream."""
        while (frame := pipe1.split(self.bytes)) is None:
            data = self.sock.recv(1 << 18)
            if not data:
                return None
            self.bytes += data
        if frame.name != kind:
            raise AssertionError(f"{frame}, expected {kind}")
        return frame

    def answer(self):
        frame = self.next("RESPONSE")
        length, status, _ = struct.unpack_from("<IHH", frame.payload)
        fields = frame.payload[8 : 8 + length].split(b"\0")[:-1]
        return status, dict(zip(fields[::2], fields[1::2])), frame.payload[8 + length :]

    def reset(self):
        code, _, retry = struct.unpack_from("<HHI", self.next("RESET").payload)
        return code, retry


class Service:
    def __init__(self, *command, **environment):
        self.folder = tempfile.TemporaryDirectory(prefix="pilotlight-c-")
        path = self.folder.name + "/s"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.listener.settimeout(LIMIT_S)
        environment = os.environ | {"PILOTLIGHT_SOCKET": path, "PILOTLIGHT_TOKEN": "ab" * 16} | environment
        self.process = subprocess.Popen(
            command or [OUT / "test-service"], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.peers = []

    def accept(self):
        sock, _ = self.listener.accept()
        sock.settimeout(LIMIT_S)
        self.peers.append(Peer(sock))
        return self.peers[-1]

    def end(self):
        """Status and standard error, when the gateway's side has closed."""
        for peer in self.peers:
            peer.sock.close()
        self.listener.close()
        try:
            _, said = self.process.communicate(timeout=LIMIT_S)
        finally:
            self.process.kill()
            self.folder.cleanup()
        return self.process.returncode, said.decode()


class Api(unittest.TestCase):
    def setUp(self):
        self.service = Service()
        self.shared = self.service.accept()
        self.addCleanup(self.ended_well)

    def ended_well(self):
        status, said = self.service.end()
        self.assertEqual((status, said), (0, ""))

    def own(self):
        self.shared.send("MORE", 0, OWN)
        return self.service.accept()

    def text(self, target, **more):
        self.shared.request(1, target, **more)
        return self.shared.answer()[2].decode()

    def test_hello_has_the_limits(self):
        for line in ("exchanges=7", "max_own=4096", "minor=1", "kind=shared"):
            self.assertIn(f"\n{line}\n", self.shared.hello)

    def test_request(self):
        text = self.text("/x?y=%20", method="POST", body=b"body", fields=["x-a", "1", "x-a", "2"], deadline=30_500)
        self.assertEqual(text, "POST|http|test.local|/x?y=%20|HTTP/1.1|127.0.0.1:5000|req-1|2|1|2|none|body|30")

    def test_misuse_is_told(self):
        self.assertEqual(self.text("/misuse"), "-3 -3 -3 -4 -3 -3 -4 ")

    def test_fields_of_the_answer(self):
        self.shared.request(1, "/fields")
        self.assertEqual(self.shared.answer()[:2], (201, {b"x-upper": b"a  b"}))

    def test_streamed_body_and_its_trailers(self):
        own = self.own()
        for trailers in (True, False):
            own.request(4, "/count", b"x" * 1000, flags=0, method="POST")
            own.send("DATA", 4, b"y" * 60_000)
            own.send("TRAILERS", 4, b"x-sum\0007\0") if trailers else own.send("DATA", 4, b"", pipe1.END)
            self.assertEqual(own.answer()[2], b"61000 7" if trailers else b"61000 none")

    def test_interim_answer_leaves_the_shared_connection(self):
        self.shared.request(1, "/hints")
        answer = self.service.accept()
        self.assertIn(b"link\0</a.css>\0", answer.next("INFO").payload)
        self.assertEqual(answer.answer()[1], {b"content-type": b"text/plain"})
        self.assertEqual(answer.next("DATA").payload, b"hinted")
        self.assertTrue(answer.next("DATA").end)

    def test_another_thread_answers(self):
        self.assertEqual(self.text("/thread"), "posted")

    def test_stream_is_taken_in_parts(self):
        self.shared.request(1, "/large")
        self.shared.send("PING", 0, b"12345678")
        self.shared.next("PONG")  # the socket of the answer is full by now, for nobody has read from it
        answer, size = self.service.accept(), 0
        answer.answer()
        while size < 1_000_000:
            size += len(answer.next("DATA").payload)
        name, most = answer.next("TRAILERS").payload.split(b"\0")[:2]
        self.assertEqual(name, b"x-most")
        self.assertLess(int(most), 1_000_000, "all was taken at once")

    def test_log(self):
        self.shared.request(6, "/log")
        line = self.shared.next("LOG")
        self.assertEqual((line.exchange, line.payload), (6, b"\x02careful"))
        self.shared.answer()

    def test_cancelled_without_a_callback_stays_until_it_is_ended(self):
        self.shared.request(2, "/keep")
        self.shared.send("RESET", 2, struct.pack("<HHI", 1, 0, 0))
        self.shared.request(3, "/end-kept")
        self.assertEqual(self.shared.reset(), (1, 0))
        self.assertEqual(self.shared.answer()[2], b"gone")

    def test_callback_of_cancel_may_end_the_exchange(self):
        own = self.own()
        for exchange in (1, 2):
            own.request(exchange, "/end-in-cancel")
            own.send("RESET", exchange, struct.pack("<HHI", 2, 0, 0))
            self.assertEqual(own.reset(), (2, 0))

    def test_refusals(self):
        self.shared.request(1, "/overloaded")
        self.assertEqual(self.shared.reset(), (4, 1500))
        self.shared.request(1, "/refuse-late")  # P-29: INTERNAL, for the answer has begun
        answer = self.service.accept()
        answer.answer()
        answer.next("DATA")
        self.assertEqual(answer.reset(), (5, 0))

    def test_upgrades(self):
        first, second = self.own(), self.own()
        offer = {"flags": pipe1.END | pipe1.UPGRADE, "fields": ["upgrade", "other, echo"]}
        first.request(1, "/upgrade", **offer)
        self.assertEqual(first.answer()[:2], (101, {b"upgrade": b"echo"}))
        second.request(1, "/upgrade", **offer)  # P-42: max_upgraded is 1
        self.assertEqual(second.reset(), (4, 1500))
        sent = bytes(range(256)) * 1000
        writer = threading.Thread(target=first.sock.sendall, args=(sent,))
        writer.start()
        got = bytearray()
        while len(got) < len(sent):
            got += first.sock.recv(1 << 16)
        writer.join(LIMIT_S)
        self.assertEqual(got, sent)
        first.sock.shutdown(socket.SHUT_WR)
        self.assertEqual(first.sock.recv(1), b"")
        second.request(2, "/upgrade", **offer)
        self.assertEqual(second.answer()[0], 101)

    def test_drain(self):
        self.shared.request(1, "/drain")
        self.assertEqual(self.shared.next("DRAIN").payload, DRAIN)
        self.assertEqual(self.shared.answer()[2], b"context")
        self.shared.request(2, "/")
        self.assertEqual(self.shared.reset(), (3, 0))
        self.shared.send("DRAIN", 0, DRAIN)
        self.assertIsNone(self.shared.next("nothing"))


class Process(unittest.TestCase):
    def test_without_the_gateway(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PILOTLIGHT_")}
        ran = subprocess.run([OUT / "test-service"], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("pilotlight.toml", ran.stderr)

    def test_gateway_that_is_not_there(self):
        environment = os.environ | {"PILOTLIGHT_SOCKET": "/nowhere/s", "PILOTLIGHT_TOKEN": "ab"}
        ran = subprocess.run([OUT / "test-service"], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("/nowhere/s", ran.stderr)

    def scenario(self, service):
        """A bit of everything. Whatever fails is seen by the service's status."""
        try:
            service.listener.settimeout(2)
            shared = service.accept()
            shared.sock.settimeout(2)
            shared.send("MORE", 0, OWN)
            own = service.accept()
            own.sock.settimeout(2)
            own.request(1, "/count", b"x" * 1000, flags=0, method="POST")
            own.send("TRAILERS", 1, b"x-sum\0007\0")
            own.answer()
            shared.request(1, "/large")
            answer = service.accept()
            answer.sock.settimeout(2)
            answer.answer()
            while answer.next("DATA"):
                pass
        except (OSError, AssertionError, AttributeError):
            pass

    def test_every_allocation_is_checked(self):
        service = Service(FAIL_AT="0")
        self.scenario(service)
        status, said = service.end()
        self.assertEqual(status, 0, said)
        total = int(said.split("allocations: ")[1])
        self.assertGreater(total, 10)
        for number in range(1, total + 1):
            with self.subTest(allocation=number):
                service = Service(FAIL_AT=str(number))
                self.scenario(service)
                status, said = service.end()
                self.assertIn(status, (0, 1), said)
                self.assertNotIn("Sanitizer", said)

    def test_nonsense_ends_the_connection_and_nothing_else(self):
        targets = ["/count", "/large", "/hints", "/upgrade", "/", "/end-in-cancel"]
        for seed in range(60):
            chance = random.Random(seed)
            service = Service()
            with self.subTest(seed=seed):
                try:
                    shared = service.accept()
                    shared.send("MORE", 0, OWN)
                    peer = chance.choice([shared, service.accept()])
                    for number in range(1, 8):
                        flags = chance.choice([0, 1, 1, 1, 2, 3, 0x80, 0xFF])
                        body = chance.randbytes(chance.choice([0, 1, 60_000]))
                        target, fields = chance.choice(targets), ["upgrade", "echo"]
                        peer.request(chance.choice([number, 1]), target, body, flags, fields=fields)
                        kind = chance.choice(sorted(pipe1.TYPES))
                        noise = chance.randbytes(chance.choice([0, 4, 8, 300]))
                        peer.send(kind, chance.choice([0, 1, number]), noise, flags)
                except OSError:
                    pass  # it has closed: it may
                finally:
                    status, said = service.end()
                self.assertIn(status, (0, 1), said)
                self.assertNotIn("Sanitizer", said)
                self.assertNotIn("runtime error", said)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
    def test_valgrind_finds_nothing(self):
        leaks = ["--leak-check=full", "--show-leak-kinds=all", "--errors-for-leak-kinds=all"]
        check = ["valgrind", "-q", "--error-exitcode=9", *leaks]
        service = Service(*check, str(OUT / "test-service-plain"))
        service.listener.settimeout(LIMIT_S)
        shared = service.accept()
        for exchange in range(1, 7):
            shared.request(exchange, "/")
        for _ in range(6):
            shared.answer()
        shared.request(1, "/large")
        answer, size = service.accept(), 0
        answer.answer()
        while size < 1_000_000:
            size += len(answer.next("DATA").payload)
        answer.next("TRAILERS")
        shared.send("DRAIN", 0, DRAIN)
        self.assertIsNone(shared.next("nothing"))
        self.assertEqual(service.end(), (0, ""))


class Others(unittest.TestCase):
    def test_header_is_that_of_cpp(self):
        if not shutil.which("c++"):
            self.skipTest("c++ is not installed")
        source = '#include "pilotlight.h"\nint main() { return pilotlight_serve(nullptr, nullptr); }\n'
        command = ["c++", *FLAGS, "-fsyntax-only", "-x", "c++", "-I", str(HERE.parent), "-"]
        subprocess.run(command, input=source.encode(), check=True)

    def test_by_a_foreign_function_interface(self):
        library = OUT / "libpilotlight.so"
        source = str(HERE.parent / "pilotlight.c")
        subprocess.run([CC, "-std=c99", *FLAGS, "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
        service = Service(sys.executable, "-B", __file__, str(library))
        shared = service.accept()
        shared.request(1, "/from-python")
        self.assertEqual(shared.answer()[2], b"python saw /from-python")
        shared.send("DRAIN", 0, DRAIN)
        self.assertIsNone(shared.next("nothing"))
        self.assertEqual(service.end(), (0, ""))


def serve_by_ffi(path):
    """A service in Python by the C SDK."""
    library = ctypes.CDLL(path)
    library.pilotlight_target.restype = ctypes.c_char_p
    library.pilotlight_target.argtypes = [ctypes.c_void_p]
    types = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.pilotlight_answer.argtypes = types

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    def handle(exchange, _context):
        body = b"python saw " + library.pilotlight_target(exchange)
        library.pilotlight_answer(exchange, 200, b"text/plain", body, len(body))

    return library.pilotlight_serve(handle, None)


if __name__ == "__main__":
    sys.exit(serve_by_ffi(sys.argv[1]))
