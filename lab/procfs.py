"""CPU time and memory of process trees, from /proc (Linux)."""
import os
from dataclasses import dataclass

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# utime, stime, cutime, cstime, counted from the field after the command's name
CPU_FIELDS = (11, 12, 13, 14)
# schedstat forgets threads that have ended; beyond this difference from the ticks some have
ENDED_THREADS_SECONDS = 2.5 / TICKS_PER_SECOND


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


def memory_mb(pids, key):
    """Sum of VmRSS or VmHWM (/proc/PID/status) or Pss (/proc/PID/smaps_rollup), in units of 1,048,576 bytes."""
    name = "smaps_rollup" if key == "Pss" else "status"
    kilobytes = 0
    for pid in pids:
        for line in read(f"/proc/{pid}/{name}").splitlines():
            if line.startswith(key + ":"):
                kilobytes += int(line.split()[1])
    return kilobytes / 1024
