"""One exchange of Pipe/1: its frames and heads (§3 of docs/spec/pipe.md), the request that a handler sees, its answer.

Knows no connection but by what it asks of one: `look`, `send`, `branch` and `final` of `pilotlight._link.Link`.
"""

import sys
from _socket import MSG_DONTWAIT
from _struct import Struct
from time import monotonic

HELLO, WELCOME, REQUEST, RESPONSE, INFO, DATA, TRAILERS, STOP, RESET, PING, PONG, DRAIN, MORE, LOG = range(1, 15)
CANCELLED, DEADLINE, REFUSED, OVERLOADED, INTERNAL, PROTOCOL, TOO_LARGE = range(1, 8)
END, IGNORABLE = 0x01, 0x80
LEVELS = ("error", "warn", "info", "debug", "trace")

MAX_FRAME = 65_536  # what we send; the gateway may send more if its WELCOME says so
MAX_TEXT = 1_024

HEADER, REQUEST_HEAD, RESPONSE_HEAD = Struct("<IBBH"), Struct("<II"), Struct("<IHH")
RESET_HEAD, MORE_BODY, DRAIN_BODY = Struct("<HHI"), Struct("<HHI"), Struct("<I")
DROPPED = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
    "expect",
    "host",
}  # P-9


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


class Violation(BaseException):
    """The gateway broke the named rule. Not an `Exception`, so that no handler catches it on its way out."""


class Headers(list):
    """(name, value) pairs in the order they came, repeated ones included; names are in lower case."""

    def get(self, name, default=None):
        """The first value of `name`, in whatever case."""
        return next(iter(self.get_all(name)), default)

    def get_all(self, name):
        """Every value of `name`, in whatever case."""
        name = name.lower()
        return [value for key, value in self if key == name]


def frame(kind, flags, exchange, payload=b""):
    """A whole frame."""
    return HEADER.pack(len(payload), kind, flags, exchange) + payload


def reset(exchange, code, text="", retry_after=0.0):
    """A RESET frame."""
    return frame(RESET, 0, exchange, RESET_HEAD.pack(code, 0, int(retry_after * 1000)) + cut(text))


def cut(text):
    """`text` in at most MAX_TEXT bytes."""
    return str(text).encode("utf-8", "replace")[:MAX_TEXT].decode("utf-8", "ignore").encode()


def unpack(layout, payload):
    """The numbers at the front of a payload."""
    if len(payload) < layout.size:
        raise Violation(f"P-11: a payload of {len(payload)} bytes where at least {layout.size} are needed")
    return layout.unpack_from(payload)


def strings(block, at_least=0):
    """The strings of a head or of fields, and an empty one behind the last zero byte (P-8)."""
    texts = block.split(b"\0")
    count = len(texts) - 1
    if texts[-1] or count < at_least or (count - at_least) & 1:
        raise Violation(f"P-8: {count} strings where {at_least} and pairs are needed, or no zero byte at the end")
    return texts


def pairs(texts):
    """`Headers` of what `strings` returned."""
    decoded = str(b"\0".join(texts), "latin-1").split("\0")
    return Headers(zip(decoded[0:-1:2], decoded[1::2]))


def fields(headers):
    """Encodes pairs or a dict, without what must not cross (P-8, P-9)."""
    texts, named = [], []
    for name, value in headers.items() if isinstance(headers, dict) else headers:
        name = name.lower()
        if name not in DROPPED:
            texts += name, str(value)
        elif name == "connection":
            named += value.lower().replace(" ", "").split(",")
    if named:
        return fields([pair for pair in zip(texts[::2], texts[1::2]) if pair[0] not in named])
    block = "\0".join([*texts, ""])
    if block.count("\0") != len(texts) or "\n" in block or "\r" in block:
        raise ValueError("P-8: a header's name or value has a zero byte, CR or LF in it")
    return block.encode("latin-1")


def response_head(status, block, first=200, last=999):
    """The head of RESPONSE, or of INFO."""
    if not first <= status <= last:
        raise ValueError(f"the status is {status}, it must be {first} to {last}")
    return RESPONSE_HEAD.pack(len(block), status, 0) + block


class Request:
    """One exchange: what the client asks, and the ways to answer besides the handler's return value.

    `method scheme authority target protocol peer id path query` are str, `headers` is `Headers`; they are taken out of
    the frame when first touched. `trailers` (Headers) is filled when the body has been read.
    """

    __slots__ = (
        *"method scheme authority target protocol peer id path query headers trailers".split(),
        *"_source _link _exchange _strings _pieces _body _ended _due _reset _begun _responded _done".split(),
    )

    def __init__(self, source, exchange, flags, payload):
        size, deadline_ms = unpack(REQUEST_HEAD, payload)
        if size > len(payload) - 8:
            raise Violation(f"P-8: head_length is {size} in a payload of {len(payload)} bytes")
        self._strings = strings(payload[8 : 8 + size], 7)
        self._source, self._link, self._exchange = source, None if source.kind == "shared" else source, exchange
        self._pieces, self._ended = [payload[8 + size :]] if len(payload) > 8 + size else [], flags & END
        self._due = deadline_ms and monotonic() + deadline_ms / 1000
        self._body, self._reset, self.trailers = None, 0, Headers()
        self._begun = self._responded = self._done = False

    def __getattr__(self, name):
        if name == "headers":
            self.headers = pairs(self._strings[7:])
        elif name not in Request.__slots__ or name[0] == "_":
            raise AttributeError(name)
        else:
            texts = str(b"\0".join(self._strings[:7]), "latin-1").split("\0")
            self.method, self.scheme, self.authority, self.target, self.protocol, self.peer, self.id = texts
            self.path, _, self.query = self.target.partition("?")
        return getattr(self, name)

    @property
    def deadline(self):
        """The seconds left for the answer, or None."""
        return max(0.0, self._due - monotonic()) if self._due else None

    @property
    def body(self):
        """The whole body; raises TooLarge beyond the `max_body` of `serve`."""
        if self._body is None:
            self._body = self.read(self._source.service.max_body)
            if self._piece():
                raise TooLarge(f"the body is larger than max_body, {len(self._body)} bytes")
        return self._body

    def stream(self):
        """Yields the body piece by piece as it arrives; raises Cancelled when the client has gone."""
        while piece := self._piece():
            yield piece

    def read(self, size=-1):
        """The next `size` bytes of the body, fewer only at its end; all that is left if negative."""
        pieces, missing = [], size if size >= 0 else sys.maxsize
        while missing and (piece := self._piece()):
            pieces.append(piece[:missing])
            if len(piece) > missing:
                self._pieces.insert(0, piece[missing:])
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def cancelled(self):
        """Whether the client has gone or the deadline is over; looks at the sockets without waiting."""
        for link in () if self._reset else {self._source, self._link or self._source}:
            if not self._pieces or link.kind != "own":  # what is behind a body that nobody reads stays in the kernel
                self._look(link, MSG_DONTWAIT)
        return self._reset != 0

    def log(self, text, level="info"):
        """Writes a log line that belongs to this request; `level` is one of LEVELS."""
        link = self._link or self._source  # P-24: where the answer goes
        link.send(frame(LOG, 0, self._exchange, bytes((LEVELS.index(level) + 1,)) + cut(text)))

    def inform(self, headers, status=103):
        """Sends an interim answer, such as 103 with `link` fields, before the answer proper."""
        self._send(INFO, response_head(status, fields(headers), 100, 199))

    def _look(self, link, how):
        try:
            link.look(how)
        except (EOFError, OSError):  # P-34
            self._reset = self._reset or CANCELLED

    def _piece(self):
        while not self._pieces and not self._ended:
            if self._reset:
                raise Cancelled
            self._look(self._source, 0)
        return self._pieces.pop(0) if self._pieces else b""

    def _send(self, kind, head, data=b"", flags=0):
        """Sends a frame of `kind`, and DATA frames for what does not fit it; each only while somebody waits for it."""
        link = self._link or self._source.branch(self)
        view, room = memoryview(data), MAX_FRAME - len(head)
        if room < 0:
            raise ValueError(f"a head of {len(head)} bytes does not fit a frame of {MAX_FRAME}")
        while True:
            if self.cancelled():
                raise Cancelled
            part, view = view[:room], view[room:]
            if flags and not view:
                self._source.final(self)
            header = HEADER.pack(len(head) + len(part), kind, 0 if view else flags, self._exchange)
            link.send(b"".join((header, head, part)))
            self._begun, self._responded = True, self._responded or kind != INFO
            if not view:
                return
            kind, head, room = DATA, b"", MAX_FRAME

    def _write(self, head, piece, flags=0):
        self._send(*((DATA, b"") if self._responded else (RESPONSE, head)), piece, flags)

    def _answer(self, status, headers, body, trailers=None):
        """Returns the answer as bytes if it is one frame, else sends it and returns nothing."""
        block = fields(headers)
        if isinstance(body, (str, list, tuple)):
            body = body.encode() if isinstance(body, str) else b"".join(body)
        whole = isinstance(body, bytes)
        if whole and not self._ended:
            self._source.out.append(frame(STOP, 0, self._exchange))  # P-21: nobody will read the rest
        if whole and trailers is None and not self._responded:
            if len(block) + len(body) <= MAX_FRAME - 8 and self._link in (None, self._source):
                return frame(RESPONSE, END, self._exchange, response_head(status, block) + body)
            if b"\0content-length\0" not in b"\0" + block:
                block += b"content-length\0%d\0" % len(body)
        head = response_head(status, block)
        if whole and trailers is None:
            self._write(head, body, END)
            return b""
        for piece in (body,) if whole else body:
            if piece:
                self._write(head, piece)
        if trailers is None or not self._responded:
            self._write(head, b"", END if trailers is None else 0)
        if trailers is not None:
            self._send(TRAILERS, fields(trailers() if callable(trailers) else trailers), b"", END)
        return b""

    def _fail(self, failure):
        """The final frame of an answer that was not, or not all, sent (P-16, P-26)."""
        code = self._reset or (INTERNAL if self._begun and isinstance(failure, Refused) else failure.code)
        final = reset(self._exchange, code, failure, failure.retry_after)
        if not self._begun or self._link is self._source:
            return final
        self._source.final(self)
        try:
            self._link.send(final)
        except Cancelled:
            pass  # P-34: the end of the connection says it as well
        return b""
