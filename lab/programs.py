"""Starting and stopping the programs under measurement, and asking them for one answer."""
import http.client
import os
import signal
import socket
import subprocess
import time

import procfs

SERVER_CORE, LOAD_CORE = 0, 1
START_SECONDS = 20
STOP_SECONDS = 5
POLL_SECONDS = 0.02
# what a service inherits: as little as on a server, so that start-up does not depend on whose shell this is
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}


class Failed(RuntimeError):
    """A variant cannot be measured; the text says why and what to do."""


class Program:
    """A running program with its descendants; leaving the `with` block ends them all."""

    def __init__(self, command, log, core=SERVER_CORE, environment=None):
        self.name = os.path.basename(str(command[0]))
        self.log = log
        pin = ["taskset", "-c", str(core)] if core is not None else []
        with open(log, "ab") as output:
            try:
                self.process = subprocess.Popen(
                    pin + [str(part) for part in command], env={**ENVIRONMENT, **(environment or {})}, start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            except FileNotFoundError as error:
                raise Failed(f"{error.filename} is not installed; lab/setup.sh installs what is needed") from error

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    @property
    def pids(self):
        return procfs.tree(self.process.pid)

    def stop(self):
        """SIGTERM to the program, then SIGKILL to whatever of its tree is left."""
        family = self.pids
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in family[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def wait_until(self, ready):
        """Polls until `ready()` is true; a program that ends or takes too long is a failure with its last words."""
        end = time.monotonic() + START_SECONDS
        while not ready():
            if self.process.poll() is not None:
                raise Failed(f"{self.name} ended with status {self.process.returncode}: {self.last_words()}")
            if time.monotonic() > end:
                raise Failed(f"{self.name} was not ready after {START_SECONDS} s: {self.last_words()}")
            time.sleep(POLL_SECONDS)

    def last_words(self):
        lines = procfs.read(self.log).strip().splitlines()
        return " | ".join(lines[-3:]) or "it wrote nothing"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def accepts(address):
    """Whether a TCP port or a Unix socket path takes connections."""
    with dial(address, connect=False) as probe:
        try:
            probe.connect(address if isinstance(address, str) else ("127.0.0.1", address))
            return True
        except OSError:
            return False


def dial(address, connect=True, timeout=20):
    """A socket to a TCP port (a number) or a Unix socket (a path)."""
    unix = isinstance(address, str)
    sock = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
    sock.settimeout(timeout)
    if connect:
        sock.connect(address if unix else ("127.0.0.1", address))
    return sock


def get(port, path):
    """Status and body of one GET."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
