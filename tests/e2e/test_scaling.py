"""Several instances, the queue before them, the spare, replacements, stuck requests, the circuit (issue 4, part 1)."""

import asyncio
import os
import random
import resource
import threading
import time
import unittest
from collections import Counter
from pathlib import Path

from harness import BINARY, HERE, ORIGIN, PYTHON, Cut, Gateway, TestCase, config, in_threads, route, service, setUpModule
from load import THINK_TIME, Clients

__all__ = ["setUpModule"]

POOL = [PYTHON, "-B", str(HERE / "pool.py")]
# A whole run of what is shortened by default: `SOAK=1`.
SOAK = bool(os.environ.get("SOAK"))
CUTTER = [PYTHON, "-B", str(HERE / "cutter.py")]


def pool_gateway(*blocks, env=(), **settings):
    """A gateway with the service of pool.py on `/`."""
    env = {"FOLDER": "@FOLDER@"} | {name: str(value) for name, value in dict(env).items()}
    return Gateway(BINARY, config(service("pool", POOL, env=env, **settings), route(service="pool"), *blocks, dev=True))


def starts(gateway):
    return len(list(gateway.folder.glob("start.*")))


def running(gateway):
    """The instances that have not exited."""
    return [path.suffix[1:] for path in gateway.folder.glob("start.*") if os.path.exists(f"/proc/{path.suffix[1:]}")]


def burst(address, count, target):
    """So many requests at once, each on a connection of its own: (status, body) of each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 200)), hard))

    async def one():
        reader, writer = await asyncio.open_connection(*address)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: demo.test\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split(b" ", 2)[1]), body.decode()

    async def everything():
        return await asyncio.wait_for(asyncio.gather(*(one() for _ in range(count))), 60)

    return asyncio.run(everything())


class Load(Clients):
    """Clients that ask without pause until the end of the block; `answers` counts (status, body)."""

    def __init__(self, gateway, clients, target, think_time=0.0):
        self.gateway, self.target, self.answers, self.errors = gateway, target, Counter(), []
        super().__init__(clients, think_time)

    def _run(self, _number):
        try:
            with self.gateway.client() as client:
                while not self._stop.is_set():
                    self._think()
                    answer = client.request("GET", self.target)
                    self.answers[answer.status, answer.body.decode()] += 1
                    if answer.status != 200:
                        self.errors.append(answer)
        except (OSError, Cut) as error:
            self.errors.append(error)

    def bodies(self):
        return {body for _, body in list(self.answers)}


class Burst(TestCase):
    def test_a_thousand_first_requests_start_what_is_needed(self):
        gateway = self.start(pool_gateway(env={"DELAY": 0.5}, concurrency=100, max_instances=4))
        answers = burst(gateway.address, 1000, "/sleep?ms=20")
        self.assertEqual(Counter(status for status, _ in answers), {200: 1000})
        self.assertLessEqual(len({pid for _, pid in answers}), 4)
        self.assertEqual(starts(gateway), 4)

    def test_a_thousand_first_requests_of_a_single_instance(self):
        gateway = self.start(pool_gateway(env={"DELAY": 0.2}))
        answers = burst(gateway.address, 1000, "/pid")
        self.assertEqual(Counter(status for status, _ in answers), {200: 1000})
        self.assertEqual(starts(gateway), 1)

    def test_a_try_that_failed_holds_no_place(self):
        """Three fill an instance, which cuts two off: both are sent again, and neither waits for the place it had."""
        settings = {"transport": "http", "concurrency": 3, "max_instances": 1, "queue": {"timeout": "5s"}}
        web = service("web", CUTTER, **settings)
        gateway = self.start(Gateway(BINARY, config(web, route(service="web"), workers=1)))
        self.assert_status(gateway.get("/"), 200)  # it has answered: from now on its end would be no failed start
        answers = in_threads(3, lambda _: gateway.get("/", timeout=30))
        self.assertEqual([(answer.status, answer.body) for answer in answers], [(200, b"ok")] * 3)

    def test_an_instance_never_has_more_than_its_concurrency(self):
        gateway = self.start(pool_gateway(concurrency=3, max_instances=2))
        answers = burst(gateway.address, 60, "/sleep?ms=30")
        self.assertEqual(Counter(status for status, _ in answers), {200: 60})
        self.assertEqual({body for _, body in burst(gateway.address, 4, "/busy")}, {"3"})

    def test_an_http_service_with_several_instances(self):
        web = service("web", ORIGIN, transport="http", concurrency=1, max_instances=3, scale_up_after="20ms")
        gateway = self.start(Gateway(BINARY, config(web, route(service="web"))))
        with Load(gateway, 6, "/make?ms=50") as load:
            self.assert_eventually(lambda: self.instances(gateway) == 3, "three are allowed and needed")
        self.assertEqual(load.errors, [])

    @staticmethod
    def instances(gateway):
        return gateway.output().count("begins")


class Queue(TestCase):
    def test_full_and_too_late(self):
        gateway = self.start(pool_gateway(concurrency=1, queue={"max": 2, "timeout": "1s"}))
        gateway.get("/pid")
        begin = time.monotonic()
        results = {}

        def one(index):
            results[index] = gateway.get("/sleep?ms=3000"), time.monotonic() - begin

        threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual(sorted(answer.status for answer, _ in results.values()), [200, 503, 503, 503])
        refused = [(answer, took) for answer, took in results.values() if answer.status == 503]
        details = Counter()
        for answer, took in refused:
            problem = self.assert_problem(answer, 503)
            self.assertEqual((problem["phase"], answer.get("retry-after")), ("queue", "1"))
            full = "2 requests wait for it already (queue.max)" in problem["detail"]
            details["full" if full else "late"] += 1
            if full:
                self.assertLess(took, 0.9, "who finds the queue full is told at once")
            else:
                self.assertIn("no instance was free within queue.timeout (1 s)", problem["detail"])
                self.assertTrue(0.9 < took < 2.5, took)
        self.assertEqual(details, {"full": 1, "late": 2})

    def test_who_goes_away_gives_the_place_to_the_next(self):
        gateway = self.start(pool_gateway(concurrency=1, queue={"max": 1, "timeout": "10s"}))
        with gateway.client() as holds:
            holds.send_head("GET", "/sleep?ms=1500")
            holds.send(b"")
            self.assert_eventually(lambda: starts(gateway) == 1, "nothing was started")
            for _ in range(5):  # each takes the one place in the queue and leaves
                with gateway.client() as waits:
                    waits.send_head("GET", "/pid")
                    time.sleep(0.02)
            self.assertEqual(self.patiently(gateway).status, 200)
            self.assertEqual(holds.answer().status, 200)

    def patiently(self, gateway):
        """The gateway may learn a little later that a client has gone."""
        found = []

        def one():
            found.append(gateway.get("/pid"))
            return found[-1].status == 200

        self.assert_eventually(one, "the place in the queue did not become free")
        return found[-1]


class Scale(TestCase):
    def test_up_with_the_load_and_down_without(self):
        gateway = self.start(pool_gateway(concurrency=1, max_instances=3, scale_up_after="50ms", scale_down_after="1s"))
        with Load(gateway, 6, "/sleep?ms=40") as load:
            self.assert_eventually(lambda: len(load.bodies()) == 3, "three instances are allowed and needed")
        with Load(gateway, 1, "/sleep?ms=10") as light:
            self.assert_eventually(lambda: len(running(gateway)) == 1, "one instance is enough")
        self.assertEqual((load.errors, light.errors), ([], []))
        self.assertEqual(starts(gateway), 3)

    def test_a_spare_is_ready_before_it_is_needed(self):
        gateway = self.start(pool_gateway(env={"DELAY": 1}, concurrency=1, max_instances=3, spare=1))
        self.assert_eventually(lambda: gateway.output().count(" ready service=") == 1, "there is no spare at the start")
        with gateway.client() as first:
            first.send_head("GET", "/sleep?ms=6000")
            self.assert_eventually(lambda: gateway.output().count(" ready service=") == 2, "the spare in use has no successor")
            begin = time.monotonic()
            self.assertEqual(gateway.get("/pid").status, 200)
            self.assertLess(time.monotonic() - begin, 0.5, "it waited for a start")
            self.assertEqual(first.answer().status, 200)


class Recycle(TestCase):
    """Instances are replaced under load, and no request sees it."""

    def check(self, target, wanted, think_time=0.0, **settings):
        gateway = self.start(pool_gateway(**settings))
        gateway.get("/pid")
        with Load(gateway, 8, target, think_time) as load:
            self.assert_eventually(lambda: len(load.bodies()) >= wanted, "no instance was replaced", 30)
        self.assertEqual(load.errors, [])
        self.assert_eventually(lambda: len(running(gateway)) == 1, "an instance that was replaced is still there")
        self.assert_logged(gateway, "to be replaced")
        return load

    def test_by_requests(self):
        load = self.check("/pid", 4, max_requests=300)
        self.assertLess(sum(load.answers.values()) / len(load.bodies()), 3000)

    def test_by_requests_with_a_limit_for_each(self):
        self.check("/pid", 4, max_requests=300, concurrency=2, max_instances=1)

    def test_by_age(self):
        self.check("/sleep?ms=5", 3, THINK_TIME, max_age="1s")

    @unittest.skipUnless(Path("/proc/self/smaps_rollup").exists(), "not here: Linux")
    def test_by_memory(self):
        self.check("/grow?mib=1&ms=20", 3, max_memory="150MiB")

    def test_an_http_service(self):
        web = service("web", ORIGIN, transport="http", max_requests=200)
        gateway = self.start(Gateway(BINARY, config(web, route(service="web"))))
        with Load(gateway, 4, "/make") as load:
            self.assert_eventually(lambda: gateway.output().count("begins") >= 3, "no instance was replaced", 30)
        self.assertEqual(load.errors, [])

    def test_a_successor_that_fails_leaves_the_old_one(self):
        """The second start and the next two fail."""
        script = f"test -e @FOLDER@/broken && exit 3; exec {' '.join(POOL)}"
        env = {"FOLDER": "@FOLDER@"}
        blocks = service("pool", ["/bin/sh", "-c", script], env=env, max_requests=50), route(service="pool")
        gateway = self.start(Gateway(BINARY, config(*blocks)))
        first = gateway.get("/pid").body.decode()
        (gateway.folder / "broken").touch()
        with Load(gateway, 4, "/pid") as load:
            self.assert_eventually(lambda: gateway.output().count("the instance that it was to replace goes on") >= 2, "no try")
            self.assertEqual(load.bodies(), {first})
            (gateway.folder / "broken").unlink()
            self.assert_eventually(lambda: len(load.bodies()) > 1, "it was not replaced", 30)
        self.assertEqual(load.errors, [])


class Stuck(TestCase):
    def test_a_stuck_instance_is_ended_and_others_finish(self):
        gateway = self.start(pool_gateway(max_request_time="500ms", stop_grace="1s"))
        old = gateway.get("/pid").body.decode()
        with gateway.client() as streams:
            streams.send_head("GET", "/lines?count=8&ms=250")
            pieces = streams.body(streams.head())
            answer = gateway.get("/stuck")
            problem = self.assert_problem(answer, 504)
            self.assertIn("its max_request_time (0.5 s)", problem["detail"])
            new = gateway.get("/pid").body.decode()
            self.assertNotEqual(new, old, "a request was given to the stuck instance")
            self.assertIn(old, running(gateway))
            self.assertEqual(b"".join(pieces).count(b"\n"), 8, "the other request was cut")
        self.assert_eventually(lambda: old not in running(gateway), "the stuck instance is still there", 20)
        self.assert_logged(gateway, "max_request_time")
        self.assertEqual(gateway.get("/pid").body.decode(), new)

    def test_every_place_stuck_and_the_service_goes_on(self):
        settings = {"max_request_time": "300ms", "stop_grace": "1s", "concurrency": 1, "max_instances": 2}
        gateway = self.start(pool_gateway(**settings))
        answers = in_threads(4, lambda _: gateway.get("/stuck").status)
        self.assertEqual(answers, [504] * 4)
        self.assertEqual(gateway.get("/pid").status, 200)


class Circuit(TestCase):
    def test_opens_tries_once_and_closes(self):
        gateway = self.start(pool_gateway(env={"FAILING": 4, "BROKEN_AFTER": 0.3}))
        for _ in range(3):  # max_failures
            problem = self.assert_problem(gateway.get("/pid"), 503)
            self.assertEqual((problem["phase"], problem["exit"]), ("connect", "exited with status 9"))
        begin = time.monotonic()
        answer = gateway.get("/pid")
        problem = self.assert_problem(answer, 503)
        self.assertLess(time.monotonic() - begin, 0.2, "it was not refused at once")
        self.assertEqual((problem["phase"], problem["exit"]), ("backoff", "exited with status 9"))
        self.assertIn("3 instances in a row failed to start or ended early", problem["detail"])
        self.assertIn("the database is missing", problem["output"])
        time.sleep(int(answer.get("retry-after")))
        # Half open: one of many waits for the start, which fails; the others are refused meanwhile.
        phases = Counter(self.assert_problem(one, 503)["phase"] for one in in_threads(10, lambda _: gateway.get("/pid")))
        self.assertEqual(starts(gateway), 4)
        self.assertEqual(phases, {"connect": 1, "backoff": 9})
        self.assert_eventually(lambda: gateway.get("/pid").status == 200, "it never closes", 30)
        self.assertEqual({one.status for one in in_threads(10, lambda _: gateway.get("/pid"))}, {200})
        self.assertEqual(starts(gateway), 5)

    def test_a_service_that_is_kept_running_is_tried_without_requests(self):
        gateway = self.start(pool_gateway(env={"FAILING": 4}, min_instances=1))
        self.assert_eventually(lambda: " ready service=" in gateway.output(), "it was not tried again", 30)
        self.assertEqual(gateway.get("/pid").status, 200)

    def test_failed_starts_do_not_refuse_whom_others_serve(self):
        """The first instance works; those that are to help it fail."""
        script = f"mkdir @FOLDER@/first || exit 3; exec {' '.join(POOL)}"
        settings = {"concurrency": 1, "max_instances": 4, "scale_up_after": "20ms", "env": {"FOLDER": "@FOLDER@"}}
        gateway = self.start(
            Gateway(BINARY, config(service("pool", ["/bin/sh", "-c", script], **settings), route(service="pool")))
        )
        gateway.get("/pid")
        with Load(gateway, 8, "/sleep?ms=20") as load:
            self.assert_eventually(lambda: gateway.output().count("exited with status 3") >= 3, "nothing was tried")
        self.assertEqual(load.errors, [])


class IdleBoundary(TestCase):
    """Requests come just when their service is stopped for being idle: 10,000 with SOAK=1."""

    def test_no_request_is_lost(self):
        services, at_once, wanted = 8, 5, 10_000 if SOAK else 1200
        blocks = []
        for index in range(services):
            env = {"FOLDER": "@FOLDER@"}
            blocks.append(service(f"s{index}", [*POOL[:1], "-S", *POOL[1:]], env=env, idle_timeout="100ms"))
            blocks.append(route(f"/{index}", f"s{index}", strip_prefix=True))
        gateway = self.start(Gateway(BINARY, config(*blocks)))
        rounds = wanted // (services * at_once)

        def ask(index):
            chance, statuses = random.Random(index), Counter()
            for _ in range(rounds):
                pause = 0.1 + chance.uniform(-0.004, 0.008)
                results = burst_slowly(gateway.address, at_once, f"/{index}/pid", chance)
                statuses.update(results)
                time.sleep(pause)
            return statuses

        begin = starts(gateway)
        total = sum(in_threads(services, ask), Counter())
        self.assertEqual(total, {200: rounds * services * at_once})
        self.assertGreater(starts(gateway) - begin, rounds, "the boundary was hardly met")


def burst_slowly(address, count, target, chance):
    """So many requests within a few milliseconds: the statuses."""
    from harness import Client

    statuses, clients = [], []
    try:
        for _ in range(count):
            clients.append(Client(address))
            clients[-1].send_head("GET", target)
            time.sleep(chance.uniform(0, 0.001))
        for client in clients:
            statuses.append(client.answer().status)
    finally:
        for client in clients:
            client.close()
    return statuses


if __name__ == "__main__":
    unittest.main()
