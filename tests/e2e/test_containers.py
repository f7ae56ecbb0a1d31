"""Services that run in containers, with a real engine: Podman, as root and as a user, with a storage of its own."""

import http.client
import json
import os
import signal
import subprocess
import threading
import time
import unittest

from engine import CHECKED, IMAGE, PIPED, Engine, RootlessEngine
from harness import BINARY, Gateway, config, setUpModule
from runtimes import LIMIT, Conformance, RuntimeCase, together

__all__ = ["setUpModule"]


@unittest.skipUnless(os.geteuid() == 0, "not here: the engines are made by root")
class Containers(Conformance, RuntimeCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = cls.enterClassContext(Engine())

    def tearDown(self):
        self.engine.start()  # a test that failed may have left it killed
        self.engine.podman("rm", "--force", "--all", "--time", "0", check=False)

    def text(self, **settings):
        return super().text(head=f'[containers]\nsocket = "{self.engine.socket}"\n', **settings)

    def run_with(self, container=None, **settings):
        return self.gateway(container=container or {"image": IMAGE, "port": 8080}, **settings)

    def own(self, state=None):
        found = self.engine.containers(service="demo")
        return [one for one in found if state is None or one["State"] == state]

    def left(self):
        return [one["Names"] for one in self.own()]

    def is_frozen(self, status):
        return bool(self.own("paused"))

    def test_status_names_the_container(self):
        gateway = self.run_with()
        self.assert_hello(gateway)
        (instance,) = self.status(gateway)["instances"]
        self.assertEqual(self.own()[0]["Id"], instance["container"])
        self.assertGreater(instance["pid"], 1)
        self.assertIn(f"it runs in a container of the image {IMAGE}", gateway.command("explain", "/").decode())

    def test_one_that_is_killed_from_outside(self):
        gateway = self.run_with()
        self.assert_hello(gateway)
        self.engine.podman("kill", self.own("running")[0]["Id"])
        self.assert_said(gateway, "was ended by SIGKILL")
        self.assertEqual(self.assert_hello(gateway), "2")

    def test_limits_volumes_and_the_rest_reach_the_engine(self):
        secret = self.engine.folder / "secret"
        secret.write_text("word")
        secret.chmod(0o600)
        container = {
            "image": IMAGE,
            "port": 20000 + os.getpid() % 10000,
            "network": "host",
            "command": ["more"],
            "volumes": [f"{self.engine.folder}:/shared:ro"],
            "read_only": True,
            "workdir": "/etc",
        }
        bounds = {"cgroup": {"memory": "64MiB"}, "limits": {"processes": 50}}
        gateway = self.run_with(container, secrets={"KEY": str(secret)}, user="7", **bounds)
        self.assert_hello(gateway)
        self.assertEqual(gateway.get("/env/KEY_FILE", timeout=LIMIT).body, b"/run/secrets/KEY\n")
        found = self.engine.inspect(self.own()[0]["Id"])
        host, made = found["HostConfig"], found["Config"]
        self.assertEqual((host["Memory"], host["PidsLimit"], host["ReadonlyRootfs"]), (64 << 20, 50, True))
        self.assertEqual((made["User"], made["WorkingDir"], made["Cmd"]), ("7", "/etc", ["more"]))
        self.assertTrue(any(bind.startswith(f"{self.engine.folder}:/shared:ro") for bind in host["Binds"]), host)

    def test_a_health_check_of_the_image_is_waited_for(self):
        gateway = self.run_with({"image": CHECKED, "port": 8080})
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(gateway.get("/", timeout=LIMIT)))
        thread.start()
        looked = lambda: "not healthy" in str(self.status(gateway)["instances"])  # noqa: E731
        self.assert_eventually(looked, "nobody looks at its health", LIMIT)
        self.assertEqual(waiting, [])
        networks = self.engine.inspect(self.own()[0]["Id"])["NetworkSettings"]["Networks"]
        connection = http.client.HTTPConnection(networks["podman"]["IPAddress"], 8080, timeout=LIMIT)
        connection.request("GET", "/touch")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        thread.join(LIMIT)
        self.assert_status(waiting[0], 200)

    def test_a_gateway_that_was_killed_finds_its_own(self):
        gateway = self.run_with()
        self.assert_hello(gateway)
        (before,) = self.own("running")
        gateway.kill()
        self.assertEqual([one["Id"] for one in self.own("running")], [before["Id"]])
        gateway.again()
        self.assert_eventually(lambda: self.status(gateway)["state"] == "ready", "it does not find it", LIMIT)
        self.assertEqual(self.assert_hello(gateway), "1")
        self.assertEqual([one["Id"] for one in self.own()], [before["Id"]])
        self.assert_status(self.exits(gateway, 4), 502)
        self.assert_said(gateway, "exited with status 4")
        self.assert_hello(gateway)
        # With other settings it is of no use, and is removed.
        gateway.kill()
        gateway.again(self.text(container={"image": IMAGE, "port": 8080}, env={"NEW": "1"}))
        self.assertEqual(gateway.get("/env/NEW", timeout=LIMIT).body, b"1\n")
        self.assert_eventually(lambda: len(self.own()) == 1, "the old one is left", LIMIT)
        self.assertEqual(gateway.stop(), 0)
        self.assertEqual(self.own(), [])

    def test_an_upgrade_hands_it_over(self):
        gateway = self.run_with()
        self.assert_hello(gateway)
        (before,) = self.own("running")
        slow, _ = together(
            lambda: gateway.get("/slow/3000", timeout=LIMIT),
            lambda: gateway.command("upgrade"),
        )
        self.assert_status(slow, 200)
        successor = json.loads(gateway.command("status", "--json"))["gateway"]["pid"]
        try:
            gateway.process.wait(LIMIT)
            self.assertEqual(self.assert_hello(gateway), "1")
            self.assertEqual([one["Id"] for one in self.own()], [before["Id"]])
        finally:
            os.kill(successor, signal.SIGTERM)
        self.assert_eventually(lambda: self.own() == [], "the successor leaves it", LIMIT)

    def test_the_runtime_is_killed_and_comes_back(self):
        gateway = self.run_with()
        self.assert_hello(gateway)
        self.engine.kill()
        self.assert_said(gateway, "what runs in containers goes on")
        self.assertEqual(self.assert_hello(gateway), "1")
        self.engine.start()
        self.assert_said(gateway, "answers again")
        self.assert_status(self.exits(gateway, 6), 502)
        self.assert_said(gateway, "exited with status 6")
        # One ends while nobody tells.
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

    def test_a_published_port(self):
        # Whose socket is not root's is an engine without root, whose containers have addresses of their own world.
        os.chown(self.engine.socket, 65534, -1)
        self.addCleanup(os.chown, self.engine.socket, 0, -1)
        gateway = self.run_with(env={"AFTER_MS": "500"})
        self.assertEqual(self.assert_hello(gateway), "1")
        ports = self.engine.inspect(self.own()[0]["Id"])["NetworkSettings"]["Ports"]
        self.assertEqual(ports["8080/tcp"][0]["HostIp"], "127.0.0.1")

    def test_an_engine_that_stays_away(self):
        gateway = self.run_with(start_timeout="1s", top={"dev": True})
        self.engine.kill()
        try:
            said = json.dumps(self.assert_problem(gateway.get("/", timeout=LIMIT), 503))
            self.assertIn(str(self.engine.socket), said)
            self.assertIn("name its socket", said)
        finally:
            self.engine.start()

    def test_images_that_cannot_be_had(self):
        for container, words in [
            ({"image": "localhost/none:1", "port": 80, "pull": "never"}, ["no such image", "check its name"]),
            ({"image": "127.0.0.1:1/none:1", "port": 80}, ["127.0.0.1:1/none:1 cannot be pulled", "cannot be reached"]),
        ]:
            gateway = self.run_with(container, top={"dev": True})
            begun = time.monotonic()
            said = json.dumps(self.assert_problem(gateway.get("/", timeout=LIMIT), 503))
            for word in words:
                self.assertIn(word, said)
            self.assertLess(time.monotonic() - begun, LIMIT)
            gateway.stop()

    def test_the_pipe(self):
        self.engine.load_piped()
        for more in ({}, {"user": "4711"}):
            gateway = self.run_with({"image": PIPED, "network": "none"}, **{"transport": "pipe"} | more)
            self.assert_status(gateway.get("/echo", timeout=LIMIT), 200)
            self.assertEqual(self.status(gateway)["transport"], "pipe")
            self.assertEqual(gateway.stop(), 0)
            self.assertEqual(self.own(), [])

    def test_containers_of_others_are_started_and_stopped_and_not_removed(self):
        self.engine.podman("create", "--name", "theirs", IMAGE)
        compose = "com.docker.compose"
        labels = ["--label", f"{compose}.project=shop", "--label", f"{compose}.service=web"]
        self.engine.podman("create", "--name", "shop-web-1", *labels, IMAGE)
        running = lambda name: self.engine.inspect(name)["State"]["Running"]  # noqa: E731
        for name, container in [
            ("theirs", {"name": "theirs", "port": 8080}),
            ("shop-web-1", {"compose": "shop/compose.yml", "service": "web", "port": 8080}),
        ]:
            gateway = self.run_with(container, idle_timeout="500ms")
            self.assertFalse(running(name))
            self.assertEqual(self.assert_hello(gateway), "nobody")
            self.assert_eventually(lambda name=name: not running(name), "it is not stopped", LIMIT)
            self.assert_hello(gateway)
            self.assertEqual(gateway.stop(), 0)
            self.assertFalse(running(name))

    def test_labels_declare_services(self):
        """Containers that are there at the start, that come, are wrong, and go; the engine that is away."""

        def create(name, **labels):
            words = [word for key, value in labels.items() for word in ("--label", f"dev.pilotlight.{key}={value}")]
            return self.engine.podman("create", "--name", name, *words, IMAGE)

        first = create("first", route="first.test, /first", port=8080, idle_timeout="1s")
        head = f'[containers]\nsocket = "{self.engine.socket}"\ndiscover = true\n'
        gateway = self.start(Gateway(BINARY, config(head)))
        self.assert_status(gateway.get("/first", timeout=LIMIT), 200)
        self.assert_status(gateway.get("/", host="first.test", timeout=LIMIT), 200)
        self.assert_status(gateway.get("/second"), 404)
        create("wrong", route="/wrong", prot=8080)
        create("taken", route="/first", port=8080)
        create("second", route="/second", port=8080)
        self.assert_eventually(lambda: gateway.get("/second", timeout=LIMIT).status == 200, "it is not found", LIMIT)
        self.assert_eventually(lambda: "there is no label dev.pilotlight.prot" in gateway.output(), "not said")
        self.assert_said(gateway, "the container of taken is not served")
        self.assert_status(gateway.get("/wrong"), 404)
        stopped = lambda: self.engine.inspect(first)["State"]["Running"] is False  # noqa: E731
        self.assert_eventually(stopped, "it is idle, and runs", LIMIT)
        self.assert_status(gateway.get("/first", timeout=LIMIT), 200)
        for name in ("taken", "first", "second"):  # an engine that is busy may need a second try
            self.assert_eventually(lambda name=name: self.engine.removed(name), "it is not removed", LIMIT)
        for name in ("/first", "/second"):
            gone = lambda name=name: gateway.get(name, timeout=LIMIT).status == 404  # noqa: E731
            self.assert_eventually(gone, "it is still a service", LIMIT)
        create("first", route="/again", port=8080)
        self.assert_eventually(lambda: gateway.get("/again", timeout=LIMIT).status == 200, "it is not found", LIMIT)
        # The engine is away: what was found stays, and a gateway that starts meanwhile finds it later.
        self.engine.kill()
        gateway.signal(1)
        self.assert_eventually(lambda: "labels of containers were not read" in gateway.output(), "not said", LIMIT)
        self.assert_status(gateway.get("/again", timeout=LIMIT), 200)
        other = self.start(Gateway(BINARY, config(head)))
        self.assert_status(other.get("/again"), 404)
        self.engine.start()
        self.assert_eventually(lambda: other.get("/again", timeout=LIMIT).status == 200, "it is not found", LIMIT)

    def test_a_service_that_compose_has_not_made(self):
        gateway = self.run_with({"compose": "shop/compose.yml", "service": "api", "port": 8080}, top={"dev": True})
        said = json.dumps(self.assert_problem(gateway.get("/", timeout=LIMIT), 503))
        self.assertIn("docker compose -f", said)
        self.assertIn("create api", said)

    def test_the_doctor_asks_the_engine(self):
        gateway = self.run_with({"image": "localhost/none:1", "port": 80})
        line = [str(BINARY), "doctor", "--config", str(gateway.folder / "pilotlight.toml")]
        said = subprocess.run(line, capture_output=True, check=False, timeout=LIMIT, text=True).stdout
        self.assertIn("Podman 4", said)
        self.assertIn("does not have the image localhost/none:1", said)


@unittest.skipUnless(os.geteuid() == 0, "not here: the engines are made by root")
class Rootless(RuntimeCase):
    """An engine of a user: its containers are reached by ports that it publishes."""

    @classmethod
    def setUpClass(cls):
        cls.engine = cls.enterClassContext(RootlessEngine())

    def text(self, **settings):
        return super().text(head=f'[containers]\nsocket = "{self.engine.socket}"\n', **settings)

    def states(self):
        return [one["State"] for one in self.engine.containers(service="demo")]

    def test_start_freeze_and_stop(self):
        gateway = self.gateway(container={"image": IMAGE, "port": 8080}, freeze_after="200ms", idle_timeout="10m")
        self.assertEqual(self.assert_hello(gateway), "1")
        (found,) = self.engine.containers(service="demo")
        (published,) = self.engine.inspect(found["Id"])["HostConfig"]["PortBindings"]["8080/tcp"]
        self.assertEqual(published["HostIp"], "127.0.0.1")
        if self.engine.json("/info")["CgroupVersion"] == "2":
            self.assert_eventually(lambda: self.states() == ["paused"], "it is not frozen", LIMIT)
        else:  # Podman pauses no container of a user there
            self.assert_said(gateway, "a container is not frozen, and goes on", "cgroup V1")
            self.assertEqual(self.states(), ["running"])
        self.assertEqual(self.assert_hello(gateway), "1")
        gateway.command("stop", "demo")
        self.assert_eventually(lambda: not self.states(), "it is not removed", LIMIT)
        self.assertEqual(self.assert_hello(gateway), "2")
        self.assertEqual(gateway.stop(), 0)
        self.assertEqual(self.states(), [])


if __name__ == "__main__":
    unittest.main()
