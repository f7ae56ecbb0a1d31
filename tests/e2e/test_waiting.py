"""Nobody waits for what does not come: a standard error that nobody reads, a port that is not open yet."""

import json
import re
import signal
import subprocess
import threading
import unittest

from harness import BINARY, DEMO, HERE, PYTHON, Gateway, TestCase, config, eventually, in_threads, route, service, setUpModule

__all__ = ["setUpModule"]

ADMIN = '[admin]\nsocket = "@FOLDER@/admin.sock"\n'
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
        done = subprocess.run(
            [BINARY, "status", "--json", "--socket", str(gateway.folder / "admin.sock")], capture_output=True, text=True, timeout=LIMIT
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


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
        self.assertEqual(len(kept.stdout.splitlines()), 100, "the last lines of the service")
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


if __name__ == "__main__":
    unittest.main()
