"""The demo service that every SDK has; sdk/conformance drives it. Start it as a service of the gateway."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pilotlight

TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
BLOCK = bytes((i * 31 + 7) % 251 for i in range(251)) * 256  # byte i repeats after 251
cancelled, seen = set(), set()


def echo(request, query):
    headers = [("content-type", request.headers.get("content-type", "application/octet-stream"))]
    headers += [("x-method", request.method), ("x-target", request.target)]
    headers += [(name, value) for name, value in request.headers if name.startswith("x-echo-")]
    return 200, headers, request.body


def upload(request, query):
    from hashlib import sha256

    total, digest = 0, sha256()
    for piece in request.stream():
        total += len(piece)
        digest.update(piece)
    return 200, JSON, '{"bytes":%d,"sha256":"%s"}' % (total, digest.hexdigest())


def download(request, query):
    size = int(query["bytes"])

    def blocks():
        for start in range(0, size, len(BLOCK)):
            yield BLOCK[: size - start]

    return 200, {"content-type": "application/octet-stream", "content-length": size}, blocks()


def slow(request, query):
    def lines():
        for number in range(int(query["chunks"])):
            if number:
                time.sleep(int(query["ms"]) / 1000)
            yield b"chunk %d\n" % number

    return 200, TEXT, lines()


def wait(request, query):
    def ticks():
        try:
            while True:
                yield b"tick\n"
                time.sleep(0.02)
        finally:
            cancelled.add(query["id"])

    return 200, TEXT, ticks()


def was_cancelled(request, query):
    return 200, JSON, '{"cancelled":%s}' % ("true" if query["id"] in cancelled else "false")


def crash(request, query):
    os._exit(3)


def flood(request, query):
    size, line = int(query["bytes"]), b"f" * 99 + b"\n"
    block = line * 600
    sys.stdout.flush()
    for start in range(0, size, len(block)):
        left = memoryview(block)[: size - start]
        while left:
            left = left[os.write(1, left) :]
    return 200, JSON, '{"flooded":%d}' % size


def status(request, query):
    return int(query["code"]), TEXT, ""


def cookies(request, query):
    return 200, [("set-cookie", "a=1"), ("set-cookie", "b=2")], ""


def sleep(request, query):
    time.sleep(int(query["ms"]) / 1000)
    return 200, TEXT, "slept"


def deadline(request, query):
    left = request.deadline
    return 200, JSON, '{"deadline_ms":%s}' % ("null" if left is None else int(left * 1000))


def pid(request, query):
    return 200, JSON, '{"pid":%d}' % os.getpid()


def early(request, query):
    return 413, TEXT, "too large\n"


def trailers(request, query):
    return 200, {**TEXT, "trailer": "x-trailer"}, iter([b"body"]), {"x-trailer": "yes"}


def error(request, query):
    raise RuntimeError("as asked")


def refuse(request, query):
    once = request.headers.get("x-once", "")
    if once not in seen:
        seen.add(once)
        raise pilotlight.Refused("the first time")
    return 200, TEXT, "taken"


def switch(request, query):
    """Switches to what is offered first, whatever that is, and sends back the bytes that come."""
    if not request.offers:
        return 426, TEXT, "upgrade required\n"
    connection = request.upgrade(request.offers[0])
    while data := connection.recv(65_536):
        connection.sendall(data)


def websocket(request, query):
    from pilotlight import websocket

    if not websocket.is_offered(request):
        return websocket.REQUIRED
    with websocket.accept(request, max_message=64 << 20) as socket:
        for message in socket:
            socket.send(message)


def big_header(request, query):
    return 200, [("x-big", "x" * int(query["bytes"]))], ""


ROUTES = {
    "GET /download": download,
    "GET /slow": slow,
    "GET /wait": wait,
    "GET /cancelled": was_cancelled,
    "GET /crash": crash,
    "GET /flood": flood,
    "GET /status": status,
    "GET /cookies": cookies,
    "GET /sleep": sleep,
    "GET /deadline": deadline,
    "GET /pid": pid,
    "GET /trailers": trailers,
    "GET /error": error,
    "GET /refuse": refuse,
    "GET /switch": switch,
    "GET /ws": websocket,
    "GET /big-header": big_header,
    "POST /upload": upload,
    "POST /early": early,
}


def handle(request):
    if request.path.startswith("/echo"):
        return echo(request, {})
    route = ROUTES.get(f"{'GET' if request.method == 'HEAD' else request.method} {request.path}")
    if route is None:
        return 404, TEXT, "not found\n"
    return route(request, dict(pair.partition("=")[::2] for pair in request.query.split("&")))


if __name__ == "__main__":
    pilotlight.serve(handle)
