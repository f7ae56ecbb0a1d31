"""Connections that leave the protocol (spec §12) under an ASGI application: WebSocket, and bytes of any other.

`WebSocket` is the scope of that name. `Offer` is the scope of an HTTP request whose client offers another protocol; its
extension `pilotlight.upgrade` has the names. The application accepts one with `{"type": "pilotlight.upgrade",
"protocol": name, "headers": [...]}`; messages both ways are then `{"type": "pilotlight.bytes", "bytes": ...,
"more": True}`; without `more` that direction has ended.
"""

import asyncio
from collections import deque

from . import _rfc6455, _scope
from ._exchange import START, Disconnected, Exchange
from ._loop import Flow
from ._request import Overloaded
from ._rfc6455 import BINARY, CLOSE, CLOSE_SECONDS, PING, PONG, TEXT
from ._wire import INTERNAL, MAX_FRAME, RESPONSE, RESPONSE_HEAD, UPGRADE, check, frame

AHEAD_BYTES = 65_536  # of messages that the application has not received, beyond which the client is not read


class Switched(Flow, asyncio.Protocol):
    """A connection that is another protocol's (P-40 to P-42)."""

    def __init__(self, link, session):
        super().__init__()
        self.instance, self.session, self.transport, link.closed = link.instance, session, link.transport, True
        self.instance.links.discard(link)
        self.instance.upgraded.add(session)
        self.transport.set_protocol(self)

    def data_received(self, data):
        self.session.on_bytes(data)

    def eof_received(self):
        self.session.on_end()
        return True  # this side may go on

    def connection_lost(self, error):
        self.lost()
        self.session.on_lost()
        self.instance.upgraded.discard(self.session)
        self.instance.stir()


class Switching(Exchange):
    """An exchange whose connection may be switched, and what comes on it then."""

    wire, at_end = None, False

    def switch(self, protocol, headers):
        instance = self.source.instance
        if len(instance.upgraded) >= instance.max_upgraded:
            raise Overloaded(f"{instance.max_upgraded} connections have switched protocols already")
        block = b"upgrade\0" + protocol + b"\0" + _scope.fields(headers)
        head = RESPONSE_HEAD.pack(len(block), 101, 0) + block
        check(len(head) <= MAX_FRAME, "P-6: {} bytes of headers do not fit a frame", len(head))
        self.source.open.pop(self.number, None)
        self.begun = self.done = True
        self.messages, self.size = deque(), 0
        self.source.write(frame(RESPONSE, UPGRADE, self.number, head))
        self.wire = Switched(self.source, self)
        if instance.draining:
            self.go_away()

    async def run(self, app):
        try:
            await super().run(app)
        finally:
            if self.wire:
                self.leave()

    async def next(self):
        """The next of the messages, None at the end; reads on when few are left."""
        while not self.messages:
            if self.at_end:
                return None
            await self.moved()
        message = self.messages.popleft()
        self.size -= len(message[1])
        if self.size <= AHEAD_BYTES and not self.wire.closed:
            self.wire.transport.resume_reading()
        return message

    def queue(self, kind, data):
        self.messages.append((kind, data))
        self.size += len(data)
        if self.size > AHEAD_BYTES:
            self.wire.transport.pause_reading()
        self.wake()

    async def write(self, data):
        if self.wire.closed:
            raise Disconnected("the client has gone")
        self.wire.transport.write(data)
        if self.wire.paused:
            await self.wire.drained()

    def go_away(self):
        """The instance is to end."""

    def abandon(self):
        self.wire.transport.abort()

    def on_end(self):
        self.at_end = True
        self.wake()

    on_lost = on_end


class Offer(Switching):
    """A request that offers a protocol besides WebSocket."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        offer = b",".join(value for name, value in self.scope["headers"] if name == b"upgrade").decode("latin-1")
        self.names = [name.strip().lower() for name in offer.split(",") if name.strip()]
        self.scope["extensions"]["pilotlight.upgrade"] = {"protocols": self.names}

    async def receive(self):
        if not self.wire:
            return await super().receive()
        _, data = await self.next() or (None, b"")
        return {"type": "pilotlight.bytes", "bytes": data, "more": bool(data)}

    async def send(self, message):
        kind = message["type"]
        if self.wire and kind == "pilotlight.bytes":
            await self.write(message.get("bytes", b""))
            if not message.get("more", True):
                self.wire.transport.write_eof()
        elif not self.wire and kind == "pilotlight.upgrade" and not self.reset and self.expected == START:
            protocol = message["protocol"]
            check(protocol.lower() in self.names, "{!r:.80} is not what the client offers, {}", protocol, self.names)
            self.switch(protocol.encode("latin-1"), message.get("headers", ()))
        else:
            await super().send(message)

    def on_bytes(self, data):
        self.queue(None, data)

    def leave(self):
        self.wire.transport.close()


class WebSocket(Switching):
    """A handshake (RFC 6455 §4.2), and the WebSocket that it becomes if the application accepts it."""

    connected, said_close, code, reason, timer = False, False, _rfc6455.ABNORMAL, "", None

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.scope = _scope.as_websocket(self.scope)

    async def receive(self):
        if not self.connected:
            self.connected = True
            return {"type": "websocket.connect"}
        while not (self.wire or self.reset or self.done):
            await self.moved()
        kind, data = (await self.next() if self.wire else None) or (None, None)
        if kind is None:
            return {"type": "websocket.disconnect", "code": self.code, "reason": self.reason}
        text, data = (data, None) if kind == TEXT else (None, data)
        return {"type": "websocket.receive", "bytes": data, "text": text}

    async def send(self, message):
        kind = message["type"]
        if not self.wire:
            return await self.answer(kind, message)
        if self.said_close or self.wire.closed:
            raise Disconnected("the WebSocket is closed")
        if kind == "websocket.send":
            text, data = message.get("text"), message.get("bytes")
            frame = _rfc6455.encoded(BINARY, data) if text is None else _rfc6455.encoded(TEXT, text.encode())
            await self.write(frame)
        elif kind == "websocket.close":
            self.close(message.get("code", _rfc6455.NORMAL), message.get("reason") or "")
        else:
            raise RuntimeError(f"{kind!r} was sent to an open WebSocket")

    async def answer(self, kind, message):
        """What the application sends before it has accepted."""
        if self.reset:
            raise Disconnected("the client has gone")
        if kind == "websocket.accept" and self.expected == START:
            key = next(value for name, value in self.scope["headers"] if name == b"sec-websocket-key")
            headers = [(b"sec-websocket-accept", _rfc6455.accept(key)), *message.get("headers", ())]
            if message.get("subprotocol"):
                headers.append((b"sec-websocket-protocol", message["subprotocol"].encode("latin-1")))
            self.decoder = _rfc6455.Decoder(self.server.max_message)
            self.switch(b"websocket", headers)
        elif kind == "websocket.close" and self.expected == START:
            self.on_start({"status": 403})
            await self.body(b"", False)
        elif kind.startswith("websocket.http.response."):
            await super().send({**message, "type": kind[len("websocket.") :]})
        else:
            raise RuntimeError(f"{kind!r} was sent where the answer to a handshake is expected")

    def on_bytes(self, data):
        try:
            self.decoder.feed(data)
            while not self.at_end and (event := self.decoder.next()):
                self.on_event(*event)
        except _rfc6455.Broken as broken:
            self.hang_up(broken.code, str(broken))
            self.finished(broken.code, str(broken))

    def on_event(self, opcode, payload):
        if opcode in (TEXT, BINARY):
            self.queue(opcode, payload)
        elif opcode == PING and not self.said_close:
            self.wire.transport.write(_rfc6455.encoded(PONG, payload))
        elif opcode == CLOSE:
            code, reason = _rfc6455.close_of(payload)
            self.hang_up(code if payload else None, reason)
            self.finished(code, reason)

    def hang_up(self, code, reason=""):
        """Sends a Close, once."""
        if not self.said_close:
            self.said_close = True
            self.wire.transport.write(_rfc6455.encoded(CLOSE, _rfc6455.close_payload(code, reason)))

    def finished(self, code, reason):
        """Both halves of the closing handshake are over, or as good as."""
        self.code, self.reason, self.at_end = code, reason, True
        self.wire.transport.close()
        self.wake()

    def close(self, code, reason=""):
        """Begins the closing handshake; the client has a while for its half."""
        self.hang_up(code, reason)
        if self.timer is None and not self.at_end:
            self.timer = self.source.instance.loop.call_later(CLOSE_SECONDS, self.wire.transport.abort)
            self.wire.transport.resume_reading()

    def go_away(self):
        self.close(_rfc6455.GOING_AWAY, "going away")

    def leave(self):
        failed = self.outcome == INTERNAL and not self.said_close
        self.close(_rfc6455.INTERNAL if failed else _rfc6455.NORMAL)

    def on_end(self):
        super().on_end()
        self.wire.transport.close()

    def on_lost(self):
        super().on_end()
        if self.timer:
            self.timer.cancel()


def is_handshake(scope):
    """Whether the request is a handshake of WebSocket that may be accepted (RFC 6455 §4.2.1)."""
    found = dict(scope["headers"])
    offered = [name.strip().lower() for name in found.get(b"upgrade", b"").split(b",")]
    is_version = found.get(b"sec-websocket-version") == b"13"
    return b"websocket" in offered and is_version and _rfc6455.is_key(found.get(b"sec-websocket-key", b""))


