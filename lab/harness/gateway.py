"""Pilotlight under measurement: its configuration and its processes."""
import json

from . import procfs
from .paths import GATEWAY_BIN, PEER_BIN
from .program import SERVER_CORE, Program, accepts, free_port


def service_table(name, **keys):
    """A `[services.NAME]` table. JSON's strings, numbers, booleans and lists are TOML's as well."""
    return f"[services.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def route_table(path, service, cache=False):
    return f"[[routes]]\npath = {json.dumps(path)}\nservice = {json.dumps(service)}\ncache = {json.dumps(cache)}\n"


class Gateway(Program):
    """A gateway with one worker that listens on a free port of its own."""

    def __init__(self, lab, name, tables, core=SERVER_CORE, memory="64MiB"):
        lab.require("pilotlight", GATEWAY_BIN)
        self.port = free_port()
        folder = lab.folder(name)
        config = folder / "pilotlight.toml"
        config.write_text("\n".join([f'listen = "127.0.0.1:{self.port}"\nworkers = 1\n\n[cache]\nmemory = "{memory}"\n', *tables]))
        super().__init__([GATEWAY_BIN, "--config", config], folder / "log", core)

    def __enter__(self):
        try:
            self.wait_until(lambda: accepts(self.port))
        except BaseException:
            self.stop()
            raise
        return self

    @property
    def target(self):
        return f"127.0.0.1:{self.port}"

    @property
    def own_pids(self):
        """The gateway and its helper process: whatever of the tree runs the gateway's binary."""
        return [pid for pid in self.pids if procfs.executable(pid) == str(GATEWAY_BIN)]

    @property
    def service_pids(self):
        own = self.own_pids
        return [pid for pid in self.pids if pid not in own]


def one_service(lab, name, command, **keys):
    """One service that the gateway starts, over the pipe if its name begins with that, and the route to it."""
    if command[0] == PEER_BIN / "svcpipe":
        lab.require("svcpipe", command[0])
    transport = {"transport": "pipe"} if name.startswith("pipe") else {"transport": "http", "socket": "unix"}
    return [service_table("service", command=[str(part) for part in command], **transport, **keys), route_table("/", "service")]
