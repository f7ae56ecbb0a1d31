"""A service whose every answer says which request it is for, with a checksum: over the pipe, or over HTTP on the socket that it inherits.

    GET /n/NUMBER/SIZE            NUMBER, SIZE and a checksum in the first line, then SIZE bytes
    GET /s/NUMBER/SIZE            the same in pieces, with a moment between them
    POST /p/NUMBER                the first line is about the body that came, and the body is it
"""

import os
import sys
import time
import zlib
from http.server import BaseHTTPRequestHandler
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-B", str(Path(__file__).resolve())]


def content(number, size):
    """The bytes that belong to a number."""
    piece = b"%d." % number
    return (piece * (size // len(piece) + 1))[:size]


def whole(number, data):
    return b"%d %d %d\n" % (number, len(data), zlib.crc32(data)) + data


def check(number, size, body):
    """None, or why this is not the answer."""
    data = content(number, size)
    if body == whole(number, data):
        return None
    return f"for number {number}, {size} bytes: {len(body)} bytes, beginning with {body[:60]!r}"


def pieces(body):
    for begin in range(0, len(body), 3000):
        yield body[begin : begin + 3000]
        time.sleep(0.003)


def answer(path, body):
    """The body, or an iterator over it."""
    kind, number, *rest = path.strip("/").split("?")[0].split("/")[-3:] if "/p/" not in path else ["p", path.rpartition("/")[2].split("?")[0]]
    if kind == "p":
        return whole(int(number), body)
    data = whole(int(number), content(int(number), int(rest[0])))
    return pieces(data) if kind == "s" else data


def over_the_pipe():
    sys.path.insert(0, str(ROOT / "sdk" / "python"))
    import pilotlight

    pilotlight.serve(lambda request: (200, [("cache-control", "no-store")], answer(request.target, request.body if request.method == "POST" else b"")))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536

    def address_string(self):
        return "local"

    def log_message(self, *_):
        """Quiet."""

    def do_GET(self):
        self.reply(answer(self.path, b""))

    def do_POST(self):
        self.reply(answer(self.path, self.rfile.read(int(self.headers.get("content-length", 0)))))

    def reply(self, body):
        self.send_response(200)
        self.send_header("Cache-Control", "no-store")
        if isinstance(body, bytes):
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in body:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()


def over_http():
    import socket
    import socketserver

    class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
        daemon_threads = True

        def __init__(self):
            super().__init__(("127.0.0.1", 0), Handler, bind_and_activate=False)
            self.socket.close()
            self.socket = socket.socket(fileno=3)

        def get_request(self):
            sock, address = self.socket.accept()
            return sock, address or ("local", 0)

    Server().serve_forever()


if __name__ == "__main__":
    over_http() if os.environ.get("LISTEN_FDS") else over_the_pipe()
