"""Answers as they come, over asyncio, read strictly: what a gateway must not send raises `Broken`."""

import asyncio
import re
import socket

STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) [\t -~\x80-\xff]*\Z")
FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*\Z")
LIMIT = 30.0  # for one answer; generous, because other programs may have the processor
MAX_LINE = 1 << 20


class Broken(Exception):
    """An answer that no client should get."""


class Answer:
    def __init__(self, status, fields):
        self.status, self.fields, self.body, self.interim = status, fields, b"", []

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name]

    def get(self, name, default=b""):
        return (self.all(name) or [default])[0]

    @property
    def closes(self):
        return any(word.strip().lower() == b"close" for value in self.all(b"connection") for word in value.split(b","))

    def __repr__(self):
        return f"<{self.status} {self.fields} {self.body[:160]!r}>"


class Connection:
    """`async with Connection.to(address) as connection`"""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, address):
        reader, writer = await asyncio.wait_for(asyncio.open_connection(*address, limit=MAX_LINE), LIMIT)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(reader, writer)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self._writer.close()

    async def send(self, *pieces):
        """Each by itself, with a moment between for the other side to read it."""
        try:
            for number, piece in enumerate(pieces):
                if number:
                    await asyncio.sleep(0.001)
                self._writer.write(piece)
                await self._writer.drain()
        except ConnectionError:
            pass  # refused before all was sent: the answer says why

    def end(self):
        """Half-closes."""
        try:
            self._writer.write_eof()
        except OSError:
            pass  # it has been closed already

    async def answer(self, method="GET", limit=LIMIT):
        """The next final answer, or None at the end of the stream."""
        return await asyncio.wait_for(self._answer(method), limit)

    async def ended(self):
        """True if the stream ends, False if something comes."""
        try:
            return not await asyncio.wait_for(self._reader.read(1), LIMIT)
        except ConnectionError:
            return True

    async def _answer(self, method):
        interim = []
        while True:
            answer = await self._head()
            if answer is None or answer.status >= 200 or answer.status == 101:
                break
            interim.append(answer)
        if answer:
            answer.interim = interim
            answer.body = await self._body(answer, method)
        return answer

    async def _head(self):
        line = await self._line()
        if line is None:
            return None
        match = STATUS.match(line)
        if not match:
            raise Broken(f"status line {line!r}")
        fields = []
        while line := await self._line():
            field = FIELD.match(line)
            if not field:
                raise Broken(f"field line {line!r}")
            fields.append((field[1], field[2]))
        if line is None:
            raise Broken("the stream ended within a header")
        return Answer(int(match[1]), fields)

    async def _body(self, answer, method):
        if method == "HEAD" or answer.status in (204, 304) or answer.status < 200:
            return b""
        lengths, codings = answer.all(b"content-length"), answer.all(b"transfer-encoding")
        if len(lengths) > 1 or lengths and codings:
            raise Broken(f"two lengths: {answer}")
        try:
            if codings:
                return await self._chunks()
            if lengths:
                return await self._reader.readexactly(int(lengths[0]))
            return await self._reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Broken(f"a cut answer: {answer}") from None

    async def _chunks(self):
        pieces = []
        while size := self._size(await self._line()):
            pieces.append(await self._reader.readexactly(size))
            if await self._reader.readexactly(2) != b"\r\n":
                raise Broken("a chunk without CR LF")
        while await self._line():
            pass
        return b"".join(pieces)

    @staticmethod
    def _size(line):
        if line is None:
            raise Broken("the stream ended before a chunk")
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,16}(;.*)?", line):
            raise Broken(f"chunk size {line[:100]!r}")
        return int(line.partition(b";")[0], 16)

    async def _line(self):
        try:
            line = await self._reader.readuntil(b"\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise Broken(f"the stream ended within a line: {error.partial[:200]!r}") from None
            return None
        except ConnectionError:
            return None
        return line[:-2]
