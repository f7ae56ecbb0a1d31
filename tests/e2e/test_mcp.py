"""The official SDK of MCP for Python, its first major version (sessions) and its second (sessions, and requests without
them), as a server on standard streams and as a client over HTTP, the gateway between them (docs/guide/stdio.md)."""

import asyncio
import json
import os
import subprocess
import threading
import unittest
from pathlib import Path

from harness import BINARY, ROOT, Gateway, TestCase, config, descendants, route, service, setUpModule
from programs import installed

__all__ = ["setUpModule"]

SDKS = Path(os.environ.get("PILOTLIGHT_MCP_SDKS", ROOT / "target" / "mcp"))
FOLDER = ROOT / "tests" / "mcp"
PROGRESS = [0.0, 1.0, 2.0, 3.0, 4.0]


def python(version):
    return str(installed(SDKS / version / "bin" / "python", "the SDK of MCP for Python"))


class Cutting:
    """A proxy that cuts all its connections when a file appears, and lets the server go on behind that."""

    def __init__(self, target, cut, go):
        self.target, self.cut, self.go, self.cuts = target, cut, go, 0
        self.loop, self.ready = asyncio.new_event_loop(), threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        self.ready.wait(10)

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        self.ready.set()
        self.loop.run_until_complete(self._watch())

    async def _watch(self):
        self.open = set()
        while not self.cut.exists():
            await asyncio.sleep(0.01)
        for writer in list(self.open):
            writer.transport.abort()
            self.cuts += 1
        self.go.touch()
        await asyncio.sleep(60)

    async def _serve(self, reader, writer):
        far, to = await asyncio.open_connection(*self.target)
        self.open |= {writer, to}
        await asyncio.gather(self._pass(reader, to), self._pass(far, writer))
        self.open -= {writer, to}

    async def _pass(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except (ConnectionError, OSError):
            pass
        writer.close()


class Sdk(TestCase):
    def served(self, version, **settings):
        argv = [python(version), "-B", str(FOLDER / "server.py")]
        blocks = service("tools", argv, transport="stdio", start_timeout="60s", **settings) + route("/mcp", "tools")
        return self.start(Gateway(BINARY, config(blocks)))

    def told(self, gateway, version, mode):
        cut, go = gateway.folder / "cut", gateway.folder / "go"
        proxy = Cutting(gateway.address, cut, go)
        argv = [python(version), "-B", str(FOLDER / "client.py"), f"http://127.0.0.1:{proxy.port}/mcp",
                str(gateway.folder), mode]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr + gateway.output())
        told = json.loads(done.stdout)
        self.assertEqual(told["tools"], ["add", "long", "pid", "roots", "steps"])
        self.assertEqual((told["sum"], told["steps"], told["after"]), ("42", "5 steps", "2"))
        self.assertEqual(told["progress"], PROGRESS)
        self.assertEqual(len(set(told["pids"])), 1)
        if mode == "sessions":
            self.assertEqual(told["roots"], "file:///srv/docs")
            self.assertGreater(proxy.cuts, 0)
            self.assertEqual(told["resumed"], "8 steps")
            self.assertEqual(told["resumed_progress"], [float(step) for step in range(8)])
        return told

    def programs(self, gateway):
        return [line for line in descendants(gateway.process.pid).values()
                if "server.py" in line and " -- " not in line]

    def test_first_version(self):
        gateway = self.served("1")
        self.told(gateway, "1", "sessions")
        self.assert_eventually(lambda: not self.programs(gateway), "its DELETE has ended the process", 20)

    def test_second_version_with_sessions(self):
        gateway = self.served("2")
        self.assertTrue(self.told(gateway, "2", "sessions")["version"] < "2026")
        self.assert_eventually(lambda: not self.programs(gateway), "its DELETE has ended the process", 20)

    def test_second_version_without_sessions(self):
        gateway = self.served("2")
        self.assertEqual(self.told(gateway, "2", "stateless")["version"], "2026-07-28")

    def test_a_client_of_the_second_finds_out_that_a_program_is_of_the_first(self):
        gateway = self.served("1")
        self.assertTrue(self.told(gateway, "2", "stateless")["version"] < "2026")

    def test_a_client_of_the_first_and_a_program_of_the_second(self):
        self.told(self.served("2"), "1", "sessions")


if __name__ == "__main__":
    unittest.main()
