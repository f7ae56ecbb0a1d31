"""The connections of Pipe/1 and the threads that serve them (§3–§8 of docs/spec/pipe.md).

All threads of a connection run `Link.work`: one leads (it reads a batch, then lets another lead), the others answer;
whoever finds no more work sends what is finished. So quick answers leave together, and none waits for a slow handler:
whoever takes a request while no thread is idle starts one, or else sends what is finished first.
An own connection has one thread, an answer connection none: it belongs to the thread that streams.
"""

from _collections import deque
from _socket import AF_UNIX, SHUT_RDWR, SOCK_STREAM, socket
from _thread import allocate_lock, start_new_thread

from ._exchange import (
    CANCELLED,
    DATA,
    DRAIN,
    END,
    HEADER,
    HELLO,
    IGNORABLE,
    LOG,
    MAX_FRAME,
    MORE,
    MORE_BODY,
    PING,
    PONG,
)
from ._exchange import PROTOCOL, REFUSED, REQUEST, RESET, RESET_HEAD, TRAILERS, WELCOME
from ._exchange import Cancelled, Request, Reset, Violation, frame, pairs, reset, strings, unpack

MAX_HELLO = 4_096
RECEIVE_BYTES = 65_536


class Link:
    """One connection to the gateway, of one of the three kinds."""

    def __init__(self, service, kind, worker=None):
        self.service, self.kind, self.worker, self.tail, self.max_frame = service, kind, worker, b"", 0
        self.open, self.queue, self.out, self.idle = {}, deque(), [], [None]  # idle: one entry for each waiting thread
        self.reading, self.sending, self.counting = allocate_lock(), allocate_lock(), allocate_lock()
        self.spare = service.threads - 1 if kind == "shared" else 0  # threads that may still be started
        self.sock = socket(AF_UNIX, SOCK_STREAM)
        self.sock.connect(service.path)
        self.sock.sendall(frame(HELLO, 0, 0, service.hello(kind, worker)))

    def tend(self):
        """A thread of this connection, to the end of either; the first to see the connection's end closes it."""
        error = None
        try:
            return self.work()
        except (EOFError, Cancelled):
            pass
        except (Exception, Violation) as caught:
            error = caught
        return self.service.lost(self, error)

    def work(self):
        service, queue = self.service, self.queue
        while True:
            with self.reading:
                while not queue:
                    self.flush()
                    service.rest()
                    self.dispatch(self.receive())
            service.busy.append(None)
            self.idle.pop()
            while queue:
                try:
                    request = queue.popleft()
                except IndexError:  # another thread was quicker
                    break
                if not self.idle and service.threads > 1:
                    self.relieve()
                self.answer(request)
            self.flush()
            with self.counting:
                surplus = self.spare < 0
                self.spare += surplus
                if not surplus:
                    self.idle.append(None)
            service.busy.pop()
            service.rest()
            if surplus:
                return

    def relieve(self):
        """No thread is idle: starts one or, when there are enough, sends what is finished before a handler blocks."""
        with self.counting:
            start = self.spare > 0 and self.service.threads > 1
            self.spare -= start
        if start:
            self.idle.append(None)
            try:
                start_new_thread(self.tend, ())
            except RuntimeError as error:  # the system's limit: the threads there are have to do
                self.idle.pop()
                self.service.say(f"{error} to answer on a shared connection")
        self.flush()

    def receive(self, how=0):
        """Reads once; returns the whole frames that have come. Raises EOFError at the end of the stream."""
        data = self.sock.recv(RECEIVE_BYTES, how)
        if not data:
            raise EOFError
        data = self.tail + data
        frames, start, end = [], 0, len(data)
        while end - start >= 8:
            size, kind, flags, exchange = HEADER.unpack_from(data, start)
            if size > (self.max_frame or MAX_HELLO):
                raise Violation(f"P-6: a frame of {size} bytes, the limit is {self.max_frame or MAX_HELLO}")
            stop = start + 8 + size
            if stop > end:
                break
            payload = data[start + 8 : stop]
            if kind == RESET and not exchange:
                raise OSError(f"the gateway says: {str(payload[8:], 'utf-8', 'replace')}")
            if not 0 < kind <= LOG:
                if not flags & IGNORABLE:
                    raise Violation(f"P-7: a frame of the unknown type {kind}")
            elif self.max_frame:
                frames.append((kind, flags, exchange, payload))
            else:
                self.welcome(kind, payload)
            start = stop
        self.tail = data[start:]
        return frames

    def welcome(self, kind, payload):
        version, *lines = str(payload, "utf-8", "replace").split("\n")
        keys = dict(line.partition("=")[::2] for line in lines)
        worker, max_frame = keys.get("worker", ""), keys.get("max_frame", "")
        if kind != WELCOME or version != "PIPE/1" or not worker.isdigit() or not max_frame.isdigit():
            raise Violation("P-3: the first frame is not a WELCOME of PIPE/1 with worker and max_frame")
        self.worker, self.max_frame = int(worker), max(int(max_frame), MAX_FRAME)

    def dispatch(self, frames):
        for kind, flags, exchange, payload in frames:
            request = self.open.get(exchange)
            if kind == RESET:
                if request:  # P-26: else it has ended
                    request._reset = unpack(RESET_HEAD, payload)[0] or CANCELLED
            elif self.kind == "answer":
                raise Violation(f"P-25: a frame of type {kind} on an answer connection")
            elif kind == REQUEST:
                self.begin(exchange, flags, payload)
            elif kind == PING:
                self.out.append(frame(PONG, 0, 0, payload))  # P-35
            elif kind in (DATA, TRAILERS) and request and not request._ended:
                request._ended = flags & END or kind == TRAILERS
                if kind == TRAILERS:
                    request.trailers = pairs(strings(payload))
                elif payload and not request._done:
                    request._pieces.append(payload)
                if request._ended and request._done:
                    del self.open[exchange]
            elif kind in (DATA, TRAILERS) and request and request._reset:
                pass  # P-26: it crossed the RESET
            elif kind == MORE and self.kind == "shared":
                self.service.more(*unpack(MORE_BODY, payload))
            elif kind == DRAIN and self.kind == "shared":
                self.service.draining = self.service.released = True
            else:
                raise Violation(
                    f"P-11: a frame of type {kind} for exchange {exchange} on a connection of kind {self.kind}"
                )

    def begin(self, exchange, flags, payload):
        if self.kind == "own":
            if any(not (request._done and (request._ended or request._reset)) for request in self.open.values()):
                raise Violation("P-19: REQUEST before the exchange before it has ended")
            self.open.clear()
        elif not flags & END or len(self.open) >= self.service.exchanges:
            raise Violation(f"P-14: REQUEST without END, or the {len(self.open) + 1}th on a shared connection")
        if not exchange or exchange in self.open:
            raise Violation(f"P-15: REQUEST with the exchange id {exchange}, which is 0 or open")
        request = self.open[exchange] = Request(self, exchange, flags, payload)
        request._reset = REFUSED if self.service.draining else 0  # P-31
        self.queue.append(request)

    def look(self, how):
        """Reads once, if no thread leads, for a handler that waits or asks; returns whether it read anything."""
        if self.reading.acquire(False):
            try:
                self.dispatch(self.receive(how))
                return True
            except BlockingIOError:
                pass
            except Violation as error:
                if self.kind != "answer":
                    raise
                self.close(error)
                raise EOFError from error
            finally:
                self.reading.release()
                if self.out or (self.queue and not self.idle):
                    self.relieve()
        return False

    def answer(self, request):
        answer = self.service.answer(request)
        self.final(request)
        if answer:
            self.out.append(answer)
        if request._link not in (None, self):
            self.service.keep(request._link)
            with self.counting:
                self.spare -= 1

    def final(self, request):
        """The final frame is about to be sent: the gateway may use the id again as soon as it sees it."""
        request._done = True
        if request._ended:
            self.open.pop(request._exchange, None)

    def branch(self, request):
        """An answer connection for `request` (P-24); one more thread may take the place of the one that streams."""
        try:
            link = request._link = self.service.answer_link(self.worker)
        except OSError as error:
            raise Reset(f"no answer connection: {error}") from error
        link.open = {request._exchange: request}
        with self.counting:
            self.spare += 1
        if not self.idle:
            self.relieve()
        return link

    def send(self, data):
        self.out.append(data)
        self.flush()

    def flush(self):
        """Sends all finished frames at once (P-18); a connection that takes no more is a cancelled exchange (P-34)."""
        if self.out:
            with self.sending:
                frames = self.out[:]
                try:
                    self.sock.sendall(b"".join(frames))
                except OSError as error:
                    raise Cancelled("the gateway has closed the connection") from error
                del self.out[: len(frames)]  # only now, for `at_rest`

    def close(self, error=None):
        """Closes; says which rule the gateway broke, if any (P-10)."""
        with self.sending:  # nobody else may use the number of a closed socket
            try:
                if isinstance(error, Violation):
                    self.sock.sendall(reset(0, PROTOCOL, error))
                self.sock.shutdown(SHUT_RDWR)
            except OSError:
                pass  # the gateway was quicker
            self.sock.close()
        if error:
            self.service.say(f"{self.kind} connection closed: {error!r:.1000}")
