"""A real Pebble, the test authority of Let's Encrypt, with a DNS server whose one answer is 127.0.0.1."""

import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from certificates import Authority
from ports import free_ports
from programs import program

START = 20.0  # seconds


def _accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Pebble:
    """`with Pebble(http=PORT, tls=PORT) as pebble:` validates names at these ports."""

    def __init__(self, http, tls, certificate_days=None, **environment):
        self._pebble, self._names = program("pebble"), program("pebble-challtestsrv")
        self._folder = tempfile.TemporaryDirectory(prefix="pilotlight-pebble-")
        self.folder = Path(self._folder.name)
        self._ports, self._days = (http, tls), certificate_days
        self._environment = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
        self._environment |= environment
        self._processes, self._lines = [], []
        self.port, self.management, self._dns, self._control = free_ports(4)
        self.authority = Authority(self.folder, "pebble-ca")
        self.certificate, self.key = self.authority.issue("127.0.0.1", "localhost", file="pebble")

    @property
    def root(self):
        """What Pebble's own address is checked by."""
        return self.authority.certificate

    @property
    def directory(self):
        return f"https://127.0.0.1:{self.port}/dir"

    def settings(self, **more):
        return {"directory": self.directory, "ca": str(self.root), "folder": "acme", "email": "ops@example.org"} | more

    def __enter__(self):
        http, tls = self._ports
        config = {
            "listenAddress": f"127.0.0.1:{self.port}",
            "managementListenAddress": f"127.0.0.1:{self.management}",
            "certificate": str(self.certificate),
            "privateKey": str(self.key),
            "httpPort": http,
            "tlsPort": tls,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": False,
        }
        if self._days:
            config["certificateValidityPeriod"] = self._days * 86_400
            config["profiles"] = {"default": {"description": "", "validityPeriod": self._days * 86_400}}
        (self.folder / "config.json").write_text(json.dumps({"pebble": config}))
        dns = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", "", "-defaultIPv4", "127.0.0.1"]
        dns += ["-dns01", f"127.0.0.1:{self._dns}", "-management", f"127.0.0.1:{self._control}"]
        self._run([self._names, *dns])
        pebble = [self._pebble, "-config", self.folder / "config.json", "-dnsserver", f"127.0.0.1:{self._dns}"]
        self._run(pebble, self._lines)
        # The server of names as well: a validation that finds no address is an order that failed.
        end = time.monotonic() + START
        for port in (self._control, self.port):
            while not _accepts(port):
                if time.monotonic() > end:
                    raise TimeoutError("Pebble does not answer:\n" + "\n".join(self._lines))
                time.sleep(0.02)
        return self

    def __exit__(self, *_):
        for process in self._processes:
            process.kill()
            process.wait()
        self._folder.cleanup()

    def orders(self):
        return sum("Added order" in line for line in self._lines)

    def issued_by(self):
        """The root of the certificates that it gives out: each Pebble makes one when it begins."""
        argv = [program("curl"), "-sS", "--fail", "--cacert", self.root, f"https://127.0.0.1:{self.management}/roots/0"]
        path = self.folder / "issued-by.pem"
        path.write_bytes(subprocess.run(argv, check=True, capture_output=True).stdout)
        return path

    def _run(self, argv, lines=None):
        # Ended with us, however we end.
        argv = [program("setpriv"), "--pdeathsig", "KILL", *map(str, argv)]
        process = subprocess.Popen(
            argv, env=os.environ | self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._processes.append(process)

        def read():
            for line in process.stdout:
                if lines is not None:
                    lines.append(re.sub(r"\s+", " ", line))
            process.stdout.close()

        threading.Thread(target=read, daemon=True).start()
