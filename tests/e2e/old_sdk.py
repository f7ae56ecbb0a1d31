"""A service of minor version 0: the protocol as it was before upgrades, by hand, sharing no code with an SDK."""

import os
import socket
import struct
import threading

HELLO, WELCOME, REQUEST, RESPONSE, DATA, DRAIN, MORE = 1, 2, 3, 4, 6, 12, 13
END = 0x01


def frame(kind, exchange, payload=b"", flags=0):
    return struct.pack("<IBBH", len(payload), kind, flags, exchange) + payload


def read(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def answer(exchange, payload):
    size = struct.unpack_from("<I", payload)[0]
    names = set(payload[8 : 8 + size].decode().split("\0")[7::2])
    text = ", ".join(f"{'an' if name in names else 'no'} {name}" for name in ("upgrade", "connection")).encode()
    return frame(RESPONSE, exchange, struct.pack("<IHH", 0, 200, 0) + text, END)


def serve(kind="shared", worker=None):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.environ["PILOTLIGHT_SOCKET"])
    hello = f"PIPE/1\ntoken={os.environ['PILOTLIGHT_TOKEN']}\nkind={kind}\nmax_own=64\n"
    sock.sendall(frame(HELLO, 0, (hello + ("" if worker is None else f"worker={worker}\n")).encode()))
    asked = None
    while True:
        size, kind, flags, exchange = struct.unpack("<IBBH", read(sock, 8))
        if kind not in (WELCOME, REQUEST, DATA, DRAIN, MORE) or flags & ~END:
            raise SystemExit(f"a frame of type {kind} with flags {flags:#x}, which minor version 0 does not have")
        payload = read(sock, size)
        if kind == REQUEST:
            asked = answer(exchange, payload)
        if kind in (REQUEST, DATA) and flags & END:
            sock.sendall(asked)
        if kind == MORE:
            wanted, count, worker = struct.unpack("<HHI", payload)
            for _ in range(count):
                threading.Thread(target=serve, args=({1: "own", 2: "shared"}[wanted], worker), daemon=True).start()
        if kind == DRAIN:
            os._exit(0)


serve()
