#!/usr/bin/env python3
"""What the gateway adds to an invocation of a warm function, and a hundred invocations at once.

    python3 -B lab/lambda.py [--rounds 9] [--requests 300] [--at-once 100]

In each round, by turns: requests from a client over a kept connection through the gateway to a function, and
invocations of the same function, in the same runtime client, by the barest Runtime API that there can be: a socket that
writes the event and reads the result. What the gateway adds is the difference of the two medians of a round, so the
function's own time and its runtime client's are in neither. Beside it: the processor time of the gateway's process for
each request. `PILOTLIGHT` names the gateway's binary; scripts/setup.sh test installs the runtime clients.
"""

import argparse
import collections
import json
import os
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = Path(os.environ.get("PILOTLIGHT_LAMBDA_CLIENTS", ROOT / "target" / "lambda"))
BINARY = Path(os.environ.get("PILOTLIGHT", ROOT / "target" / "release" / "pilotlight"))
FUNCTIONS = ROOT / "lab" / "lambda"
TICKS = os.sysconf("SC_CLK_TCK")
START_LIMIT = 60
EVENT = json.dumps({"version": "2.0", "rawPath": "/", "headers": {"host": "x"}, "requestContext": {}})

LANGUAGES = {
    "python": ([sys.executable, "-m", "awslambdaric", "app.handler"], {"PYTHONPATH": str(CLIENTS / "python")}),
    "node": (["node", str(CLIENTS / "node" / "node_modules" / "aws-lambda-ric" / "index.mjs"), "app.handler"], {}),
}


class Connection:
    """A kept connection, with as little around it as can be."""

    def __init__(self, address):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.read = b""

    def message(self):
        """The next message's head and body."""
        while b"\r\n\r\n" not in self.read:
            self.more()
        head, self.read = self.read.split(b"\r\n\r\n", 1)
        if re.search(rb"(?i)transfer-encoding: *chunked", head):
            return head, self.chunks()
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        length = int(length[1]) if length else 0
        while len(self.read) < length:
            self.more()
        body, self.read = self.read[:length], self.read[length:]
        return head, body

    def chunks(self):
        body = b""
        while True:
            while b"\r\n" not in self.read:
                self.more()
            line, self.read = self.read.split(b"\r\n", 1)
            length = int(line.split(b";")[0], 16)
            while len(self.read) < length + 2:
                self.more()
            body, self.read = body + self.read[:length], self.read[length + 2 :]
            if length == 0:
                return body

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the other side closed the connection")
        self.read += data


class Accepted(Connection):
    def __init__(self, stream):
        self.socket, self.read = stream, b""
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Floor:
    """One instance of a function with the barest Runtime API."""

    def __init__(self, language):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(START_LIMIT)
        argv, env = LANGUAGES[language]
        host, port = self.listener.getsockname()
        own = {
            "AWS_LAMBDA_RUNTIME_API": f"{host}:{port}",
            "AWS_LAMBDA_FUNCTION_NAME": "floor",
            "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
            "AWS_LAMBDA_LOG_GROUP_NAME": "/aws/lambda/floor",
            "AWS_LAMBDA_LOG_STREAM_NAME": "1",
            "AWS_REGION": "us-east-1",
            "LAMBDA_TASK_ROOT": str(FUNCTIONS / language),
            "_HANDLER": "app.handler",
        }
        self.process = subprocess.Popen(argv, cwd=FUNCTIONS / language, env=os.environ | env | own)
        self.connections = {}
        self.asking = self.next_call()

    def next_call(self):
        """The connection on which a call comes, with the call read: they may come by several."""
        until = time.monotonic() + START_LIMIT
        while time.monotonic() < until:
            sockets = [self.listener, *self.connections]
            if self.process.poll() is not None:
                raise RuntimeError(f"the runtime client ended with status {self.process.returncode}")
            for one in select.select(sockets, [], [], 1)[0]:
                if one is self.listener:
                    stream = self.listener.accept()[0]
                    self.connections[stream] = Accepted(stream)
                    continue
                try:
                    return self.connections[one], self.connections[one].message()
                except ConnectionError:
                    del self.connections[one]
        raise TimeoutError(f"the runtime client called nothing for {START_LIMIT} s")

    def invoke(self):
        """Seconds from the event's first byte to the result's last one."""
        asking, (head, _) = self.asking
        if not head.startswith(b"GET"):
            raise ValueError(f"not a call for an invocation: {head}")
        deadline = int(time.time() * 1000) + 60_000
        answer = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            "Lambda-Runtime-Aws-Request-Id: 8476a536-e9f4-11e8-9739-2dfe598c3fcd\r\n"
            f"Lambda-Runtime-Deadline-Ms: {deadline}\r\n"
            "Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:us-east-1:000000000000:function:floor\r\n"
            "Lambda-Runtime-Trace-Id: Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0\r\n"
            f"Content-Length: {len(EVENT)}\r\n\r\n{EVENT}"
        )
        begun = time.perf_counter()
        asking.socket.sendall(answer.encode())
        answering, (head, _) = self.next_call()
        took = time.perf_counter() - begun
        if b"/response" not in head.split(b"\r\n")[0]:
            raise ValueError(f"not a result: {head}")
        answering.socket.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        self.asking = self.next_call()
        return took

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.listener.close()


class Gateway:
    def __init__(self, services):
        self.folder = tempfile.TemporaryDirectory(prefix="pilotlight-lambda-")
        file = Path(self.folder.name) / "pilotlight.toml"
        file.write_text('listen = "127.0.0.1:0"\n[admin]\nsocket = "admin.sock"\n[limits]\nqueue = 1000\n' + services)
        self.process = subprocess.Popen(
            [BINARY, "--config", file],
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder.name,
        )
        for line in self.process.stdout:
            if found := re.search(r"listening on http://([\d.]+):(\d+)", line):
                self.address = (found[1], int(found[2]))
                break
        self.lines = collections.deque(maxlen=200)
        threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True).start()

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.folder.cleanup()


def block(name, language, **settings):
    argv, env = LANGUAGES[language]
    env = ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items())
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    return "\n".join(
        [
            f"[services.{name}]",
            f"command = {json.dumps(argv)}",
            'transport = "lambda"',
            'start_timeout = "120s"',
            f"dir = {json.dumps(str(FUNCTIONS / language))}",
            f"env = {{ {env} }}",
            *lines,
            "[[routes]]",
            f'path = "/{name}"',
            f'service = "{name}"',
            "cache = false",
            "",
        ]
    )


def ask(connection, path):
    begun = time.perf_counter()
    connection.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, body = connection.message()
    took = time.perf_counter() - begun
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise ValueError(f"{head} {body}")
    return took, body


def warm(language, rounds, requests):
    gateway, floor = Gateway(block("app", language)), Floor(language)
    try:
        client = Connection(gateway.address)
        for _ in range(50):
            ask(client, "/app")
            floor.invoke()
        added, through, bare, cpu = [], [], [], []
        for number in range(rounds):
            def by_gateway():
                before = gateway.cpu()
                times = [ask(client, "/app")[0] for _ in range(requests)]
                cpu.append((gateway.cpu() - before) / requests)
                return statistics.median(times)

            def by_floor():
                return statistics.median(floor.invoke() for _ in range(requests))

            turns = [by_gateway, by_floor] if number % 2 == 0 else [by_floor, by_gateway]
            found = {turn.__name__: turn() for turn in turns}
            through.append(found["by_gateway"])
            bare.append(found["by_floor"])
            added.append(found["by_gateway"] - found["by_floor"])
        say(f"{language}: through the gateway, p50", through)
        say(f"{language}: barest Runtime API, p50", bare)
        say(f"{language}: what the gateway adds, p50", added)
        say(f"{language}: processor time of the gateway, a request", cpu)
    finally:
        gateway.stop()
        floor.stop()


def say(what, seconds):
    ms = sorted(1000 * value for value in seconds)
    print(f"{what:55} {statistics.median(ms):7.3f} ms   ({ms[0]:.3f} to {ms[-1]:.3f}, {len(ms)} rounds)", flush=True)


def at_once(language, count):
    """All of them wait until the last one runs, so that none is answered unless all run."""
    gateway = Gateway(block("app", language, max_instances=count, scale_up_after="1ms", max_request_time="500s")
                      .replace("cache = false", 'cache = false\nresponse_timeout = "600s"'))
    try:
        with tempfile.TemporaryDirectory() as folder:
            def all_of_them(name):
                answers, begun = [], time.perf_counter()

                def one():
                    _, body = ask(Connection(gateway.address), f"/app?meet={folder}/{name}&count={count}")
                    answers.append(json.loads(body))

                threads = [threading.Thread(target=one) for _ in range(count)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                return answers, time.perf_counter() - begun

            for name in ["cold", "warm"]:
                answers, took = all_of_them(name)
                processes = len({answer["pid"] for answer in answers})
                answered = f"{len(answers)} answered by {processes} instances in {took:.2f} s"
                print(f"{language}: {count} at once, {name}: {answered}", flush=True)
    finally:
        gateway.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--at-once", type=int, default=100)
    arguments = parser.parse_args()
    for language in LANGUAGES:
        warm(language, arguments.rounds, arguments.requests)
    at_once("python", arguments.at_once)


if __name__ == "__main__":
    main()
