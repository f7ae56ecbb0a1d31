"""Nobody waits for what does not come: a standard error that nobody reads, a port that is not open yet."""

import contextlib
import json
import re
import signal
import subprocess
import threading
import unittest

from harness import BINARY, PYTHON, Gateway, TestCase, config, in_threads, route, service, setUpModule
from load import THINK_TIME
from test_operate import ADMIN, Unix

__all__ = ["setUpModule"]

LIMIT = 30.0  # for what takes milliseconds on a quiet machine


class Unread(Gateway):
    """Its standard error is a pipe that nobody reads, until `read` is called."""

    def start(self):
        (self.folder / "pilotlight.toml").write_text(self._config.replace("@FOLDER@", str(self.folder)))
        self.process = subprocess.Popen(
            [self._binary, "--config", "pilotlight.toml"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        threading.Thread(target=self._read_output, args=(self.process.stdout,), daemon=True).start()
        self.address = self._ready.get(timeout=LIMIT)
        return self

    def read(self):
        threading.Thread(target=self._read_output, args=(self.process.stderr,), daemon=True).start()

    def stop(self):
        status = super().stop()
        if not self.process.stderr.closed and not self._output:
            self.process.stderr.close()
        return status


class Case(TestCase):
    def status(self, gateway):
        with contextlib.closing(Unix(gateway.folder / "admin.sock")) as connection:
            connection.request("GET", "/status")
            return json.loads(connection.getresponse().read())


class StandardError(Case):
    def gateway(self):
        """Its service `gone` fails each request, with a line for each in the log."""
        blocks = service(), service("gone", url="http://127.0.0.1:1"), route(), route("/gone", "gone"), ADMIN
        gateway = Unread(BINARY, config(*blocks), start_limit=LIMIT, stop_limit=LIMIT)
        return self.start(gateway)

    def fill(self, gateway):
        """More than a pipe takes, by workers and by a service."""

        def fail(_):
            with gateway.client(LIMIT) as client:
                for _ in range(300):
                    self.assert_status(client.request("GET", "/gone"), 502)

        in_threads(4, fail)
        self.assert_status(gateway.get("/flood?bytes=20000000", timeout=2 * LIMIT), 200)

    def test_nobody_reads_it_and_requests_go_on(self):
        gateway = self.gateway()
        self.fill(gateway)
        self.assert_status(gateway.get("/pid", timeout=LIMIT), 200)
        dropped = lambda: self.status(gateway)["gateway"]["log_lines_dropped"]  # noqa: E731
        self.assert_eventually(lambda: dropped() > 0, "nothing was dropped although nobody reads", LIMIT)
        kept = subprocess.run(
            [BINARY, "logs", "demo", "--socket", str(gateway.folder / "admin.sock")], capture_output=True, text=True, timeout=LIMIT
        )
        self.assertGreaterEqual(len(kept.stdout.splitlines()), 100, "the last lines of the service, and what was dropped between")
        gateway.read()
        said = lambda: re.search(r"(\d+) lines? dropped: the standard error was not read", gateway.output())  # noqa: E731
        self.assert_eventually(said, "it is not said that something is missing", LIMIT)
        answer = gateway.get("/gone", timeout=LIMIT)
        self.assert_eventually(lambda: answer.get("x-request-id") in gateway.output(), "what comes now is not written", LIMIT)

    def test_nobody_reads_it_and_it_stops(self):
        gateway = self.gateway()
        self.fill(gateway)
        gateway.signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(LIMIT), 0)

    def test_nobody_has_it_any_more(self):
        gateway = self.gateway()
        gateway.process.stderr.close()
        self.fill(gateway)
        gateway.signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(LIMIT), 0)


# Takes its time before it accepts: on the socket that it inherits, or on a port of its own.
LATE = """\
import http.server, os, socket, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536  # head and body in one packet
    def log_message(self, *_): pass
    def do_GET(self):
        body = str(os.getpid()).encode()
        self.send_response(200)
        self.send_header("content-length", len(body))
        self.end_headers()
        self.wfile.write(body)
time.sleep(float(sys.argv[1]))
if "PORT" in os.environ:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
else:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket = socket.socket(fileno=3)
    server.get_request = lambda: (server.socket.accept()[0], ("local", 0))
server.serve_forever()
"""


class LateServices(Case):
    SECONDS = 1.5

    def gateway(self, seconds=SECONDS, **settings):
        blocks = service("late", [PYTHON, "-S", "late.py", str(seconds)], transport="http", dir="@FOLDER@", **settings), route(service="late"), ADMIN
        gateway = Gateway(BINARY, config(*blocks), start_limit=LIMIT, stop_limit=LIMIT)
        (gateway.folder / "late.py").write_text(LATE)
        return self.start(gateway)

    def command(self, gateway, *words):
        done = subprocess.run(
            [BINARY, *words, "--socket", str(gateway.folder / "admin.sock")], capture_output=True, text=True, timeout=2 * LIMIT
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def state(self, gateway):
        return self.status(gateway)["services"][0]["state"]

    def took(self, gateway):
        """Seconds until each instance was ready, as the log says."""
        units = {"s": 1, "ms": 1e-3, "µs": 1e-6}
        return [float(number) * units[unit] for number, unit in re.findall(r" ready service=late .*took=([0-9.]+)(ms|µs|s)", gateway.output())]

    def check(self, **settings):
        gateway = self.gateway(**settings)
        self.command(gateway, "start", "late", "--no-wait")
        self.assert_eventually(lambda: self.state(gateway) == "starting", "it does not start", LIMIT)
        self.command(gateway, "start", "late")
        self.assertEqual(self.state(gateway), "ready")
        self.assert_eventually(lambda: len(self.took(gateway)) == 1, "nothing is said", LIMIT)
        self.assertGreater(self.took(gateway)[0], self.SECONDS)
        self.assert_status(gateway.get("/", timeout=LIMIT), 200)

    def test_ready_is_said_when_it_accepts_on_an_inherited_socket(self):
        self.check()

    def test_ready_is_said_when_it_accepts_on_an_inherited_tcp_socket(self):
        self.check(socket="tcp")

    def test_ready_is_said_when_it_accepts_on_its_port(self):
        self.check(socket="port")

    def test_the_first_request_waits_and_the_log_says_when_it_accepted(self):
        gateway = self.gateway()
        self.assert_status(gateway.get("/", timeout=LIMIT), 200)
        self.assert_eventually(lambda: len(self.took(gateway)) == 1, "nothing is said", LIMIT)
        self.assertGreater(self.took(gateway)[0], self.SECONDS)

    def test_start_timeout_counts_until_it_accepts(self):
        gateway = self.gateway(seconds=1000, start_timeout="500ms", min_instances=1)
        self.assert_eventually(lambda: "never accepted a connection" in gateway.output(), "it is waited for without end", LIMIT)
        self.assertEqual(self.took(gateway), [])

    def test_a_restart_lets_the_old_one_serve_until_the_new_one_accepts(self):
        gateway = self.gateway()
        old = gateway.get("/", timeout=LIMIT).body
        self.command(gateway, "restart", "late", "--no-wait")
        pids = lambda: [one["pid"] for one in self.status(gateway)["services"][0]["instances"]]  # noqa: E731
        self.assert_eventually(lambda: len(pids()) == 2, "no successor", LIMIT)
        self.assertEqual(gateway.get("/", timeout=LIMIT).body, old, "the successor does not accept yet")
        self.assert_eventually(lambda: gateway.get("/", timeout=LIMIT).body != old, "the successor is not used", LIMIT)
        self.assert_eventually(lambda: len(pids()) == 1, "the old one stays", LIMIT)


class StopUnderLoad(Case):
    """Requests go on, so the service is started again at once: the command ends all the same, and says what it did."""

    def loaded(self, *words, code=0, **settings):
        """What `stop` says while four clients send requests, one answer is in progress and one has no end."""
        gateway = Gateway(BINARY, config(service(**settings), route(), ADMIN), start_limit=LIMIT, stop_limit=LIMIT)
        self.start(gateway)
        over, statuses = threading.Event(), []

        def load(_):
            while not over.wait(THINK_TIME):
                statuses.append(gateway.get("/pid", timeout=LIMIT).status)

        with gateway.client(LIMIT) as finishing, gateway.client(LIMIT) as endless:
            finishing.send_head("GET", "/slow?chunks=4&ms=250")
            finished = finishing.body(finishing.head())
            endless.send_head("GET", "/wait?id=x")
            endless.head()
            threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            try:
                socket = str(gateway.folder / "admin.sock")
                done = subprocess.run([BINARY, "stop", "demo", *words, "--socket", socket], capture_output=True, text=True, timeout=2 * LIMIT)
            finally:
                over.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            if code == 0:
                self.assertEqual(b"".join(finished).count(b"\n"), 4)
        self.assertEqual(set(statuses), {200})
        return done

    def test_it_says_what_it_stopped_and_how_requests_ended(self):
        done = self.loaded(drain_timeout="2s", stop_grace="1s")
        self.assertIn("demo stopped: 1 instance", done.stdout)
        self.assertRegex(done.stdout, r"[1-9]\d* requests? in flight finished, 1 cut after its drain_timeout")
        self.assertIn("a request has started it again: instance 2", done.stdout)

    def test_as_json(self):
        told = json.loads(self.loaded("--json", drain_timeout="2s", stop_grace="1s").stdout)
        self.assertEqual((told["stop"]["instances"], told["stop"]["cut"]), (1, 1))
        self.assertGreaterEqual(told["stop"]["finished"], 1)

    def test_what_is_left_when_its_patience_is_over(self):
        done = self.loaded("--timeout", "2", code=1, drain_timeout="20s", stop_grace="1s")
        self.assertRegex(done.stderr, r"instance 1 still has 1 request in flight")


if __name__ == "__main__":
    unittest.main()
