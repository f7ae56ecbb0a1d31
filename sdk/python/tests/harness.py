"""The gateway's side of Pipe/1 for the tests: a real Unix socket, real processes, every wait bounded."""

import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SDK = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT_SECONDS = 10
HELLO, WELCOME, REQUEST, RESPONSE, INFO, DATA, TRAILERS, STOP, RESET, PING, PONG, DRAIN, MORE, LOG = range(1, 15)
END, UPGRADE, IGNORABLE = 0x01, 0x02, 0x80
CANCELLED, DEADLINE, REFUSED, OVERLOADED, INTERNAL, PROTOCOL, TOO_LARGE = range(1, 8)
TOKEN = "0123456789abcdef0123456789abcdef"


def frame(kind, exchange=0, payload=b"", flags=0):
    return struct.pack("<IBBH", len(payload), kind, flags, exchange) + payload


def head(target="/echo", method="GET", headers=(), deadline_ms=0, authority="localhost:8080"):
    strings = [method, "http", authority, target, "HTTP/1.1", "127.0.0.1:5", "request-1"]
    for name, value in headers:
        strings += [name, value]
    block = "".join(text + "\0" for text in strings).encode("latin-1")
    return struct.pack("<II", len(block), deadline_ms) + block


def request(exchange, target="/echo", body=b"", end=True, **more):
    return frame(REQUEST, exchange, head(target, **more) + body, END if end else 0)


def reset(exchange, code):
    return frame(RESET, exchange, struct.pack("<HHI", code, 0, 0) + b"test")


def fields(block):
    strings = block.decode("latin-1").split("\0")
    assert strings.pop() == "" and len(strings) % 2 == 0, block
    return list(zip(strings[::2], strings[1::2]))


class Frame:
    def __init__(self, kind, flags, exchange, payload):
        self.kind, self.flags, self.exchange, self.payload = kind, flags, exchange, payload
        self.end = bool(flags & END)
        if kind in (RESPONSE, INFO):
            size, self.status, zero = struct.unpack_from("<IHH", payload)
            assert zero == 0 and size <= len(payload) - 8
            self.headers, self.body = fields(payload[8 : 8 + size]), payload[8 + size :]
        if kind == RESET:
            self.code, _, self.retry_after_ms = struct.unpack_from("<HHI", payload)
            self.text = payload[8:].decode()

    def __repr__(self):
        return f"Frame(kind={self.kind}, flags={self.flags}, exchange={self.exchange}, {self.payload[:60]!r})"


class Connection:
    """One accepted connection, its HELLO read and answered."""

    def __init__(self, sock, welcome=True, worker=0):
        self.sock, self.buffer = sock, b""
        sock.settimeout(LIMIT_SECONDS)
        hello = self.next()
        assert hello.kind == HELLO and hello.exchange == 0, hello
        version, *lines = hello.payload.decode().split("\n")
        assert version == "PIPE/1" and lines.pop() == "", hello.payload
        self.hello = dict(line.split("=", 1) for line in lines)
        if welcome:
            self.welcome(int(self.hello.get("worker", worker)))

    def welcome(self, worker=0, max_frame=65536):
        text = f"PIPE/1\nworker={worker}\nmax_frame={max_frame}\nminor=1\nnew=1\nservice=t\n"
        self.send(frame(WELCOME, 0, text.encode()))

    def send(self, *frames):
        self.sock.sendall(b"".join(frames))

    def next(self):
        """The next frame; None when the service has closed."""
        while True:
            if len(self.buffer) >= 8:
                size, kind, flags, exchange = struct.unpack_from("<IBBH", self.buffer)
                assert size <= 65536 and not flags & ~0x83, (size, flags)
                if len(self.buffer) >= 8 + size:
                    payload, self.buffer = self.buffer[8 : 8 + size], self.buffer[8 + size :]
                    return Frame(kind, flags, exchange, payload)
            try:
                data = self.sock.recv(65536)
            except ConnectionResetError:  # closed with something unread
                data = b""
            if not data:
                assert not self.buffer, self.buffer
                return None
            self.buffer += data

    def answer(self, exchange):
        """Collects one whole streamed answer: RESPONSE, all body bytes, trailers or None."""
        first = self.next()
        assert first is not None and first.kind == RESPONSE and first.exchange == exchange, first
        body, last = [first.body], first
        while not (last.end or last.kind == TRAILERS):
            last = self.next()
            assert last is not None and last.exchange == exchange and last.kind in (DATA, TRAILERS), last
            if last.kind == DATA:
                body.append(last.payload)
        return first, b"".join(body), fields(last.payload) if last.kind == TRAILERS else None

    def quiet(self, seconds=0.05):
        """Whether nothing comes for a while."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            return not self.buffer and not selector.select(seconds)

    def close(self):
        self.sock.close()


class GatewayCase(unittest.TestCase):
    """A listening socket, and services that dial it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="pl")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = os.path.join(self.folder, "s")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.listener.close)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.listener.settimeout(LIMIT_SECONDS)
        self.process = None

    def start(self, source=None, *command, cwd=None):
        """Starts a service: python source that uses `pilotlight`, or a command line after the interpreter."""
        if self.process:
            self.stop()
        if source is not None:
            script = os.path.join(self.folder, "service.py")
            with open(script, "w") as file:
                file.write("import pilotlight, time, sys, os\n" + source)
            command = (script,)
        environment = {**os.environ, "PILOTLIGHT_SOCKET": self.path, "PILOTLIGHT_TOKEN": TOKEN, "PYTHONPATH": SDK}
        self.errors = tempfile.TemporaryFile()
        self.addCleanup(self.errors.close)
        self.process = subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            cwd=cwd or self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
        )
        self.addCleanup(self.stop)
        return self.process

    def serve(self, source=None, *command, **more):
        """Starts a service and returns its first connection."""
        self.start(source, *command, **more)
        return self.accept()

    def demo(self):
        return self.serve(None, os.path.join(SDK, "demo.py"))

    def accept(self, **more):
        connection = Connection(self.listener.accept()[0], **more)
        self.addCleanup(connection.close)
        return connection

    def answer_connection(self, known):
        """The answer connection on which something comes: one of `known`, or a new one, which is added to them."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ, None)
            for connection in known:
                selector.register(connection.sock, selectors.EVENT_READ, connection)
            ready = [key.data for key, _ in selector.select(LIMIT_SECONDS)]
        assert ready, "no answer came"
        if ready[0] is None:
            known.append(self.accept())
            ready = known[-1:]
        return ready[0]

    def own(self, shared, worker=0):
        shared.send(frame(MORE, 0, struct.pack("<HHI", 1, 1, worker)))
        connection = self.accept()
        self.assertEqual((connection.hello["kind"], connection.hello["worker"]), ("own", str(worker)))
        return connection

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT_SECONDS)
        self.process.stdin.close()
        self.process.stdout.close()

    def line(self):
        """The next line of the service's standard output."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(LIMIT_SECONDS), "nothing on standard output"
        return self.process.stdout.readline()

    def exit_code(self):
        return self.process.wait(LIMIT_SECONDS)

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def eventually(self, check):
        """Repeats `check` until it is true, for LIMIT_SECONDS at most."""
        end = time.monotonic() + LIMIT_SECONDS
        while not check():
            self.assertLess(time.monotonic(), end, "it did not happen in time")
            time.sleep(0.01)
