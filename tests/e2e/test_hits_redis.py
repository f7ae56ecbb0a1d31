"""Hits in Redis are answered without an exchange: whatever happens while Redis is asked, answers are whole, right and in order.

Replies of Redis are held back until something has happened, so nothing here depends on who is faster.
"""

import itertools
import socket
import subprocess
import unittest

from harness import BINARY, setUpModule
from redis_servers import HoldingProxy
from test_cache_redis import TARGETS, RedisCase

__all__ = ["setUpModule"]

#: What another gateway has stored in Redis before.
STORED = TARGETS[:12]


def get(target, *fields):
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: demo.test", *fields]).encode() + b"\r\n\r\n"


class AskedCase(RedisCase):
    """`self.gate` is between `self.asks`, a gateway, and Redis."""

    fields = [("Cache-Control", "max-age=60"), ("ETag", '"1"')]
    cache = True

    def setUp(self):
        super().setUp()
        server = self.server()
        other = self.gateway(server.url, cache=self.cache)
        for target in STORED:
            other.get(target)
        self.written(other, len(STORED))
        self.gate = HoldingProxy(server.port)
        self.addCleanup(self.gate.close)
        self.asks = self.asking()
        self.asked_before = sum(self.pages.asked.values())

    def asking(self, **settings):
        """A gateway with nothing in memory, whose worker has a connection to Redis."""
        gateway, number = self.gateway(self.gate.url, cache=self.cache, top={"workers": 1}, **settings), itertools.count()
        has_asked = lambda: gateway.get(f"/none/{next(number)}") and self.metric(gateway, 'reads_total{result="miss"}')  # noqa: E731
        self.assert_eventually(has_asked, "Redis answers")
        return gateway

    def client(self):
        client = self.asks.client()
        self.addCleanup(client.close)
        return client

    def while_asked(self, *sent, reads=1):
        """A context in which a client has sent something, and Redis was asked for so much of it, and has not answered."""
        return _WhileAsked(self, sent, reads)

    def assert_page(self, answer, target, status=None):
        self.assert_status(answer, 200)
        self.assertEqual(answer.body.decode(), f"{target} 0")
        if status is not None:
            self.assertIn(status, self.status(answer))

    def assert_service_not_asked(self):
        self.assertEqual(sum(self.pages.asked.values()), self.asked_before)

    def sum(self, metric, label=""):
        lines = [line for line in self.metrics(self.asks).splitlines() if line.startswith(metric + "{") and label in line]
        return sum(float(line.split()[-1]) for line in lines)

    def until_waiting(self, count):
        self.assert_eventually(lambda: self.sum("pilotlight_requests_in_flight") == count, f"{count} wait for another")


class _WhileAsked:
    def __init__(self, case, sent, reads):
        self._case, self._sent, self._reads = case, sent, reads

    def __enter__(self):
        before = self._case.gate.reads
        self._holding = self._case.gate.holding()
        self._holding.__enter__()
        client = self._case.client()
        client.send(b"".join(self._sent))
        self._case.gate.until_reads(before + self._reads)
        return client

    def __exit__(self, *error):
        self._holding.__exit__(*error)


class Order(AskedCase):
    def test_many_at_once(self):
        """From Redis, from memory, from the service, with a body that looks like a request: in the order in which they came."""
        inner = get("/page/inner")
        self.assert_page(self.asks.get(STORED[0]), STORED[0], "detail=redis")
        wanted = [(STORED[1], "detail=redis"), (STORED[0], "hit; "), (STORED[2], "detail=redis"), ("/page/new", "fwd=uri-miss"),
                  (STORED[2], "hit; "), (STORED[3], "detail=redis"), (STORED[3], "hit; ")]  # fmt: skip
        post = f"POST /other HTTP/1.1\r\nHost: demo.test\r\nContent-Length: {len(inner)}\r\n\r\n".encode() + inner
        last = [(STORED[4], "detail=redis"), (STORED[0], "hit; ")]
        sent = [get(target) for target, _ in wanted] + [post] + [get(target) for target, _ in last]
        with self.while_asked(*sent) as client:
            pass
        for target, status in wanted:
            self.assert_page(client.answer(), target, status)
        self.assertEqual(client.answer("POST").body, b"1")
        for target, status in last:
            self.assert_page(client.answer(), target, status)
        self.assertEqual(self.pages.asked["/page/inner"], 0)

    def test_what_comes_meanwhile_is_behind_it(self):
        head = get(STORED[0], "X-Long: " + "x" * 3000)
        body = b"x" * 100_000
        with self.while_asked(get(STORED[1])) as client:
            client.send(head[:10])
            client.send(head[10:] + head[:2000])
        self.assert_page(client.answer(), STORED[1], "detail=redis")
        self.assert_page(client.answer(), STORED[0], "detail=redis")
        client.send(head[2000:])
        self.assert_page(client.answer(), STORED[0], "hit; ")
        with self.while_asked(get(STORED[2])) as client:
            client.send(f"POST /other HTTP/1.1\r\nHost: demo.test\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[:20_000])
        self.assert_page(client.answer(), STORED[2], "detail=redis")
        client.send(body[20_000:] + get(STORED[3]))
        self.assertEqual(client.answer("POST").body, b"1")
        self.assert_page(client.answer(), STORED[3], "detail=redis")

    def test_earlier_answers_do_not_wait_for_redis(self):
        self.asks.get(STORED[0])
        with self.while_asked(get(STORED[0]), get(STORED[1])) as client:
            self.assert_page(client.answer(), STORED[0], "hit; ")
        self.assert_page(client.answer(), STORED[1], "detail=redis")

    def test_one_read_for_all_who_ask_for_the_same(self):
        before, others = self.gate.reads, [self.client() for _ in range(20)]
        with self.while_asked(get(STORED[0])) as client:
            for other in others:
                other.send(get(STORED[0]))
            self.until_waiting(len(others))
        self.assert_page(client.answer(), STORED[0], "detail=redis")
        for other in others:
            self.assert_page(other.answer(), STORED[0], "collapsed")
        self.assertEqual(self.gate.reads, before + 1)
        self.assert_service_not_asked()

    def test_redis_does_not_answer_in_time(self):
        """Beyond the budget the service is asked, in the same order; the late answers are nobody's."""
        client = self.asking(budget="20ms").client()
        self.addCleanup(client.close)
        with self.gate.holding():
            client.send(get(STORED[0]) + get(STORED[1]))
            for target in STORED[:2]:
                self.assert_page(client.answer(), target, "fwd=uri-miss")
        client.send(get("/page/new") + get(STORED[0]))
        self.assert_page(client.answer(), "/page/new", "fwd=uri-miss")
        self.assert_page(client.answer(), STORED[0])


class Ends(AskedCase):
    def test_a_client_that_leaves(self):
        before = self.gate.reads
        for number, target in enumerate((STORED[0], "/page/new"), 1):
            with self.while_asked(get(target)) as client:
                client.close()
            # The answer was for everybody.
            self.assert_page(self.asks.get(target), target)
            if target in STORED:
                self.assertEqual(self.gate.reads, before + 1)
                self.assert_service_not_asked()

    def test_a_client_that_leaves_others_behind(self):
        for target in (STORED[0], "/page/new"):
            other = self.client()
            with self.while_asked(get(target)) as client:
                other.send(get(target))
                self.until_waiting(1)
                client.close()
            self.assert_page(other.answer(), target)

    def test_a_client_that_has_said_all(self):
        with self.while_asked(get(STORED[0]), get("/page/new"), get(STORED[1])) as client:
            client._sock.shutdown(socket.SHUT_WR)
        for target in (STORED[0], "/page/new", STORED[1]):
            self.assert_page(client.answer(), target)
        self.assertTrue(client.ended())

    def test_a_gateway_that_stops(self):
        """What Redis is asked for is answered, and the answer says that it is the last one."""
        idle = self.client()
        idle.send(get(STORED[5]))
        self.assert_page(idle.answer(), STORED[5])
        sent = [[get(STORED[0])], [get("/page/new")], [get(STORED[1]), get(STORED[2])], [get("/page/newer"), get(STORED[3])]]
        targets = [STORED[0], "/page/new", STORED[1], "/page/newer"]
        clients = [self.client() for _ in sent]
        for client in clients[1:]:  # the first has had no answer yet
            client.send(get(STORED[5]))
            self.assert_page(client.answer(), STORED[5])
        before = self.gate.reads
        with self.gate.holding():
            for client, requests in zip(clients, sent):
                client.send(b"".join(requests))
            self.gate.until_reads(before + len(sent))
            self.asks.process.terminate()
            self.assertTrue(idle.ended(), "its worker knows that it stops")
        for client, target in zip(clients, targets):
            answer = client.answer()
            self.assert_page(answer, target)
            self.assertEqual(answer.get("connection"), "close")
            self.assertTrue(client.ended())
        self.assertEqual(self.asks.process.wait(15), 0)

    def test_a_gateway_that_reloads(self):
        """Other rules while Redis is asked: answered by the old ones, or by the new ones, but answered."""
        config = self.asks.folder / "pilotlight.toml"
        first = config.read_text()
        changes = ["cache = { key = { sort_query = true } }", "cache = false", "cache = { key = { headers = [\"x-a\"] } }"]
        for turn, change in enumerate(changes):
            for target in (f"/page/new?{turn}", STORED[turn]):
                self.reload(first)
                with self.while_asked(get(target), get(target)) as client:
                    self.reload(first.replace("cache = true", change))
                for _ in range(2):
                    self.assert_page(client.answer(), target)
        self.reload(first)
        self.assert_page(self.asks.get(STORED[11]), STORED[11], "detail=redis")

    def reload(self, text):
        (self.asks.folder / "pilotlight.toml").write_text(text)
        done = subprocess.run([BINARY, "reload", "--socket", self.asks.folder / "admin.sock"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Same(AskedCase):
    """A connection must not tell who answered what."""

    cache = {"key": {"ignore_query": ["utm_*"]}}

    def test_all_ways_give_the_same_answer(self):
        answers = []
        for fields in ([], [("TE", "trailers")]):  # with TE it is hyper's
            answers.append(self.asking().get(STORED[0], fields))
            self.assert_page(answers[-1], STORED[0], "detail=redis")
        varying = ("age", "cache-status", "x-request-id")
        kept = [sorted(field for field in answer.fields if field[0] not in varying) for answer in answers]
        self.assertEqual(kept[1:], kept[:1])
        self.assertEqual(len({(answer.version, answer.status, answer.reason) for answer in answers}), 1)

    def test_targets_that_are_refused(self):
        for number, end in enumerate(("?utm_x=<", "?utm_x=>", "?utm_x=\x7f")):
            with self.client() as client:
                client.send(get(STORED[number] + end))
                self.assert_status(client.answer(), 400)
        self.assert_page(self.asks.get(STORED[3] + "?utm_x=1"), STORED[3], "detail=redis")

    def test_it_is_counted_once(self):
        counted = lambda: [self.sum("pilotlight_requests_total", f'cache="{verdict}"') for verdict in ("redis", "miss")]  # noqa: E731
        before = counted()
        with self.while_asked(get(STORED[0]), get("/page/new"), get(STORED[1])) as client:
            pass
        for target in (STORED[0], "/page/new", STORED[1]):
            self.assert_page(client.answer(), target)
        self.assert_eventually(lambda: counted() == [before[0] + 2, before[1] + 1], "each once")


if __name__ == "__main__":
    unittest.main()
