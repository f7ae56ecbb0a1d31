"""The Python service over HTTP: uvicorn with a bare ASGI app. Listens on fd 3 (LISTEN_FDS), else on the path that is its argument."""
import os
import sys

import uvicorn

JSON = ('{"id":42,"pad":"' + "x" * 182 + '"}').encode()
HEAD = {"type": "http.response.start", "status": 200,
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(JSON))]}
BODY = {"type": "http.response.body", "body": JSON}


async def app(scope, receive, send):
    await send(HEAD)
    await send(BODY)


where = {"fd": 3} if os.environ.get("LISTEN_FDS") else {"uds": sys.argv[1]}
uvicorn.run(app, log_level="error", access_log=False, lifespan="off", timeout_keep_alive=300, **where)
