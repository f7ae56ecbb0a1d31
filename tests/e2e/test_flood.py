"""A flood of distinct targets: the memory of the process stays within what `cache.memory` says, and a tenth (issue 6, no. 2).

TARGETS=N plays another number than 30,000 (60,000 in the long form); the lab's section `flood` plays 10 million.
"""

import os
import unittest
from pathlib import Path

from flood import Origin, ask
from harness import BINARY, IS_LONG, Gateway, TestCase, config, route, service, setUpModule

__all__ = ["setUpModule"]

MEMORY_MIB = 16
TARGETS = int(os.environ.get("TARGETS", 60_000 if IS_LONG else 30_000))
WARM_UP = 2_000
# one in so many is asked for again, at once: a hit takes memory, too
REPEAT = 8


def rss(pid):
    """Bytes that are the process's own."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024


def targets(first, count):
    for n in range(first, first + count):
        target = f"/flood/{n}/of/distinct/targets/{n * 7919 % 1000}"
        yield target
        if n % REPEAT == 0:
            yield target


class Flood(TestCase):
    def test_memory_stays_within_the_limit_and_a_tenth(self):
        with Origin() as origin:
            blocks = (service("web", url=origin.url), route(service="web", cache=True), f'[cache]\nmemory = "{MEMORY_MIB}MiB"\n')
            gateway = self.start(Gateway(BINARY, config(*blocks)))
            pid = gateway.process.pid
            # Connections and their buffers are not the cache's.
            ask(gateway.address, (f"/warm/{n}/0" for n in range(WARM_UP)))
            before, peak, right = rss(pid), 0, 0
            for first in range(0, TARGETS, TARGETS // 20):
                right += ask(gateway.address, targets(first, TARGETS // 20))
                peak = max(peak, rss(pid))
        self.assertEqual(right, TARGETS + TARGETS // REPEAT, "not every answer was right")
        growth = (peak - before) / 2**20
        self.assertLess(growth, MEMORY_MIB * 1.1, "MiB more than before the flood")
        self.assertGreater(growth, MEMORY_MIB / 3, "the cache was not filled, so nothing was tested")


if __name__ == "__main__":
    unittest.main()
