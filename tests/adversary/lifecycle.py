"""Lifecycle: numbered requests while services are killed, stopped, restarted, scaled, and the gateway is reloaded and upgraded.

Each request gets its one whole answer, or one error that an action explains. EXPLAINS says which.
"""

import asyncio
import json
import os
import random
import signal
import threading
import time
import traceback
from dataclasses import dataclass

from harness import limits, route, service

from .numbered import COMMAND, check, content
from .operated import Operated, Quiet, until
from .wire import Broken, Connection

SERVICES = ("pool", "web")
CLIENTS = 6  # for each service
PAUSES = (0.0, 0.4)  # seconds between two actions
STOPPED = (0.05, 1.5)  # seconds that a process is stopped; far less than response_timeout, so nobody may notice

# action -> what a client of that service may get because of it: (what, seconds after the action, a word of the problem's detail or phase).
# `cut`: the answer ends early, and it can be seen. `closed`: a kept connection ends before the answer's first byte.
# What is not here explains nothing: reload, restart, scale, stop and start of a service, SIGSTOP and SIGCONT.
# A kill closes a kept connection, too, if the gateway had the answer's head and had not sent it yet: a cut answer of no bytes.
KILLED = (("502", 10.0), ("503", 45.0), ("cut", 10.0), ("closed", 2.0))
EXPLAINS = {
    "kill": KILLED,
    "kill-guardian": KILLED,
    "upgrade": (("closed", 30.0),),
}
WORDS = {"502": ("ended", "closed", "reached", "connection"), "503": ("start", "pause", "failed", "ended", "queue", "waited")}


@dataclass
class Action:
    name: str
    service: str  # "" for all
    begin: float
    end: float


def run(seed, seconds, report):
    Lifecycle(seed, seconds, report).run()


def blocks(version):
    """The file, in one of its versions."""
    env = {"V": str(version % 5)}
    several = {"concurrency": 8, "max_instances": 1 + version % 3, "scale_up_after": "20ms"} if version % 2 else {}
    common = {"max_failures": 100, "drain_timeout": "60s"}
    pool = service("pool", COMMAND, env=env, **common, **several)
    web = service("web", COMMAND, env={"V": str(version % 3)}, transport="http", **common)
    routes = route("/pool", "pool", strip_prefix=True), route("/web", "web", strip_prefix=True)
    return (pool, web, *routes, limits(response_timeout="60s", shutdown_timeout="60s", body_timeout="60s"))


class Lifecycle:
    def __init__(self, seed, seconds, report):
        self.chance, self.clients_chance = random.Random(seed), random.Random(seed + 1)
        self.seconds, self.report, self.seed = seconds, report, seed
        self.actions, self.step = [], 0
        self.over = threading.Event()
        self.number = 0
        self.outcomes = []

    def run(self):
        with Operated(blocks) as operated:
            self.operated = operated
            load = threading.Thread(target=self.attack, daemon=True)
            load.start()
            deadline, version = time.monotonic() + self.seconds, 0
            try:
                until(lambda: self.number > 100, 60, "a hundred requests")
                while time.monotonic() < deadline:
                    self.step += 1
                    version = self.act(version)
                    self.report.progress(f"{self.step} actions, {self.number} requests")
                    time.sleep(self.chance.uniform(*PAUSES))  # another moment each time
            finally:
                self.over.set()
                load.join(120)
            self.judge()
            operated.finish(self.report)

    def act(self, version):
        names = ("reload", "settings", "restart", "stop", "start", "kill", "pause", "bad", "upgrade", "kill-guardian")
        name = self.chance.choices(names, (2, 4, 3, 2, 2, 5, 4, 1, 1, 0.5))[0]
        target = self.chance.choice(SERVICES)
        begin = time.monotonic()
        version += name == "settings"
        action = Action(name, target, begin, float("inf"))
        self.actions.append(action)  # before it has an effect
        try:
            self.do(action, version)
        finally:
            action.end = time.monotonic()
        return version

    def do(self, action, version):
        operated = self.operated
        if action.name in ("reload", "settings"):
            operated.write(version)
            self.expect(action, 0, "reload")
        elif action.name == "bad":
            operated.write(version, "nonsense = \n")
            self.expect(action, 2, "reload")
            operated.write(version)
        elif action.name == "upgrade":
            operated.write(version)
            action.service = ""
            self.expect(action, 0, "upgrade")
        elif action.name == "kill":
            self.signal(action, signal.SIGKILL)
        elif action.name == "pause":
            self.signal(action, signal.SIGSTOP)
        elif action.name == "kill-guardian":
            action.service = ""
            if pid := operated.guardian():
                with Quiet():
                    os.kill(pid, signal.SIGKILL)
                self.report.count("kills")
        else:
            self.expect(action, 0, action.name, action.service, "--no-wait")

    def signal(self, action, number):
        try:
            pids = self.operated.instances(action.service)
        except (OSError, ValueError):
            return
        for pid in pids:
            with Quiet():
                os.kill(pid, number)
                self.report.count("kills")
        if number == signal.SIGSTOP:
            time.sleep(self.chance.uniform(*STOPPED))
            for pid in pids:
                with Quiet():
                    os.kill(pid, signal.SIGCONT)

    def expect(self, action, code, *arguments):
        got, text = self.operated.command(*arguments)
        if got != code:
            self.report.wrong("unexplained", self.step, f"`pilotlight {' '.join(arguments)}` exits {got}, not {code}: {text[-500:]}")

    def attack(self):
        try:
            asyncio.run(self.load())
        except Exception:
            self.report.wrong("unexplained", self.step, "the clients themselves failed:\n" + traceback.format_exc())

    async def load(self):
        await asyncio.gather(*(self.client(name) for name in SERVICES for _ in range(CLIENTS)))

    async def client(self, name):
        """Requests one after the other, some on the connection of the one before."""
        connection, served = None, 0
        while not self.over.is_set():
            if connection is None:
                connection, served = await self.connect(), 0
                if connection is None:
                    continue
            keep = await self.request(connection, name, served)
            served += 1
            if not keep:
                await connection.__aexit__()
                connection = None
        if connection:
            await connection.__aexit__()

    async def connect(self):
        begin = time.monotonic()
        try:
            return await Connection.to(self.operated.address)
        except OSError as error:
            self.outcomes.append(("", "refused", begin, time.monotonic(), repr(error)))
            await asyncio.sleep(0.05)
            return None

    async def request(self, connection, name, served):
        """Whether the connection can be used for another."""
        chance = self.clients_chance
        self.number += 1
        number, size = self.number, chance.choice((0, 10, 500, 5_000, 40_000, 200_000))
        kind = chance.choices(("n", "s", "p"), (5, 1, 2))[0]
        close = chance.random() < 0.2
        fields = b"Host: a.test\r\n" + (b"Connection: close\r\n" if close else b"")
        body = content(number, size) if kind == "p" else b""
        if kind == "p":
            head = f"POST /{name}/p/{number} HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
        else:
            head = f"GET /{name}/{kind}/{number}/{min(size, 40_000) if kind == 's' else size} HTTP/1.1\r\n"
            size = min(size, 40_000) if kind == "s" else size
        begin = time.monotonic()
        outcome, text = await self.exchange(connection, (number, size), head.encode() + fields + b"\r\n" + body)
        self.report.count("requests")
        if outcome != "right":
            if outcome == "gone":
                outcome = "closed" if served else "cut"
            self.outcomes.append((name, outcome, begin, time.monotonic(), f"request {number} ({head.splitlines()[0]}): {text}"))
        return outcome == "right" and not close and not text

    async def exchange(self, connection, wanted, data):
        """right, wrong, cut, gone, late, or the status of an error; and what there is to say about it."""
        await connection.send(data)
        try:
            answer = await connection.answer(limit=150)
        except Broken as broken:
            return "cut", str(broken)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            return "cut", repr(error)
        except TimeoutError:
            return "late", "no answer within 150 s"
        if answer is None:
            return "gone", "the connection ended"
        if answer.status == 200:
            fault = check(*wanted, answer.body)
            return ("wrong", fault) if fault else ("right", "closes" if answer.closes else "")
        return str(answer.status), self.problem(answer)

    def problem(self, answer):
        try:
            document = json.loads(answer.body)
        except ValueError:
            document = {}
        if answer.get(b"content-type") != b"application/problem+json" or document.get("status") != answer.status or not document.get("detail"):
            self.report.wrong("wrong", self.step, f"no honest problem document: {answer}")
        if answer.status == 503 and not answer.get(b"retry-after"):
            self.report.wrong("wrong", self.step, f"503 without Retry-After: {answer}")
        return f"{document.get('detail')} {document.get('phase', '')}"

    def judge(self):
        """Every outcome that is not right has its reason in what was done."""
        for name, outcome, begin, end, text in self.outcomes:
            if outcome == "wrong":
                self.report.wrong("wrong", self.step, text)
            elif not self.explained(name, outcome, begin, end, text):
                near = [f"{one.name} {one.service} {one.begin - begin:+.1f} s" for one in self.actions if begin - 10 < one.begin < end]
                self.report.wrong("unexplained", self.step, f"{outcome} of {name or 'the gateway'} after {end - begin:.1f} s: {text}; near it: {near}")

    def explained(self, name, outcome, begin, end, text):
        if outcome in WORDS and not any(word in text for word in WORDS[outcome]):
            return False
        for action in self.actions:
            for what, seconds in EXPLAINS.get(action.name, ()):
                if what == outcome and action.service in ("", name) and begin - seconds < action.end and action.begin < end:
                    return True
        return False


