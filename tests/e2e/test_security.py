"""What a service, or another user of the machine, can do to the gateway and to other services."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import textwrap
import unittest
from http.client import HTTPConnection
from pathlib import Path

from harness import BINARY, HERE, PYTHON, ROOT, Gateway, TestCase, config, route, service, setUpModule

__all__ = ["setUpModule"]

IS_ROOT = os.geteuid() == 0

# For code that runs inside of a service: one request to a Unix socket.
ASK = """
import json, os, socket
def ask(path, method="GET", target="/status", body=""):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(path)
        sock.sendall(f"{method} {target} HTTP/1.1\\r\\nhost: a\\r\\nconnection: close\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n{body}".encode())
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
        return answer.decode(errors="replace")
"""


class Unix(HTTPConnection):
    def __init__(self, path):
        super().__init__("pilotlight", timeout=20)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(path, method, target, body=None):
    """The status and the JSON of the admin interface's answer."""
    connection = Unix(path)
    try:
        connection.request(method, target, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


class Security(TestCase):
    """Services run the code that a test gives them (intruder.py)."""

    def folder(self):
        folder = Path(tempfile.mkdtemp(prefix="pilotlight-security-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        return folder

    def intruder(self, name="intruder", **settings):
        """The blocks of a service on `/NAME`, in a folder of its own with the SDK beside it."""
        folder = self.folder()
        shutil.copy(HERE / "intruder.py", folder)
        shutil.copytree(ROOT / "sdk" / "python" / "pilotlight", folder / "pilotlight")
        settings = {"dir": str(folder)} | settings
        return service(name, [PYTHON, "-B", "intruder.py"], **settings) + route(f"/{name}", service=name)

    def gateway(self, *blocks, **settings):
        return self.start(Gateway(BINARY, config('[admin]\nsocket = "@FOLDER@/admin.sock"\n', *blocks, **settings)))

    def run_in(self, gateway, code, name="intruder", **values):
        """What the code does inside of the service: {"result": …} or {"error": …}."""
        code = "".join(f"{key} = {value!r}\n" for key, value in values.items()) + ASK + textwrap.dedent(code)
        answer = gateway.request("POST", f"/{name}", body=code.encode())
        self.assert_status(answer, 200)
        return json.loads(answer.body)

    def result(self, outcome):
        self.assertIn("result", outcome, outcome)
        return outcome["result"]

    def status(self, gateway):
        return ask(gateway.folder / "admin.sock", "GET", "/status")[1]


class AdminSocket(Security):
    """No service gives orders to the gateway that started it."""

    def test_no_program_is_taken_from_the_admin_interface(self):
        gateway = self.gateway(self.intruder())
        status, problem = ask(
            gateway.folder / "admin.sock", "POST", "/upgrade", json.dumps({"program": "/bin/true"})
        )  # fmt: skip
        self.assertEqual((status, self.status(gateway)["gateway"]["pid"]), (400, gateway.process.pid), problem)
        self.assertIn("`program` is no longer taken from the admin interface", problem["detail"])
        for name in ("../admin.sock", "x", "0" * 32, 7):
            status, problem = ask(
                gateway.folder / "admin.sock", "POST", "/upgrade", json.dumps({"program_file": name})
            )  # fmt: skip
            self.assertIn(status, (400, 409), problem)

    def test_a_service_gives_no_orders(self):
        """Nor do the processes that it starts, whatever they do to hide where they come from."""
        gateway = self.gateway(self.intruder())
        socket_path = str(gateway.folder / "admin.sock")
        for method, target in (("GET", "/status"), ("POST", "/upgrade"), ("POST", "/reload"), ("GET", "/config")):
            answer = self.result(self.run_in(gateway, "result = ask(path, method, target)", path=socket_path, method=method, target=target))
            self.assertIn("403", answer.split("\r\n")[0], answer)
            self.assertIn("a service of this gateway", answer)
        daemon = """
        out, into = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(into, ask(path).encode())
            os._exit(0)
        os.close(into)
        result = os.fdopen(out).read()
        """
        self.assertIn(" 403 ", self.result(self.run_in(gateway, daemon, path=socket_path)))
        # The process that connected has ended, another one of the service goes on with its connection.
        inherited = """
        sock = socket.socket(socket.AF_UNIX)
        if (child := os.fork()) == 0:
            sock.connect(path)
            os._exit(0)
        os.waitpid(child, 0)
        sock.sendall(b"GET /status HTTP/1.1\\r\\nhost: a\\r\\nconnection: close\\r\\n\\r\\n")
        result = b""
        try:
            while piece := sock.recv(65536):
                result += piece
        except ConnectionError:
            pass
        result = result.decode()
        """
        self.assertNotIn(" 200 ", self.result(self.run_in(gateway, inherited, path=socket_path)))
        self.assertEqual(self.status(gateway)["gateway"]["pid"], gateway.process.pid)

    def test_refused_connections_keep_nobody_out(self):
        gateway = self.gateway(self.intruder())
        flood = """
        held = globals()["held"] = [socket.socket(socket.AF_UNIX) for _ in range(200)]
        import builtins
        builtins.held = held
        for one in held:
            one.connect(path)
        result = len(held)
        """
        self.assertEqual(self.result(self.run_in(gateway, flood, path=str(gateway.folder / "admin.sock"))), 200)
        self.assertEqual(self.status(gateway)["gateway"]["pid"], gateway.process.pid)

    def test_an_upgrade_to_a_named_program(self):
        """The command names it in a file of the runtime folder, which is gone afterwards; services of the process before give no orders either."""
        gateway = self.gateway(self.intruder(), dev=False)
        self.run_in(gateway, "result = 1")
        runtime = Path(self.status(gateway)["gateway"]["runtime_dir"])
        before = set(os.listdir(runtime))
        done = subprocess.run(
            [BINARY, "upgrade", "--program", BINARY, "--json", "--socket", gateway.folder / "admin.sock"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.addCleanup(lambda: os.kill(told["pid"], 15))
        self.assertEqual(told["old_pid"], gateway.process.pid)
        self.assertEqual(gateway.process.wait(30), 0)
        self.assertFalse(runtime.exists(), before)
        self.assertEqual(self.status(gateway)["gateway"]["pid"], told["pid"])
        answer = self.result(self.run_in(gateway, "result = ask(path)", path=str(gateway.folder / "admin.sock")))
        self.assertIn(" 403 ", answer)


if __name__ == "__main__":
    unittest.main()
