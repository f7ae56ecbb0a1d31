"""A Pipe/1 service by hand: dials, says HELLO, does what MORE and DRAIN ask, and what its arguments say."""

import os
import select
import socket
import struct
import sys
import time

HELLO, WELCOME, RESET, DRAIN, MORE = 1, 2, 9, 12, 13


def frame(kind, payload=b""):
    return struct.pack("<IBBH", len(payload), kind, 0, 0) + payload


def dial(kind="shared", worker=None, token=None):
    lines = ["PIPE/1", "token=" + (token or os.environ["PILOTLIGHT_TOKEN"]), "kind=" + kind]
    if worker is not None:
        lines.append(f"worker={worker}")
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["PILOTLIGHT_SOCKET"])
    connection.sendall(frame(HELLO, ("\n".join(lines) + "\n").encode()))
    return connection


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            return None
        data += part
    return data


def read_frame(connection):
    header = read_exactly(connection, 8)
    if header is None:
        return None, b""
    length, kind, _flags, _exchange = struct.unpack("<IBBH", header)
    return kind, read_exactly(connection, length)


def serve(options):
    time.sleep(sum(float(option[6:]) for option in options if option.startswith("delay=")))
    connections = [dial()]
    while connections:
        for connection in select.select(connections, [], [])[0]:
            kind, payload = read_frame(connection)
            if kind is None:
                connections.remove(connection)
            elif kind == WELCOME and b"worker=" in payload:
                print("welcome", flush=True)
            elif kind == MORE:
                _kind, count, worker = struct.unpack("<HHI", payload)
                connections += [dial("shared", worker) for _ in range(count)]
            elif kind == DRAIN and "ignore-drain" not in options:
                print("drained", flush=True)
                return
    if "stay" in options:
        print("alone", flush=True)
        select.select([], [], [])


def break_rules():
    """Prints what the gateway says to connections that break a rule of §2 or §4, and how it welcomes good ones."""
    def answer(*arguments):
        kind, payload = read_frame(dial(*arguments))
        print(payload[8:].decode() if kind == RESET else "welcome", flush=True)

    answer("own", 0)  # before the first shared one
    answer("shared", 0)
    first = dial()
    read_frame(first)
    answer("shared")
    answer("own", 1000)
    answer("own", 1)
    answer("answer", 0)
    select.select([], [], [])


break_rules() if "break-rules" in sys.argv else serve(sys.argv[1:])
