"""No process outlives its service, whatever it did to its session and whoever is killed."""

import itertools
import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from harness import BINARY, DEMO, PYTHON, ROOT, Gateway, TestCase, config, processes, route, service, setUpModule

__all__ = ["setUpModule"]

ADMIN = '[admin]\nsocket = "@FOLDER@/admin.sock"\n'
LIMIT = 30.0  # for what takes milliseconds on a quiet machine
numbers = itertools.count(5001)


def sleeper():
    """The words of a process that no other test has."""
    return f"sleep {next(numbers)}.{os.getpid()}"


def running(*sleepers):
    """The processes with these words, wherever they were adopted: {pid: command line}."""
    return {pid: line for pid, (_, _, line) in processes().items() if line.removeprefix("/bin/") in sleepers}


def guardians_of(gateway):
    """The pid of the gateway's guardian, if there is one."""
    return [pid for pid, (parent, _, line) in processes().items() if parent == gateway.process.pid and " guardian " in line]


def kill(pid):
    os.kill(pid, signal.SIGKILL)


@unittest.skipUnless(Path("/proc/self/environ").exists(), "not here: Linux")
class Case(TestCase):
    def gateway(self, *blocks):
        return self.start(Gateway(BINARY, config(*blocks, ADMIN), start_limit=LIMIT, stop_limit=LIMIT))

    def command(self, gateway, *words):
        done = subprocess.run(
            [BINARY, *words, "--socket", str(gateway.folder / "admin.sock")], capture_output=True, text=True, timeout=2 * LIMIT
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def assert_running(self, *sleepers):
        for words in sleepers:
            self.assert_eventually(lambda words=words: running(words), f"`{words}` was not started", LIMIT)

    def assert_gone(self, *sleepers, limit=LIMIT):
        self.assert_eventually(lambda: not running(*sleepers), f"still there: {running(*sleepers)}", limit)


class Daemons(Case):
    """What a service starts and detaches ends with its service, while the gateway goes on."""

    def setUp(self):
        self.session, self.double, self.bare = sleeper(), sleeper(), sleeper()

    def daemons(self, then):
        """A command: a session of its own, a double fork out of that, one that has emptied its environment."""
        script = (
            f"setsid {self.session} >/dev/null 2>&1 & (setsid sh -c '{self.double} >/dev/null 2>&1 &' &); "
            f"env -i setsid /bin/{self.bare} >/dev/null 2>&1 & exec {' '.join(then)}"
        )
        return ["/bin/sh", "-c", script]

    def daemon_gateway(self, *blocks, **settings):
        gateway = self.gateway(service(argv=self.daemons(DEMO), **settings), route(), *blocks)
        self.assert_status(gateway.get("/pid", timeout=LIMIT), 200)
        self.assert_running(self.session, self.double, self.bare)
        return gateway

    def assert_daemons_gone(self):
        self.assert_gone(self.session, self.double, self.bare)

    def test_idle_stop(self):
        self.daemon_gateway(idle_timeout="1s")
        self.assert_daemons_gone()

    def test_stop_by_hand(self):
        gateway = self.daemon_gateway()
        self.command(gateway, "stop", "demo")
        self.assert_daemons_gone()

    def test_restart_spares_those_of_the_successor(self):
        gateway = self.daemon_gateway()
        before = running(self.session, self.double, self.bare)
        self.command(gateway, "restart", "demo")
        self.assert_eventually(
            lambda: not set(before) & set(running(self.session, self.double, self.bare)), "those of the old instance are left", LIMIT
        )
        self.assert_running(self.session, self.double, self.bare)

    def test_crash(self):
        gateway = self.daemon_gateway()
        self.assert_status(gateway.get("/crash", timeout=LIMIT), 502)
        self.assert_daemons_gone()

    def test_a_start_that_fails(self):
        argv = self.daemons(["false"])
        gateway = self.gateway(service(argv=argv), route())
        self.assert_status(gateway.get("/", timeout=LIMIT), 503)
        self.assert_daemons_gone()

    def test_those_of_other_services_are_spared(self):
        mine = sleeper()
        other = service("other", ["/bin/sh", "-c", f"setsid {mine} & exec {' '.join(DEMO)}"])
        gateway = self.daemon_gateway(other, route("/other", "other", strip_prefix=True))
        self.assert_status(gateway.get("/other/pid", timeout=LIMIT), 200)
        self.assert_running(mine)
        self.command(gateway, "stop", "demo")
        self.assert_daemons_gone()
        self.assertTrue(running(mine), "it belongs to a service that runs")
        self.command(gateway, "stop", "other")
        self.assert_gone(mine)

    def test_one_that_forks_all_the_time(self):
        """Each process lives for a moment and leaves another one: a look at the processes is not enough."""
        script = "import os, time\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid(); time.sleep(0.002)\n"
        name = self.session.replace(" ", "-")
        gateway = Gateway(BINARY, config(service(argv=["/bin/sh", "-c", f"{PYTHON} -S {name}.py & exec {' '.join(DEMO)}"], dir="@FOLDER@"), route(), ADMIN))
        (gateway.folder / f"{name}.py").write_text(script)
        self.start(gateway)
        self.assert_status(gateway.get("/pid", timeout=LIMIT), 200)
        there = lambda: [line for _, _, line in processes().values() if line.endswith(f" -S {name}.py")]  # noqa: E731
        self.assert_eventually(there, "it was not started", LIMIT)
        self.command(gateway, "stop", "demo")
        self.assert_eventually(lambda: not any(there() for _ in range(20)), "it runs on", LIMIT)

    def test_one_that_executes_programs_all_the_time(self):
        """While a process begins another program its environment cannot be read."""
        name = self.session.replace(" ", "-")
        again = """'exec sh -c "$0" "$0" "$1"'"""
        loop = f"setsid sh -c {again} {again} {name} >/dev/null 2>&1 &"
        gateway = self.gateway(service(argv=["/bin/sh", "-c", f"{loop} {loop} exec {' '.join(DEMO)}"]), route())
        ours = lambda line: line.endswith(f" {name}") and "exec sh" in line  # noqa: E731
        there = lambda: [pid for pid, (_, _, line) in processes().items() if ours(line)]  # noqa: E731
        for _ in range(5):
            started = lambda: gateway.get("/pid", timeout=LIMIT).status == 200  # noqa: E731
            self.assert_eventually(started, "it is not started again", LIMIT)
            self.assert_eventually(there, "it was not started", LIMIT)
            self.assert_status(gateway.get("/crash", timeout=LIMIT), 502)
        self.command(gateway, "stop", "demo")
        self.assert_eventually(lambda: not any(there() for _ in range(20)), "it runs on", LIMIT)

    def test_an_instance_that_was_forked_by_a_zygote(self):
        """Its daemon is a fork that executes nothing, so /proc shows the environment of the zygote."""
        app = (
            "import os, signal\n"
            "def app(environ, start_response):\n"
            "    start_response('200 OK', [])\n"
            "    read, write = os.pipe()\n"
            "    if not os.fork():\n"
            "        os.setsid()\n"
            "        if os.fork(): os._exit(0)\n"
            "        os.write(write, str(os.getpid()).encode())\n"
            "        for fd in range(256):\n"
            "            try: os.close(fd)\n"
            "            except OSError: pass\n"
            "        while True: signal.pause()\n"
            "    return [os.read(read, 64)]\n"
        )
        env = {"PYTHONPATH": str(ROOT / "sdk" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [PYTHON, "-m", "pilotlight.wsgi", "app:app"]
        blocks = service(argv=argv, preload=["json"], dir="@FOLDER@", env=env), route()
        gateway = Gateway(BINARY, config(*blocks, ADMIN), start_limit=LIMIT, stop_limit=LIMIT)
        (gateway.folder / "app.py").write_text(app)
        self.start(gateway)
        first = int(gateway.get("/", timeout=LIMIT).body)
        self.command(gateway, "restart", "demo")
        self.assert_eventually(lambda: first not in processes(), "it outlives a restart", LIMIT)
        second = int(gateway.get("/", timeout=LIMIT).body)
        kill(int(self.leader(gateway)))
        self.assert_eventually(lambda: second not in processes(), "it outlives a crash", LIMIT)

    def leader(self, gateway):
        done = subprocess.run(
            [BINARY, "status", "demo", "--json", "--socket", str(gateway.folder / "admin.sock")], capture_output=True, text=True, timeout=LIMIT
        )
        return next(one["pid"] for one in json.loads(done.stdout)["instances"] if one["state"] == "ready")


class KilledGuardian(Case):
    def test_in_the_middle_of_a_start(self):
        """The guardian has forked, and nobody knows the pid yet: the child waits in a file of variables."""
        mine = sleeper()
        gateway = Gateway(BINARY, config(service(argv=["/bin/sh", "-c", f"exec {mine}"], env_file="@FOLDER@/wait"), route()))
        gate = gateway.folder / "wait"
        gate.write_text("")
        gate.chmod(0o600)
        self.start(gateway)
        gate.unlink()  # `check` has read it
        os.mkfifo(gate, 0o600)
        with gateway.client(LIMIT) as client:
            client.send_head("GET", "/")
            guardian = guardians_of(gateway)[0]
            child = lambda: [pid for pid, (parent, _, _) in processes().items() if parent == guardian]  # noqa: E731
            self.assert_eventually(child, "nothing was forked", LIMIT)
            children = child()
            kill(guardian)
            self.assert_eventually(lambda: guardian not in processes(), "the guardian is still there", LIMIT)
            try:  # fails if nobody reads any more, as it should be
                fd = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
                os.write(fd, b"A=b\n")
                os.close(fd)
            except OSError:
                pass
            self.assert_eventually(lambda: not set(children) & set(processes()), "the child of a dead guardian goes on", 5)
            self.assertEqual(running(mine), {})
            self.assert_status(client.head(), 503)

    def test_at_any_moment_of_a_start(self):
        mine = sleeper()
        daemon = sleeper()
        argv = ["/bin/sh", "-c", f"setsid {daemon} & exec {mine}"]
        gateway = self.gateway(service(argv=argv), route(), service("web", ["/bin/sh", "-c", f"exec {mine}"], transport="http"), route("/web", "web"))
        killed = 0
        for number in range(12):
            self.command(gateway, "start", "demo", "--no-wait")  # forgets what failed before
            self.command(gateway, "start", "web", "--no-wait")
            with gateway.client(LIMIT) as client, gateway.client(LIMIT) as other:
                client.send_head("GET", "/")
                other.send_head("GET", "/web")
                time.sleep(number / 1000)  # another moment each time
                for guardian in guardians_of(gateway):
                    kill(guardian)
                    killed += 1
                    self.assert_eventually(lambda pid=guardian: pid not in processes(), "the guardian is still there", LIMIT)
        self.assertGreater(killed, 6)
        self.command(gateway, "stop", "demo")
        self.command(gateway, "stop", "web")
        self.assert_gone(mine, daemon)

    def test_daemons_of_its_services_end_as_well(self):
        daemon = sleeper()
        gateway = self.gateway(service(argv=["/bin/sh", "-c", f"setsid {daemon} >/dev/null 2>&1 & exec {' '.join(DEMO)}"]), route())
        self.assert_status(gateway.get("/pid", timeout=LIMIT), 200)
        self.assert_running(daemon)
        kill(guardians_of(gateway)[0])
        self.assert_gone(daemon)
        self.assert_eventually(lambda: gateway.get("/pid", timeout=LIMIT).status == 200, "no new guardian", LIMIT)


class KilledTogether(Case):
    def test_guardian_and_gateway(self):
        web, piped = sleeper(), sleeper()
        blocks = [
            service("web", ["/bin/sh", "-c", f"exec {web}"], transport="http"),
            service("piped", ["/bin/sh", "-c", f"exec {piped}"], start_timeout="60s"),
            route("/web", "web"),
            route("/", "piped"),
        ]
        gateway = self.gateway(*blocks)
        with gateway.client(LIMIT) as one, gateway.client(LIMIT) as two:
            one.send_head("GET", "/web")
            two.send_head("GET", "/")
            self.assert_running(web, piped)
            guardian = guardians_of(gateway)[0]
            os.kill(gateway.process.pid, signal.SIGSTOP)  # so that neither can do anything about the other's end
            kill(guardian)
            kill(gateway.process.pid)
            gateway.wait()
        self.assert_gone(web, piped)


if __name__ == "__main__":
    unittest.main()
