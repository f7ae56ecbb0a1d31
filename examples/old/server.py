"""An ordinary HTTP server that Pilotlight does not start: it is reached by its URL. Nothing in it knows Pilotlight.

    python3 server.py [--port 9000] [--until-eof]
"""

import argparse
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

IDLE_SECONDS = 60  # that a connection may stay open without a request
MAX_BODY_BYTES = 64 * 1024


class Handler(BaseHTTPRequestHandler):
    """Says what it was asked."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def answer(self):
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers or not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            return self.send_error(413, f"bodies have a content-length of at most {MAX_BODY_BYTES}")
        body = self.rfile.read(int(length))
        told = {"hello": "an old server", "method": self.command, "url": self.path, "body_bytes": len(body), "pid": os.getpid()}
        payload = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, format, *arguments):  # noqa: A002 (the name is the base class's)
        pass  # the gateway's log is enough for a demo


def end_with_standard_input():
    sys.stdin.buffer.read()
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--until-eof", action="store_true", help="end with the standard input, ignore Ctrl-C")
    options = parser.parse_args()
    try:
        server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    except OSError as error:
        sys.exit(f"old: cannot listen on 127.0.0.1:{options.port}: {error.strerror}; stop what uses it, or choose another --port")
    if options.until_eof:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=end_with_standard_input, daemon=True).start()
    print(f"old: listening on http://127.0.0.1:{options.port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
