"""A client by the official SDK of MCP for Python: `client.py URL FOLDER MODE`, MODE one of sessions, stateless. Prints
what it was told as JSON. The file `cut` in the folder tells the test to cut the connection, `go` the server to go on.
"""

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp
from mcp.client.streamable_http import streamable_http_client

URL, FOLDER, MODE = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
IS_FIRST = not hasattr(mcp, "Client")


async def list_roots(context):
    types = mcp.types
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv/docs")])


@asynccontextmanager
async def connected():
    if not IS_FIRST:
        mode = {"sessions": "legacy", "stateless": "auto"}[MODE]
        async with mcp.Client(URL, mode=mode, list_roots_callback=list_roots) as client:
            yield client
        return
    async with streamable_http_client(URL) as (read, write, _):
        async with mcp.ClientSession(read, write, list_roots_callback=list_roots) as session:
            await session.initialize()
            yield session


def text(result):
    return result.content[0].text


async def main():
    told, seen = {}, []
    async with connected() as client:
        told["version"] = str(getattr(client, "protocol_version", "first"))
        told["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
        told["sum"] = text(await client.call_tool("add", {"a": 20, "b": 22}))
        told["pids"] = [text(await client.call_tool("pid", {})) for _ in range(2)]

        async def progress(done, total, message):
            seen.append(done)

        told["steps"] = text(await client.call_tool("steps", {"count": 5}, progress_callback=progress))
        told["progress"] = list(seen)
        if MODE == "sessions":
            told["roots"] = text(await client.call_tool("roots", {}))
            seen.clear()

            async def cut(done, total, message):
                seen.append(done)
                if len(seen) == 2:
                    (FOLDER / "cut").touch()

            arguments = {"count": 8, "wait_for": str(FOLDER / "go")}
            told["resumed"] = text(await client.call_tool("steps", arguments, progress_callback=cut))
            told["resumed_progress"] = list(seen)
        with anyio.move_on_after(0.5):
            await client.call_tool("long", {})
        told["after"] = text(await client.call_tool("add", {"a": 1, "b": 1}))
    print(json.dumps(told))


anyio.run(main)
