"""Ports that no parallel test takes meanwhile, for programs that are told where to listen.

A number that was bound and closed again may be given to the next socket that asks for any: of another test, or of a
connection that goes out. These lie below the range from which Linux takes them (32768 and more), and each belongs to
one process at a time. crates/testkit/src/port.rs takes its ports in the same way, with the same locks.
"""

import fcntl
import itertools
import os
import socket
import tempfile
from pathlib import Path

FIRST, COUNT = 11_000, 10_000
#: Redis: the bus port of a cluster's node is its port and 10,000.
BUS_OFFSET = 10_000
LOCKS = Path(tempfile.gettempdir()) / f"pilotlight-ports-{os.getuid()}"

_mine = []  # locked files: the kernel unlocks them when this process ends, however it ends
_turns = itertools.count()


def free_port():
    """A port that is this process's until it ends, also while nothing listens on it; its bus port is free as well."""
    LOCKS.mkdir(exist_ok=True)
    for _ in range(COUNT):
        port = FIRST + (os.getpid() * 61 + next(_turns)) % COUNT
        lock = open(LOCKS / str(port), "ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        if _is_free(port) and _is_free(port + BUS_OFFSET):
            _mine.append(lock)
            return port
        lock.close()
    raise OSError(f"none of the ports {FIRST} to {FIRST + COUNT - 1} is free")


def free_ports(count):
    return [free_port() for _ in range(count)]


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
