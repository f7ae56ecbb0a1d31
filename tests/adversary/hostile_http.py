"""An HTTP service that answers with garbage: `garbage(chance, target)` makes the bytes, from the seed in the target alone."""

import os
import random
import socket
import sys
import threading
import time
from pathlib import Path

COMMAND = [sys.executable, "-B", str(Path(__file__).resolve())]
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncache-control: max-age=60\r\n\r\nhello"
GOOD = (
    PLAIN,
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n5;a=b\r\nworld\r\n0\r\nx: y\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nhello",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
)
BAD = (
    b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ncontent-length: 5x\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nhello",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhelloworld\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 099 X\r\n\r\n", b"HTTP/1.1 1000 X\r\n\r\n", b"HTTP/1.1 600 X\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 abc X\r\n\r\n", b"HTTP/2.0 200 OK\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: evil\r\nconnection: upgrade\r\n\r\n" + b"\0" * 100,
    b"\r\n\r\n\r\n" + PLAIN, b"\0" * 200, b"", b"\x16\x03\x01\x00\x00", b"hello\r\n\r\n", b"HTTP/1.1 200 OK",
    b"HTTP/1.1 200 OK\r\nx y: 1\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\n : 1\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: a\rb\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: \x1b[31m\xff\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 O\x1bK\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello",
    b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 5000 + b"\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000 + b"\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 500 + PLAIN, b"HTTP/1.1 103 Early Hints\r\nx: " + b"y" * 60_000 + b"\r\n\r\n" + PLAIN,
    PLAIN + PLAIN, PLAIN + b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", b"x" * 1_000_000,
)  # fmt: skip
SLOW = ("silent", "half", "drip", "stall", "endless")


def garbage(chance):
    """Bytes in place of an answer."""
    way = chance.randrange(4)
    if way == 0:
        return chance.choice(BAD)
    data = bytearray(chance.choice(GOOD + BAD[:20]))
    if way == 1:
        return bytes(data[: chance.randrange(len(data) + 1)])
    for _ in range(chance.randrange(1, 6)):
        if not data:
            break
        place = chance.randrange(len(data))
        act = chance.randrange(4)
        if act == 0:
            data[place] ^= 1 << chance.randrange(8)
        elif act == 1:
            del data[place : place + chance.randrange(1, 4)]
        elif act == 2:
            data[place:place] = chance.choice((b"\r", b"\n", b"\r\n", b"\0", b" ", b":", b";", b"\x85", chance.randbytes(3)))
        else:
            end = min(len(data), place + chance.randrange(1, 30))
            data[place:place] = data[place:end]
    return bytes(data)


def serve(peer):
    with peer:
        peer.settimeout(20)
        inbox = b""
        while True:
            while b"\r\n\r\n" not in inbox:
                data = peer.recv(65_536)
                if not data:
                    return
                inbox += data
            head, _, inbox = inbox.partition(b"\r\n\r\n")
            kind, seed = head.split(b" ")[1].decode().strip("/").split("/")[-2:]
            chance = random.Random(seed)
            if kind == "ok":
                peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            elif kind == "slow":
                slow(peer, chance.choice(SLOW))
                return
            else:
                peer.sendall(garbage(chance))
                if chance.random() < 0.5:
                    return


def slow(peer, how):
    if how == "half":
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-le")
    elif how == "stall":
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    elif how == "endless":
        peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(300):
            peer.sendall(b"e" * 65_536)
        return
    elif how == "drip":
        for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok":
            peer.sendall(bytes([byte]))
            time.sleep(0.005)
        return
    while peer.recv(65_536):
        pass


def main():
    listener = socket.socket(fileno=3)
    while True:
        peer, _ = listener.accept()

        def quietly(sock=peer):
            try:
                serve(sock)
            except OSError:
                pass  # the gateway has had enough

        threading.Thread(target=quietly, daemon=True).start()


if __name__ == "__main__":
    os.environ.get("LISTEN_FDS") and main()
