"""Services are started when asked for, watched, and stopped for certain (issue 2, part 3)."""

import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from harness import (
    BINARY, DEMO, ORIGIN, PYTHON, Gateway, TestCase, alive, config, demo_gateway, descendants, eventually, in_threads,
    route, service, setUpModule,
)  # fmt: skip

__all__ = ["setUpModule"]


class Start(TestCase):
    def test_concurrent_first_requests_share_one_start(self):
        gateway = self.start(demo_gateway())
        pids = in_threads(30, lambda _: self.assert_json(gateway.get("/pid"))["pid"])
        self.assertEqual(len(set(pids)), 1, "thirty first requests started more than one instance")

    def test_concurrent_first_requests_of_an_http_service(self):
        gateway = self.start(Gateway(BINARY, config(service("web", ORIGIN, transport="http"), route(service="web"))))
        pids = in_threads(30, lambda _: self.assert_json(gateway.get("/show"))["pid"])
        self.assertEqual(len(set(pids)), 1)

    @unittest.skipUnless(Path("/proc/self/status").exists(), "not here: Linux")
    def test_services_may_have_huge_pages(self):
        """The gateway's allocator switches them off for itself, and children inherit that."""
        web = service("web", ORIGIN, transport="http")
        gateway = self.start(demo_gateway(web, route("/web", "web")))
        for pid in (self.assert_json(gateway.get("/pid"))["pid"], self.assert_json(gateway.get("/web/show"))["pid"]):
            own = Path("/proc/self/status").read_text().partition("THP_enabled:")[2].split()[:1]
            self.assertEqual(Path(f"/proc/{pid}/status").read_text().partition("THP_enabled:")[2].split()[:1], own)

    @unittest.skipUnless(Path("/proc/self/task").exists(), "not here: Linux")
    def test_the_guardian_has_one_thread(self):
        """It forks, which is safe in a process of one thread only (docs/adr/0011)."""
        gateway = self.start(demo_gateway())
        self.assert_json(gateway.get("/pid"))
        pid = gateway.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self.assertEqual([len(os.listdir(f"/proc/{child}/task")) for child in children], [1])

    def test_a_service_that_exits_at_once(self):
        """503 names the phase, the exit status and (dev) what it said, and when to come back."""
        argv = ["/bin/sh", "-c", "echo to stdout; echo the database is missing >&2; exit 7"]
        gateway = self.start(demo_gateway(argv=argv))
        begin = time.monotonic()
        answer = gateway.get("/")
        problem = self.assert_problem(answer, 503)
        self.assertLess(time.monotonic() - begin, 5, "the end of the process is noticed, not waited for")
        self.assertTrue(problem["phase"])
        self.assertIn("7", problem["exit"])
        self.assertIn("the database is missing", "\n".join(problem["output"]))
        self.assertGreaterEqual(int(answer.get("retry-after")), 1)

    def test_output_is_not_shown_unless_dev(self):
        argv = ["/bin/sh", "-c", "echo the password is kingfisher >&2; exit 7"]
        gateway = self.start(demo_gateway(argv=argv, dev=False))
        answer = gateway.get("/")
        self.assert_problem(answer, 503)
        self.assertNotIn(b"kingfisher", answer.body)
        self.assert_eventually(lambda: "kingfisher" in gateway.output(), "the operator sees it in the log")

    def test_a_service_that_never_connects(self):
        gateway = self.start(demo_gateway(argv=["/bin/sleep", "1000"], start_timeout="1s"))
        begin = time.monotonic()
        answer = gateway.get("/")
        took = time.monotonic() - begin
        problem = self.assert_problem(answer, 503)
        self.assertEqual(problem["phase"], "connect")
        self.assertTrue(0.9 < took < 5, f"answered after {took:.1f} s, start_timeout is 1 s")
        self.assert_eventually(lambda: not self.sleepers(gateway), "the process that failed to start is still there")

    def test_an_http_service_that_never_accepts(self):
        """Research, trap 1: a socket that nobody accepts on must not keep clients waiting for ever."""
        blocks = service("web", ["/bin/sleep", "1000"], transport="http", start_timeout="1s"), route(service="web")
        gateway = self.start(Gateway(BINARY, config(*blocks)))
        begin = time.monotonic()
        self.assert_problem(gateway.get("/"), 503)
        self.assertLess(time.monotonic() - begin, 6)

    def test_crashes_back_off_and_recover(self):
        """A service that always fails costs one start per back-off, not one per request; then it may recover."""
        gateway = self.start(demo_gateway(argv=["/bin/sh", "-c", f"test -e @FOLDER@/well || exit 9; exec {' '.join(DEMO)}"]))
        answers = [gateway.get("/status?code=200") for _ in range(10)]
        for answer in answers:
            self.assert_problem(answer, 503)
            self.assertTrue(answer.get("retry-after"))
        (gateway.folder / "well").touch()
        recovered = eventually(lambda: gateway.get("/status?code=200").status == 200, 40)
        self.assertTrue(recovered, "40 s after its cause had gone the service still was not started")

    def test_crash_is_502_and_the_next_request_works(self):
        gateway = self.start(demo_gateway())
        before = self.assert_json(gateway.get("/pid"))["pid"]
        self.assert_problem(gateway.get("/crash"), 502)
        self.assertTrue(eventually(lambda: gateway.get("/status?code=200").status == 200))
        self.assertNotEqual(self.assert_json(gateway.get("/pid"))["pid"], before)

    def test_sigkill_of_the_service_is_noticed(self):
        gateway = self.start(demo_gateway())
        before = self.assert_json(gateway.get("/pid"))["pid"]
        os.kill(before, signal.SIGKILL)
        self.assertTrue(eventually(lambda: gateway.get("/status?code=200").status == 200))

    def test_min_instances_starts_at_boot(self):
        gateway = self.start(demo_gateway(min_instances=1))
        running = lambda: [line for line in descendants(gateway.process.pid).values() if "demo.py" in line]  # noqa: E731
        self.assert_eventually(running, "min_instances = 1, but nothing was started")

    def test_environment_and_folder(self):
        script = "import os, pilotlight; pilotlight.serve(lambda r: (200, [], os.environ['COLOUR'] + os.getcwd()))"
        sdk = os.path.dirname(DEMO[1])
        gateway = self.start(demo_gateway(argv=[PYTHON, "-c", script], dir="/", env={"COLOUR": "blue", "PYTHONPATH": sdk}))
        self.assertEqual(gateway.get("/").body, b"blue/")

    @staticmethod
    def sleepers(gateway):
        return [line for line in descendants(gateway.process.pid).values() if "sleep 1000" in line]


class Stop(TestCase):
    def test_idle_stop_then_start_again(self):
        gateway = self.start(demo_gateway(idle_timeout="1s"))
        first = self.assert_json(gateway.get("/pid"))["pid"]
        gone = eventually(lambda: not os.path.exists(f"/proc/{first}"), 15)
        self.assertTrue(gone, "an idle service is still there 15 s later, idle_timeout is 1 s")
        second = self.assert_json(gateway.get("/pid"))["pid"]
        self.assertNotEqual(first, second)

    def test_idle_stop_waits_for_open_exchanges(self):
        gateway = self.start(demo_gateway(idle_timeout="1s"))
        self.assertEqual(gateway.get("/sleep?ms=3000").body, b"slept")
        answer = gateway.get("/slow?chunks=6&ms=500")
        self.assertEqual(answer.body.count(b"\n"), 6, "an answer in progress was cut by the idle stop")

    def test_idle_stop_loses_no_request(self):
        """Requests that come just as the service is stopped for being idle are answered, by it or by the next one."""
        gateway = self.start(demo_gateway(idle_timeout="1s"))
        pids = set()
        for number in range(8):
            pids.add(self.assert_json(gateway.get("/pid"))["pid"])
            time.sleep(0.97 + 0.01 * number)  # aimed at the moment of the stop
        self.assertGreaterEqual(len(pids), 1)

    def test_sigterm_finishes_what_is_open(self):
        gateway = self.start(demo_gateway())
        gateway.get("/pid")
        with gateway.client() as client:
            client.send_head("GET", "/slow?chunks=3&ms=300")
            pieces = client.body(client.head())
            next(pieces)
            gateway.signal(signal.SIGTERM)
            self.assertEqual(b"".join(pieces), b"chunk 1\nchunk 2\n")
        self.assertEqual(gateway.wait(), 0)

    def test_a_service_that_ignores_sigterm_is_killed(self):
        script = f"trap '' TERM; {' '.join(DEMO)} & while :; do sleep 1; done"
        gateway = self.start(demo_gateway(argv=["/bin/sh", "-c", script], drain_timeout="1s", stop_grace="1s"))
        gateway.get("/pid")
        family = descendants(gateway.process.pid)
        gateway.signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(25), 0)
        self.assertEqual(alive(family), {})


class NothingIsLeft(TestCase):
    """Not a process survives the gateway: not a service, not what it started, not what left its session."""

    SCRIPT = "setsid sleep 4001 & sleep 4002 & (sleep 4003 & sleep 4004 & wait) & exec " + " ".join(DEMO)

    def family(self):
        gateway = self.start(demo_gateway(argv=["/bin/sh", "-c", self.SCRIPT]))
        gateway.get("/pid")
        family = descendants(gateway.process.pid)
        for number in (4001, 4002, 4003, 4004):
            self.assertTrue([line for line in family.values() if f"sleep {number}" in line], f"sleep {number} is not there")
        return gateway, family

    def test_ctrl_c(self):
        """SIGINT goes to the whole process group, as from a terminal."""
        gateway, family = self.family()
        os.killpg(gateway.process.pid, signal.SIGINT)
        self.assertEqual(gateway.wait(20), 0)
        self.assertEqual(alive(family), {})

    def test_sigterm(self):
        gateway, family = self.family()
        gateway.signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(20), 0)
        self.assertEqual(alive(family), {})

    def test_kill_9_of_the_gateway(self):
        gateway, family = self.family()
        gateway.signal(signal.SIGKILL)
        gateway.wait()
        self.assertTrue(eventually(lambda: not alive(family), 2), f"2 s later there are still {alive(family)}")

    def test_kill_9_while_a_service_starts(self):
        gateway = self.start(demo_gateway(argv=["/bin/sleep", "4005"]))
        with gateway.client() as client:
            client.send_head("GET", "/")
            self.assert_eventually(
                lambda: any("sleep 4005" in line for line in descendants(gateway.process.pid).values()), "nothing was started"
            )
            family = descendants(gateway.process.pid)
            gateway.signal(signal.SIGKILL)
            gateway.wait()
        self.assertTrue(eventually(lambda: not alive(family), 2), f"2 s later there are still {alive(family)}")

    def test_two_ctrl_c_end_it_at_once(self):
        gateway, family = self.family()
        with gateway.client() as client:
            client.send_head("GET", "/wait?id=x")
            client.head()
            gateway.signal(signal.SIGINT)
            time.sleep(0.2)
            gateway.signal(signal.SIGINT)
            gateway.wait(15)
        self.assertTrue(eventually(lambda: not alive(family), 2), f"2 s later there are still {alive(family)}")


class Configuration(TestCase):
    """Mistakes are reported with their place, and nothing starts (issue 2, part 6)."""

    def run_with(self, text):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pilotlight.toml")
            with open(path, "w") as file:
                file.write(text)
            return subprocess.run([BINARY, "--config", path], capture_output=True, text=True, timeout=20)

    def test_unknown_executable(self):
        done = self.run_with(config(service(argv=["no-such-program-anywhere"]), route()))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"pilotlight\.toml:5:\d+")
        self.assertIn("no-such-program-anywhere", done.stderr)

    def test_unknown_key_has_a_suggestion(self):
        done = self.run_with(config(service(), route()).replace("listen", "listn"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"pilotlight\.toml:2:1")
        self.assertIn("listen", done.stderr)

    def test_all_mistakes_at_once(self):
        done = self.run_with(config(service(colour="red"), route(service="dmo"), route(path="x")))
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in ("colour", "dmo", "demo", "path"):
            self.assertIn(word, done.stderr)

    def test_port_in_use(self):
        gateway = self.start(demo_gateway())
        host, port = gateway.address
        done = self.run_with(config(service(), route(), listen=f"{host}:{port}"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(str(port), done.stderr)
        self.assertRegex(done.stderr, r"pilotlight\.toml:\d+:\d+")


if __name__ == "__main__":
    unittest.main()
