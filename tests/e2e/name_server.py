"""A server of the DNS for tests: dnsmasq, on a port of its own, with the names that it is given."""

import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from http1 import eventually
from ports import free_port
from programs import program


class Dns:
    """Names below `test`, which nobody else is asked for. Every other name is one that does not exist."""

    def __init__(self, test):
        self.test, self.process, self._program = test, None, program("dnsmasq")
        self.folder = Path(tempfile.mkdtemp(prefix="pilotlight-dns-"))
        test.addCleanup(shutil.rmtree, self.folder)
        self.port = free_port()
        test.addCleanup(self.stop)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def serve(self, addresses=None, services=(), ttl=0):
        """Other names from now on: `{name: [addresses]}`, and `(name, target, port, priority, weight)` of SRV."""
        self.stop()
        hosts = "".join(f"{ip} {name}\n" for name, all_ in (addresses or {}).items() for ip in all_)
        (self.folder / "hosts").write_text(hosts)
        command = [
            self._program, "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
            "--bind-interfaces", "--listen-address=127.0.0.1", f"--port={self.port}", "--user=",
            f"--addn-hosts={self.folder / 'hosts'}", f"--pid-file={self.folder / 'pid'}",
            "--local=/#/", f"--local-ttl={ttl}",
            *(f"--srv-host={','.join(map(str, one))}" for one in services),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.test.assertTrue(eventually(self.answers, 20), "dnsmasq answers")

    def answers(self):
        """Whether it answers a question for the root's address."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(0.2)
            client.connect(("127.0.0.1", self.port))
            try:
                client.send(b"\0\1\1\0\0\1\0\0\0\0\0\0\0\0\1\0\1")
                return bool(client.recv(512))
            except OSError:
                return False

    def stop(self):
        """It is away."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
