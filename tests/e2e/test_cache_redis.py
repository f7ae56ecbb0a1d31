"""One cache for several gateways: what is shared, and what a lost, paused or slow Redis costs (issue 6, no. 3 and 6).

Every body says its URL and the version that the service had of it, so that a wrong answer is one that says something else.
"""

import contextlib
import json
import socket
import subprocess
import threading
import time
import unittest
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import BINARY, Client, Cut, Gateway, TestCase, config, eventually, in_threads, route, service, setUpModule
from load import THINK_TIME, Clients
from redis_servers import Cluster, Server, SlowProxy

__all__ = ["setUpModule"]

ADMIN = '[admin]\nsocket = "@FOLDER@/admin.sock"\n'
TARGETS = [f"/page/{number}" for number in range(40)]
#: As the issue has it; the limit that is asserted leaves room for a machine that does something else, too.
BACK_WITHIN = 1.0
SLOW = 0.5


class Pages(BaseHTTPRequestHandler):
    """`URL version`, fresh for a second; POST makes another version."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65_536

    def log_message(self, *_):
        pass

    def do_GET(self):
        with self.server.lock:
            self.server.asked[self.path] += 1
            body = f"{self.path} {self.server.versions[self.path]}".encode()
        time.sleep(self.server.takes)
        self.send_response(200)
        for field in self.server.fields:
            self.send_header(*field)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        with self.server.lock:
            self.server.versions[self.path] += 1
            body = str(self.server.versions[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Load(Clients):
    """Clients of some gateways. Each knows the versions that it has made itself, and notes every answer that is wrong, late or none."""

    def __init__(self, gateways, clients=6, think_time=0.0):
        self.gateways, self.wrong, self.failed = gateways, [], []
        self.times = []  # (when it ended, seconds)
        self.hits = Counter()
        self._clients = clients
        super().__init__(clients, think_time)

    def _run(self, number):
        # Who changes a page is the only one to do so, and asks the gateway that he has told: that one must know at once.
        mine = TARGETS[number :: self._clients]
        known, turn, clients = defaultdict(int), 0, {}
        while not self._stop.is_set():
            self._think()
            turn += 1
            own = turn % 2 == 0
            target = mine[turn // 2 % len(mine)] if own else TARGETS[(turn * 7 + number) % len(TARGETS)]
            gateway = self.gateways[(number if own else turn) % len(self.gateways)]
            method = "POST" if own and turn % 40 == 0 else "GET"
            begun = time.monotonic()
            try:
                client = clients.get(gateway) or clients.setdefault(gateway, Client(gateway.address, 20.0))
                answer = client.request(method, target, body=b"" if method == "POST" else None)
            except (OSError, Cut) as error:
                self.failed.append(error)
                if broken := clients.pop(gateway, None):
                    broken.close()
                continue
            ended = time.monotonic()
            self.times.append((ended, ended - begun))
            if answer.status != 200:
                self.failed.append(answer)
            elif method == "POST":
                known[target] = int(answer.body)
            else:
                url, version = answer.body.decode().split()
                if url != target or (own and int(version) < known[target]):
                    self.wrong.append(f"{target}, version {known[target]}: {answer}")
                self.hits[answer.all("cache-status")[0].split(";")[1].strip().split("=")[0]] += 1
                self.hits["redis"] += "detail=redis" in answer.all("cache-status")[0]
        for client in clients.values():
            client.close()

    def p99(self, begin, end):
        times = sorted(took for at, took in list(self.times) if begin <= at < end)
        return times[len(times) * 99 // 100] if times else float("nan")


class RedisCase(TestCase):
    fields = [("Cache-Control", "max-age=1")]
    takes = 0.0
    #: A busy machine does not keep the default; what it costs is looked at where something is wrong with Redis.
    settings = {"budget": "1s"}

    def setUp(self):
        super().setUp()
        self.pages = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        self.pages.daemon_threads = True
        self.pages.lock, self.pages.versions, self.pages.asked = threading.Lock(), Counter(), Counter()
        self.pages.fields, self.pages.takes = self.fields, self.takes
        threading.Thread(target=self.pages.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(self.pages.server_close)
        self.addCleanup(self.pages.shutdown)

    def gateway(self, url, cache=True, is_covered=True, top=None, **settings):
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in ({"url": url} | self.settings | settings).items())
        web = service("web", url=f"http://127.0.0.1:{self.pages.server_port}")
        gateway = self.start(Gateway(BINARY, config(web, route(service="web", cache=cache), f"[cache.redis]\n{text}", ADMIN, **top or {})))
        if is_covered:
            # Until it has read the log of purges, it validates what Redis has.
            covered = "\npilotlight_cache_coherence_covered 1\n"  # and not its description
            self.assert_eventually(lambda: covered in self.metrics(gateway), "purges of others are known", 30)
        return gateway

    def server(self, **arguments):
        server = Server(**arguments)
        self.addCleanup(server.close)
        return server

    def cluster(self, *arguments):
        cluster = Cluster(*arguments)
        self.addCleanup(cluster.close)
        return cluster

    def status(self, answer):
        (status,) = answer.all("cache-status")
        return status

    def assert_from_redis(self, gateway, target, fields=()):
        answer = gateway.get(target, fields)
        self.assertIn("hit; ", self.status(answer), answer)
        self.assertIn("detail=redis", self.status(answer), answer)
        return answer

    def written(self, gateway, count):
        self.assert_eventually(lambda: self.metric(gateway, 'writes_total{result="written"}') >= count, f"{count} writes")

    def metric(self, gateway, name):
        text = self.metrics(gateway)
        return float(next(line for line in text.splitlines() if line.startswith("pilotlight_cache_redis_" + name)).split()[-1])

    def replaced(self, gateway):
        name = "pilotlight_cache_coherence_replaced_total "
        return float(next(line for line in self.metrics(gateway).splitlines() if line.startswith(name)).split()[-1])

    def metrics(self, gateway):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(gateway.folder / "admin.sock"))
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: connection.recv(65_536), b"")).decode()


class Sharing(RedisCase):
    fields = [("Cache-Control", "max-age=60"), ("ETag", '"1"')]

    def test_a_gateway_answers_from_what_another_has_stored(self):
        cluster = self.cluster()
        a, b = self.gateway(cluster.url), self.gateway(cluster.url)
        for target in TARGETS:
            self.assertEqual(a.get(target).body.decode(), f"{target} 0")
        self.written(a, len(TARGETS))
        for target in TARGETS:
            self.assertEqual(self.assert_from_redis(b, target).body.decode(), f"{target} 0")
            self.assertEqual(self.status(b.get(target)).count("detail"), 0, "it is in memory now")
        self.assertEqual(sum(self.pages.asked.values()), len(TARGETS))
        self.assertTrue(all(int(node.command("DBSIZE")) for node in cluster.primaries), "all primaries have some")

    def test_conditions_and_directives_of_the_client(self):
        server = self.server()
        a, b = self.gateway(server.url), self.gateway(server.url)
        for target in TARGETS[:5]:
            a.get(target)
        self.written(a, 5)
        answer = self.assert_from_redis(b, TARGETS[0], [("If-None-Match", '"1"')])
        self.assertEqual((answer.status, answer.body), (304, b""))
        self.assert_from_redis(b, TARGETS[1], [("Cache-Control", "only-if-cached")])
        self.assert_problem(b.get("/page/none", [("Cache-Control", "only-if-cached")]), 504)
        # Fresh in Redis, and not what this client wants.
        self.assertIn("fwd=", self.status(b.get(TARGETS[2], [("Cache-Control", "no-cache")])))
        self.assertIn("fwd=", self.status(b.get(TARGETS[3], [("Cache-Control", "max-age=0")])))
        head = b.request("HEAD", TARGETS[4])
        self.assertIn("detail=redis", self.status(head))
        self.assertEqual((head.body, head.get("content-length")), (b"", str(len(f"{TARGETS[4]} 0"))))

    def test_an_unsafe_request_counts_for_all(self):
        server = self.server()
        a, b, c = (self.gateway(server.url) for _ in range(3))
        a.get("/page/1")
        self.written(a, 1)
        self.assert_from_redis(b, "/page/1")
        b.request("POST", "/page/1", body=b"")
        self.assertEqual(b.get("/page/1").body, b"/page/1 1", "at once where it was asked")
        self.written(b, 1)
        self.assertEqual(self.assert_from_redis(c, "/page/1").body, b"/page/1 1")

    def test_a_restarted_gateway_has_it_all(self):
        server = self.server()
        first = self.gateway(server.url)
        first.get("/page/1")
        first.stop()  # what waits to be written is written
        self.assert_from_redis(self.gateway(server.url), "/page/1")

    def test_what_is_one_users_is_never_shared(self):
        server = self.server()
        a, b = self.gateway(server.url), self.gateway(server.url)
        self.pages.fields = [("Cache-Control", "max-age=60")]
        a.get("/page/1", [("Authorization", "Basic YTpi")])
        self.pages.fields = [("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")]
        a.get("/page/2")
        self.pages.fields = [("Cache-Control", "private, max-age=60")]
        a.get("/page/3")
        self.pages.fields = [("Cache-Control", "max-age=60"), ("Vary", "Cookie")]
        a.get("/page/4", [("Cookie", "a=b")])
        for number in range(1, 5):
            self.assertIn("fwd=", self.status(b.get(f"/page/{number}")), number)

    def test_variants(self):
        server = self.server()
        a, b = self.gateway(server.url), self.gateway(server.url)
        self.pages.fields = [("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")]
        a.get("/page/1", [("Accept-Language", "de")])
        a.get("/page/1", [("Accept-Language", "en")])
        self.written(a, 2)
        self.assertIn("fwd=", self.status(b.get("/page/1", [("Accept-Language", "fr")])))
        self.assert_from_redis(b, "/page/1", [("Accept-Language", "de")])
        self.assert_from_redis(b, "/page/1", [("Accept-Language", "en")])

    def test_what_a_rule_sends_past_the_cache_is_answered_from_no_tier(self):
        server = self.server()
        rules = {"bypass": {"headers": ["x-preview"]}}
        a, b = (self.gateway(server.url, cache=rules) for _ in range(2))
        a.get("/page/1")
        self.written(a, 1)
        cached = ("Cache-Control", "only-if-cached")
        self.assert_problem(b.get("/page/1", [cached, ("X-Preview", "1")]), 504)
        self.assert_problem(b.request("GET", "/page/1", [cached], body=b"x"), 504)
        self.assert_from_redis(b, "/page/1", [cached])

    def test_a_response_that_redis_brings_back_does_not_replace_a_newer_one(self):
        server = self.server()
        a = self.gateway(server.url)
        a.get("/page/1")
        self.written(a, 1)
        # As a failover that loses the last writes.
        copy = "local name = redis.call('KEYS', 'pilotlight:1:*}')[1]; redis.call('COPY', KEYS[1] == 'x' and name or 'x', KEYS[1] == 'x' and 'x' or name, 'REPLACE')"
        server.command("EVAL", copy, 1, "x")
        self.pages.versions["/page/1"] += 1
        self.assertEqual(a.get("/page/1", [("Cache-Control", "no-cache")]).body, b"/page/1 1")
        self.written(a, 2)
        self.assertEqual(a.get("/page/1").body, b"/page/1 1")
        replaced = self.replaced(a)
        server.command("EVAL", copy, 1, "y")
        self.assert_eventually(lambda: self.replaced(a) > replaced, "it is told")
        self.assertEqual(a.get("/page/1").body, b"/page/1 1")
        self.assertEqual(a.get("/page/1").body, b"/page/1 1")

    def test_a_server_that_answers_and_does_not_write_is_told_of(self):
        server = self.server()
        a = self.gateway(server.url)
        server.command("CONFIG", "SET", "maxmemory", "1")
        for target in TARGETS[:3]:
            self.assertEqual(a.get(target).status, 200)
        self.assert_eventually(lambda: self.metric(a, 'writes_total{result="failed"}') == 3, "all were refused")
        self.assertEqual(self.metric(a, "write_problem"), 1)
        self.assertEqual(a.output().count("cache.redis answers and takes no responses"), 1, a.output())
        command = [str(BINARY), "status", "--socket", str(a.folder / "admin.sock")]
        status = subprocess.run(command, capture_output=True, text=True, timeout=20)
        self.assertIn("cache.redis answers and does not write", status.stdout, status)
        self.assertIn("cache.redis refuses responses: EVAL", status.stdout)
        self.assertIn("OOM", status.stdout)

    def test_in_place_of_an_error_what_another_has_stored(self):
        server = self.server()
        a, b = self.gateway(server.url), self.gateway(server.url)
        self.pages.fields = [("Cache-Control", "max-age=60, stale-if-error=600"), ("Age", "61")]
        a.get("/page/1")
        self.written(a, 1)
        self.pages.shutdown()
        self.pages.server_close()
        answer = b.get("/page/1")
        self.assertEqual((answer.status, answer.body), (200, b"/page/1 0"))
        self.assertIn("detail=stale-if-error", self.status(answer))

    def test_three_gateways_ask_the_service_for_a_cold_url_twice_at_most(self):
        server = self.server()
        gateways = [self.gateway(server.url) for _ in range(3)]
        for gateway in gateways:
            self.assert_eventually(lambda g=gateway: "pilotlight_cache_redis_" in self.metrics(g), "metrics")
        self.pages.takes = 0.1
        for target in TARGETS[:10]:
            answers = in_threads(30, lambda number, t=target: gateways[number % 3].get(t))
            self.assertEqual({answer.body.decode() for answer in answers}, {f"{target} 0"})
            self.assertLessEqual(self.pages.asked[target], 2, target)


class FaultsCase(RedisCase):
    """Load on two gateways while something happens to Redis: no wrong answer, no failed one, and soon back."""

    settings = {"budget": "20ms"}

    def under_load(self, gateways, name, fault, heal=None, lasts=1.5):
        for gateway in gateways:
            for target in TARGETS[:5]:
                gateway.get(target)
        with Load(gateways, think_time=THINK_TIME) as load:
            time.sleep(1.0)  # the load's duration, which is what is measured
            broken = time.monotonic()
            fault()
            time.sleep(lasts)
            healed = time.monotonic()
            if heal:
                heal()
            time.sleep(BACK_WITHIN + 1.0)
            end = time.monotonic()
        before, during = load.p99(broken - 1.0, broken), load.p99(broken, healed)
        after = load.p99(healed + BACK_WITHIN, end)
        print(f"\n{name}: {len(load.times)} answers, {load.hits['hit']} hits ({load.hits['redis']} in Redis); "
              f"p99 {before * 1e3:.1f} ms before, {during * 1e3:.1f} ms meanwhile, {after * 1e3:.1f} ms {BACK_WITHIN} s after")  # fmt: skip
        self.assertEqual(load.wrong[:3], [])
        self.assertEqual(load.failed[:3], [])
        self.assertLess(after, max(SLOW, 10 * before))
        self.assertGreater(load.hits["redis"], 0)
        return load


class Faults(FaultsCase):
    def test_killed(self):
        server = self.server()
        gateways = [self.gateway(server.url), self.gateway(server.url)]
        self.under_load(gateways, "killed and started again", server.kill, server.start)
        fresh = iter(range(10**6))

        def is_used():
            target = f"/fresh/{next(fresh)}"
            gateways[0].get(target)
            return "detail=redis" in self.status(gateways[1].get(target))

        self.assertTrue(eventually(is_used, 20), "Redis is used again")

    def test_paused(self):
        server = self.server()
        gateways = [self.gateway(server.url), self.gateway(server.url)]
        self.under_load(gateways, "paused", server.pause, server.go_on)

    def test_slow(self):
        server = self.server()
        proxy = SlowProxy(server.port)
        self.addCleanup(proxy.close)
        gateways = [self.gateway(proxy.url), self.gateway(proxy.url)]
        self.under_load(gateways, "slow (50 ms)", lambda: setattr(proxy, "delay", 0.05), lambda: setattr(proxy, "delay", 0.0))

    def test_a_gateway_starts_without_redis_and_says_so_once(self):
        server = self.server()
        server.kill()
        gateway = self.gateway(server.url, is_covered=False)
        for target in TARGETS:
            self.assert_status(gateway.get(target), 200)
        said = lambda: gateway.output().count("cache.redis does not answer")  # noqa: E731
        self.assertTrue(eventually(lambda: said() == 1, 10), gateway.output())
        server.start()
        self.assertTrue(eventually(lambda: gateway.get("/page/x") and "cache.redis answers again" in gateway.output(), 10), gateway.output())
        self.assertEqual(said(), 1)


class ClusterFaults(FaultsCase):
    def test_failover(self):
        cluster = self.cluster(3, 1)
        gateways = [self.gateway(cluster.url), self.gateway(cluster.url)]
        self.under_load(gateways, "a primary killed, its replica promoted", cluster.fail_over, lasts=0.0)

    def test_resharding(self):
        cluster = self.cluster(3, 0)
        gateways = [self.gateway(cluster.url), self.gateway(cluster.url)]
        source, target = cluster.primaries[:2]
        move = lambda: cluster.move(source, target, range(0, 600))  # noqa: E731
        self.under_load(gateways, "600 slots moved", move, lasts=0.0)


class PoisonedLeases(RedisCase):
    """A lease that belongs to nobody costs its time once, whatever it is."""

    settings = {"budget": "1s", "lease": "1s"}

    def test_it_is_replaced(self):
        server = self.server()
        gateway = self.gateway(server.url)
        poisons = ("SET", "@", "nobody"), ("SET", "@", "nobody", "PX", "86400000"), ("RPUSH", "@", "a list")
        known = set()  # of the targets before, one of which may be asked for just now
        for number, poison in enumerate(poisons):
            target, seen = f"/poisoned/{number}", []
            self.pages.takes = 1.0
            with in_background(lambda target=target: gateway.get(target)):
                self.assert_eventually(lambda seen=seen: seen.extend(set(self.leases(server)) - known) or seen, "a lease is held while the service is asked", 30)
            lease = seen[0]
            known.add(lease)
            self.pages.takes = 0.0
            self.assert_eventually(lambda lease=lease: lease not in self.leases(server), "it is given back", 30)
            server.command(*(word.replace("@", lease) for word in poison))
            # What is stored lives for a second: soon the service is asked again, and whoever asks meets the lease.
            self.assert_eventually(lambda target=target, lease=lease: self.has_end(gateway, server, target, lease), f"{poison} has no end yet", 30)

    @staticmethod
    def has_end(gateway, server, target, lease):
        assert gateway.get(target).status == 200
        left = int(server.command("PTTL", lease))
        return left != -1 and left <= 1000

    @staticmethod
    def leases(server):
        with socket.create_connection(("127.0.0.1", server.port)) as connection, connection.makefile("rwb") as stream:
            stream.write(b"KEYS *:l\r\n")
            stream.flush()
            count = int(stream.readline()[1:])
            return [(stream.readline(), stream.readline())[1].decode().strip() for _ in range(count)]


@contextlib.contextmanager
def in_background(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join(60)


if __name__ == "__main__":
    unittest.main()
