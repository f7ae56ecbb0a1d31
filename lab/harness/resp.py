"""As much of the Redis protocol as the benchmark itself needs."""
import socket

from .program import Failed

TIMEOUT_SECONDS = 20


def encode(*words):
    """One command."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class Connection:
    """A blocking connection to one node."""

    def __init__(self, port):
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        self.input = self.socket.makefile("rb")

    def close(self):
        self.input.close()
        self.socket.close()

    def send(self, *words):
        self.socket.sendall(encode(*words))

    def receive(self):
        """The next reply: a simple string, an integer or a bulk string, as text."""
        line = self.input.readline().decode().rstrip("\r\n")
        kind, rest = line[:1], line[1:]
        if kind in ("+", ":"):
            return rest
        if kind == "$" and rest != "-1":
            return self.input.read(int(rest) + 2)[:-2].decode()
        raise Failed(f"the server on port {self.port} answered {line or 'nothing'}")

    def command(self, *words):
        self.send(*words)
        return self.receive()
