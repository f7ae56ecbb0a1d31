"""Pilotlight under measurement: its configuration and its processes."""
import json
import subprocess

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

    def __init__(self, lab, name, tables, core=SERVER_CORE, memory="64MiB", is_secure=False):
        """`is_secure`: it listens with TLS as well, on `secure_port`, for which `tls.pem` and `tls.key` are there."""
        lab.require("pilotlight", GATEWAY_BIN)
        self.port = free_port()
        folder = lab.folder(name)
        listen = [f"127.0.0.1:{self.port}"]
        if is_secure:
            self.secure_port, self.certificate = free_port(), folder / "tls.pem"
            issue(self.certificate, folder / "tls.key")
            listen.append(f"https://127.0.0.1:{self.secure_port}")
        config = folder / "pilotlight.toml"
        head = f'listen = {json.dumps(listen)}\nworkers = 1\n\n[cache]\nmemory = "{memory}"\n'
        config.write_text("\n".join([head, *tables]))
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


def issue(certificate, key):
    """A certificate for localhost that has signed itself."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)


def one_service(lab, name, command, **keys):
    """One service that the gateway starts, over the pipe if its name begins with that, and the route to it."""
    if command[0] == PEER_BIN / "svcpipe":
        lab.require("svcpipe", command[0])
    transport = {"transport": "pipe"} if name.startswith("pipe") else {"transport": "http", "socket": "unix"}
    return [service_table("service", command=[str(part) for part in command], **transport, **keys), route_table("/", "service")]
