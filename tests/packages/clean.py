"""What tests of packages share: the packages, made once of the programs that are there, and clean places for them.

`make test-packages` builds the programs first. BIN_DIR and STATIC_BIN_DIR name folders with others: for
tests any build will do.
"""

import functools
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
CPU = os.uname().machine
DIST = ROOT / "target" / "dist"
BIN = Path(os.environ.get("BIN_DIR") or DIST / "bin" / f"{CPU}-unknown-linux-gnu").resolve()
STATIC = Path(os.environ.get("STATIC_BIN_DIR") or DIST / "bin" / f"{CPU}-unknown-linux-musl").resolve()
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
LIMIT = 120  # seconds for what takes some on a quiet machine


def run(*command, code=0, **options):
    """What a program said; fails the test with it if the exit code is another one."""
    words = [str(word) for word in command]
    settings = {"timeout": 600, "stdin": subprocess.DEVNULL} | options
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)
    assert done.returncode == code, f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


@functools.cache
def packaged(kind, *arguments):
    """The folder with what packaging/KIND.py has written."""
    out = ROOT / "target" / "packages-test" / "-".join([kind, *(word.strip("-") for word in arguments)])
    shutil.rmtree(out, ignore_errors=True)
    programs = BIN if kind == "deb" else STATIC
    run(sys.executable, "-B", PACKAGING / f"{kind}.py", "--bin-dir", programs, "--out", out, *arguments)
    return out


def one(folder, pattern):
    """The only file of that name."""
    found = list(folder.glob(pattern))
    assert len(found) == 1, f"{pattern} in {folder}: {found}"
    return found[0]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def eventually(check, message, limit=LIMIT):
    end = time.monotonic() + limit
    while not (answer := check()):
        assert time.monotonic() < end, message
        time.sleep(0.05)
    return answer


def page(port, host="127.0.0.1", path="/", context=None):
    """Status and body of a GET, by TLS if there is a context; None while nobody answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as plain:
            stream = context.wrap_socket(plain, server_hostname=host) if context else plain
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: stream.recv(65536), b""))
    except ConnectionError:
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def trusting(path):
    return ssl.create_default_context(cafile=str(path))


def ended(process):
    """Stops a program, and says how it ended."""
    process.terminate()
    try:
        return process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def loaded(path):
    return json.loads(Path(path).read_text())
