"""Five primaries on free ports of the loopback, without replicas and persistence, in the run's scratch folder."""
import binascii
import os
import shutil
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass

from .procfs import CpuTime
from .program import Failed, Program, accepts
from .resp import Connection, encode

NODES = 5
# the keys `key:0`, `key:1` … that the clients of lab/peers/redis ask for, and the bytes of their values
KEYS = 100_000
VALUE_BYTES = 64
SLOTS = 16_384
FORM_SECONDS = 20
POLL_SECONDS = 0.05
FILL_AT_ONCE = 1000
OK = b"+OK\r\n"


@dataclass
class Node:
    port: int
    bus_port: int
    program: Program = None
    connection: Connection = None


@dataclass
class Sample:
    """What the servers have used and counted so far."""

    cpu: CpuTime
    counters: dict

    def since(self, before):
        """CPU seconds, and by how much each counter has grown."""
        grown = {key: value - before.counters.get(key, 0) for key, value in self.counters.items()}
        return self.cpu.since(before.cpu), grown


class Cluster:
    """Runs from the beginning to the end of the `with` block, which stops exactly the servers that it started."""

    def __init__(self, lab):
        self.lab = lab
        ports = free_ports(2 * NODES)
        self.nodes = [Node(port, bus_port) for port, bus_port in zip(ports[:NODES], ports[NODES:])]
        self.stack = None

    def __enter__(self):
        with ExitStack() as stack:  # stops what has been started if anything here fails
            for node in self.nodes:
                node.program = stack.enter_context(self.program(node))
            for node in self.nodes:
                node.program.wait_until(lambda node=node: accepts(node.port))
                node.connection = Connection(node.port)
                stack.callback(node.connection.close)
            self.join()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self.stack.close()

    @property
    def ports(self):
        return [node.port for node in self.nodes]

    def program(self, node):
        server = os.environ.get("REDIS_SERVER") or shutil.which("redis-server") or shutil.which("valkey-server")
        if not server:
            raise Failed("no redis-server and no valkey-server, 7.0 or later; install: apt-get install redis-server")
        folder = self.lab.folder(f"node-{node.port}")
        command = [server, "--bind", "127.0.0.1", "--port", node.port, "--dir", folder, "--save", "", "--appendonly", "no", "--io-threads", 1,
                   "--cluster-enabled", "yes", "--cluster-port", node.bus_port, "--cluster-node-timeout", 15_000]
        return Program(command, folder / "log", core=None)

    def join(self):
        """Gives each node its slots and makes them know each other."""
        bounds = slot_bounds()
        for number, node in enumerate(self.nodes):
            node.connection.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            node.connection.command("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        for node in self.nodes[1:]:
            self.nodes[0].connection.command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        end = time.monotonic() + FORM_SECONDS
        while not all(is_complete(node.connection.command("CLUSTER", "INFO")) for node in self.nodes):
            if time.monotonic() > end:
                raise Failed(f"the cluster was not complete after {FORM_SECONDS} s")
            time.sleep(POLL_SECONDS)

    def fill(self):
        """Writes every key."""
        shares = [[] for _ in self.nodes]
        for number in range(KEYS):
            key = f"key:{number}".encode()
            shares[node_of(key)].append(encode("SET", key, b"x" * VALUE_BYTES))
        for node, commands in zip(self.nodes, shares):
            for begin in range(0, len(commands), FILL_AT_ONCE):
                set_at_once(node.connection, commands[begin:begin + FILL_AT_ONCE])

    def sample(self):
        for node in self.nodes:
            node.connection.send("INFO", "stats")
        counters = {}
        for node in self.nodes:
            for key, value in parse_counters(node.connection.receive()).items():
                counters[key] = counters.get(key, 0) + value
        return Sample(CpuTime.of([node.program.process.pid for node in self.nodes]), counters)


def free_ports(count):
    """Different ones: they are held until all are known."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def slot_bounds():
    """Node `n` has the slots from `bounds[n]` to before `bounds[n + 1]`."""
    return [SLOTS * number // NODES for number in range(NODES + 1)]


def slot_of(key):
    """The hash slot by the cluster specification: only the first `{…}` counts if there is something in it."""
    _, opened, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return binascii.crc_hqx(tag if opened and closed and tag else key, 0) % SLOTS


def node_of(key):
    slot = slot_of(key)
    return next(number for number, bound in enumerate(slot_bounds()[1:]) if slot < bound)


def is_complete(info):
    """Whether CLUSTER INFO says that all nodes are known and all slots served."""
    lines = info.splitlines()
    return "cluster_state:ok" in lines and f"cluster_known_nodes:{NODES}" in lines


def parse_counters(info):
    """The whole numbers of an INFO section."""
    pairs = (line.partition(":") for line in info.splitlines())
    return {key: int(value) for key, _, value in pairs if value.isdigit()}


def set_at_once(connection, commands):
    connection.socket.sendall(b"".join(commands))
    wanted = OK * len(commands)
    answer = connection.input.read(len(wanted))
    if answer != wanted:
        raise Failed(f"filling the cluster: the server on port {connection.port} answered {answer[:100]!r}")
