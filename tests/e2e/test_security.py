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
        self.assertEqual(answer.status, 200, f"{answer}\n{gateway.output()}")
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


class Sandbox(Security):
    """`sandbox = "strict"` keeps a service from the sockets of others, also from those of its own user."""

    LOOK = """
    def attempt(path, kind=socket.SOCK_STREAM):
        with socket.socket(socket.AF_UNIX, kind) as sock:
            try:
                sock.connect(path)
                return "connected"
            except OSError as error:
                return type(error).__name__
    result = [attempt(path.replace("@", chr(0))) for path in paths]
    """

    def listening(self, path):
        """A server on a Unix socket; `@` begins an abstract name."""
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(path.replace("@", "\0"))
        server.listen()
        if not path.startswith("@"):
            os.chmod(path, 0o777)
        return path

    def others(self, gateway):
        """Sockets that are none of the service's business, with the pipe last."""
        runtime = Path(self.status(gateway)["gateway"]["runtime_dir"])
        self.result(self.run_in(gateway, "result = 1", "http"))
        of_http = next(str(path) for path in runtime.iterdir() if path.name.startswith("s"))
        folder = self.folder()
        return [
            str(gateway.folder / "admin.sock"), of_http, self.listening(str(folder / "other.sock")),
            self.listening(f"@pilotlight-security-{os.getpid()}-{folder.name}"), str(runtime / "pipe.sock"),
        ]  # fmt: skip

    def bounds(self, gateway, name="intruder"):
        return next(one["sandbox"] for one in self.status(gateway)["services"] if one["name"] == name)

    def blocks(self, **settings):
        return self.intruder(sandbox="strict", **settings), self.intruder("http", transport="http")

    def orders(self, gateway):
        """An upgrade to another program, asked for from inside."""
        code = """
        try:
            result = ask(path, "POST", "/upgrade", '{"program": "/bin/true"}')
        except OSError as error:
            result = type(error).__name__
        """
        return self.result(self.run_in(gateway, code, path=str(gateway.folder / "admin.sock")))

    def check_shut(self, gateway):
        """Nothing but the pipe is to be reached, and the status says why."""
        paths = self.others(gateway)
        outcome = self.result(self.run_in(gateway, self.LOOK, paths=paths))
        self.assertEqual((outcome[-1], outcome.count("connected")), ("connected", 1), outcome)
        self.assertNotIn(" 200 ", self.orders(gateway))
        self.assertEqual(self.status(gateway)["gateway"]["pid"], gateway.process.pid)
        bounds = self.bounds(gateway)
        self.assertEqual(bounds["unix_sockets"], "mount namespace", bounds)
        self.assertIsNone(self.bounds(gateway, "http"))
        return bounds

    @unittest.skipUnless(IS_ROOT, "not here: as root")
    def test_of_root(self):
        gateway = self.gateway(*self.blocks())
        bounds = self.check_shut(gateway)
        self.assertEqual(bounds["processes"], "mount namespace")
        code = "result = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())"
        self.assertEqual(self.result(self.run_in(gateway, code)), [self.result(self.run_in(gateway, "result = os.getpid()"))])
        self.assert_logged(gateway, "its sandbox is in force: files by")
        shown = subprocess.run(
            [BINARY, "status", "intruder", "--socket", gateway.folder / "admin.sock"], capture_output=True, text=True, timeout=20
        )
        self.assertIn("unix_sockets (mount namespace)", shown.stdout)

    def test_what_is_listed_is_reached(self):
        """A folder of `sandbox_write` with a socket, through a link; its folder and its program as ever."""
        folder = self.folder()
        (folder / "real").mkdir()
        (folder / "link").symlink_to("real")
        self.listening(str(folder / "real" / "db.sock"))
        gateway = self.gateway(*self.blocks(sandbox_write=[str(folder / "link")]))
        paths = [str(folder / "link" / "db.sock"), str(folder / "real" / "db.sock")]
        self.assertEqual(self.result(self.run_in(gateway, self.LOOK, paths=paths)), ["connected", "connected"])
        code = "open('own', 'w').write('x'); result = (os.getcwd(), os.listdir('.'), os.path.exists('/usr/bin/env'))"
        here, names, has_env = self.result(self.run_in(gateway, code))
        self.assertEqual((has_env, {"own", "intruder.py"} <= set(names)), (True, True))
        self.assertTrue(Path(here, "own").exists())

    def as_user(self, script, *blocks, user=65534):
        """A gateway of another user, with a binary that it may execute."""
        folder = self.folder()
        shutil.copy(BINARY, folder / "pilotlight")
        (folder / "pilotlight").chmod(0o755)
        (folder / "run").mkdir()
        os.chown(folder / "run", user, user)
        path = folder / "start"
        path.write_text(f"#!/bin/sh\nexport HOME=/ TMPDIR={folder}/run\nunset XDG_RUNTIME_DIR\n{script.format(binary=folder / 'pilotlight')}")
        path.chmod(0o755)
        admin = folder / "run" / "admin.sock"
        gateway = Gateway(path, config(f'[admin]\nsocket = "{admin}"\n', *blocks))
        gateway.folder.chmod(0o755)
        self.start(gateway)
        (gateway.folder / "admin.sock").symlink_to(admin)
        return gateway

    def public(self, name="intruder", **settings):
        """A service that any user may execute."""
        python = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.path.exists(path)), None)
        if python is None:
            self.skipTest("not here: no Python that other users may execute")
        folder = self.folder()
        shutil.copy(HERE / "intruder.py", folder)
        shutil.copytree(ROOT / "sdk" / "python" / "pilotlight", folder / "pilotlight")
        os.chown(folder, 65534, 65534)
        return service(name, [python, "-B", "intruder.py"], dir=str(folder), **settings) + route(f"/{name}", service=name)

    @unittest.skipUnless(IS_ROOT, "not here: as root")
    def test_of_another_user(self):
        """A user namespace does what root's rights do elsewhere."""
        if subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "unshare", "-Ur", "true"], capture_output=True).returncode:
            self.skipTest("not here: no user namespaces")
        start = 'exec setpriv --reuid=65534 --regid=65534 --clear-groups {binary} "$@"'
        gateway = self.as_user(start, self.public(sandbox="strict"), self.public("http", transport="http"))
        bounds = self.check_shut(gateway)
        self.assertIsNone(bounds["processes"])
        self.assert_eventually(lambda: "does not keep services that use the pipe from: seeing processes" in gateway.output(), gateway.output())

    @unittest.skipUnless(IS_ROOT, "not here: as root")
    def test_without_namespaces(self):
        """What is missing is said, at the start and in the status; the admin socket is refused all the same, and an HTTP service connects to nothing."""
        start = (
            'if [ -z "$INSIDE" ]; then INSIDE=1 exec unshare -U --map-root-user "$0" "$@"; fi\n'
            'unset INSIDE; echo 0 > /proc/sys/user/max_mnt_namespaces || exit 9\nexec {binary} "$@"'
        )
        if subprocess.run(["unshare", "-U", "--map-root-user", "sh", "-c", "echo 0 > /proc/sys/user/max_mnt_namespaces"]).returncode:
            self.skipTest("not here: no user namespaces")
        blocks = (self.public(sandbox="strict"), self.public("http", transport="http"), self.public("lone", transport="http", sandbox="strict"))
        gateway = self.as_user(start, *blocks, user=0)
        said = "does not keep services that use the pipe from: connecting to Unix sockets of others"
        self.assert_eventually(lambda: said in gateway.output(), gateway.output())
        self.assertIn(" 403 ", self.orders(gateway))
        self.assertIsNone(self.bounds(gateway)["unix_sockets"])
        paths = self.others(gateway)
        self.assertEqual(set(self.result(self.run_in(gateway, self.LOOK, "lone", paths=paths))), {"PermissionError"})
        self.assertEqual(self.bounds(gateway, "lone")["unix_sockets"], "seccomp")


class Inherited(Security):
    """What a service learns of the gateway's environment, and what is shown of the configuration."""

    NAMES = "result = sorted(name for name in os.environ if not name.startswith(('PILOTLIGHT_', 'LISTEN_')))"

    def setUp(self):
        script = self.folder() / "start"
        script.write_text(f'#!/bin/sh\nAWS_SECRET_ACCESS_KEY=kingfisher LC_TIME=C LANG=C TZ=UTC SSL_CERT_FILE=/x exec {BINARY} "$@"\n')
        script.chmod(0o755)
        self.script = script

    def started(self, *blocks):
        return self.start(Gateway(self.script, config('[admin]\nsocket = "@FOLDER@/admin.sock"\n', *blocks)))

    def test_a_service_apart_inherits_little(self):
        blocks = [
            self.intruder("strict", sandbox="strict", env={"OWN": "1"}),
            self.intruder("open"),
            self.intruder("less", inherit_env=False),
            self.intruder("named", sandbox="strict", inherit_env=["SSL_CERT_FILE", "NO_SUCH"]),
            self.intruder("all", sandbox="strict", inherit_env=True),
        ]
        gateway = self.started(*blocks)
        names = {name: set(self.result(self.run_in(gateway, self.NAMES, name))) for name in ("strict", "open", "less", "named", "all")}
        little = {"PATH", "HOME", "LANG", "LC_TIME", "TZ"}
        own = {"LC_CTYPE"}  # what Python sets itself
        self.assertEqual(names["strict"] - own, little | {"OWN"})
        self.assertEqual(names["less"] - own, little)
        self.assertEqual(names["named"] - own, little | {"SSL_CERT_FILE"})
        for name in ("open", "all"):
            self.assertGreaterEqual(names[name], little | {"AWS_SECRET_ACCESS_KEY", "SSL_CERT_FILE"})

    @unittest.skipUnless(IS_ROOT, "not here: as root")
    def test_under_another_user_home_is_that_users(self):
        python = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.path.exists(path)), None)
        if python is None:
            self.skipTest("not here: no Python that other users may execute")
        folder = self.folder()
        shutil.copy(HERE / "intruder.py", folder)
        shutil.copytree(ROOT / "sdk" / "python" / "pilotlight", folder / "pilotlight")
        for user, home in (({"user": "nobody"}, None), ({"user": 4711, "group": 4711}, "/")):
            with self.subTest(user):
                block = service("intruder", [python, "-B", "intruder.py"], dir=str(folder), **user)
                gateway = self.started(block, route("/intruder", service="intruder"))
                names = self.result(self.run_in(gateway, self.NAMES))
                self.assertEqual(set(names) - {"USER", "LOGNAME", "LC_CTYPE"}, {"PATH", "HOME", "LANG", "LC_TIME", "TZ"})
                found = self.result(self.run_in(gateway, "result = os.environ['HOME']"))
                self.assertNotEqual(found, os.environ.get("HOME"))
                self.assertIn(home, (None, found))

    def test_the_environment_of_others_is_not_to_be_read(self):
        gateway = self.started(self.intruder("strict", sandbox="strict"), self.intruder("other", env={"TOKEN": "kingfisher"}))
        pid = self.result(self.run_in(gateway, "result = os.getpid()", "other"))
        for name in ("environ", "mem", "maps", "fd/0", "root/etc", "cwd/intruder.py"):
            code = "result = os.readlink(path) if '/fd/' in path else os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(10).decode()"
            for of in (pid, gateway.process.pid):
                outcome = self.run_in(gateway, code, "strict", path=f"/proc/{of}/{name}")
                self.assertIn(outcome.get("error"), ("PermissionError", "FileNotFoundError"), outcome)

    def test_credentials_in_urls_are_not_shown(self):
        gateway = self.start(
            Gateway(
                BINARY,
                config(
                    '[admin]\nsocket = "@FOLDER@/admin.sock"\n[cache.redis]\nurl = "redis://me:kingfisher@127.0.0.1:1/0"\n',
                    service("a", ["/bin/true", "--db=postgres://me:kingfisher@db/x?token=kingfisher"]),
                    route(service="a"),
                ),
            )
        )
        path = gateway.folder / "admin.sock"
        status, shown = ask(path, "GET", "/config")
        self.assertEqual(status, 200)
        self.assertEqual(shown["settings"]["cache"]["redis"]["url"], "redis://(hidden)@127.0.0.1:1/0")
        for target in ("/config", "/status", "/explain?url=http://me:kingfisher@a/", "/explain?url=ftp://me:kingfisher@a/", "/explain?url=/"):
            self.assertNotIn("kingfisher", json.dumps(ask(path, "GET", target)), target)
        self.assertNotIn("kingfisher", gateway.output())


class PipeConnections(Security):
    """One service takes no other's way to the gateway."""

    FLOOD = """
    import select, threading
    def flood():
        held = []
        while True:
            while len(held) < count:
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(os.environ["PILOTLIGHT_SOCKET"])
                held.append(sock)
            full.set()
            closed, _, _ = select.select(held, [], [], 1)
            held = [one for one in held if one not in closed]
    full = threading.Event()
    threading.Thread(target=flood, daemon=True).start()
    result = full.wait(20)
    """

    def test_silent_connections_of_one_keep_no_other_from_starting(self):
        """300 of them, made anew as they are closed, while another service starts again and again."""
        gateway = self.gateway(self.intruder(limits={"open_files": 1024}, stop_grace="1s"), self.intruder("other"))
        self.assertTrue(self.result(self.run_in(gateway, self.FLOOD, count=300)))
        for _ in range(3):
            self.assertEqual(self.result(self.run_in(gateway, "result = os.environ['PILOTLIGHT_SERVICE']", "other")), "other")
            status, _ = ask(gateway.folder / "admin.sock", "POST", "/services/other/restart")
            self.assertEqual(status, 202)
        self.assertEqual(self.result(self.run_in(gateway, "result = 1")), 1)
        services = {one["name"]: one for one in self.status(gateway)["services"]}
        self.assertEqual(services["other"]["failed_starts"], 0)
        self.assert_logged(gateway, "have not sent HELLO")

    def test_nor_do_those_of_daemons(self):
        gateway = self.gateway(self.intruder(limits={"open_files": 1024}, stop_grace="1s"), self.intruder("other"))
        daemons = "daemons = 6\nfor _ in range(daemons):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork():\n            os._exit(0)\n"
        rest = textwrap.indent(textwrap.dedent(self.FLOOD), "        ") + "\n        threading.Event().wait()\nresult = 1"
        self.assertEqual(self.result(self.run_in(gateway, daemons + rest, count=60)), 1)
        self.assert_eventually(lambda: "have not sent HELLO" in gateway.output(), "no flood")
        self.assertEqual(self.result(self.run_in(gateway, "result = 2", "other")), 2)


class RuntimeFolder(Security):
    """The folder of the sockets is the gateway's own, whatever others have put where it is made."""

    def started_by(self, script, *blocks):
        """A gateway that a shell script starts: `$PILOTLIGHT "$@"`."""
        path = self.folder() / "start"
        path.write_text(f"#!/bin/sh\nPILOTLIGHT={BINARY}\n{textwrap.dedent(script)}")
        path.chmod(0o755)
        blocks = ('[admin]\nsocket = "@FOLDER@/admin.sock"\n', *(blocks or (self.intruder(),)))
        return self.start(Gateway(path, config(*blocks)))

    def runtime_dir(self, gateway):
        return Path(self.status(gateway)["gateway"]["runtime_dir"])

    def test_a_link_of_the_name_that_is_expected_is_not_followed(self):
        folder = self.folder()
        (folder / "victim").mkdir(mode=0o755)
        gateway = self.started_by(
            f"""
            export TMPDIR={folder} XDG_RUNTIME_DIR={folder}
            for parent in {folder} /tmp /run/pilotlight; do
                [ -d $parent ] && ln -s {folder}/victim $parent/pilotlight-$$
            done
            exec $PILOTLIGHT "$@"
            """
        )
        names = [Path(parent, f"pilotlight-{gateway.process.pid}") for parent in (folder, "/tmp", "/run/pilotlight")]
        self.addCleanup(lambda: [name.unlink(missing_ok=True) for name in names])
        self.assertEqual(self.result(self.run_in(gateway, "result = 1")), 1)
        self.assertEqual((list((folder / "victim").iterdir()), (folder / "victim").stat().st_mode & 0o777), ([], 0o755))
        found = self.runtime_dir(gateway).lstat()
        self.assertEqual((found.st_uid, found.st_mode & 0o170777), (os.geteuid(), 0o040700))

    def test_the_folder_of_the_service_manager_comes_first(self):
        folder = self.folder()
        gateway = self.started_by(f'RUNTIME_DIRECTORY={folder}:/other exec $PILOTLIGHT "$@"')
        self.assertEqual(self.runtime_dir(gateway).parent, folder)
        self.assertEqual(self.result(self.run_in(gateway, "result = 1")), 1)
        runtime = self.runtime_dir(gateway)
        gateway.process.kill()
        gateway.process.wait()
        self.assert_eventually(lambda: not runtime.exists(), "the guardian has left the folder")

    @unittest.skipUnless(IS_ROOT, "not here: as root")
    def test_a_folder_that_others_may_change_is_not_used(self):
        folder = self.folder()
        for name, owner, mode in (("open", 0, 0o777), ("foreign", 65534, 0o755), ("link", 0, None)):
            if mode is None:
                (folder / name).symlink_to(folder / "foreign")
            else:
                (folder / name).mkdir()
                (folder / name).chmod(mode)
                os.chown(folder / name, owner, owner)
            with self.subTest(name):
                gateway = self.started_by(f'RUNTIME_DIRECTORY={folder}/{name} exec $PILOTLIGHT "$@"')
                self.assertNotIn(folder, self.runtime_dir(gateway).parents)
                self.assertEqual(self.result(self.run_in(gateway, "result = 1")), 1)

    @unittest.skipUnless(IS_ROOT, "not here: as root")
    def test_roots_folder_is_a_folder_of_root(self):
        """A link in its place is not followed, and the next place is taken."""
        folder = self.folder()
        (folder / "victim").mkdir(mode=0o755)
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
            self.skipTest("not here: no mount namespaces")
        for squat in (f"ln -s {folder}/victim /run/pilotlight", "mkdir /run/pilotlight; chown 65534 /run/pilotlight", "true"):
            with self.subTest(squat):
                gateway = self.started_by(
                    f"""
                    [ -n "$INSIDE" ] || INSIDE=1 exec unshare -m "$0" "$@"
                    mount -t tmpfs -o mode=755 none /run
                    {squat}
                    unset XDG_RUNTIME_DIR INSIDE
                    exec $PILOTLIGHT "$@"
                    """
                )
                used = self.runtime_dir(gateway).parent
                self.assertEqual(used, Path("/run/pilotlight" if squat == "true" else tempfile.gettempdir()))
                self.assertEqual(list((folder / "victim").iterdir()), [])
                self.assertEqual(self.result(self.run_in(gateway, "result = 1")), 1)

    @unittest.skipUnless(IS_ROOT, "not here: as root")
    def test_commands_do_not_speak_to_sockets_of_others(self):
        """A folder that looks like a gateway's, made by somebody else where everybody may make one."""
        folder = self.folder()
        folder.chmod(0o1777)
        fake = folder / "pilotlight-0123456789ab"
        listen = f"""
import os, socket
os.setgid(65534); os.setuid(65534)
os.mkdir("{fake}")
with socket.socket(socket.AF_UNIX) as sock:
    sock.bind("{fake}/admin.sock")
    sock.listen()
    print("listening", flush=True)
    while True:
        sock.accept()[0].recv(100)
        print("asked", flush=True)
"""
        squatter = subprocess.Popen([PYTHON, "-c", listen], stdout=subprocess.PIPE, text=True)
        self.addCleanup(squatter.stdout.close)
        self.addCleanup(squatter.wait)
        self.addCleanup(squatter.kill)
        self.assertEqual(squatter.stdout.readline(), "listening\n")
        subprocess.run(
            [BINARY, "status"], capture_output=True, timeout=30, cwd=folder, env={**os.environ, "RUNTIME_DIRECTORY": str(folder)}
        )
        squatter.kill()
        self.assertEqual(squatter.stdout.read(), "")


if __name__ == "__main__":
    unittest.main()
