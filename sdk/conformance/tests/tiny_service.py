"""A service on shared connections, right by default and wrong in one way on request: `tiny_service.py [FAULT]`.

The suite is tested with it: each fault must be found by a transcript.
"""

import os
import select
import signal
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pipe1  # noqa: E402
from pipe1 import END, TYPES, Frame, ProtocolError  # noqa: E402

FAULT = sys.argv[1] if len(sys.argv) > 1 else None
BUFFERS = {}  # received bytes by socket, in the order in which the sockets were opened


def main():
    dial(0 if FAULT == "names-a-worker" else None)
    while BUFFERS:
        for sock in select.select(list(BUFFERS), [], [])[0]:
            if not read(sock):
                del BUFFERS[sock]
                sock.close()
    if FAULT == "stays-alive":
        signal.pause()


def dial(worker):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.environ["PILOTLIGHT_SOCKET"])
    lines = [b"PIPE/1", b"token=" + os.environ["PILOTLIGHT_TOKEN"].encode()]
    lines += [] if worker is None else [b"worker=%d" % worker]
    if FAULT == "ping-before-hello":
        send(sock, "PING", 0, 0, b"too soon")
    send(sock, "HELLO", 0, 0, pipe1.encode_text(lines))
    BUFFERS[sock] = bytearray()


def read(sock):
    """Handles what has come; returns whether the connection stays open."""
    data, buffer = sock.recv(65_536), BUFFERS[sock]
    buffer += data
    try:
        while frame := split(buffer):
            handle(sock, frame)
    except ProtocolError as error:
        text = b"something is wrong" if FAULT == "names-no-rule" else str(error).encode()
        send(sock, "RESET", 0, 0, pipe1.encode_reset(6, 0, text))
        if FAULT == "dies-of-an-error":
            sys.exit(1)
        return FAULT == "stays-open"
    return bool(data)


def split(buffer):
    return pipe1.split(buffer, 1 << 40 if FAULT == "no-frame-limit" else pipe1.MAX_FRAME)


def handle(sock, frame):
    if frame.name == "PING":
        send(sock, "PONG", 0, 0, b"\0" * 8 if FAULT == "wrong-pong" else frame.payload)
    elif frame.name == "REQUEST":
        request(sock, frame)
    elif frame.name == "MORE":
        dial(None if FAULT == "forgets-workers" else pipe1.decode_more(frame.payload)[2])
    elif frame.type not in pipe1.NAMES and (not frame.flags & pipe1.IGNORABLE or FAULT == "ignores-nothing"):
        raise ProtocolError("P-7", "unknown type")
    elif frame.name not in ("WELCOME", "RESET") and frame.type in pipe1.NAMES:
        raise ProtocolError("P-11", frame.name)


def request(sock, frame):
    strings, _, fields, body = pipe1.decode_request(frame.payload)
    if frame.exchange == 0:
        raise ProtocolError("P-15", "exchange 0")
    status = int(strings["target"].partition(b"code=")[2] or 200)
    echoed = [field for field in fields if field[0].startswith(b"x-echo-") or field[0] == b"content-type"]
    echoed += [(b"x-method", strings["method"]), (b"x-target", strings["target"])]
    if FAULT == "drops-duplicates":
        echoed = list(dict(echoed).items())
    if FAULT == "upper-case":
        echoed = [(name.upper(), value) for name, value in echoed]
    flags = 0 if FAULT == "forgets-end" else END | (0x40 if FAULT == "unknown-flags" else 0)
    exchange = frame.exchange + 1 if FAULT == "wrong-exchange" else frame.exchange
    send(sock, "RESPONSE", flags, exchange, pipe1.encode_response(status, echoed, body))
    if FAULT == "two-answers":
        send(sock, "RESPONSE", flags, exchange, pipe1.encode_response(status, echoed, body))


def send(sock, name, flags, exchange, payload):
    sock.sendall(pipe1.encode(Frame(TYPES[name], flags, exchange, payload)))


if __name__ == "__main__":
    main()
