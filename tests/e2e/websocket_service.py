"""An HTTP service by the package `websockets` (`make test` installs it) that echoes on every target but `/pid`, on the
socket that it is given (LISTEN_FDS); knows nothing of Pilotlight."""

import os
import socket
from http import HTTPStatus

from websockets.sync.server import unix_serve


def echo(opened):
    for message in opened:
        opened.send(message)


def plain(connection, request):
    return connection.respond(HTTPStatus.OK, str(os.getpid())) if request.path == "/pid" else None


if __name__ == "__main__":
    listening = socket.socket(fileno=3)
    with unix_serve(echo, sock=listening, process_request=plain, compression=None, max_size=None) as server:
        server.serve_forever()
