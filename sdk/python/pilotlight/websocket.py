"""WebSocket (RFC 6455) for handlers, over the connection that `request.upgrade` gives.

    from pilotlight import websocket

    def handle(request):
        if not websocket.is_offered(request):
            return websocket.REQUIRED
        with websocket.accept(request) as socket:
            for message in socket:  # str or bytes
                socket.send(message)

Pings are answered and fragments joined; there are no extensions. A client that breaks a rule is told by the code of
RFC 6455 §7.4.1. When the instance is to end, its clients get a Close with 1001. Of a message that comes, `max_message`
bytes are held; one thread at a time may receive, any number send.
"""

from _socket import timeout
from _struct import Struct
from _thread import allocate_lock
from base64 import b64decode, b64encode
from hashlib import sha1

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN, RESERVED, OPCODE, MASKED, LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
SHORT, MAX_CONTROL, READ_BYTES = 125, 125, 65_536
NORMAL, GOING_AWAY, PROTOCOL, NO_CODE = 1000, 1001, 1002, 1005
ABNORMAL, NOT_TEXT, TOO_BIG, INTERNAL = 1006, 1007, 1009, 1011
CLOSE_SECONDS = 2.0  # for the client's half of a closing handshake
U16, U64 = Struct(">H"), Struct(">Q")
REQUIRED = 426, [("upgrade", "websocket"), ("sec-websocket-version", "13")], "this is a WebSocket\n"


class Closed(ConnectionError):
    """The WebSocket is closed; `code` and `reason` are the client's (1005: it gave none, 1006: it went without)."""

    def __init__(self, code, reason=""):
        super().__init__(f"{code} {reason}".rstrip())
        self.code, self.reason = code, reason


class Broken(Exception):
    """The client broke a rule; the code says which kind."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def is_offered(request):
    """Whether the request is a handshake (RFC 6455 §4.2.1) that may be accepted."""
    version = request.headers.get("sec-websocket-version")
    return "websocket" in request.offers and version == "13" and bool(_key(request))


def accept(request, subprotocol=None, headers=(), max_message=16 << 20):
    """Answers the handshake; `subprotocol` is one of those in the request's Sec-WebSocket-Protocol, or None."""
    answer = b64encode(sha1(_key(request) + GUID).digest()).decode()
    fields = [("sec-websocket-accept", answer), *(headers.items() if isinstance(headers, dict) else headers)]
    fields += [("sec-websocket-protocol", subprotocol)] if subprotocol else []
    socket = WebSocket(max_message)
    socket._socket = request.upgrade("websocket", fields, on_drain=socket._go_away)
    return socket


class WebSocket:
    """An open WebSocket: iterate over it, or `recv`, `send`, `close`. A context manager closes it at its end."""

    def __init__(self, max_message):
        self._socket, self._max, self._buffer, self._sending = None, max_message, bytearray(), allocate_lock()
        self._said_close, self._closed = False, None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(INTERNAL if kind else NORMAL)

    def __iter__(self):
        """Messages until the client closes."""
        try:
            while True:
                yield self.recv()
        except Closed:
            return

    def recv(self):
        """The next message, str or bytes. Raises Closed, and socket.timeout by the socket's own."""
        if self._closed:
            raise self._closed
        try:
            return self._message()
        except Broken as broken:
            self._say_close(broken.code, str(broken))
            raise self._end(broken.code, str(broken)) from None
        except timeout:
            raise
        except OSError:
            raise self._end(ABNORMAL) from None

    def send(self, message):
        """Sends a str as text, and bytes as binary. Raises Closed."""
        data, kind = (message.encode(), TEXT) if isinstance(message, str) else (bytes(message), BINARY)
        self._send(kind, data)

    def close(self, code=NORMAL, reason=""):
        """The closing handshake; messages that still come are thrown away. Does nothing if it is closed."""
        if self._closed:
            return
        self._say_close(code, reason)
        self._socket.settimeout(CLOSE_SECONDS)
        try:
            while True:
                self.recv()
        except OSError:
            self._end(ABNORMAL)

    def _message(self):
        kind, pieces, size = None, [], 0
        while True:
            first, second = self._take(2)
            opcode, length = first & OPCODE, second & LENGTH
            _check(not first & RESERVED, "a reserved bit is set")
            _check(second & MASKED, "a frame is not masked")
            if length > SHORT:
                length = U16.unpack(self._take(2))[0] if length == SHORT + 1 else U64.unpack(self._take(8))[0]
            if opcode >= CLOSE:
                _check(first & FIN and length <= MAX_CONTROL, "a control frame is fragmented or too long")
                self._control(opcode, self._payload(length))
                continue
            _check((opcode == CONTINUATION) == (kind is not None), "a fragment without its message, or the reverse")
            _check(opcode in (CONTINUATION, TEXT, BINARY), f"the opcode {opcode} is reserved")
            kind, size = kind or opcode, size + length
            if size > self._max:
                raise Broken(TOO_BIG, f"a message of more than {self._max} bytes")
            pieces.append(self._payload(length))
            if first & FIN:
                data = b"".join(pieces)
                return _text(data) if kind == TEXT else data

    def _control(self, opcode, payload):
        if opcode == PING:
            self._send(PONG, payload)
        elif opcode == CLOSE:
            code, reason = _close_of(payload)
            self._say_close(code if payload else None, reason)
            raise self._end(code, reason)
        else:
            _check(opcode == PONG, f"the opcode {opcode} is reserved")

    def _payload(self, length):
        mask = bytes(self._take(4))
        data = self._take(length)
        if not any(mask):
            return bytes(data)
        repeated = mask * (length // 4 + 1)
        number = int.from_bytes(data, "little") ^ int.from_bytes(repeated[:length], "little")
        return number.to_bytes(length, "little")

    def _take(self, count):
        buffer = self._buffer
        while len(buffer) < count:
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ConnectionError
            buffer += data
        taken = buffer[:count]
        del buffer[:count]
        return taken

    def _send(self, opcode, data):
        size = len(data)
        if size <= SHORT:
            head = bytes((FIN | opcode, size))
        elif size < 1 << 16:
            head = bytes((FIN | opcode, SHORT + 1)) + U16.pack(size)
        else:
            head = bytes((FIN | opcode, SHORT + 2)) + U64.pack(size)
        with self._sending:
            if self._closed or self._said_close:
                raise self._closed or Closed(NORMAL, "this side has closed")
            self._said_close = opcode == CLOSE
            try:
                self._socket.sendall(head + data)
            except OSError:
                raise self._end(ABNORMAL) from None

    def _say_close(self, code, reason=""):
        try:
            self._send(CLOSE, U16.pack(code) + reason.encode()[: MAX_CONTROL - 2] if code else b"")
        except Closed:
            pass

    def _go_away(self, connection):
        self._socket = connection  # `accept` may not have it yet
        self._say_close(GOING_AWAY, "going away")

    def _end(self, code, reason=""):
        if not self._closed:
            self._closed = Closed(code, reason)
            self._socket.close()
        return self._closed


def _key(request):
    """The handshake's key, if it is 16 bytes in base64."""
    key = request.headers.get("sec-websocket-key", "")
    try:
        return key.encode() if len(b64decode(key, validate=True)) == 16 else b""
    except ValueError:
        return b""


def _check(condition, text):
    if not condition:
        raise Broken(PROTOCOL, text)


def _text(data):
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Broken(NOT_TEXT, "a text is not UTF-8") from None


def _close_of(payload):
    """Code and reason of a Close (RFC 6455 §5.5.1, §7.4)."""
    if not payload:
        return NO_CODE, ""
    _check(len(payload) >= 2, "a Close with one byte")
    code = U16.unpack_from(payload)[0]
    _check(1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999, f"the code {code} in a Close")
    return code, _text(payload[2:])
