"""Bodies in chunks of one byte beside chunks of 1 kB: what they cost the gateway, in both directions, over HTTP and the pipe."""
import json

from harness.gateway import Gateway, one_service
from harness.paths import PYTHON, SERVICES
from harness.procfs import CpuTime
from harness.program import Failed, dial
from harness.report import Column, ratios
from sections.memory import NO_LIMITS, STALL_SECONDS, on_load_core

TITLE = "Bodies in very small chunks"
HYPOTHESIS = "A body in chunks of one byte costs at most three times the gateway's CPU of the same body in chunks of 1 kB"
PROGRAMS = ["Python"]
NEEDS_PEERS = False
LIMIT = 3
MEGABYTE = 10**6
# bytes of a chunk: bytes of a transfer
SIZES = {1: 10 * MEGABYTE, 1000: 50 * MEGABYTE}
# transfers are repeated until they have cost so much
LEAST_CPU_SECONDS = 0.25
# as what costs are given
PER_BYTES = 10 * MEGABYTE
BLOCK_BYTES = 100_000
READ_BYTES = 1 << 20
# larger than what the gateway holds of a request, so that it gets a connection of its own over the pipe
LARGE_REQUEST = 40_000
KINDS = ["HTTP", "pipe"]
COLUMNS = [Column("cpu_ms", "gateway CPU for 10 MB", "ms", 1), Column("ns", "gateway CPU for a byte", "ns", 2), Column("piece", "bytes of a piece passed on"),
           Column("moved", "moved", "MB")]


def run(lab):
    transfers = {"upload": upload, "download": download}
    names = {(name, kind): {size: f"{name}, {kind}, {size} B" for size in SIZES} for name in transfers for kind in KINDS}
    samples = lab.run_rounds("chunks", {text: variant(lab, kind, transfers[name], size)
                                        for (name, kind), texts in names.items() for size, text in texts.items()})
    lab.table("chunks", "Bodies in chunks of 1 B and of 1 kB", f"one connection; gateway and service on core 0; at least {LEAST_CPU_SECONDS} s of CPU", samples,
              COLUMNS)
    for (name, kind), texts in names.items():
        cost = ratios(*(samples.values(texts[size], "ns") for size in SIZES))
        lab.figure(f"{name}, {kind}: CPU in chunks of 1 B / of 1 kB", LIMIT, " ×", cost)


def variant(lab, kind, transfer, size):
    def measured():
        with Gateway(lab, "chunks", [NO_LIMITS, *one_service(lab, kind, [PYTHON, SERVICES / "chunks.py"])]) as gateway, on_load_core():
            transfer(gateway.port, size, MEGABYTE)  # the service is started, and memory is there
            own = gateway.own_pids
            before, moved, pieces, seconds = CpuTime.of(own), 0, 0, 0
            while seconds < LEAST_CPU_SECONDS:
                pieces += transfer(gateway.port, size, SIZES[size])
                moved += SIZES[size]
                seconds = CpuTime.of(own).since(before)
            return {"cpu_ms": seconds * 1e3 * PER_BYTES / moved, "ns": seconds * 1e9 / moved, "piece": moved / pieces, "moved": moved / MEGABYTE}
    return measured


def upload(port, size, count):
    """Sends `count` bytes in chunks of this size; how many pieces the service got."""
    with dial(port, timeout=STALL_SECONDS) as connection:
        connection.sendall(b"POST /count HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
        block = b"%x\r\n%b\r\n" % (size, b"x" * size) * (BLOCK_BYTES // size)
        for _ in range(0, count, BLOCK_BYTES):
            connection.sendall(block)
        connection.sendall(b"0\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(READ_BYTES), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 ") or json.loads(body)["bytes"] != count:
        raise Failed(f"the service did not count {count} bytes: {answer[:300]!r}")
    return json.loads(body)["pieces"]


def download(port, size, count):
    """Takes an answer of `count` bytes that the service sends in pieces of this size; how many chunks came."""
    with dial(port, timeout=STALL_SECONDS) as connection, connection.makefile("rb", READ_BYTES) as file:
        head = f"POST /send/{size}/{count} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {LARGE_REQUEST}\r\n\r\n"
        connection.sendall(head.encode() + bytes(LARGE_REQUEST))
        status = file.readline()
        while file.readline() != b"\r\n":
            pass
        received = pieces = 0
        while length := int(file.readline(), 16):
            received += len(file.read(length))
            file.read(2)
            pieces += 1
    if b" 200 " not in status or received != count:
        raise Failed(f"{received} bytes came instead of {count}: {status!r}")
    return pieces
