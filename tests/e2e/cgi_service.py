"""A program that speaks FastCGI, SCGI or uwsgi: `cgi_service.py PROTOCOL [FD]`. Its socket is descriptor 0 for
FastCGI, as FCGI_LISTENSOCK_FILENO says, and descriptor 3 for the others, unless it is told another one.

    /env        the variables of the request and a digest of its body, as JSON
    /stream     pieces, one for each line that the client sends
    /large/N    N bytes
    /stderr     writes to FCGI_STDERR
    /abort      waits until it hears that the client has gone, and says so in the file NOTES
    /status/N   that status; /location a redirect; /short, /long, /nothing, /broken: answers that are wrong
    /busy       ends the request with FCGI_OVERLOADED
    /send       names a file: X-Sendfile, or X-Accel-Redirect, from the query
    /exit       ends in the middle of a request
"""

import hashlib
import json
import os
import socket
import struct
import sys
import threading
import urllib.parse

PROTOCOL = sys.argv[1]
BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR = 1, 2, 3, 4, 5, 6, 7


def exactly(stream, count):
    data = stream.read(count)
    if len(data) != count:
        raise EOFError
    return data


class FastCgi:
    def __init__(self, connection):
        self.connection, self.stream = connection, connection.makefile("rb")
        self.keep = False

    def record(self):
        version, kind, number, length, padding = struct.unpack(">BBHHBx", exactly(self.stream, 8))
        assert (version, number) == (1, 1), (version, number)
        data = exactly(self.stream, length)
        exactly(self.stream, padding)
        return kind, data

    def begin(self):
        kind, data = self.record()
        assert kind == BEGIN, kind
        role, flags = struct.unpack(">HB5x", data)
        assert role == 1, role
        self.keep = bool(flags & 1)
        params = b""
        while True:
            kind, data = self.record()
            assert kind == PARAMS, kind
            if not data:
                return pairs(params)
            params += data

    def body(self, _length):
        while True:
            kind, data = self.record()
            if kind == ABORT:
                raise ConnectionAbortedError
            assert kind == STDIN, kind
            if not data:
                return
            yield data

    def write(self, data, kind=STDOUT):
        for at in range(0, len(data), 30000):
            part = data[at : at + 30000]
            padding = -len(part) % 8
            self.connection.sendall(struct.pack(">BBHHBx", 1, kind, 1, len(part), padding) + part + bytes(padding))

    def error(self, data):
        self.write(data, STDERR)

    def end(self, status=0):
        body = struct.pack(">IB3x", 0, status)
        self.connection.sendall(struct.pack(">BBHHBx", 1, END, 1, 8, 0) + body)


def pairs(data):
    found, at = {}, 0

    def length():
        nonlocal at
        size = data[at]
        at += 1
        if size & 0x80:
            size = struct.unpack(">I", data[at - 1 : at + 3])[0] & 0x7FFFFFFF
            at += 3
        return size

    while at < len(data):
        name, value = length(), length()
        found[data[at : at + name].decode()] = data[at + name : at + name + value].decode("latin-1")
        at += name + value
    return found


class Plain:
    """What SCGI and uwsgi have in common: the body as it is, and an answer until the end of the connection."""

    keep = False

    def __init__(self, connection):
        self.connection, self.stream = connection, connection.makefile("rb")

    def body(self, length):
        while length:
            data = self.stream.read1(min(length, 65536))
            if not data:
                raise ConnectionAbortedError
            length -= len(data)
            yield data

    def write(self, data):
        self.connection.sendall(data)

    def error(self, data):
        sys.stderr.buffer.write(data)
        sys.stderr.flush()

    def end(self, _status=0):
        pass


class Scgi(Plain):
    def begin(self):
        size = b""
        while (byte := exactly(self.stream, 1)) != b":":
            size += byte
        parts = exactly(self.stream, int(size)).split(b"\0")
        assert exactly(self.stream, 1) == b","
        names = [part.decode() for part in parts[:-1:2]]
        assert names[0] == "CONTENT_LENGTH" and len(set(names)) == len(names), names
        return dict(zip(names, (part.decode("latin-1") for part in parts[1::2])))


class Uwsgi(Plain):
    def begin(self):
        first, size, second = struct.unpack("<BHB", exactly(self.stream, 4))
        assert (first, second) == (0, 0)
        data, found, at = exactly(self.stream, size), {}, 0
        while at < size:
            texts = []
            for _ in range(2):
                length = struct.unpack("<H", data[at : at + 2])[0]
                texts.append(data[at + 2 : at + 2 + length].decode("latin-1"))
                at += 2 + length
            found[texts[0]] = texts[1]
        return found


def note(text):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(text + "\n")


def answer(talk, params):
    path = params.get("PATH_INFO", "")
    body = talk.body(int(params.get("CONTENT_LENGTH") or 0))
    begin = b"HTTP/1.1 200 OK\r\n" if PROTOCOL == "uwsgi" else b""
    plain = begin + b"Content-Type: text/plain\r\n"
    if path == "/stream":
        talk.write(plain + b"\r\n")
        for piece in body:
            talk.write(b"<" + piece + b">")
        return talk.end()
    if path == "/abort":
        try:
            for _ in body:
                pass
            talk.write(plain + b"\r\nbegun")
            if isinstance(talk, FastCgi):
                kind, _ = talk.record()
                note("aborted" if kind == ABORT else f"record {kind}")
            elif not talk.stream.read(1):
                note("closed")
        except (EOFError, OSError):
            note("closed")
        return None
    digest, size = hashlib.sha256(), 0
    for piece in body:
        digest.update(piece)
        size += len(piece)
    if path == "/exit":
        os._exit(3)
    elif path.startswith("/large/"):
        count = int(path.removeprefix("/large/"))
        talk.write(plain + b"Content-Length: %d\r\n\r\n" % count)
        for at in range(0, count, 1 << 16):
            talk.write(b"x" * min(1 << 16, count - at))
    elif path == "/stderr":
        talk.error(b"first line\nsecond ")
        talk.error(b"line\n")
        talk.write(plain + b"\r\nok")
    elif path.startswith("/status/"):
        talk.write(b"Status: " + path.removeprefix("/status/").encode() + b"\r\nContent-Type: text/plain\r\n\r\nbody")
    elif path == "/location":
        talk.write(b"Location: /elsewhere\r\n\r\n")
    elif path == "/short":
        talk.write(plain + b"Content-Length: 10\r\n\r\nshort")
    elif path == "/long":
        talk.write(plain + b"Content-Length: 4\r\n\r\nlonger")
    elif path == "/nothing":
        pass
    elif path == "/broken":
        talk.write(b"no colon\r\n\r\n")
    elif path == "/busy":
        return talk.end(2)
    elif path == "/send":
        query = urllib.parse.unquote(params["QUERY_STRING"])
        talk.write(b"Content-Type: application/x-test\r\nX-Own: kept\r\n" + query.encode() + b"\r\n\r\nnot this")
    else:
        found = {"params": params, "body": [size, digest.hexdigest()], "pid": os.getpid(), "keep": talk.keep}
        text = json.dumps(found).encode()
        talk.write(begin + b"Content-Type: application/json\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n" + text)
    return talk.end()


def serve(connection):
    kind = {"fastcgi": FastCgi, "scgi": Scgi, "uwsgi": Uwsgi}[PROTOCOL]
    talk = kind(connection)
    with connection:
        while True:
            try:
                params = talk.begin()
            except EOFError:
                return
            try:
                answer(talk, params)
            except (ConnectionAbortedError, BrokenPipeError, ConnectionResetError):
                note("aborted")
                return
            if not talk.keep:
                talk.stream.close()
                return


def main():
    number = int(sys.argv[2]) if sys.argv[2:] else 0 if PROTOCOL == "fastcgi" else 3
    listener = socket.socket(fileno=number)
    while True:
        connection, _ = listener.accept()
        connection.setblocking(True)
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
