"""Short cold starts: zygotes (`preload`) and frozen services (`freeze_after`) (issue 4, number 4)."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
import unittest
from pathlib import Path

from harness import (
    BINARY, DEMO, HERE, PYTHON, ROOT, Gateway, TestCase, alive, config, descendants, eventually, in_threads, route, service, setUpModule,
)
from load import THINK_TIME
from test_operate import ADMIN, Unix

__all__ = ["setUpModule"]

SDK = str(ROOT / "sdk" / "python")
APP = """\
import heavy, os, json
def app(environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [json.dumps({"pid": os.getpid(), "imported": heavy.STARTED, "parent": heavy.PID}).encode()]
"""
HEAVY = "import os, time\ntime.sleep(0.3)\nSTARTED, PID = time.monotonic(), os.getpid()\n"


class Case(TestCase):
    def status(self, gateway, name="demo"):
        with contextlib.closing(Unix(gateway.folder / "admin.sock")) as connection:
            connection.request("GET", f"/services/{name}")
            return json.loads(connection.getresponse().read())

    def command(self, gateway, *words):
        done = subprocess.run(
            [BINARY, *words, "--socket", str(gateway.folder / "admin.sock")], capture_output=True, text=True, timeout=30
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class Zygotes(Case):
    def gateway(self, *blocks, files=(), modules=("heavy",), argv=None, **settings):
        files = {"app": APP, "heavy": HEAVY} | dict(files)
        argv = argv or [PYTHON, "-m", "pilotlight.wsgi", "app:app"]
        env = {"PYTHONPATH": SDK, "PYTHONDONTWRITEBYTECODE": "1"}
        settings = {"preload": list(modules), "dir": "@FOLDER@", "env": env} | settings
        gateway = Gateway(BINARY, config(service(argv=argv, **settings), route(), ADMIN, *blocks, dev=True))
        for name, text in files.items():
            (Path(gateway.folder) / f"{name}.py").write_text(text)
        return self.start(gateway)

    def ready(self, gateway):
        self.assert_eventually(lambda: self.status(gateway)["zygote"]["state"] == "ready", "no zygote")
        return self.status(gateway)["zygote"]["pid"]

    def stopped(self, gateway):
        self.assert_eventually(lambda: self.status(gateway)["state"] == "stopped", "it still runs")

    def test_instances_share_what_was_imported(self):
        gateway = self.gateway(idle_timeout="100ms")
        parent = self.ready(gateway)
        answers = []
        for _ in range(3):
            answers.append(self.assert_json(gateway.get("/")))
            self.stopped(gateway)
        self.assertEqual({answer["parent"] for answer in answers}, {parent})
        self.assertEqual(len({answer["pid"] for answer in answers}), 3)
        self.assertIn("zygote", self.command(gateway, "status", "demo"))

    def test_a_restart_imports_what_has_changed_under_load(self):
        gateway = self.gateway()
        before = self.assert_json(gateway.get("/"))
        stop, failures, answers = threading.Event(), [], []

        def load():
            with gateway.client() as client:
                while not stop.wait(THINK_TIME):
                    answer = client.request("GET", "/")
                    (answers if answer.status == 200 else failures).append(answer)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        (Path(gateway.folder) / "app.py").write_text(APP.replace("200 OK", "200 Changed").replace("json.dumps({", 'json.dumps({"new": True, '))
        self.command(gateway, "restart", "demo")
        stop.set()
        for thread in threads:
            thread.join(20)
        self.assertEqual(failures, [])
        self.assertTrue(answers)
        after = self.assert_json(gateway.get("/"))
        self.assertTrue(after["new"])
        self.assertNotEqual(after["parent"], before["parent"])

    def test_what_makes_forking_unsafe_is_refused_by_name_and_the_service_works(self):
        thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True, name='poller').start()\n"
        gateway = self.gateway(files={"heavy": HEAVY + thread})
        self.assert_eventually(lambda: self.status(gateway)["zygote"]["state"] == "given up", "it was not refused")
        self.assertIn("`heavy` has left the thread poller", self.status(gateway)["zygote"]["reason"])
        answer = self.assert_json(gateway.get("/"))
        self.assertEqual(answer["parent"], answer["pid"], "started in the ordinary way")
        self.assert_logged(gateway, "has left the thread poller")

    def test_the_demo_passes_through_a_fork(self):
        gateway = self.gateway(argv=DEMO, modules=["json"])
        parent = self.ready(gateway)
        body = b"x" * 3_000_000
        self.assertEqual(gateway.request("POST", "/echo", body=body).body, body)
        self.assertNotEqual(self.assert_json(gateway.get("/pid"))["pid"], parent)

    def test_an_instance_that_crashes_is_forked_anew(self):
        gateway = self.gateway()
        pid = self.assert_json(gateway.get("/"))["pid"]
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(eventually(lambda: gateway.get("/").status == 200))
        after = self.assert_json(gateway.get("/"))
        self.assertNotEqual((after["pid"], after["parent"]), (pid, pid))

    def test_several_are_forked_in_a_burst(self):
        slow = APP.replace("import heavy", "import time, heavy").replace("    start_response", "    time.sleep(0.2)\n    start_response", 1)
        gateway = self.gateway(files={"app": slow}, concurrency=1, max_instances=4, scale_up_after="10ms")
        parent = self.ready(gateway)
        answers = in_threads(12, lambda _: self.assert_json(gateway.get("/")))
        self.assertEqual({answer["parent"] for answer in answers}, {parent})
        self.assertEqual(len({answer["pid"] for answer in answers}), 4)

    def test_kill_9_of_the_gateway_leaves_nothing(self):
        gateway = self.gateway()
        self.ready(gateway)
        gateway.get("/")
        family = descendants(gateway.process.pid)
        self.assertGreaterEqual(sum("pilotlight.zygote" in line for line in family.values()), 2)
        gateway.signal(signal.SIGKILL)
        gateway.wait()
        self.assertTrue(eventually(lambda: not alive(family), 2), f"2 s later there are still {alive(family)}")

    def test_a_stop_ends_the_zygote_and_what_it_had_forked(self):
        gateway = self.gateway()
        gateway.get("/")
        self.ready(gateway)
        family = {key: line for key, line in descendants(gateway.process.pid).items() if "pilotlight.zygote" in line}
        self.command(gateway, "stop", "demo")
        self.assert_eventually(lambda: not alive(family), "something of it is left")
        self.assert_status(gateway.get("/"), 200)
        self.ready(gateway)


class Frozen(Case):
    def gateway(self, *blocks, **settings):
        settings = {"freeze_after": "100ms"} | settings
        return self.start(Gateway(BINARY, config(service(**settings), route(), ADMIN, *blocks, dev=True)))

    def frozen(self, gateway):
        self.assert_eventually(lambda: self.status(gateway)["state"] == "frozen", "it is not frozen")
        (instance,) = self.status(gateway)["instances"]
        self.assertEqual(instance["state"], "frozen")
        self.assert_eventually(lambda: self.state_of(instance["pid"]) == "T", "its process goes on")
        return instance["pid"]

    def state_of(self, pid):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat[stat.rindex(")") + 2]

    def test_the_next_request_thaws_it(self):
        gateway = self.gateway()
        pid = self.assert_json(gateway.get("/pid"))["pid"]
        for _ in range(5):
            self.assertEqual(self.frozen(gateway), pid)
            self.assertEqual(self.assert_json(gateway.get("/pid"))["pid"], pid)
        self.frozen(gateway)
        self.assertIn("frozen", self.command(gateway, "status"))

    def test_an_open_stream_keeps_it_awake(self):
        gateway = self.gateway()
        with gateway.client() as client:
            client.send_head("GET", "/wait?id=x")
            client.head()
            pid = self.assert_json(gateway.get("/pid"))["pid"]
            end = time.monotonic() + 0.6
            while time.monotonic() < end:
                self.assertNotEqual(self.state_of(pid), "T")
                time.sleep(0.02)
        self.frozen(gateway)

    def test_http_services(self):
        gateway = self.gateway(argv=[PYTHON, "-B", str(HERE / "origin.py")], transport="http")
        self.assert_status(gateway.get("/"), 200)
        self.frozen(gateway)
        self.assert_status(gateway.get("/"), 200)

    def test_requests_at_the_boundary(self):
        gateway = self.gateway(idle_timeout="5s")
        with gateway.client() as client:
            for number in range(300):
                time.sleep(0.09 + (number % 21) / 1000 if number % 10 == 0 else 0)
                begun = time.monotonic()
                self.assert_status(client.request("GET", "/pid"), 200)
                self.assertLess(time.monotonic() - begun, 3)
        self.assertEqual(self.status(gateway)["starts"], 1)

    def test_sigterm_of_the_gateway(self):
        gateway = self.gateway()
        gateway.get("/pid")
        self.frozen(gateway)
        family = descendants(gateway.process.pid)
        gateway.signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(25), 0)
        self.assertEqual(alive(family), {})

    def test_kill_9_of_the_gateway_leaves_nothing_frozen(self):
        script = f"trap '' TERM; setsid sleep 4123 & {' '.join(DEMO)} & while :; do sleep 1; done"
        gateway = self.gateway(argv=["/bin/sh", "-c", script])
        gateway.get("/pid")
        self.frozen(gateway)
        family = descendants(gateway.process.pid)
        self.assertTrue(any("sleep 4123" in line for line in family.values()))
        gateway.signal(signal.SIGKILL)
        gateway.wait()
        self.assertTrue(eventually(lambda: not alive(family), 2), f"2 s later there are still {alive(family)}")

    def test_one_that_ignores_sigterm_is_killed(self):
        script = f"trap '' TERM; {' '.join(DEMO)} & while :; do sleep 1; done"
        gateway = self.gateway(argv=["/bin/sh", "-c", script], drain_timeout="1s", stop_grace="1s")
        gateway.get("/pid")
        pid = self.frozen(gateway)
        family = descendants(gateway.process.pid)
        self.command(gateway, "stop", "demo")
        self.assert_eventually(lambda: not any(key[0] == pid for key in alive(family)), "it is still there")


if __name__ == "__main__":
    unittest.main()
