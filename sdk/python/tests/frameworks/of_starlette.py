"""The application of test_frameworks.py with Starlette."""

import asyncio
import contextlib

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute

done = []


async def hello(request):
    text = f"hello {request.query_params.get('name')}, {request.headers.get('x-asked')}"
    return PlainTextResponse(text)


async def made_by(request, call_next):
    answer = await call_next(request)
    answer.headers["x-made-by"] = "app"
    return answer


async def numbers(request):
    return JSONResponse({"sum": sum((await request.json())["numbers"])})


async def item(request):
    return PlainTextResponse(request.path_params["name"])


async def upload(request):
    total = 0
    async for piece in request.stream():
        total += len(piece)
    return PlainTextResponse(str(total))


async def stream(request):
    async def lines():
        for number in range(50):
            yield b"%d\n" % number
            await asyncio.sleep(0)

    return StreamingResponse(lines())


async def form(request):
    async with request.form() as fields:
        data = await fields["f"].read()
        return PlainTextResponse(f"{fields['f'].filename}: {len(data)}")


def error(request):
    raise RuntimeError("as asked")


async def file(request):
    return FileResponse(__file__, media_type="text/plain")


async def moved(request):
    return RedirectResponse("/hello")


def cookies(request):  # in a thread of the pool
    answer = PlainTextResponse(request.cookies.get("a", ""))
    answer.set_cookie("b", "2")
    answer.set_cookie("c", "3")
    return answer


async def background(request):
    async def later():
        await asyncio.sleep(0.01)
        done.append(1)

    return PlainTextResponse("begun", background=BackgroundTask(later))


async def is_done(request):
    return PlainTextResponse("done" if done else "")


async def started(request):
    return PlainTextResponse(request.state.started)


async def talk(websocket):
    await websocket.accept(subprotocol="chat")
    async for text in websocket.iter_text():
        if text == "bye":
            return await websocket.close(4001)
        await websocket.send_text(f"you said {text}")


@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"started": "started"}


def create():
    routes = [
        Route("/hello", hello),
        Route("/json", numbers, methods=["POST"]),
        Route("/items/{name}", item),
        Route("/upload", upload, methods=["POST"]),
        Route("/stream", stream),
        Route("/form", form, methods=["POST"]),
        Route("/error", error),
        Route("/file", file),
        Route("/moved", moved),
        Route("/cookies", cookies),
        Route("/background", background),
        Route("/done", is_done),
        Route("/started", started),
        WebSocketRoute("/ws", talk),
    ]
    return Starlette(routes=routes, lifespan=lifespan, middleware=[Middleware(BaseHTTPMiddleware, dispatch=made_by)])


app = create()
