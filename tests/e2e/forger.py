"""A service that tries to forge lines of logs and to drive terminals: over the pipe (LOG, RESET), or over HTTP (standard error, headers).

Every text has a line feed with `FORGED` behind it, control characters of ASCII and C1, and what changes the direction of text.
"""

import http.server
import os
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "sdk", "python"))

EVIL = "evil\nFORGED line\r\x1b[2J\x1b]0;title\x07\x7f\x85\x9b31m\u202edrow\u2066\u200b\u2028\u2029\U000e0041 end"
NOT_UTF8 = b"latin \xf6\xff end"


def pipe():
    import pilotlight

    def handle(request):
        print("printed " + EVIL, file=sys.stderr, flush=True)
        request.log("logged " + EVIL, "warn")
        sys.stderr.buffer.write(NOT_UTF8 + b"\n")
        sys.stderr.buffer.flush()
        if request.path == "/refused":
            raise pilotlight.Overloaded("reset " + EVIL)
        return 200, [("content-type", "text/plain")], b"ok"

    pilotlight.serve(handle)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        print("printed " + EVIL, file=sys.stderr, flush=True)
        sys.stderr.buffer.write(NOT_UTF8 + b"\n")
        sys.stderr.buffer.flush()
        if self.path == "/web/broken":
            self.wfile.write("HTTP/1.1 \x1b[2J\u202e ok\r\n\r\n".encode())
            self.close_connection = True
        elif self.path == "/web/end":
            os._exit(3)
        else:
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


def web():
    class Server(http.server.ThreadingHTTPServer):
        def server_bind(self):
            self.socket.close()
            self.socket = socket.socket(fileno=3)
            self.server_address = self.socket.getsockname()

        def server_activate(self):
            pass

    Server(("127.0.0.1", 0), Handler).serve_forever()


if __name__ == "__main__":
    pipe() if "PILOTLIGHT_SOCKET" in os.environ else web()
