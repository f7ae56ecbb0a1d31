"""The demo service that every SDK has, as an ASGI application. Start it as a service of the gateway."""

import asyncio
import json
import os
import sys
import time
from urllib.parse import parse_qsl

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pilotlight  # noqa: E402
from pilotlight import asgi  # noqa: E402

TEXT, JSON = (b"content-type", b"text/plain"), (b"content-type", b"application/json")
BLOCK = bytes((i * 31 + 7) % 251 for i in range(251)) * 256  # byte i repeats after 251
ROUTES, cancelled, seen = {}, set(), set()


def route(path):
    return lambda function: ROUTES.setdefault(path, function)


class Call:
    """A request, and shorter ways to answer it."""

    def __init__(self, scope, receive, send):
        self.scope, self.receive, self.sender = scope, receive, send
        self.query = dict(parse_qsl(scope["query_string"].decode()))
        self.headers = dict(scope["headers"])

    async def answer(self, status, headers, body=b"", **more):
        await self.start(status, headers, **more)
        await self.sender({"type": "http.response.body", "body": body})

    async def start(self, status, headers, **more):
        await self.sender({"type": "http.response.start", "status": status, "headers": headers, **more})

    async def piece(self, data):
        await self.sender({"type": "http.response.body", "body": data, "more_body": True})

    async def pieces(self):
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                return
            yield message["body"]
            if not message["more_body"]:
                return

    async def json(self, value):
        await self.answer(200, [JSON], json.dumps(value).encode())


async def echo(call):
    target = call.scope["raw_path"] + (b"?" + call.scope["query_string"] if call.scope["query_string"] else b"")
    headers = [(b"content-type", call.headers.get(b"content-type", b"application/octet-stream"))]
    headers += [(b"x-method", call.scope["method"].encode()), (b"x-target", target)]
    headers += [pair for pair in call.scope["headers"] if pair[0].startswith(b"x-echo-")]
    await call.answer(200, headers, b"".join([piece async for piece in call.pieces()]))


@route("POST /upload")
async def upload(call):
    from hashlib import sha256

    total, digest = 0, sha256()
    async for piece in call.pieces():
        total += len(piece)
        digest.update(piece)
    await call.json({"bytes": total, "sha256": digest.hexdigest()})


@route("GET /download")
async def download(call):
    size = int(call.query["bytes"])
    await call.start(200, [(b"content-type", b"application/octet-stream"), (b"content-length", b"%d" % size)])
    for start in range(0, size, len(BLOCK)):
        await call.piece(BLOCK[: size - start])
    await call.sender({"type": "http.response.body"})


@route("GET /slow")
async def slow(call):
    await call.start(200, [TEXT])
    for number in range(int(call.query["chunks"])):
        if number:
            await asyncio.sleep(int(call.query["ms"]) / 1000)
        await call.piece(b"chunk %d\n" % number)
    await call.sender({"type": "http.response.body"})


@route("GET /wait")
async def wait(call):
    try:
        await call.start(200, [TEXT])
        while True:
            await call.piece(b"tick\n")
            await asyncio.sleep(0.02)
    finally:
        cancelled.add(call.query["id"])


@route("GET /cancelled")
async def was_cancelled(call):
    await call.json({"cancelled": call.query["id"] in cancelled})


@route("GET /crash")
async def crash(call):
    os._exit(3)


@route("GET /flood")
async def flood(call):
    size, block = int(call.query["bytes"]), (b"f" * 99 + b"\n") * 600
    sys.stdout.flush()
    for start in range(0, size, len(block)):
        left = memoryview(block)[: size - start]
        while left:
            left = left[os.write(1, left) :]
    await call.json({"flooded": size})


@route("GET /status")
async def status(call):
    await call.answer(int(call.query["code"]), [TEXT])


@route("GET /cookies")
async def cookies(call):
    await call.answer(200, [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")])


@route("GET /sleep")
async def sleep(call):
    await asyncio.sleep(int(call.query["ms"]) / 1000)
    await call.answer(200, [TEXT], b"slept")


@route("GET /deadline")
async def deadline(call):
    due = call.scope["extensions"]["pilotlight"]["deadline"]
    await call.json({"deadline_ms": due and int((due - time.monotonic()) * 1000)})


@route("GET /pid")
async def pid(call):
    await call.json({"pid": os.getpid()})


@route("POST /early")
async def early(call):
    await call.answer(413, [TEXT], b"too large\n")


@route("GET /trailers")
async def trailers(call):
    await call.answer(200, [TEXT, (b"trailer", b"x-trailer")], b"body", trailers=True)
    await call.sender({"type": "http.response.trailers", "headers": [(b"x-trailer", b"yes")]})


@route("GET /error")
async def error(call):
    raise RuntimeError("as asked")


@route("GET /refuse")
async def refuse(call):
    once = call.headers.get(b"x-once", b"")
    if once not in seen:
        seen.add(once)
        raise pilotlight.Refused("the first time")
    await call.answer(200, [TEXT], b"taken")


@route("GET /switch")
async def switch(call):
    """Switches to what is offered first, whatever that is, and sends back the bytes that come."""
    names = call.scope["extensions"].get("pilotlight.upgrade", {}).get("protocols")
    if not names:
        return await call.answer(426, [TEXT], b"upgrade required\n")
    await call.sender({"type": "pilotlight.upgrade", "protocol": names[0]})
    while (message := await call.receive())["more"]:
        await call.sender({"type": "pilotlight.bytes", "bytes": message["bytes"]})


@route("GET /ws")
async def not_websocket(call):
    upgrade = [(b"upgrade", b"websocket"), (b"sec-websocket-version", b"13")]
    await call.answer(426, upgrade, b"this is a WebSocket\n")


@route("GET /big-header")
async def big_header(call):
    await call.answer(200, [(b"x-big", b"x" * int(call.query["bytes"]))])


async def websocket(scope, receive, send):
    await receive()
    if scope["path"] != "/ws":
        await send({"type": "websocket.http.response.start", "status": 404, "headers": [TEXT]})
        return await send({"type": "websocket.http.response.body", "body": b"not found\n"})
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"], "bytes": message["bytes"]})


async def app(scope, receive, send):
    if scope["type"] == "websocket":
        return await websocket(scope, receive, send)
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    call = Call(scope, receive, send)
    if scope["path"].startswith("/echo"):
        return await echo(call)
    function = ROUTES.get(f"{'GET' if scope['method'] == 'HEAD' else scope['method']} {scope['path']}")
    if function is None:
        return await call.answer(404, [TEXT], b"not found\n")
    await function(call)


if __name__ == "__main__":
    asgi.serve(app, max_message=64 << 20)
