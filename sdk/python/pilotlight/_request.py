"""What a handler sees: the request, the ways to answer it, and what it may raise."""

from time import monotonic

from ._wire import (
    CANCELLED, DATA, END, INTERNAL, LOG, MAX_FRAME, OVERLOADED, REFUSED, REQUEST_HEAD, RESPONSE, STOP, TOO_LARGE, TRAILERS,
    Headers, check, cut, fields, frame, parse, response_head,
)

LEVELS = ("error", "warn", "info", "debug", "trace")


class Reset(Exception):
    """Raised by a handler: ends the exchange without an answer. The client sees 502 if nothing was sent before."""

    code, retry_after = INTERNAL, 0.0


class Cancelled(Reset):
    """The client has gone, or the deadline is over: nobody waits for the answer."""

    code = CANCELLED


class Refused(Reset):
    """Nothing has happened: another instance may take the request, whatever its method (P-29)."""

    code = REFUSED


class Overloaded(Refused):
    """As `Refused`, and this instance has too much to do for `retry_after` seconds."""

    code = OVERLOADED

    def __init__(self, text="", retry_after=1.0):
        super().__init__(text)
        self.retry_after = retry_after


class TooLarge(Refused):
    """The body of the request is larger than the handler takes; the client sees 413."""

    code = TOO_LARGE


class Request:
    """One exchange: what the client asks, and the ways to answer besides the handler's return value.

    `method scheme authority target protocol peer id path query` are str, `headers` is `Headers`, and so is `trailers`,
    which is filled when the body has been read.
    """

    trailers, _headers, _body, _reset, _head, _begun, _done = Headers(), None, None, 0, b"", False, False

    def __init__(self, link, exchange, flags, payload):
        size, deadline_ms = REQUEST_HEAD.unpack_from(payload)
        check(size <= len(payload) - 8, "P-8: head_length is {} in a payload of {} bytes", size, len(payload))
        self._texts = texts = parse(payload[8 : 8 + size], 7)
        self.method, self.scheme, self.authority, self.target, self.protocol, self.peer, self.id = texts[:7]
        self.path, _, self.query = self.target.partition("?")
        self._due = deadline_ms and monotonic() + deadline_ms / 1000
        self._source = self._link = link  # the connection of the request, and that of the answer
        self._exchange, self._ended, self._ahead = exchange, flags & END, bytearray(payload[8 + size :])

    @property
    def headers(self):
        """The fields, made when a handler first asks for them."""
        if self._headers is None:
            self._headers = Headers.of(self._texts, 7)
        return self._headers

    @property
    def deadline(self):
        """The seconds left for the answer, or None."""
        return max(0.0, self._due - monotonic()) if self._due else None

    @property
    def body(self):
        """The whole body; raises TooLarge beyond the `max_body` of `serve`."""
        if self._body is None:
            self._body = self.read(self._source.service.max_body + 1)
        if len(self._body) > self._source.service.max_body:
            raise TooLarge(f"the body is larger than max_body, {self._source.service.max_body} bytes")
        return self._body

    def stream(self):
        """Yields the body piece by piece as it arrives; raises Cancelled when the client has gone."""
        while self._wait(1):
            yield self.read(len(self._ahead))

    def read(self, size=-1):
        """The next `size` bytes of the body, fewer only at its end; all that is left if negative."""
        self._wait(size if size >= 0 else float("inf"))
        piece = bytes(self._ahead[: size if size >= 0 else None])
        del self._ahead[: len(piece)]
        return piece

    def cancelled(self):
        """Whether the client has gone or the deadline is over; looks at the connections without waiting."""
        for link in {self._source, self._link}:
            if not self._reset and not (self._ahead and link.kind == "own"):  # an unread body stays in the kernel
                link.look(now=True)
        return self._reset != 0

    def log(self, text, level="info"):
        """Writes a log line that belongs to this request; `level` is one of LEVELS."""
        self._link.send(frame(LOG, 0, self._exchange, bytes((LEVELS.index(level) + 1,)), cut(text)))

    def _wait(self, size):
        """Waits for `size` bytes of the body; returns what is there, less only at its end."""
        while len(self._ahead) < size and not self._ended:
            self._source.look()
        if self._reset:
            raise Cancelled
        return self._ahead

    def _finish(self):
        """The final frame is about to be sent: the gateway may use the id again as soon as it sees it (P-15)."""
        self._done = True
        if self._ended:
            self._source.open.pop(self._exchange, None)

    def _send(self, data, kind=DATA, flags=0):
        """Sends part of a stream, the head before it, in as many frames as it takes, while somebody waits for it."""
        view = memoryview(data)
        while view or flags or self._head:
            if self.cancelled():
                raise Cancelled
            if self._link.kind == "shared":
                self._link = self._source.branch(self)
            head, room = self._head, MAX_FRAME - len(self._head)
            if flags:
                self._finish()
            self._link.send(frame(RESPONSE if head else kind, flags, self._exchange, head, view[:room]))
            view, flags, self._head, self._begun = view[room:], 0, b"", True

    def _answer(self, status, headers, body, trailers=None):
        """Sends what a handler returns: if whole and small, a frame that leaves with others (P-18), else a stream."""
        try:
            self._head = b"" if self._begun else response_head(status, fields(headers))
            data = body.encode() if isinstance(body, str) else body
            data = b"".join(data) if isinstance(data, (list, tuple)) else data
            if isinstance(data, bytes):
                if not self._ended:
                    self._source.out.append(frame(STOP, 0, self._exchange))  # P-21: nobody will read the rest
                if self._head and trailers is None and len(self._head) + len(data) <= MAX_FRAME:
                    self._finish()
                    return self._source.out.append(frame(RESPONSE, END, self._exchange, self._head, data))
                data = [data]
            for piece in filter(None, data):
                self._send(piece)
            if trailers is None:
                return self._send(b"", DATA, END)
            self._send(b"")  # the head, if there was no piece
            return self._send(fields(trailers), TRAILERS, END)
        finally:
            if hasattr(body, "close"):
                body.close()
