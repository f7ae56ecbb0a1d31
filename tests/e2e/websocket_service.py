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
    # Without pings of its own: a busy machine may take longer for a large message than their pause.
    settings = {"compression": None, "max_size": None, "ping_interval": None}
    with unix_serve(echo, sock=listening, process_request=plain, **settings) as server:
        server.serve_forever()
