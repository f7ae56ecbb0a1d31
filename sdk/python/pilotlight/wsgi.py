"""Runs an unmodified WSGI application (PEP 3333) as a service: `python -m pilotlight.wsgi package.module:app`.

An answer whose content-length is at most SMALL_BYTES, or that is a list or a tuple, goes out whole; any other is
streamed as the application yields it. The application's iterable is always closed.
"""

import sys

from _thread import allocate_lock

from ._app import command_line, host_and_port, load, misused, unquote
from ._core import native
from ._pipe import serve
from ._wire import fields, response_head

SMALL_BYTES = 60_000  # with its head, an answer of this size still fits one frame
FILE_BLOCK_BYTES = 65_536
NOT_MOUNTED = "nothing is mounted here\n"
MAX_NAMES = 1_024  # header names whose environ key is remembered
FORBIDDEN = {"connection", "keep-alive", "proxy-authenticate", "te", "trailers", "transfer-encoding", "upgrade"}
USAGE = """usage: python -m pilotlight.wsgi MODULE:APP [--threads N] [--mount PREFIX]

MODULE:APP       where the application is; APP may be a dotted name, and is `application` if left out
--threads N      handlers at once on a shared connection (default 8); 1: one request at a time
--mount PREFIX   the path below which the application lives: its SCRIPT_NAME
"""


class Input:
    """wsgi.input: the request's body as a file, read as it arrives."""

    def __init__(self, request):
        self._request, self._ahead = request, b""

    def read(self, size=-1):
        if size is None or size < 0:
            data, self._ahead = self._ahead + self._request.read(), b""
        elif len(self._ahead) >= size:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data, self._ahead = self._ahead + self._request.read(size - len(self._ahead)), b""
        return data

    def readline(self, size=-1):
        limit = sys.maxsize if size is None or size < 0 else size
        pieces, length = [], 0
        while length < limit:
            piece = self._ahead or next(self._request.stream(), b"")
            if not piece:
                self._ahead = b""
                break
            cut = piece.find(b"\n", 0, limit - length) + 1 or min(len(piece), limit - length)
            line, self._ahead = piece[:cut], piece[cut:]
            pieces.append(line)
            length += len(line)
            if line.endswith(b"\n"):
                break
        return b"".join(pieces)

    def readlines(self, hint=-1):
        lines, total = [], 0
        for line in self:
            lines.append(line)
            total += len(line)
            if hint is not None and 0 < hint <= total:
                break
        return lines

    def __iter__(self):
        while line := self.readline():
            yield line


class FileWrapper:
    """wsgi.file_wrapper: a file as blocks."""

    def __init__(self, file, block_bytes=FILE_BLOCK_BYTES):
        self._file, self._block_bytes = file, block_bytes
        if hasattr(file, "close"):
            self.close = file.close

    def __iter__(self):
        while block := self._file.read(self._block_bytes):
            yield block


class Call:
    """One call of the application: what `start_response` was told, and the body."""

    def __init__(self, request):
        self.request, self.status, self.headers = request, 0, None

    def start_response(self, status, headers, exc_info=None):
        if exc_info:
            try:
                if self.request._begun:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # no cycle through the traceback
        elif self.headers is not None:
            raise AssertionError("start_response was called before; a second call needs exc_info")
        if not isinstance(status, str) or not status[:3].isdigit() or status[3:4] not in ("", " "):
            raise ValueError(f"the status is {status!r:.80}, it must be like '200 OK'")
        for name, value in headers:
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError(f"the header {name!r:.80} and its value must be str")
            if name.lower() in FORBIDDEN:
                raise ValueError(f"the header {name} belongs to the connection, not to an application (PEP 3333)")
        self.status, self.headers = int(status[:3]), list(headers)
        return self.write

    def write(self, data):
        """What start_response returns: sends at once."""
        if data:
            write(self.request, self.status, self.headers, data)

    def body(self, result):
        """The body as bytes if it is short and its length known, else as something to stream."""
        if isinstance(result, (list, tuple)):
            self.started()
            return b"".join(result)
        pieces = iter(result)
        first = next((piece for piece in pieces if piece), b"")  # PEP 3333: the head waits for the first piece
        self.started()
        if self.request.method == "HEAD" or self.status in (204, 304):
            return b""
        length = next((int(value) for name, value in self.headers if name.lower() == "content-length"), None)
        body = Body(first, pieces, length, result)
        if self.request._begun or length is None or length > SMALL_BYTES:
            return body
        return b"".join(body)

    def started(self):
        if self.headers is None:
            raise AssertionError("the application sent a body, or none, before it called start_response")


class Body:
    """The rest of the application's iterable; watches that it is as long as content-length says."""

    def __init__(self, first, pieces, length, result):
        self._first, self._pieces, self._length, self._result = first, pieces, length, result
        self.gate = None  # to be released at the end

    def __iter__(self):
        total, piece = 0, self._first
        while piece is not None:
            total += len(piece)
            if self._length is not None and total > self._length:
                break
            yield piece
            piece = next(self._pieces, None)
        if self._length is not None and total != self._length:
            raise ValueError(f"the body has {total} bytes or more, its content-length says {self._length}")

    def close(self):
        close(self._result)
        if self.gate:
            self.gate.release()


def close(result):
    """Calls the iterable's close; an error there comes too late for the client, so it is only shown."""
    try:
        if hasattr(result, "close"):
            result.close()
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)


def write(request, status, headers, data):
    """Sends a part of the body, the head before it."""
    if not request._begun:
        request._head = response_head(status, fields(headers))
    request._send(data)


def stream(request, status, headers, first, pieces, length, result, gate):
    """Sends what an application yields, which has begun: for the compiled core."""
    body = Body(first, pieces, length, result)
    body.gate = gate
    request._answer(status, headers, body)


def not_mounted(request):
    """Answers a path that is not below the mount: for the compiled core."""
    request._answer(404, [("content-type", "text/plain")], NOT_MOUNTED)


def handler(app, mount="", multithread=True):
    """The function for `pilotlight.serve` that calls `app`."""
    mount = mount.rstrip("/")
    names = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
    base = {
        "SCRIPT_NAME": mount,
        "REMOTE_ADDR": "",
        "wsgi.version": (1, 0),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": multithread,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
        "wsgi.input_terminated": True,
    }

    def handle(request):
        path = unquote(request.path)
        if not path.startswith("/"):  # OPTIONS *
            path = ""
        elif mount:
            if path != mount and not path.startswith(mount + "/"):
                return 404, [("content-type", "text/plain")], NOT_MOUNTED
            path = path[len(mount) :]
        environ = base.copy()
        environ["PATH_INFO"] = path
        describe(request, environ)
        add_headers(request, environ, names)
        call = Call(request)
        result = app(environ, call.start_response)
        try:
            body = call.body(result)
        except BaseException:
            close(result)
            raise
        if isinstance(body, bytes):
            close(result)
        return call.status, call.headers, body

    handle.native = lambda gate=None: native.Wsgi(app, base, mount, sys.modules[__name__], gate)
    return handle


def alone(handle):
    """`handle` for an application that is not thread-safe: one request at a time, until its body has been sent."""
    gate = allocate_lock()

    def handle_alone(request):
        gate.acquire()
        body = None
        try:
            status, headers, body = handle(request)
        finally:
            if isinstance(body, Body):
                body.gate = gate
            else:
                gate.release()
        return status, headers, body

    handle_alone.native = lambda: handle.native(gate)
    return handle_alone


def describe(request, environ):
    """The variables that are no header fields."""
    environ["REQUEST_METHOD"] = request.method
    environ["QUERY_STRING"] = request.query
    environ["REQUEST_URI"] = environ["RAW_URI"] = request.target
    environ["SERVER_PROTOCOL"] = request.protocol
    environ["wsgi.url_scheme"] = scheme = request.scheme
    environ["wsgi.input"] = Input(request)
    environ["pilotlight.request"] = request
    if request.authority:
        environ["HTTP_HOST"] = request.authority
    name, port = host_and_port(request.authority)
    environ["SERVER_NAME"] = name or "localhost"
    environ["SERVER_PORT"] = port or ("443" if scheme == "https" else "80")
    if request.peer:
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = host_and_port(request.peer)


def add_headers(request, environ, names):
    """CONTENT_TYPE, CONTENT_LENGTH, HTTP_*; repeated ones are joined (RFC 9110 §5.2), cookies by a semicolon."""
    for name, value in request.headers:
        key = names.get(name)
        if key is None:
            if "_" in name:
                continue  # x_user would pass for x-user
            key = "HTTP_" + name.upper().replace("-", "_")
            if len(names) < MAX_NAMES:
                names[name] = key
        if key in environ and key != "HTTP_HOST":
            environ[key] += ("; " if name == "cookie" else ",") + value
        else:
            environ[key] = value
    if "CONTENT_LENGTH" not in environ and request._ended:
        if request._ahead:
            environ["CONTENT_LENGTH"] = str(len(request._ahead))


def main(arguments=None):
    """The command line."""
    options = {"--threads": "8", "--mount": ""}
    name = command_line(arguments, options, USAGE)
    if not options["--threads"].isdigit() or options["--threads"] == "0":
        misused(USAGE)
    threads = int(options["--threads"])
    handle = handler(load(name), options["--mount"], threads > 1)
    serve(handle if threads > 1 else alone(handle), threads=threads)


if __name__ == "__main__":
    main()
