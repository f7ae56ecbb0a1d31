"""What commands print and which gateway they act on: no text of others forges a line; no command hits another project's gateway."""

import http.client
import json
import os
import pty
import socket
import subprocess
import unicodedata

import forger
from harness import BINARY, HERE, PYTHON, Gateway, TestCase, config, route, service, setUpModule

__all__ = ["setUpModule"]

ADMIN = '[admin]\nsocket = "@FOLDER@/admin.sock"\n'
FORGER = [PYTHON, "-B", str(HERE / "forger.py")]


def hidden(text):
    """The characters that drive what shows them instead of being shown; line feeds and tabs apart."""
    return {c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("pilotlight", timeout=20)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Forged(TestCase):
    """Lines of logs, reset texts and what a service prints stay within their line, and drive no terminal."""

    def forged(self, *blocks, **settings):
        services = service("demo", FORGER), service("web", FORGER, transport="http")
        routes = route(), route("/web", "web")
        return self.start(Gateway(BINARY, config(*services, *routes, ADMIN, *blocks, **{"dev": True} | settings)))

    def command(self, gateway, *arguments, code=0, raw=False):
        command = [str(BINARY), *arguments, "--socket", str(gateway.folder / "admin.sock")]
        done = subprocess.run(command, capture_output=True, timeout=40)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        text = (done.stdout + done.stderr).decode()
        if not raw:
            self.assert_clean(text)
        return text

    def assert_clean(self, text):
        self.assertEqual(hidden(text), set(), text)
        self.assertFalse([line for line in text.splitlines() if line.startswith("FORGED")], text)

    def printed(self, gateway, needle, count=1):
        self.assert_eventually(lambda: gateway.output().count(needle) >= count, f"{needle!r} is not in the gateway's log")
        return gateway.output()

    def test_the_gateways_log(self):
        gateway = self.forged()
        self.assert_status(gateway.get("/"), 200)
        self.assert_status(gateway.get("/web/x"), 200)
        text = self.printed(gateway, "printed evil", 2)
        self.printed(gateway, "latin", 2)
        self.assertIn("logged evil\\nFORGED line\\r\\x1b[2J\\x1b]0;title\\x07\\x7f\\u{85}\\u{9b}31m\\u{202e}drow", text)
        self.assertIn("\\u{2066}\\u{200b}\\u{2028}\\u{2029}\\u{e0041} end", text)
        # What a service prints is lines: one that begins with FORGED is its own, and says whose it is.
        self.assertIn("web#1 | FORGED line", text)
        self.assertIn("latin \\xf6\\xff end", gateway.output())
        self.assert_clean(gateway.output())

    def test_reset_texts(self):
        gateway = self.forged()
        answer = gateway.get("/refused")
        problem = self.assert_problem(answer, 503)
        self.assertIn("reset evil\\nFORGED line\\r\\x1b[2J", problem["detail"])
        self.assert_clean(problem["detail"])
        self.assert_clean(answer.body.decode())
        text = self.printed(gateway, "reset evil")
        self.assert_clean(text)

    def test_a_broken_answer_and_an_end(self):
        gateway = self.forged()
        gateway.get("/web/x")
        for target in ("/web/broken", "/web/end"):
            answer = gateway.get(target)
            self.assertIn(answer.status, (502, 503), answer)
            self.assert_clean(answer.body.decode())
            self.assert_clean(json.loads(answer.body)["detail"])
        self.printed(gateway, "ended by itself")
        self.assert_clean(gateway.output())
        self.assert_clean(self.command(gateway, "status", "web"))

    def test_commands(self):
        gateway = self.forged()
        for target in ("/", "/web/x", "/web/end"):
            gateway.get(target)
        self.printed(gateway, "ended by itself")
        self.printed(gateway, "latin", 2)
        for arguments in (["logs", "demo"], ["logs", "web"]):
            text = self.command(gateway, *arguments)
            self.assertIn("\\r\\x1b[2J\\x1b]0;title\\x07\\x7f\\u{85}\\u{9b}31m\\u{202e}drow", text)
            self.assertIn("latin \\xf6\\xff end", text)
        for arguments in (["status"], ["status", "web"], ["explain", "/a%1b?\u202e"], ["explain", "/", "-H", "x-a: \u202e"]):
            self.command(gateway, *arguments)
        text = self.command(gateway, "explain", "/", "-X", "A\u202e\x1b\nB", code=2)
        self.assert_clean(text)
        text = self.command(gateway, "status", "no\nFORGED\u202e\x1b", code=2)
        self.assertEqual(text.count("\n"), 1, text)

    def test_json_means_the_same_and_has_nothing_hidden(self):
        gateway = self.forged()
        for target in ("/web/x", "/web/end"):
            gateway.get(target)
        self.printed(gateway, "ended by itself")
        self.printed(gateway, "latin")
        lines = [json.loads(line) for line in self.command(gateway, "logs", "web", "--json").splitlines()]
        self.assertIn("FORGED line\r" + forger.EVIL.split("\r")[1], [line["text"] for line in lines])
        self.command(gateway, "status", "web", "--json")
        connection = Unix(gateway.folder / "admin.sock")
        self.addCleanup(connection.close)
        for target in ("/services/web", "/services/web/logs", "/explain?url=/%E2%80%AE", "/nope/%C2%9B"):
            connection.request("GET", target)
            self.assert_clean(connection.getresponse().read().decode())

    def test_raw_output_on_request(self):
        gateway = self.forged()
        gateway.get("/web/x")
        self.printed(gateway, "latin")
        self.assertIn("\x1b[2J\x1b]0;title\x07", self.command(gateway, "logs", "web", "--raw", raw=True))
        self.assertNotIn("\x1b", self.command(gateway, "logs", "web"))

    def test_a_terminal(self):
        gateway = self.forged()
        gateway.get("/web/x")
        self.printed(gateway, "latin")
        ours, theirs = pty.openpty()
        command = [str(BINARY), "logs", "web", "--socket", str(gateway.folder / "admin.sock")]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            text = b""
            while piece := self.piece(ours):
                text += piece
            self.assertEqual(process.wait(20), 0)
        os.close(ours)
        self.assertIn(b"\\x1b[2J", text)
        self.assert_clean(text.decode().replace("\r\n", "\n"))

    @staticmethod
    def piece(terminal):
        try:
            return os.read(terminal, 65_536)
        except OSError:  # the other end is closed
            return b""

    def test_access_log(self):
        for form in ("json", "text"):
            log = f'[access_log]\npath = "access.log"\nformat = "{form}"\nfields = ["status", "user_agent", "target", "host"]\n'
            gateway = self.forged(log, route("/cached", "web", cache=True))
            for target in ("/web/x", "/cached"):
                agent = "a\u202eb\u2066\u200b\x9b\U000e0041ö".encode().decode("latin-1")
                self.assert_status(gateway.get(target, [("User-Agent", agent)]), 200)
            path = gateway.folder / "access.log"
            self.assert_eventually(lambda: path.exists() and path.read_text().count("\n") >= 2, "no lines")
            text = path.read_text()
            self.assert_clean(text)
            if form == "json":
                logged = [json.loads(line) for line in text.splitlines()]
                self.assertEqual({line["user_agent"] for line in logged}, {"a\u202eb\u2066\u200b\x9b\U000e0041ö"})

    def test_a_program_that_cannot_be_executed(self):
        name = "\x1b[2J\u202e"
        argv = config(service("demo", ["@FOLDER@/" + name]).replace("\x1b", "\\u001b"), route(), ADMIN)
        gateway = Gateway(BINARY, argv)
        program = gateway.folder / name
        program.write_bytes(b"\x7fELF, but no program")
        program.chmod(0o755)
        self.start(gateway)
        answer = gateway.get("/")
        self.assert_clean(self.assert_problem(answer, 503)["detail"])
        self.assert_clean(answer.body.decode())
        self.printed(gateway, "\\x1b[2J")
        self.assert_clean(gateway.output())
        self.command(gateway, "status", "demo")
        self.command(gateway, "start", "demo", code=1)
