"""`examples/users` as registers: is each user's history linearizable while its processes are killed?

Some clients read and write a few users through one process (cache in memory) or two (one database, cache in Redis). Each write has
a value of its own. Every round ends with all clients at rest and a read of each of its users. The history of a user in a round, with
what it was at the round's begin, must have an order that explains every answer. A write whose answer was lost may have happened or
not. An acknowledged write is never lost, also over a SIGKILL.
"""

import itertools
import math
import random
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from harness import Cut
from users_service import Redis, Users, send

USERS = range(1, 61)
# Users of one round. Those that were being written when their process was killed are not kept in Redis for some seconds, so the
# next round has others; each comes again later, and has to be as it was.
MAX_AT_ONCE = 6
CLIENTS = 6
WRITES = (0.05, 0.4)  # of all requests, in one round or another: many hits, or many races
ROUND_SECONDS = 1.5
JOIN_LIMIT = 120.0
MAX_STATES = 200_000  # that the search looks at for one history before it gives up


@dataclass(frozen=True)
class Operation:
    begin: float
    end: float  # infinite: no answer came
    is_write: bool
    value: str


def run(seed, seconds, report):
    chance = random.Random(seed)
    deadline = time.monotonic() + seconds
    for turn, mode in enumerate(itertools.cycle(("memory", "redis"))):
        if turn >= 2 and time.monotonic() >= deadline:
            return
        share = max(ROUND_SECONDS, min(60.0, (deadline - time.monotonic()) / 2))
        Registers(mode, chance, report).run(time.monotonic() + share)


class Registers:
    def __init__(self, mode, chance, report):
        self.chance, self.report, self.mode = chance, report, mode
        self.numbers = itertools.count(1)
        self.rounds = 0

    def run(self, deadline):
        folder = Path(tempfile.mkdtemp(prefix="pilotlight-coherence-"))
        redis = Redis().start() if self.mode == "redis" else None
        processes = []
        try:
            arguments = ("--redis", redis.url, "--redis-budget-ms", "5000") if redis else ()
            for _ in range(2 if redis else 1):
                processes.append(Users(folder / "users.db", *arguments).start())
            values = {user: self.read(processes[0], user) for user in USERS}
            while time.monotonic() < deadline:
                values |= self.round(processes, values)
                self.report.progress(f"{self.mode}, {self.rounds} rounds, {self.report.counts['requests']} operations")
        finally:
            for one in processes:
                one.stop()
            if redis:
                redis.stop()
            shutil.rmtree(folder, ignore_errors=True)

    def round(self, processes, before):
        """Attacks some users for a while; their values afterwards."""
        self.rounds += 1
        users, writes = self.chance.sample(USERS, self.chance.randint(1, MAX_AT_ONCE)), self.chance.choice(WRITES)
        history, over = {user: [] for user in users}, threading.Event()
        chances = [random.Random(self.chance.random()) for _ in range(CLIENTS)]
        threads = [threading.Thread(target=self.client, args=(processes, one, history, writes, over), daemon=True) for one in chances]
        for thread in threads:
            thread.start()
        time.sleep(ROUND_SECONDS * self.chance.uniform(0.3, 1))  # work of different lengths before the kill
        if self.chance.random() < 0.7:
            victim = self.chance.choice(processes)
            victim.kill()
            self.report.count("kills")
            victim.start()
            time.sleep(ROUND_SECONDS * self.chance.uniform(0, 0.4))
        over.set()
        for thread in threads:
            thread.join(JOIN_LIMIT)
            if thread.is_alive():
                self.report.wrong("unexplained", self.rounds, f"{self.mode}: a client has waited for {JOIN_LIMIT:g} s")
        after = {}
        for user in history:
            begin = time.monotonic()
            after[user] = self.read(self.chance.choice(processes), user)
            operations = [*history[user], Operation(begin, time.monotonic(), False, after[user])]
            self.report.count("cases")
            if is_linearizable(operations, before[user]) is False:
                self.report.wrong("wrong", self.rounds, f"{self.mode}: user {user} was {before[user]!r}; nothing explains {shown(operations)}")
                if lost := self.lost(operations, after[user]):
                    self.report.wrong("lost", self.rounds, f"{self.mode}: user {user}: {lost}")
        return after

    @staticmethod
    def lost(operations, last):
        """The last acknowledged write, if nothing after it could have replaced it."""
        writes = [one for one in operations if one.is_write]
        for one in writes:
            rivals = [other for other in writes if other is not one and other.end > one.begin]
            if one.end < math.inf and last not in {one.value, *(other.value for other in rivals)}:
                return f"{one.value!r} was acknowledged, and it is {last!r}"
        return None

    def client(self, processes, chance, history, writes, over):
        clients, users = {}, list(history)
        while not over.is_set():
            process, user = chance.choice(processes), chance.choice(users)
            is_write = chance.random() < writes
            value = f"v{next(self.numbers)}"
            begin = time.monotonic()
            try:
                client = clients.get(process.address) or clients.setdefault(process.address, process.client(60.0))
                if is_write:
                    answer = send(client, "PUT", f"/users/{user}", {"name": value, "email": f"register-{user}@test.example"})
                else:
                    answer = send(client, "GET", f"/users/{user}")
            except (OSError, Cut):
                if is_write:
                    history[user].append(Operation(begin, math.inf, True, value))
                clients = {}
                time.sleep(0.01)  # it is being killed or started
                continue
            self.report.count("requests")
            end = time.monotonic()
            if answer.status == 200:
                history[user].append(Operation(begin, end, is_write, value if is_write else answer.json["name"]))
            else:
                # Every status above means that nothing was changed.
                self.report.wrong("unexplained", self.rounds, f"{self.mode}: {'PUT' if is_write else 'GET'} /users/{user}: {answer}")

    @staticmethod
    def read(process, user):
        return process.request("GET", f"/users/{user}", timeout=60.0).json["name"]


def shown(operations):
    """The history in the order of its begins, short."""
    first = min(one.begin for one in operations)
    lines = sorted(operations, key=lambda one: one.begin)
    return "; ".join(f"{one.begin - first:.4f}-{one.end - first:.4f} {'w' if one.is_write else 'r'} {one.value}" for one in lines[-60:])


def is_linearizable(operations, initial):
    """Whether some order of the operations, each between its begin and its end, gives every read the value before it.

    A search over (which operations are done, the value now); each pair is looked at once. A write without an answer need not be done
    at all. None if the search gave up.
    """
    ordered = sorted(operations, key=lambda one: one.begin)
    needed = sum(1 << number for number, one in enumerate(ordered) if one.end < math.inf)
    pending, seen = [(0, 0, initial)], set()
    while pending:
        lowest, done, value = pending.pop()
        if done & needed == needed:
            return True
        if len(seen) > MAX_STATES:
            return None
        while lowest < len(ordered) and done >> lowest & 1:
            lowest += 1
        # What may come next has begun before the first end of those that are not done.
        limit, possible = math.inf, []
        for number in range(lowest, len(ordered)):
            one = ordered[number]
            if one.begin > limit:
                break
            if not done >> number & 1:
                limit = min(limit, one.end)
                possible.append(number)
        # A read that fits comes first: it changes nothing, so all else stays possible.
        reads = [number for number in possible if not ordered[number].is_write and ordered[number].value == value]
        writes = [number for number in possible if ordered[number].is_write]
        for number in reads[:1] or writes:
            state = (done | 1 << number, ordered[number].value)
            if state not in seen:
                seen.add(state)
                pending.append((lowest, *state))
    return False


def self_test():
    """The judge itself: a history that has an order, and three that have none."""
    inf = math.inf
    write, read = (lambda b, e, v: Operation(b, e, True, v)), (lambda b, e, v: Operation(b, e, False, v))
    assert is_linearizable([write(0, 2, "a"), read(1, 3, "i"), read(2.5, 4, "a")], "i")
    assert is_linearizable([write(0, inf, "a"), read(1, 2, "i"), read(3, 4, "a")], "i")
    assert is_linearizable([write(0, 1, "a"), read(2, 3, "i")], "i") is False
    assert is_linearizable([write(0, 3, "a"), read(1, 1.5, "a"), read(2, 2.5, "i")], "i") is False
    assert is_linearizable([write(0, inf, "a"), read(1, 2, "a"), read(3, 4, "i")], "i") is False


self_test()
