"""Another process takes over: upgrade under load, to broken programs, with sockets of a service manager (issue 4, number 2)."""

import json
import os
import shlex
import signal
import socket
import time
import unittest
from pathlib import Path

import http2_client as http2
from harness import BINARY, ORIGIN, PYTHON, Gateway, alive, config, descendants, eventually, limits, route, service, setUpModule
from load import THINK_TIME, Load
from test_operate import ADMIN, Unix
from test_reload import Reloading, pool

__all__ = ["setUpModule"]


class Upgrading(Reloading):
    """Successors are found by the admin socket, and stopped at the end."""

    def begin(self, *blocks, **settings):
        gateway = super().begin(*blocks, **settings)
        self.known = descendants(gateway.process.pid)
        self.addCleanup(self.stop_successor, gateway)
        return gateway

    def stop_successor(self, gateway):
        try:
            pid = self.status(gateway)["gateway"]["pid"]
        except (OSError, ValueError):
            return
        if pid != gateway.process.pid:
            os.kill(pid, signal.SIGTERM)
            self.assertTrue(eventually(lambda: not os.path.exists(f"/proc/{pid}") or zombie(pid), 20), "the successor stays")

    def status(self, gateway):
        connection = Unix(gateway.folder / "admin.sock")
        try:
            connection.request("GET", "/status")
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def upgrade(self, gateway, *arguments, code=0):
        told = self.command(gateway, "upgrade", *arguments, *(["--json"] if code == 0 else []), code=code)
        return json.loads(told) if code == 0 else told


def zombie(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


class Upgrade(Upgrading):
    def test_under_load(self):
        """Nobody sees it: neither those who keep their connection nor those who connect anew."""
        web = service("web", ORIGIN, transport="http"), route("/web", "web", strip_prefix=True)
        gateway = self.begin(pool(), route(service="pool"), *web)
        self.pid(gateway)
        gateway.get("/web/make")
        download = gateway.client()
        self.addCleanup(download.close)
        paced = {"think_time": THINK_TIME}
        with Load(gateway.address, **paced) as load, Load(gateway.address, "/web/make", 2, **paced) as other:
            download.send_head("GET", "/lines?count=60&ms=25")
            pieces = download.body(download.head())
            first = next(pieces)
            pids = [gateway.process.pid]
            for turn in range(2):
                told = self.upgrade(gateway)
                self.assertEqual(told["old_pid"], pids[-1])
                pids.append(told["pid"])
                before = load.count()
                self.assert_eventually(lambda: load.count() > before + 100, "the load stands still")
            self.assertEqual((first + b"".join(pieces)).count(b"\n"), 60, "the download was cut")
            self.assertEqual(gateway.process.wait(20), 0)
        self.assertEqual((load.errors, other.errors), ([], []))
        self.assertEqual(self.status(gateway)["gateway"]["pid"], pids[-1])
        # What ran in the first was there before anybody asked for it.
        self.assertEqual(len(load.bodies()), 3)

    def test_by_signal_with_settings_that_a_reload_cannot_follow(self):
        gateway = self.begin(pool(), route(service="pool"), workers=2)
        self.pid(gateway)
        with Load(gateway.address, think_time=THINK_TIME) as load:
            for workers in (4, 1):
                old = self.status(gateway)["gateway"]["pid"]
                self.write(gateway, pool(), route(service="pool"), workers=workers)
                os.kill(old, signal.SIGUSR2)

                self.assert_eventually(lambda: self.status(gateway)["gateway"]["pid"] != old, "nobody took over", 20)
                self.assertEqual(self.status(gateway)["gateway"]["workers"], workers)
                before = load.count()
                self.assert_eventually(lambda: load.count() > before + 100, "the load stands still")
        self.assertEqual(load.errors, [])

    def test_unix_sockets_stay_where_they_are(self):
        gateway = self.begin(pool(), route(service="pool"), listen=["127.0.0.1:0", "unix:@FOLDER@/http.sock"])
        path = gateway.folder / "http.sock"
        inode = path.stat().st_ino
        self.upgrade(gateway)
        self.assertEqual(gateway.process.wait(20), 0)
        self.assertEqual(path.stat().st_ino, inode)
        connection = Unix(path)
        self.addCleanup(connection.close)
        connection.request("GET", "/pid")
        self.assertEqual(connection.getresponse().status, 200)

    def test_an_idle_client_may_come_back_and_ends_with_its_answer(self):
        gateway = self.begin(pool(), route(service="pool"), limits(shutdown_timeout="10s"))
        client = gateway.client()
        self.addCleanup(client.close)
        old = client.request("GET", "/pid").body
        self.upgrade(gateway)
        # The command has its answer a moment before the workers of the old process know.
        for _ in range(100):
            answer = client.request("GET", "/pid")
            self.assertEqual((answer.status, answer.body), (200, old))
            if answer.get("connection"):
                break
            time.sleep(0.01)
        self.assertEqual(answer.get("connection"), "close")
        self.assertEqual(gateway.process.wait(20), 0)

    def test_streams_of_http2_finish(self):
        gateway = self.begin(service("web", ORIGIN, transport="http"), route(service="web"))
        with http2.Client(gateway.address) as client:
            streams = [client.begin("GET", f"/make?ms=1000&n={number}") for number in range(5)]
            self.assertTrue(client.until(lambda: client.h2.remote_settings.max_concurrent_streams == 100))
            self.upgrade(gateway)
            for stream in streams:
                self.assertEqual(client.answer(stream).status, 200)
            self.assertTrue(client.until(lambda: client.goaway is not None))
            self.assertEqual(client.goaway, http2.NO_ERROR)
        with http2.Client(gateway.address) as client:
            self.assertEqual(client.request("GET", "/show").status, 200)

    def test_broken_programs_leave_everything(self):
        gateway = self.begin(pool(), route(service="pool"))
        pid = self.pid(gateway)
        script = gateway.folder / "broken"
        cases = (
            ("exit 3", "exit status: 3"),
            ("kill -9 $$", "it ended before it was ready"),
            ("head -c 4 > /dev/null", "it ended before it was ready"),
        )
        with Load(gateway.address, clients=2, think_time=THINK_TIME) as load:
            for text, why in cases:
                script.write_text(f"#!/bin/sh\n{text}\n")
                script.chmod(0o755)
                told = self.upgrade(gateway, "--program", str(script), code=1)
                self.assertIn(why, told)
                self.assertIn("this one goes on", told)
            self.assertIn("cannot be executed", self.upgrade(gateway, "--program", "/nowhere", code=1))
            # A file with mistakes is said by the one that cannot follow it.
            self.write(gateway, text="listen = 7\n")
            self.assertIn("pilotlight.toml", self.upgrade(gateway, code=1))
        self.assertEqual(load.errors, [])
        self.assertEqual((self.pid(gateway), self.status(gateway)["gateway"]["pid"]), (pid, gateway.process.pid))

    def test_the_end_of_the_first_leaves_nothing_of_it(self):
        gateway = self.begin(pool(), route(service="pool"))
        self.pid(gateway)
        below = descendants(gateway.process.pid)
        new = self.upgrade(gateway)["pid"]
        self.assertEqual(gateway.process.wait(20), 0)
        old = {key: line for key, line in below.items() if key[0] != new}
        self.assert_eventually(lambda: not alive(old), f"left: {alive(old)}")


class Notify(Upgrading):
    """systemd's protocol, spoken by a socket of the test."""

    def setUp(self):
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.settimeout(20)
        self.manager.bind(b"\0pilotlight-test-%d-%d" % (os.getpid(), id(self)))
        self.addCleanup(self.manager.close)
        name = "@" + self.manager.getsockname()[1:].decode()
        os.environ["NOTIFY_SOCKET"] = name
        self.addCleanup(os.environ.pop, "NOTIFY_SOCKET")

    def told(self):
        return self.manager.recv(4096).decode()

    def test_what_is_told(self):
        gateway = self.begin(pool(), route(service="pool"))
        self.assertEqual(self.told(), "READY=1")
        self.command(gateway, "reload")
        self.assertRegex(self.told(), r"^RELOADING=1\nMONOTONIC_USEC=\d+$")
        self.assertEqual(self.told(), "READY=1")
        new = self.upgrade(gateway)["pid"]
        self.assertRegex(self.told(), r"^RELOADING=1\n")
        self.assertEqual(self.told(), f"MAINPID={new}\nREADY=1")
        self.assertEqual(gateway.process.wait(20), 0)
        os.kill(new, signal.SIGTERM)
        self.assertEqual(self.told(), "STOPPING=1")
        self.assert_eventually(lambda: not os.path.exists(f"/proc/{new}") or zombie(new), "the successor stays", 20)


ACTIVATE = """
import os, socket, sys
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Activation(Upgrading):
    """The gateway's own sockets come from a service manager."""

    def test_it_listens_on_what_it_is_given(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        gateway = Gateway(BINARY, config(pool(), route(service="pool"), ADMIN, listen=f"127.0.0.1:{port}"))
        wrapper = gateway.folder / "activate"
        wrapper.write_text(f'#!/bin/sh\nexec {PYTHON} -c {shlex.quote(ACTIVATE)} {port} {BINARY} "$@"\n')
        wrapper.chmod(0o755)
        gateway._binary = str(wrapper)
        self.addCleanup(gateway.stop)
        gateway.start()
        self.addCleanup(self.stop_successor, gateway)
        self.assertEqual(gateway.address[1], port)
        self.assertTrue(self.pid(gateway).isdigit())
        environment = Path(f"/proc/{self.pid(gateway)}/environ").read_text()
        self.assertNotIn("LISTEN_PID", environment)
        with Load(gateway.address, clients=2, think_time=THINK_TIME) as load:
            self.upgrade(gateway)
            self.assertEqual(gateway.process.wait(20), 0)
        self.assertEqual(load.errors, [])


if __name__ == "__main__":
    unittest.main()
