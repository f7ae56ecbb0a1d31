"""What bench.py asks of Starlette: a short text, and a view of 10 KB of JSON."""

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

ITEMS = [{"id": number, "name": f"item {number}", "price": number * 1.25, "tags": ["a", "b"]} for number in range(150)]


async def hello(request):
    return PlainTextResponse("hello, world\n")


async def view(request):
    return JSONResponse(ITEMS)


app = Starlette(routes=[Route("/hello", hello), Route("/json", view)])
