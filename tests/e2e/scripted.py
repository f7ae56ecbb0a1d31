"""Services that do exactly what a test says, byte by byte: an HTTP server in this process, and a pipe service in its own.

`with Script(handler) as script:` calls `handler(peer)` for each connection, in a thread; `peer.head()` reads a request's
head, `peer.send` writes raw bytes. `PIPE` is the command of a pipe service; its MODE is given in its environment.
"""

import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "conformance"))

import pipe1  # noqa: E402

PIPE = [sys.executable, "-B", os.path.abspath(__file__)]


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock, number):
        self.sock, self.number, self._inbox = sock, number, b""
        sock.settimeout(20)

    def head(self):
        """A request's head, or b"" at the end of the stream."""
        while b"\r\n\r\n" not in self._inbox:
            if not self._more():
                return b""
        head, _, self._inbox = self._inbox.partition(b"\r\n\r\n")
        return head

    def read(self, count):
        while len(self._inbox) < count and self._more():
            pass
        data, self._inbox = self._inbox[:count], self._inbox[count:]
        return data

    def ended(self):
        """Waits for the other side to close."""
        self._inbox = b""
        while self._more():
            self._inbox = b""
        return True

    def send(self, data):
        self.sock.sendall(data)

    def _more(self):
        try:
            data = self.sock.recv(65_536)
        except ConnectionResetError:
            data = b""
        self._inbox += data
        return bool(data)


class Script:
    def __init__(self, handler):
        self._handler, self._count = handler, 0
        self._sock = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = "http://127.0.0.1:%d" % self._sock.getsockname()[1]
        self.heads = []  # every request's head, in order
        self.connections = 0

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._sock.close()

    def _accept(self):
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(Peer(sock, self.connections),), daemon=True).start()

    def _serve(self, peer):
        whole = peer.head

        def head():
            found = whole()
            if found:
                self.heads.append(found)
            return found

        peer.head = head
        with peer.sock:
            try:
                self._handler(peer)
            except OSError:
                pass  # the gateway has gone, or this side's patience has


def answer(body, fields=b"", status=b"200 OK"):
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n%b\r\n%b" % (status, len(body), fields, body)


class Pipe:
    """A pipe service with the one fault that MODE names.

    mute        ignores MORE; exits 0.7 s after the first MORE
    lies        answers on own connections with a content-length that is wrong, in one frame
    short       the same in two frames: fewer bytes than announced
    silent      answers on own connections with half an answer, and then nothing
    once        a single own connection (max_own = 1), closed after each exchange
    own         as it should be, with a single own connection; ignores MORE while it has one
    interims    answers on own connections with as many interim responses as the path says first
    lengths     answers abc with the content-length that is the path
    deadline    takes 1 s to start, then answers with the deadline_ms that it was told
    tells       answers with what came: `shared` and the body, or `own` and the names and payloads of the frames behind REQUEST
    pieces      answers on own connections with a frame for each byte: first how many DATA frames the request's body had, and that body
    """

    def __init__(self, mode):
        self.mode, self.own_open = mode, 0

    def dial(self, **hello):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(os.environ["PILOTLIGHT_SOCKET"])
        lines = ["PIPE/1", "token=" + os.environ["PILOTLIGHT_TOKEN"]] + [f"{k}={v}" for k, v in hello.items()]
        self.put(sock, "HELLO", 0, 0, "".join(line + "\n" for line in lines).encode())
        return sock

    @staticmethod
    def put(sock, name, flags, exchange, payload):
        sock.sendall(pipe1.encode(pipe1.Frame(pipe1.TYPES[name], flags, exchange, payload)))

    @staticmethod
    def frames(sock):
        inbox = bytearray()
        while data := sock.recv(262_144):
            inbox += data
            while frame := pipe1.split(inbox):
                yield frame

    @staticmethod
    def response(status=200, fields=(), body=b""):
        head = b"".join(name + b"\0" + value + b"\0" for name, value in fields)
        return len(head).to_bytes(4, "little") + status.to_bytes(2, "little") + b"\0\0" + head + body

    def run(self):
        if self.mode == "deadline":
            time.sleep(1)
        self.shared(self.dial(exchanges=64, max_own=1 if self.mode in ("once", "mute", "own") else 8))

    def shared(self, sock):
        for frame in self.frames(sock):
            if frame.name == "REQUEST" and self.mode == "lengths":
                target = frame.payload[8:].split(b"\0")[3]
                fields = [(b"content-length", target[1:].replace(b"%20", b" "))]
                self.put(sock, "RESPONSE", pipe1.END, frame.exchange, self.response(fields=fields, body=b"abc"))
            elif frame.name == "REQUEST" and self.mode == "tells":
                body = frame.payload[8 + int.from_bytes(frame.payload[:4], "little") :]
                self.put(sock, "RESPONSE", pipe1.END, frame.exchange, self.response(body=b"shared " + body))
            elif frame.name == "REQUEST":
                told = frame.payload[4:8] if self.mode == "deadline" else b""
                body = str(int.from_bytes(told, "little")).encode()
                self.put(sock, "RESPONSE", pipe1.END, frame.exchange, self.response(body=body))
            elif frame.name == "MORE" and self.mode == "mute":
                threading.Timer(0.7, os._exit, [0]).start()
            elif frame.name == "MORE":
                worker = int.from_bytes(frame.payload[4:8], "little")
                kind = "own" if frame.payload[0] == 1 else "shared"
                if kind == "shared":
                    more = self.dial(exchanges=64, max_own=1, worker=worker)
                    threading.Thread(target=self.shared, args=(more,), daemon=True).start()
                elif self.mode != "own" or self.own_open == 0:
                    self.own_open += 1
                    threading.Thread(target=self.own, args=(worker,), daemon=True).start()
            elif frame.name == "DRAIN":
                return

    def own(self, worker):
        sock = self.dial(kind="own", worker=worker)
        body, told = [], [b"own"]
        for frame in self.frames(sock):
            if frame.name in ("DATA", "TRAILERS") and frame.payload:
                body.append(frame.payload)
                told.append(b"%b %b" % (frame.name.encode(), frame.payload))
            if frame.name == "REQUEST" and self.mode == "interims":
                interims = int(frame.payload[8:].split(b"\0")[3][1:])
            if frame.end and self.mode == "interims":
                interim = pipe1.encode(pipe1.Frame(pipe1.TYPES["INFO"], 0, frame.exchange, self.response(status=103)))
                sock.sendall(interim * interims)
                self.put(sock, "RESPONSE", pipe1.END, frame.exchange, self.response(body=b"final"))
            elif self.mode == "tells" and frame.end:
                self.put(sock, "RESPONSE", pipe1.END, frame.exchange, self.response(body=b", ".join(told)))
                told = [b"own"]
            elif frame.name in ("REQUEST", "DATA") and frame.end and self.mode == "pieces":
                self.in_pieces(sock, frame.exchange, b"%d %b" % (len(body), b"".join(body)))
                body.clear()
            elif frame.name in ("REQUEST", "DATA") and frame.end:
                self.answer(sock, frame.exchange)
                if self.mode == "once":
                    sock.close()
                    return
        self.own_open -= 1

    def in_pieces(self, sock, exchange, body):
        self.put(sock, "RESPONSE", 0, exchange, self.response())
        kind = pipe1.TYPES["DATA"]
        frames = [pipe1.encode(pipe1.Frame(kind, 0, exchange, body[at : at + 1])) for at in range(len(body))]
        sock.sendall(b"".join(frames) + pipe1.encode(pipe1.Frame(kind, pipe1.END, exchange, b"")))

    def answer(self, sock, exchange):
        if self.mode == "lies":
            self.put(sock, "RESPONSE", pipe1.END, exchange, self.response(200, [(b"content-length", b"3")], b"abcdefgh"))
        elif self.mode == "silent":
            self.put(sock, "RESPONSE", 0, exchange, self.response(200, [(b"content-length", b"8")], b"half"))
        elif self.mode == "short":
            fields = [(b"content-length", b"8"), (b"cache-control", b"max-age=60")]
            self.put(sock, "RESPONSE", 0, exchange, self.response(200, fields, b"abc"))
            self.put(sock, "DATA", pipe1.END, exchange, b"de")
        else:
            self.put(sock, "RESPONSE", pipe1.END, exchange, self.response(200, (), b"own"))


if __name__ == "__main__":
    Pipe(os.environ["MODE"]).run()
