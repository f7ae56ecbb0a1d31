"""examples/users as a process of its own, and a Redis for it; both end with the test."""

import json
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

from harness import BINARY, Client
from programs import program

USERS = BINARY.parent / "users"
LISTENING = re.compile(r"listening on http://([0-9.]+):(\d+)")
START_LIMIT = 30.0
STOP_LIMIT = 30.0
JSON = [("Content-Type", "application/json")]


class Users:
    """`users --listen` on a free port. `before` goes in front of the command, `arguments` behind it."""

    def __init__(self, db, *arguments, before=(), threads=1):
        self.db = db
        self.command = [*before, str(USERS), "--db", str(db), "--listen", "127.0.0.1:0", "--threads", str(threads), *map(str, arguments)]
        self.process = None
        self.address = None
        self._said = []

    def start(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        ready = queue.Queue()
        threading.Thread(target=self._listen, args=(self.process.stdout, ready), daemon=True).start()
        self.address = ready.get(timeout=START_LIMIT)
        if self.address is None:
            raise AssertionError(f"the service ended with {self.process.wait(STOP_LIMIT)}: {self.said()}")
        return self

    def _listen(self, output, ready):
        with output:
            for line in output:
                self._said.append(line)
                if match := LISTENING.search(line):
                    ready.put((match[1], int(match[2])))
        ready.put(None)

    def said(self):
        return "".join(self._said)

    def client(self, timeout=30.0):
        return Client(self.address, timeout)

    def request(self, method, target, user=None, timeout=30.0):
        """One request on a connection of its own: status, fields, document."""
        with self.client(timeout) as client:
            return send(client, method, target, user)

    def kill(self):
        self.process.kill()
        self.process.wait(STOP_LIMIT)

    def terminate(self):
        """The exit status."""
        self.process.terminate()
        return self.process.wait(STOP_LIMIT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                self.kill()


def send(client, method, target, user=None):
    body = None if user is None else json.dumps(user).encode()
    answer = client.request(method, target, JSON if user is not None else (), body)
    answer.json = json.loads(answer.body) if answer.body else None
    return answer


class Redis:
    """A redis-server on a Unix socket."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="pilotlight-redis-"))
        self.socket = self.folder / "socket"
        self.process = None

    @property
    def url(self):
        return f"unix://{self.socket}"

    def start(self):
        server = program("redis-server", "valkey-server")
        self.socket.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [server, "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no", "--dir", str(self.folder)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        ready = queue.Queue()
        threading.Thread(target=self._listen, args=(self.process.stdout, ready), daemon=True).start()
        if not ready.get(timeout=START_LIMIT):
            raise AssertionError("redis-server did not start")
        return self

    @staticmethod
    def _listen(output, ready):
        with output:
            for line in output:
                if "eady to accept connections" in line:
                    ready.put(True)
        ready.put(False)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait(STOP_LIMIT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
