"""Pipe/1 on the wire, written from docs/spec/pipe.md alone and sharing no code with any SDK or the gateway.

Owns the bytes of frames and of their payloads. Knows no sockets and no states.
"""

import struct
from typing import NamedTuple

MAX_FRAME = 65_536
MAX_TEXT = 4_096
END = 0x01
UPGRADE = 0x02
IGNORABLE = 0x80

TYPES = {
    "HELLO": 1, "WELCOME": 2, "REQUEST": 3, "RESPONSE": 4, "INFO": 5, "DATA": 6, "TRAILERS": 7,
    "STOP": 8, "RESET": 9, "PING": 10, "PONG": 11, "DRAIN": 12, "MORE": 13, "LOG": 14,
}  # fmt: skip
NAMES = {number: name for name, number in TYPES.items()}
CODES = {"CANCELLED": 1, "DEADLINE": 2, "REFUSED": 3, "OVERLOADED": 4, "INTERNAL": 5, "PROTOCOL": 6, "TOO_LARGE": 7}
CODE_NAMES = {number: name for name, number in CODES.items()}
KINDS = {"own": 1, "shared": 2}
REQUEST_STRINGS = ("method", "scheme", "authority", "target", "protocol", "peer", "id")
MUST_NOT_CROSS = {
    b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding", b"upgrade", b"expect", b"host",
}  # fmt: skip

HEADER = struct.Struct("<IBBH")
HEADER_LEN = HEADER.size
_REQUEST = struct.Struct("<II")
_RESPONSE = struct.Struct("<IHH")
_RESET = struct.Struct("<HHI")
_MORE = struct.Struct("<HHI")


class ProtocolError(Exception):
    """The peer broke a numbered rule of the specification."""

    def __init__(self, rule, text):
        super().__init__(f"{rule}: {text}")
        self.rule = rule


class Frame(NamedTuple):
    type: int
    flags: int
    exchange: int
    payload: bytes

    @property
    def name(self):
        return NAMES.get(self.type, f"type {self.type}")

    @property
    def end(self):
        return bool(self.flags & END)

    @property
    def upgrade(self):
        return bool(self.flags & UPGRADE)

    def __str__(self):
        flags = " END" if self.end else ""
        flags += " UPGRADE" if self.upgrade else ""
        extra = f" flags={self.flags:#04x}" if self.flags & ~(END | UPGRADE) else ""
        shown = repr(self.payload[:200]) + ("…" if len(self.payload) > 200 else "")
        return f"{self.name} {self.exchange}{flags}{extra} [{len(self.payload)}] {shown}"


def encode(frame):
    """The bytes of one frame."""
    return HEADER.pack(len(frame.payload), frame.type, frame.flags, frame.exchange) + frame.payload


def split(buffer, max_frame=MAX_FRAME):
    """Takes one whole frame off the front of the bytearray, or returns None when more bytes are needed."""
    if len(buffer) < HEADER_LEN:
        return None
    length, kind, flags, exchange = HEADER.unpack_from(buffer)
    if length > max_frame:  # P-6: before any memory is sized by it
        raise ProtocolError("P-6", f"{NAMES.get(kind, kind)} announces {length} bytes, the limit is {max_frame}")
    if len(buffer) < HEADER_LEN + length:
        return None
    payload = bytes(buffer[HEADER_LEN : HEADER_LEN + length])
    del buffer[: HEADER_LEN + length]
    return Frame(kind, flags, exchange, payload)


def join_strings(strings):
    return b"".join(text + b"\0" for text in strings)


def split_strings(block):
    if block and not block.endswith(b"\0"):
        raise ProtocolError("P-8", "the last string has no zero byte")
    return block.split(b"\0")[:-1]


def pair(strings, crossing=frozenset()):
    """Pairs of name and value; `crossing` are exceptions from P-9."""
    if len(strings) % 2:
        raise ProtocolError("P-8", f"odd number of strings ({len(strings)})")
    fields = list(zip(strings[::2], strings[1::2]))
    for name, value in fields:
        if not name or name != name.lower():
            raise ProtocolError("P-8", f"field name {name!r} is not in lower case")
        if b"\r" in name + value or b"\n" in name + value:
            raise ProtocolError("P-8", f"field {name!r} holds CR or LF")
        if name in MUST_NOT_CROSS - crossing:
            raise ProtocolError("P-9", f"field {name!r} must not cross the pipe")
    return fields


def flatten(fields):
    return join_strings(text for field in fields for text in field)


def encode_request(strings, deadline_ms, fields, body):
    block = join_strings(strings) + flatten(fields)
    return _REQUEST.pack(len(block), deadline_ms) + block + body


def decode_request(payload, crossing=frozenset()):
    """(strings by name, deadline_ms, fields, body)"""
    if len(payload) < _REQUEST.size:
        raise ProtocolError("P-8", "request head is cut short")
    length, deadline_ms = _REQUEST.unpack_from(payload)
    block, body = _take_block(payload, _REQUEST.size, length)
    strings = split_strings(block)
    if len(strings) < len(REQUEST_STRINGS):
        raise ProtocolError("P-8", f"request head has {len(strings)} strings, needs {len(REQUEST_STRINGS)}")
    count = len(REQUEST_STRINGS)
    return dict(zip(REQUEST_STRINGS, strings)), deadline_ms, pair(strings[count:], crossing), body


def encode_response(status, fields, body):
    block = flatten(fields)
    return _RESPONSE.pack(len(block), status, 0) + block + body


def decode_response(payload, crossing=frozenset()):
    """(status, fields, body)"""
    if len(payload) < _RESPONSE.size:
        raise ProtocolError("P-8", "response head is cut short")
    length, status, _ = _RESPONSE.unpack_from(payload)
    block, body = _take_block(payload, _RESPONSE.size, length)
    return status, pair(split_strings(block), crossing), body


def decode_fields(payload):
    return pair(split_strings(payload))


def encode_text(lines):
    """HELLO and WELCOME: a version line and key=value lines."""
    return b"".join(line + b"\n" for line in lines)


def decode_text(payload):
    """(version, values by key)"""
    if len(payload) > MAX_TEXT:
        raise ProtocolError("P-6", f"{len(payload)} bytes of text, the limit is {MAX_TEXT}")
    if not payload.endswith(b"\n"):
        raise ProtocolError("P-12", "the last line has no LF")
    version, *lines = payload[:-1].split(b"\n")
    values = {}
    for line in lines:
        key, equals, value = line.partition(b"=")
        if not equals:
            raise ProtocolError("P-12", f"line {line!r} is not key=value")
        values[key.decode()] = value
    return version, values


def encode_reset(code, retry_after_ms=0, text=b""):
    return _RESET.pack(code, 0, retry_after_ms) + text


def decode_reset(payload):
    """(code, retry_after_ms, text)"""
    if len(payload) < _RESET.size:
        raise ProtocolError("P-8", "RESET is shorter than 8 bytes")
    code, _, retry_after_ms = _RESET.unpack_from(payload)
    return code, retry_after_ms, payload[_RESET.size :]


def encode_more(kind, count, worker):
    return _MORE.pack(kind, count, worker)


def decode_more(payload):
    """(kind, count, worker)"""
    if len(payload) != _MORE.size:
        raise ProtocolError("P-11", f"MORE has {len(payload)} bytes, needs {_MORE.size}")
    return _MORE.unpack(payload)


def _take_block(payload, start, length):
    if length > len(payload) - start:
        raise ProtocolError("P-8", f"head_length {length} is larger than the payload ({len(payload) - start} left)")
    return payload[start : start + length], payload[start + length :]
