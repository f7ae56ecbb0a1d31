"""The application of test_frameworks.py with FastAPI."""

import asyncio
import contextlib
from typing import Annotated

from fastapi import BackgroundTasks, Cookie, FastAPI, Header, Request, Response, UploadFile, WebSocket
from fastapi.responses import FileResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel
from starlette.websockets import WebSocketDisconnect

done = []


class Numbers(BaseModel):
    numbers: list[int]


@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.started = "started"
    yield


app = FastAPI(lifespan=lifespan, default_response_class=PlainTextResponse)


@app.get("/hello")
async def hello(response: Response, name: str = "", x_asked: Annotated[str, Header()] = ""):
    response.headers["x-made-by"] = "app"
    return f"hello {name}, {x_asked}"


@app.post("/json", response_class=Response)
def numbers(body: Numbers):
    return Response('{"sum":%d}' % sum(body.numbers), media_type="application/json")


@app.get("/items/{name}")
def item(name: str):
    return name


@app.post("/upload")
async def upload(request: Request):
    return str(len(await request.body()))


@app.get("/stream")
async def stream():
    def lines():
        for number in range(50):
            yield b"%d\n" % number

    return StreamingResponse(lines())


@app.post("/form")
async def form(f: UploadFile):
    return f"{f.filename}: {len(await f.read())}"


@app.get("/error")
async def error():
    raise RuntimeError("as asked")


@app.get("/file")
async def file():
    return FileResponse(__file__, media_type="text/plain")


@app.get("/moved")
async def moved():
    return RedirectResponse("/hello")


@app.get("/cookies")
async def cookies(response: Response, a: Annotated[str, Cookie()] = ""):
    response.set_cookie("b", "2")
    response.set_cookie("c", "3")
    return a


@app.get("/background")
async def background(tasks: BackgroundTasks):
    tasks.add_task(done.append, 1)
    return "begun"


@app.get("/done")
async def is_done():
    return "done" if done else ""


@app.get("/started")
async def started(request: Request):
    return request.app.state.started


@app.websocket("/ws")
async def talk(websocket: WebSocket):
    await websocket.accept(subprotocol="chat")
    with contextlib.suppress(WebSocketDisconnect, asyncio.CancelledError):
        while (text := await websocket.receive_text()) != "bye":
            await websocket.send_text(f"you said {text}")
        await websocket.close(4001)
