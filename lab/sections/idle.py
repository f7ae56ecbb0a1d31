"""Figure 6: memory of a gateway that has nothing to do, its helper process included."""
import time

from harness.gateway import Gateway
from harness.load import cbench
from harness.paths import PEER_BIN
from harness.procfs import memory_mb

from . import pipe

LIMIT_MB = 15
SETTLE_SECONDS = 2
COLUMNS = [("RSS MB", "rss", 1), ("PSS MB", "pss", 1), ("RSS MB after load", "rss_after", 1), ("processes", "processes", 0)]


def run(lab):
    samples = lab.run_rounds("idle", {"pilotlight": lambda: measured(lab)})
    lab.print_table("**Idle memory** (gateway and helper; RSS counts the pages that they share twice, PSS once)", samples, COLUMNS)
    note = "sum of VmRSS over the gateway and its helper"
    lab.figure("idle memory", LIMIT_MB, " MB", samples.values("pilotlight", "rss"), note)


def measured(lab):
    # an HTTP service that is not started before the load: what is idle first is the gateway alone
    with Gateway(lab, "idle", pipe.tables(lab, "http", [PEER_BIN / "svchyper"])) as gateway:
        time.sleep(SETTLE_SECONDS)
        own = gateway.own_pids
        result = {"rss": memory_mb(own, "VmRSS"), "pss": memory_mb(own, "Pss"), "processes": len(own)}
        cbench(gateway.target, 64, 1, 1)
        time.sleep(SETTLE_SECONDS)
        return {**result, "rss_after": memory_mb(own, "VmRSS")}
