"""HTTP/1.1 as a client sees it on the socket: field order, repetition, chunk boundaries and cut answers stay visible."""

import socket
import time

LINE_LIMIT = 1 << 20


class Cut(Exception):
    """The connection ended before the answer was complete (RFC 9112 §8)."""


class Answer:
    def __init__(self, version, status, reason, fields):
        self.version = version
        self.status = status
        self.reason = reason
        self.fields = fields  # (name, value) as received, in order
        self.body = b""
        self.trailers = []
        self.chunks = 0  # in which the body came
        self.interim = []  # 1xx answers that came before

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def get(self, name, default=None):
        values = self.all(name)
        return values[0] if values else default

    def __repr__(self):
        return f"<{self.status} {self.reason} {self.fields} {self.body[:300]!r}>"


class Client:
    """One connection. Every wait ends `timeout` seconds after it began."""

    def __init__(self, address, timeout=20.0):
        self._sock = socket.create_connection(address, timeout=timeout)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timeout = timeout
        self._inbox = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._sock.close()

    def send(self, data):
        self._sock.sendall(data)

    def shut(self):
        """Ends this side's direction."""
        self._sock.shutdown(socket.SHUT_WR)

    def send_head(self, method, target, fields=(), host="demo.test"):
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"] if host else [f"{method} {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields]
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    def send_chunk(self, data):
        self.send(b"%x\r\n%b\r\n" % (len(data), data) if data else b"")

    def end_chunks(self, trailers=()):
        fields = "".join(f"{name}: {value}\r\n" for name, value in trailers)
        self.send(b"0\r\n" + fields.encode("latin-1") + b"\r\n")

    def request(self, method, target, fields=(), body=None, host="demo.test"):
        """Sends a whole request and reads the whole answer."""
        fields = list(fields)
        if body is not None:
            fields.append(("Content-Length", str(len(body))))
        self.send_head(method, target, fields, host)
        if body:
            self.send(body)
        return self.answer(method)

    def answer(self, method="GET"):
        """A whole answer."""
        answer = self.head()
        answer.body = b"".join(self.body(answer, method))
        return answer

    def head(self):
        """The head of the next final answer; its body is still to be read."""
        interim = []
        while True:
            answer = self._head()
            if answer.status >= 200 or answer.status == 101:
                answer.interim = interim
                return answer
            interim.append(answer)

    def body(self, answer, method="GET"):
        """The body's pieces as they arrive."""
        if method == "HEAD" or answer.status in (204, 304) or answer.status < 200:
            return
        if "chunked" in answer.get("transfer-encoding", "").lower():
            yield from self._chunks(answer)
        elif answer.get("content-length") is not None:
            yield from self._sized(int(answer.get("content-length")))
        else:
            yield from self._until_end()

    def read(self, count):
        """Exactly `count` raw bytes (after an upgrade)."""
        while len(self._inbox) < count:
            self._more()
        data = bytes(self._inbox[:count])
        del self._inbox[:count]
        return data

    def ended(self):
        """True when the server closes, False when it sends something, within the timeout."""
        try:
            self._more()
        except Cut:
            return True
        return False

    def _head(self):
        start = self._line()
        version, _, rest = start.partition(" ")
        status, _, reason = rest.partition(" ")
        if not version.startswith("HTTP/1.") or not status.isdigit():
            raise ValueError(f"not a status line: {start!r}")
        return Answer(version, int(status), reason, self._fields())

    def _fields(self):
        fields = []
        while line := self._line():
            name, colon, value = line.partition(":")
            if not colon:
                raise ValueError(f"not a field: {line!r}")
            fields.append((name, value.strip(" \t")))
        return fields

    def _chunks(self, answer):
        while size := int(self._line().partition(";")[0], 16):
            answer.chunks += 1
            yield from self._sized(size)
            if self.read(2) != b"\r\n":
                raise ValueError("a chunk does not end with CR LF")
        answer.trailers = self._fields()

    def _sized(self, left):
        while left:
            if not self._inbox:
                self._more()
            piece = bytes(self._inbox[:left])
            del self._inbox[: len(piece)]
            left -= len(piece)
            yield piece

    def _until_end(self):
        while True:
            if self._inbox:
                piece = bytes(self._inbox)
                self._inbox.clear()
                yield piece
            try:
                self._more()
            except Cut:
                return

    def _line(self):
        while (end := self._inbox.find(b"\r\n")) < 0:
            if len(self._inbox) > LINE_LIMIT:
                raise ValueError("a line without end")
            self._more()
        line = self._inbox[:end].decode("latin-1")
        del self._inbox[: end + 2]
        return line

    def _more(self):
        try:
            data = self._sock.recv(262_144)
        except ConnectionResetError:
            data = b""
        except socket.timeout:
            raise TimeoutError(f"nothing came for {self._timeout:g} s") from None
        if not data:
            raise Cut(f"the connection ended; not taken yet: {bytes(self._inbox[:200])!r}")
        self._inbox += data


def eventually(check, limit=10.0, pause=0.02):
    """Calls `check` until it returns something true; returns that, or its last result at the limit."""
    deadline = time.monotonic() + limit
    while True:
        result = check()
        if result or time.monotonic() > deadline:
            return result
        time.sleep(pause)
