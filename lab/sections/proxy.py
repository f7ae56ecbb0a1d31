"""Figure 3: passing requests to an HTTP service on a Unix socket, beside nginx and HAProxy with keep-alive upstreams."""
from harness import peers
from harness.gateway import Gateway, route_table, service_table
from harness.load import cbench, measure
from harness.paths import PEER_BIN, PEERS
from harness.program import Program, accepts, check_answer, free_port
from harness.report import ratios

SERVICES = {"Rust hyper": [PEER_BIN / "svchyper"], "Node http": ["node", PEERS / "services/http.js"]}
DIRECT, NGINX, HAPROXY, OURS = "direct", "nginx", "HAProxy", "pilotlight"
WARM_UP_SECONDS = 1
CONCURRENT = 64
COLUMNS = [("gateway CPU µs, sequential", "gateway_us_1", 1), ("gateway CPU µs @64", "gateway_us", 1),
           ("service CPU µs @64", "service_us", 1), ("sequential p50 µs", "p50_1", 0), ("p99 µs", "p99_1", 0),
           ("requests/s @64", "rps", 0), ("p50 µs @64", "p50", 0), ("p99 µs @64", "p99", 0), ("errors", "errors", 0)]


def run(lab):
    for service, command in SERVICES.items():
        samples = lab.run_rounds(f"proxy to {service}", variants(lab, command))
        lab.print_table(f"**Proxy to {service} on a Unix socket** (gateway and service on core 0, load on core 1)", samples, COLUMNS)
        for text, key, limit in (("gateway CPU @64", "gateway_us", 0.85), ("sequential p50", "p50_1", 1), ("p99 @64", "p99", 1)):
            best = samples.best([NGINX, HAPROXY], key)
            values = ratios(samples.values(OURS, key), samples.values(best, key))
            lab.figure(f"proxy to {service}: {text} / better of nginx, HAProxy", limit, "×", values, f"better: {best or '–'}",
                       samples.errors(OURS))


def variants(lab, command):
    def with_service(measured):
        def run_with_service():
            path = lab.socket_path()
            with lab.started(Program([*command, path], lab.scratch / "log"), lambda: accepts(path)) as service:
                return measured(path, service)
        return run_with_service

    def direct(path, service):
        return load(lab, f"unix:{path}", [], service.pids)

    def other(make_command):
        def measured(path, service):
            port = free_port()
            with lab.started(Program(make_command(port, path), lab.scratch / "log"), lambda: accepts(port)) as gateway:
                check_answer(port, "/", peers.SERVICE_JSON)
                return load(lab, f"127.0.0.1:{port}", gateway.pids, service.pids)
        return measured

    def ours(path, service):
        tables = [service_table("service", url=f"unix:{path}"), route_table("/", "service")]
        with Gateway(lab, "proxy", tables) as gateway:
            check_answer(gateway.port, "/", peers.SERVICE_JSON)
            return load(lab, gateway.target, gateway.pids, service.pids)

    return {
        DIRECT: with_service(direct),
        NGINX: with_service(other(lambda port, path: peers.nginx_proxy(lab.folder("nginx-proxy"), port, path))),
        HAPROXY: with_service(other(lambda port, path: peers.haproxy_proxy(lab.folder("haproxy-proxy"), port, path))),
        OURS: with_service(ours),
    }


def load(lab, target, gateway_pids, service_pids):
    """Sequential and concurrent load; keys that end in `_1` are of the sequential one, `errors` is of both."""
    groups = {"gateway": gateway_pids, "service": service_pids}
    cbench(target, CONCURRENT, 1, WARM_UP_SECONDS)
    sequential = measure(cbench, groups, target, 1, 1, lab.options.secs)
    concurrent = measure(cbench, groups, target, CONCURRENT, 1, lab.options.secs)
    errors = sequential["errors"] + concurrent["errors"]
    return {**concurrent, **{f"{key}_1": value for key, value in sequential.items()}, "errors": errors}
