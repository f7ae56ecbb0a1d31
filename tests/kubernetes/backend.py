#!/usr/bin/env python3
"""A server in a pod of the tests: says which pod it is, after as long as it is asked to.

GET /ready: 200, from `READY_AFTER` seconds after the start on. Anything else: the pod's name, after `delay` seconds of
the query.
"""

import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PORT = int(os.environ.get("PORT", "8000"))
READY_AFTER = float(os.environ.get("READY_AFTER", "0"))
STARTED = time.monotonic()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        asked = urlsplit(self.path)
        status = 200
        if asked.path == "/ready":
            status = 200 if time.monotonic() - STARTED >= READY_AFTER else 503
        time.sleep(float(parse_qs(asked.query).get("delay", ["0"])[0]))
        fields = "".join(f"{name}: {value}\n" for name, value in self.headers.items())
        body = f"{os.environ.get('POD_NAME', '')} {os.environ.get('VERSION', '')}\n{self.path}\n{fields}".encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "text/plain")
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        return


class Server(ThreadingHTTPServer):
    daemon_threads = False  # requests that are open are answered before the end
    request_queue_size = 256


def main():
    server = Server(("0.0.0.0", PORT), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.05)
    # Connections that nobody uses would keep it for ever; what is asked now takes seconds at most.
    threading.Timer(2.0, lambda: os._exit(0)).start()
    server.server_close()
    sys.exit(0)


if __name__ == "__main__":
    main()
