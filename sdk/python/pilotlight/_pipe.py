"""The core of the SDK: the connections of an instance and their threads.

The threads of a shared connection take turns: one reads a batch, then all answer what is in the queue; whoever finds it
empty sends what is finished and waits to read. So quick answers leave together, and none waits for a slow handler: a
thread that takes a request while no other is idle starts one or, at the limit, first sends what is finished. An own
connection has one thread. An answer connection has none: it belongs to the thread that streams, and another one takes
that thread's place.
Invariant: of a body, what one read brings is all that is held in memory in each direction.
Modules with an underscore are those below `socket`, `signal`, `struct` and `threading`: they save 10 ms of a start.
`_socket` is loaded with the first socket of Python's, 0.7 ms later: the compiled core has none until a stream needs it.
"""

import sys
from _signal import SIGINT, SIGTERM, set_wakeup_fd, signal
from _thread import allocate_lock, start_new_thread
from posix import environ, getpid, pipe, read, set_blocking, write
from time import monotonic, sleep

from ._core import native
from ._request import Reset
from ._upgrade import MINOR, Request, drain, respond
from ._wire import (
    CANCELLED, DATA, DRAIN, END, HEADER, HELLO, IGNORABLE, INTERNAL, LOG, MAX_FRAME, MAX_HELLO, MORE, NUMBERS, PING, PONG,
    PROTOCOL, REFUSED, REQUEST, RESET, TRAILERS, WELCOME, Headers, Violation, check, frame, parse, reset,
)

__version__ = "0.1.0"
MAX_SHARED, MAX_AT_ONCE = 256, 4_096  # connections; each of threads, exchanges and own connections
GATEWAY_DRAIN_SECONDS, REST_POLL_SECONDS = 1.0, 0.01  # after SIGTERM: for the gateway's DRAIN; then for open exchanges


class Link:
    """One connection to the gateway: shared, own or answer."""

    def __init__(self, service, kind, worker=None):
        self.service, self.kind, self.worker, self.max_frame, self.closed = service, kind, worker, MAX_HELLO, False
        self.rules, self.tail, self.open, self.queue = RULES["new"], b"", {}, []
        self.reading, self.sending, self.answers = allocate_lock(), allocate_lock(), []
        self.idle, self.spare = [], [None] * (service.threads - 1 if kind == "shared" else 0)  # threads
        self.out, self.sealed = [], False
        self.sock = self.connect()
        hello = f"PIPE/1\ntoken={service.token}\nkind={kind}\nsdk=pilotlight-python/{__version__}\npid={getpid()}\n"
        hello += f"exchanges={service.exchanges}\nmax_own={service.limits['own']}\n" if kind == "shared" else ""
        hello += f"minor={MINOR}\n" + ("" if worker is None else f"worker={worker}\n")
        self.out.append(frame(HELLO, 0, 0, hello.encode()))  # P-1; a thread sends it, or the first frame does

    def connect(self):
        """The socket."""
        from _socket import AF_UNIX, MSG_DONTWAIT, SOCK_STREAM, socket

        self.at_once = MSG_DONTWAIT
        sock = socket(AF_UNIX, SOCK_STREAM)
        sock.connect(self.service.path)
        return sock

    def begin(self):
        """Starts the first thread of this connection."""
        start_new_thread(self.tend, ())  # which says HELLO

    def tend(self):
        """A thread of this connection: answers what is waiting, else reads; until the connection or a stream ends."""
        while self.queue or not self.closed:
            try:
                request = self.queue.pop(0)
            except IndexError:
                self.send()
                self.idle.append(None)
                with self.reading:
                    if not self.queue:  # nobody has read in the meantime
                        self.send()
                        self.read()
                self.idle.pop()
                continue
            if not self.idle:
                try:
                    self.spare.pop()
                    start_new_thread(self.tend, ())
                except (IndexError, RuntimeError):  # there are enough, or as many as the system allows
                    self.send()  # nobody else would while the handler blocks
            self.answer(request)
            if request._link is not self:
                return self.answers.append(request._link)  # `branch` has started a thread in the place of this one

    def answer(self, request):
        """Runs the handler and sends what it returns; whatever it raises, only this exchange ends by it."""
        try:
            request._wait(0)  # raises if it has been cancelled, or refused
            respond(request, self.service.handle)
        except BaseException as error:
            self.give_up(request, error)
        self.service.busy.pop()

    def give_up(self, request, error):
        """Ends an exchange by what its handler has raised."""
        if not isinstance(error, Reset):
            sys.excepthook(type(error), error, error.__traceback__)
            error = Reset(f"{type(error).__name__} in the handler")
        if not request._done:
            request._finish()
            code = request._reset or (INTERNAL if request._begun else error.code)  # P-29: no REFUSED after a frame
            request._link.send(reset(request._exchange, code, error, error.retry_after))

    def branch(self, request):
        """An answer connection (P-24), idle (P-25) or new; another thread takes the place of the one that streams."""
        with self.service.lock:
            link = self.answers.pop() if self.answers else None
        if link:
            link.look(now=True)  # its WELCOME, perhaps, or its end
        if not link or link.closed:
            link = Link(self.service, "answer", self.worker)
        link.open = {request._exchange: request}
        self.replace()
        return link

    def replace(self):
        """Another thread for that of a handler which streams from now on."""
        start_new_thread(self.tend, ())

    def look(self, now=False):
        """Reads once, if no thread does, for a handler that waits, or asks what there is now."""
        if self.reading.acquire(False):
            self.read(now)
            self.reading.release()

    def read(self, now=False):
        """Reads once and handles the frames that are whole; closes at the end of the stream and at a violation."""
        try:
            data = self.sock.recv(MAX_FRAME, self.at_once if now else 0)
            if not data:
                raise ConnectionError
            data, start = self.tail + data, 0
            while len(data) - start >= HEADER.size:
                size, kind, flags, exchange = HEADER.unpack_from(data, start)
                check(size <= self.max_frame, "P-6: a frame of {} bytes, the limit is {}", size, self.max_frame)
                begin, end = start + HEADER.size, start + HEADER.size + size
                if end > len(data):
                    break
                self.frame(kind, flags, exchange, data[begin:end])
                start = end
            self.tail = data[start:]
        except Exception as error:
            if not isinstance(error, BlockingIOError):
                self.close(error)

    def frame(self, kind, flags, exchange, payload):
        """Handles one frame."""
        if kind == RESET and not exchange:
            raise OSError(f"the gateway says: {str(payload[NUMBERS.size :], 'utf-8', 'replace')}")
        known, on_frame = HELLO <= kind <= LOG, self.rules.get(kind)
        check(on_frame or not known, "P-11: type {} on a connection of kind {}, or too early", kind, self.kind)
        check(known or flags & IGNORABLE, "P-7: a frame of the unknown type {}", kind)
        if known:
            on_frame(self, kind, flags, exchange, payload)

    def on_welcome(self, kind, flags, exchange, payload):
        keys = dict(line.partition(b"=")[::2] for line in payload.split(b"\n"))
        check(keys.keys() >= {b"PIPE/1", b"worker", b"max_frame"}, "P-3: not a WELCOME of PIPE/1: {!r:.200}", payload)
        self.worker, self.max_frame = int(keys[b"worker"]), max(int(keys[b"max_frame"]), MAX_FRAME)
        self.rules, self.minor = RULES[self.kind], int(keys.get(b"minor", 0))
        self.welcomed()

    def welcomed(self):
        """The gateway has accepted this connection."""

    def on_request(self, kind, flags, exchange, payload):
        check(self.kind == "shared" or not self.open, "P-19: REQUEST before the exchange before it has ended")
        check(self.kind == "own" or flags & END, "P-14: REQUEST without END on a shared connection")
        check(len(self.open) < self.service.exchanges, "P-14: more than {} exchanges at once", self.service.exchanges)
        check(exchange and exchange not in self.open, "P-15: the exchange id {} is 0 or open", exchange)
        request = self.open[exchange] = Request(self, exchange, flags, payload)
        request._reset = REFUSED if self.service.draining else 0  # P-31
        self.service.busy.append(None)
        self.queue.append(request)

    def on_part(self, kind, flags, exchange, payload):
        request = self.open.get(exchange)
        check(kind == RESET or request and not request._ended, "P-11: type {}, exchange {} not open", kind, exchange)
        if not request:
            return  # P-26: it has ended
        check(request._begun or not request._offered, "P-39: type {} before the answer to an offered switch", kind)
        if kind == RESET:
            request._reset = NUMBERS.unpack_from(payload)[0] or CANCELLED
        elif kind == TRAILERS:
            request.trailers = Headers.of(parse(payload))
        elif not request._done:
            request._ahead += payload
        request._ended = request._ended or kind != DATA or flags & END
        if request._done and request._ended:
            self.open.pop(exchange, None)  # the thread that answers may have been quicker

    def on_ping(self, kind, flags, exchange, payload):
        self.send(frame(PONG, 0, 0, payload))  # P-35

    def on_drain(self, kind, flags, exchange, payload):
        self.service.draining = self.service.released = True
        self.service.ring()

    def on_more(self, kind, flags, exchange, payload):
        wanted, count, worker = NUMBERS.unpack_from(payload)
        self.service.dial({1: "own", 2: "shared"}[wanted], count, worker)

    def send(self, *frames):
        """Sends these frames and all that are finished, at once (P-18)."""
        self.out += frames
        try:
            with self.sending:
                ready = [] if self.sealed else self.out[:]
                if ready:
                    self.sock.sendall(b"".join(ready))
                    del self.out[: len(ready)]
        except OSError as error:
            self.close(error)

    def send_last(self, frame):
        """Sends a frame behind which none is sent (P-10): a handler may end at the same time."""
        with self.sending:
            self.sealed = True
            self.sock.sendall(b"".join([*self.out, frame]))

    def close(self, error):
        """Ends the connection and its exchanges (P-34) and says why (P-10); the last shared one ends the service."""
        if self.closed:
            return
        self.closed = True
        for request in list(self.open.values()):
            request._reset, request._ended = request._reset or CANCELLED, True
        text = error if isinstance(error, (OSError, Violation)) else f"P-11: a malformed frame: {error!r}"
        try:
            isinstance(error, OSError) or self.send_last(reset(0, PROTOCOL, text))
            self.hang_up()
            if not isinstance(error, ConnectionError):
                sys.stderr.write(f"pilotlight: {self.kind} connection closed: {text}\n")
        except OSError:
            pass  # the gateway was quicker
        self.service.links.discard(self)
        if self.kind == "shared" and self.service.bell is not None and not self.service.of_kind("shared"):
            self.service.ended = 0 if isinstance(error, ConnectionError) else 1  # P-33
            self.service.ring()

    def hang_up(self):
        self.sock.shutdown(2)  # SHUT_RDWR


# P-11: what the gateway may send on each kind of connection, besides RESET on exchange 0
EXCHANGES = {REQUEST: Link.on_request, RESET: Link.on_part, PING: Link.on_ping}
RULES = {"new": {WELCOME: Link.on_welcome}, "answer": {}}
RULES["shared"] = {**EXCHANGES, MORE: Link.on_more, DRAIN: Link.on_drain}
RULES["own"] = {**EXCHANGES, DATA: Link.on_part, TRAILERS: Link.on_part}


class Service:
    """This instance: what its connections share."""

    def __init__(self, handle, path, token, threads, exchanges, max_own, max_body, max_upgraded):
        self.handle, self.path, self.token, self.threads, self.exchanges = handle, path, token, threads, exchanges
        self.limits, self.max_body = {"own": max_own, "shared": MAX_SHARED, "upgraded": max_upgraded}, max_body
        self.links, self.busy, self.ear, self.bell = set(), [], None, None  # busy: an entry for each open exchange
        self.lock, self.draining, self.released, self.ended = allocate_lock(), False, False, None
        self.core, self.kinds = None, {}  # the compiled core, and the class of its links
        if native:
            from . import _fast

            _fast.equip(self)

    def dial(self, kind, count, worker=None):
        """Opens `count` connections of a kind, never more than its limit (P-23), and starts their threads."""
        with self.lock:
            try:
                for _ in range(min(count, self.limits[kind] - len(self.of_kind(kind)))):
                    link = (self.kinds.get(kind) or Link)(self, kind, worker)
                    self.links.add(link)
                    with link.reading:  # until all is there that the gateway's frames need
                        link.begin()
                        self.ear is None and self.prepare()
            except OSError as error:
                sys.stderr.write(f"pilotlight: cannot dial the gateway at {self.path}: {error}\n")
            except RuntimeError as error:  # the system's limit of threads
                link.close(OSError(str(error)))

    def prepare(self):
        """What does not need to be there before the gateway is told (P-1): done while it answers."""
        self.ear, self.bell = pipe()
        set_blocking(self.bell, False)
        set_wakeup_fd(self.bell, warn_on_full_buffer=False)  # a signal may land in another thread
        for number in (SIGTERM, SIGINT):
            signal(number, lambda *_: None)
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(line_buffering=True)  # standard output is the log

    def ring(self):
        """Wakes `serve`."""
        write(self.bell, b"\0")

    def of_kind(self, kind):
        return [link for link in list(self.links) if link.kind == kind]

    def at_rest(self):
        """Whether every exchange has ended and every answer has been sent; asks in this order."""
        return not self.busy and not any(link.out for link in list(self.links))


def serve(handle, threads=8, exchanges=64, max_own=64, max_body=64 << 20, max_upgraded=1024):
    """Answers requests with `handle(request)` until the gateway or SIGTERM ends the service; then returns.

    `handle` returns `(status, headers, body)`, or those and trailers. Headers and trailers are pairs or a dict; a body
    is bytes, str, a list or tuple of bytes, or an iterable of bytes, which is streamed and closed.

    `threads` is how many handlers run at once on a shared connection, of which the gateway asks for one for each of
    its workers; streams do not count. `exchanges` is how many requests such a connection takes before they are
    answered, `max_own` how many large or streamed requests run at once (1-4096 each), `max_body` what `request.body`
    reads at most, in bytes, `max_upgraded` how many connections may have switched to another protocol
    (`request.upgrade`), each with a thread. It takes over SIGTERM and SIGINT, so it runs in the main thread.
    """
    fit = all(1 <= number <= MAX_AT_ONCE for number in (threads, exchanges, max_own))
    check(fit, "threads={}, exchanges={}, max_own={}: each must be 1 to {}", threads, exchanges, max_own, MAX_AT_ONCE)
    path, token = environ.get(b"PILOTLIGHT_SOCKET"), environ.get(b"PILOTLIGHT_TOKEN")
    if not path or not token:
        sys.stderr.write(f"pilotlight: PILOTLIGHT_SOCKET is not set.\n{sys.modules[__package__].__doc__ or ''}")
        raise SystemExit(2)
    service = Service(handle, path.decode(), token.decode(), threads, exchanges, max_own, max_body, max_upgraded)
    service.dial("shared", 1)
    if not service.links:
        raise SystemExit(1)
    told = read(service.ear, 1)[0]  # a signal's number; 0: the gateway has said DRAIN, or is gone
    service.draining, until = True, monotonic() + GATEWAY_DRAIN_SECONDS
    for link in service.of_kind("shared") if told else ():
        link.send(frame(DRAIN, 0, 0, bytes(4)))  # P-32
    drain(service)
    while service.ended is None and not (service.at_rest() and (service.released or monotonic() > until)):
        sleep(REST_POLL_SECONDS)
    if service.core:
        service.core.leave()
    if service.ended:
        raise SystemExit(service.ended)
