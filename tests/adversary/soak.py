"""One gateway for as long as there is time, with all kinds of requests: memory and descriptors at the end are those after the warm-up.

Half of the clients keep their connections, half do not; some leave in the middle of an answer or of a body, some send what is no HTTP.
Every whole answer is checked.
"""

import asyncio
import os
import random
import time

from harness import limits, rss_kib, route, service

from .numbered import COMMAND, check, content
from .operated import Operated
from .wire import Broken, Connection

CLIENTS = 8
WARM_UP = 0.35  # of the time
#: What may be there at the end and was not after the warm-up: pages that the allocator has not given back, and a few descriptors.
MORE_KIB = 12 * 1024
MORE_RATIO = 1.15
MORE_DESCRIPTORS = 8
KEPT = 400  # different targets that the cache gets
LIMIT = 120.0


def run(seed, seconds, report):
    with Operated(blocks) as operated:
        asyncio.run(Soak(operated, seed, seconds, report).run())
        operated.finish(report)


def blocks(_):
    # What is stored weighs the same after the warm-up and at the end.
    web = service("web", COMMAND, transport="http")
    return service("pool", COMMAND), web, route("/pool", "pool", strip_prefix=True), route("/web", "web", strip_prefix=True, cache="2s"), limits()


class Soak:
    def __init__(self, operated, seed, seconds, report):
        self.operated, self.seconds, self.report = operated, seconds, report
        self.chances = [random.Random(seed + number) for number in range(CLIENTS)]
        self.end = time.monotonic() + seconds

    async def run(self):
        clients = asyncio.gather(*(self.client(number, chance) for number, chance in enumerate(self.chances)))
        await asyncio.sleep(self.seconds * WARM_UP)
        before = self.state()
        await clients
        gone = lambda: self.state()[1] <= before[1] + MORE_DESCRIPTORS  # noqa: E731
        deadline = time.monotonic() + LIMIT
        while not gone() and time.monotonic() < deadline:
            await asyncio.sleep(0.2)  # what clients have left is closed within the limits of the gateway
        after = self.state()
        self.report.note(f"soak: {before[0] / 1024:.1f} MiB, {before[1]} descriptors after the warm-up; {after[0] / 1024:.1f} MiB, {after[1]} at the end")
        if after[0] > max(before[0] * MORE_RATIO, before[0] + MORE_KIB):
            self.report.wrong("unexplained", "end", f"memory grew from {before[0]} to {after[0]} KiB")
        if not gone():
            self.report.wrong("unexplained", "end", f"descriptors grew from {before[1]} to {after[1]}")

    def state(self):
        """Memory in KiB, and open descriptors."""
        return rss_kib(self.operated.gateway), len(os.listdir(f"/proc/{self.operated.gateway.process.pid}/fd"))

    async def client(self, number, chance):
        connection, turn = None, 0
        while time.monotonic() < self.end:
            turn += 1
            if connection is None:
                connection = await Connection.to(self.operated.address)
            keep = await self.request(connection, chance, (number, turn)) and number % 2 == 0
            self.report.progress(f"{self.report.counts['requests']} requests, {rss_kib(self.operated.gateway) // 1024} MiB")
            if not keep:
                await connection.__aexit__()
                connection = None
        if connection:
            await connection.__aexit__()

    async def request(self, connection, chance, step):
        """Whether the connection can be used again."""
        self.report.count("requests")
        name, number, size = chance.choice(("pool", "web")), chance.randrange(KEPT), chance.choice((0, 30, 3_000, 60_000))
        kind = chance.choices(("get", "post", "leave", "cut", "noise"), (10, 3, 1, 1, 1))[0]
        get = b"GET /%b/n/%d/%d HTTP/1.1\r\nHost: a.test\r\n\r\n" % (name.encode(), number, size)
        post = b"POST /%b/p/%d HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % (name.encode(), number, size)
        if kind == "noise":
            await connection.send(chance.randbytes(chance.randrange(1, 200)) + b"\r\n\r\n")
        elif kind == "cut":
            await connection.send(post + content(number, size)[: size // 2])
        elif kind == "leave":
            await connection.send(get)
        else:
            await connection.send(get if kind == "get" else post + content(number, size))
            return await self.read(connection, (number, size), step)
        await asyncio.sleep(chance.uniform(0, 0.01))  # at another point of the exchange each time
        return False

    async def read(self, connection, wanted, step):
        try:
            answer = await connection.answer(limit=LIMIT)
        except (Broken, TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            self.report.wrong("unexplained", step, f"{wanted}: {error!r}")
            return False
        if answer is None:
            return False  # closed between two requests
        if answer.status != 200:
            self.report.wrong("unexplained", step, f"{wanted}: {answer}")
        elif fault := check(*wanted, answer.body):
            self.report.wrong("wrong", step, fault)
        return not answer.closes
