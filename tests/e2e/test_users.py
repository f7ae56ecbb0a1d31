"""examples/users: what it promises, with real databases, a real Redis, and real trouble.

`USERS_KILLS` says how often the crash test kills the service (200).
"""

import itertools
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from harness import BINARY, Cut, Gateway, TestCase, config, eventually, route, service, setUpModule
from programs import installed
from users_service import USERS, Redis, Users, send

__all__ = ["setUpModule"]

KILLS = int(os.environ.get("USERS_KILLS", "200"))
SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
ROWS = 10_000
TTL = 60


def new_user(number, **more):
    return {"name": f"User {number}", "email": f"user-{number}@test.example", **more}


class UsersTest(TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="pilotlight-users-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.db = self.folder / "users.db"

    def users(self, *arguments, **named):
        users = Users(self.db, *arguments, **named)
        self.addCleanup(users.stop)
        return users.start()

    def redis(self):
        redis = Redis()
        self.addCleanup(redis.stop)
        return redis.start()

    def assert_users_problem(self, answer, status, word):
        self.assert_status(answer, status)
        self.assertEqual(answer.get("content-type"), "application/problem+json")
        self.assertEqual(answer.json["status"], status)
        self.assertIn(word, answer.json["detail"])


class DocumentTest(UsersTest):
    def test_the_service_does_what_its_document_says(self):
        users = self.users()
        host, port = users.address
        schemathesis = installed(Path(sys.executable).with_name("st"), "schemathesis")
        # Positive, negative and stateful cases; every check that the tool has.
        command = [schemathesis, "run", f"http://{host}:{port}/openapi.json", "--max-examples", "25", "--seed", "7"]
        command += ["--no-color"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-2000:])
        self.assertIn("5 selected / 5 total", done.stdout)


class CrashTest(UsersTest):
    """SIGKILL under POST load: what was acknowledged is there, once."""

    CLIENTS = 8
    MOST_IN_A_LIFE = 40

    def test_no_acknowledged_row_is_lost(self):
        rng, numbers, acknowledged = random.Random(SEED), itertools.count(), {}
        for life in range(KILLS):
            users = self.users()
            self.compare(acknowledged, life)
            self.load_until_killed(users, rng.randint(1, self.MOST_IN_A_LIFE), numbers, acknowledged)
        self.users()
        self.compare(acknowledged, KILLS)
        with sqlite3.connect(self.db) as database:
            self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        database.close()
        self.assertGreater(len(acknowledged), KILLS)

    def compare(self, acknowledged, life):
        database = sqlite3.connect(self.db)
        rows = database.execute("SELECT email, id FROM users WHERE id > ?", (ROWS,)).fetchall()
        database.close()
        stored = dict(rows)
        self.assertEqual(len(stored), len(rows), f"an email twice, seed {SEED}")
        lost = {email: number for email, number in acknowledged.items() if stored.get(email) != number}
        self.assertEqual(lost, {}, f"acknowledged and not there after {life} kills, seed {SEED}")

    def load_until_killed(self, users, enough, numbers, acknowledged):
        reached, lock = threading.Event(), threading.Lock()
        count = 0

        def post():
            nonlocal count
            try:
                with users.client() as client:
                    while True:
                        user = new_user(next(numbers))
                        answer = send(client, "POST", "/users", user)
                        if answer.status != 201:
                            failures.append(answer)
                            return
                        with lock:
                            acknowledged[user["email"]] = answer.json["id"]
                            count += 1
                            if count >= enough:
                                reached.set()
            except (OSError, Cut):
                pass  # killed
            finally:
                reached.set() if users.process.poll() is not None else None

        failures = []
        threads = [threading.Thread(target=post) for _ in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        self.assertTrue(reached.wait(60), users.said())
        users.kill()
        for thread in threads:
            thread.join(60)
        self.assertEqual(failures, [])


class Checker:
    """Readers and writers of a few users. Each PUT carries a number that grows; a read that began after a PUT was acknowledged must
    not have a smaller one."""

    def __init__(self, processes, ids=8):
        self.processes = processes
        self.ids = range(1, ids + 1)
        self.acknowledged = {number: 0 for number in self.ids}
        self.locks = {number: threading.Lock() for number in self.ids}
        self.stale, self.failures, self.reads, self.writes = [], [], 0, 0
        self.stop = threading.Event()
        self.slowest = 0.0

    def put(self, client, number):
        with self.locks[number]:  # one writer of a user at a time: the order of its numbers is known
            version = self.acknowledged[number] + 1
            user = {"name": f"v{version}", "email": f"checked-{number}@test.example"}
            answer = self.timed(client, "PUT", f"/users/{number}", user)
            if answer.status != 200:
                return self.failures.append(answer)
            self.acknowledged[number] = version
            self.writes += 1

    def get(self, client, number):
        least = self.acknowledged[number]
        answer = self.timed(client, "GET", f"/users/{number}")
        if answer.status != 200:
            return self.failures.append(answer)
        name = answer.json["name"]
        version = int(name[1:]) if name.startswith("v") else 0
        self.reads += 1
        if version < least:
            self.stale.append((number, version, least))

    def timed(self, client, *request):
        begin = time.monotonic()
        answer = send(client, *request)
        self.slowest = max(self.slowest, time.monotonic() - begin)
        return answer

    def work(self, index, writes):
        rng = random.Random(SEED + index)
        try:
            with self.processes[index % len(self.processes)].client() as client:
                while not self.stop.is_set():
                    number = rng.choice(self.ids)
                    if writes and rng.random() < 0.5:
                        self.put(client, number)
                    else:
                        self.get(client, number)
        except Exception as error:  # noqa: BLE001, whatever ends a thread fails the test
            self.failures.append(error)

    def start(self, writers=4, readers=4):
        self.threads = [threading.Thread(target=self.work, args=(index, index < writers)) for index in range(writers + readers)]
        for thread in self.threads:
            thread.start()

    def finish(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)

    def reached(self, writes):
        return eventually(lambda: self.writes >= writes or self.failures, 120)


class CoherenceTest(UsersTest):
    def check(self, processes, writes=300):
        checker = Checker(processes)
        checker.start()
        try:
            self.assertTrue(checker.reached(writes), checker.writes)
        finally:
            checker.finish()
        self.assertEqual((checker.failures[:3], checker.stale[:3]), ([], []), f"seed {SEED}")
        self.assertGreater(checker.reads, writes // 2)

    def test_two_processes_with_one_redis_read_nothing_stale(self):
        redis = self.redis()
        # A machine that stands still for longer than the usual budget is no matter of this test.
        arguments = ("--redis", redis.url, "--redis-budget-ms", 10_000)
        self.check([self.users(*arguments), self.users(*arguments)])

    def test_threads_that_share_memory_read_nothing_stale(self):
        self.check([self.users(threads=2)])

    def test_redis_that_comes_and_goes_makes_nothing_stale_for_who_wrote_and_later_for_nobody(self):
        redis = self.redis()
        one = self.users("--redis", redis.url)
        checker = Checker([one])
        checker.start()
        try:
            for turn in range(3):
                self.assertTrue(checker.reached(checker.writes + 40))
                redis.pause()
                self.assertTrue(checker.reached(checker.writes + 40))
                redis.go_on()
                self.assertTrue(checker.reached(checker.writes + 40))
                redis.kill()
                self.assertTrue(checker.reached(checker.writes + 40))
                redis.start()
        finally:
            redis.go_on()
            checker.finish()
        self.assertEqual((checker.failures[:3], checker.stale[:3]), ([], []), f"seed {SEED}")
        # The removals that were missed are made; then the cache is used again, by everybody.
        other = self.users("--redis", redis.url, "--redis-budget-ms", 10_000)

        def agrees():
            return all(
                process.request("GET", f"/users/{number}").json["name"] == f"v{checker.acknowledged[number]}"
                for number in checker.ids if checker.acknowledged[number]
                for process in (one, other)
            )

        self.assert_eventually(agrees, "an old user is still read", 20)

    def test_without_redis_it_is_slower_and_not_broken(self):
        redis = self.redis()
        users = self.users("--redis", redis.url)
        with users.client() as client:
            first = send(client, "GET", "/users/1")
            redis.pause()
            begin = time.monotonic()
            for number in range(1, 201):
                self.assert_status(send(client, "GET", f"/users/{number}"), 200)
            # The budget of 50 ms is spent a few times, then nobody asks: far from 200 times.
            self.assertLess(time.monotonic() - begin, 5)
            self.assert_status(send(client, "PUT", "/users/1", new_user(1)), 200)
            self.assertEqual(send(client, "GET", "/users/1").json["name"], "User 1")
            redis.go_on()
            redis.kill()
            for number in range(1, 201):
                self.assert_status(send(client, "GET", f"/users/{number}"), 200)
            self.assertEqual(first.json["name"], "Ada Allen")
        self.assertIn("going on without Redis", users.said())


class TroubleTest(UsersTest):
    """Databases that cannot be written."""

    def test_a_locked_database_is_said_and_nothing_is_lost(self):
        users = self.users("--lock-wait-ms", 100)
        lock = sqlite3.connect(self.db, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        for method, target, user in [("POST", "/users", new_user(1)), ("PUT", "/users/1", new_user(2)), ("DELETE", "/users/2", None)]:
            answer = users.request(method, target, user)
            self.assert_users_problem(answer, 503, "locked by another process")
            self.assertEqual(answer.get("retry-after"), "1")
        self.assert_status(users.request("GET", "/users/2"), 200)
        self.assert_status(users.request("GET", "/users?page=2"), 200)
        lock.execute("ROLLBACK")
        lock.close()
        self.assert_status(users.request("POST", "/users", new_user(1)), 201)
        self.assertEqual(users.request("GET", "/users/1").json["name"], "Ada Allen")

    def test_more_writes_than_may_wait_are_refused_at_once(self):
        users = self.users("--lock-wait-ms", 60_000, "--max-waiting-writes", 2)
        lock = sqlite3.connect(self.db, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        answers = []
        threads = [
            threading.Thread(target=lambda n=n: answers.append(users.request("POST", "/users", new_user(n), 60))) for n in range(8)
        ]
        slept = self.sleeps_of(users, "users-writer")
        threads[0].start()

        def writer_waits():
            return self.sleeps_of(users, "users-writer") > slept + 10

        self.assert_eventually(writer_waits, "the writer waits for the lock", 30)
        for thread in threads[1:]:
            thread.start()
        # While the lock is held nobody is answered but who is refused. Two wait, and those are at work whom the writer found together: one to three.
        self.assert_eventually(lambda: len(answers) >= 3, "who is too many waits", 30)
        self.assertEqual({answer.status for answer in list(answers)}, {503})
        lock.execute("ROLLBACK")
        lock.close()
        for thread in threads:
            thread.join(60)
        refused = [answer for answer in answers if answer.status != 201]
        self.assertIn(len(refused), range(3, 6), [answer.status for answer in answers])
        for answer in refused:
            self.assert_users_problem(answer, 503, "2 writes are waiting")
            self.assertEqual(answer.get("retry-after"), "1")

    def sleeps_of(self, users, thread):
        """How often a thread has waited: one that waits for a lock of SQLite's looks at it again and again."""
        tasks = Path(f"/proc/{users.process.pid}/task").iterdir()
        ours = [(task / "status").read_text() for task in tasks if (task / "comm").read_text().strip() == thread]
        return sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1]) for status in ours)

    def test_a_read_only_database_is_said_and_can_be_read(self):
        self.users().terminate()
        self.folder.chmod(0o777)
        before = ()
        if os.geteuid() == 0:  # whom no mode keeps out
            before = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        self.db.chmod(0o444)
        users = self.users(before=before)
        self.assert_status(users.request("GET", "/users/1"), 200)
        for method, target, user in [("POST", "/users", new_user(1)), ("PUT", "/users/1", new_user(2)), ("DELETE", "/users/2", None)]:
            self.assert_users_problem(users.request(method, target, user), 503, "read-only")
        self.assertEqual(users.request("GET", "/users/1").json["name"], "Ada Allen")

    def test_a_database_that_cannot_be_opened_is_said_at_the_start(self):
        self.db.mkdir()
        done = subprocess.run([USERS, "--db", self.db, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot open the database {self.db}", done.stderr)

    def test_a_full_disk_is_said_and_nothing_acknowledged_is_lost(self):
        room, ballast = self.folder / "room", "room/ballast"
        room.mkdir()
        self.db = room / "users.db"
        # A file system of 8 MB that only the service sees.
        script = f'mount -t tmpfs -o size=8m none "{room}" && head -c 1000000 /dev/zero >"{self.folder}/{ballast}" && exec "$@"'
        before = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh")
        if subprocess.run([*before[:4], "true"], capture_output=True).returncode:
            self.skipTest("not here: this system makes no user namespaces, so no disk can be filled; store::writer's tests use SQLite's own limit")
        users = self.users(before=before)
        kept, refused = [], []
        with users.client() as client:
            for number in range(20_000):
                user = new_user(number, bio="x" * 2000)
                answer = send(client, "POST", "/users", user)
                if answer.status == 201:
                    kept.append((answer.json["id"], user))
                else:
                    self.assert_users_problem(answer, 507, "the disk is full")
                    refused.append(user)
                    if len(refused) == 20:
                        break
            self.assertTrue(kept and refused, users.said()[-2000:])
            self.assert_status(send(client, "GET", "/users?limit=100"), 200)
            os.unlink(f"/proc/{users.process.pid}/root{self.folder}/{ballast}")
            for user in refused:  # 409 would mean that it had been stored
                answer = send(client, "POST", "/users", user)
                self.assert_status(answer, 201)
                kept.append((answer.json["id"], user))
            for number, user in kept:
                found = send(client, "GET", f"/users/{number}").json
                self.assertEqual((found["email"], found["bio"]), (user["email"], user["bio"]))


class EndTest(UsersTest):
    def test_sigterm_lets_open_requests_finish_and_leaves_a_closed_database(self):
        users = self.users("--lock-wait-ms", 60_000, threads=2)
        lock = sqlite3.connect(self.db, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        with users.client() as open_request, users.client() as idle:
            self.assert_status(send(idle, "GET", "/users/1"), 200)
            body = json.dumps(new_user(1)).encode()
            open_request.send_head("POST", "/users", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
            open_request.send(body)
            # It is at work when it would be refused to another: the writer has it, and waits for the lock.
            self.assert_status(send(idle, "GET", "/users/2"), 200)
            users.process.terminate()
            self.assertTrue(idle.ended(), "a connection without a request is closed")
            lock.execute("ROLLBACK")
            lock.close()
            answer = open_request.answer("POST")
            self.assertEqual((answer.status, answer.get("connection")), (201, "close"))
        self.assertEqual(users.process.wait(30), 0, users.said())
        self.assertEqual([path.name for path in self.folder.iterdir()], ["users.db"])


class GatewayTest(UsersTest):
    def start_gateway(self, *arguments, **settings):
        argv = [str(USERS), "--db", str(self.db), *map(str, arguments)]
        gateway = Gateway(BINARY, config(service("users", argv), route(service="users", **settings)))
        return self.start(gateway)

    def test_over_the_pipe_with_redis(self):
        redis = self.redis()
        gateway = self.start_gateway("--redis", redis.url)
        with gateway.client() as client:
            user = send(client, "POST", "/users", new_user(1))
            self.assertEqual((user.status, user.get("location")), (201, f"/users/{ROWS + 1}"))
            for _ in range(2):
                self.assertEqual(send(client, "GET", f"/users/{ROWS + 1}").json, user.json)
            self.assert_status(send(client, "PUT", f"/users/{ROWS + 1}", new_user(2)), 200)
            self.assertEqual(send(client, "GET", f"/users/{ROWS + 1}").json["name"], "User 2")
            self.assert_status(send(client, "DELETE", f"/users/{ROWS + 1}"), 204)
            self.assert_status(send(client, "GET", f"/users/{ROWS + 1}"), 404)
            redis.kill()
            self.assert_status(send(client, "GET", "/users/1"), 200)
            self.assert_status(send(client, "GET", "/openapi.json"), 200)

    def test_in_the_gateways_cache_until_it_is_changed(self):
        gateway = self.start_gateway(cache="60s")
        with gateway.client() as client:
            send(client, "GET", "/users/1")
            self.assertIn("hit", send(client, "GET", "/users/1").get("cache-status"))
            self.assert_status(send(client, "PUT", "/users/1", new_user(1)), 200)
            self.assertEqual(send(client, "GET", "/users/1").json["name"], "User 1")

    def test_overload_is_the_gateways_503(self):
        gateway = self.start_gateway("--lock-wait-ms", 60_000, "--max-waiting-writes", 1)
        self.assert_status(gateway.get("/users/1"), 200)
        lock = sqlite3.connect(self.db, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        answers = []

        def post(number):
            with gateway.client(60) as client:
                answers.append(send(client, "POST", "/users", new_user(number)))

        threads = [threading.Thread(target=post, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
            time.sleep(0.2)  # the first is a group of its own, else it takes others along
        self.assert_eventually(lambda: len(answers) == 3, "who is too many waits", 30)
        self.assertEqual([answer.status for answer in answers], [503] * 3)
        lock.execute("ROLLBACK")
        lock.close()
        for thread in threads:
            thread.join(60)
        self.assertEqual(sorted(answer.status for answer in answers), [201, 201, 503, 503, 503])


if __name__ == "__main__":
    unittest.main(verbosity=2)
