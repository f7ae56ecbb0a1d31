"""What commands print and which gateway they act on: no text of others forges a line; no command hits another project's gateway."""

import fcntl
import http.client
import json
import os
import pty
import signal
import socket
import subprocess
import tempfile
import termios
import unicodedata
import unittest
import unittest.mock
from pathlib import Path

import forger
from harness import BINARY, HERE, PYTHON, Gateway, TestCase, config, eventually, route, service, setUpModule

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


class Piped(unittest.TestCase):
    def test_a_configuration_may_come_by_a_pipe(self):
        """`pilotlight run --config <(make-it)`: it can be read once."""
        for text in ("", "[containers]\ndiscover = false\n"):
            run = [str(BINARY), "run", "--config", "/dev/stdin"]
            with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as gateway:
                try:
                    gateway.stdin.write('listen = "127.0.0.2:0"\n' + text)
                    gateway.stdin.close()
                    self.assertIn("listening on http://127.0.0.2:", gateway.stdout.readline())
                finally:
                    gateway.terminate()
                self.assertEqual(gateway.wait(20), 0)


class Help(unittest.TestCase):
    def test_it_begins_with_what_the_program_is(self):
        done = subprocess.run([str(BINARY), "--help"], capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("A gateway for local services: "), done.stdout[:200])
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 120)


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
        self.assert_logged(gateway, "latin \\xf6\\xff end")
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


class Projects(TestCase):
    """Commands act on the gateway of the folder they run in, and on no other unless they are told so aloud."""

    CHANGES = (["purge", "--all"], ["stop", "demo"], ["start", "demo"], ["restart", "demo"], ["reload"], ["upgrade"])
    READS = (["status"], ["logs", "demo"], ["explain", "/"])

    def setUp(self):
        """Runtime folders of this test alone: other gateways of this user may run on the machine."""
        folder = tempfile.TemporaryDirectory(prefix="pl-")
        self.addCleanup(folder.cleanup)
        self.runtime = Path(folder.name)
        here = {name: folder.name for name in ("XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY", "TMPDIR")}
        patch = unittest.mock.patch.dict(os.environ, here)
        patch.start()
        self.addCleanup(patch.stop)

    def folder(self, text=None):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-project-", dir="/tmp")
        self.addCleanup(folder.cleanup)
        if text is not None:
            Path(folder.name, "pilotlight.toml").write_text(text)
        return Path(folder.name)

    def project(self, *blocks, **settings):
        gateway = self.start(Gateway(BINARY, config(service(), route(cache=True), *blocks, **settings)))
        self.assert_status(gateway.get("/pid"), 200)
        return gateway

    def command(self, folder, *arguments, code=0):
        """What it printed on the standard output and on the standard error."""
        done = subprocess.run([str(BINARY), *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def untouched(self, gateway, before):
        self.assertIsNone(gateway.process.poll())
        self.assertEqual(self.instance(gateway), before)
        self.assertNotIn("reloaded", gateway.output())

    def instance(self, gateway):
        told = json.loads(self.command(gateway.folder, "status", "--json")[0])
        self.assertEqual(told["gateway"]["pid"], gateway.process.pid)
        return [(one["pid"], one["state"]) for one in told["services"][0]["instances"]], told["cache"]["purges"]

    def test_nothing_acts_on_another_projects_gateway(self):
        other = self.project()
        before = self.instance(other)
        mine = self.folder(config(service(), route()))
        for arguments in self.CHANGES + self.READS:
            _, said = self.command(mine, *arguments, code=1)
            for needle in (str(mine / "pilotlight.toml"), "pilotlight run", "--any", str(other.folder / "pilotlight.toml")):
                self.assertIn(needle, said)
        self.untouched(other, before)

    def test_without_a_file_only_looking_is_allowed(self):
        other, empty = self.project(), self.folder()
        before = self.instance(other)
        for arguments in self.CHANGES:
            _, said = self.command(empty, *arguments, code=1)
            self.assertIn("--any", said)
            self.assertIn(str(other.folder / "pilotlight.toml"), said)
        self.untouched(other, before)
        for arguments in self.READS:
            _, said = self.command(empty, *arguments)
            self.assertIn(f"{other.folder / 'pilotlight.toml'} (pid {other.process.pid})", said)
        second = self.project()
        _, said = self.command(empty, "status", code=1)
        for gateway in (other, second):
            self.assertIn(str(gateway.folder / "pilotlight.toml"), said)
        self.command(empty, "purge", "--all", "--any", code=1)

    def test_any_is_said_aloud(self):
        other = self.project()
        for folder in (self.folder(), self.folder(config(service(), route()))):
            for arguments in (["purge", "--all", "--any"], ["status", "--any"], ["reload", "--any"]):
                said = "".join(self.command(folder, *arguments))
                self.assertIn(f"{other.folder / 'pilotlight.toml'} (pid {other.process.pid})", said)
        mine = self.project()
        said, _ = self.command(mine.folder, "purge", "--all", "--any")
        self.assertIn(f"(pid {mine.process.pid})", said)
        self.command(mine.folder, "purge", "--all", "--any", "--config", "pilotlight.toml", code=2)

    def test_what_changes_something_names_its_gateway(self):
        gateway = self.project()
        file = str(gateway.folder / "pilotlight.toml")
        for arguments in self.CHANGES:
            said, _ = self.command(gateway.folder, *arguments)
            pid = json.loads(self.command(gateway.folder, "status", "--json")[0])["gateway"]["pid"]
            self.assertIn(f"gateway   {file} (pid {pid})", said)
            if arguments == ["upgrade"]:
                self.addCleanup(lambda: os.kill(pid, signal.SIGTERM))
        for arguments in self.CHANGES[:-1]:
            told = json.loads(self.command(gateway.folder, *arguments, "--json")[0])
            self.assertEqual(told["gateway"], {"config": file, "pid": pid})
        said, _ = self.command("/", "purge", "--all", "--config", file)
        self.assertIn(f"{file} (pid {pid})", said)
        self.assertNotEqual(pid, gateway.process.pid)

    def test_a_file_with_mistakes_or_under_another_name_is_still_its_file(self):
        gateway = self.project()
        link = self.folder() / "linked"
        link.symlink_to(gateway.folder)
        self.command(link, "purge", "--all")
        (gateway.folder / "pilotlight.toml").write_text("listen = [")
        self.command(gateway.folder, "status")
        self.command(gateway.folder, "reload", code=2)
        (gateway.folder / "pilotlight.toml").unlink()
        self.command("/", "purge", "--all", "--config", str(gateway.folder / "pilotlight.toml"))

    def test_a_socket_of_another_project(self):
        other = self.project(ADMIN)
        before = self.instance(other)
        admin = f'[admin]\nsocket = "{other.folder}/admin.sock"\n'
        mine = self.folder(config(service(), route(), admin))
        for arguments in self.CHANGES:
            _, said = self.command(mine, *arguments, code=1)
            self.assertIn(str(other.folder / "pilotlight.toml"), said)
        self.untouched(other, before)
        said, _ = self.command(mine, "purge", "--all", "--socket", str(other.folder / "admin.sock"))
        self.assertIn(f"(pid {other.process.pid})", said)

    def test_one_that_was_killed_is_gone(self):
        gateway = self.project()
        folder = self.folder((gateway.folder / "pilotlight.toml").read_text())
        records = list(self.runtime.glob("**/gateway.json"))
        self.assertEqual(len(records), 1)
        record = json.loads(records[0].read_text())
        self.assertEqual((record["config"], record["pid"]), (str(gateway.folder / "pilotlight.toml"), gateway.process.pid))
        # As a gateway and a guardian leave it that are killed together.
        left = self.runtime / "pilotlight-left"
        left.mkdir(0o700)
        record |= {"config": str(folder / "pilotlight.toml"), "canonical": str(folder / "pilotlight.toml")}
        (left / "gateway.json").write_text(json.dumps(record))
        (left / "gateway.json").chmod(0o600)
        _, said = self.command(folder, "purge", "--all", code=1)
        self.assertIn("no gateway", said)

    @unittest.skipIf(os.geteuid() != 0, "not here: only root can make files of another user")
    def test_a_record_of_another_user_is_ignored(self):
        mine = self.folder(config(service(), route()))
        file = str(mine / "pilotlight.toml")
        with socket.socket(socket.AF_UNIX) as listener:
            squat = self.runtime / "pilotlight-1"
            squat.mkdir(0o700)
            listener.bind(str(squat / "admin.sock"))
            listener.listen()
            listener.settimeout(0.0)
            record = {"config": file, "canonical": file, "pid": 1, "begun": 1, "socket": str(squat / "admin.sock")}
            held = open(squat / "gateway.json", "w", encoding="utf-8")
            self.addCleanup(held.close)
            held.write(json.dumps(record))
            held.flush()
            fcntl.flock(held, fcntl.LOCK_EX)
            for path, uid, mode in ((squat, 65_534, 0o755), (squat / "gateway.json", 65_534, 0o644), (squat, 0, 0o777)):
                os.chown(squat, 0, 0)
                os.chmod(squat, 0o700)
                os.chown(squat / "gateway.json", 0, 0)
                os.chown(path, uid, uid)
                os.chmod(path, mode)
                _, said = self.command(mine, "purge", "--all", code=1)
                self.assertIn("no gateway", said)
                with self.assertRaises(BlockingIOError, msg="it was asked"):
                    listener.accept()

    def test_a_second_start_says_that_it_runs(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for blocks, settings in (((), {"listen": f"127.0.0.1:{port}"}), ((ADMIN,), {})):
            gateway = self.project(*blocks, **settings)
            for arguments in ([], ["run"], ["--config", str(gateway.folder / "pilotlight.toml")]):
                _, said = self.command(gateway.folder, *arguments, code=1)
                self.assertIn("already runs", said)
                self.assertIn(str(gateway.process.pid), said)
                self.assertIn("pilotlight reload", said)
                self.assertRegex(said, r"since \w+, \d+ \w+ \d+ [\d:]+ GMT")
                self.assertNotIn("another program", said)
                self.assertNotIn("another gateway", said)
            self.assert_status(gateway.get("/pid"), 200)
            gateway.stop()
            self.assertEqual(list(self.runtime.glob("pilotlight-*")), [], "something is left of it")


class Background(TestCase):
    """Whoever starts it so that signals do not reach it is not overruled (`nohup pilotlight run &`)."""

    def test_what_was_to_be_ignored_is_ignored(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="pilotlight-nohup-")))
        file, listener, log = folder / "pilotlight.toml", folder / "http.sock", folder / "log"
        file.write_text(config(service(), route(), ADMIN.replace("@FOLDER@", str(folder)), listen=f"unix:{listener}"))
        master, terminal = pty.openpty()

        def nohup():
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)

        with log.open("wb") as output:
            command, files = [BINARY, "run", "--config", file], {"stdin": terminal, "stdout": output, "stderr": output}
            gateway = subprocess.Popen(command, **files, start_new_session=True, preexec_fn=nohup)
        self.addCleanup(gateway.wait, 20)
        self.addCleanup(gateway.terminate)
        os.close(terminal)
        self.assertTrue(eventually(listener.exists, 20), log.read_text())
        os.kill(gateway.pid, signal.SIGINT)
        os.close(master)  # the end of the terminal, of which SIGHUP tells
        self.assert_eventually(lambda: "reload" in log.read_text(), log.read_text(), 20)
        self.assertIsNone(gateway.poll(), log.read_text())
        asked = Unix(listener)
        asked.request("GET", "/pid")
        self.assertEqual(asked.getresponse().status, 200)


class EmptyFiles(TestCase):
    """A file that is being written, or was truncated, empties no gateway."""

    def command(self, gateway, *arguments, code=0):
        command = [str(BINARY), *arguments, "--socket", str(gateway.folder / "admin.sock")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_a_file_without_services_or_routes_is_refused(self):
        gateway = self.start(Gateway(BINARY, config(service(), route(), ADMIN)))
        file = gateway.folder / "pilotlight.toml"
        whole = file.read_text()
        self.assert_status(gateway.get("/pid"), 200)
        for cut in ("", "\n", whole[: whole.index("[services")], whole[: whole.index("[[routes]]")]):
            file.write_text(cut)
            said = self.command(gateway, "reload", code=2)
            for needle in (str(file), "1 route", "not followed", "pilotlight reload --force"):
                self.assertIn(needle, said)
            self.assert_status(gateway.get("/pid"), 200)
        seen = gateway.output().count("not reloaded")
        gateway.signal(signal.SIGHUP)
        self.assert_eventually(lambda: gateway.output().count("not reloaded") > seen, "SIGHUP is not answered in the log")
        self.assert_logged(gateway, "pilotlight reload --force")
        self.assert_status(gateway.get("/pid"), 200)
        # Fewer of them is a change like any other, and so is none if that is said aloud.
        file.write_text(whole + service("other") + route("/other", "other"))
        self.command(gateway, "reload")
        file.write_text(whole)
        self.assertIn("/other (removed)", self.command(gateway, "reload"))
        file.write_text(whole[: whole.index("[services")])
        self.assertIn("demo (removed)", self.command(gateway, "reload", "--force"))
        self.assert_problem(gateway.get("/pid"), 404)
        self.command(gateway, "reload")
        file.write_text(whole)
        self.command(gateway, "reload")
        self.assert_status(gateway.get("/pid"), 200)

    def test_what_force_is(self):
        gateway = self.start(Gateway(BINARY, config(service(), route(), ADMIN)))
        for body, status in (('{"force": true}', 200), ('{"force": false}', 200), ("{}", 200), (None, 200), ("[]", 400), ("x", 400),
                             ('{"force": 1}', 400)):  # fmt: skip
            connection = Unix(gateway.folder / "admin.sock")
            self.addCleanup(connection.close)
            connection.request("POST", "/reload", body)
            answer = connection.getresponse()
            self.assertEqual(answer.status, status, (body, answer.read()))
