#!/usr/bin/python3
"""Instructions of one request in user space, by callgrind: unlike times they are the same on a busy machine.

    lab/instructions.py target/release/pilotlight [another binary …] [--traces 0.01]

For each binary and kind of request a gateway runs under callgrind twice, with few requests and with many; the
difference, divided by the number of requests, is the cost of one. `hit`: 64 connections, no pipelining. `pipelined`:
ten at once. `passed on`: to an HTTP service that is not measured. With `--traces` each is measured a second time, with
that share of requests sampled and their spans sent to a collector that takes everything. Under callgrind a reading of
the clock is a system call, of which only the call counts: add some 60 instructions for each.
"""
import argparse
import json
import re
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

CONNECTIONS = 64
FEW, MANY = 3_000, 13_000
BODY = json.dumps({"id": 7, "text": "x" * 170}).encode()


def serve(listener, head):
    """An origin that answers everything with the same."""
    answer = b"HTTP/1.1 200 OK\r\n%scontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (head, len(BODY), BODY)

    def one(connection):
        with connection:
            while data := connection.recv(65_536):
                connection.sendall(answer * data.count(b"\r\n\r\n"))

    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=one, args=(connection,), daemon=True).start()


def load(port, requests, depth):
    request = b"GET /users/7 HTTP/1.1\r\nhost: example.org\r\nuser-agent: lab\r\naccept: */*\r\n\r\n" * depth
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for done in range(0, requests, CONNECTIONS * depth):
        for connection in connections:
            connection.sendall(request)
        for connection in connections:
            got = 0
            data = b""
            while got < depth:
                piece = connection.recv(65_536)
                if not piece:
                    raise SystemExit("the gateway closed a connection")
                data += piece
                got = data.count(b"HTTP/1.1 200 OK")
                if got == depth and data.count(BODY) < depth:
                    got = 0
    for connection in connections:
        connection.close()
    return -(-requests // (CONNECTIONS * depth)) * CONNECTIONS * depth


def collect(listener):
    """A collector: takes whatever comes, and says so."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=take, args=(connection,), daemon=True).start()


def take(connection):
    with connection, connection.makefile("rb") as lines:
        while (line := lines.readline()) != b"":
            length = 0
            while line not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
                line = lines.readline()
            lines.read(length)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n")


def instructions(binary, cache, requests, depth, traces):
    """All instructions of a gateway that answered so many requests, and how many they were."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0), backlog=256) as origin,
        socket.create_server(("127.0.0.1", 0)) as collector,
    ):
        threading.Thread(target=collect, args=(collector,), daemon=True).start()
        head = b"cache-control: max-age=3600\r\n" if cache else b""
        threading.Thread(target=serve, args=(origin, head), daemon=True).start()
        collected = f"http://127.0.0.1:{collector.getsockname()[1]}/v1/traces"
        sampling = f'[traces]\nendpoint = "{collected}"\nsample = {traces}\n' if traces else ""
        config = Path(folder) / "pilotlight.toml"
        config.write_text(
            f'listen = "127.0.0.1:0"\nworkers = 1\n[services.origin]\nurl = "http://127.0.0.1:{origin.getsockname()[1]}"\n'
            f'[[routes]]\npath = "/"\nservice = "origin"\ncache = {str(cache).lower()}\n{sampling}'
        )
        out = Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--trace-children=no", binary, "--config", config]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as gateway:
            port = next(int(found[1]) for line in gateway.stdout if (found := re.search(r"listening on http://[^:]+:(\d+)", line)))
            count = load(port, requests, depth)
            gateway.send_signal(signal.SIGTERM)
            gateway.wait()
        return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)[1]), count


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binaries", nargs="+")
    arguments.add_argument("--traces", type=float, metavar="SHARE", help="of requests that are sampled")
    options = arguments.parse_args()
    for name, cache, depth in (("hit", True, 1), ("pipelined", True, 10), ("passed on", False, 1)):
        for binary in options.binaries:
            for traces in (None, options.traces) if options.traces else (None,):
                (few, few_count), (many, many_count) = (
                    instructions(binary, cache, requests, depth, traces) for requests in (FEW, MANY)
                )
                each = (many - few) / (many_count - few_count)
                print(f"{name:10} {each:10.0f}  {binary}{f', {traces:.1%} sampled' if traces else ''}", flush=True)


if __name__ == "__main__":
    main()
