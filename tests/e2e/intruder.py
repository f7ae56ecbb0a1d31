"""A service that runs the Python code of a request's body, for tests of what a service can do to others.

POST /run  the code sets `result`; {"result": …}, or {"error": "PermissionError", "errno": 13, "text": …}
"""

import json
import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def run(code):
    names = {}
    try:
        exec(code, names)
    except Exception as error:  # whatever it is, the test looks at it
        return {"error": type(error).__name__, "errno": getattr(error, "errno", None), "text": str(error)}
    return {"result": names.get("result")}


def serve_pipe():
    import pilotlight

    def serve(request):
        return 200, {"content-type": "application/json"}, json.dumps(run(request.body.decode()))

    pilotlight.serve(serve)


def serve_http(listener):
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            length = 0
            lines.readline()
            while line := lines.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = json.dumps(run(lines.read(length).decode()))
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            connection.sendall((head + body).encode())


if __name__ == "__main__":
    if os.environ.get("LISTEN_FDS"):
        serve_http(socket.socket(fileno=3))
    serve_pipe()
