#!/usr/bin/env python3
"""CPU time of a large file: Pilotlight beside nginx, over HTTP/1.1 without TLS and with it, and what memory it takes.

    cargo build --release -p pilotlight
    lab/files_large.py                               # 1 GiB, 5 rounds, and a warm-up
    LAB_GATEWAY=target/debug/pilotlight lab/files_large.py --mib 64 --rounds 2 --json

One client on the loopback interface takes the whole file, which is in the page cache. What is counted is the processor
time of the server, from /proc, for 10^9 bytes; the client's is not. It takes what comes in pieces of 1 MiB and looks at
none of it but their number. The variants take turns in each round, and each round begins with another one; the first
round warms up. A ratio is one of the same round: its median, and the least and the greatest.
"""
import argparse
import contextlib
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import procfs
from harness.paths import GATEWAY_BIN
from harness.peers import nginx
from harness.program import Failed, Program, accepts, free_port

MIB = 1 << 20
HEAD_END = b"\r\n\r\n"
MOST_HEAD_BYTES = 16 * 1024
RUNS = {"plain": False, "TLS": True}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="size of the file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", help="another binary of the gateway to compare with")
    parser.add_argument("--folder", help="where the file is made; its file system matters")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def certificate(folder):
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost".split()
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(words, check=True, capture_output=True)
    (folder / "key.pem").chmod(0o600)


class Server:
    """One server with two ports."""

    def __init__(self, stack, folder, name, command, ports):
        self.name, self.ports = name, ports
        self.program = stack.enter_context(Program(command, folder / f"{name}.log"))
        self.program.wait_until(lambda: all(accepts(port) for port in ports.values()))

    def measure(self, run, size):
        """Seconds of CPU time for 10^9 bytes, and by how many MiB its memory has grown."""
        pids = self.program.pids
        memory, before = procfs.memory_mb(pids, "VmRSS"), procfs.CpuTime.of(pids)
        taken = take(self.ports[run], RUNS[run])
        if taken != size:
            raise Failed(f"{self.name} sent {taken} bytes of {size}: {self.program.last_words()}")
        seconds = procfs.CpuTime.of(pids).since(before)
        return {"cpu_s": seconds / size * 1e9, "grown_mib": procfs.memory_mb(pids, "VmRSS") - memory}


def pilotlight(stack, folder, name, binary):
    if not Path(binary).exists():
        raise Failed(f"{binary} is not built; LAB_GATEWAY names another one")
    ports = {run: free_port() for run in RUNS}
    file = folder / f"{name}.toml"
    file.write_text(
        f'listen = ["127.0.0.1:{ports["plain"]}", "https://127.0.0.1:{ports["TLS"]}"]\nworkers = 1\nadmin = false\n'
        f'[tls]\ncertificates = {{ certificate = "{folder}/cert.pem", key = "{folder}/key.pem" }}\n'
        f'[[routes]]\npath = "/"\nfiles = "{folder}/files"\nhttps = "allow"\n'
    )
    return Server(stack, folder, name, [binary, "run", "--config", file], ports)


def nginx_server(stack, folder):
    ports, own = {run: free_port() for run in RUNS}, folder / "nginx"
    own.mkdir()
    tls = f"ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;"
    command = nginx(own, f"""  tcp_nopush on;
  server {{ listen 127.0.0.1:{ports["plain"]}; root {folder}/files; }}
  server {{ listen 127.0.0.1:{ports["TLS"]} ssl; {tls} root {folder}/files; }}
""")
    return Server(stack, folder, "nginx", command, ports)


def take(port, with_tls):
    """Bytes of the body of /large.bin; the head says how many there are."""
    connection = socket.create_connection(("127.0.0.1", port), 60)
    with contextlib.closing(connection):
        if with_tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = context.wrap_socket(connection)
        connection.sendall(b"GET /large.bin HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")
        head, buffer = b"", bytearray(MIB)
        while HEAD_END not in head and len(head) < MOST_HEAD_BYTES:
            piece = connection.recv(4096)
            if not piece:
                raise Failed(f"the answer ended within its head: {head!r}")
            head += piece
        if not head.startswith(b"HTTP/1.1 200"):
            raise Failed(f"the answer is {head[:80]!r}")
        taken = len(head) - head.index(HEAD_END) - len(HEAD_END)
        while count := connection.recv_into(buffer):
            taken += count
        return taken


def make_file(folder, mib):
    (folder / "files").mkdir()
    with open(folder / "files/large.bin", "wb") as file:
        for _ in range(mib):
            file.write(os.urandom(MIB))
    for one in (folder, folder / "files", folder / "files/large.bin"):
        one.chmod(0o755)  # nginx's worker may be another user
    return mib * MIB


def measure(servers, size, rounds):
    """Of each server and run, what was measured in each round."""
    variants = [(server, run) for run in RUNS for server in servers]
    found = {(server.name, run): [] for server, run in variants}
    for number in range(rounds + 1):
        turn = number % len(variants)
        for server, run in variants[turn:] + variants[:turn]:
            one = server.measure(run, size)
            if number:
                found[server.name, run].append(one)
    return found


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def show(found, options):
    print(f"{options.mib} MiB to one client, {options.rounds} rounds\n")
    print(f"{'':20} {'CPU seconds for 10^9 bytes':30} memory grown, MiB")
    for (name, run), rounds in found.items():
        cpu, grown = ([one[key] for one in rounds] for key in ("cpu_s", "grown_mib"))
        print(f"{name + ', ' + run:20} {spread(cpu, 3):30} {spread(grown)}")
    print()
    for (name, run), rounds in found.items():
        if name != "nginx":
            ratios = [one["cpu_s"] / other["cpu_s"] for one, other in zip(rounds, found["nginx", run])]
            print(f"{name} / nginx, {run}: {spread(ratios)}")


def main():
    options = parse_arguments()
    with tempfile.TemporaryDirectory(dir=options.folder) as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        for program in ("nginx", "openssl"):
            if not shutil.which(program):
                raise Failed(f"{program} is not installed; lab/setup.sh installs what is needed")
        size = make_file(folder, options.mib)
        certificate(folder)
        servers = [pilotlight(stack, folder, "pilotlight", GATEWAY_BIN), nginx_server(stack, folder)]
        if options.before:
            servers.append(pilotlight(stack, folder, "before", options.before))
        found = measure(servers, size, options.rounds)
    if options.json:
        print(json.dumps([{"server": name, "run": run, "rounds": rounds} for (name, run), rounds in found.items()]))
    else:
        show(found, options)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(f"files_large: {failure}")
