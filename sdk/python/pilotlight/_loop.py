"""The connections of an instance on an event loop: frames in and out, kinds of connections, drain and death.

It knows what the gateway may send when, and nothing of applications: an exchange is made by `Instance.begin`.
Invariants: answers that are finished in one turn of the loop leave in one write (P-18). Of a body, the socket's
buffers, one read and one frame are held in each direction: a connection whose exchange does not read is not read
(P-22).
"""

import asyncio
import sys
from os import environ, getpid

from ._pipe import GATEWAY_DRAIN_SECONDS, MAX_AT_ONCE, MAX_SHARED, __version__
from ._upgrade import MINOR
from ._wire import (
    CANCELLED, DATA, DRAIN, END, HEADER, HELLO, IGNORABLE, LOG, MAX_FRAME, MAX_HELLO, MORE, NUMBERS, PING, PONG,
    PROTOCOL, REFUSED, REQUEST, RESET, TRAILERS, UPGRADE, WELCOME, Violation, check, frame, reset,
)

REST_SECONDS = 10.0  # what tasks have to end in when the gateway is gone


class Flow:
    """Whether a transport takes more: who writes waits for it."""

    def __init__(self):
        self.transport, self.paused, self.closed, self._waiting = None, False, False, []

    def pause_writing(self):
        self.paused = True

    def resume_writing(self):
        self.paused = False
        self._wake()

    async def drained(self):
        """Waits until the transport takes more, or is closed."""
        while self.paused and not self.closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)

    def lost(self):
        self.closed = True
        self._wake()

    def _wake(self):
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class Link(Flow, asyncio.Protocol):
    """One connection to the gateway: shared, own or answer."""

    def __init__(self, instance, kind, worker=None):
        super().__init__()
        self.instance, self.kind, self.worker, self.minor, self.max_frame = instance, kind, worker, 0, MAX_HELLO
        self.rules, self.tail, self.open, self.out = RULES["new"], b"", {}, []

    def connection_made(self, transport):
        self.transport = transport
        transport.set_write_buffer_limits(MAX_FRAME)
        own = self.instance
        hello = f"PIPE/1\ntoken={own.token}\nkind={self.kind}\nsdk=pilotlight-asgi/{__version__}\npid={getpid()}\n"
        hello += f"exchanges={own.exchanges}\nmax_own={own.limits['own']}\n" if self.kind == "shared" else ""
        hello += f"minor={MINOR}\n" + ("" if self.worker is None else f"worker={self.worker}\n")
        transport.write(frame(HELLO, 0, 0, hello.encode()))  # P-1

    def data_received(self, data):
        try:
            data, start = self.tail + data if self.tail else data, 0
            while len(data) - start >= HEADER.size:
                size, kind, flags, exchange = HEADER.unpack_from(data, start)
                check(size <= self.max_frame, "P-6: a frame of {} bytes, the limit is {}", size, self.max_frame)
                begin, end = start + HEADER.size, start + HEADER.size + size
                if end > len(data):
                    break
                self.on_frame(kind, flags, exchange, data[begin:end])
                start = end
            self.tail = data[start:]
        except Exception as error:
            self.fail(error)

    def on_frame(self, kind, flags, exchange, payload):
        if kind == REQUEST and kind in self.rules:
            return self.on_request(kind, flags, exchange, payload)
        if kind == RESET and not exchange:
            raise OSError(f"the gateway says: {str(payload[NUMBERS.size :], 'utf-8', 'replace')}")
        known, on_frame = HELLO <= kind <= LOG, self.rules.get(kind)
        check(on_frame or not known, "P-11: type {} on a connection of kind {}, or too early", kind, self.kind)
        check(known or flags & IGNORABLE, "P-7: a frame of the unknown type {}", kind)
        if known:
            on_frame(self, kind, flags, exchange, payload)

    def on_welcome(self, kind, flags, exchange, payload):
        keys = dict(line.partition(b"=")[::2] for line in payload.split(b"\n"))
        check(keys.keys() >= {b"PIPE/1", b"worker", b"max_frame"}, "P-3: not a WELCOME of PIPE/1: {!r:.200}", payload)
        self.worker, self.max_frame = int(keys[b"worker"]), max(int(keys[b"max_frame"]), MAX_FRAME)
        self.rules, self.minor = RULES[self.kind], int(keys.get(b"minor", 0))
        self.welcomed()

    def welcomed(self):
        """The gateway has accepted this connection."""

    def on_request(self, kind, flags, number, payload):
        offered = bool(flags & UPGRADE and self.kind == "own" and self.minor)
        if not (number and number not in self.open and len(self.open) < self.instance.exchanges and flags & END):
            self.check_request(flags, number, offered)
        check(self.kind == "shared" or not self.open, "P-19: REQUEST before the exchange before it has ended")
        exchange = self.instance.begin(self, number, bool(flags & END), offered, payload)
        self.open[number] = exchange
        if self.instance.draining:
            exchange.cut(REFUSED)  # P-31
        else:
            exchange.start()

    def check_request(self, flags, number, offered):
        """What is unusual about a request, and may be wrong."""
        check(self.kind == "own" or flags & END, "P-14: REQUEST without END on a shared connection")
        check(len(self.open) < self.instance.exchanges, "P-14: more than {} exchanges at once", self.instance.exchanges)
        check(number and number not in self.open, "P-15: the exchange id {} is 0 or open", number)
        check(flags & END or not offered, "P-38: REQUEST with UPGRADE and without END")

    def on_part(self, kind, flags, number, payload):
        exchange = self.open.get(number)
        check(kind == RESET or exchange and not exchange.ended, "P-11: type {}, exchange {} not open", kind, number)
        if not exchange:
            return  # P-26: it has ended
        check(exchange.begun or not exchange.offered, "P-39: type {} before the answer to an offered switch", kind)
        exchange.ended = exchange.ended or kind != DATA or bool(flags & END)
        if kind == RESET:
            exchange.cut(NUMBERS.unpack_from(payload)[0] or CANCELLED)
        elif kind == DATA:
            exchange.feed(payload)
        else:
            fit = not payload or payload[-1] == 0 and payload.count(0) % 2 == 0
            check(fit, "P-8: TRAILERS that are not pairs of strings")
            exchange.feed(b"")
        if exchange.done and exchange.ended:
            self.open.pop(number, None)

    def on_ping(self, kind, flags, exchange, payload):
        self.flush()
        self.transport.write(frame(PONG, 0, 0, payload))  # P-35

    def on_drain(self, kind, flags, exchange, payload):
        self.instance.released = True
        self.instance.drain()

    def on_more(self, kind, flags, exchange, payload):
        wanted, count, worker = NUMBERS.unpack_from(payload)
        self.instance.dial({1: "own", 2: "shared"}[wanted], count, worker)

    def finish(self, data):
        """Sends a final frame with those that other exchanges finish in this turn of the loop; the last one at once."""
        if self.open and not self.out:
            self.instance.loop.call_soon(self.flush)
        self.out.append(data)
        if not self.open:
            self.flush()

    def write(self, data):
        self.flush()
        self.transport.write(data)

    def flush(self):
        if self.out:
            out, self.out = self.out, []
            self.transport.write(b"".join(out) if len(out) > 1 else out[0])

    def fail(self, error):
        """Ends the connection and says why (P-10)."""
        text = error if isinstance(error, (OSError, Violation)) else f"P-11: a malformed frame: {error!r}"
        if not isinstance(error, OSError):
            self.write(reset(0, PROTOCOL, text))
        if not self.closed:
            sys.stderr.write(f"pilotlight: {self.kind} connection closed: {text}\n")
        self.instance.failed = self.instance.failed or self.kind == "shared"
        self.connection_lost(error)
        self.transport.close()

    def connection_lost(self, error):
        """Ends its exchanges (P-34); the last shared one ends the instance (P-33)."""
        if self.closed:
            return
        self.lost()
        for exchange in list(self.open.values()):
            exchange.ended = True
            exchange.cut(CANCELLED)
        self.instance.forget(self)


# P-11: what the gateway may send on each kind of connection, besides RESET on exchange 0
EXCHANGES = {REQUEST: Link.on_request, RESET: Link.on_part, PING: Link.on_ping}
RULES = {"new": {WELCOME: Link.on_welcome}, "answer": {}}
RULES["shared"] = {**EXCHANGES, MORE: Link.on_more, DRAIN: Link.on_drain}
RULES["own"] = {**EXCHANGES, DATA: Link.on_part, TRAILERS: Link.on_part}


class Instance:
    """This instance: what its connections share. `begin(link, number, ended, offered, payload)` makes an exchange."""

    def __init__(self, begin, exchanges, max_own, max_upgraded):
        fit = all(1 <= number <= MAX_AT_ONCE for number in (exchanges, max_own))
        check(fit, "exchanges={}, max_own={}: each must be 1 to {}", exchanges, max_own, MAX_AT_ONCE)
        self.begin, self.exchanges, self.loop = begin, exchanges, None
        self.path, self.token = environ.get("PILOTLIGHT_SOCKET"), environ.get("PILOTLIGHT_TOKEN")
        self.limits = {"own": max_own, "shared": MAX_SHARED}
        self.links, self.answers, self.tasks, self.upgraded, self.dialling = set(), {}, set(), set(), set()
        self.max_upgraded, self.draining, self.released, self.failed = max_upgraded, False, False, False
        self.told, self.moved = None, None  # told: a reason to end has come; moved: something has ended
        self.kinds = {}  # the classes of links that are the compiled core's

    def dial(self, kind, count, worker=None):
        """Opens `count` connections of a kind, never more than its limit (P-23)."""
        there = sum(link.kind == kind for link in self.links)
        for _ in range(min(count, self.limits[kind] - there)):
            link = self.kinds.get(kind, Link)(self, kind, worker)
            self.links.add(link)
            task = self.loop.create_task(self.connect(link))
            self.dialling.add(task)
            task.add_done_callback(self.dialling.discard)

    async def connect(self, link):
        try:
            await self.loop.create_unix_connection(lambda: link, self.path)
            return True
        except OSError as error:
            sys.stderr.write(f"pilotlight: cannot dial the gateway at {self.path}: {error}\n")
            self.failed = self.failed or link.kind == "shared"
            link.lost()
            self.forget(link)
            return False

    async def answer(self, worker):
        """An answer connection (P-24), idle (P-25) or new; None: there is none to be had."""
        idle = self.answers.setdefault(worker, [])
        while idle:
            link = idle.pop()
            if not link.closed:
                return link
        link = Link(self, "answer", worker)
        self.links.add(link)
        return link if await self.connect(link) else None

    def forget(self, link):
        self.links.discard(link)
        if link.kind == "shared" and not any(other.kind == "shared" for other in self.links):
            self.end()
        self.stir()

    def drain(self):
        """Finishes what there is, begins nothing new."""
        if not self.draining:
            self.draining = True
            for session in list(self.upgraded):
                session.go_away()  # P-43
        self.stir()
        self.told.set()

    def end(self):
        """The gateway is gone."""
        for task in self.tasks:
            task.cancel()
        for session in list(self.upgraded):
            session.abandon()
        self.drain()

    def stir(self):
        """Something has ended, which who ends the instance waits for."""
        if self.draining:
            self.moved.set()

    async def run(self):
        """From the first connection to the end of the last exchange; the exit code."""
        self.loop, self.told, self.moved = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self.dial("shared", 1)
        await self.told.wait()
        shared = [link for link in self.links if link.kind == "shared" and link.transport]
        until = self.loop.time() + GATEWAY_DRAIN_SECONDS
        for link in shared if not self.released else ():
            link.write(frame(DRAIN, 0, 0, bytes(4)))  # P-32
        while any(link.kind == "shared" for link in self.links):
            left = None if self.tasks or self.upgraded else 0 if self.released else until - self.loop.time()
            if left is not None and left <= 0:
                break
            await self.wait(left)
        await self.rest()
        return 1 if self.failed else 0

    async def rest(self):
        """Tasks that were cancelled because the gateway has gone, and what is still to be written."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=REST_SECONDS)
        for link in list(self.links):
            link.flush()
            link.transport and link.transport.close()
        until = self.loop.time() + GATEWAY_DRAIN_SECONDS
        while self.links and (left := until - self.loop.time()) > 0:
            await self.wait(left)

    async def wait(self, seconds):
        self.moved.clear()
        try:
            await asyncio.wait_for(self.moved.wait(), seconds)
        except asyncio.TimeoutError:
            pass
