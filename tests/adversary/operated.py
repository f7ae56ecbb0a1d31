"""A gateway that is operated while it is attacked: commands, its state, its successors, and every process that belongs to it.

Processes are known by a mark in their environment, which they inherit however often they fork: see `left`.
"""

import json
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

from harness import BINARY, Gateway, config, eventually
from test_operate import ADMIN, Unix

MARK = "ADVERSARY_RUN"
COMMAND_LIMIT = 120.0
END_LIMIT = 60.0


class Operated:
    """`with Operated(blocks) as operated:`; `blocks(version)` gives the parts of its file, which may be another at each writing."""

    def __init__(self, blocks, dev=False, **settings):
        self.mark = uuid.uuid4().hex
        self._blocks, self._settings = blocks, {"dev": dev} | settings
        before = os.environ.get(MARK)
        os.environ[MARK] = self.mark
        try:
            self.gateway = Gateway(BINARY, self._text(0), start_limit=60.0, stop_limit=60.0).start()
        finally:
            if before is None:
                del os.environ[MARK]
            else:
                os.environ[MARK] = before
        self.address, self.folder = self.gateway.address, self.gateway.folder

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _text(self, version):
        return config(*self._blocks(version), ADMIN, **self._settings)

    def write(self, version, text=None):
        text = self._text(version) if text is None else text
        (self.folder / "pilotlight.toml").write_text(text.replace("@FOLDER@", str(self.folder)))

    def command(self, *arguments):
        """The exit code, and what was printed."""
        done = subprocess.run(
            [str(BINARY), *arguments, "--socket", str(self.folder / "admin.sock")], capture_output=True, text=True, timeout=COMMAND_LIMIT, cwd=self.folder
        )
        return done.returncode, done.stdout + done.stderr

    def ask(self, target):
        connection = Unix(self.folder / "admin.sock")
        connection.timeout = 60
        try:
            connection.request("GET", target)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def pid(self):
        return self.ask("/status")["gateway"]["pid"]

    def instances(self, name):
        """The process ids of a service."""
        return [one["pid"] for one in self.ask(f"/services/{name}")["instances"] if one["pid"]]

    def guardian(self):
        """The process that kills services when the gateway is gone."""
        gateway = self.pid()
        for pid in marked(self.mark):
            line = command_line(pid)
            if parent(pid) == gateway and " guardian" in line:
                return pid
        return None

    def stop(self):
        """SIGTERM to whatever gateway it is now; SIGKILL if that was not enough."""
        try:
            pid = self.pid()
        except (OSError, ValueError):
            pid = None
        if pid and pid != self.gateway.process.pid:
            with Quiet():
                os.kill(pid, signal.SIGTERM)
        self.gateway.stop()

    def left(self, limit=END_LIMIT):
        """The processes that are still there so long after the end: pid -> command line. They are killed."""
        eventually(lambda: not marked(self.mark), limit, 0.1)
        found = {pid: command_line(pid) for pid in marked(self.mark)}
        for pid in found:
            with Quiet():
                os.kill(pid, signal.SIGKILL)
        return found

    def finish(self, report):
        """Stops it; whatever is left is a finding."""
        self.stop()
        for pid, line in self.left().items():
            report.wrong("left", "end", f"process {pid} has outlived its gateway: {line}")
        for line in self.gateway.output().splitlines():
            if "panicked at" in line:
                report.wrong("unexplained", "end", line)


class Quiet:
    """What has gone needs no signal."""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        return kind is not None and issubclass(kind, (ProcessLookupError, FileNotFoundError))


def marked(mark):
    """Processes with this mark that run (zombies do not)."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if wanted in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
            except OSError:
                continue
    return found


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def parent(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def until(check, limit, what):
    """Waits for an event; raises TimeoutError at the limit."""
    deadline = time.monotonic() + limit
    while not (found := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {limit:g} s")
        time.sleep(0.02)
    return found
