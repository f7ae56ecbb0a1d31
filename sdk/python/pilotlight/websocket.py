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
from _thread import allocate_lock

from . import _rfc6455
from ._rfc6455 import (
    ABNORMAL, BINARY, CLOSE, CLOSE_SECONDS, GOING_AWAY, INTERNAL, NORMAL, PING, PONG, TEXT, Broken, close_of,
    close_payload, encoded,
)

READ_BYTES = 65_536
REQUIRED = 426, [("upgrade", "websocket"), ("sec-websocket-version", "13")], "this is a WebSocket\n"


class Closed(ConnectionError):
    """The WebSocket is closed; `code` and `reason` are the client's (1005: it gave none, 1006: it went without)."""

    def __init__(self, code, reason=""):
        super().__init__(f"{code} {reason}".rstrip())
        self.code, self.reason = code, reason


def is_offered(request):
    """Whether the request is a handshake (RFC 6455 §4.2.1) that may be accepted."""
    version = request.headers.get("sec-websocket-version")
    return "websocket" in request.offers and version == "13" and bool(_key(request))


def accept(request, subprotocol=None, headers=(), max_message=16 << 20):
    """Answers the handshake; `subprotocol` is one of those in the request's Sec-WebSocket-Protocol, or None."""
    answer = _rfc6455.accept(_key(request)).decode()
    fields = [("sec-websocket-accept", answer), *(headers.items() if isinstance(headers, dict) else headers)]
    fields += [("sec-websocket-protocol", subprotocol)] if subprotocol else []
    socket = WebSocket(max_message)
    socket._socket = request.upgrade("websocket", fields, on_drain=socket._go_away)
    return socket


class WebSocket:
    """An open WebSocket: iterate over it, or `recv`, `send`, `close`. A context manager closes it at its end."""

    def __init__(self, max_message):
        self._socket, self._decoder, self._sending = None, _rfc6455.Decoder(max_message), allocate_lock()
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
        while True:
            while not (frame := self._decoder.next()):
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise ConnectionError
                self._decoder.feed(data)
            opcode, payload = frame
            if opcode in (TEXT, BINARY):
                return payload
            if opcode == PING:
                self._send(PONG, payload)
            elif opcode == CLOSE:
                code, reason = close_of(payload)
                self._say_close(code if payload else None, reason)
                raise self._end(code, reason)

    def _send(self, opcode, data):
        with self._sending:
            if self._closed or self._said_close:
                raise self._closed or Closed(NORMAL, "this side has closed")
            self._said_close = opcode == CLOSE
            try:
                self._socket.sendall(encoded(opcode, data))
            except OSError:
                raise self._end(ABNORMAL) from None

    def _say_close(self, code, reason=""):
        try:
            self._send(CLOSE, close_payload(code, reason))
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
    """The handshake's key, if it is one."""
    key = request.headers.get("sec-websocket-key", "").encode("latin-1")
    return key if _rfc6455.is_key(key) else b""
