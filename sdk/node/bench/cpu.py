"""Processor time of a warm exchange, of the gateway and the service together, over the pipe and in other ways.

    bench/cpu.py --pilotlight target/gate/pilotlight [--rounds 7] [--requests 20000] [--kinds pipe-res,pipe-fetch,…]

Each kind is a service and what is in front of it: this gateway (pipe-…, gateway-…) or nginx (nginx-…), with one worker
and connections that are kept. h2load (Debian: nghttp2-client) asks over HTTP/1.1 for a short text and for 10 KB of
JSON, 64 at once and one at a time; in each round every kind has its turn. What counts is the time on a processor of all
processes, in /proc; the client's does not. Printed are the median and range of it, and of the ratio to the kind
nginx-http in the same round. In brackets: the part of it that is the service's.
"""

import argparse
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]
sys.path.insert(0, str(ROOT / "sdk" / "conformance"))
import http1  # noqa: E402
from gateway import Gateway, command  # noqa: E402

JS = ROOT / "target" / "js" / "bin"
SERVICE = str(FOLDER / "service.js")
NODE, DENO, BUN = ["node"], [str(JS / "deno"), "run", "-A"], [str(JS / "bun")]
# Name: what runs it, which service it is.
KINDS = {
    "nginx-http": (NODE, "http"),
    "pipe-res": (NODE, "res"),
    "pipe-fetch": (NODE, "fetch"),
    "gateway-http": (NODE, "http"),
    "nginx-deno": (DENO, "deno"),
    "pipe-deno-res": (DENO, "res"),
    "pipe-deno": (DENO, "fetch"),
    "nginx-bun": (BUN, "bun"),
    "pipe-bun-res": (BUN, "res"),
    "pipe-bun": (BUN, "fetch"),
}
BASE = "nginx-http"
CONFIG = """
listen = "127.0.0.1:0"
workers = 1
[services.it]
command = {command}
{transport}
[[routes]]
path = "/"
service = "it"
cache = false
"""
NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream it {{ server unix:{folder}/service.sock; keepalive 128; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://it;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
        }}
    }}
}}
"""
LIMIT_S = 15.0


def family(pid):
    """A process and those below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


def seconds(pids):
    """Time on a processor of all threads that these have now."""
    files = [task / "schedstat" for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


class Target:
    """Where to ask, the processes that answer, and those of them that are the service's."""

    def __init__(self, port, front, service):
        self.port, self.front, self.service = port, front, service

    def times(self):
        service = seconds(self.service)
        return seconds(self.front) + service, service


def ask(port, target):
    begin = time.monotonic()
    while True:
        try:
            with http1.Client(("127.0.0.1", port)) as client:
                answer = client.request("GET", target)
            if answer.status == 200:
                return answer.body
        except OSError:
            pass
        if time.monotonic() - begin > LIMIT_S:
            raise SystemExit(f"no answer at port {port}")
        time.sleep(0.02)


@contextmanager
def behind_gateway(name, binary):
    runs, kind = KINDS[name]
    transport = 'transport = "pipe"' if name.startswith("pipe") else 'transport = "http"\nsocket = "unix"'
    words = command([*runs, SERVICE, kind])
    with Gateway(binary, CONFIG.format(command=words, transport=transport)) as gateway:
        port = int(gateway.address[1])
        ask(port, "/hello")
        pids = list(family(gateway.process.pid))
        service = [pid for pid in pids if SERVICE in Path(f"/proc/{pid}/cmdline").read_text()]
        yield Target(port, [pid for pid in pids if pid not in service], service)


@contextmanager
def behind_nginx(name, _binary):
    runs, kind = KINDS[name]
    with tempfile.TemporaryDirectory(prefix="pilotlight-bench-") as folder, ExitStack() as stack:
        port = free_port()
        config = Path(folder) / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, port=port))
        environment = os.environ | {"HTTP_SOCKET": f"{folder}/service.sock"}
        # In sessions of their own, as the gateway and its services are: the kernel schedules by sessions.
        service = stack.enter_context(
            subprocess.Popen([*runs, SERVICE, kind], env=environment, start_new_session=True)
        )
        stack.callback(service.kill)
        words = ["/usr/sbin/nginx", "-c", str(config)]
        nginx = stack.enter_context(subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True))
        stack.callback(nginx.terminate)
        os.chmod(folder, 0o755)
        while not Path(f"{folder}/service.sock").exists():
            time.sleep(0.02)
        os.chmod(f"{folder}/service.sock", 0o777)
        ask(port, "/hello")
        yield Target(port, list(family(nginx.pid)), list(family(service.pid)))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def load(port, target, flight, requests):
    url = f"http://127.0.0.1:{port}{target}"
    said = subprocess.run(
        ["h2load", "--h1", f"-c{flight}", f"-n{requests}", url], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    succeeded = int(re.search(r"status codes: (\d+) 2xx", said)[1])
    if succeeded != requests:
        raise SystemExit(f"{url}: {succeeded} of {requests} succeeded\n{said}")


def middle(numbers, form):
    return f"{form.format(statistics.median(numbers))} ({form.format(min(numbers))}–{form.format(max(numbers))})"


def measure(targets, target, flight, requests, rounds):
    found = {name: [] for name in targets}
    parts = {name: [] for name in targets}
    for turn in range(rounds + 1):  # the first one warms up
        for name, each in targets.items():
            before = each.times()
            load(each.port, target, flight, requests)
            after = each.times()
            if turn:
                found[name].append((after[0] - before[0]) * 1e6 / requests)
                parts[name].append((after[1] - before[1]) * 1e6 / requests)
    print(f"{target}, {flight} at once, {rounds} rounds of {requests} requests: µs of processor time for each")
    for name, numbers in found.items():
        ratios = [one / other for one, other in zip(numbers, found[BASE])]
        own = f"[{statistics.median(parts[name]):.1f}]"
        ratio = middle(ratios, "{:.2f}")
        print(f"  {name:<14} {middle(numbers, '{:.1f}'):>22} {own:>7}   / {BASE}: {ratio}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilotlight", required=True, help="the gateway's binary")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=20_000, help="64 at once; a quarter of it one at a time")
    parser.add_argument("--paths", default="/hello,/json", help="both if not given")
    parser.add_argument("--flights", default="64,1", help="how many requests at once")
    parser.add_argument("--kinds", default=",".join(KINDS), help="all if not given")
    options = parser.parse_args()
    kinds = dict.fromkeys([BASE, *options.kinds.split(",")])
    with ExitStack() as stack:
        targets = {}
        for name in kinds:
            start = behind_nginx if name.startswith("nginx") else behind_gateway
            targets[name] = stack.enter_context(start(name, options.pilotlight))
        sizes = {name: [len(ask(each.port, path)) for path in ("/hello", "/json")] for name, each in targets.items()}
        assert len(set(map(tuple, sizes.values()))) == 1, sizes
        print(f"bodies of {sizes[BASE][0]} and {sizes[BASE][1]} bytes")
        for target in options.paths.split(","):
            for flight in map(int, options.flights.split(",")):
                requests = options.requests if flight > 1 else options.requests // 4
                measure(targets, target, flight, requests, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
