"""Figure 4: the same handler behind the same gateway, over the pipe and over HTTP on a Unix socket."""
from harness import peers
from harness.gateway import Gateway, route_table, service_table
from harness.paths import PEER_BIN, PEERS, PIPE_SERVICES, PYTHON, VENV_PYTHON
from harness.program import Failed, check_answer
from harness.report import ratios

from . import proxy

PIPE = "pipe"
LANGUAGES = {
    "Rust": {PIPE: [PEER_BIN / "svcpipe"], "HTTP, hyper": [PEER_BIN / "svchyper"]},
    "Python": {PIPE: [PYTHON, PIPE_SERVICES / "service.py"], "HTTP, uvicorn": [VENV_PYTHON, PEERS / "services/asgi.py"],
               "HTTP, http.server": [PYTHON, PEERS / "services/httpserver.py"]},
    "Node": {PIPE: ["node", PIPE_SERVICES / "service.js"], "HTTP, node:http": ["node", PEERS / "services/http.js"]},
}
COLUMNS = [("gateway + service CPU µs, sequential", "total_us_1", 1), ("gateway CPU µs @64", "gateway_us", 1),
           ("service CPU µs @64", "service_us", 2), ("gateway + service @64", "total_us", 1), ("sequential p50 µs", "p50_1", 0),
           ("requests/s @64", "rps", 0), ("p99 µs @64", "p99", 0), ("errors", "errors", 0)]


def run(lab):
    for language, services in LANGUAGES.items():
        samples = lab.run_rounds(f"pipe, {language}", {name: variant(lab, name, command) for name, command in services.items()})
        title = f"**{language}: the pipe against HTTP over a Unix socket** (gateway and service on core 0, load on core 1)"
        lab.print_table(title, samples, COLUMNS)
        others = [name for name in services if name != PIPE]
        for text, key, limit in (("gateway + service CPU, sequential", "total_us_1", 1),
                                 ("gateway + service CPU @64", "total_us", 1), ("service CPU @64", "service_us", 0.5)):
            best = samples.best(others, key)
            values = ratios(samples.values(PIPE, key), samples.values(best, key))
            lab.figure(f"{language}: {text}, pipe / HTTP", limit, "×", values, f"against {best or '–'}",
                       samples.errors(PIPE))


def variant(lab, name, command):
    def measured():
        with Gateway(lab, "pipe", tables(lab, name, command)) as gateway:
            check_answer(gateway.port, "/", peers.SERVICE_JSON)
            result = proxy.load(lab, gateway.target, gateway.own_pids, gateway.service_pids)
        for suffix in ("", "_1"):
            result["total_us" + suffix] = result["gateway_us" + suffix] + result["service_us" + suffix]
        return result
    return measured


def tables(lab, name, command, **keys):
    """One service that the gateway starts, and the route to it."""
    require(lab, command)
    transport = {"transport": "pipe"} if name.startswith(PIPE) else {"transport": "http", "socket": "unix"}
    return [service_table("service", command=[str(part) for part in command], **transport, **keys), route_table("/", "service")]


def require(lab, command):
    """Fails with what to do when a service's program is not there yet."""
    if command[0] == PEER_BIN / "svcpipe":
        lab.require("svcpipe", command[0])
    if command[0] == VENV_PYTHON and not command[0].exists():
        raise Failed("uvicorn is not installed; lab/setup.sh installs what is needed")
