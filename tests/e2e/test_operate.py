"""The gateway is operated: status, logs, actions, purge, explain, metrics, Server-Timing, access log (issue 4, numbers 5 and 6)."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import threading
import unittest
from urllib.parse import quote as percent

from harness import BINARY, HERE, ORIGIN, PYTHON, ROOT, Gateway, TestCase, config, eventually, in_threads, route, service, setUpModule
from load import THINK_TIME

__all__ = ["setUpModule"]

ADMIN = '[admin]\nsocket = "@FOLDER@/admin.sock"\n'
FRESH = "h=cache-control:max-age=600"
LAYERS = ("parse", "route", "cache", "queue", "start", "service", "body", "write")

# A service that must be alone, over the pipe.
ALONE = """
import fcntl, os, signal, sys, time
lock = open("alone.lock", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(7)
import pilotlight
pilotlight.serve(lambda request: (200, {"cache-control": "no-store"}, str(os.getpid())))
time.sleep(0.2)
"""


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("pilotlight", timeout=20)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Operated(TestCase):
    """`self.operated()` is a gateway with a pipe service at /, an HTTP service at /web, and an admin socket."""

    def operated(self, *blocks, demo=None, web=None, **settings):
        demo = service(**(demo or {}))
        web = service("web", ORIGIN, transport="http", **(web or {}))
        routes = route(), route("/web", "web", cache=True)
        return self.start(Gateway(BINARY, config(demo, web, *routes, ADMIN, *blocks, dev=True, **settings)))

    def socket(self, gateway):
        return gateway.folder / "admin.sock"

    def ask(self, gateway, method, target, body=None):
        connection = Unix(self.socket(gateway))
        self.addCleanup(connection.close)
        connection.request(method, target, body)
        return connection.getresponse()

    def admin(self, gateway, target, method="GET", body=None, status=200):
        connection = Unix(self.socket(gateway))
        # Closed at once: who looks again and again would take all that the interface serves at a time.
        with contextlib.closing(connection):
            connection.request(method, target, body)
            answer = connection.getresponse()
            text = answer.read()
        self.assertEqual(answer.status, status, text)
        return json.loads(text)

    def cli(self, gateway, *arguments, code=0):
        """What a command printed on the standard output."""
        command = [str(BINARY), *arguments, "--socket", str(self.socket(gateway))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=40)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def service(self, gateway, name):
        return self.admin(gateway, f"/services/{name}")

    def counted(self, gateway, requests):
        """A request is counted when its last byte is written, which its client may know first."""
        def seen():
            return sum(each["requests"] for each in self.admin(gateway, "/status")["services"]) >= requests

        self.assert_eventually(seen, f"not {requests} requests are counted")

    def metrics(self, gateway, requests=0):
        self.counted(gateway, requests)
        return parsed(self.ask(gateway, "GET", "/metrics").read().decode())


class Status(Operated):
    def test_a_service_through_its_life(self):
        gateway = self.operated()
        self.assertEqual(self.service(gateway, "demo")["state"], "stopped")
        self.assertEqual(self.service(gateway, "demo")["instances"], [])
        pid = self.assert_json(gateway.get("/pid"))["pid"]
        self.counted(gateway, 1)
        running = self.service(gateway, "demo")
        self.assertEqual(running["state"], "ready")
        [instance] = running["instances"]
        self.assertEqual((instance["pid"], instance["number"], instance["state"]), (pid, 1, "ready"))
        self.assertGreater(instance["memory_bytes"], 1 << 20)
        self.assertEqual((running["requests"], running["starts"], running["answers"]), (1, 1, {"2xx": 1}))
        self.assertGreater(running["latency"]["p50_ms"], 0)
        os.kill(pid, signal.SIGKILL)
        self.assert_eventually(lambda: self.service(gateway, "demo")["state"] == "stopped", "a dead service counts as running")
        told = lambda: "SIGKILL" in str(self.service(gateway, "demo")["last_error"])  # noqa: E731
        self.assert_eventually(told, "it is not said how it ended")

    def test_a_service_that_is_starting_and_fails(self):
        argv = ["/bin/sh", "-c", "while ! test -e @FOLDER@/fail; do sleep 0.02; done; echo no database; exit 3"]
        gateway = self.operated(demo={"argv": argv})
        waiting = threading.Thread(target=lambda: gateway.get("/"))
        waiting.start()
        self.assert_eventually(lambda: self.service(gateway, "demo")["state"] == "starting", "it is not seen to start")
        self.assertEqual(self.service(gateway, "demo")["in_flight"], 1)
        (gateway.folder / "fail").touch()
        waiting.join()
        self.counted(gateway, 1)
        failed = self.service(gateway, "demo")
        self.assertEqual((failed["state"], failed["failures"]), ("stopped", 1))
        self.assertIn("no database", failed["last_error"]["output"])
        self.assertEqual(failed["answers"], {"5xx": 1})
        self.assertIn("failing", self.cli(gateway, "status"))

    def test_requests_in_flight(self):
        gateway = self.operated()
        with gateway.client() as client:
            client.send_head("GET", "/wait?id=x")
            client.head()
            busy = self.service(gateway, "demo")
            self.assertEqual((busy["in_flight"], busy["instances"][0]["in_flight"], busy["requests"]), (1, 1, 0))
        self.assert_eventually(lambda: self.service(gateway, "demo")["in_flight"] == 0, "a request whose client went is in flight")
        self.counted(gateway, 1)

    def test_the_table(self):
        gateway = self.operated()
        gateway.get("/pid")
        text = self.cli(gateway, "status")
        self.assertNotIn("\x1b", text, "colours although it is no terminal")
        head, *rows = text.splitlines()[-3:]
        for name in ("SERVICE", "STATE", "INSTANCES", "PID", "UPTIME", "REQUESTS", "IN FLIGHT", "P50", "P99", "MEMORY", "CACHE HITS"):
            self.assertIn(name, head)
        self.assertEqual([row.split()[:2] for row in rows], [["demo", "ready"], ["web", "stopped"]])
        self.assertEqual(len({len(row) for row in (head, *rows)}), 1, "the columns are not aligned:\n" + text)
        self.assertIn("LAYER", self.cli(gateway, "status", "demo"))
        told = json.loads(self.cli(gateway, "status", "--json"))
        self.assertEqual([each["name"] for each in told["services"]], ["demo", "web"])
        self.assertEqual(told["gateway"]["pid"], gateway.process.pid)

    def test_watch_goes_on(self):
        gateway = self.operated()
        command = [str(BINARY), "status", "--watch", "--json", "--socket", str(self.socket(gateway))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
            self.addCleanup(watching.kill)
            states = [json.loads(watching.stdout.readline())["services"][0]["state"]]
            gateway.get("/pid")
            states.append(json.loads(watching.stdout.readline())["services"][0]["state"])
            watching.kill()
        self.assertEqual(states, ["stopped", "ready"])

    def test_cache_hits_count(self):
        gateway = self.operated()
        for _ in range(5):
            gateway.get(f"/web/make?{FRESH}")
        self.counted(gateway, 5)
        web = self.service(gateway, "web")
        self.assertEqual((web["requests"], web["cache_hits"]), (5, 4))
        status = self.admin(gateway, "/status")
        self.assertEqual((status["cache"]["resources"], status["cache"]["hits"]), (1, 4))

    def test_the_configuration_without_secrets(self):
        gateway = self.operated(demo={"env": {"TOKEN": "kingfisher"}})
        told = self.admin(gateway, "/config")
        self.assertEqual(told["settings"]["services"]["demo"]["env"], {"TOKEN": "(hidden)"})
        self.assertEqual(told["settings"]["workers"], 2)


class Scaled(Operated):
    """Several instances, the queue and the circuit, as people see them."""

    def pool(self, env=(), **settings):
        env = {"FOLDER": "@FOLDER@"} | dict(env)
        argv = [PYTHON, "-B", str(HERE / "pool.py")]
        blocks = service("pool", argv, env=env, **settings), route(service="pool"), ADMIN
        return self.start(Gateway(BINARY, config(*blocks, dev=True)))

    def sampler(self, gateway):
        _, samples = self.metrics(gateway)
        return lambda name, **labels: samples[name, tuple(sorted({"service": "pool", **labels}.items()))]

    def explained(self, gateway):
        return self.admin(gateway, "/explain?url=/pid")

    def test_instances_and_queue(self):
        gateway = self.pool(concurrency=1, max_instances=2, scale_up_after="10ms", queue={"max": 2, "timeout": "20s"})
        waiting = [gateway.client() for _ in range(4)]
        for number, client in enumerate(waiting):
            self.addCleanup(client.close)
            client.send_head("GET", "/wait?name=go")
            if number < 2:
                self.assert_eventually(lambda: self.service(gateway, "pool")["starts"] == number + 1, "it is not started")
        full = lambda: self.service(gateway, "pool")["queue"]["length"] == 2  # noqa: E731
        self.assert_eventually(full, "nobody waits")
        self.assert_problem(gateway.get("/pid"), 503)
        now = self.service(gateway, "pool")
        self.assertEqual([(one["number"], one["state"], one["in_flight"]) for one in now["instances"]],
                         [(1, "ready", 1), (2, "ready", 1)])
        self.assertEqual((now["max_instances"], now["concurrency"], now["queue"]["max"]), (2, 1, 2))
        self.assertEqual(now["queue"]["refused"], {"full": 1, "timeout": 0, "circuit": 0})
        told = self.explained(gateway)
        self.assertEqual(told["service"]["then"], "the request waits behind 2 others")
        limits = {limit["setting"]: limit["value"] for limit in told["limits"]}
        self.assertEqual(limits["services.pool.queue.max"], 2)
        self.assertEqual(limits["services.pool.concurrency"], 1)
        self.assertIn("services.pool.queue.timeout: 20s, beyond it 503", self.cli(gateway, "explain", "/pid"))
        self.assertRegex(self.cli(gateway, "status"), r"pool +ready +2 +\d+ \+1 .* 2 ")
        self.assertRegex(self.cli(gateway, "status", "pool"), r"queue +2 of 2; refused: 1 × full")
        # One is stopped while it is busy: it is seen until it has ended.
        self.cli(gateway, "restart", "--no-wait", "pool")
        states = lambda: [one["state"] for one in self.service(gateway, "pool")["instances"]]  # noqa: E731
        self.assert_eventually(lambda: states().count("draining") == 2, "those that were replaced are not seen to drain")
        self.assertRegex(self.cli(gateway, "status"), r"pool +ready +2 \(2 ending\)")
        (gateway.folder / "go").touch()
        for client in waiting:
            self.assertEqual(client.answer().status, 200)
        self.assert_eventually(lambda: states() == ["ready"] * 2, "those that have ended are still seen")
        self.assertEqual(self.service(gateway, "pool")["replaced"]["asked"], 2)
        sample = self.sampler(gateway)
        self.assertEqual(sample("pilotlight_service_instances", state="ready"), 2)
        self.assertEqual(sample("pilotlight_service_replaced_total", reason="asked"), 2)
        self.assertEqual(sample("pilotlight_service_queue_refused_total", reason="full"), 1)
        self.assertEqual(sample("pilotlight_service_queue_length"), 0)
        self.assertGreater(sample("pilotlight_layer_duration_seconds_sum", route="/", layer="queue"), 0.01)

    def test_the_circuit(self):
        gateway = self.pool({"FAILING": "9"}, max_failures=2)
        for _ in range(2):
            self.assert_problem(gateway.get("/pid"), 503)
        now = self.service(gateway, "pool")
        self.assertEqual((now["circuit"]["state"], now["failures"], now["failed_starts"]), ("open", 2, 2))
        self.assertIn("circuit open", self.cli(gateway, "status"))
        self.assertRegex(self.cli(gateway, "status", "pool"), r"circuit +open \(2 of 2 failures")
        self.assertRegex(self.explained(gateway)["service"]["then"], "refused|started")
        sample = self.sampler(gateway)
        self.assertEqual(sample("pilotlight_service_circuit_state"), 1)
        self.assertEqual(sample("pilotlight_service_failed_starts_total"), 2)
        self.cli(gateway, "stop", "pool")  # forgets what failed
        self.assertEqual(self.service(gateway, "pool")["circuit"]["state"], "closed")

    def test_a_spare_stays_stopped_by_hand(self):
        gateway = self.pool(spare=1, concurrency=1, max_instances=2)
        self.assert_eventually(lambda: self.service(gateway, "pool")["state"] == "ready", "there is no spare")
        self.cli(gateway, "stop", "pool")
        self.assertEqual(self.service(gateway, "pool")["instances"], [])
        self.assertEqual(gateway.get("/pid").status, 200)
        self.assert_eventually(lambda: len(self.service(gateway, "pool")["instances"]) == 2, "the spare is not there again")

    def test_a_restart_that_fails_says_why(self):
        script = f"test -e @FOLDER@/broken && exit 3; exec {PYTHON} -B {HERE}/pool.py"
        blocks = service("pool", ["/bin/sh", "-c", script], env={"FOLDER": "@FOLDER@"}), route(service="pool"), ADMIN
        gateway = self.start(Gateway(BINARY, config(*blocks)))
        pid = gateway.get("/pid").body
        (gateway.folder / "broken").touch()
        self.assertIn("exited with status 3", self.cli(gateway, "restart", "pool", code=1))
        self.assertEqual(gateway.get("/pid").body, pid)


class Access(Operated):
    def test_the_socket_is_private_and_goes_with_the_gateway(self):
        gateway = self.operated()
        path = self.socket(gateway)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        gateway.signal(signal.SIGTERM)
        gateway.wait()
        self.assertFalse(path.exists())

    @unittest.skipUnless(os.geteuid() == 0, "not here: only root can become another user")
    def test_another_user_is_refused(self):
        """Even where the modes of files would let it in."""
        gateway = self.operated()
        path = self.socket(gateway)
        gateway.folder.chmod(0o755)
        path.chmod(0o666)
        script = (
            "import os, socket, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
            "s.connect(sys.argv[1]); s.sendall(b'POST /services/demo/start HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n');"
            "print(s.makefile('rb').read().decode())"
        )
        done = subprocess.run([PYTHON, "-c", script, str(path)], capture_output=True, text=True, timeout=20)
        self.assertTrue(done.stdout.startswith("HTTP/1.1 403 "), done.stdout + done.stderr)
        self.assertIn("65534", done.stdout)
        self.assertEqual(self.service(gateway, "demo")["starts"], 0)

    def test_no_gateway(self):
        done = subprocess.run([str(BINARY), "status", "--socket", "/nowhere/admin.sock"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/admin.sock", done.stderr)
        self.assertIn("pilotlight run", done.stderr)

    def test_the_gateway_is_found_by_its_file(self):
        """With the socket in the runtime folder, among gateways that also run."""
        blocks = config(service(), route(), dev=True)
        first, second = self.start(Gateway(BINARY, blocks)), self.start(Gateway(BINARY, blocks))
        for gateway in (first, second):
            command = [str(BINARY), "status", "--json", "--config", str(gateway.folder / "pilotlight.toml")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["gateway"]["pid"], gateway.process.pid)

    def test_it_can_be_off(self):
        gateway = self.start(Gateway(BINARY, config(service(), route(), admin=False)))
        command = [str(BINARY), "status", "--config", str(gateway.folder / "pilotlight.toml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 1)
        self.assertIn("admin = false", done.stderr)

    def test_what_is_wrong_is_said(self):
        gateway = self.operated(service("old", url="http://127.0.0.1:1"), route("/old", "old"))
        for method, target, body, status in (
            ("GET", "/services/nope", None, 404),
            ("GET", "/nope", None, 404),
            ("POST", "/status", None, 405),
            ("GET", "/purge", None, 405),
            ("POST", "/purge", "{", 400),
            ("POST", "/purge", '{"url": "ftp://x/"}', 400),
            ("GET", "/explain", None, 400),
            ("GET", "/explain?url=http://a%20b/", None, 400),
            ("GET", "/services/demo/logs?lines=x", None, 400),
            ("POST", "/services/old/restart", None, 409),
            ("POST", "/purge", "x" * 70_000, 413),
        ):
            problem = self.admin(gateway, target, method, body, status)
            self.assertEqual(problem["status"], status)
            self.assertTrue(problem["detail"])
        self.assertIn('"nope"', self.cli(gateway, "status", "nope", code=2))


class Actions(Operated):
    def test_stop_start_restart(self):
        gateway = self.operated()
        pid = self.assert_json(gateway.get("/pid"))["pid"]
        self.assertIn("restarted: instance 2", self.cli(gateway, "restart", "demo"))
        second = self.assert_json(gateway.get("/pid"))["pid"]
        self.assertNotEqual(pid, second)
        self.assertIn("demo stopped", self.cli(gateway, "stop", "demo"))
        self.assertEqual(self.service(gateway, "demo")["instances"], [])
        self.assertIn("was not running", self.cli(gateway, "stop", "demo"))
        self.assertIn("started: instance 3", self.cli(gateway, "start", "demo"))
        self.assertIn("runs already", self.cli(gateway, "start", "demo"))
        self.cli(gateway, "stop", "demo")
        self.assert_json(gateway.get("/pid"))

    def test_what_always_runs_stays_stopped_by_hand(self):
        gateway = self.operated(demo={"min_instances": 1})
        self.assert_eventually(lambda: self.service(gateway, "demo")["state"] == "ready", "it was not started")
        pid = self.assert_json(gateway.get("/pid"))["pid"]
        self.cli(gateway, "stop", "demo")
        self.assert_eventually(lambda: not os.path.exists(f"/proc/{pid}"), "it still runs")
        self.assertEqual(self.service(gateway, "demo")["state"], "stopped")
        self.assert_json(gateway.get("/pid"))
        self.assertEqual(self.service(gateway, "demo")["state"], "ready")

    def test_a_restart_under_load_loses_nothing(self):
        gateway = self.operated()
        gateway.get("/pid")
        done = threading.Event()

        def load(_):
            answers = set()
            while not done.wait(THINK_TIME):
                answers.add(gateway.get("/status?code=200").status)
            return answers

        restarting = threading.Thread(target=lambda: ([self.cli(gateway, "restart", "demo") for _ in range(3)], done.set()))
        restarting.start()
        answers = in_threads(4, load)
        restarting.join()
        self.assertEqual(set().union(*answers), {200})

    def test_a_program_that_must_be_alone(self):
        """It holds a lock until it has ended, which takes it a while, and a second one fails."""
        env = {"PYTHONPATH": str(ROOT / "sdk" / "python")}
        argv = [PYTHON, "-B", "-c", f"exec({ALONE!r})"]
        gateway = self.operated(demo={"argv": argv, "restart": "stop-first", "dir": "@FOLDER@", "env": env})
        self.assert_status(gateway.get("/"), 200)
        seen, done = set(), threading.Event()

        def load(_):
            while not done.wait(THINK_TIME):
                answer = gateway.get("/")
                seen.add((answer.status, answer.body if answer.status == 200 else answer.body[:200]))

        def restart():
            for number in range(2, 5):
                self.assertIn(f"restarted: instance {number}", self.cli(gateway, "restart", "demo"))
            done.set()

        restarting = threading.Thread(target=restart)
        restarting.start()
        in_threads(4, load)
        restarting.join()
        self.assertEqual({status for status, _ in seen}, {200}, seen)
        self.assertEqual(len(seen), 4, "each instance answered")
        self.assertEqual(self.service(gateway, "demo")["failed_starts"], 0)

    def test_a_service_that_cannot_start(self):
        gateway = self.operated(demo={"argv": ["/bin/sh", "-c", "exit 4"]})
        self.assertIn("status 4", self.cli(gateway, "start", "demo", code=1))


class Logs(Operated):
    def test_last_lines_and_follow(self):
        script = (
            "import sys, pilotlight; said = lambda r: print(r.target.split('=')[1], file=sys.stderr, flush=True);"
            "pilotlight.serve(lambda r: said(r) or (200, [], b''))"
        )
        gateway = self.operated(demo={"argv": [PYTHON, "-c", script], "env": {"PYTHONPATH": str(ROOT / "sdk" / "python")}})
        gateway.get("/?say=one")
        self.assert_eventually(lambda: "one" in self.cli(gateway, "logs", "demo"), "a printed line is not kept")
        command = [str(BINARY), "logs", "-f", "-n", "0", "demo", "--socket", str(self.socket(gateway))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
            self.addCleanup(following.kill)
            # It begins at some moment: lines are printed until the first one comes.
            stop = threading.Event()

            def talk():
                number = 0
                while not stop.is_set():
                    gateway.get(f"/?say=line{number}")
                    number += 1

            talking = threading.Thread(target=talk)
            talking.start()
            lines = [following.stdout.readline() for _ in range(20)]
            stop.set()
            talking.join()
            following.kill()
        self.assertTrue(all(re.fullmatch(r"demo#1 \| line\d+\n", line) for line in lines), lines)
        numbers = [int(line.split("line")[1]) for line in lines]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 20)), "lines are missing or twice")
        answer = self.ask(gateway, "GET", "/services/demo/logs?lines=1")
        line = json.loads(answer.read())
        self.assertEqual((line["instance"], line["output"]), (1, "stderr"))

    def test_followers_do_not_hold_up_the_end(self):
        gateway = self.operated()
        gateway.get("/pid")
        answer = self.ask(gateway, "GET", "/services/demo/logs?follow=1&lines=0")
        self.assertEqual(answer.status, 200)
        self.assertEqual(gateway.stop(), 0)


class PurgeAndExplain(Operated):
    def url(self, gateway, target):
        return "http://demo.test" + target

    def explain(self, gateway, target, **more):
        query = "".join(f"&{name}={percent(value)}" for name, value in more.items())
        return self.admin(gateway, f"/explain?url={percent(self.url(gateway, target))}{query}")

    def test_purge_makes_the_next_one_a_miss(self):
        gateway = self.operated()
        target = f"/web/make?{FRESH}"
        first = gateway.get(target).body
        self.assertEqual(gateway.get(target).body, first)
        self.assertIn("purged", self.cli(gateway, "purge", self.url(gateway, target)))
        self.assertIn("nothing was stored", self.cli(gateway, "purge", self.url(gateway, target)))
        self.assertNotEqual(gateway.get(target).body, first)

    def test_explain(self):
        gateway = self.operated()
        target = f"/web/make?{FRESH}"
        cold = self.explain(gateway, target)
        self.assertEqual((cold["route"]["name"], cold["service"]["state"]), ("/web", "stopped"))
        self.assertEqual((cold["cache"]["verdict"], cold["cache"]["rule"]), ("miss", "RFC 9111 §4"))
        gateway.get(target)
        hit = self.explain(gateway, target)
        self.assertEqual((hit["cache"]["verdict"], hit["cache"]["stored"]["status"]), ("hit", 200))
        self.assertTrue(590 <= hit["cache"]["stored"]["ttl_seconds"] <= 600)
        self.assertEqual(self.explain(gateway, target, field="cache-control: no-cache")["cache"]["verdict"], "stale")
        self.assertEqual(self.explain(gateway, target, method="POST")["cache"]["verdict"], "bypass")
        self.assertEqual(self.explain(gateway, "/pid")["cache"]["verdict"], "off")
        gateway.get("/web/make?h=cache-control:no-store")
        told = self.explain(gateway, "/web/make?h=cache-control:no-store")
        self.assertEqual((told["cache"]["verdict"], told["cache"]["not_stored_so_far"]), ("miss", {"no-store": 1}))
        self.assertIn("limits.body_size", [limit["setting"] for limit in told["limits"]])
        self.assertIn("RFC 9111", self.cli(gateway, "explain", self.url(gateway, target)))
        self.assertEqual(gateway.get(target).body, gateway.get(target).body, "explaining changed what is stored")

    def test_explain_without_a_route(self):
        gateway = self.start(Gateway(BINARY, config(service(), route("/only"), ADMIN)))
        told = self.explain(gateway, "/other")
        self.assertEqual((told["route"], told["status"], told["routes"]), (None, 404, ["/only"]))
        self.assertIn("none", self.cli(gateway, "explain", "/other"))
        # What the answer names is what lists the routes.
        self.assertIn("`pilotlight explain URL`", self.assert_problem(gateway.get("/other"), 404)["detail"])
        self.assertIn("/only", self.cli(gateway, "explain", "/other"))


class ServerTiming(Operated):
    ASK = (("X-Pilotlight-Timing", "1"),)

    def timing(self, answer):
        [value] = [v for v in answer.all("server-timing") if "total" in v]
        parts = {name: float(ms) for name, ms in re.findall(r"([a-z-]+);dur=([0-9.]+)", value)}
        total = parts.pop("total")
        self.assertAlmostEqual(sum(parts.values()), total, delta=max(total * 0.02, 1e-5), msg=value)
        return parts, total

    def test_cold_and_warm_add_up(self):
        gateway = self.operated()
        for target, phases in (("/sleep?ms=50", ("spawn", "connect", "ready")), ("/web/make?ms=50", ("spawn",))):
            cold, total = self.timing(gateway.get(target, self.ASK))
            self.assertLessEqual({"parse", "route", "queue", "service", *phases}, cold.keys())
            self.assertGreater(cold["service"], 50)
            warm, warm_total = self.timing(gateway.get(target, self.ASK))
            self.assertFalse(warm.keys() & {"spawn", "connect", "ready", "start"}, "a warm request has phases of a start")
            self.assertTrue(50 < warm["service"] < warm_total < 1000)
            self.assertLess(warm_total, total)

    def test_a_hit_and_a_problem(self):
        gateway = self.operated()
        target = f"/web/make?{FRESH}"
        gateway.get(target)
        hit, _ = self.timing(gateway.get(target, self.ASK))
        self.assertEqual(hit.keys(), {"parse", "route", "cache"})
        self.assertIsNone(gateway.get(target).get("server-timing"))
        gateway = self.operated(demo={"argv": ["/bin/sh", "-c", "exit 4"]})
        failed, _ = self.timing(gateway.get("/", self.ASK))
        self.assertIn("start", failed)

    def test_settings(self):
        self.assertIsNone(self.operated().get("/pid").get("server-timing"), "on request is the default")
        never = self.operated(server_timing="never")
        self.assertIsNone(never.get("/pid", self.ASK).get("server-timing"))
        always = self.operated(server_timing="always")
        self.timing(always.get("/pid"))
        target = f"/web/make?{FRESH}"
        for _ in range(3):
            self.timing(always.get(target))

    def test_what_the_service_says_stays(self):
        gateway = self.operated()
        answer = gateway.get("/web/make?h=server-timing:db;dur=3&h=cache-control:no-store", self.ASK)
        self.assertEqual(answer.all("server-timing")[0], "db;dur=3")
        self.timing(answer)


class Metrics(Operated):
    def test_they_parse_count_and_never_fall(self):
        gateway = self.operated()
        self.metrics(gateway)
        before = None
        for turn in range(1, 4):
            gateway.get("/pid")
            gateway.get(f"/web/make?{FRESH}")
            gateway.get(f"/web/make?{FRESH}")
            gateway.request("POST", "/echo", body=b"x" * 1000)
            families, samples = self.metrics(gateway, 4 * turn)
            requests = {key: value for key, value in samples.items() if key[0] == "pilotlight_requests_total"}
            self.assertEqual(sum(requests.values()), 4 * turn)
            if before:
                for (name, labels), value in before.items():
                    if families[family(name, families)] in ("counter", "histogram"):
                        self.assertGreaterEqual(samples[name, labels], value, f"{name} {labels}")
            before = samples
        self.assertEqual(samples["pilotlight_request_body_bytes_total", (("route", "/"), ("service", "demo"))], 3000)
        hits = {labels: value for (name, labels), value in requests.items() if ("cache", "hit") in labels}
        self.assertEqual(list(hits.values()), [5])

    def test_layers_add_up(self):
        gateway = self.operated()
        for _ in range(5):
            gateway.get("/sleep?ms=20")
            gateway.get(f"/web/make?{FRESH}")
            gateway.get("/slow?chunks=11&ms=10")
        _, samples = self.metrics(gateway, 15)
        for labels in ((("route", "/"), ("service", "demo")), (("route", "/web"), ("service", "web"))):
            total = samples["pilotlight_request_duration_seconds_sum", labels]
            each = {layer: samples.get(("pilotlight_layer_duration_seconds_sum", (("layer", layer), *labels)), 0) for layer in LAYERS}
            self.assertAlmostEqual(sum(each.values()), total, delta=1e-9)
            if labels[0][1] == "/":
                self.assertGreater(each["service"], 0.1)
                # A late look at a head gives time of the body to the service: together they have all of it, and the body most.
                self.assertGreater(each["service"] + each["body"], 0.6)
                self.assertGreater(each["body"], 0.1)

    def test_histograms_are_cumulative(self):
        gateway = self.operated()
        for _ in range(10):
            gateway.get("/pid")
        _, samples = self.metrics(gateway, 10)
        series = {}
        for (name, labels), value in samples.items():
            if name.endswith("_bucket"):
                rest = tuple(pair for pair in labels if pair[0] != "le")
                series.setdefault((name[:-7], rest), []).append((float(dict(labels)["le"].replace("+Inf", "inf")), value))
        self.assertTrue(series)
        for (name, labels), buckets in series.items():
            counts = [value for _, value in sorted(buckets)]
            self.assertEqual(counts, sorted(counts))
            self.assertEqual(counts[-1], samples[name + "_count", labels])

    def series(self, samples):
        """Names of series; which layers and classes were met is another matter."""
        return {tuple(pair for pair in labels if pair[0] in ("route", "service")) for _, labels in samples}

    def test_urls_make_no_series(self):
        gateway = self.operated()
        gateway.get("/pid")
        before = self.metrics(gateway, 1)[1].keys()
        for number in range(50):
            gateway.get(f"/status?code=200&n={number}", host=f"h{number}.test")
        self.assertEqual(self.series(self.metrics(gateway, 51)[1]), self.series(before))

    def test_over_tcp(self):
        gateway = self.operated('[metrics]\nlisten = "127.0.0.1:0"\n')
        port = int(self.find_output(gateway, r"metrics on http://127.0.0.1:(\d+)")[1])
        for target, status in (("/metrics", 200), ("/status", 404), ("/services/demo/stop", 404)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", target)
            answer = connection.getresponse()
            self.assertEqual(answer.status, status)
            text = answer.read().decode()
            connection.close()
            if status == 200:
                self.assertEqual(answer.getheader("content-type"), "text/plain; version=0.0.4; charset=utf-8")
                parsed(text)

    def test_what_was_no_request_is_counted(self):
        gateway = self.operated()
        with gateway.client() as client:
            client.send(b"nonsense\r\n\r\n")
            self.assertEqual(client.answer().status, 400)
        labels = (("cache", "off"), ("code", "4xx"), ("route", "none"), ("service", "none"))
        counted = lambda: self.metrics(gateway)[1].get(("pilotlight_requests_total", labels)) == 1  # noqa: E731
        self.assert_eventually(counted, "a rejected head is not counted")


class AccessLog(Operated):
    HOSTILE = 'a"b\\c\x1b[2J\x7f{"status":500}'

    def log(self, gateway):
        path = gateway.folder / "access.log"
        return path.read_text().splitlines() if path.exists() else []

    def lines(self, gateway, count):
        self.assert_eventually(lambda: len(self.log(gateway)) >= count, f"not {count} lines")
        return self.log(gateway)

    def test_json_with_every_kind_of_answer(self):
        gateway = self.operated('[access_log]\npath = "access.log"\n')
        target = f"/web/make?{FRESH}"
        for wanted in ("/pid", "/status?code=404", target, target):
            gateway.get(wanted)
        logged = [json.loads(line) for line in self.lines(gateway, 4)]
        logged.sort(key=lambda line: line["time"])
        self.assertEqual([line["status"] for line in logged], [200, 404, 200, 200])
        self.assertEqual([line["cache"] for line in logged], ["off", "off", "miss", "hit"])
        self.assertEqual([line["service"] for line in logged], ["demo", "demo", "web", "web"])
        self.assertEqual(logged[2]["target"], target)
        self.assertTrue(all(line["duration_ms"] > 0 and line["host"] == "demo.test" for line in logged))
        self.assertEqual(logged[3]["bytes_sent"], logged[2]["bytes_sent"])

    def test_hostile_values(self):
        for form in ("json", "text"):
            gateway = self.operated(
                f'[access_log]\npath = "access.log"\nformat = "{form}"\nfields = ["status", "user_agent", "path", "referer"]\n'
            )
            target = f"/web/make?{FRESH}"
            for wanted in ("/pid", target, target):  # an exchange, and hits
                gateway.get(wanted, [("User-Agent", self.HOSTILE.replace("\x1b", "\t").replace("\x7f", "")), ("Referer", "\xff\xfe")])
            lines = self.lines(gateway, 3)
            self.assertEqual(len(lines), 3, "a value made a line of its own")
            for line in lines:
                self.assertTrue(line.isprintable(), line)
                if form == "json":
                    logged = json.loads(line)
                    self.assertEqual(logged["user_agent"], 'a"b\\c\t[2J{"status":500}')
                    self.assertEqual((logged["status"], logged["referer"]), (200, "\ufffd\ufffd"))
                else:
                    self.assertTrue(line.startswith('200 "a\\x22b\\x5cc\\x09[2J{'), line)
                    self.assertTrue(line.endswith('"\\xff\\xfe"'), line)

    def test_rotation_by_signal(self):
        gateway = self.operated('[access_log]\npath = "access.log"\n')
        gateway.get("/pid")
        self.lines(gateway, 1)
        (gateway.folder / "access.log").rename(gateway.folder / "old.log")
        gateway.signal(signal.SIGUSR1)
        self.assert_eventually((gateway.folder / "access.log").exists, "SIGUSR1 does not open the file anew")
        gateway.get("/pid")
        self.lines(gateway, 1)
        self.assertEqual(len((gateway.folder / "old.log").read_text().splitlines()), 1)

    def test_the_signal_is_harmless_without_a_log(self):
        gateway = self.operated()
        gateway.signal(signal.SIGUSR1)
        self.assert_status(gateway.get("/status?code=200"), 200)

    def test_the_last_lines_are_written_at_the_end(self):
        gateway = self.operated('[access_log]\npath = "@FOLDER@/../@NAME@.log"\n'.replace("@NAME@", f"pilotlight-log-{os.getpid()}"))
        path = gateway.folder.parent / f"pilotlight-log-{os.getpid()}.log"
        self.addCleanup(path.unlink)
        gateway.get("/status?code=200")
        self.assertEqual(gateway.stop(), 0)
        self.assertEqual(len(path.read_text().splitlines()), 1)

    def test_a_reader_that_does_not_read_holds_nobody_up(self):
        """The log is a FIFO that nobody empties: requests go on, lines are dropped and counted."""
        fifo = f"/tmp/pilotlight-fifo-{os.getpid()}"
        os.mkfifo(fifo)
        self.addCleanup(os.unlink, fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        gateway = self.operated(f'[access_log]\npath = "{fifo}"\nfields = ["time", "target", "path", "host", "user_agent"]\n')
        long = "x" * 2000
        dropped = lambda: self.admin(gateway, "/status")["gateway"]["access_log_lines_dropped"]  # noqa: E731

        def load(_):
            with gateway.client() as client:
                for _ in range(250):
                    self.assertEqual(client.request("GET", f"/status?code=200&{long}", [("User-Agent", long)]).status, 200)

        in_threads(4, load)
        more = eventually(lambda: (load(0), dropped() > 0)[1], 30)
        self.assertTrue(more, "nothing was dropped although nobody reads")


def parsed(text):
    """The exposition format: ({family: type}, {(name, sorted labels): value}). Raises on anything else."""
    families, samples = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            if name in families or kind not in ("counter", "gauge", "histogram"):
                raise ValueError(line)
            families[name] = kind
        elif not line.startswith("# HELP "):
            labels = r'(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})?'
            found = re.fullmatch(rf"([a-z_][a-z0-9_]*){labels} ([0-9.e+-]+)", line)
            if not found:
                raise ValueError(line)
            labels = tuple(sorted(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', found[2] or "")))
            if (found[1], labels) in samples or family(found[1], families) not in families:
                raise ValueError(line)
            samples[found[1], labels] = float(found[3])
    return families, samples


def family(name, families):
    return name if name in families else re.sub(r"_(bucket|sum|count)$", "", name)


if __name__ == "__main__":
    unittest.main()
