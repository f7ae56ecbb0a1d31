"""Services that run in containers, with a real engine: Podman, as root, with a storage of its own."""

import http.client
import json
import os
import signal
import subprocess
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from engine import CHECKED, IMAGE, PIPED, Engine
from harness import BINARY, Gateway, TestCase, config, eventually, route, service, setUpModule

__all__ = ["setUpModule"]

LIMIT = 60.0  # for what takes a second on a quiet machine
QUICK = {"start_timeout": "60s", "stop_grace": "2s"}


def together(*calls):
    """What they return, all begun at the same time."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [done.result(LIMIT) for done in [pool.submit(call) for call in calls]]


class Again(Gateway):
    """A gateway that may be killed, and started again with the same configuration file."""

    def kill(self):
        self.process.kill()
        self.process.wait()
        while self._ready.get(timeout=LIMIT) is not None:
            pass

    def again(self, text=None):
        self._config = text or self._config
        return self.start()


@unittest.skipUnless(os.geteuid() == 0, "Podman without root is not tested")
class Containers(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = cls.enterClassContext(Engine())

    def tearDown(self):
        self.engine.podman("rm", "--force", "--all", "--time", "0", check=False)

    def text(self, container=None, *more, top=None, **settings):
        """A configuration with a service `demo` in a container."""
        container = {"image": IMAGE, "port": 8080} if container is None else container
        values = QUICK | {"container": container} | settings
        one = service(url="-", **values).replace('url = "-"\n', "")
        engine = f'[containers]\nsocket = "{self.engine.socket}"\n'
        return config(engine, one, route(), *more, **(top or {}))

    def gateway(self, *arguments, **settings):
        return self.start(Again(BINARY, self.text(*arguments, **settings), start_limit=LIMIT, stop_limit=LIMIT))

    def status(self, gateway, name="demo"):
        line = [str(BINARY), "status", "--json", "--config", str(gateway.folder / "pilotlight.toml")]
        said = json.loads(subprocess.run(line, capture_output=True, check=True, timeout=LIMIT).stdout)
        return next(one for one in said["services"] if one["name"] == name)

    def own(self, state=None):
        found = self.engine.containers(service="demo")
        return [one for one in found if state is None or one["State"] == state]

    def assert_hello(self, gateway, target="/", timeout=LIMIT):
        answer = gateway.get(target, timeout=timeout)
        self.assert_status(answer, 200)
        self.assertTrue(answer.body.startswith(b"hello from"), answer.body)
        return answer.body.decode().split()[-1]

    def exits(self, gateway, status):
        """A request that ends the program; not one that is tried again."""
        return gateway.request("POST", f"/exit/{status}", timeout=LIMIT)

    def assert_said(self, gateway, *words, limit=LIMIT):
        said = lambda: all(word in gateway.output() for word in words)  # noqa: E731
        self.assertTrue(eventually(said, limit), (words, gateway.output()[-3000:]))

    def test_the_first_request_starts_it_and_idleness_removes_it(self):
        gateway = self.gateway(idle_timeout="300ms", env={"WORD": "set"})
        self.assertEqual(self.own(), [])
        self.assertEqual(self.assert_hello(gateway), "1")
        self.assertEqual(gateway.get("/env/WORD").body, b"set\n")
        self.assert_said(gateway, "begins", "a word to standard error", "idle: stopping")
        self.assert_eventually(lambda: self.own() == [], "the container is not removed", LIMIT)
        self.assertEqual(self.assert_hello(gateway), "2")
        container = self.status(gateway)["instances"][0]
        self.assertEqual(self.own()[0]["Id"], container["container"])
        self.assertGreater(container["pid"], 1)

    def test_a_stop_of_the_gateway_leaves_nothing(self):
        gateway = self.gateway()
        self.assert_hello(gateway)
        self.assertEqual(gateway.stop(), 0)
        self.assertEqual(self.own(), [])

    def test_its_end_is_reported_and_the_next_request_starts_another(self):
        gateway = self.gateway()
        self.assert_hello(gateway)
        self.assert_status(self.exits(gateway, 7), 502)
        self.assert_said(gateway, "exited with status 7")
        self.assertEqual(self.assert_hello(gateway), "2")
        self.assert_eventually(lambda: len(self.own()) == 1, "the old one is not removed", LIMIT)
        self.engine.podman("kill", self.own("running")[0]["Id"])
        self.assert_said(gateway, "was ended by SIGKILL")
        self.assertEqual(self.assert_hello(gateway), "3")

    def test_one_that_dies_while_it_starts(self):
        gateway = self.gateway(env={"DIES": "3"}, top={"dev": True})
        problem = self.assert_problem(gateway.get("/", timeout=LIMIT), 503)
        self.assertIn("exited with status 3 before it was ready", json.dumps(problem))
        self.assert_said(gateway, "a word to standard error")
        self.assert_eventually(lambda: self.own() == [], "its container is left", LIMIT)

    def test_one_that_never_listens(self):
        gateway = self.gateway(env={"AFTER_MS": "100000"}, start_timeout="3s", top={"dev": True})
        problem = self.assert_problem(gateway.get("/", timeout=LIMIT), 503)
        self.assertIn("listens on its `port`", json.dumps(problem))
        self.assert_eventually(lambda: self.own() == [], "its container is left", LIMIT)

    def test_it_is_frozen_when_idle_and_thawed_by_a_request(self):
        gateway = self.gateway(freeze_after="200ms", idle_timeout="10m")
        self.assert_hello(gateway)
        for _ in range(3):
            self.assert_eventually(lambda: self.own("paused"), "it is not frozen", LIMIT)
            self.assertEqual(self.assert_hello(gateway), "1")
        self.assert_eventually(lambda: self.own("paused"), "it is not frozen", LIMIT)
        self.assertEqual(gateway.stop(), 0)
        self.assertEqual(self.own(), [])

    def test_a_drain_lets_requests_end_and_one_that_is_deaf_is_killed(self):
        gateway = self.gateway(env={"DEAF": "1"}, stop_grace="1s")
        self.assert_hello(gateway)
        slow = together(lambda: gateway.get("/slow/1500", timeout=LIMIT), lambda: self.stop_service(gateway))
        self.assert_status(slow[0], 200)
        self.assert_eventually(lambda: self.own() == [], "it is not killed", LIMIT)
        self.assertEqual(self.assert_hello(gateway), "2")

    def stop_service(self, gateway):
        self.assert_eventually(lambda: self.status(gateway)["instances"][0]["in_flight"] == 1, "no request", LIMIT)
        line = [str(BINARY), "stop", "demo", "--config", str(gateway.folder / "pilotlight.toml")]
        subprocess.run(line, check=True, capture_output=True, timeout=LIMIT)

    def test_several_instances(self):
        gateway = self.gateway(max_instances=2, concurrency=1, scale_up_after="10ms")
        answers = together(*[lambda: gateway.get("/slow/2000", timeout=LIMIT)] * 2)
        self.assertEqual({answer.status for answer in answers}, {200})
        self.assertEqual({answer.body for answer in answers}, {b"hello from 1\n", b"hello from 2\n"})

    def test_limits_volumes_and_the_rest_reach_the_engine(self):
        secret = self.engine.folder / "secret"
        secret.write_text("word")
        secret.chmod(0o600)
        container = {
            "image": IMAGE,
            "port": 9000,
            "network": "host",
            "command": ["more"],
            "volumes": [f"{self.engine.folder}:/shared:ro"],
            "read_only": True,
            "workdir": "/etc",
        }
        free = 20000 + os.getpid() % 10000
        container["port"] = free
        settings = {"cgroup": {"memory": "64MiB"}, "limits": {"processes": 50}, "secrets": {"KEY": str(secret)}, "user": "7"}
        gateway = self.gateway(container, **settings)
        self.assert_hello(gateway)
        self.assertEqual(gateway.get("/env/KEY_FILE").body, b"/run/secrets/KEY\n")
        found = self.engine.inspect(self.own()[0]["Id"])
        host = found["HostConfig"]
        self.assertEqual((host["Memory"], host["PidsLimit"], host["ReadonlyRootfs"]), (64 << 20, 50, True))
        self.assertEqual((found["Config"]["User"], found["Config"]["WorkingDir"], found["Config"]["Cmd"]), ("7", "/etc", ["more"]))
        self.assertTrue(any(bind.startswith(f"{self.engine.folder}:/shared:ro") for bind in host["Binds"]), host["Binds"])

    def test_a_health_check_of_the_image_is_waited_for(self):
        gateway = self.gateway({"image": CHECKED, "port": 8080})
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(gateway.get("/", timeout=LIMIT)))
        thread.start()
        self.assert_eventually(
            lambda: "not healthy" in str(self.status(gateway)["instances"]), "nobody looks at its health", LIMIT
        )
        self.assertEqual(waiting, [])
        address = self.engine.inspect(self.own()[0]["Id"])["NetworkSettings"]["Networks"]["podman"]["IPAddress"]
        connection = http.client.HTTPConnection(address, 8080, timeout=LIMIT)
        connection.request("GET", "/touch")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        thread.join(LIMIT)
        self.assert_status(waiting[0], 200)

    def test_a_gateway_that_was_killed_finds_its_own(self):
        gateway = self.gateway()
        self.assert_hello(gateway)
        (before,) = self.own("running")
        gateway.kill()
        self.assertEqual([one["Id"] for one in self.own("running")], [before["Id"]])
        gateway.again()
        self.assert_eventually(
            lambda: self.status(gateway)["state"] == "ready", "it does not find its container", LIMIT
        )
        self.assertEqual(self.assert_hello(gateway), "1")
        self.assertEqual([one["Id"] for one in self.own()], [before["Id"]])
        self.assert_status(self.exits(gateway, 4), 502)
        self.assert_said(gateway, "exited with status 4")
        self.assert_hello(gateway)
        # With other settings it is of no use, and is removed.
        gateway.kill()
        gateway.again(self.text(env={"NEW": "1"}))
        self.assertEqual(gateway.get("/env/NEW", timeout=LIMIT).body, b"1\n")
        self.assert_eventually(lambda: len(self.own()) == 1, "the old one is left", LIMIT)
        self.assertEqual(gateway.stop(), 0)
        self.assertEqual(self.own(), [])

    def test_an_upgrade_hands_it_over(self):
        gateway = self.gateway()
        self.assert_hello(gateway)
        (before,) = self.own("running")
        line = [str(BINARY), "upgrade", "--config", str(gateway.folder / "pilotlight.toml")]
        slow = together(
            lambda: gateway.get("/slow/3000", timeout=LIMIT),
            lambda: subprocess.run(line, check=True, capture_output=True, timeout=LIMIT),
        )
        self.assert_status(slow[0], 200)
        successor = json.loads(subprocess.run(
            [str(BINARY), "status", "--json", "--config", str(gateway.folder / "pilotlight.toml")],
            check=True, capture_output=True, timeout=LIMIT).stdout)["gateway"]["pid"]
        try:
            gateway.process.wait(LIMIT)
            self.assertEqual(self.assert_hello(gateway), "1")
            self.assertEqual([one["Id"] for one in self.own()], [before["Id"]])
        finally:
            os.kill(successor, signal.SIGTERM)
        self.assert_eventually(lambda: self.own() == [], "the successor leaves it", LIMIT)

    def test_the_engine_goes_away_and_comes_back(self):
        gateway = self.gateway()
        self.assert_hello(gateway)
        self.engine.kill()
        self.assert_said(gateway, "what runs in containers goes on")
        self.assertEqual(self.assert_hello(gateway), "1")
        self.engine.start()
        self.assert_said(gateway, "answers again")
        self.assert_status(self.exits(gateway, 6), 502)
        self.assert_said(gateway, "exited with status 6")
        # It ends while nobody tells.
        self.assertEqual(self.assert_hello(gateway), "2")
        pid = self.status(gateway)["instances"][-1]["pid"]
        self.engine.kill()
        os.kill(pid, signal.SIGKILL)
        self.engine.start()
        self.assert_eventually(lambda: self.status(gateway)["state"] != "ready", "its end is not seen", LIMIT)
        # A first request finds no engine, and waits for it.
        self.engine.kill()
        timer = threading.Timer(1.0, self.engine.start)
        timer.start()
        self.assert_hello(gateway)
        timer.join()

    def test_an_engine_that_stays_away(self):
        gateway = self.gateway(start_timeout="1s", top={"dev": True})
        self.engine.kill()
        try:
            problem = self.assert_problem(gateway.get("/", timeout=LIMIT), 503)
            said = json.dumps(problem)
            self.assertIn(str(self.engine.socket), said)
            self.assertIn("name its socket", said)
        finally:
            self.engine.start()

    def test_images_that_cannot_be_had(self):
        for container, words in [
            ({"image": "localhost/none:1", "port": 80, "pull": "never"}, ["no such image", "check its name"]),
            ({"image": "127.0.0.1:1/none:1", "port": 80}, ["127.0.0.1:1/none:1 cannot be pulled", "cannot be reached"]),
        ]:
            gateway = self.gateway(container, top={"dev": True})
            begun = time.monotonic()
            answer = gateway.get("/", timeout=LIMIT)
            said = json.dumps(self.assert_problem(answer, answer.status))
            self.assertIn(answer.status, (502, 503, 504))
            for word in words:
                self.assertIn(word, said)
            self.assertLess(time.monotonic() - begun, LIMIT)
            gateway.stop()

    def test_the_pipe(self):
        self.engine.load_piped()
        for more in ({}, {"user": "4711"}):
            gateway = self.gateway({"image": PIPED, "network": "none"}, transport="pipe", **more)
            self.assert_status(gateway.get("/echo", timeout=LIMIT), 200)
            self.assertEqual(self.status(gateway)["transport"], "pipe")
            self.assertEqual(gateway.stop(), 0)
            self.assertEqual(self.own(), [])

    def test_containers_of_others_are_started_and_stopped_and_not_removed(self):
        self.engine.podman("create", "--name", "theirs", IMAGE)
        label = "com.docker.compose"
        self.engine.podman(
            "create", "--name", "shop-web-1", "--label", f"{label}.project=shop", "--label", f"{label}.service=web", IMAGE
        )
        running = lambda name: self.engine.inspect(name)["State"]["Running"]  # noqa: E731
        for name, container in [
            ("theirs", {"name": "theirs", "port": 8080}),
            ("shop-web-1", {"compose": "shop/compose.yml", "service": "web", "port": 8080}),
        ]:
            gateway = self.gateway(container, idle_timeout="500ms")
            self.assertFalse(running(name))
            self.assertEqual(self.assert_hello(gateway), "nobody")
            self.assertTrue(running(name))
            self.assert_eventually(lambda name=name: not running(name), "it is not stopped", LIMIT)
            self.assert_hello(gateway)
            self.assertEqual(gateway.stop(), 0)
            self.assertFalse(running(name))

    def test_a_service_that_compose_has_not_made(self):
        gateway = self.gateway({"compose": "shop/compose.yml", "service": "api", "port": 8080}, top={"dev": True})
        said = json.dumps(self.assert_problem(gateway.get("/", timeout=LIMIT), 503))
        self.assertIn("docker compose -f", said)
        self.assertIn("create api", said)


if __name__ == "__main__":
    unittest.main()
