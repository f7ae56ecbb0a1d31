"""Frames of WebSocket (RFC 6455), as a server reads and writes them; no sockets."""

from _struct import Struct
from base64 import b64decode, b64encode
from hashlib import sha1

from ._core import native

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN, RESERVED, OPCODE, MASKED, LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
SHORT, MAX_CONTROL = 125, 125
NORMAL, GOING_AWAY, PROTOCOL, NO_CODE = 1000, 1001, 1002, 1005
ABNORMAL, NOT_TEXT, TOO_BIG, INTERNAL = 1006, 1007, 1009, 1011
CLOSE_SECONDS = 2.0  # for the client's half of a closing handshake
U16, U64 = Struct(">H"), Struct(">Q")


class Broken(Exception):
    """The client broke a rule; the code says which kind."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Decoder:
    """Bytes of a client in, messages and control frames out. Of a message, `max_message` bytes are held."""

    def __init__(self, max_message):
        self._max, self._buffer, self._kind, self._pieces, self._size = max_message, bytearray(), None, [], 0

    def feed(self, data):
        self._buffer += data

    def next(self):
        """The opcode and payload of the next message or control frame, a text as str; None: it is not whole yet."""
        while frame := self._frame():
            first, opcode, payload = frame
            if opcode >= CLOSE:
                return opcode, payload
            self._pieces.append(payload)
            if first & FIN:
                kind, data = self._kind, b"".join(self._pieces)
                self._kind, self._pieces, self._size = None, [], 0
                return kind, text(data) if kind == TEXT else data
        return None

    def _frame(self):
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        opcode, length, at = first & OPCODE, second & LENGTH, 2
        check(not first & RESERVED, "a reserved bit is set")
        check(second & MASKED, "a frame is not masked")
        if length > SHORT:
            number = U16 if length == SHORT + 1 else U64
            if len(buffer) < at + number.size:
                return None
            length, at = number.unpack_from(buffer, at)[0], at + number.size
        self._allow(first, opcode, length)
        end = at + 4 + length
        if len(buffer) < end:
            return None
        if opcode < CLOSE:
            self._kind, self._size = self._kind or opcode, self._size + length
        payload = unmasked(bytes(buffer[at : at + 4]), bytes(buffer[at + 4 : end]))
        del buffer[:end]
        return first, opcode, payload

    def _allow(self, first, opcode, length):
        if opcode >= CLOSE:
            check(first & FIN and length <= MAX_CONTROL, "a control frame is fragmented or too long")
            check(opcode <= PONG, f"the opcode {opcode} is reserved")
            return
        continues = self._kind is not None
        check((opcode == CONTINUATION) == continues, "a fragment without its message, or the reverse")
        check(opcode <= BINARY, f"the opcode {opcode} is reserved")
        if self._size + length > self._max:
            raise Broken(TOO_BIG, f"a message of more than {self._max} bytes")


def unmasked(mask, data):
    if native:
        return native.unmasked(mask, data)
    length = len(data)
    if not length or not any(mask):
        return bytes(data)
    repeated = bytes(mask) * (length // 4 + 1)
    number = int.from_bytes(data, "little") ^ int.from_bytes(repeated[:length], "little")
    return number.to_bytes(length, "little")


def encoded(opcode, data):
    """A frame of a server: whole, not masked."""
    size = len(data)
    if size <= SHORT:
        return bytes((FIN | opcode, size)) + data
    if size < 1 << 16:
        return bytes((FIN | opcode, SHORT + 1)) + U16.pack(size) + data
    return bytes((FIN | opcode, SHORT + 2)) + U64.pack(size) + data


def close_payload(code, reason=""):
    """Of a Close; without a code it is empty."""
    return U16.pack(code) + reason.encode()[: MAX_CONTROL - 2].decode("utf-8", "ignore").encode() if code else b""


def close_of(payload):
    """Code and reason of a Close (RFC 6455 §5.5.1, §7.4)."""
    if not payload:
        return NO_CODE, ""
    check(len(payload) >= 2, "a Close with one byte")
    code = U16.unpack_from(payload)[0]
    check(1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999, f"the code {code} in a Close")
    return code, text(payload[2:])


def is_key(key):
    """Whether a handshake's key is 16 bytes in base64."""
    try:
        return len(b64decode(key, validate=True)) == 16
    except ValueError:
        return False


def accept(key):
    """The answer to a handshake's key (RFC 6455 §4.2.2)."""
    return b64encode(sha1(key + GUID).digest())


def check(condition, text):
    if not condition:
        raise Broken(PROTOCOL, text)


def text(data):
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise Broken(NOT_TEXT, "a text is not UTF-8") from None
