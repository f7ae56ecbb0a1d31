"""Zero downtime: reload by difference, restart with overlap (issue 4, number 2)."""

import json
import os
import signal
import socket
import subprocess
import unittest

import websocket
from harness import BINARY, HERE, ORIGIN, PYTHON, Gateway, TestCase, config, limits, route, service, setUpModule
from load import THINK_TIME, Load
from test_operate import ADMIN, Unix

__all__ = ["setUpModule"]

POOL = [PYTHON, "-B", str(HERE / "pool.py")]


def pool(name="pool", **settings):
    env = {"FOLDER": "@FOLDER@"} | settings.pop("env", {})
    return service(name, settings.pop("argv", POOL), env=env, **settings)


class Reloading(TestCase):
    """A gateway whose file is written again; `@FOLDER@` in it is the gateway's folder."""

    def begin(self, *blocks, **settings):
        gateway = Gateway(BINARY, config(*blocks, ADMIN, dev=True, **settings))
        self.addCleanup(gateway.stop)
        return gateway.start()

    def write(self, gateway, *blocks, **settings):
        settings = {"listen": self.listen(gateway)} | settings
        text = config(*blocks, ADMIN, dev=True, **settings) if blocks else settings["text"]
        (gateway.folder / "pilotlight.toml").write_text(text.replace("@FOLDER@", str(gateway.folder)))

    def listen(self, _):
        return "127.0.0.1:0"

    def command(self, gateway, *arguments, code=0):
        done = subprocess.run(
            [str(BINARY), *arguments, "--socket", str(gateway.folder / "admin.sock")], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr + "\n" + gateway.output())
        return done.stdout if code == 0 else done.stderr

    def reload(self, gateway, *blocks, code=0, **settings):
        self.write(gateway, *blocks, **settings)
        return self.command(gateway, "reload", code=code)

    def changed(self, gateway, *blocks, **settings):
        self.write(gateway, *blocks, **settings)
        return json.loads(self.command(gateway, "reload", "--json"))

    def service(self, gateway, name):
        connection = Unix(gateway.folder / "admin.sock")
        self.addCleanup(connection.close)
        connection.request("GET", f"/services/{name}")
        return json.loads(connection.getresponse().read())

    def pid(self, gateway, target="/pid"):
        answer = gateway.get(target)
        self.assert_status(answer, 200)
        return answer.body.decode()


class ByDifference(Reloading):
    def test_nothing_has_changed(self):
        gateway = self.begin(pool(), route(service="pool"))
        pid = self.pid(gateway)
        told = self.reload(gateway, pool(), route(service="pool"))
        file = gateway.folder / "pilotlight.toml"
        self.assertEqual(told, f"reloaded: nothing has changed\ngateway   {file} (pid {gateway.process.pid})\n")
        self.assertEqual(self.pid(gateway), pid)

    def test_routes(self):
        gateway = self.begin(pool(), route("/a", "pool", strip_prefix=True))
        pid = self.pid(gateway, "/a/pid")
        told = self.changed(gateway, pool(), route("/b", "pool", strip_prefix=True))
        self.assertEqual(told["routes"], {"added": ["/b"], "changed": [], "removed": ["/a"]})
        self.assertEqual(self.pid(gateway, "/b/pid"), pid)
        self.assert_problem(gateway.get("/a/pid"), 404)

    def test_services_come_change_and_go(self):
        one = pool("one", env={"V": "1"}), route("/one", "one", strip_prefix=True)
        gateway = self.begin(*one)
        first = self.pid(gateway, "/one/pid")
        told = self.changed(gateway, *one, pool("two"), route("/two", "two", strip_prefix=True))
        self.assertEqual((told["services"]["added"], told["replaced"]), (["two"], []))
        two = self.pid(gateway, "/two/pid")
        self.assertEqual(self.pid(gateway, "/one/pid"), first)
        # Of one that changes, the next instance is another.
        changed = pool("one", env={"V": "2"}), route("/one", "one", strip_prefix=True)
        told = self.changed(gateway, *changed, pool("two"), route("/two", "two", strip_prefix=True))
        self.assertEqual((told["services"]["changed"], told["replaced"]), (["one"], ["one"]))
        self.assert_eventually(lambda: self.pid(gateway, "/one/pid") != first, "the old instance goes on")
        self.assertEqual(self.pid(gateway, "/two/pid"), two)
        # One that goes is stopped.
        told = self.changed(gateway, *changed)
        self.assertEqual(told["services"]["removed"], ["two"])
        self.assert_problem(gateway.get("/two/pid"), 404)
        self.assert_eventually(lambda: not os.path.exists(f"/proc/{two}"), "what is not configured any more runs")
        # And comes back as a new one.
        self.changed(gateway, *changed, pool("two"), route("/two", "two", strip_prefix=True))
        self.assertNotEqual(self.pid(gateway, "/two/pid"), two)

    def test_another_transport_and_a_url(self):
        demo = pool(), route(service="pool")
        gateway = self.begin(*demo)
        pid = self.pid(gateway)
        web = service("pool", ORIGIN, transport="http"), route(service="pool")
        self.assertEqual(self.changed(gateway, *web)["replaced"], ["pool"])
        self.assertIn(b"serial", gateway.get("/make").body)
        self.assert_eventually(lambda: not os.path.exists(f"/proc/{pid}"), "the old one runs")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.changed(gateway, service("pool", url=f"http://127.0.0.1:{port}"), route(service="pool"))
        self.assert_problem(gateway.get("/make"), 502)
        self.changed(gateway, *demo)
        self.assertTrue(self.pid(gateway).isdigit())

    def test_listeners(self):
        gateway = self.begin(pool(), route(service="pool"))
        pid = self.pid(gateway)
        extra = ["127.0.0.1:0", "unix:@FOLDER@/http.sock"]
        told = self.changed(gateway, pool(), route(service="pool"), listen=extra)
        self.assertEqual(len(told["listen"]["added"]), 1)
        path = gateway.folder / "http.sock"
        connection = Unix(path)
        connection.request("GET", "/pid")
        self.assertEqual(connection.getresponse().read().decode(), pid)
        told = self.changed(gateway, pool(), route(service="pool"))
        self.assertEqual(len(told["listen"]["removed"]), 1)
        self.assertFalse(path.exists())
        connection.request("GET", "/pid")  # what is open stays
        self.assertEqual(connection.getresponse().read().decode(), pid)
        connection.close()
        self.assertEqual(self.pid(gateway), pid)

    def test_an_address_that_cannot_be_had_refuses_everything(self):
        gateway = self.begin(pool(), route(service="pool"))
        pid = self.pid(gateway)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen = ["127.0.0.1:0", "unix:@FOLDER@/made.sock", f"127.0.0.1:{taken.getsockname()[1]}"]
            why = self.reload(gateway, pool(), route("/new", "pool"), listen=listen, code=1)
        self.assertIn("another program listens there", why)
        self.assertFalse((gateway.folder / "made.sock").exists())
        self.assertEqual(self.pid(gateway), pid)

    def test_a_bad_file_changes_nothing_and_says_why(self):
        gateway = self.begin(pool(), route(service="pool"))
        pid = self.pid(gateway)
        why = self.reload(gateway, pool(), route(service="pol"), code=2)
        self.assertIn("pilotlight.toml", why)
        self.assertIn("pool", why)  # did you mean
        self.assert_logged(gateway, "not reloaded")
        self.assertEqual(self.pid(gateway), pid)
        # By signal it is in the log.
        self.write(gateway, text="listen = 7\n")
        gateway.signal(signal.SIGHUP)
        self.assert_eventually(lambda: gateway.output().count("not reloaded") == 2, "the signal was not heard")
        self.assertEqual(self.pid(gateway), pid)
        self.write(gateway, pool(), route(service="pool"), route("/two", "pool", strip_prefix=True))
        gateway.signal(signal.SIGHUP)
        self.assert_eventually(lambda: gateway.get("/two/pid").status == 200, "the mended file is not followed")
        self.assertEqual(self.pid(gateway, "/two/pid"), pid)

    def test_settings(self):
        gateway = self.begin(pool(), route(service="pool"))
        old = gateway.client()
        self.addCleanup(old.close)
        self.assertEqual(old.request("GET", "/pid").status, 200)
        told = self.changed(gateway, pool(), route(service="pool"), limits(header_count=8), workers=3)
        self.assertEqual((told["settings"], told["needs_upgrade"]), (["limits"], ["workers"]))
        fields = [(f"x-{n}", "1") for n in range(9)]
        self.assertEqual(old.request("GET", "/pid", fields).status, 200)
        self.assertEqual(gateway.get("/pid", fields).status, 431)
        self.assert_logged(gateway, "`workers` has changed")

    def test_a_service_that_does_not_start_as_changed_goes_on_as_it_was(self):
        gateway = self.begin(pool(), route(service="pool"))
        pid = self.pid(gateway)
        self.changed(gateway, pool(argv=["/bin/sh", "-c", "exit 7"]), route(service="pool"))
        self.assert_eventually(lambda: self.service(gateway, "pool")["failed_starts"] > 0, "it was not tried")
        self.assertIn("exited with status 7", self.service(gateway, "pool")["last_error"]["reason"])
        self.assertEqual(self.pid(gateway), pid)
        self.changed(gateway, pool(), route(service="pool"))
        self.assert_eventually(lambda: self.pid(gateway) != pid, "the mended one is not started")


class UnderLoad(Reloading):
    def test_twenty_reloads(self):
        """No change, routes, services, listeners, bad files; a WebSocket and a download stay open."""
        web = service("web", ORIGIN, transport="http"), route("/web", "web", strip_prefix=True)
        base = pool(), route(service="pool"), *web
        gateway = self.begin(*base)
        self.pid(gateway)
        talk = websocket.Client(self.enter(gateway.client()), "/web/ws")
        download = self.enter(gateway.client())
        download.send_head("GET", "/lines?count=120&ms=25")
        pieces = download.body(download.head())
        first = next(pieces)
        steps = (
            (base, {}),
            ((*base, route("/more", "pool")), {}),
            ((pool(env={"V": "2"}), route(service="pool"), *web), {}),
            ((*base, pool("other"), route("/other", "other")), {}),
            (base, {"listen": ["127.0.0.1:0", "unix:@FOLDER@/http.sock"]}),
            (base, {}),
            (None, {"text": "nonsense = \n"}),
        )
        with Load(gateway.address, think_time=THINK_TIME) as load:
            for turn in range(20):
                blocks, settings = steps[turn % len(steps)]
                before = load.count()
                self.reload(gateway, *(blocks or ()), code=0 if blocks else 2, **settings)
                self.assert_eventually(lambda: load.count() > before + 20, "the load stands still")
                if turn == 2:
                    self.assert_eventually(lambda: len(load.bodies()) > 1, "no instance was replaced")
                talk.send(websocket.TEXT, b"turn %d" % turn)
                self.assertEqual(talk.receive(), (websocket.TEXT, b"turn %d" % turn))
        self.assertEqual(load.errors, [])
        self.assertEqual((first + b"".join(pieces)).count(b"\n"), 120, "the download was cut")

    def enter(self, client):
        self.addCleanup(client.close)
        return client

    def test_restarts(self):
        gateway = self.begin(pool(), route(service="pool"))
        self.pid(gateway)
        with Load(gateway.address, think_time=THINK_TIME) as load:
            for _ in range(5):
                self.command(gateway, "restart", "pool")
        self.assertEqual(load.errors, [])
        self.assertEqual(len(load.bodies()), 6)

    def test_restarts_of_an_http_service_with_several_instances(self):
        web = service("web", ORIGIN, transport="http", concurrency=2, max_instances=2, scale_up_after="5ms")
        gateway = self.begin(web, route(service="web"))
        gateway.get("/make")
        with Load(gateway.address, "/make", think_time=THINK_TIME) as load:
            for _ in range(3):
                self.command(gateway, "restart", "web")
        self.assertEqual(load.errors, [])


if __name__ == "__main__":
    unittest.main()
