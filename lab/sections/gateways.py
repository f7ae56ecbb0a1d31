"""Whether eight gateways on one Redis Cluster answer eight times as many hits as one."""
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from harness import peers
from harness.gateway import Gateway, route_table, service_table
from harness.load import cbench, measure
from harness.program import Program, accepts, free_port
from harness.report import Column

from .redis_tier import LEAST_HITS, PATH, PRIMARIES, SMALL, Failed, Node, fill, make_cluster

TITLE = "Hits of eight gateways beside those of one"
HYPOTHESIS = "Gateways share Redis, and a hit costs each of them what it costs one alone"
PROGRAMS = ["nginx", "redis-server"]
GATEWAYS = 8
CONNECTIONS = 8  # of each gateway's load
PATHS = 20_000
WARM_UP_SECONDS = 1
COLUMNS = [
    Column("gateway_us", "CPU of a gateway", "µs", 2),
    Column("redis_us", "CPU of Redis", "µs", 2),
    Column("rps", "throughput on one core", "/s"),
    Column("origin_us", "CPU of the service", "µs", 2),
]


def run(lab):
    names = {
        (tier, count): f"{tier} hit, {count} gateway{'s' * (count > 1)}"
        for tier in ("memory", "Redis")
        for count in (1, GATEWAYS)
    }
    variants = {
        name: variant(lab, count, PATHS if tier == "Redis" else None) for (tier, count), name in names.items()
    }
    samples = lab.run_rounds("gateways", variants)
    workload = (
        f"{PRIMARIES} primaries on loopback, {CONNECTIONS} connections to each gateway; all gateways on core 0, load "
        f"and Redis on core 1; {lab.options.secs:g} s"
    )
    lab.table("hits", "Answers of 200 bytes, by one gateway and by eight", workload, samples, COLUMNS)
    for tier in ("memory", "Redis"):
        one, eight = (samples.values(names[tier, count], "gateway_us") for count in (1, GATEWAYS))
        times = [GATEWAYS * a / b for a, b in zip(one, eight, strict=True) if a and b]
        title = f"{tier} hits of {GATEWAYS} gateways with a core each / of one, by CPU"
        lab.figure(title, 7, " ×", times, at_least=True)


def variant(lab, count, paths):
    def measured():
        with ExitStack() as stack:
            nodes = [Node(lab, number) for number in range(PRIMARIES)]
            for node in nodes:
                stack.enter_context(lab.started(node.program, lambda node=node: accepts(node.port)))
            make_cluster(nodes)
            origin_port = free_port()
            command = peers.nginx_origin(lab.folder("origin"), origin_port)
            program = Program(command, lab.scratch / "log")
            origin = stack.enter_context(lab.started(program, lambda: accepts(origin_port)))
            memory = SMALL if paths else "64MiB"
            gateways = [
                stack.enter_context(gateway(lab, number, nodes, origin_port, memory)) for number in range(count)
            ]
            fill(gateways[0].target, nodes, paths)
            together(gateways, WARM_UP_SECONDS, paths)
            groups = {"gateway": [pid for each in gateways for pid in each.own_pids],
                      "redis": [pid for node in nodes for pid in node.program.pids], "origin": origin.pids}  # fmt: skip
            before = sum(node.info("keyspace_hits") for node in nodes)
            result = measure(together, groups, gateways, lab.options.secs, paths)
            hits = sum(node.info("keyspace_hits") for node in nodes) - before
            if paths and hits < LEAST_HITS * result["n"]:
                raise Failed(f"only {hits} of {result['n']} requests were answered by Redis")
            return result
    return measured


def gateway(lab, number, nodes, origin_port, memory):
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    redis = f'url = "redis+cluster://{hosts}"\nbudget = "1s"\nqueue = 100000\nqueue_memory = "512MiB"\n'
    tables = [
        service_table("origin", url=f"http://127.0.0.1:{origin_port}"),
        route_table("/", "origin", cache="10h"),
        f"[cache.redis]\n{redis}",
    ]
    return Gateway(lab, f"gateway-{number}", tables, memory=memory)


def together(gateways, seconds, paths):
    """A load for each gateway, all at once; their sum."""
    with ThreadPoolExecutor(len(gateways)) as pool:
        loads = [pool.submit(cbench, each.target, CONNECTIONS, 1, seconds, PATH, paths) for each in gateways]
        results = [load.result() for load in loads]
    return {name: sum(result[name] for result in results) for name in ("n", "rps")}
