"""A service for the tests of deploys, in its own release: over the pipe, or HTTP with SERVER=http.

    /        the name of its release
    /health  what the file `health` of the release says: a status; `silent`: no answer
    /pid     its process id
    /slow    after a second

A file `broken` in the release: it ends at its start; `crashes`: it ends with its first request but /health.
Every request but /health is noted in `$NOTES/RELEASE`.
"""

import http.server
import os
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, os.environ["SDK"])

RELEASE = os.environ["PILOTLIGHT_RELEASE"]
NOTES = Path(os.environ["NOTES"]) / RELEASE


def answer(path):
    if path.startswith("/health"):
        said = Path("health").read_text().strip()
        if said == "silent":
            time.sleep(1000)
        return int(said), "health"
    with NOTES.open("a") as notes:
        notes.write(path + "\n")
    if Path("crashes").exists():
        os._exit(7)
    if path == "/slow":
        time.sleep(1)
    return 200, str(os.getpid()) if path == "/pid" else RELEASE


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, text = answer(self.path)
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass

    def address_string(self):
        return "gateway"


class Server(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=3)

    def get_request(self):
        connection, _ = self.socket.accept()
        return connection, ("", 0)


if Path("broken").exists():
    sys.exit("no module named flask")
if os.environ.get("SERVER") == "http":
    Server().serve_forever()
else:
    import pilotlight

    def handle(request):
        status, text = answer(request.path)
        return status, [], text

    pilotlight.serve(handle)
