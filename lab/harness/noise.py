"""How much the machine disturbs what is measured on it, by the rules and the limits of lab/src/experiment/noise.rs."""
import os
import time
from dataclasses import dataclass

from .procfs import read

MAX_SPREAD, MAX_BUSY, MAX_STEAL = 0.25, 0.10, 0.02
# so long it is waited for a machine to become quiet: whoever starts a run has often just built something
MAX_WAIT_SECONDS = 20
PIECES, STEPS = 200, 8_000
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Ticks:
    """Time of all processors together since the system started."""

    all: int
    busy: int
    steal: int

    @classmethod
    def parse(cls, text):
        """`cpu  user nice system idle iowait irq softirq steal …` (proc_stat(5))."""
        line = next(line for line in text.splitlines() if line.startswith("cpu "))
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, line.split()[1:9])
        busy = user + nice + system + irq + softirq
        return cls(busy + idle + iowait + steal, busy, steal)

    @classmethod
    def now(cls):
        return cls.parse(read("/proc/stat"))

    def since(self, before):
        return Ticks(self.all - before.all, self.busy - before.busy, self.steal - before.steal)

    def others(self, own_seconds):
        """The share of the processors that was neither idle nor this process's; None if no time has passed."""
        return max(self.busy - own_seconds * TICKS_PER_SECOND, 0) / self.all if self.all else None


@dataclass
class Probe:
    """One look at the machine."""

    spread: float
    busy: float

    @classmethod
    def take(cls):
        ticks, own = Ticks.now(), time.process_time()
        times = sorted(piece() for _ in range(PIECES))
        own = time.process_time() - own
        low, middle, high = (times[(PIECES - 1) * percent // 100] for percent in (10, 50, 90))
        return cls((high - low) / middle, Ticks.now().since(ticks).others(own))

    def too_much(self):
        """What is above its limit, or None."""
        parts = []
        if self.spread > MAX_SPREAD:
            parts.append(f"the times of equal work spread by {percent(self.spread)}, more than {percent(MAX_SPREAD)}")
        if self.busy is not None and self.busy > MAX_BUSY:
            parts.append(f"other programs used {percent(self.busy)} of the processors, more than {percent(MAX_BUSY)}")
        return " and ".join(parts) or None


class Watch:
    """Looks at the machine before a run and after it."""

    def __init__(self, note):
        self.load = os.getloadavg()[0]
        end = time.monotonic() + MAX_WAIT_SECONDS
        self.before = Probe.take()
        while (why := self.before.too_much()) and time.monotonic() < end:
            note(f"waiting for a quiet machine: {why}")
            time.sleep(1)
            self.before = Probe.take()
        self.ticks = Ticks.now()

    def end(self):
        """The report's `noise`."""
        after, passed = Probe.take(), Ticks.now().since(self.ticks)
        steal = passed.steal / passed.all if passed.all else None
        return noise([self.before, after], [self.load, os.getloadavg()[0]], steal)


def noise(probes, loads, steal):
    reasons = [f"{when} the run {why}" for when, why in zip(("before", "after"), (probe.too_much() for probe in probes)) if why]
    if steal is not None and steal > MAX_STEAL:
        reasons.append(f"other virtual machines took {percent(steal)} of the time, more than {percent(MAX_STEAL)}")
    return {"load_average": loads, "steal": steal, "spread": [probe.spread for probe in probes], "busy": [probe.busy for probe in probes],
            "refused": "; ".join(reasons) or None, "overridden": False}


def percent(share):
    """`12 %`, and decimals for small shares."""
    return f"{share * 100:.{1 if share * 100 < 9.95 else 0}f} %"


def piece():
    """Seconds of a piece of work that is always the same, about a millisecond of it."""
    begin, state = time.perf_counter(), 1
    for _ in range(STEPS):
        state = state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407 & 0xFFFF_FFFF_FFFF_FFFF
    return time.perf_counter() - begin
