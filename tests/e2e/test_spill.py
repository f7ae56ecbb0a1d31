"""A service that is started here and has no room gives requests to one that runs elsewhere."""

import contextlib
import json
import socket
import subprocess
import threading

from harness import BINARY, HERE, PYTHON, Gateway, config, route, service, setUpModule
from test_operate import ADMIN, Unix
from test_servers import Server, ServersCase

__all__ = ["setUpModule"]

POOL = [PYTHON, "-B", str(HERE / "pool.py")]


class Cutting:
    """A server that reads two requests and closes their connections."""

    def __init__(self):
        self.listener, self.methods = socket.create_server(("127.0.0.1", 0)), []
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                pair = [self.listener.accept()[0] for _ in range(2)]
            except OSError:
                return
            self.methods += [connection.recv(65_536).partition(b" ")[0].decode() for connection in pair]
            for connection in pair:
                connection.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class SpillCase(ServersCase):
    def remote(self, name="remote"):
        one = Server(name)
        self.addCleanup(one.kill)
        return one

    def begin(self, remote, spill=None, env=(), other=None, on_route=None, workers=2, **settings):
        """One instance, two requests at a time."""
        spill = {"to": "elsewhere"} | (spill or {})
        settings = {"max_instances": 1, "concurrency": 2, "queue": {"max": 100, "timeout": "1m"}} | settings
        env = {"FOLDER": "@FOLDER@"} | {name: str(value) for name, value in dict(env).items()}
        blocks = [
            service("pool", POOL, env=env, spill=spill, **settings),
            service("elsewhere", url=remote.url, **(other or {})),
            route(service="pool", **(on_route or {})),
            ADMIN,
        ]
        return self.start(Gateway(BINARY, config(*blocks, workers=workers)))

    def services(self, gateway):
        with contextlib.closing(Unix(gateway.folder / "admin.sock")) as connection:
            connection.request("GET", "/status")
            return {one["name"]: one for one in json.loads(connection.getresponse().read())["services"]}

    def run_command(self, gateway, *words):
        command = [str(BINARY), *words, "--socket", str(gateway.folder / "admin.sock")]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def spilled(self, gateway):
        return self.services(gateway)["pool"]["spill"]["requests"]

    def in_background(self, gateway, target, method="GET", body=None):
        answers = []
        one = threading.Thread(target=lambda: answers.append(gateway.request(method, target, body=body, timeout=60)))
        one.start()
        self.addCleanup(one.join)
        return one, answers

    def fill(self, gateway):
        """Both places are taken until `self.release`."""
        held = [self.in_background(gateway, f"/wait?name=go&ms={number}") for number in range(2)]
        self.addCleanup(self.release, gateway)
        pool = lambda: self.services(gateway)["pool"]["instances"]  # noqa: E731
        self.assert_eventually(lambda: [one["in_flight"] for one in pool()] == [2], "both places are taken", 30)
        return held

    def release(self, gateway):
        (gateway.folder / "go").touch()

    def waits(self, gateway, count=1):
        length = lambda: self.services(gateway)["pool"]["queue"]["length"]  # noqa: E731
        self.assert_eventually(lambda: length() == count, "it waits at home")


class Spilling(SpillCase):
    def test_what_a_full_service_cannot_take_goes_elsewhere(self):
        gateway = self.begin(self.remote())
        held = self.fill(gateway)
        self.assertIn("goes to elsewhere", self.run_command(gateway, "explain", "/pid"))
        for number in range(5):
            answer = gateway.request("POST", "/pid", body=b"x" * number * 100_000)
            self.assertEqual((answer.status, answer.body), (200, b"remote"))
        self.assertEqual(self.spilled(gateway), {"full": 5, "queue": 0})
        expected = {'service="pool",reason="full"': 5, 'service="pool",reason="queue"': 0}
        self.assertEqual(self.metric(gateway, "pilotlight_service_spilled_total"), expected)
        self.release(gateway)
        for one, answers in held:
            one.join()
            self.assertEqual([answer.status for answer in answers], [200])
        self.assertTrue(gateway.get("/pid").body.isdigit(), "there is room again")
        self.assertEqual(self.spilled(gateway), {"full": 5, "queue": 0})

    def test_a_start_is_waited_for_unless_the_queue_is_long(self):
        gateway = self.begin(self.remote(), spill={"queue": 2}, env={"DELAY": 2})
        waiting = []
        for number in range(2):
            waiting.append(self.in_background(gateway, "/pid"))
            self.waits(gateway, number + 1)
        self.assertEqual(gateway.get("/pid").body, b"remote")
        for one, answers in waiting:
            one.join()
            self.assertTrue(answers[0].body.isdigit(), answers)
        self.assertEqual(self.spilled(gateway), {"full": 0, "queue": 1})

    def test_what_has_no_room_elsewhere_waits_at_home(self):
        # Its queue would be the second line that a request waits in.
        remote = self.remote("7")
        gateway = self.begin(remote, other={"max_connections": 1})
        self.fill(gateway)
        busy, _ = self.in_background(gateway, "/sleep?slow=7&until=answered")
        self.assert_eventually(lambda: self.spilled(gateway)["full"] == 1, "one is there")
        late, answers = self.in_background(gateway, "/pid")
        self.waits(gateway)
        self.release(gateway)
        late.join()
        self.assertTrue(answers[0].body.isdigit(), answers)
        remote.go_on("answered")
        busy.join()

    def test_what_fails_elsewhere_waits_at_home(self):
        remote = self.remote()
        for settings in ({}, {"health": "/health", "max_connections": 9}):
            with self.subTest(settings):
                gateway = self.begin(remote, other=settings)
                self.fill(gateway)
                remote.kill()
                late = [self.in_background(gateway, "/pid", "POST", b"order") for _ in range(3)]
                self.waits(gateway, 3)
                self.release(gateway)
                for one, answers in late:
                    one.join()
                    self.assertEqual(answers[0].status, 200, answers)
                    self.assertTrue(answers[0].body.isdigit(), answers)

    def test_what_is_cut_off_elsewhere_is_sent_again_at_home_if_it_may_be(self):
        # Two at a time at one worker: one alone that ends its connection might be what ended the server.
        cutting = Cutting()
        self.addCleanup(cutting.close)
        gateway = self.begin(cutting, workers=1)
        self.fill(gateway)
        orders = [self.in_background(gateway, "/pid", "POST", b"order") for _ in range(2)]
        for one, answers in orders:
            one.join()
            self.assertEqual(answers[0].status, 502, "it may have been carried out")
        late = [self.in_background(gateway, "/pid") for _ in range(2)]
        self.waits(gateway, 2)
        self.release(gateway)
        for one, answers in late:
            one.join()
            self.assertTrue(answers[0].body.isdigit(), answers)
        self.assertEqual(cutting.methods, ["POST", "POST", "GET", "GET"])

    def test_it_is_cached_as_if_it_came_from_home(self):
        gateway = self.begin(self.remote(), on_route={"cache": "1h"})
        self.fill(gateway)
        self.assertEqual(gateway.get("/kept").body, b"remote")
        again = gateway.get("/kept")
        self.assertEqual(again.body, b"remote")
        self.assertIn("hit", again.get("cache-status"))
