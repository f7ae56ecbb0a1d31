"""One exchange as an ASGI application sees it: its task, `receive` and `send`.

The answer is one frame if the application sends it whole and it fits, else a stream, on an answer connection if the
request came on a shared one. Whatever the application does, its exchange gets one final frame (P-16).
"""

import sys
from asyncio import CancelledError

from . import _scope
from ._request import Reset
from ._wire import (
    CANCELLED, DATA, END, INFO, INTERNAL, MAX_FRAME, REFUSED, RESPONSE, RESPONSE_HEAD, STOP, TRAILERS, check, frame,
    reset,
)

AHEAD_BYTES = 65_536  # of a request's body, beyond which its connection is not read
EARLY_HINTS = 103
NO_BODY = (204, 304)
START, BODY, TRAILING, COMPLETE = "http.response.start", "http.response.body", "http.response.trailers", "nothing more"


class Disconnected(OSError):
    """Raised by `send`: the client has gone, or the deadline is over; nobody waits for the answer."""


class Exchange:
    """A request, and the answer that an application gives."""

    reset, begun, done, expected, headers, length, sent, head = 0, False, False, START, (), None, 0, b""
    has_trailers, waiting, task, is_silent, patience, is_behind = False, (), None, False, None, False

    def __init__(self, server, link, number, ended, offered, payload):
        self.server, self.source, self.link, self.number = server, link, link, number
        self.ended, self.offered = ended, offered
        self.scope, self.ahead = _scope.request(payload, server.root_path, server.state)
        self.more, self.app = True, server.app  # more: the application has not seen the end of the body

    @classmethod
    def taken(cls, server, link, found):
        """The exchange that the compiled core has begun, `found`, to be gone on with here."""
        exchange = cls.__new__(cls)
        exchange.server, exchange.source, exchange.link, exchange.number = server, link, link, found.number
        exchange.ended, exchange.offered, exchange.scope, exchange.task = True, False, found.scope, found.task
        body = found.body
        exchange.ahead, exchange.more = body or b"", body is not None
        if found.done:
            exchange.done, exchange.expected = True, COMPLETE
        elif found.head:
            exchange.open_answer(*found.head)
        return exchange

    def start(self):
        instance = self.source.instance
        self.task = instance.loop.create_task(self.run(self.app))
        instance.tasks.add(self.task)

    async def run(self, app):
        """The exchange's task."""
        error = None
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as raised:
            error = raised
        self.end(error)

    def end(self, error):
        """The application has returned, or raised: whatever it was, only this exchange ends by it."""
        code, text, pause, self.outcome = INTERNAL, "the application returned without a whole answer", 0.0, None
        if isinstance(error, Reset):
            code, text, pause = error.code, str(error), error.retry_after
        elif isinstance(error, CancelledError):
            code, text = CANCELLED, "cancelled"
        elif error and not isinstance(error, Disconnected):
            sys.excepthook(type(error), error, error.__traceback__)
            text, self.outcome = f"{type(error).__name__} in the application", INTERNAL
        if self.patience:
            self.patience.cancel()
        if not self.done:
            code = INTERNAL if self.begun else code  # P-29: no REFUSED after a frame
            self.finish(reset(self.number, code, text, pause))
        self.source.instance.tasks.discard(self.task)
        self.source.instance.stir()

    async def receive(self):
        if self.more and not self.reset:
            while not self.ahead and not self.ended and not self.reset and not self.done:
                await self.moved()
            if not self.reset and not self.done:
                body, self.ahead = bytes(self.ahead), b""
                self.more = not self.ended
                self.read_on()
                return {"type": "http.request", "body": body, "more_body": self.more}
        while not self.reset and not self.done:
            await self.moved()
        return {"type": "http.disconnect"}

    async def send(self, message):
        kind = message["type"]
        if self.reset or self.link.closed and not self.done:
            raise Disconnected("the client has gone")
        if kind == "http.response.early_hint" and self.expected == START and not self.head:
            return await self.hint(message.get("links", ()))
        if kind != self.expected:
            raise RuntimeError(f"{kind!r} was sent where {self.expected!r} may be")
        if kind == START:
            return self.on_start(message)
        if kind == BODY:
            more = message.get("more_body", False)
            return await self.body(message.get("body", b""), more)
        self.headers.extend(message.get("headers", ()))
        if not message.get("more_trailers", False):
            await self.emit(_scope.fields(self.headers), TRAILERS, END)

    def on_start(self, message):
        status, headers = message["status"], message.get("headers", ())
        check(200 <= status <= 999, "the status is {}, it must be 200 to 999", status)
        self.open_answer(status, *_scope.fields_and_length(headers))
        self.has_trailers = message.get("trailers", False)

    def open_answer(self, status, block, length):
        self.head = RESPONSE_HEAD.pack(len(block), status, 0) + block
        self.is_silent = status in NO_BODY or self.scope.get("method") == "HEAD"
        self.length, self.expected = None if self.is_silent else length, BODY

    async def body(self, data, more):
        data = b"" if self.is_silent else data
        self.sent += len(data)
        if self.length is not None and (self.sent > self.length or self.sent < self.length and not more):
            raise RuntimeError(f"the body has {self.sent} bytes, its content-length says {self.length}")
        if more:
            return await self.emit(data, DATA, 0) if data or self.head else None
        if self.has_trailers:
            self.headers, self.expected = [], TRAILING
            return await self.emit(data, DATA, 0) if data or self.head else None
        if self.head and len(self.head) + len(data) <= MAX_FRAME:
            return self.finish(frame(RESPONSE, END, self.number, self.head, data))
        await self.emit(data, DATA, END)

    async def hint(self, links):
        block = _scope.fields([(b"link", link) for link in links])
        await self.stream()
        self.begun = True
        self.link.write(frame(INFO, 0, self.number, RESPONSE_HEAD.pack(len(block), EARLY_HINTS, 0) + block))

    async def emit(self, data, kind, flags):
        """Sends a part of a stream, the head before it, in as many frames as it takes, as the socket takes them."""
        await self.stream()
        view = memoryview(data)
        while view or flags or self.head:
            if self.reset or self.link.closed:
                raise Disconnected("the client has gone")
            head, self.head = self.head, b""
            piece, view = view[: MAX_FRAME - len(head)], view[MAX_FRAME - len(head) :]
            part = frame(RESPONSE if head else kind, 0 if view else flags, self.number, head, piece)
            self.begun = True
            if flags and not view:
                self.finish(part)
                flags = 0
            else:
                self.link.write(part)
                if self.link.paused:
                    await self.link.drained()

    async def stream(self):
        """What has more than one frame needs a connection for itself (P-24)."""
        if self.link.kind != "shared":
            return
        link = await self.source.instance.answer(self.source.worker)
        if link is None or self.reset:
            if link:
                self.rest(link)
            raise Disconnected("no connection for the answer")
        link.open[self.number], self.link = self, link

    def rest(self, link):
        self.source.instance.answers.setdefault(link.worker, []).append(link)

    def finish(self, final):
        """Sends the final frame: the gateway may use the id again as soon as it sees it (P-15)."""
        self.done, self.expected, self.head, link = True, COMPLETE, b"", self.link
        if not self.ended and not self.reset and not link.closed:
            final = frame(STOP, 0, self.number) + final  # P-21: nobody will read the rest
        if self.ended:
            self.source.open.pop(self.number, None)
        self.ahead = b""
        if not link.closed:
            link.finish(final)
            self.read_on()
        if link is not self.source:
            link.open.pop(self.number, None)
            self.rest(link)
        self.wake()

    def feed(self, data):
        """A part of the request's body has come, or its end."""
        if self.done:
            return
        self.ahead = self.ahead + data if self.ahead else data
        if len(self.ahead) > AHEAD_BYTES and not self.ended:
            self.is_behind = True
            self.source.transport.pause_reading()
        self.wake()

    def read_on(self):
        if self.is_behind and not self.source.closed:
            self.is_behind = False
            self.source.transport.resume_reading()

    def cut(self, code):
        """The client has gone, the deadline is over, or nothing is begun any more (P-26, P-28, P-31)."""
        if self.reset or self.done:
            return
        self.reset, self.ended = code, True
        self.finish(reset(self.number, INTERNAL if code == REFUSED and self.begun else code, "ended by the gateway"))
        if self.task:
            self.patience = self.source.instance.loop.call_later(self.server.patience_s, self.task.cancel)

    async def moved(self):
        """Waits until something has come, or the exchange has ended."""
        waiter = self.source.instance.loop.create_future()
        self.waiting = [*self.waiting, waiter]
        await waiter

    def wake(self):
        waiting, self.waiting = self.waiting, ()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
