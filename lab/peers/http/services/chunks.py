"""Bodies in pieces of a chosen size: chunks over HTTP (on fd 3, LISTEN_FDS), DATA frames over the pipe (PILOTLIGHT_SOCKET).

`POST /send/SIZE/BYTES` is answered with so many bytes in pieces of this size; any other POST with the number of bytes and of pieces that came.
No SDK: pieces are laid out beforehand and written a hundred thousand bytes at a time, so that only the gateway sees how small they are. Over
the pipe only own connections do this, so a request needs a body that is larger than what the gateway holds.
"""
import json
import os
import socket
import struct
import threading

BLOCK_BYTES = 100_000
READ_BYTES = 1 << 20
HEADER = struct.Struct("<IBBH")
HELLO, REQUEST, RESPONSE, DATA, MORE, DRAIN = 1, 3, 4, 6, 13, 12
END = 1


def written(send, layout, size, count):
    """Sends `count` bytes in pieces of `size`."""
    block = layout(b"x" * size) * max(1, BLOCK_BYTES // size)
    each = max(1, BLOCK_BYTES // size) * size
    for _ in range(count // each):
        send(block)
    for at in range(count // each * each, count, size):
        send(layout(b"x" * min(size, count - at)))


def asked(target):
    """`(size, bytes)` of a target, or None."""
    parts = target.strip("/").split("/")
    return (int(parts[1]), int(parts[2])) if parts[0] == "send" else None


def told(count, pieces):
    return json.dumps({"bytes": count, "pieces": pieces}).encode()


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def serve_http(sock):
    with sock, sock.makefile("rb", READ_BYTES) as file:
        while line := file.readline():
            fields = dict(field.lower().rstrip().split(b": ", 1) for field in iter(file.readline, b"\r\n"))
            count, pieces = taken(file, fields)
            if wanted := asked(line.split()[1].decode()):
                sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                written(sock.sendall, chunk, *wanted)
                sock.sendall(chunk(b""))
            else:
                body = told(count, pieces)
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def taken(file, fields):
    """Reads a body: bytes and pieces."""
    if b"transfer-encoding" not in fields:
        return len(file.read(int(fields.get(b"content-length", b"0")))), 1
    count = pieces = 0
    while size := int(file.readline(), 16):
        count += len(file.read(size))
        pieces += 1
        file.read(2)
    file.read(2)
    return count, pieces


def dial(**hello):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.environ["PILOTLIGHT_SOCKET"])
    lines = ["PIPE/1", "token=" + os.environ["PILOTLIGHT_TOKEN"]] + [f"{key}={value}" for key, value in hello.items()]
    put(sock, HELLO, 0, 0, "".join(line + "\n" for line in lines).encode())
    return sock


def put(sock, kind, flags, exchange, payload):
    sock.sendall(HEADER.pack(len(payload), kind, flags, exchange) + payload)


def frames(sock):
    with sock, sock.makefile("rb", READ_BYTES) as file:
        while len(header := file.read(HEADER.size)) == HEADER.size:
            length, kind, flags, exchange = HEADER.unpack(header)
            yield kind, flags, exchange, file.read(length)


def serve_pipe():
    sock = dial(exchanges=64, max_own=8)
    for kind, _, exchange, payload in frames(sock):
        if kind == REQUEST:
            put(sock, RESPONSE, END, exchange, head() + b"ok")
        elif kind == MORE:
            threading.Thread(target=serve_own, args=(int.from_bytes(payload[4:8], "little"),), daemon=True).start()
        elif kind == DRAIN:
            return


def head():
    """That of an answer: no fields, status 200."""
    return struct.pack("<IHH", 0, 200, 0)


def serve_own(worker):
    sock, target, count, pieces = dial(kind="own", worker=worker), "", 0, 0
    for kind, flags, exchange, payload in frames(sock):
        if kind == REQUEST:
            target, count, pieces = payload[8:].split(b"\0")[3].decode(), 0, 0
        elif kind == DATA:
            count, pieces = count + len(payload), pieces + bool(payload)
        if not flags & END:
            continue
        if wanted := asked(target):
            put(sock, RESPONSE, 0, exchange, head())
            written(sock.sendall, lambda data, exchange=exchange: HEADER.pack(len(data), DATA, 0, exchange) + data, *wanted)
            put(sock, DATA, END, exchange, b"")
        else:
            put(sock, RESPONSE, END, exchange, head() + told(count, pieces))


def main():
    if "PILOTLIGHT_SOCKET" in os.environ:
        serve_pipe()
        return
    listener = socket.socket(fileno=3)
    while True:
        threading.Thread(target=serve_http, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
