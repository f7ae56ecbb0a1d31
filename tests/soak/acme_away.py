#!/usr/bin/python3
"""The certificate authority is away for seven days: are all names served, and does the gateway come back to it
(issue 17)?

A real gateway whose clock is moved (libfaketime), a real Pebble behind a connection that can be cut. Certificates are
valid for ten days. The clock goes on in steps of ten minutes; after each one every name is asked for, by a client with
the same clock. From the first day to the eighth nobody reaches the authority. Prints one line of JSON; exit code 1 if a
name was not served, or had no new certificate in the end.

    PILOTLIGHT=target/debug/pilotlight target/venv/bin/python tests/soak/acme_away.py
"""

import argparse
import calendar
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

import pebble as pebbles  # noqa: E402
import ports  # noqa: E402
from harness import BINARY, Gateway, config, eventually  # noqa: E402

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
DAY, STEP = 86_400, 600
VALID_DAYS = 10


class Way:
    """The connection to the authority. Cut, it accepts and closes; every attempt is counted."""

    def __init__(self, port):
        self.port, self.is_cut, self.attempts = port, False, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self._listener.accept()
            self.attempts += 1
            if self.is_cut:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.port))
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass(source, sink):
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Clock:
    """The gateway's clock, ahead of the real one by so many seconds."""

    def __init__(self, folder):
        self.file, self.ahead = Path(folder) / "clock", 0
        self.move(0)

    def move(self, seconds):
        self.ahead += seconds
        new = self.file.with_suffix(".new")
        new.write_text(f"+{self.ahead}s\n")
        new.rename(self.file)

    def now(self):
        return time.time() + self.ahead

    def environment(self):
        return {
            "LD_PRELOAD": str(LIBRARY), "FAKETIME_TIMESTAMP_FILE": str(self.file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1",
        }  # fmt: skip


def served(name, port, roots, now):
    """The serial number of the certificate, if it is valid at that time."""
    context = ssl.create_default_context(cafile=roots)
    with socket.create_connection(("127.0.0.1", port), 20) as plain:
        with context.wrap_socket(plain, server_hostname=name) as secure:
            shown = secure.getpeercert()
            at = lambda key: calendar.timegm(time.strptime(shown[key], "%b %d %H:%M:%S %Y GMT"))  # noqa: E731
            begin, end = at("notBefore"), at("notAfter")
            if not begin <= now < end:
                raise ValueError(f"valid from {begin - now:.0f} to {end - now:.0f} s from now")
            secure.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while piece := secure.recv(65536):
                answer += piece
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise ValueError(answer[:200])
            return shown["serialNumber"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=10)
    options = parser.parse_args()
    if LIBRARY is None:
        sys.exit("acme_away: there is no libfaketime: apt-get install faketime")
    names = [f"n{number}.example.org" for number in range(options.names)]
    http, tls = ports.free_ports(2)
    with pebbles.Pebble(http, tls, certificate_days=VALID_DAYS) as pebble:
        roots, way = pebble.issued_by(), Way(pebble.port)
        directory = f"https://127.0.0.1:{way.address[1]}/dir"
        routes = "".join(f'[[routes]]\nhost = "{name}"\npath = "/"\nfiles = "site"\n' for name in names)
        settings = pebble.settings(directory=directory).items()
        acme = "[tls.acme]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings)
        listen = [f"127.0.0.1:{http}", f"https://127.0.0.1:{tls}"]
        gateway = Gateway(BINARY, config(routes, acme, listen=listen))
        (gateway.folder / "site").mkdir()
        (gateway.folder / "site/index.html").write_text("a page\n")
        clock = Clock(gateway.folder)
        saved = dict(os.environ)
        os.environ |= clock.environment()
        try:
            gateway.start()
        finally:
            os.environ.clear()
            os.environ |= saved
        try:
            run(gateway, names, tls, roots, way, clock, pebble)
        finally:
            gateway.stop()


def state(gateway):
    argv = [str(BINARY), "certificates", "--json", "--config", str(gateway.folder / "pilotlight.toml")]
    return json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)["acme"]


def run(gateway, names, port, roots, way, clock, pebble):
    if not eventually(lambda: state(gateway)["obtained"] >= len(names), 60):
        sys.exit("acme_away: there are no first certificates\n" + gateway.output())
    handshakes, failed, attempts, first, orders = 0, [], [], {}, pebble.orders()
    for step in range((8 * DAY) // STEP + 1):
        way.is_cut = DAY <= step * STEP < 8 * DAY
        clock.move(STEP if step else 0)
        before = way.attempts
        # Its owner sleeps by a clock that is not moved: a question to it has it look at this one.
        gateway.get("/.well-known/acme-challenge/none", host=names[0])
        for name in names:
            handshakes += 1
            try:
                serial = served(name, port, roots, clock.now())
                if step == 0:
                    first[name] = serial
            except Exception as error:
                failed.append(f"{step * STEP / DAY:.2f} days, {name}: {error!r}")
        if way.is_cut:
            attempts.append(way.attempts - before)
    last_error = next((one["last_error"]["text"] for one in state(gateway)["names"] if one["last_error"]), None)
    # It is there again: how long does the gateway, which waits, take to see it?
    way.is_cut, back = False, clock.ahead
    renewed = lambda: all(served(name, port, roots, clock.now()) != first[name] for name in names)  # noqa: E731
    while clock.ahead < back + 3600 and not eventually(renewed, 2):
        clock.move(60)
        gateway.get("/.well-known/acme-challenge/none", host=names[0])
    recovered = renewed()
    for failure in failed[:10]:
        print(failure, file=sys.stderr)
    print(json.dumps({
        "names": len(names), "days_away": 7, "handshakes": handshakes, "not_served": len(failed),
        "attempts_while_away": sum(attempts), "most_in_ten_minutes": max(attempts), "last_error": last_error,
        "renewed_afterwards": recovered, "minutes_until_then": round((clock.ahead - back) / 60),
        "orders_afterwards": pebble.orders() - orders,
    }))  # fmt: skip
    sys.exit(1 if failed or not recovered else 0)


if __name__ == "__main__":
    main()
