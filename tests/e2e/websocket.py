"""RFC 6455, the little of it that an echo needs: real frames, masked by the client."""

import base64
import hashlib
import os
import struct

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def accept(key):
    """RFC 6455 §4.2.2: the answer to a Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()


def frame(opcode, payload, masked):
    """RFC 6455 §5.2: one final frame."""
    length = len(payload)
    if length < 126:
        head = struct.pack(">BB", 0x80 | opcode, length | masked << 7)
    elif length < 65_536:
        head = struct.pack(">BBH", 0x80 | opcode, 126 | masked << 7, length)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 127 | masked << 7, length)
    if not masked:
        return head + payload
    key = os.urandom(4)
    return head + key + _mask(payload, key)


def read_frame(read):
    """(opcode, payload); `read(n)` gives exactly n bytes."""
    first, second = read(2)
    length = second & 0x7F
    if length == 126:
        (length,) = struct.unpack(">H", read(2))
    elif length == 127:
        (length,) = struct.unpack(">Q", read(8))
    if not second & 0x80:
        return first & 0x0F, read(length)
    key = read(4)
    return first & 0x0F, _mask(read(length), key)


def echo(read, send):
    """The server: answers every message with itself until the client closes."""
    while True:
        opcode, payload = read_frame(read)
        if opcode == CLOSE:
            send(frame(CLOSE, payload, masked=False))
            return
        send(frame(PONG if opcode == PING else opcode, payload, masked=False))


class Client:
    """Upgrades an `http1.Client` and speaks frames over it."""

    def __init__(self, client, target):
        key = base64.b64encode(os.urandom(16)).decode()
        fields = [("Upgrade", "websocket"), ("Connection", "Upgrade"),
                  ("Sec-WebSocket-Key", key), ("Sec-WebSocket-Version", "13")]  # fmt: skip
        client.send_head("GET", target, fields)
        self.answer = client.head()
        if self.answer.status != 101:
            raise ValueError(f"no upgrade: {self.answer}")
        if self.answer.get("sec-websocket-accept") != accept(key):
            raise ValueError("Sec-WebSocket-Accept does not fit the key")
        self._client = client

    def send(self, opcode, payload):
        self._client.send(frame(opcode, payload, masked=True))

    def receive(self):
        return read_frame(self._client.read)


def _mask(payload, key):
    repeated = key * (len(payload) // 4 + 1)
    number = int.from_bytes(payload, "big") ^ int.from_bytes(repeated[: len(payload)], "big")
    return number.to_bytes(len(payload), "big")
