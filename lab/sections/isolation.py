"""What the bounds of a service cost its cold start: the same service without any, with limits, with secrets, in the sandbox, as another user.

The service is the Rust one, whose start is the shortest and shows most. The variants alternate inside each round.
"""
import os
import statistics

from harness import peers
from harness.cold import IDLE_TIMEOUT, first_byte_ms, wait_until_stopped
from harness.gateway import Gateway, one_service
from harness.paths import PEER_BIN
from harness.program import check_answer
from harness.report import Column

TITLE = "What the bounds of a service cost its cold start"
HYPOTHESIS = "Limits and secrets cost a start little, a sandbox more"
PROGRAMS = []
STARTS = 20
COMMAND = [PEER_BIN / "svcpipe"]
PLAIN = "none"
COLUMNS = [Column("total", "request → first byte, p50", "ms", 2), Column("more", "more than without", "ms", 2)]


def run(lab):
    variants = {name: variant(lab, name, keys) for name, keys in bounds(lab).items()}
    samples = lab.run_rounds("isolation", variants)
    for name in variants.keys() - {PLAIN}:
        for result, plain in zip(samples.rounds[name], samples.rounds[PLAIN]):
            result["more"] = result["total"] - plain["total"]
    lab.table("bounds", "What bounds cost", f"{STARTS} cold starts of the Rust service", samples, COLUMNS)


def bounds(lab):
    """Each kind of bounds: the keys of the service."""
    folder = lab.folder("isolation-service")
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text("open sesame")
    found = {
        PLAIN: {},
        "limits": {"limits.open_files": 1024, "limits.core": "0B"},
        "a secret": {"secrets.KEY": str(secret)},
        "sandbox": {"sandbox": "strict", "dir": str(folder)},
    }
    if os.geteuid() == 0:
        found["sandbox, another group"] = found["sandbox"] | {"group": 65534}
    return found


def variant(lab, name, keys):
    def measured():
        tables = one_service(lab, "pipe", COMMAND, idle_timeout=IDLE_TIMEOUT, **keys)
        with Gateway(lab, "isolation", tables, core=None) as gateway:
            check_answer(gateway.port, "/", peers.SERVICE_JSON)
            totals = []
            for _ in range(STARTS):
                wait_until_stopped(gateway)
                totals.append(first_byte_ms(gateway.port))
        return {"total": statistics.median(totals)}

    return measured
