"""An ordinary HTTP/1.1 server that does what a target asks of it; knows nothing of Pilotlight.

As a program it listens on the socket that it inherits (descriptor 3), or on PORT. In tests it also runs in a thread of
the test (`with Origin() as origin`), where its requests can be looked at.

    /show…                          what it received, as JSON
    /make?status=&h=name:value&…    an answer to order; the body is `serial N`, N counted for each path and query
        &ms=N                       after so long        &validate=1   304 when If-None-Match names the etag
        &fail_after=N               503 after N answers  &hold_after=N waits for `gate` after N answers
        &early=N                    after N times 103    &cut_after=N  closes without an answer after N
    /blob?bytes=N                   so many bytes, always the same, with a Content-Length
    /stream?chunks=C&ms=M           lines, M ms between them, chunked
    /text?bytes=N&h=name:value&…    so many bytes of numbered lines; &validate=1: 304 when If-None-Match names the etag,
        &chunked=1                  weakly compared
    /events                         an event, and another one when `gate` is open
    /upload                         counts and hashes the body, and counts the chunks in which it came
    /tiny?bytes=N                   so many bytes, each in a chunk of its own, written in large pieces
    /large?bytes=N                  so many zeros, of known length
    /print?bytes=N                  writes lines to stdout
    /talk                           answers each chunk of the request with a chunk, as it comes
    /wait                           answers without end until the client goes; /gone says how many have gone
    /ws                             WebSocket echo
"""

import functools
import hashlib
import json
import os
import random
import socket
import socketserver
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, urlsplit

import websocket

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")


@functools.cache
def numbered_lines(size):
    """The body of `/text?bytes=size`."""
    return b"".join(b"this is line %d of many\n" % number for number in range(size // 20 + 1))[:size]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536
    timeout = 60

    def address_string(self):
        return "local"

    def log_message(self, *_):
        """Quiet: tests read stdout and stderr."""

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1
            self.number = self.server.connections

    def handle_expect_100(self):
        self.server.expected += 1
        return super().handle_expect_100()

    def dispatch(self):
        parts = urlsplit(self.path)
        self.query = parse_qsl(parts.query, keep_blank_values=True)
        name = parts.path.strip("/").split("/")[-1]
        with self.server.lock:
            self.server.seen.append((self.command, self.path, self.headers.items()))
        handler = getattr(self, "on_" + name, None) or self.on_show
        handler()
        self.wfile.flush()

    def argument(self, name, default=None):
        return dict(self.query).get(name, default)

    def answer(self, status, body, fields=()):
        self.send_response(status)
        for field in fields:
            self.send_header(*field)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(body)

    def body(self):
        self.trailers = []
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.trailers = list(iter(lambda: self.rfile.readline().strip().decode(), ""))
            return
        left = int(self.headers.get("content-length", 0))
        while left:
            piece = self.rfile.read(min(left, 65_536))
            if not piece:
                self.close_connection = True
                return
            left -= len(piece)
            yield piece

    def on_show(self):
        body = b"".join(self.body())
        told = {
            "method": self.command,
            "target": self.path,
            "fields": self.headers.items(),
            "body": body.decode("latin-1"),
            "trailers": self.trailers,
            "connection": self.number,
            "made": self.server.serials.total(),
            "pid": os.getpid(),
        }
        self.answer(200, json.dumps(told).encode(), [("Content-Type", "application/json"), ("Cache-Control", "no-store")])

    def on_make(self):
        body = b"".join(self.body())
        with self.server.lock:
            self.server.serials[self.path] += 1
            serial = self.server.serials[self.path]
        time.sleep(int(self.argument("ms", 0)) / 1000)
        if serial > int(self.argument("hold_after", serial)):
            self.server.gate.wait(self.timeout)
        if serial > int(self.argument("cut_after", serial)):
            self.close_connection = True
            return
        for number in range(int(self.argument("early", 0))):
            self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </%d.css>; rel=preload\r\n\r\n" % number)
            self.wfile.flush()
        if serial > int(self.argument("fail_after", serial)):
            self.answer(503, b"failed")
            return
        fields = [tuple(map(str.strip, value.split(":", 1))) for name, value in self.query if name == "h"]
        user = self.headers.get("authorization") or self.headers.get("cookie") or "nobody"
        text = f"serial {serial} for {user} {self.headers.get('accept-language', '')} {len(body)}".encode()
        etag = dict((name.lower(), value) for name, value in fields).get("etag")
        if self.argument("validate") and etag and self.headers.get("if-none-match") == etag:
            self.answer(304, b"", fields)
        else:
            self.answer(int(self.argument("status", 200)), text, fields)

    def on_blob(self):
        self.answer(200, random.Random(1).randbytes(int(self.argument("bytes", 0))))

    def on_text(self):
        with self.server.lock:
            self.server.serials[self.path] += 1
        size = int(self.argument("bytes", 10_000))
        text = numbered_lines(size)
        fields = [tuple(map(str.strip, value.split(":", 1))) for name, value in self.query if name == "h"]
        etag = dict((name.lower(), value) for name, value in fields).get("etag")
        if self.argument("validate") and self.headers.get("if-none-match", "").removeprefix("W/") == etag:
            self.answer(304, b"", fields)
        elif self.argument("chunked"):
            self.send_response(200)
            for field in [*fields, ("Transfer-Encoding", "chunked")]:
                self.send_header(*field)
            self.end_headers()
            for start in range(0, size, 10_000):
                self.chunk(text[start : start + 10_000])
            self.chunk(b"")
        else:
            self.answer(200, text, fields)

    def on_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.chunk(b"data: one\n\n")
        self.server.gate.wait(self.timeout)
        self.chunk(b"data: two\n\n")
        self.chunk(b"")

    def on_stream(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for index in range(int(self.argument("chunks", 3))):
            self.chunk(b"chunk %d\n" % index)
            time.sleep(int(self.argument("ms", 0)) / 1000)
        self.chunk(b"")

    def on_talk(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in self.body():
            self.chunk(piece)
        self.chunk(b"")

    def on_wait(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                self.chunk(b"tick\n")
                time.sleep(0.02)
        except OSError:
            self.close_connection = True
            with self.server.lock:
                self.server.gone += 1

    def on_gone(self):
        self.answer(200, b"%d" % self.server.gone, [("Cache-Control", "no-store")])

    def on_upload(self):
        count, pieces, digest = 0, 0, hashlib.sha256()
        for piece in self.body():
            count += len(piece)
            pieces += 1
            digest.update(piece)
        self.answer(200, json.dumps({"bytes": count, "pieces": pieces, "sha256": digest.hexdigest()}).encode())

    def on_tiny(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"".join(b"1\r\n%c\r\n" % (index % 251) for index in range(int(self.argument("bytes")))) + b"0\r\n\r\n")

    def on_large(self):
        left = int(self.argument("bytes"))
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        while left > 0:
            self.wfile.write(bytes(min(left, 65_536)))
            left -= 65_536

    def on_print(self):
        line, left = b"x" * 99 + b"\n", int(self.argument("bytes"))
        while left > 0:
            left -= os.write(1, line * 100)
        self.answer(200, b"printed")

    def on_ws(self):
        key = self.headers.get("sec-websocket-key")
        if self.headers.get("upgrade", "").lower() != "websocket" or not key:
            self.answer(426, b"websocket only")
            return
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", websocket.accept(key))
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        websocket.echo(self.rfile.read, self.connection.sendall)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


for method in METHODS:
    setattr(Handler, "do_" + method, Handler.dispatch)


class Origin(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """`family` is inet or unix; `sock` is a socket that listens already."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, path=None, sock=None):
        super().__init__(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.lock = threading.Lock()
        self.connections = self.gone = self.expected = 0
        self.seen = []
        self.serials = Counter()
        self.gate = threading.Event()
        self.socket.close()
        self.socket = sock or self._listen(path)
        self.url = f"unix:{path}" if path else "http://127.0.0.1:%d" % self.port()

    def port(self):
        return self.socket.getsockname()[1] if self.socket.family == socket.AF_INET else 0

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def get_request(self):
        sock, address = self.socket.accept()
        return sock, address or ("local", 0)

    def forget(self):
        """Clears the record of requests and closes `gate`, for the next test of a class that shares this origin."""
        with self.lock:
            self.seen.clear()
            self.serials.clear()
            self.gone = self.expected = 0
        self.gate.clear()

    def last_fields(self, target):
        """The fields of the last request of `target`, by their names in lower case."""
        with self.lock:
            found = [fields for _, path, fields in self.seen if path == target][-1]
        return {name.lower(): value for name, value in found}

    def requests(self, path):
        """The targets seen that begin with `path`."""
        with self.lock:
            return [target for _, target, _ in self.seen if target.startswith(path)]

    @staticmethod
    def _listen(path):
        if path is None:
            return socket.create_server(("127.0.0.1", 0), backlog=256)
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(path))
        sock.listen(256)
        return sock


def main():
    if os.environ.get("LISTEN_FDS"):
        sock = socket.socket(fileno=3)
    else:
        sock = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=256)
    print("origin: begins", flush=True)
    Origin(sock=sock).serve_forever()


if __name__ == "__main__":
    sys.exit(main())
