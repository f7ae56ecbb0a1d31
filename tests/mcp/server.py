"""A server by the official SDK of MCP for Python, its first major version or its second, over standard streams."""

import os
from pathlib import Path

import anyio

try:
    from mcp.server.mcpserver import Context, MCPServer
except ImportError:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("tests")


@server.tool()
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


@server.tool()
def pid() -> int:
    """The process."""
    return os.getpid()


@server.tool()
async def steps(count: int, ctx: Context, wait_for: str = "") -> str:
    """Reports progress; waits for a file in the middle, if one is named."""
    for step in range(count):
        if step == count // 2 and wait_for:
            while not Path(wait_for).exists():
                await anyio.sleep(0.01)
        await ctx.report_progress(step, count)
    return f"{count} steps"


@server.tool()
async def roots(ctx: Context) -> str:
    """Asks the client for its folders."""
    found = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def long(ctx: Context) -> str:
    """Goes on until it is cancelled."""
    await anyio.sleep_forever()
    return "never"


server.run()
