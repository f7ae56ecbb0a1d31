"""Groups: services that share a budget, with real processes (issue 20, part 4)."""

import json
import os
import signal
import unittest
from concurrent.futures import ThreadPoolExecutor

from harness import BINARY, Gateway, config, route, service, setUpModule
from test_deploy import Deploying, released
from test_operate import ADMIN, Operated
from test_scaling import POOL

__all__ = ["setUpModule"]


def group(name="models", **settings):
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join([f"[groups.{name}]", *lines, ""])


def member(name, **settings):
    return service(name, POOL, **{"env": {"FOLDER": f"@FOLDER@/{name}"}, "in_group": "models"} | settings)


class Groups(Operated):
    NAMES = ("a", "b", "c")

    def setUp(self):
        self.pool = ThreadPoolExecutor(32)
        self.addCleanup(self.pool.shutdown)

    def begin(self, *groups, names=("a", "b"), more=(), **settings):
        self.blocks = lambda *groups: config(
            *groups, *(member(name, **settings) for name in names),
            *(route(f"/{name}", service=name, strip_prefix=True) for name in names), *more, ADMIN, dev=True,
        )
        gateway = Gateway(BINARY, self.blocks(*groups))
        for name in self.NAMES:
            (gateway.folder / name).mkdir()
        return self.start(gateway)

    def pid(self, gateway, name, target="/pid"):
        answer = gateway.get(f"/{name}{target}")
        self.assert_status(answer, 200)
        return int(answer.body)

    def processes(self, gateway):
        """The services that have a process."""
        started = ((name, path) for name in self.NAMES for path in (gateway.folder / name).glob("start.*"))
        return sorted(name for name, path in started if os.path.exists(f"/proc/{path.suffix[1:]}"))

    def group(self, gateway, name="models"):
        return next(one for one in self.admin(gateway, "/status")["groups"] if one["name"] == name)

    def in_thread(self, gateway, target):
        """A request that is sent now: the future of its answer."""
        return self.pool.submit(gateway.get, target)

    def wait_for_queue(self, gateway, name, length=1):
        def waits():
            return self.service(gateway, name)["queue"]["length"] == length

        self.assert_eventually(waits, f"{length} requests wait for {name}")

    def wait_until_open(self, gateway, name):
        def is_open():
            return any(one["in_flight"] for one in self.service(gateway, name)["instances"])

        self.assert_eventually(is_open, f"a request of {name} is open")

    def let_go(self, gateway, name, what="go"):
        (gateway.folder / name / what).touch()


class MaxRunning(Groups):
    def test_who_is_asked_starts_and_the_idle_one_makes_room(self):
        gateway = self.begin(group(max_running=1))
        first = self.pid(gateway, "a")
        self.assertEqual(self.pid(gateway, "a"), first)
        self.pid(gateway, "b")
        self.assertEqual(self.processes(gateway), ["b"])
        self.assertNotEqual(self.pid(gateway, "a"), first)
        self.assertEqual(self.processes(gateway), ["a"])
        shown = self.group(gateway)
        self.assertEqual((shown["running"], shown["max_running"], shown["made_room"]), (1, 1, 2))
        self.assertIn("group models 1 of 1 running", self.cli(gateway, "status"))
        metrics = self.ask(gateway, "GET", "/metrics").read().decode()
        self.assertIn('pilotlight_group_running{group="models"} 1', metrics)
        self.assertIn('pilotlight_group_made_room_total{group="models"} 2', metrics)

    def test_of_three_the_least_recently_used_makes_room(self):
        gateway = self.begin(group(max_running=2), names=self.NAMES)
        for name in ("a", "b", "a", "c"):
            self.pid(gateway, name)
        self.assertEqual(self.processes(gateway), ["a", "c"])

    def test_many_at_once_for_three_services_are_all_answered_and_one_runs_at_a_time(self):
        gateway = self.begin(group(max_running=1, grace="100ms"), names=self.NAMES)
        answers = [self.in_thread(gateway, f"/{name}/sleep?ms=5") for name in self.NAMES * 8]
        most = 0
        while not all(answer.done() for answer in answers):
            most = max(most, len(self.processes(gateway)))
            most = max(most, self.group(gateway)["running"])
        for answer in answers:
            self.assert_status(answer.result(), 200)
        self.assertLessEqual(most, 1)

    def test_a_long_request_is_left_alone_in_its_grace_and_let_end_after_it(self):
        gateway = self.begin(group(max_running=1, grace="1s"))
        self.pid(gateway, "a")
        long = self.in_thread(gateway, "/a/wait?name=go")
        self.wait_until_open(gateway, "a")
        other = self.in_thread(gateway, "/b/pid")
        self.wait_for_queue(gateway, "b")
        ready = [one["state"] for one in self.service(gateway, "a")["instances"]]
        self.assertEqual(ready, ["ready"])
        explained = self.cli(gateway, "explain", "/b")
        self.assertIn("the group `models` has no room", explained)
        # After the grace it takes no more requests, and its open one goes on.
        self.assert_eventually(
            lambda: [one["state"] for one in self.service(gateway, "a")["instances"]] == ["draining"], "drained")
        behind = self.in_thread(gateway, "/a/pid")
        self.wait_for_queue(gateway, "a")
        self.let_go(gateway, "a")
        self.assert_status(long.result(), 200)
        self.assert_status(other.result(), 200)
        self.assert_status(behind.result(), 200)
        self.assertEqual(self.processes(gateway), ["a"])

    def test_the_end_of_the_last_request_is_noticed(self):
        gateway = self.begin(group(max_running=1, grace="1h"))
        self.pid(gateway, "a")
        long = self.in_thread(gateway, "/a/wait?name=go")
        self.wait_until_open(gateway, "a")
        other = self.in_thread(gateway, "/b/pid")
        self.wait_for_queue(gateway, "b")
        self.let_go(gateway, "a")
        self.assert_status(long.result(), 200)
        self.assert_status(other.result(), 200)

    def test_requests_beyond_the_queue_are_told_of_the_group(self):
        gateway = self.begin(group(max_running=1, grace="1h"), queue={"max": 1, "timeout": "1s"}, start_timeout="1s")
        self.pid(gateway, "a")
        long = self.in_thread(gateway, "/a/wait?name=go")
        self.wait_until_open(gateway, "a")
        waits = self.in_thread(gateway, "/b/pid")
        self.wait_for_queue(gateway, "b")
        for answer, why in ((gateway.get("/b/pid"), "queue.max"), (waits.result(), "queue.timeout")):
            self.assert_status(answer, 503)
            self.assertIsNotNone(answer.get("retry-after"))
            text = answer.body.decode()
            self.assertIn(why, text)
            self.assertIn("group `models` has no room (max_running = 1; in use: 1 running", text)
        self.let_go(gateway, "a")
        self.assert_status(long.result(), 200)

    def test_a_killed_one_leaves_its_room(self):
        gateway = self.begin(group(max_running=1, grace="1h"))
        pid = self.pid(gateway, "a")
        self.in_thread(gateway, "/a/wait?name=never")
        self.wait_until_open(gateway, "a")
        other = self.in_thread(gateway, "/b/pid")
        self.wait_for_queue(gateway, "b")
        os.kill(pid, signal.SIGKILL)
        self.assert_status(other.result(), 200)
        self.let_go(gateway, "a", "never")

    def test_one_that_fails_to_start_gives_its_room_to_the_next(self):
        broken = service("c", ["sh", "-c", "exit 3"], in_group="models")
        gateway = self.begin(group(max_running=1), more=(broken, route("/c", service="c")))
        self.assert_status(gateway.get("/c"), 503)
        self.pid(gateway, "a")

    def test_the_floor_of_one_makes_room_and_comes_back(self):
        kept = service("c", POOL, env={"FOLDER": "@FOLDER@/c"}, in_group="models", min_instances=1)
        gateway = self.begin(
            group(max_running=1), idle_timeout="300ms", more=(kept, route("/c", service="c", strip_prefix=True)))
        self.assert_eventually(lambda: self.processes(gateway) == ["c"], "the floor is there")
        self.pid(gateway, "a")
        self.assertEqual(self.processes(gateway), ["a"])
        self.assert_eventually(lambda: self.processes(gateway) == ["c"], "it comes back when there is room")

    def test_several_instances_count_each(self):
        gateway = self.begin(group(max_running=2), concurrency=1, max_instances=2, scale_up_after="10ms")
        long = [self.in_thread(gateway, "/a/wait?name=go") for _ in range(2)]
        self.assert_eventually(lambda: self.processes(gateway) == ["a", "a"], "two run")
        other = self.in_thread(gateway, "/b/pid")
        self.wait_for_queue(gateway, "b")
        self.let_go(gateway, "a")
        for answer in (*long, other):
            self.assert_status(answer.result(), 200)
        self.assertEqual(self.processes(gateway), ["a", "b"])

    def test_an_operator_starts_and_restarts_within_the_budget(self):
        gateway = self.begin(group(max_running=1))
        before = self.pid(gateway, "a")
        self.cli(gateway, "restart", "a")
        self.assert_eventually(lambda: self.pid(gateway, "a") != before, "restarted")
        self.assertEqual(self.processes(gateway), ["a"])
        self.cli(gateway, "start", "b")
        self.assert_eventually(lambda: self.processes(gateway) == ["b"], "started in the place of the idle one")


class Memory(Groups):
    def test_memory_is_shared(self):
        small, large = {"group_memory": "4GiB"}, {"group_memory": "8GiB"}
        routes = (route(f"/{name}", service=name, strip_prefix=True) for name in "bc")
        more = [member("b", **small), member("c", **large), *routes]
        gateway = self.begin(group(memory="10GiB"), names=("a",), more=more, **small)
        self.pid(gateway, "a")
        self.pid(gateway, "b")
        self.assertEqual(self.processes(gateway), ["a", "b"])
        self.assertEqual(self.group(gateway)["memory_bytes"], 8 << 30)
        self.pid(gateway, "c")
        self.assertEqual(self.processes(gateway), ["c"])
        self.assertIn("8.0 GiB of 10.0 GiB", self.cli(gateway, "status").replace("GiB", " GiB").replace("  ", " "))

    def test_a_budget_is_followed_by_reload(self):
        gateway = self.begin(group(max_running=2))
        self.pid(gateway, "a")
        self.pid(gateway, "b")
        self.assertEqual(self.processes(gateway), ["a", "b"])
        self.reload(gateway, group(max_running=1))
        self.assert_eventually(lambda: self.processes(gateway) == ["b"], "the one used least recently is stopped")
        self.reload(gateway, group(max_running=2))
        self.pid(gateway, "a")
        self.assertEqual(self.processes(gateway), ["a", "b"])

    def reload(self, gateway, *groups):
        text = self.blocks(*groups).replace("@FOLDER@", str(gateway.folder))
        (gateway.folder / "pilotlight.toml").write_text(text)
        self.cli(gateway, "reload")


class Deploys(Deploying):
    def begin(self, maximum):
        other = service("other", POOL, env={"FOLDER": "@FOLDER@"}, in_group="models")
        return super().begin(
            group(max_running=maximum), released(in_group="models"), other, route(service="app"),
            route("/other", service="other", strip_prefix=True))

    def test_a_release_is_tried_where_there_is_room_beside(self):
        gateway = self.begin(2)
        self.deploy(gateway, self.release(gateway, "one"))
        self.assertEqual(self.serving(gateway), self.listed_current(gateway))
        self.deploy(gateway, self.release(gateway, "two"))
        self.assertEqual(self.serving(gateway), self.listed_current(gateway))

    def listed_current(self, gateway):
        return os.path.basename(os.readlink(gateway.folder / "srv" / "current"))

    def test_where_there_is_none_it_says_so_and_what_to_do(self):
        gateway = self.begin(1)
        self.deploy(gateway, self.release(gateway, "one"))
        before = self.serving(gateway)
        said = self.deploy(gateway, self.release(gateway, "two"), code=1)
        self.assertIn("the group `models` has no room", said)
        self.assertIn("pilotlight stop", said)
        self.assertEqual(self.serving(gateway), before)
        self.command(gateway, "stop", "app")
        self.assert_eventually(lambda: self.group_is_empty(gateway), "it has stopped")
        self.deploy(gateway, self.release(gateway, "two"))
        self.assertNotEqual(self.serving(gateway), before)

    def group_is_empty(self, gateway):
        return self.admin(gateway, "/status")["groups"][0]["running"] == 0


if __name__ == "__main__":
    unittest.main()
