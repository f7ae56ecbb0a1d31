"""The Python service as a FastCGI responder on the socket that is its fd 0, for Apache's mod_fcgid. One connection at a time."""
import socket
import struct

JSON = '{"id":42,"pad":"' + "x" * 182 + '"}'
ANSWER = f"Content-Type: application/json\r\nContent-Length: {len(JSON)}\r\n\r\n{JSON}".encode()
HEADER = struct.Struct("!BBHHBx")  # version, type, request id, length, padding
BEGIN, END, STDIN, STDOUT = 1, 3, 5, 6
KEEP_CONNECTION = 1


def read(connection, count):
    """`count` bytes, or None at the end of the stream."""
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            return None
        data += piece
    return data


def record(kind, request, content=b""):
    return HEADER.pack(1, kind, request, len(content), 0) + content


def serve(connection):
    keep = 0
    while (header := read(connection, HEADER.size)) is not None:
        _, kind, request, length, padding = HEADER.unpack(header)
        content = read(connection, length + padding)
        if content is None:
            return
        if kind == BEGIN:
            keep = content[2] & KEEP_CONNECTION
        elif kind == STDIN and length == 0:
            connection.sendall(record(STDOUT, request, ANSWER) + record(STDOUT, request) + record(END, request, bytes(8)))
            if not keep:
                return


listener = socket.socket(fileno=0)
while True:
    accepted, _ = listener.accept()
    with accepted:
        serve(accepted)
