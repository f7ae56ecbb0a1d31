"""What bench.py asks of an ASGI server: a WebSocket that says what it is told."""


async def app(scope, receive, send):
    if scope["type"] != "websocket":
        raise NotImplementedError
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message.get("bytes"), "text": message.get("text")})
