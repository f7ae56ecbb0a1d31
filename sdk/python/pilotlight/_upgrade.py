"""Upgrades (spec §12): requests that offer one, and connections that leave the protocol.

A connection that has switched is no `Link` any more: its place among the links of the service is taken by a `Switched`,
until the handler has ended.
"""

import sys

from . import _request
from ._request import Overloaded
from ._wire import END, MAX_FRAME, RESPONSE, RESPONSE_HEAD, UPGRADE, check, fields, frame

MINOR = 1  # P-37


class Request(_request.Request):
    __doc__ = _request.Request.__doc__

    _offered, _switched = False, None

    def __init__(self, link, exchange, flags, payload):
        super().__init__(link, exchange, flags, payload)
        self._offered = bool(flags & UPGRADE and link.kind == "own" and link.minor)
        check(flags & END or not self._offered, "P-38: REQUEST with UPGRADE and without END")

    @property
    def offers(self):
        """The protocols, in lower case, that the client may switch to with this request: of RFC 9110's `Upgrade`."""
        offer = ",".join(value for name, value in self.headers if name == "upgrade") if self._offered else ""
        return [name.strip().lower() for name in offer.split(",") if name.strip()]

    def upgrade(self, protocol, headers=(), on_drain=None):
        """Answers 101: the connection is `protocol`'s, one of `offers`. Returns it, a `socket.socket`, blocking.

        What the handler returns counts no more; at its end the socket is closed. `on_drain(socket)` is called once when
        the instance is to end, perhaps in another thread: the handler should end then by the means of the protocol.
        """
        check(protocol.lower() in self.offers, "{!r:.80} is not what the client offers, {}", protocol, self.offers)
        block = f"upgrade\0{protocol}\0".encode("latin-1") + fields(headers)
        head = RESPONSE_HEAD.pack(len(block), 101, 0) + block
        check(len(head) <= MAX_FRAME, "P-6: {} bytes of headers do not fit a frame", len(head))
        self._switched = Switched(self._source)
        self._begun = True
        self._finish()
        self._source.send(frame(RESPONSE, UPGRADE, self._exchange, head))
        return self._switched.take(self._source, on_drain)

    def cancelled(self):
        return not self._switched and super().cancelled()

    def log(self, text, level="info"):
        if self._switched:  # P-41: there are no frames on its connection
            text, self._exchange = f"[{self.id}] {text}", 0
            self._link = next(iter(self._source.service.of_kind("shared")), None)
        if self._link:
            super().log(text, level)


class Switched:
    """A connection that is another protocol's (P-40 to P-42)."""

    kind, out = "upgraded", ()

    def __init__(self, link):
        self.service, self.sock, self.on_drain = link.service, None, []
        with self.service.lock:
            most = self.service.limits[self.kind]
            if len(self.service.of_kind(self.kind)) >= most:
                raise Overloaded(f"{most} connections have switched protocols already")
            self.service.links.discard(link)
            self.service.links.add(self)

    def take(self, link, on_drain):
        """Takes the socket from the link, which has sent its last frame."""
        from socket import socket  # what libraries expect; it costs time to load

        self.sock, link.closed = socket(fileno=link.sock.detach()), True
        self.on_drain += [on_drain] if on_drain else []
        if self.service.draining:
            self.drain()
        return self.sock

    def drain(self):
        """The instance is to end: tells the handler, once (P-43)."""
        try:
            on_drain = self.on_drain.pop()
        except IndexError:
            return  # it does not want to know, or another thread has just told it
        try:
            on_drain(self.sock)
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)

    def close(self):
        """The handler has ended."""
        self.service.links.discard(self)
        if self.sock:
            self.sock.close()


def respond(request, handle):
    """Runs the handler and sends what it returns, unless the connection has switched protocols."""
    try:
        answer = handle(request)
        if not request._switched:
            request._answer(*answer)  # (status, headers, body) or those and trailers
    except ConnectionError:
        if not request._switched:
            raise  # else it is the end of the other protocol's connection
    finally:
        if request._switched:
            request._switched.close()


def drain(service):
    """The instance is to end: tells the handlers of connections that have switched (P-43)."""
    for switched in service.of_kind(Switched.kind):
        switched.drain()
