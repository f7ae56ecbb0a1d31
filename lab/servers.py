#!/usr/bin/env python3
"""Several servers of one service: what a request waits when one of them is ten times slower, beside HAProxy's leastconn
in alternating rounds, and what is lost when one of them is killed, and how soon it is left out.

    lab/servers.py [--rounds 5] [--secs 4] [--clients 24]

PILOTLIGHT names the program (target/gate/pilotlight). The servers wait 5 ms, the slow one 50 ms; each client has one
connection and sends its next request when it has its answer.
"""

import argparse
import asyncio
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PILOTLIGHT = os.environ.get("PILOTLIGHT", str(ROOT / "target" / "gate" / "pilotlight"))
QUICK_S, SLOW_S = 0.005, 0.05
START_S = 10.0
LOG = "pilotlight.log"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def serve(port, pause):
    async def client(reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await asyncio.sleep(pause)
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(client, "127.0.0.1", port, backlog=512)
    await server.serve_forever()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(command, port, log=os.devnull):
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            time.sleep(0.02)
    process.kill()
    sys.exit(f"{command[0]} does not listen on port {port}")


def server(pause, port=None):
    port = port or free_port()
    return start([sys.executable, __file__, "--serve", str(port), str(pause)], port), port


def gateway(folder, ports):
    port, file = free_port(), folder / "pilotlight.toml"
    urls = ", ".join(f'"http://127.0.0.1:{one}"' for one in ports)
    file.write_text(
        f'listen = "127.0.0.1:{port}"\n[services.app]\nurl = [{urls}]\n'
        '[[routes]]\npath = "/"\nservice = "app"\ncache = false\n'
    )
    return start([PILOTLIGHT, "run", "-c", str(file)], port, folder / LOG), port


def haproxy(folder, ports):
    port, file = free_port(), folder / "haproxy.cfg"
    servers = "\n".join(f"  server s{index} 127.0.0.1:{one}" for index, one in enumerate(ports))
    file.write_text(
        "defaults\n  mode http\n  timeout connect 2s\n  timeout client 30s\n  timeout server 30s\n"
        f"listen app\n  bind 127.0.0.1:{port}\n  balance leastconn\n{servers}\n"
    )
    return start(["haproxy", "-f", str(file)], port), port


async def client(port, end, times, failures):
    reader = writer = None
    while time.monotonic() < end:
        begun = time.monotonic()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nhost: app.test\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            (times if b" 200 " in head.split(b"\r\n")[0] else failures).append(time.monotonic() - begun)
        except (OSError, asyncio.IncompleteReadError) as error:
            failures.append(error)
            writer = None


async def load(port, seconds, clients):
    times, failures, end = [], [], time.monotonic() + seconds
    await asyncio.gather(*(client(port, end, times, failures) for _ in range(clients)))
    return sorted(times), failures


def slow(options, folder):
    servers = [server(QUICK_S), server(QUICK_S), server(SLOW_S)]
    ports = [port for _, port in servers]
    ways = {"pilotlight": gateway(folder, ports), "haproxy leastconn": haproxy(folder, ports)}
    found = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, (_, port) in ways.items():
            times, failures = asyncio.run(load(port, options.secs, options.clients))
            assert not failures, (name, failures[:3])
            found[name].append((len(times) / options.secs, times[len(times) // 2], times[len(times) * 99 // 100]))
    for process, _ in [*servers, *ways.values()]:
        process.terminate()
        process.wait()
    for name, rounds in found.items():
        rates, p50, p99 = zip(*rounds)
        print(f"{name:<20} {statistics.median(rates):8.0f}/s  p50 {show(p50)}  p99 {show(p99)}")
    for index, what in ((1, "p50"), (2, "p99")):
        ratios = [one[index] / other[index] for one, other in zip(*found.values())]
        print(f"{what}, pilotlight / haproxy: {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})")


def show(times):
    return f"{statistics.median(times) * 1000:6.1f} ms ({min(times) * 1000:.1f}–{max(times) * 1000:.1f})"


def killed(options, folder):
    """Each round kills one of three servers under load and starts it again."""
    lost = answered = 0
    ejected = []
    for _ in range(options.rounds):
        servers = [server(QUICK_S) for _ in range(3)]
        way, port = gateway(folder, [one for _, one in servers])

        async def run():
            loading = asyncio.create_task(load(port, options.secs, options.clients))
            await asyncio.sleep(options.secs / 3)
            servers[0][0].send_signal(signal.SIGKILL)
            begun = time.monotonic()
            while not loading.done() and "is left out" not in (folder / LOG).read_text():
                await asyncio.sleep(0.002)
            ejected.append(time.monotonic() - begun)
            return await loading

        times, failures = asyncio.run(run())
        answered, lost = answered + len(times), lost + len(failures)
        for process in [way, *(process for process, _ in servers)]:
            process.kill()
            process.wait()
    print(f"one of three killed under load, {options.rounds} times: {answered} answered, {lost} failed")
    print(f"left out after {show(ejected)}")


def main():
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(int(sys.argv[2]), float(sys.argv[3])))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of each [%(default)s]")
    parser.add_argument("--secs", type=float, default=4, help="of a round [%(default)s]")
    parser.add_argument("--clients", type=int, default=24, help="at once [%(default)s]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        slow(options, Path(folder))
        killed(options, Path(folder))


if __name__ == "__main__":
    main()
