"""An HTTP service that answers one request, takes three, cuts two of them off without a word, and answers the third
when both have come again."""

import socket

listener = socket.socket(fileno=3)


def take():
    while True:
        connection, got = listener.accept()[0], b""
        while data := connection.recv(4096):
            got += data
            if b"\r\n\r\n" in got:
                return connection


def answer(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
    connection.close()


answer(take())
one, two, held = take(), take(), take()
one.close()
two.close()
for connection in [take(), take(), held]:
    answer(connection)
while True:
    answer(take())
