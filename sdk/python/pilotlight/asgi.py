"""Runs an unmodified ASGI application (ASGI 3.0) as a service: `python -m pilotlight.asgi package.module:app`.

HTTP with streams both ways, trailers and early hints; WebSocket; lifespan. On uvloop if it is installed.
"""

import asyncio
import sys
from os import environ
from signal import SIGINT, SIGTERM

from ._app import command_line, load, misused
from ._core import native
from ._exchange import BODY, START, Disconnected, Exchange
from ._loop import Instance
from ._switch import Offer, WebSocket, is_handshake

__all__ = ["Disconnected", "main", "serve"]
PATIENCE_SECONDS = 2.0  # between `http.disconnect` and the task's end by cancellation
USAGE = """usage: python -m pilotlight.asgi MODULE:APP [--factory] [--mount PREFIX] [--lifespan auto|on|off]
                               [--loop auto|asyncio|uvloop] [--exchanges N]

MODULE:APP       where the application is; APP may be a dotted name, and is `app` if left out
--factory        APP is a function without arguments that makes the application
--mount PREFIX   the path below which the application lives: its root_path
--lifespan MODE  auto (default): without, if the application fails on it; on: then the start fails; off: never
--loop LOOP      auto (default): uvloop if it is installed
--exchanges N    requests at once on a shared connection (default 256)
"""


class Failed(Exception):
    """The application does not start; the text says why."""


class Server:
    """What exchanges need to know: the application and how it is called."""

    def __init__(self, app, root_path, patience_s, max_message):
        self.app, self.root_path, self.state = app, root_path.rstrip("/"), {}
        self.patience_s, self.max_message = patience_s, max_message

    def begin(self, link, number, ended, offered, payload):
        """The exchange that a request is."""
        exchange = (Offer if offered else Exchange)(self, link, number, ended, offered, payload)
        if not self.is_mounted(exchange.scope["path"]):
            exchange.app = not_found
        elif offered and is_handshake(exchange.scope):
            return WebSocket(self, link, number, ended, offered, payload)
        return exchange

    def take_over(self, link, found):
        """The exchange that goes on with what the compiled core has begun."""
        return Exchange.taken(self, link, found)

    def is_mounted(self, path):
        return not self.root_path or path == self.root_path or path.startswith(self.root_path + "/")


class Lifespan:
    """The application's start and end."""

    def __init__(self, app, mode, state):
        self.app, self.mode, self.state, self.task = app, mode, state, None
        self.said, self.stopping, self.asked = None, None, 0

    async def start(self):
        """Raises Failed if the application says so, or has no lifespan and must have one."""
        if self.mode == "off":
            return
        self.said, self.stopping = asyncio.Queue(), asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self.run())
        kind, text = await self.said.get()
        if kind == "lifespan.startup.failed":
            raise Failed(f"the application's start failed: {text}")
        if kind is None:
            self.task = None
            if self.mode == "on":
                raise Failed(f"the application has no lifespan: {text}")

    async def stop(self):
        if self.task:
            self.stopping.set()
            kind, text = await self.said.get()
            if kind != "lifespan.shutdown.complete":
                raise Failed(f"the application's end failed: {text}")

    async def run(self):
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        text = "it returned"
        try:
            await self.app(scope, self.receive, self.send)
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
            if self.asked > 1:
                sys.excepthook(type(error), error, error.__traceback__)
        finally:
            self.said.put_nowait((None, text))

    async def receive(self):
        self.asked += 1
        if self.asked > 1:
            await self.stopping.wait()
        return {"type": "lifespan.startup" if self.asked == 1 else "lifespan.shutdown"}

    async def send(self, message):
        self.said.put_nowait((message["type"], message.get("message", "")))


def serve(
    app, *, mount="", lifespan="auto", loop="auto", exchanges=256, max_own=64, max_upgraded=1024, max_message=16 << 20,
    patience_s=PATIENCE_SECONDS,
):
    """Answers requests with the ASGI application `app` until the gateway or SIGTERM ends the service; then returns.

    `exchanges` is how many requests a shared connection takes before they are answered, `max_own` how many large or
    streamed requests run at once, `max_upgraded` how many WebSockets may be open, `max_message` how many bytes a
    message of one may have. When a client has gone the application gets `http.disconnect`; `patience_s` later its task
    is cancelled. It takes over SIGTERM and SIGINT and runs a loop of its own, so it runs in the main thread.
    """
    if not environ.get("PILOTLIGHT_SOCKET") or not environ.get("PILOTLIGHT_TOKEN"):
        sys.stderr.write(f"pilotlight: PILOTLIGHT_SOCKET is not set.\n{sys.modules[__package__].__doc__ or ''}")
        raise SystemExit(2)
    server = Server(app, mount, patience_s, max_message)
    instance = Instance(server.begin, exchanges, max_own, max_upgraded)
    if native:
        from . import _fast_asgi

        _fast_asgi.equip(instance, server)
    running = new_loop(loop)
    try:
        asyncio.set_event_loop(running)
        code = running.run_until_complete(run(server, instance, Lifespan(app, lifespan, server.state)))
        running.run_until_complete(running.shutdown_asyncgens())
        running.run_until_complete(running.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        running.close()
    if code:
        raise SystemExit(code)


async def run(server, instance, lifespan):
    """The exit code."""
    loop = asyncio.get_running_loop()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # standard output is the log
    try:
        await lifespan.start()
        for number in (SIGTERM, SIGINT):
            loop.add_signal_handler(number, instance.drain)
        code = await instance.run()
        await lifespan.stop()
        return code
    except Failed as failed:
        sys.stderr.write(f"pilotlight: {failed}\n")
        return 1


def new_loop(name):
    """An event loop: uvloop's, or asyncio's."""
    if name in ("auto", "uvloop"):
        try:
            import uvloop

            return uvloop.new_event_loop()
        except ImportError:
            if name == "uvloop":
                raise
    return asyncio.new_event_loop()


async def not_found(scope, receive, send):
    await send({"type": START, "status": 404, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": BODY, "body": b"nothing is mounted here\n"})


def main(arguments=None):
    """The command line."""
    options = {"--factory": False, "--mount": "", "--lifespan": "auto", "--loop": "auto", "--exchanges": "256"}
    name = command_line(arguments, options, USAGE)
    fit = options["--lifespan"] in ("auto", "on", "off") and options["--loop"] in ("auto", "asyncio", "uvloop")
    if not fit or not options["--exchanges"].isdigit():
        misused(USAGE)
    app = load(name, "app", "ASGI")
    serve(
        app() if options["--factory"] else app,
        mount=options["--mount"],
        lifespan=options["--lifespan"],
        loop=options["--loop"],
        exchanges=int(options["--exchanges"]),
    )


if __name__ == "__main__":
    main()
