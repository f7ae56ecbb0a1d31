"""What an answer from Redis costs beside one from memory: a cluster of five primaries, 200-byte answers."""
import re
import subprocess
from contextlib import ExitStack

from harness import peers
from harness.gateway import Gateway, route_table, service_table
from harness.load import cbench, measure
from harness.program import LOAD_CORE, Failed, Program, accepts, free_port
from harness.report import Column, ratios

TITLE = "An answer from Redis beside one from memory"
HYPOTHESIS = "A hit in Redis costs the gateway about twice a hit in memory, and a client a tenth of a millisecond"
PROGRAMS = ["nginx", "redis-server"]
MEMORY, REDIS, ALONE = "memory hit", "Redis hit", "Redis hit, 1 connection"
PRIMARIES = 5
# more than `SMALL` holds by far, so that memory has none of them when their turn comes again
PATHS = 20_000
SMALL = "1MiB"
CONNECTIONS = 64
WARM_UP_SECONDS = 1
# requests that Redis answers, at least, or it is not Redis that is measured
LEAST_HITS = 0.95
BUS = 10_000
COLUMNS = [Column("gateway_us", "CPU of the gateway", "µs", 2), Column("redis_us", "CPU of Redis", "µs", 2), Column("rps", "throughput", "/s"),
           Column("p50", "p50", "µs"), Column("p99", "p99", "µs")]


def run(lab):
    samples = lab.run_rounds("redis_tier", {MEMORY: variant(lab, CONNECTIONS, None), REDIS: variant(lab, CONNECTIONS, PATHS),
                                            ALONE: variant(lab, 1, PATHS)})
    workload = f"{PRIMARIES} primaries on loopback, {CONNECTIONS} connections; gateway on core 0, load and Redis on core 1; {lab.options.secs:g} s"
    lab.table("hits", "Answers of 200 bytes from memory and from Redis", workload, samples, COLUMNS)
    cost = ratios(samples.values(REDIS, "gateway_us"), samples.values(MEMORY, "gateway_us"))
    lab.figure("Redis hit, 64 connections: gateway CPU / memory hit", 2.2, " ×", cost)
    lab.figure("Redis hit, 1 connection: p50", 150, " µs", samples.values(ALONE, "p50"))


def variant(lab, connections, paths):
    def measured():
        with ExitStack() as stack:
            nodes = [Node(lab, number) for number in range(PRIMARIES)]
            for node in nodes:
                stack.enter_context(lab.started(node.program, lambda node=node: accepts(node.port)))
            make_cluster(nodes)
            origin_port = free_port()
            command = peers.nginx_origin(lab.folder("origin"), origin_port)
            origin = stack.enter_context(lab.started(Program(command, lab.scratch / "log"), lambda: accepts(origin_port)))
            hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
            tables = [service_table("origin", url=f"http://127.0.0.1:{origin_port}"), route_table("/", "origin", cache="10h"),
                      f'[cache.redis]\nurl = "redis+cluster://{hosts}"\nbudget = "1s"\nqueue = 100000\nqueue_memory = "512MiB"\n']
            memory = SMALL if paths else "64MiB"
            gateway = stack.enter_context(Gateway(lab, "redis-tier", tables, memory=memory))
            fill(gateway.target, nodes, paths)
            cbench(gateway.target, connections, 1, WARM_UP_SECONDS, PATH, paths)
            groups = {"gateway": gateway.own_pids, "redis": [pid for node in nodes for pid in node.program.pids], "origin": origin.pids}
            before = sum(node.info("keyspace_hits") for node in nodes)
            result = measure(cbench, groups, gateway.target, connections, 1, lab.options.secs, PATH, paths)
            hits = sum(node.info("keyspace_hits") for node in nodes) - before
            if paths and hits < LEAST_HITS * result["n"]:
                raise Failed(f"only {hits} of {result['n']} requests were answered by Redis")
            return result
    return measured


PATH = "/users/"


def fill(target, nodes, paths):
    """Asks for each path until Redis has them all."""
    for seconds in (1, 2, 4, 8, 16):  # each time from the first path on
        cbench(target, CONNECTIONS, 1, seconds, PATH, paths)
        if not paths or sum(node.keys() for node in nodes) >= paths:
            return
    raise Failed(f"of {paths} answers Redis has {sum(node.keys() for node in nodes)}")


class Node:
    """A primary, on the core of the load."""

    def __init__(self, lab, number):
        self.port = free_port()
        while self.port + BUS > 65_535:
            self.port = free_port()
        folder = lab.folder(f"redis-{number}")
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.conf"):
            old.unlink()
        command = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder,
                   "--cluster-enabled", "yes"]
        self.program = Program(command, folder / "log", LOAD_CORE)

    def command(self, *words):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *map(str, words)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def keys(self):
        return int(self.command("DBSIZE"))

    def info(self, name):
        return int(re.search(rf"^{name}:(\d+)", self.command("INFO", "stats"), re.MULTILINE)[1])


def make_cluster(nodes):
    hosts = [f"127.0.0.1:{node.port}" for node in nodes]
    command = ["redis-cli", "--cluster", "create", *hosts, "--cluster-yes"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stdout[-300:]}{done.stderr[-300:]}")
