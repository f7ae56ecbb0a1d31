#!/usr/bin/env python3
"""How soon `pilotlight redis cli` is there: the first prompt at a pseudo-terminal, and one command, beside redis-cli.

    lab/redis_cli.py target/release/pilotlight [--runs 30]

Starts a redis-server on a Unix socket of its own. Programs alternate in each round; printed are median and range in milliseconds.
Exit status 1 when the median of the first prompt is above 50 ms.
"""

import argparse
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

LIMIT_MS = 50.0
PATIENCE = 10.0


def first_prompt(command, env):
    """Milliseconds from the start of the program to its prompt."""
    start = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        # Without a size, redis-cli asks the terminal where its cursor is.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.execvpe(command[0], command, env)
    seen = b""
    try:
        while b"> " not in seen:
            ready, _, _ = select.select([terminal], [], [], PATIENCE)
            if not ready:
                sys.exit(f"{command[0]}: no prompt within {PATIENCE:.0f} s, but {seen!r}")
            seen += os.read(terminal, 4096)
        return (time.perf_counter() - start) * 1e3
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def one_command(command, env):
    start = time.perf_counter()
    subprocess.run([*command, "PING"], check=True, stdout=subprocess.DEVNULL, env=env)
    return (time.perf_counter() - start) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the binary: pilotlight")
    parser.add_argument("--runs", type=int, default=30, help="rounds (default: 30)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "s")
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while not os.path.exists(socket):
                if time.monotonic() > deadline:
                    sys.exit("redis-server does not start")
                time.sleep(0.01)
            env = {"PATH": os.environ["PATH"], "HOME": folder, "TERM": "xterm-256color"}
            programs = {
                "pilotlight": [os.path.abspath(arguments.program), "redis", "cli", "--socket", socket],
                "redis-cli": ["redis-cli", "-s", socket],
            }
            times = {}
            for _ in range(arguments.runs):
                for name, command in programs.items():
                    for what, measure in (("first prompt", first_prompt), ("one command", one_command)):
                        times.setdefault((what, name), []).append(measure(command, env))
        finally:
            server.terminate()
            server.wait()
    for (what, name), values in sorted(times.items()):
        print(f"{what:>13}  {name:<10}  {statistics.median(values):6.1f} ms  ({min(values):.1f}–{max(values):.1f})")
    sys.exit(statistics.median(times["first prompt", "pilotlight"]) > LIMIT_MS)


if __name__ == "__main__":
    main()
