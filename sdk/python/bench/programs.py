"""What the benches share: programs that are started and stopped, and their CPU time, from /proc (Linux)."""
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass

START_SECONDS = 20
STOP_SECONDS = 5
POLL_SECONDS = 0.02
# what a service inherits: as little as on a server, so that start-up does not depend on whose shell this is
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# utime, stime, cutime, cstime, counted from the field after the command's name
CPU_FIELDS = (11, 12, 13, 14)
# schedstat forgets threads that have ended; beyond this difference from the ticks some have
ENDED_THREADS_SECONDS = 2.5 / TICKS_PER_SECOND


class Failed(RuntimeError):
    """A variant cannot be measured; the text says why and what to do."""


class Program:
    """A running program with its descendants."""

    def __init__(self, command, log, core, environment=None):
        self.name = os.path.basename(str(command[0]))
        self.log = log
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                ["taskset", "-c", str(core), *map(str, command)], env=ENVIRONMENT | (environment or {}),
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    @property
    def pids(self):
        return tree(self.process.pid)

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
        lines = read(self.log).strip().splitlines()
        return " | ".join(lines[-3:]) or "it wrote nothing"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]



def read(path):
    """The file's text, or "" if its process has gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def stat_fields(pid):
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def tree(pid):
    """pid and all its descendants."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = stat_fields(name)
        if fields:
            children.setdefault(int(fields[1]), []).append(int(name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


def executable(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except OSError:
        return ""


@dataclass
class CpuTime:
    """CPU seconds of some processes so far: in ticks, which count ended threads, and in nanoseconds, which do not."""

    ticks: float
    exact: float

    @classmethod
    def of(cls, pids):
        ticks = exact = 0
        for pid in pids:
            fields = stat_fields(pid)
            if fields:
                ticks += sum(int(fields[i]) for i in CPU_FIELDS)
                exact += sum(thread_nanoseconds(pid))
        return cls(ticks / TICKS_PER_SECOND, exact / 1e9)

    def since(self, before):
        ticks, exact = self.ticks - before.ticks, self.exact - before.exact
        return exact if abs(exact - ticks) <= ENDED_THREADS_SECONDS else ticks


def thread_nanoseconds(pid):
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        text = read(f"/proc/{pid}/task/{thread}/schedstat")
        if text:
            yield int(text.split()[0])
