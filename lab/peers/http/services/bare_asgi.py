"""The bare ASGI application of uvicorn and Hypercorn."""
JSON = ('{"id":42,"pad":"' + "x" * 182 + '"}').encode()
HEAD = {
    "type": "http.response.start", "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(JSON))],
}
BODY = {"type": "http.response.body", "body": JSON}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})
    await send(HEAD)
    await send(BODY)
