"""A strict HTTP/1.1 server that writes down what it was asked, byte for byte, and calls out what a gateway must not send.

Each request carries a mark, `q<number>q`, in its target, its host or its body; what has none is a stray.
"""

import asyncio
import re

MARK = re.compile(rb"q(\d+)q")
TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
START = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([!-~\x80-\xff]+) HTTP/1\.1\Z")
MAX_LINE = 1 << 20


class Breach(Exception):
    """The gateway sent what no HTTP/1.1 client may send."""


class Request:
    """One whole request as it came."""

    def __init__(self, line, fields):
        self.line, self.fields, self.body, self.trailers = line, fields, b"", []

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name]

    def __repr__(self):
        return f"{self.line!r} {self.fields!r} {self.body[:200]!r} {self.trailers!r}"


class Recorder:
    """`seen[mark]` are whole requests, `cut[mark]` counts those that ended early, `breaches` and `strays` should be empty."""

    def __init__(self, fields=(b"cache-control: max-age=60",)):
        self._fields = b"".join(b"%b\r\n" % field for field in fields)
        self.seen, self.cut, self.breaches, self.strays = {}, {}, [], []
        self._server = None
        self._tasks = set()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_LINE, backlog=512)
        self.url = "http://127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except Breach as breach:
            self.breaches.append(str(breach))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader, writer):
        first = await self._line(reader)
        if first is None:
            return False
        match = START.match(first)
        if not match:
            raise Breach(f"request line {first!r}")
        request = Request(first, await self._read_fields(reader))
        if len(request.all(b"host")) != 1:
            raise Breach(f"{len(request.all(b'host'))} Host in {request}")
        mark = MARK.search(first) or MARK.search(request.all(b"host")[0])
        try:
            await self._body(reader, request)
        except asyncio.IncompleteReadError:
            number = int(mark[1]) if mark else -1
            self.cut[number] = self.cut.get(number, 0) + 1
            return False
        mark = mark or MARK.search(request.body)
        if mark:
            self.seen.setdefault(int(mark[1]), []).append(request)
        else:
            self.strays.append(request)
        body = b"for %b" % match[2]
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n%bcontent-length: %d\r\n\r\n" % (self._fields, len(body))
        writer.write(head if match[1] == b"HEAD" else head + body)
        await writer.drain()
        return True

    async def _body(self, reader, request):
        lengths, codings = request.all(b"content-length"), request.all(b"transfer-encoding")
        if lengths and codings or len(lengths) > 1 or len(codings) > 1:
            raise Breach(f"two lengths: {request}")
        if codings:
            if codings[0].lower() != b"chunked":
                raise Breach(f"coding {codings[0]!r}")
            await self._chunks(reader, request)
        elif lengths:
            if not lengths[0].isdigit():
                raise Breach(f"content-length {lengths[0]!r}")
            request.body = await reader.readexactly(int(lengths[0]))

    async def _chunks(self, reader, request):
        pieces = []
        while True:
            size = await self._line(reader)
            if size is None:
                raise asyncio.IncompleteReadError(b"", None)
            if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", size):
                raise Breach(f"chunk size {size!r}")
            if int(size, 16) == 0:
                break
            pieces.append(await reader.readexactly(int(size, 16)))
            if await reader.readexactly(2) != b"\r\n":
                raise Breach("a chunk without CR LF at its end")
        request.trailers = await self._read_fields(reader)
        request.body = b"".join(pieces)

    async def _read_fields(self, reader):
        fields = []
        while line := await self._line(reader):
            name, colon, value = line.partition(b":")
            if not colon or not TOKEN.match(name):
                raise Breach(f"field line {line!r}")
            value = value.strip(b" \t")
            if b"\0" in value or b"\r" in value or b"\n" in value:
                raise Breach(f"field value {line!r}")
            fields.append((name, value))
        if line is None:
            raise asyncio.IncompleteReadError(b"", None)
        return fields

    @staticmethod
    async def _line(reader):
        """Without its CR LF; None at the end of the stream."""
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        if not line.endswith(b"\r\n") or b"\r" in line[:-2]:
            raise Breach(f"a line that does not end with CR LF: {line!r}")
        return line[:-2]
