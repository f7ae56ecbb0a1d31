"""Figure 7: memory while a body of many gigabytes goes up, and while one without an end comes down."""
import os
import threading
import time
from contextlib import contextmanager

from harness import peers
from harness.gateway import Gateway, one_service
from harness.paths import PEER_BIN
from harness.procfs import CpuTime, memory_mb, reset_peak
from harness.program import LOAD_CORE, Failed, check_answer, dial
from harness.report import Column

TITLE = "Memory while a large body passes through"
HYPOTHESIS = "A body is passed on as it comes, so its size does not matter"
PROGRAMS = []
LIMIT_MB = 2
BLOCK_BYTES = 1 << 20
DOWNLOAD_SECONDS = 30
SAMPLE_SECONDS = 0.1
# nothing may move for this long
STALL_SECONDS = 30
NO_LIMITS = '[limits]\nbody_size = "none"\nresponse_timeout = "1h"\n'
SERVICES = {"pipe": [PEER_BIN / "svcpipe"], "HTTP": [PEER_BIN / "svchyper"]}
COLUMNS = [Column("before", "before", "MiB", 2), Column("peak", "peak", "MiB", 2), Column("growth", "growth", "MiB", 2),
           Column("after", "after", "MiB", 2), Column("gigabytes", "moved", "GB", 1), Column("rate", "rate", "GB/s", 2),
           Column("cpu_per_gb", "gateway CPU", "s/GB", 3)]


def run(lab):
    transfers = {"upload": upload, "download": download}
    samples = lab.run_rounds("memory", {
        f"{name}, {kind}": variant(lab, kind, command, transfer)
        for name, transfer in transfers.items() for kind, command in SERVICES.items()})
    workload = (f"RSS of the gateway and its helper; an upload of {lab.options.upload_gb} GB, a download of as much or {DOWNLOAD_SECONDS} s")
    lab.table("streaming", "Memory while streaming", workload, samples, COLUMNS)
    for name in samples.rounds:
        lab.figure(f"memory growth, {name}", LIMIT_MB, " MiB", samples.values(name, "growth"))


def variant(lab, kind, command, transfer):
    def measured():
        with Gateway(lab, "memory", [NO_LIMITS, *one_service(lab, kind, command)]) as gateway:
            check_answer(gateway.port, "/", peers.SERVICE_JSON)
            own = gateway.own_pids
            before, cpu, start = memory_mb(own, "VmRSS"), CpuTime.of(own), time.monotonic()
            with watched_peak(own) as peak, on_load_core():
                moved = transfer(gateway.port, lab.options.upload_gb * 10**9)
            seconds, cpu_seconds = time.monotonic() - start, CpuTime.of(own).since(cpu)
            top = max(peak)
            return {"before": before, "peak": top, "growth": top - before, "after": memory_mb(own, "VmRSS"),
                    "gigabytes": moved / 1e9, "rate": moved / 1e9 / seconds, "cpu_per_gb": cpu_seconds / (moved / 1e9)}
    return measured


@contextmanager
def watched_peak(pids):
    """A list that grows by the present memory of all processes until the block ends; its last item is the sum of their own peaks."""
    reset_peak(pids)
    sizes, done = [], threading.Event()

    def watch():
        while not done.wait(SAMPLE_SECONDS):
            sizes.append(memory_mb(pids, "VmRSS"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield sizes
    finally:
        done.set()
        watcher.join()
        sizes.append(memory_mb(pids, "VmHWM"))


@contextmanager
def on_load_core():
    """The thread that moves the bytes belongs to the load."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {LOAD_CORE})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def upload(port, size):
    """Sends `size` bytes and returns how many the service counted."""
    block = memoryview(bytes(BLOCK_BYTES))
    with dial(port, timeout=STALL_SECONDS) as connection:
        head = f"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
        try:
            connection.sendall(head.encode())
            for start in range(0, size, BLOCK_BYTES):
                connection.sendall(block[:size - start])
            answer = b"".join(iter(lambda: connection.recv(BLOCK_BYTES), b""))
        except OSError as error:
            raise Failed(f"the upload broke: {error}") from error
    if f'{{"bytes":{size}}}'.encode() not in answer:
        raise Failed(f"the service did not count {size} bytes: {answer[:300]!r}")
    return size


def download(port, size):
    """Reads an endless body for a while or until `size` bytes, and returns how many came."""
    buffer = bytearray(BLOCK_BYTES)
    with dial(port, timeout=STALL_SECONDS) as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received, end = 0, time.monotonic() + DOWNLOAD_SECONDS
        while received < size and time.monotonic() < end:
            count = connection.recv_into(buffer)
            if not count:
                raise Failed(f"the endless download ended after {received} bytes")
            received += count
    return received
