"""The application of test_frameworks.py with Litestar."""

import contextlib
from typing import Annotated

from litestar import Litestar, MediaType, Request, Response, WebSocket, get, post, websocket
from litestar.background_tasks import BackgroundTask
from litestar.datastructures import Cookie, UploadFile
from litestar.enums import RequestEncodingType
from litestar.exceptions import WebSocketDisconnect
from litestar.params import Body
from litestar.response import File, Redirect, Stream

done = []


def text(content, **more):
    return Response(content, media_type=MediaType.TEXT, **more)


@get("/hello")
async def hello(request: Request, name: str = "") -> Response:
    return text(f"hello {name}, {request.headers.get('x-asked')}", headers={"x-made-by": "app"})


@post("/json", status_code=200)
async def numbers(data: dict) -> dict:
    return {"sum": sum(data["numbers"])}


@get("/items/{name:str}")
async def item(name: str) -> Response:
    return text(name)


@post("/upload", status_code=200, request_max_body_size=None)
async def upload(request: Request) -> Response:
    total = 0
    async for piece in request.stream():
        total += len(piece)
    return text(str(total))


@get("/stream")
async def stream() -> Stream:
    async def lines():
        for number in range(50):
            yield b"%d\n" % number

    return Stream(lines())


@post("/form", status_code=200)
async def form(data: Annotated[dict[str, UploadFile], Body(media_type=RequestEncodingType.MULTI_PART)]) -> Response:
    return text(f"{data['f'].filename}: {len(await data['f'].read())}")


@get("/error")
async def error() -> None:
    raise RuntimeError("as asked")


@get("/file")
async def file() -> File:
    return File(__file__, media_type=MediaType.TEXT)


@get("/moved")
async def moved() -> Redirect:
    return Redirect("/hello")


@get("/cookies", sync_to_thread=True)
def cookies(request: Request) -> Response:
    return text(request.cookies.get("a", ""), cookies=[Cookie("b", value="2"), Cookie("c", value="3")])


@get("/background")
async def background() -> Response:
    async def later():
        done.append(1)

    return text("begun", background=BackgroundTask(later))


@get("/done")
async def is_done() -> Response:
    return text("done" if done else "")


@get("/started")
async def started(request: Request) -> Response:
    return text(request.app.state.started)


@websocket("/ws")
async def talk(socket: WebSocket) -> None:
    await socket.accept(subprotocols="chat")
    with contextlib.suppress(WebSocketDisconnect):
        while (said := await socket.receive_text()) != "bye":
            await socket.send_text(f"you said {said}")
        await socket.close(code=4001)


@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.started = "started"
    yield


routes = [hello, numbers, item, upload, stream, form, error, file, moved, cookies, background, is_done, started, talk]
app = Litestar(routes, lifespan=[lifespan])
