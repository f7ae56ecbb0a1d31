"""The Python service over HTTP, standard library only. Listens on fd 3 (LISTEN_FDS), else on the path that is its argument."""
import os
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

JSON = ('{"id":42,"pad":"' + "x" * 182 + '"}').encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = False

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(JSON)))
        self.end_headers()
        self.wfile.write(JSON)

    def log_message(self, *arguments):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener):
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def get_request(self):
        connection, _ = self.socket.accept()
        return connection, ("local", 0)


if os.environ.get("LISTEN_FDS"):
    listener = socket.socket(fileno=3)
else:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(1024)
Server(listener).serve_forever()
