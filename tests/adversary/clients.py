"""Hostile clients: every request of the corpus, whole, cut at every byte and byte by byte, with the cache on and off.

For each the answers, whether the connection goes on, and what the service saw must be what the case says. Without a case:
an answer that does not say `Connection: close` leaves a connection that works, one that does is the last one.
"""

import asyncio
import random
import time

from harness import BINARY, Gateway, config, limits, route, service

from .corpus import CASES
from .recorder import Recorder
from .wire import Broken, Connection

AT_ONCE = 24
SPLIT_AT_ALL = 700  # bytes; of longer requests, positions are drawn
DRAWN = 40
SETTLE = 20.0  # seconds in which the service has seen what it will see
PROBE = b"GET /r/probe/@@ HTTP/1.1\r\nHost: a.test\r\n\r\n"


class Run:
    """One way to send a case to one gateway."""

    def __init__(self, case, number, cached, cuts, turn=1):
        self.case, self.number, self.cached, self.cuts, self.turn = case, number, cached, cuts, turn

    def marked(self, data):
        return data.replace(b"@@", b"q%dq" % self.number)

    def pieces(self):
        data = self.marked(self.case.send)
        cuts = [0, *(cut for cut in self.cuts if cut < len(data)), len(data)]
        return [data[begin:end] for begin, end in zip(cuts, cuts[1:])]

    def __str__(self):
        how = f", cut at {self.cuts if len(self.cuts) < 5 else 'every byte'}" if self.cuts else ""
        return f"{self.case}{how}, cache {'on' if self.cached else 'off'}{', the second time' if self.turn > 1 else ''}"


def run(seed, seconds, report):
    asyncio.run(Clients(seed, seconds, report).run())


class Clients:
    def __init__(self, seed, seconds, report):
        self.chance, self.seconds, self.report = random.Random(seed), seconds, report
        self.number, self.runs = 0, {}
        self.deadline = None

    async def run(self):
        self.recorder = await Recorder().start()
        self.gateways = {cached: self.gateway(cached) for cached in (False, True)}
        try:
            for gateway in self.gateways.values():
                gateway.start()
            self.deadline = time.monotonic() + self.seconds
            await self.all_whole()
            await self.split()
            await self.settle()
            self.check_service()
            self.check_gateways()
        finally:
            for gateway in self.gateways.values():
                if gateway.process:
                    gateway.stop()
            await self.recorder.stop()

    def gateway(self, cached):
        web = service("web", url=self.recorder.url)
        routes = (route("/", "web", exact=True, cache=cached), route("/r", "web", cache=cached), route("/r/small", "web", cache=cached, body_size="1KiB"))
        return Gateway(BINARY, config(web, *routes, limits(header_timeout="60s", body_timeout="60s"), cache=cached, workers=1))

    async def all_whole(self):
        """Every case once with each gateway, and with the cache once more: that may be a hit."""
        await self.play([[self.one(case, False, ())] for case in CASES])
        again = []
        for case in CASES:
            first = self.one(case, True, ())
            again.append([first, Run(case, first.number, True, (), 2)])
        await self.play(again)
        self.report.count("cases", len(CASES))

    async def split(self):
        """Cut into two at every byte, and byte by byte, in an order of the seed, until the time is over."""
        ways = []
        for case in CASES:
            size = len(case.send)
            places = range(1, size) if size <= SPLIT_AT_ALL else [self.chance.randrange(1, size) for _ in range(DRAWN)]
            ways += [(case, (place,)) for place in places]
            if 1 < size <= SPLIT_AT_ALL:
                ways.append((case, tuple(range(1, size))))
        self.chance.shuffle(ways)
        batch = 400
        for begin in range(0, len(ways), batch):
            if time.monotonic() > self.deadline:
                self.report.note(f"{begin * 2} of {len(ways) * 2} ways to cut the cases were taken in this time")
                return
            await self.play([[self.one(case, cached, cuts)] for case, cuts in ways[begin : begin + batch] for cached in (False, True)])

    def one(self, case, cached, cuts):
        self.number += 1
        run = Run(case, self.number, cached, cuts)
        self.runs[run.number] = run
        return run

    async def play(self, sequences):
        """Each sequence in its order, some sequences at once."""
        queue = iter(sequences)

        async def work():
            for sequence in queue:
                for run in sequence:
                    await self.attempt(run)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    async def attempt(self, run):
        self.report.count("requests", max(1, len(run.case.answers)))
        self.report.progress(f"{self.report.counts['requests']} requests, now {run.case}")
        try:
            async with await Connection.to(self.gateways[run.cached].address) as connection:
                await self.exchange(connection, run)
        except Broken as broken:
            self.wrong(run, str(broken))
        except TimeoutError:
            self.wrong(run, "no answer, and the connection stays open")

    async def exchange(self, connection, run):
        case, last = run.case, None
        await connection.send(*run.pieces())
        if case.fin:
            connection.end()
        for number, allowed in enumerate(case.answers):
            method = case.methods[number] if number < len(case.methods) else "GET"
            answer = await connection.answer(method)
            status = answer.status if answer else 0
            if status not in allowed:
                return self.wrong(run, f"answer {number + 1} is {answer or 'none'}, expected {sorted(allowed)}")
            if status == 200 and method != "HEAD" and self.has_mark(case, number) and b"q%dq" % run.number not in answer.body:
                return self.wrong(run, f"an answer to another request: {answer}")
            if answer is None:
                return None
            last = answer
        await self.afterwards(connection, run, last)

    @staticmethod
    def has_mark(case, number):
        """Whether the service's answer repeats the mark: it repeats the target."""
        line = case.saw[number].line if number < len(case.saw) else None
        return isinstance(line, bytes) and b"@@" in line

    async def afterwards(self, connection, run, last):
        case = run.case
        if case.fin or case.after == "closed":
            if not await connection.ended():
                self.wrong(run, "something comes after the last answer")
        elif last.closes:
            if case.after == "open":
                self.wrong(run, f"the last answer says `Connection: close`: {last}")
            if not await connection.ended():
                self.wrong(run, "something comes after an answer with `Connection: close`")
        elif case.after != "any-no-probe":
            await connection.send(run.marked(PROBE))
            answer = await connection.answer()
            if answer is None or answer.status != 200 or b"/r/probe/q%dq" % run.number not in answer.body:
                self.wrong(run, f"the next request on this connection is answered by {answer or 'its end'}; the last answer was {last}")

    def wrong(self, run, text):
        self.report.wrong("wrong", run, f"{run}\n    sent {run.marked(run.case.send)[:300]!r}\n    {text}")

    async def settle(self):
        """Whatever a client may have smuggled in has arrived when this returns: two further requests have gone the same way."""
        for gateway in self.gateways.values():
            for _ in range(2):
                async with await Connection.to(gateway.address) as connection:
                    self.number += 1
                    await connection.send(b"GET /r/q%dq HTTP/1.1\r\nHost: a.test\r\n\r\n" % self.number)
                    await connection.answer()
        deadline = time.monotonic() + SETTLE
        while time.monotonic() < deadline and any(self.missing(run) for run in self.runs.values()):
            await asyncio.sleep(0.1)

    def check_service(self):
        for breach in self.recorder.breaches[:20]:
            self.report.wrong("wrong", "service", f"the gateway sent what no client may send: {breach}")
        for stray in self.recorder.strays[:20]:
            self.report.wrong("wrong", "service", f"a request that no client sent: {stray}")
        for run in self.runs.values():
            for text in (self.missing(run), self.unexpected(run)):
                if text:
                    self.wrong(run, text)

    def seen(self, run):
        return [one for one in self.recorder.seen.get(run.number, ()) if b"/r/probe/" not in one.line]

    def missing(self, run):
        """What the service should have seen for certain: what is refused in some runs is not."""
        seen = [one.line for one in self.seen(run)]
        for answer, saw in zip(run.case.answers, run.case.saw):
            lines = saw.line if isinstance(saw.line, tuple) else (saw.line,)
            certain = all(200 <= status < 300 for status in answer) and None not in lines
            if certain and not any(run.marked(line) in seen for line in lines) and not (run.cached and lines[0].startswith(b"HEAD")):
                return f"the service did not see {run.marked(lines[0])!r}, but {seen}"
        return None

    def unexpected(self, run):
        expected = list(run.case.saw) * (2 if run.cached else 1)
        for request in self.seen(run):
            faults = []
            for saw in expected:
                fault = self.fault(run, request, saw)
                if fault is None:
                    expected.remove(saw)
                    break
                faults.append(fault)
            else:
                return f"the service saw {request}: {faults[0] if faults else 'it should have seen nothing'}"
        return None

    @staticmethod
    def fault(run, request, saw):
        """Why this is not what the service should have seen."""
        lines = [run.marked(line) for line in (saw.line if isinstance(saw.line, tuple) else (saw.line,)) if line]
        if request.line not in lines:
            return f"expected {lines}"
        if saw.body is not None and request.body != run.marked(saw.body):
            return f"expected the body {saw.body[:100]!r}"
        for name, value in saw.has.items():
            values = list(value) if isinstance(value, tuple) else [run.marked(value)]
            if request.all(name) != values:
                return f"{name!r} should be {values}"
        for lack in saw.lacks:
            name, equals, value = lack.removeprefix(b"trailer:").partition(b"=")
            fields = request.trailers if lack.startswith(b"trailer:") else request.fields + request.trailers
            found = [text for key, text in fields if key.lower() == name]
            if any(value in text.lower() for text in found) if equals else found:
                return f"{lack!r} should not be there"
        return None

    def check_gateways(self):
        for cached, gateway in self.gateways.items():
            if gateway.process.poll() is not None:
                self.report.wrong("unexplained", "end", f"the gateway (cache {cached}) ended: {gateway.output()[-2000:]}")
            for line in gateway.output().splitlines():
                if "panicked" in line:
                    self.report.wrong("unexplained", "end", line)
