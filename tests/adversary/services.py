"""Hostile services: every frame of Pipe/1 mutated, garbage and silence over HTTP, floods, forged lines, orphans.

Whatever a service does, its clients get an answer or a cut one in bounded time, a healthy service beside it answers rightly, memory
stays bounded, the log cannot be forged, and nothing of a service outlives its stop.
"""

import asyncio
import json
import os
import random
import re
import signal
import time

from harness import limits, processes, rss_kib, route, service

from . import hostile_http, hostile_pipe, numbered
from .operated import Operated, Quiet, until
from .wire import Broken, Connection

AT_ONCE = 32
BATCH = 192
MEMORY_KIB = 96 * 1024  # more than after the first step, for the whole part
HELLO_LIMIT = 30.0  # seconds: the specification has 2 s, and the machine may be busy
ORPHAN_LIMIT = 60.0
# What is a control or a format character, but for the tab and the line's own end.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
LARGE = b"x" * 40_000  # on a connection of its own


def run(seed, seconds, report):
    asyncio.run(Services(seed, seconds, report).run())


def blocks(_):
    common = {"max_failures": 1000, "drain_timeout": "1s", "stop_grace": "500ms"}
    bad = service("bad", hostile_pipe.COMMAND, **common)
    evil = service("evil", hostile_http.COMMAND, transport="http", **common)
    good, other = service("good", numbered.COMMAND, **common), service("other", numbered.COMMAND, **common)
    routes = [route("/" + name, name, strip_prefix=True) for name in ("good", "other")]
    routes.append(route("/bad", "bad", strip_prefix=True, response_timeout="1s"))
    # What is evil is cached as well: what is stored must be what was whole.
    routes.append(route("/evil", "evil", cache=True, strip_prefix=True, response_timeout="1s"))
    return (bad, evil, good, other, *routes, limits(response_timeout="60s", body_timeout="10s"))


class Services:
    def __init__(self, seed, seconds, report):
        self.chance, self.seed, self.seconds, self.report = random.Random(seed), seed, seconds, report
        self.number, self.step = 0, ""

    async def run(self):
        with Operated(blocks, workers=1) as operated:
            self.operated = operated
            self.deadline = time.monotonic() + self.seconds
            await self.healthy("good")
            # What is done once whatever the time is, then frames and answers until the time is over.
            for part in (self.forge, self.hellos, self.silent, self.orphans, self.floods):
                await part()
                await self.healthy("good")
                self.report.progress(f"{part.__name__} done, {self.report.counts['requests']} requests")
            base = rss_kib(operated.gateway)
            await self.frames_and_answers()
            grown = rss_kib(operated.gateway) - base
            if grown > MEMORY_KIB:
                self.report.wrong("unexplained", "end", f"the gateway has grown by {grown} KiB")
            self.check_output()
            await self.healthy("good")
            operated.finish(self.report)

    async def frames_and_answers(self):
        """Every mutation of every frame on both kinds of connection, and an answer made of garbage for each, in the seed's order."""
        done, total = 0, 0
        while done == 0 or time.monotonic() < self.deadline:
            cases = [(case, large) for case in range(len(hostile_pipe.FRAMES)) for large in (False, True)]
            self.chance.shuffle(cases)
            total = len(cases)
            for begin in range(0, total, BATCH):
                if done and time.monotonic() > self.deadline:
                    self.report.note(f"{done} frames of {total} were sent in this time")
                    return
                await asyncio.gather(self.play(cases[begin : begin + BATCH], self.frame), self.play(range(begin, begin + BATCH), self.garbage))
                done += len(cases[begin : begin + BATCH])
                await self.healthy("good")

    async def play(self, cases, attempt):
        queue = iter(cases)

        async def work():
            for case in queue:
                await attempt(case)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    async def frame(self, case):
        number, large = case
        target = f"/bad/frame/{self.seed + self.chance.randrange(1000)}/{number}"
        self.report.count("cases")
        await self.any_answer(target, LARGE if large else b"")

    async def garbage(self, _):
        kind = "slow" if self.chance.random() < 0.1 else "garbage"
        self.report.count("cases")
        # Few targets: some come again, and may be answered from the cache.
        await self.any_answer(f"/evil/{kind}/{self.seed * 1000 + self.chance.randrange(700)}")

    async def any_answer(self, target, body=b""):
        """An answer that can be read, or a cut one: nothing else, and in bounded time."""
        self.report.count("requests")
        try:
            async with await Connection.to(self.operated.address) as connection:
                method = "POST" if body else "GET"
                head = f"{method} {target} HTTP/1.1\r\nHost: a.test\r\n" + (f"Content-Length: {len(body)}\r\n" if body else "") + "\r\n"
                await connection.send(head.encode() + body)
                answer = await connection.answer(limit=60)
                if answer is None:
                    return None  # cut before its first byte: head and broken body of the service came together
                if answer.status < 200 or answer.status > 599:
                    self.report.wrong("wrong", target, f"{target} is answered by {answer}")
                return answer
        except Broken as broken:
            if "cut answer" not in str(broken) and "the stream ended" not in str(broken):
                self.report.wrong("wrong", target, f"{target}: {broken}")
        except asyncio.IncompleteReadError:
            pass  # cut within a chunk, which can be seen
        except TimeoutError:
            self.report.wrong("wrong", target, f"{target} is not answered within 60 s")

    async def healthy(self, name):
        """A service that does nothing wrong is not touched by the others."""
        self.number += 1
        number, size = self.number, 30_000
        self.report.count("requests")
        try:
            async with await Connection.to(self.operated.address) as connection:
                await connection.send(f"GET /{name}/n/{number}/{size} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
                answer = await connection.answer(limit=60)
        except (Broken, TimeoutError) as error:
            return self.report.wrong("wrong", self.step, f"the healthy service, beside {self.step}: {error!r}")
        fault = numbered.check(number, size, answer.body) if answer and answer.status == 200 else str(answer)
        if fault:
            self.report.wrong("wrong", self.step, f"the healthy service, beside {self.step}: {fault}")

    async def told(self, target):
        """The body of the answer to a request that this service answers in any case."""
        self.step = target
        answer = await self.any_answer(target)
        if answer is None or answer.status != 200:
            self.report.wrong("unexplained", target, f"{target}: {answer}")
            return None
        return answer.body

    async def forge(self):
        """Texts with line ends and control characters, in RESET, LOG and on the standard error."""
        self.report.count("cases", 3)
        await self.told("/bad/logs/300")
        for where in ("0", "1"):
            self.step = f"/bad/forge/{where}"
            answer = await self.any_answer(self.step)
            if answer and UNSAFE.search(answer.body.decode(errors="replace").replace("\n", " ")):
                self.report.wrong("escapes", self.step, f"control characters reach the client: {answer}")
        self.check_output()

    def check_output(self):
        code, text = self.operated.command("logs", "bad", "-n", "500")
        for what, lines in (("the gateway's log", self.operated.gateway.output().split("\n")), ("pilotlight logs", text.split("\n"))):
            forged = [line for line in lines if line.startswith(hostile_pipe.STAMP[:10]) and "FORGED" in line[:60]]
            unsafe = [line for line in lines if UNSAFE.search(line)]
            for kind, found in (("a forged line", forged), ("control characters", unsafe)):
                if found:
                    self.report.wrong("escapes", "forge", f"{kind} in {what}, {len(found)} times: {found[0][:200]!r}")

    async def hellos(self):
        """Mutated HELLOs: the gateway ends each of them soon."""
        count = 12 if self.seconds < 60 else 60
        self.step = "hello"

        async def one(number):
            self.report.count("cases")
            answer = await self.told_slowly(f"/bad/hello/{self.seed + number}")
            if answer:
                told = json.loads(answer.body)
                if not told["ended"] or told["seconds"] > HELLO_LIMIT:
                    self.report.wrong("unexplained", f"hello {self.seed + number}", f"a broken HELLO is not ended: {told}")

        await self.play(range(count), one)

    async def told_slowly(self, target):
        """These answer when the gateway has ended the connection that they opened, which may be later than response_timeout."""
        answer = await self.any_answer(target)
        return answer if answer and answer.status == 200 else None

    async def silent(self):
        """Connections that say nothing take no other service's place."""
        self.report.count("cases")
        await self.told("/bad/silent/300")
        code, text = await asyncio.to_thread(self.operated.command, "stop", "other")
        if code:
            self.report.wrong("unexplained", "silent", f"`pilotlight stop other` exits {code}: {text[-300:]}")
        await self.healthy("other")  # starts, beside all the silent connections

    async def orphans(self):
        """What a service leaves behind ends with its instance: when it is stopped, and when it dies."""
        for kind in ("setsid", "double", "both"):
            for end in ("stop", "kill"):
                self.report.count("cases")
                told = await self.told(f"/bad/orphan/{kind}")
                if told is None:
                    continue
                pid, known = int(told), processes().get(int(told))
                if end == "stop":
                    await asyncio.to_thread(self.operated.command, "stop", "bad")
                else:
                    for instance in self.operated.instances("bad"):
                        with Quiet():
                            os.kill(instance, signal.SIGKILL)
                            self.report.count("kills")
                await self.gone(pid, known, f"orphan of {kind}, after {end}")
                await asyncio.to_thread(self.operated.command, "restart", "bad")

    async def gone(self, pid, known, what):
        def ended():
            now = processes().get(pid)
            return now is None or known is None or now[1] != known[1]

        try:
            await asyncio.to_thread(until, ended, ORPHAN_LIMIT, what)
        except TimeoutError:
            self.report.wrong("left", what, f"process {pid} outlives its service: {what}")
            with Quiet():
                os.kill(pid, signal.SIGKILL)

    async def floods(self):
        """More output and more LOG frames than anybody takes."""
        self.report.count("cases", 2)
        before = rss_kib(self.operated.gateway)
        size = 5_000_000 if self.seconds < 60 else 50_000_000
        await self.flood(f"/bad/flood/{size}")
        await self.flood(f"/bad/logs/{size // 1000}")
        if (grown := rss_kib(self.operated.gateway) - before) > MEMORY_KIB:
            self.report.wrong("unexplained", "flood", f"the gateway has grown by {grown} KiB in a flood of output")

    async def flood(self, target):
        """It may take longer than response_timeout; the healthy service beside it may not."""
        self.step = target
        flood = asyncio.create_task(self.any_answer(target))
        while not flood.done():
            await self.healthy("good")
            await asyncio.sleep(0.05)
