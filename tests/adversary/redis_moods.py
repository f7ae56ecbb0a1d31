"""The cache's Redis in every bad mood: killed, stopped, slow, full, locked, poisoned, failing over. Answers stay right, and are answers.

Each page says its URL and its version. Clients know the versions that they have made, and note an older one, another page's,
and anything that is not 200 (`Load` of the end-to-end tests). Losing Redis is never an error to a client.
"""

import random
import socket
import threading
import time
from collections import Counter
from http.server import ThreadingHTTPServer

from harness import BINARY, Gateway, config, eventually, route, service
from redis_servers import Cluster, Server, SlowProxy
from test_cache_redis import ADMIN, Load, Pages

MOODS = ("killed", "paused", "slow", "full", "locked", "poisoned", "leases", "flushed", "failover")
MOOD_SECONDS = 4.0
COVERED = "\npilotlight_cache_coherence_covered 1\n"
BACK_LIMIT = 90.0


def run(seed, seconds, report):
    chance = random.Random(seed)
    deadline = time.monotonic() + seconds
    pages = serve_pages()
    try:
        turn = 0
        while turn == 0 or time.monotonic() < deadline:
            moods = list(MOODS)
            chance.shuffle(moods)
            for mood in moods:
                left = deadline - time.monotonic()
                if turn and left <= 0:
                    return
                turn += 1
                length = min(MOOD_SECONDS, max(0.6, seconds / (2.5 * len(MOODS)))) * chance.uniform(0.6, 1.2)
                Mood(mood, chance, report, pages, turn).run(length)
                report.progress(f"{turn} moods, {report.counts['requests']} requests")
    finally:
        pages.shutdown()
        pages.server_close()


def serve_pages():
    pages = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    pages.daemon_threads, pages.request_queue_size = True, 128
    pages.lock, pages.versions, pages.asked = threading.Lock(), Counter(), Counter()
    pages.fields, pages.takes = [("Cache-Control", "max-age=1")], 0.0
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    return pages


class Mood:
    def __init__(self, name, chance, report, pages, step):
        self.name, self.chance, self.report, self.pages, self.step = name, chance, report, pages, step
        self.closes = []

    def run(self, seconds):
        self.report.count("cases")
        try:
            url = self.redis()
            web = service("web", url=f"http://127.0.0.1:{self.pages.server_port}")
            redis = f'[cache.redis]\nurl = "{url}"\nbudget = "200ms"\nlease = "2s"\n'
            gateways = []
            for _ in range(2):
                gateway = Gateway(BINARY, config(web, route(service="web", cache=True), redis, ADMIN), start_limit=60.0, stop_limit=60.0).start()
                self.closes.append(gateway.stop)
                gateways.append(gateway)
            if not all(eventually(lambda gateway=gateway: COVERED in metrics(gateway), BACK_LIMIT, 0.05) for gateway in gateways):
                self.report.wrong("unexplained", self.step, f"{self.name}: the log of purges was not read within {BACK_LIMIT:g} s")
            with Load(gateways, clients=4) as load:
                time.sleep(seconds / 3)  # hits of all kinds first
                getattr(self, self.name)(seconds / 3)
                time.sleep(seconds / 3)
            self.judge(load)
            if not all(eventually(lambda gateway=gateway: COVERED in metrics(gateway), BACK_LIMIT, 0.1) for gateway in gateways):
                self.report.wrong("unexplained", self.step, f"{self.name}: Redis is well again, and is not used within {BACK_LIMIT:g} s")
            for gateway in gateways:
                gateway.stop()
                for line in gateway.output().splitlines():
                    if "panicked at" in line:
                        self.report.wrong("unexplained", self.step, line)
        finally:
            for close in reversed(self.closes):
                close()

    def judge(self, load):
        self.report.count("requests", len(load.times))
        for text in load.wrong:
            self.report.wrong("wrong", self.step, f"{self.name}: {text}")
        for failure in load.failed:
            self.report.wrong("unexplained", self.step, f"{self.name}: {failure!r}")
        if not load.times:
            self.report.wrong("unexplained", self.step, f"{self.name}: no request was answered")

    def redis(self):
        if self.name == "failover":
            self.cluster = Cluster(primaries=3, replicas=1)
            self.closes.append(self.cluster.close)
            return self.cluster.url
        self.server = Server()
        self.closes.append(self.server.close)
        if self.name == "slow":
            self.proxy = SlowProxy(self.server.port)
            self.closes.append(self.proxy.close)
            return self.proxy.url
        return self.server.url

    def killed(self, seconds):
        self.server.kill()
        self.report.count("kills")
        time.sleep(seconds)
        self.server.start()

    def paused(self, seconds):
        self.server.pause()
        time.sleep(seconds)
        self.server.go_on()

    def slow(self, seconds):
        self.proxy.delay = self.chance.choice((0.01, 0.15, 0.6))
        time.sleep(seconds)
        self.proxy.delay = 0.0

    def full(self, seconds):
        self.server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.server.command("CONFIG", "SET", "maxmemory", "1")
        time.sleep(seconds)
        self.server.command("CONFIG", "SET", "maxmemory", "0")

    def locked(self, seconds):
        """A password that the gateways do not have, and their connections cut."""
        self.server.command("CONFIG", "SET", "requirepass", "secret")
        raw(self.server.port, ("AUTH", "secret"), ("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
        time.sleep(seconds)
        raw(self.server.port, ("AUTH", "secret"), ("CONFIG", "SET", "requirepass", ""))

    def flushed(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.server.command("FLUSHALL")
            time.sleep(seconds / 10)

    def poisoned(self, seconds):
        """Values are cut, turned, put under another's key, or replaced by noise."""
        self.poison(seconds, self.poison_value)

    def poison_value(self, key, value, values):
        how = self.chance.randrange(5)
        if how == 0:
            return value[: self.chance.randrange(len(value) + 1)]
        if how == 1 and value:
            at = self.chance.randrange(len(value))
            return value[:at] + bytes([value[at] ^ (1 << self.chance.randrange(8))]) + value[at + 1 :]
        if how == 2:
            return self.chance.choice(values)
        if how == 3:
            return self.chance.randbytes(self.chance.randrange(200))
        return value + value

    def leases(self, seconds):
        """Every key that the gateways may make for themselves is taken already, for ever, by nobody."""
        self.poison(seconds, lambda *_: b"somebody else", every=True)

    def poison(self, seconds, change, every=False):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            (keys,) = raw(self.server.port, ("KEYS", "*"))
            strings = [key for key, kind in zip(keys, raw(self.server.port, *(("TYPE", key) for key in keys))) if kind == b"string"]
            values = raw(self.server.port, *(("GET", key) for key in strings))
            pairs = [(key, value) for key, value in zip(strings, values) if value is not None]
            if pairs:
                chosen = pairs if every else self.chance.sample(pairs, max(1, len(pairs) // 3))
                changed = [(key, change(key, value, [other for _, other in pairs])) for key, value in chosen]
                raw(self.server.port, *(("SET", key, value) for key, value in changed))
            time.sleep(0.02)

    def failover(self, _):
        self.cluster.fail_over()
        self.report.count("kills")


def metrics(gateway):
    from test_operate import Unix

    connection = Unix(gateway.folder / "admin.sock")
    connection.timeout = 60
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def raw(port, *commands):
    """Replies to commands sent as one pipeline: bytes, numbers, None, lists; errors as bytes that begin with `-`."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection, connection.makefile("rwb") as stream:
        for words in commands:
            encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            stream.write(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded))
        stream.flush()
        return [reply(stream) for _ in commands]


def reply(stream):
    head = stream.readline().rstrip(b"\r\n")
    kind, rest = head[:1], head[1:]
    if kind == b"$":
        return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [reply(stream) for _ in range(int(rest))]
    return int(rest) if kind == b":" else head if kind == b"-" else rest
