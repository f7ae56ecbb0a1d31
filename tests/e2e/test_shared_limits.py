"""Rates that gateways count together, through Redis (issue 17, part 10)."""

import json
import re
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import http2_client
from harness import BINARY, Client, Gateway, TestCase, config, eventually, route, service, setUpModule
from origin import Origin
from programs import program
from redis_servers import Cluster, Server, SlowProxy
from test_access import basic, htpasswd, open_client
from test_cache import make

__all__ = ["setUpModule"]

STORED = make("Cache-Control: max-age=60")
ADMIN = '[admin]\nsocket = "@FOLDER@/admin.sock"\n'
#: A busy machine does not keep the default; what it costs is looked at where something is wrong with Redis.
BUDGET = "1s"


def limit(rate, **more):
    return {"rate": rate, "shared": True, **more}


class SharedCase(TestCase):
    def setUp(self):
        self.origin = Origin()
        self.origin.__enter__()
        self.addCleanup(self.origin.__exit__)

    def server(self):
        server = Server()
        self.addCleanup(server.close)
        return server

    def gateway(self, url, *routes, budget=BUDGET, **top):
        redis = f'[cache.redis]\nurl = "{url}"\nbudget = "{budget}"\n'
        blocks = [service("web", url=self.origin.url), *routes, redis, ADMIN]
        gateway = self.start(Gateway(BINARY, config(*blocks, **top)))
        covered = "\npilotlight_cache_coherence_covered 1\n"
        self.assert_eventually(lambda: covered in self.metrics(gateway), "it is connected to Redis", 30)
        return gateway

    def gateways(self, url, *routes, **settings):
        return [self.gateway(url, *routes, **settings) for _ in range(2)]

    def statuses(self, gateways, count, target="/show", source="127.0.0.1", fields=(), method="GET"):
        """Of requests that take turns, each on a connection of its own."""
        found = []
        for at in range(count):
            with open_client(gateways[at % len(gateways)], source) as client:
                found.append(client.request(method, target, fields).status)
        return found

    def metrics(self, gateway):
        command = [program("curl"), "-sS", "--unix-socket", gateway.folder / "admin.sock", "http://x/metrics"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return told.stdout

    def counted(self, gateway, result):
        line = f'pilotlight_shared_rate_requests_total{{result="{result}"}} '
        return int(next(row for row in self.metrics(gateway).splitlines() if row.startswith(line)).split()[-1])

    def command(self, gateway, *words):
        told = subprocess.run([BINARY, *words, "--config", gateway.folder / "pilotlight.toml"],
                              capture_output=True, text=True, timeout=20)  # fmt: skip
        return told.stdout + told.stderr


class Sharing(SharedCase):
    def test_gateways_let_in_as_many_as_one(self):
        a, b = self.gateways(self.server().url, route("/", "web", limit=limit("6/h")))
        self.assertEqual(self.statuses([a, b], 10), [200] * 6 + [429] * 4)
        self.assertEqual([self.counted(gateway, "admitted") for gateway in (a, b)], [3, 3])
        answer = a.get("/show")
        problem = self.assert_problem(answer, 429)
        self.assertEqual(problem["limit"], {"rate": "6/h", "burst": 6, "by": "client"})
        self.assertEqual(answer.get("ratelimit-policy"), '"rate";q=6;w=3600')
        left = re.fullmatch(r'"rate";r=0;t=(\d+)', answer.get("ratelimit"))
        self.assertEqual(answer.get("retry-after"), left[1])
        self.assertTrue(500 <= int(left[1]) <= 600, left[1])
        self.assertEqual(self.statuses([a, b], 2, source="127.0.0.9"), [200, 200], "another client")
        self.assertIn('refused_requests_total{route="/",service="web",reason="rate"} 3', self.metrics(a))

    def test_who_was_refused_is_not_asked_about_again(self):
        a, b = self.gateways(self.server().url, route("/", "web", limit=limit("3/h")))
        self.assertEqual(self.statuses([a], 3), [200] * 3)
        self.assertEqual(self.statuses([b], 8), [429] * 8)
        self.assertEqual([self.counted(gateway, "refused") for gateway in (a, b)], [0, 1])

    def test_a_wait_that_is_over(self):
        """Twenty in a second, so that one waits for a twentieth of it; both gateways refuse, and let in again."""
        gateways = self.gateways(self.server().url, route("/", "web", limit=limit("20/s", burst=2)))
        for gateway in gateways:
            for status in (429, 200):
                has_it = lambda: status in self.statuses([gateway], 5)  # noqa: E731, B023
                self.assertTrue(eventually(has_it, 20), status)

    def test_stored_answers_count_however_they_are_asked_for(self):
        a, b = self.gateways(self.server().url, route("/", "web", cache=True, limit=limit("12/d")))
        self.assertEqual(self.statuses([a, b], 4, STORED), [200] * 4)
        with Client(a.address) as client:  # in one write
            client.send(f"GET {STORED} HTTP/1.1\r\nHost: demo.test\r\n\r\n".encode() * 3)
            self.assertEqual([client.answer("GET").status for _ in range(3)], [200] * 3)
        for fields, method, status in (
            ([], "HEAD", 200), ([("Range", "bytes=0-1")], "GET", 206), ([("If-None-Match", "*")], "GET", 304),
            ([("Cache-Control", "only-if-cached")], "GET", 200), ([("Cache-Control", "no-cache")], "GET", 200),
        ):  # fmt: skip
            self.assertEqual(self.statuses([b], 1, STORED, fields=fields, method=method), [status], (fields, method))
        for gateway in (a, b):
            for fields in ([], [("Range", "bytes=0-1")], [("Cache-Control", "only-if-cached")]):
                self.assertEqual(self.statuses([gateway], 1, STORED, fields=fields), [429], fields)
        self.assertEqual(sum(self.counted(gateway, "admitted") for gateway in (a, b)), 12)

    def test_who_waits_for_the_fetch_of_another_counts(self):
        a, b = self.gateways(self.server().url, route("/", "web", cache=True, limit=limit("4/d")))
        target, found = make("Cache-Control: max-age=60", ms=300), []
        ask = lambda gateway: found.extend(self.statuses([gateway], 1, target))  # noqa: E731
        threads = [threading.Thread(target=ask, args=(gateway,)) for gateway in [a, b] * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual(sorted(found), [200] * 4 + [429] * 4)

    def test_both_protocols_count_together(self):
        a, b = self.gateways(self.server().url, route("/", "web", cache=True, limit=limit("4/d")))
        self.assertEqual(self.statuses([a], 2, STORED), [200] * 2)
        client = http2_client.Client(b.address)
        self.addCleanup(client.socket.close)
        found = [client.request("GET", STORED, host="demo.test").status for _ in range(3)]
        self.assertEqual(found, [200, 200, 429])
        self.assertEqual(self.statuses([a, b], 2, STORED), [429] * 2)

    def test_what_counts_together(self):
        """Networks of IPv6, fields, cookies, the whole route; and no key of one is a key of another."""
        routes = [
            route("/", "web", limit=limit("3/d")),
            route("/field", "web", limit=limit("3/d", by="header:x-key")),
            route("/cookie", "web", limit=limit("3/d", by="cookie:sid")),
            route("/all", "web", limit=limit("3/d", by="route")),
        ]
        gateways = self.gateways(self.server().url, *routes, trust_forwarded=True)
        for at, (target, fields, left) in enumerate([
            ("/show", ("X-Forwarded-For", "2001:db8:1:2::1"), 3),
            ("/show", ("X-Forwarded-For", "2001:db8:1:2:ffff::2"), 0),
            ("/show", ("X-Forwarded-For", "2001:db8:1:3::1"), 3), ("/show", ("X-Forwarded-For", "192.0.2.1"), 3),
            ("/show", ("X-Forwarded-For", "::ffff:192.0.2.1"), 0), ("/show", ("X-Key", "a"), 3),
            ("/field/show", ("X-Key", "a"), 3), ("/field/show", ("X-Key", "a"), 0),
            ("/field/show", ("X-Key", "127.0.0.1"), 3),
            ("/field/show", ("X-Key", ""), 3), ("/field/show", ("Y", "a"), 3),
            ("/cookie/show", ("Cookie", "a=b; sid=a"), 3), ("/cookie/show", ("Cookie", "sid=a; a=c"), 0),
            ("/cookie/show", ("Cookie", "sid=" + "b" * 4000), 3), ("/cookie/show", ("Cookie", "sid=" + "b" * 4001), 3),
            ("/all/show", ("X-Key", "a"), 3), ("/all/show", ("X-Forwarded-For", "192.0.2.7"), 0),
        ]):  # fmt: skip
            found = self.statuses(gateways, 4, target, fields=[fields])
            self.assertEqual(found, [200] * left + [429] * (4 - left), (at, target, fields))

    def test_guesses_of_passwords_are_bounded_by_it(self):
        users = Path(self.enterContext(tempfile.TemporaryDirectory())) / "users"
        htpasswd(users, "ann", "secret", "-c")
        guarded = route("/", "web", cache=True, allow={"basic": str(users)}, limit=limit("5/d"))
        gateways = self.gateways(self.server().url, guarded)
        target = make("Cache-Control: public, max-age=60")
        self.assertEqual(self.statuses(gateways, 1, target), [401])
        self.assertEqual(self.statuses(gateways, 2, target, fields=basic("ann", "secret")), [200, 200])
        self.assertEqual(self.statuses(gateways, 2, target, fields=basic("ann", "guess")), [401, 401])
        self.assertEqual(self.statuses(gateways, 2, target, fields=basic("ann", "secret")), [429, 429])

    def test_a_body_that_nobody_takes(self):
        gateways = self.gateways(self.server().url, route("/", "web", limit=limit("2/d")))
        for gateway in gateways:
            with Client(gateway.address) as client:
                client.send(b"POST /upload HTTP/1.1\r\nHost: demo.test\r\nContent-Length: 5\r\n\r\nhello")
                self.assert_status(client.answer("POST"), 200)
        with Client(gateways[0].address) as client:
            client.send(b"POST /upload HTTP/1.1\r\nHost: demo.test\r\nContent-Length: 5\r\n\r\nhello")
            self.assert_status(client.answer("POST"), 429)

    def test_it_is_shown(self):
        a, _ = self.gateways(self.server().url, route("/", "web", limit=limit("2/h")))
        self.assertEqual(self.statuses([a], 3), [200, 200, 429])
        told = self.command(a, "explain", "/x")
        self.assertIn("limit.rate: 2/h by client, at most 2 at once, shared through cache.redis, else 429", told)
        told = self.command(a, "status")
        self.assertIn("shared limits counted by cache.redis: 2 requests, 0 refused, 0 counted here alone", told)
        told = json.loads(self.command(a, "status", "--json"))["cache"]["redis"]
        self.assertEqual((told["rates"]["admitted"], told["open_rate_breakers"]), (2, 0))

    def test_check_wants_a_redis(self):
        folder = Path(tempfile.mkdtemp())
        file = folder / "pilotlight.toml"
        file.write_text(config(service("web", url=self.origin.url), route("/", "web", limit=limit("2/h"))))
        told = subprocess.run([BINARY, "check", "--config", file], capture_output=True, text=True, timeout=20)
        self.assertEqual(told.returncode, 2, told)
        self.assertRegex(told.stdout + told.stderr, r"pilotlight.toml:\d+:\d+: error: `shared` needs a Redis")
        self.assertIn("add [cache.redis]", told.stdout + told.stderr)


class InACluster(SharedCase):
    def test_each_key_has_one_count(self):
        cluster = Cluster(3, 0)
        self.addCleanup(cluster.close)
        gateways = self.gateways(cluster.url, route("/", "web", limit=limit("3/h")))
        for client in range(1, 13):
            found = self.statuses(gateways, 5, source=f"127.0.1.{client}")
            self.assertEqual(found, [200] * 3 + [429] * 2, client)
        self.assertTrue(all(int(node.command("DBSIZE")) > 0 for node in cluster.primaries))


class Away(SharedCase):
    """No request fails for lack of Redis; what each gateway has counted holds."""

    def fresh(self, gateway):
        """The status of a request of a client who was not here yet."""
        self.clients = getattr(self, "clients", 0) + 1
        return self.statuses([gateway], 1, source=f"127.1.{self.clients // 250}.{self.clients % 250 + 1}")[0]

    def all_say(self, gateways, text):
        return all(text in gateway.output() for gateway in gateways)

    def until_counted(self, gateway):
        before = self.counted(gateway, "admitted")
        again = lambda: self.fresh(gateway) == 200 and self.counted(gateway, "admitted") > before  # noqa: E731
        self.assertTrue(eventually(again, 20), gateway.output())

    def test_killed_and_started_again(self):
        server = self.server()
        a, b = gateways = self.gateways(server.url, route("/", "web", limit=limit("5/d")), workers=1)
        self.assertEqual(self.statuses([a, b, a], 3), [200] * 3)
        server.kill()
        # a has heard of three when Redis answered last, b of two.
        self.assertEqual(self.statuses([a], 4), [200] * 2 + [429] * 2)
        self.assertEqual(self.statuses([b], 5), [200] * 3 + [429] * 2)
        for gateway in gateways:
            self.assertEqual([self.fresh(gateway) for _ in range(20)], [200] * 20)
            self.assert_logged(gateway, "cache.redis does not count")
            self.assertEqual(gateway.output().count("cache.redis does not count"), 1, gateway.output())
            self.assertIn("held by this gateway alone", self.command(gateway, "status"))
        server.start()
        for gateway in gateways:
            self.until_counted(gateway)
            self.assert_logged(gateway, "cache.redis counts again")
            self.assertEqual(gateway.output().count("cache.redis counts again"), 1, gateway.output())
        # Its data are lost, and what gateways have counted is not.
        self.assertEqual(self.statuses(gateways, 4), [429] * 4)
        self.assertEqual(self.statuses(gateways, 7, source="127.0.0.77"), [200] * 5 + [429] * 2)

    def test_paused(self):
        server = self.server()
        gateway = self.gateway(server.url, route("/", "web", limit=limit("5/d")), budget="5ms", workers=1)
        self.until_counted(gateway)
        server.pause()
        try:
            self.assertEqual([self.fresh(gateway) for _ in range(20)], [200] * 20)
            self.assertEqual(self.statuses([gateway], 7), [200] * 5 + [429] * 2)
            self.assertGreaterEqual(self.counted(gateway, "timeout"), 5)
            self.assertGreater(self.counted(gateway, "skipped"), 0)
        finally:
            server.go_on()
        self.until_counted(gateway)

    def test_slow(self):
        proxy = SlowProxy(self.server().port)
        self.addCleanup(proxy.close)
        gateway = self.gateway(proxy.url, route("/", "web", limit=limit("5/d")), budget="20ms", workers=1)
        proxy.delay = 0.3
        self.assertEqual(self.statuses([gateway], 7), [200] * 5 + [429] * 2)
        self.assertGreaterEqual(self.counted(gateway, "timeout"), 1)
        proxy.delay = 0.0
        self.until_counted(gateway)

    def test_under_load(self):
        """Requests go on while Redis is killed and comes back: each has its answer."""
        server = self.server()
        gateways = self.gateways(server.url, route("/", "web", cache=True, limit=limit("50/s")), budget="20ms")
        ends, found = threading.Event(), []

        def ask(gateway):
            while not ends.is_set():
                with Client(gateway.address) as client:
                    for _ in range(50):
                        found.append(client.request("GET", STORED).status)

        threads = [threading.Thread(target=ask, args=(gateway,)) for gateway in gateways * 2]
        for thread in threads:
            thread.start()
        try:
            self.assertTrue(eventually(lambda: len(found) > 400, 20))
            server.kill()
            self.assertTrue(eventually(lambda: self.all_say(gateways, "cache.redis does not count"), 20))
            server.start()
            self.assertTrue(eventually(lambda: self.all_say(gateways, "cache.redis counts again"), 20))
            before = len(found)
            self.assertTrue(eventually(lambda: len(found) > before + 400, 20))
        finally:
            ends.set()
            for thread in threads:
                thread.join(20)
        self.assertEqual(set(found), {200, 429})


if __name__ == "__main__":
    unittest.main()
