"""Real servers of Redis for tests: one, or a cluster; killed with the test. And proxies that delay and hold back."""

import contextlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

from ports import free_port
from programs import program

__all__ = ["Cluster", "HoldingProxy", "Server", "SlowProxy"]

LIMIT = 20.0


def until(check, what):
    begun = time.monotonic()
    while not check():
        if time.monotonic() - begun > LIMIT:
            raise TimeoutError(f"{what}: not within {LIMIT} s")
        time.sleep(0.01)


class Server:
    """One server, without persistence, in a folder of its own."""

    def __init__(self, *arguments, port=None):
        self._program = program("redis-server", "valkey-server")
        self._folder = tempfile.TemporaryDirectory(prefix="pilotlight-redis-")
        self._arguments = arguments
        self.port = port or free_port()
        self.process = None
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        command = [self._program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--dir", self._folder.name]
        self.process = subprocess.Popen([*command, *self._arguments], stdout=subprocess.DEVNULL, start_new_session=True)
        until(self.answers, f"an answer of {self._program} on port {self.port}")

    def answers(self):
        try:
            return self.command("PING") == "PONG"
        except OSError:
            return False

    def command(self, *words):
        """The first line of the reply to a command, or the whole of a string."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT) as connection, connection.makefile("rwb") as stream:
            encoded = [str(word).encode() for word in words]
            stream.write(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded))
            stream.flush()
            head = stream.readline().decode().strip()
            if head.startswith("-"):
                raise OSError(head)
            return stream.read(int(head[1:])).decode() if head.startswith("$") and head != "$-1" else head[1:]

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.kill()
        self._folder.cleanup()


class Cluster:
    """Primaries, and a replica of each if wanted."""

    def __init__(self, primaries=3, replicas=0):
        timeout = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0"]
        self.nodes = [Server(*timeout) for _ in range(primaries * (1 + replicas))]
        self.primaries, self.replicas = self.nodes[:primaries], self.nodes[primaries:]
        first = self.nodes[0]
        for node in self.nodes[1:]:
            node.command("CLUSTER", "MEET", "127.0.0.1", first.port)
        bounds = [16384 * number // primaries for number in range(primaries + 1)]
        for node, begin, end in zip(self.primaries, bounds, bounds[1:]):
            node.command("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
        everybody = lambda: all(self._known(node) == len(self.nodes) for node in self.nodes)  # noqa: E731
        until(everybody, "all nodes know each other")
        for number, node in enumerate(self.replicas):
            node.command("CLUSTER", "REPLICATE", self.primaries[number % primaries].command("CLUSTER", "MYID"))
        until(lambda: all("cluster_state:ok" in node.command("CLUSTER", "INFO") for node in self.nodes), "a cluster")
        synced = lambda: all("master_link_status:up" in node.command("INFO", "replication") for node in self.replicas)  # noqa: E731
        until(synced, "replicas with their data")

    @staticmethod
    def _known(node):
        return int(next(line for line in node.command("CLUSTER", "INFO").split() if line.startswith("cluster_known_nodes")).split(":")[1])

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.primaries)

    def fail_over(self):
        """Kills the first primary, and waits until its replica has its place."""
        self.primaries[0].kill()
        until(lambda: "role:master" in self.replicas[0].command("INFO", "replication"), "a promotion")

    def move(self, source, target, slots):
        """Moves slots with all their keys."""
        ids = {node: node.command("CLUSTER", "MYID") for node in (source, target)}
        for slot in slots:
            target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
            source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
            while keys := self._keys(source, slot):
                source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            for node in (target, source, *(other for other in self.primaries if other not in (source, target))):
                with contextlib.suppress(OSError):
                    node.command("CLUSTER", "SETSLOT", slot, "NODE", ids[target])

    @staticmethod
    def _keys(node, slot):
        with socket.create_connection(("127.0.0.1", node.port), timeout=LIMIT) as connection, connection.makefile("rwb") as stream:
            stream.write(b"CLUSTER GETKEYSINSLOT %d 100\r\n" % slot)
            stream.flush()
            keys = []
            for _ in range(int(stream.readline()[1:])):
                stream.readline()
                keys.append(stream.readline().decode().strip())
            return keys

    def close(self):
        for node in self.nodes:
            node.close()


class Proxy:
    """Before a server."""

    def __init__(self, port):
        self._to, self._ends = port, []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def _accept(self):
        while True:
            try:
                client, _ = self._socket.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._ends += [client, server]
            for source, target, passes in ((client, server, self.asked), (server, client, self.answers)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass, args=(source, target, passes), daemon=True).start()

    def asked(self, data):
        """Something has come for the server, which it gets afterwards."""

    def answers(self, data):
        """Something has come from the server, which the client gets afterwards."""

    def _pass(self, source, target, passes):
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                passes(data)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        for end in (self._socket, *self._ends):
            end.close()


class SlowProxy(Proxy):
    """What comes back waits `delay` seconds, which may be changed."""

    delay = 0.0

    def answers(self, _):
        if self.delay:
            time.sleep(self.delay)


class HoldingProxy(Proxy):
    """Counts records that are read; within `holding()` nothing comes back."""

    def __init__(self, port):
        self._opened, self._read, self.reads = threading.Event(), threading.Condition(), 0
        self._opened.set()
        super().__init__(port)

    def asked(self, data):
        with self._read:
            self.reads += len(re.findall(rb"\r\nGET\r\n\$\d+\r\npilotlight:1:{", data))
            self._read.notify_all()

    def answers(self, _):
        self._opened.wait()

    @contextlib.contextmanager
    def holding(self):
        self._opened.clear()
        try:
            yield
        finally:
            self._opened.set()

    def until_reads(self, count):
        with self._read:
            if not self._read.wait_for(lambda: self.reads >= count, LIMIT):
                raise TimeoutError(f"{count} reads: not within {LIMIT} s, but {self.reads}")
