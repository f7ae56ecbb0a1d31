"""Answers HTTP requests for Pilotlight over Pipe/1 (docs/spec/pipe.md), without a web server and without dependencies.

    import pilotlight
    pilotlight.serve(lambda request: (200, {"content-type": "text/plain"}, "hello"))

`_exchange` knows one exchange, `_link` the connections and their threads, this module the instance and its end.
Invariant: of a body, what one read brings is all that is held in memory in each direction.
The modules with an underscore are those below `socket`, `signal` and `threading`: they save 10 ms of a cold start.
"""

import sys
from _signal import SIGINT, SIGTERM, set_wakeup_fd, signal
from _socket import MSG_DONTWAIT, socketpair
from _thread import allocate_lock, start_new_thread
from posix import environ, getpid

from ._exchange import (
    DRAIN,
    DRAIN_BODY,
    Cancelled,
    Headers,
    Overloaded,
    Refused,
    Request,
    Reset,
    TooLarge,
    Violation,
    frame,
)
from ._link import Link

__version__ = "0.1.0"
__all__ = ["Cancelled", "Headers", "Overloaded", "Refused", "Request", "Reset", "TooLarge", "serve"]

MAX_SHARED = 256
GATEWAY_DRAIN_SECONDS = 1.0
NOT_STARTED = """pilotlight: PILOTLIGHT_SOCKET is not set: the gateway starts this program, it does not run by itself.
Add this to pilotlight.toml and run `pilotlight`:

    [services.NAME]
    command = ["python3", "{}"]
    transport = "pipe"

    [[routes]]
    path = "/"
    service = "NAME"
"""


class _Service:
    """This instance: what all connections share, and how it ends."""

    def __init__(self, handle, path, token, threads, exchanges, max_own, max_body):
        self.handle, self.path, self.token, self.threads = handle, path, token, threads
        self.exchanges, self.max_own, self.max_body = exchanges, max_own, max_body
        self.lock, (self.ear, self.bell) = allocate_lock(), socketpair()
        self.bell.setblocking(False)
        self.gate = allocate_lock() if threads == 1 else None  # one handler at a time, own connections included
        self.links, self.busy, self.answers = set(), [], {}
        self.draining = self.terminated = self.released = self.ended = False
        self.failure = None

    def say(self, text):
        try:
            sys.stderr.write(f"pilotlight: {text}\n")
        except (OSError, ValueError, AttributeError):
            pass  # standard error is closed: nobody can be told

    def hello(self, kind, worker):
        lines = [f"PIPE/1\ntoken={self.token}\nkind={kind}\nsdk=pilotlight-python/{__version__}\npid={getpid()}\n"]
        lines += [] if worker is None else [f"worker={worker}\n"]
        lines += [f"exchanges={self.exchanges}\nmax_own={self.max_own}\n"] if kind == "shared" else []
        return "".join(lines).encode()

    def dial(self, kind, worker=None):
        link = Link(self, kind, worker)
        self.links.add(link)
        start_new_thread(link.tend, ())

    def more(self, kind, count, worker):
        """Dials what the gateway asks for (P-23)."""
        if kind not in (1, 2):
            raise Violation(f"P-11: MORE of the unknown kind {kind}")
        name, limit = ("own", self.max_own) if kind == 1 else ("shared", MAX_SHARED)
        with self.lock:
            have = sum(link.kind == name for link in self.links)
            for _ in range(0 if self.draining else min(count, limit - have)):
                try:
                    self.dial(name, worker)
                except (OSError, RuntimeError) as error:
                    return self.say(f"cannot open the {name} connection that the gateway asks for: {error}")

    def answer_link(self, worker):
        """A connection for an answer: one that is idle and alive (P-25), or a new one."""
        idle = self.answers.setdefault(worker, [])
        while idle:
            try:
                link = idle.pop()
                while link.look(MSG_DONTWAIT):  # its WELCOME, perhaps, and then its end
                    pass
                return link
            except (IndexError, EOFError, OSError):
                pass  # another thread took it, or the gateway has closed it
        return Link(self, "answer", worker)

    def keep(self, link):
        """For later answers (P-25). There are never more than `exchanges` for a shared connection."""
        link.open = {}
        self.answers.setdefault(link.worker, []).append(link)

    def answer(self, request):
        """Runs the handler; returns the frames that are still to be sent, nothing if all are."""
        if not self.gate:
            return self.run(request)
        with self.gate:
            return self.run(request)

    def run(self, request):
        body, failure = None, None
        try:
            if request._reset:
                raise Cancelled
            answer = self.handle(request)
            if not isinstance(answer, tuple) or not 3 <= len(answer) <= 4:
                raise TypeError(f"a handler returns (status, headers, body) or those and trailers, not {answer!r:.80}")
            body = answer[2]
            frames = request._answer(*answer)
        except Reset as reset:
            failure = reset
        except Violation:
            raise
        except BaseException as error:  # whatever it is, only this exchange ends by it
            sys.excepthook(type(error), error, error.__traceback__)
            failure = Reset(f"{type(error).__name__} in the handler")
        try:
            if hasattr(body, "close"):
                body.close()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
        return request._fail(failure) if failure else frames

    def lost(self, link, error):
        """A connection has ended; the last shared one ends the service (P-33)."""
        with self.lock:
            if link not in self.links:
                return  # another of its threads was quicker
            self.links.discard(link)
            last = not any(other.kind == "shared" for other in self.links)
        link.close(error)
        if last:
            self.failure = error
            self.end()

    def at_rest(self):
        return not self.busy and not any(link.queue or link.out for link in list(self.links))

    def rest(self):
        """Ends the service if the gateway has said DRAIN and nothing is open any more (P-31)."""
        if self.released and self.at_rest():
            self.end()

    def end(self):
        if not self.ended:
            self.ended = True
            self.bell.send(b"!")

    def terminate(self, *_):
        self.draining = self.terminated = True

    def wait(self):
        """Waits for the end; after SIGTERM says DRAIN (P-32) and finishes what is open."""
        try:
            set_wakeup_fd(self.bell.fileno(), warn_on_full_buffer=False)  # a signal may land in another thread
            for number in (SIGTERM, SIGINT):
                signal(number, self.terminate)
        except ValueError:
            pass  # not the main thread: signals are the program's own affair
        while not self.ended:
            if self.terminated and self.ear.gettimeout() is None:
                self.ear.settimeout(GATEWAY_DRAIN_SECONDS)
                self.say_drain()
            try:
                self.ear.recv(1)
            except OSError:  # the time is over: go, whether the gateway has answered with DRAIN or not
                self.ended = self.at_rest()

    def say_drain(self):
        for link in [link for link in self.links if link.kind == "shared"]:
            try:
                link.send(frame(DRAIN, 0, 0, DRAIN_BODY.pack(0)))
            except Cancelled:
                pass  # it has just ended, as its own thread sees


def serve(handle, threads=8, exchanges=64, max_own=64, max_body=64 << 20):
    """Answers requests with `handle(request)` until the gateway or SIGTERM ends the service; then returns.

    `handle` returns `(status, headers, body)`, or those and trailers: headers and trailers are pairs or a dict
    (trailers also a function that returns them when the body is through); the body is bytes, str, a list or tuple of
    bytes, or an iterable of bytes, which is streamed and closed.

    `threads` is how many handlers run at once on a shared connection, of which the gateway asks for one for each of
    its workers; 1 means one handler at a time in the whole process. `exchanges` is how many requests such a connection
    takes before they are answered, `max_own` how many large or streamed requests run at once (1–4096 each), `max_body`
    what `request.body` reads at most, in bytes.
    """
    for name, value in (("threads", threads), ("exchanges", exchanges), ("max_own", max_own)):
        if not 1 <= value <= 4096:
            raise ValueError(f"{name} is {value}, it must be 1 to 4096")
    path, token = environ.get(b"PILOTLIGHT_SOCKET"), environ.get(b"PILOTLIGHT_TOKEN")
    if not path or not token:
        sys.stderr.write(NOT_STARTED.format(sys.argv[0]))
        raise SystemExit(2)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # standard output is the log
    service = _Service(handle, path, token.decode(), threads, exchanges, max_own, max_body)
    try:
        service.dial("shared")
    except OSError as error:
        sys.exit(f"pilotlight: cannot dial the gateway at {path.decode(errors='replace')}: {error}")
    service.wait()
    if service.failure:
        sys.exit(1)
