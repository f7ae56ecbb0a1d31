"""Requests that never repeat, faster than one by one; and as a program, the origin that answers them.

    flood.py    listens on a free port, prints it, and answers every GET with a response that may be stored; the number at the end of
                the target is the length of its body
"""

import selectors
import socket
import subprocess
import sys
from contextlib import ExitStack
from itertools import islice

CONNECTIONS = 16
DEPTH = 16
FIELDS = "content-type: application/json\r\ncache-control: public, max-age=36000\r\nserver: flood\r\n"
BLOCK = b"x" * 65_536
END = b"\r\n\r\n"


def ask(address, targets):
    """Asks for all of them, several at once, and returns how many answers were right: 200, and as long as the target says."""
    right, targets = 0, iter(targets)
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(CONNECTIONS)]
        while True:
            batches = [list(islice(targets, DEPTH)) for _ in clients]
            for client, batch in zip(clients, batches, strict=True):
                client.sendall(b"".join(b"GET %s HTTP/1.1\r\nhost: flood.test\r\n\r\n" % target.encode() for target in batch))
            for client, batch in zip(clients, batches, strict=True):
                data = b""
                for target in batch:
                    while (end := data.find(END)) < 0:
                        data += receive(client)
                    length = int(target.rpartition("/")[2])
                    head, data = data[:end], data[end + 4 :]
                    while len(data) < length:
                        data += receive(client)
                    right += head.startswith(b"HTTP/1.1 200 ") and b"\r\ncontent-length: %d" % length in head
                    data = data[length:]
            if not batches[-1]:
                return right


def receive(client):
    data = client.recv(262_144)
    if not data:
        raise ConnectionError("the gateway closed a connection")
    return data


class Origin:
    """`with Origin() as origin: origin.url`"""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-B", __file__], stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def serve():
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener, selectors.DefaultSelector() as selector:
        print(listener.getsockname()[1], flush=True)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                elif not answer(key.fileobj):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


def answer(connection):
    """One request at a time comes from a gateway, in one piece."""
    request = connection.recv(65_536)
    if request:
        length = int(request.partition(b" HTTP/")[0].rpartition(b"/")[2])
        connection.sendall(f"HTTP/1.1 200 OK\r\n{FIELDS}content-length: {length}\r\n\r\n".encode() + BLOCK[:length])
    return bool(request)


if __name__ == "__main__":
    serve()
