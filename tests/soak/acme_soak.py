#!/usr/bin/python3
"""Certificates of many names are renewed while requests run: how many of those fail (issue 17: 0).

A real gateway, a real Pebble without delays, clients that verify every certificate. Each connection asks for a name by
chance, and sends requests in pieces of fifty. Prints one line of JSON; exit code 1 if anything failed.

    PILOTLIGHT=target/release/pilotlight target/venv/bin/python tests/soak/acme_soak.py --names 1000 --requests 1000000
"""

import argparse
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from harness import BINARY, Gateway, config  # noqa: E402
from pebble import Pebble  # noqa: E402
from ports import free_ports  # noqa: E402

BATCH = 50  # requests that are sent at once
PAGE = "a page\n"


class Load:
    """Threads that send requests until there were enough, and all names have been renewed."""

    def __init__(self, port, names, roots, wanted, batches):
        self.port, self.names, self.wanted, self.batches = port, names, wanted, batches
        self.context = ssl.create_default_context(cafile=roots)
        self.lock, self.renewed = threading.Lock(), threading.Event()
        self.requests = self.connections = 0
        self.failed, self.serials = [], {}

    def is_over(self):
        return self.requests >= self.wanted and self.renewed.is_set()

    def run(self, seed):
        chance = random.Random(seed)
        while not self.is_over():
            name = chance.choice(self.names)
            done = 0
            try:
                done = self.connection(name)
            except Exception as error:  # whatever it is, a request has failed
                with self.lock:
                    self.failed.append(f"{name}: {error!r}")
            with self.lock:
                self.connections += 1
                self.requests += done

    def connection(self, name):
        request = f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
        done = 0
        with socket.create_connection(("127.0.0.1", self.port), 60) as plain:
            with self.context.wrap_socket(plain, server_hostname=name) as secure:
                serial = secure.getpeercert()["serialNumber"]
                with self.lock:
                    self.serials.setdefault(name, set()).add(serial)
                one = None
                for _ in range(self.batches):
                    secure.sendall(request * BATCH)
                    answer = b""
                    while one is None or len(answer) < one * BATCH:
                        piece = secure.recv(1 << 18)
                        if not piece:
                            raise ConnectionError(f"the gateway closed behind {answer[-200:]!r}")
                        answer += piece
                        if one is None and b"\r\n\r\n" in answer:
                            head, _ = answer.split(b"\r\n\r\n", 1)
                            one = len(head) + 4 + len(PAGE)
                    right = answer.count(b"HTTP/1.1 200 ") == answer.count(b"\r\n\r\n" + PAGE.encode()) == BATCH
                    if not right or len(answer) != one * BATCH:
                        raise ValueError(f"wrong answers: {answer[:400]!r}")
                    done += BATCH
        return done


def certificates(gateway):
    argv = [str(BINARY), "certificates", "--json", "--config", str(gateway.folder / "pilotlight.toml")]
    return json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)["acme"]


def wait_for(what, check, limit, pause=1.0):
    end = time.monotonic() + limit
    while not check():
        if time.monotonic() > end:
            sys.exit(f"acme_soak: {what} took longer than {limit} s")
        time.sleep(pause)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=4, help="connections at once")
    parser.add_argument("--batches", type=int, default=4, help=f"of {BATCH} requests on a connection")
    parser.add_argument("--limit", type=float, default=3600, help="seconds for each part")
    options = parser.parse_args()
    names = [f"n{number}.example.org" for number in range(options.names)]
    http, tls = free_ports(2)
    with Pebble(http, tls) as pebble:
        routes = "".join(f'[[routes]]\nhost = "{name}"\npath = "/"\nfiles = "site"\n' for name in names)
        settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in pebble.settings().items())
        listen = [f"127.0.0.1:{http}", f"https://127.0.0.1:{tls}"]
        gateway = Gateway(BINARY, config(routes, f"[tls.acme]\n{settings}", listen=listen))
        (gateway.folder / "site").mkdir()
        page = gateway.folder / "site/index.html"
        page.write_text(PAGE)
        os.utime(page, (0, 0))  # the ETag of a file that has just changed is weak, and so its answer longer
        begun = time.monotonic()
        with gateway:
            obtained = lambda: certificates(gateway)["obtained"]  # noqa: E731
            wait_for("the first certificates", lambda: obtained() >= options.names, options.limit)
            first = time.monotonic() - begun
            load = Load(tls, names, pebble.issued_by(), options.requests, options.batches)
            threads = [threading.Thread(target=load.run, args=(seed,)) for seed in range(options.clients)]
            [thread.start() for thread in threads]
            wait_for("the first requests", lambda: load.requests > options.requests / 100, options.limit)
            before, begun = load.requests, time.monotonic()
            argv = [str(BINARY), "certificates", "renew", "--all", "--config", str(gateway.folder / "pilotlight.toml")]
            subprocess.run(argv, check=True, capture_output=True)
            wait_for("the renewal", lambda: obtained() >= 2 * options.names, options.limit)
            renewal, during = time.monotonic() - begun, load.requests - before
            load.renewed.set()
            [thread.join() for thread in threads]
            state = certificates(gateway)
            orders = pebble.orders()
    for failure in load.failed[:10]:
        print(failure, file=sys.stderr)
    failed_orders = state["failed"]
    print(json.dumps({
        "names": options.names, "requests": load.requests, "failed": len(load.failed), "handshakes": load.connections,
        "orders": orders, "orders_failed": failed_orders, "first_seconds": round(first, 1),
        "renewal_seconds": round(renewal, 1), "requests_during_renewal": during,
        "names_seen_with_both_certificates": sum(len(serials) == 2 for serials in load.serials.values()),
    }))  # fmt: skip
    sys.exit(1 if load.failed or failed_orders else 0)


if __name__ == "__main__":
    main()
