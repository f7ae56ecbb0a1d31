"""Figure 1: what a cached answer costs, beside the floor and the caches of other gateways."""
from contextlib import ExitStack

from harness import peers
from harness.gateway import Gateway, route_table, service_table
from harness.load import GENERATORS, measure
from harness.paths import PEER_BIN
from harness.program import Failed, Program, accepts, check_answer, free_port
from harness.report import ratios, spread

FLOOR, HYPER, HAPROXY, NGINX, OURS = (
    "limit: epoll + httparse", "hyper alone", "HAProxy cache hit", "nginx proxy_cache hit", "pilotlight cache hit")
WARM_UP_SECONDS = 1
# the origin answers each request in some 7 µs; more than this for each request means that not all were hits
ORIGIN_IDLE_US = 0.1
COLUMNS = [("CPU µs/request", "server_us", 2), ("core %", "core_percent", 0), ("requests/s", "rps", 0), ("p50 µs", "p50", 0),
           ("p99 µs", "p99", 0), ("errors", "errors", 0)]


def run(lab):
    samples = lab.run_rounds("cached", variants(lab, connections=64, depth=1))
    lab.print_table("**Cached 200-byte JSON, 64 connections, no pipelining** (server on core 0, load on core 1)", samples,
                    [*COLUMNS, ("× floor", lambda name: ratio(samples, name, FLOOR))])
    cpu = samples.values(OURS, "server_us")
    for peer, limit in ((FLOOR, 1.3), (NGINX, 0.6)):
        lab.figure(f"cached, 64 connections: CPU / {peer}", limit, "×", ratios(cpu, samples.values(peer, "server_us")),
                   errors=samples.errors(OURS))


def variants(lab, connections, depth):
    def load(server, origin, port):
        return load_server(lab, server, origin, port, connections, depth)

    def bare(name):
        def measured():
            port = free_port()
            with lab.started(Program([PEER_BIN / name, port], lab.scratch / "log"), lambda: accepts(port)) as server:
                return load(server, None, port)
        return measured

    def cache(command):
        def measured():
            port, origin_port = free_port(), free_port()
            with ExitStack() as stack:
                origin = stack.enter_context(started_origin(lab, origin_port))
                program = Program(command(port, origin_port), lab.scratch / "log")
                server = stack.enter_context(lab.started(program, lambda: accepts(port)))
                return load(server, origin, port)
        return measured

    def ours():
        origin_port = free_port()
        tables = [service_table("origin", url=f"http://127.0.0.1:{origin_port}"), route_table("/", "origin", cache="10h")]
        with started_origin(lab, origin_port) as origin, Gateway(lab, "cached", tables) as gateway:
            return load(gateway, origin, gateway.port)

    return {
        FLOOR: bare("limit"),
        HYPER: bare("hyperd"),
        HAPROXY: cache(lambda port, origin: peers.haproxy_cache(lab.folder("haproxy"), port, origin)),
        NGINX: cache(lambda port, origin: peers.nginx_cache(
            lab.folder("nginx"), port, origin, lab.memory_scratch / "nginx-cache")),
        OURS: ours,
    }


def started_origin(lab, port):
    return lab.started(Program(peers.nginx_origin(lab.folder("origin"), port), lab.scratch / "log"), lambda: accepts(port))


def load_server(lab, server, origin, port, connections, depth):
    generate = GENERATORS[lab.options.generator]
    target = f"127.0.0.1:{port}"
    for _ in range(2):  # the second is a hit
        check_answer(port, peers.CACHED_PATH, peers.CACHED_JSON)
    generate(target, connections, depth, WARM_UP_SECONDS, peers.CACHED_PATH)
    groups = {"server": server.pids, "origin": origin.pids if origin else []}
    result = measure(generate, groups, target, connections, depth, lab.options.secs, peers.CACHED_PATH)
    if result.pop("origin_us") > ORIGIN_IDLE_US:
        raise Failed("the origin was asked while only hits were to be measured")
    result["core_percent"] = result["server_us"] * result["rps"] / 1e4
    return result


def ratio(samples, name, base):
    return spread(ratios(samples.values(name, "server_us"), samples.values(base, "server_us")))
