"""What bench.py asks of FastAPI: a short text, and a view of 10 KB of JSON through a model of pydantic's."""

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

app = FastAPI()


class Item(BaseModel):
    id: int
    name: str
    price: float
    tags: list[str]


ITEMS = [Item(id=number, name=f"item {number}", price=number * 1.25, tags=["a", "b"]) for number in range(150)]


@app.get("/hello", response_class=PlainTextResponse)
async def hello():
    return "hello, world\n"


@app.get("/json")
async def view() -> list[Item]:
    return ITEMS
