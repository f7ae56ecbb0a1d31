"""What a service may use of the machine: sandbox, limits, users, secrets (issue 4, number 3)."""

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path
from urllib.parse import urlencode

from harness import (
    BINARY, HERE, ROOT, Gateway, TestCase, alive, config, descendants, eventually, route, service, setUpModule,
)  # fmt: skip
from harness import PYTHON as OWN_PYTHON

__all__ = ["setUpModule"]

IS_ROOT = os.geteuid() == 0
CALLS = {"mount": 165, "ptrace": 101, "unshare": 272, "bpf": 321, "io_uring_setup": 425, "keyctl": 250}
if os.uname().machine == "aarch64":
    CALLS = {"mount": 40, "ptrace": 117, "unshare": 97, "bpf": 280, "io_uring_setup": 425, "keyctl": 219}
NEW_USER = 0x10000000


def public_python():
    """A Python that other users may execute as well."""
    real = os.path.realpath(OWN_PYTHON)
    folders = Path(real).parents
    if all(folder.stat().st_mode & 0o001 for folder in folders):
        return real
    return next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.path.exists(path)), None)


def jail(case, clean_up, python=OWN_PYTHON, **settings):
    """A gateway for `Isolated`. `case`, a test or its class, gets the paths `outside` and `dir`."""
    folder = Path(tempfile.mkdtemp(prefix="pilotlight-isolation-"))
    clean_up(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    case.outside = folder / "outside"
    case.outside.mkdir()
    case.outside.joinpath("public.txt").write_text("public")
    case.dir = folder / "service"
    case.dir.mkdir()
    shutil.copy(HERE / "jailed.py", case.dir)
    shutil.copytree(ROOT / "sdk" / "python" / "pilotlight", case.dir / "pilotlight")
    argv = settings.pop("argv", [python, "-B", "jailed.py"])
    settings = {"dir": str(case.dir)} | settings
    blocks = (service("jailed", argv, **settings), route(service="jailed"))
    return Gateway(BINARY, config(*blocks, dev=True))


class Isolated(TestCase):
    """A gateway with the service of jailed.py, in its own folder with a copy of the SDK."""

    def isolated(self, python=OWN_PYTHON, **settings):
        return self.start(jail(self, self.addCleanup, python, **settings))

    def attempt(self, gateway, what, **query):
        answer = gateway.get(f"/try/{what}?{urlencode(query)}")
        self.assert_status(answer, 200)
        return json.loads(answer.body)

    def assert_refused(self, outcome, *numbers):
        # What a sandbox does not show is not there, and what leads to what it shows cannot be changed.
        self.assertIn(outcome.get("errno"), numbers or (errno.EPERM, errno.EACCES, errno.ENOENT, errno.EROFS), outcome)

    def assert_done(self, outcome):
        self.assertIn("done", outcome, outcome)
        return outcome["done"]

    def assert_logged(self, gateway, *words):
        """A line of the gateway's output has all these words."""

        def found():
            return any(all(word in line for word in words) for line in gateway.output().splitlines())

        self.assertTrue(eventually(found, 10), f"no line has {words}:\n{gateway.output()}")


class Strict(Isolated):
    """Escapes from `sandbox = "strict"` are refused, and named in the log."""

    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.share(jail(cls, cls.addClassCleanup, sandbox="strict"))

    def test_what_is_allowed_is_said_at_the_start(self):
        self.assert_done(self.attempt(self.gateway, "who"))
        self.assert_logged(self.gateway, "INFO", "strict", str(self.dir), "network")

    def test_files_outside_cannot_be_written_or_removed(self):
        for path in (self.outside / "new.txt", self.outside / "public.txt", "/tmp/pilotlight-escape", "/usr/escape"):
            self.assert_refused(self.attempt(self.gateway, "write", path=path))
        self.assert_refused(self.attempt(self.gateway, "remove", path=self.outside / "public.txt"))
        self.assertEqual((self.outside / "public.txt").read_text(), "public")

    def test_its_own_folder_is_its_own(self):
        self.assertEqual(self.assert_done(self.attempt(self.gateway, "write", path="own.txt", bytes=5)), 5)
        self.assertEqual(self.assert_done(self.attempt(self.gateway, "read", path=self.dir / "own.txt")), "xxxxx")
        self.assert_done(self.attempt(self.gateway, "remove", path="own.txt"))
        self.assertIn("root", self.assert_done(self.attempt(self.gateway, "read", path="/etc/passwd")))
        self.assertEqual(self.assert_done(self.attempt(self.gateway, "run", command="echo from a shell")), "from a shell\n")
        self.assertEqual(self.assert_done(self.attempt(self.gateway, "read", path="/dev/null")), "")

    def test_no_program_that_runs_as_its_owner(self):
        self.assert_done(self.attempt(self.gateway, "write", path="program"))
        self.assert_done(self.attempt(self.gateway, "chmod", path="program", mode="0755"))
        for mode in ("4755", "2755"):
            self.assert_refused(self.attempt(self.gateway, "chmod", path="program", mode=mode), errno.EPERM)

    def test_a_symlink_leads_nowhere(self):
        (self.dir / "link").symlink_to("/etc/shadow")
        self.assert_refused(self.attempt(self.gateway, "read", path="link"))

    @unittest.skipUnless(IS_ROOT, "not here: as root")
    def test_what_this_kernel_leaves_open_is_said(self):
        path = self.outside / "socket"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            outcome = self.attempt(self.gateway, "unix", path=path)
        if "done" in outcome:  # before Linux 7.1
            self.assert_logged(self.gateway, "WARN", "Unix sockets", "`user`")

    @unittest.skipUnless(os.uname().machine in ("x86_64", "aarch64"), "not here: numbers of system calls")
    def test_calls_that_change_the_machine(self):
        for name, number in CALLS.items():
            with self.subTest(name):
                self.assert_refused(self.attempt(self.gateway, "call", words=f"{number},0,0,0,0,0"), errno.EPERM)

    @unittest.skipUnless(os.uname().machine == "x86_64", "not here: x86-64")
    def test_ways_around_the_list(self):
        clone, clone3, x32_socket = 56, 435, 0x40000000 + 41
        self.assert_refused(self.attempt(self.gateway, "call", words=f"{clone},{NEW_USER | 17},0,0,0,0"), errno.EPERM)
        self.assert_refused(self.attempt(self.gateway, "call", words=f"{clone3},0,0"), errno.ENOSYS)
        self.assert_refused(self.attempt(self.gateway, "call", words=f"{x32_socket},2,1,0"), errno.ENOSYS)
        tiocsti = 0x5412
        self.assert_refused(self.attempt(self.gateway, "call", words=f"16,0,{tiocsti},0"), errno.EPERM)

    def test_no_way_back(self):
        status = self.assert_done(self.attempt(self.gateway, "who"))
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), (["1"], ["2"]))
        self.assertEqual(int(status["CapEff"][0], 16), 0)
        if IS_ROOT:
            self.assertEqual(int(status["CapBnd"][0], 16), 0)

    def test_the_gateway_cannot_be_signalled(self):
        self.assert_refused(self.attempt(self.gateway, "kill", pid=self.gateway.process.pid))

    def test_what_it_starts_is_in_it_as_well(self):
        said = self.assert_done(self.attempt(self.gateway, "run", command="cat /etc/shadow 2>&1; true"))
        self.assertIn("ermission denied", said)


class StrictHints(Isolated):
    """The log names the setting for a refusal once for each instance: each test has its own."""

    def setUp(self):
        super().setUp()
        self.gateway = self.isolated(sandbox="strict")

    def test_files_outside_cannot_be_read(self):
        self.assert_refused(self.attempt(self.gateway, "read", path="/etc/shadow"))
        self.assert_logged(self.gateway, "jailed#1 |", "/etc/shadow")
        self.assert_logged(self.gateway, "jailed#1 |", "[pilotlight]", "sandbox", "sandbox_read")
        self.assert_refused(self.attempt(self.gateway, "read", path=self.outside / "public.txt"))
        self.assert_refused(self.attempt(self.gateway, "read", path=self.gateway.folder / "pilotlight.toml"))
        secret = self.attempt(self.gateway, "read", path=f"/proc/{self.gateway.process.pid}/environ")
        self.assert_refused(secret)

    def test_no_network(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.assert_refused(self.attempt(self.gateway, "connect", host="127.0.0.1", port=port))
            server.settimeout(0.2)
            self.assertRaises(TimeoutError, server.accept)
        self.assert_logged(self.gateway, "jailed#1 |", "[pilotlight]", "network connections")


class StrictSettings(Isolated):
    def test_nothing_is_left_of_it(self):
        """Signals from outside reach it: it is stopped like any other service."""
        gateway = self.isolated(sandbox="strict")
        self.attempt(gateway, "run", command="setsid sleep 4021 >/dev/null 2>&1 &")
        self.assert_eventually(
            lambda: any("sleep 4021" in line for line in descendants(gateway.process.pid).values()),
            "sleep 4021 is not there",
        )
        family = descendants(gateway.process.pid)
        gateway.signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(20), 0)
        self.assertEqual(alive(family), {})

    def test_further_paths(self):
        folder = Path(tempfile.mkdtemp(prefix="pilotlight-isolation-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        for name in ("read", "write"):
            (folder / name).mkdir()
            (folder / name / "file").write_text(name)
        gateway = self.isolated(sandbox="strict", sandbox_read=[str(folder / "read")], sandbox_write=str(folder / "write"))
        self.assertEqual(self.assert_done(self.attempt(gateway, "read", path=folder / "read" / "file")), "read")
        self.assert_refused(self.attempt(gateway, "write", path=folder / "read" / "file"))
        self.assertEqual(self.assert_done(self.attempt(gateway, "write", path=folder / "write" / "new", bytes=3)), 3)
        self.assert_refused(self.attempt(gateway, "read", path=self.outside / "public.txt"))

    def test_an_http_service_with_its_socket(self):
        """It was opened before, and serves as ever; the program knows its pid (`LISTEN_PID`)."""
        for kind in ("unix", "tcp"):
            with self.subTest(kind):
                gateway = self.isolated(sandbox="strict", transport="http", socket=kind)
                status = self.assert_done(self.attempt(gateway, "who"))
                self.assertEqual(status["Seccomp"], ["2"])
                self.assertTrue(self.assert_done(self.attempt(gateway, "variable", name="LISTEN_PID")))

    def test_a_forbidden_program_says_why(self):
        """The start fails with what to do."""
        folder = Path(tempfile.mkdtemp(prefix="pilotlight-isolation-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "lib").write_text("echo from the library\n")
        gateway = self.isolated(sandbox="strict", argv=["/bin/sh", "-c", f". {folder}/lib"])
        problem = self.assert_problem(gateway.get("/"), 503)
        said = "\n".join(problem["output"])
        self.assertIn(f"{folder}/lib", said)
        self.assertIn("sandbox_read", said)


class Reload(Isolated):
    """Bounds are settings like others: a new file replaces the instances that have old ones."""

    def test_a_sandbox_that_comes_and_a_user(self):
        gateway = self.isolated(public_python() or OWN_PYTHON)
        public = self.outside / "public.txt"
        self.assertEqual(self.assert_done(self.attempt(gateway, "read", path=public)), "public")
        file = gateway.folder / "pilotlight.toml"
        more = 'sandbox = "strict"\n' + ('user = "nobody"\n' if IS_ROOT and public_python() else "")
        file.write_text(file.read_text().replace("[[routes]]", more + "[[routes]]", 1))
        gateway.signal(signal.SIGHUP)
        self.assert_eventually(lambda: self.attempt(gateway, "read", path=public).get("errno"), "it reads on")
        status = self.assert_done(self.attempt(gateway, "who"))
        self.assertEqual(status["Seccomp"], ["2"])
        if IS_ROOT and public_python():
            self.assertNotIn("0", status["Uid"])


class Limits(Isolated):
    """Limits hold, and the log names the one that was reached."""

    def test_open_files(self):
        gateway = self.isolated(limits={"open_files": 64})
        self.assert_refused(self.attempt(gateway, "files", count=100), errno.EMFILE)
        self.assert_logged(gateway, "jailed#1 |", "[pilotlight]", "limits.open_files = 64")

    def test_address_space(self):
        gateway = self.isolated(limits={"address_space": "512MiB"})
        self.assertEqual(self.attempt(gateway, "memory", bytes=1 << 20)["done"], 1 << 20)
        self.assertEqual(self.attempt(gateway, "memory", bytes=1 << 30)["error"], "MemoryError")
        self.assert_logged(gateway, "jailed#1 |", "[pilotlight]", "limits.address_space")

    def test_file_size(self):
        gateway = self.isolated(limits={"file_size": "4KiB"})
        self.assertEqual(self.assert_done(self.attempt(gateway, "write", path="small", bytes=4096)), 4096)
        self.assert_refused(self.attempt(gateway, "write", path="large", bytes=4097), errno.EFBIG)
        self.assert_logged(gateway, "jailed#1 |", "[pilotlight]", "limits.file_size")

    def test_processor_time(self):
        """SIGXCPU ends it, and the log and the next answer say which limit that was."""
        gateway = self.isolated(limits={"cpu_seconds": 1})
        answer = gateway.get("/try/spin")
        self.assertIn(answer.status, (502, 503), answer)
        self.assert_logged(gateway, "ended by itself", "limits.cpu_seconds = 1")

    def test_a_limit_above_what_is_allowed(self):
        """More than the kernel allows anybody: the start fails and says so."""
        gateway = self.isolated(limits={"open_files": 1_073_741_816})
        problem = self.assert_problem(gateway.get("/"), 503)
        self.assertIn("could not be set up", problem["detail"])
        self.assertIn("limits.open_files", "\n".join(problem["output"]))

    def test_processes_of_the_user(self):
        """One of the user's is there already. Root's are not counted by the kernel, so as root another user's are."""
        if not IS_ROOT:
            gateway = self.isolated(limits={"processes": 1})
        else:
            python = public_python()
            self.assertIsNotNone(python, "other users need a Python that they may execute: apt-get install python3")
            other = subprocess.Popen(["/bin/sleep", "600"], user="nobody", cwd="/")
            self.addCleanup(other.wait)
            self.addCleanup(other.kill)
            gateway = self.isolated(python, user="nobody", limits={"processes": 1})
        self.assert_problem(gateway.get("/"), 503)

    @unittest.skipUnless(IS_ROOT, "not here: as root")
    def test_processes_of_root_are_not_counted_which_is_said(self):
        gateway = self.isolated(limits={"processes": 20})
        self.assert_done(self.attempt(gateway, "who"))
        self.assert_logged(gateway, "WARN", "limits.processes")

    def test_cgroup_limits_hold_or_are_said_to_be_missing(self):
        gateway = self.isolated(cgroup={"memory": "64MiB", "cpu": 1})
        answer = gateway.get("/try/memory?bytes=200000000")
        if answer.status == 200:
            self.assert_logged(gateway, "WARN", "cgroup", "no effect")
            lines = [line for line in gateway.output().splitlines() if "no effect" in line]
            self.assertEqual(len(lines), 1, "once")
            self.skipTest("not here: no cgroup v2 with a memory controller here")
        self.assert_logged(gateway, "ended by itself", "cgroup.memory")


@unittest.skipUnless(IS_ROOT, "not here: only root can run services as other users")
class Users(Isolated):
    def setUp(self):
        super().setUp()
        self.python = public_python()
        if self.python is None:
            self.skipTest("not here: no Python that other users may execute")

    def test_user_and_group(self):
        """Over the pipe: the socket's folder lets it pass, and only it."""
        gateway = self.isolated(self.python, user="nobody")
        status = self.assert_done(self.attempt(gateway, "who"))
        import pwd

        entry = pwd.getpwnam("nobody")
        self.assertEqual(set(status["Uid"]), {str(entry.pw_uid)})
        self.assertEqual(set(status["Gid"]), {str(entry.pw_gid)})
        self.assertEqual(int(status["CapEff"][0], 16), 0)
        self.assertEqual(status["HOME"], entry.pw_dir)
        self.assert_refused(self.attempt(gateway, "read", path="/etc/shadow"))
        self.assert_logged(gateway, "[pilotlight]", "nobody")

    def test_a_folder_that_the_user_may_not_enter(self):
        gateway = self.isolated(self.python, user="nobody")
        self.dir.chmod(0o700)
        problem = self.assert_problem(gateway.get("/"), 503)
        self.assertIn("user nobody may not enter", "\n".join(problem["output"]))

    def test_others_are_sent_away_from_the_pipe(self):
        gateway = self.isolated(self.python, user="nobody")
        path = self.assert_done(self.attempt(gateway, "variable", name="PILOTLIGHT_SOCKET"))
        dial = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1]);"
            "print(s.makefile('rb').read())"
        )
        said = subprocess.run(
            [self.python, "-c", dial, path], user=12345, group=12345, cwd="/", capture_output=True, text=True, timeout=20
        )
        self.assertIn("P-4: you run under user id 12345", said.stdout, said.stderr)

    def test_an_http_service_of_a_user(self):
        gateway = self.isolated(self.python, user="nobody", group="0", transport="http", sandbox="strict")
        self.assertEqual(set(self.assert_done(self.attempt(gateway, "who"))["Gid"]), {"0"})

    def test_a_fork_bomb(self):
        gateway = self.isolated(self.python, user="nobody", sandbox="strict", limits={"processes": 30})
        count = self.assert_done(self.attempt(gateway, "forks", count=200))
        self.assertLess(count, 30)
        self.assert_logged(gateway, "jailed#1 |", "BlockingIOError")
        self.assert_logged(gateway, "jailed#1 |", "[pilotlight]", "limits.processes = 30")
        self.assert_done(self.attempt(gateway, "who"))  # the service goes on

    def test_a_bomb_that_never_stops(self):
        """A shell that only multiplies: the gateway goes on, and stops it for certain."""
        argv = ["/bin/sh", "-c", "b() { b | b & }; b; sleep 4022"]
        gateway = self.isolated(argv=argv, user="nobody", limits={"processes": 40}, start_timeout="2s")
        self.assert_problem(gateway.get("/"), 503)
        self.assert_logged(gateway, "jailed#1 |", "[pilotlight]", "limits.processes = 40")
        gateway.signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(25), 0)
        left = [line for line in (Path(f"/proc/{p}/cmdline") for p in os.listdir("/proc") if p.isdigit()) if _has(line, b"sleep\0004022")]
        self.assertEqual(left, [])

    def test_secrets_and_files_of_variables_are_read_before_the_user_changes(self):
        folder = Path(tempfile.mkdtemp(prefix="pilotlight-isolation-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        _private(folder / "key", "opensesame")
        _private(folder / "env", "FROM_FILE=yes\n")
        gateway = self.isolated(
            self.python, user="nobody", sandbox="strict", secrets={"DB": str(folder / "key")}, env_file=str(folder / "env")
        )
        path = self.assert_done(self.attempt(gateway, "variable", name="DB_FILE"))
        self.assertEqual(self.assert_done(self.attempt(gateway, "read", path=path)), "opensesame")
        self.assertEqual(self.assert_done(self.attempt(gateway, "variable", name="FROM_FILE")), "yes")
        self.assert_refused(self.attempt(gateway, "read", path=folder / "key"))


def _has(path, word):
    try:
        return word in path.read_bytes()
    except OSError:
        return False


def _private(path, text):
    path.touch(0o600)
    path.write_text(text)


class Secrets(Isolated):
    """Secrets reach the service and nothing else."""

    def setUp(self):
        super().setUp()
        self.folder = Path(tempfile.mkdtemp(prefix="pilotlight-isolation-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        _private(self.folder / "db.key", "open-sesame-4711\n")
        _private(self.folder / "app.env", "# settings\nAPI_KEY='open-sesame-4712'\nMODE=from-file\n")

    def test_they_reach_the_service_and_nothing_else(self):
        gateway = self.isolated(
            secrets={"DB_PASSWORD": str(self.folder / "db.key")}, env_file=[str(self.folder / "app.env")],
            env={"MODE": "from-env"},
        )  # fmt: skip
        path = self.assert_done(self.attempt(gateway, "variable", name="DB_PASSWORD_FILE"))
        for _ in range(2):
            self.assertEqual(self.assert_done(self.attempt(gateway, "read", path=path)), "open-sesame-4711\n")
        self.assert_refused(self.attempt(gateway, "write", path=path), errno.EPERM, errno.EACCES)
        self.assertEqual(self.assert_done(self.attempt(gateway, "variable", name="API_KEY")), "open-sesame-4712")
        self.assertEqual(self.assert_done(self.attempt(gateway, "variable", name="MODE")), "from-env")
        # What it starts does not inherit the secret unless it is told to.
        self.assertIn("gone", self.assert_done(self.attempt(gateway, "run", command=f"cat {path} 2>/dev/null || echo gone")))
        for pid in [gateway.process.pid, *(p for p, _ in descendants(gateway.process.pid))]:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            self.assertNotIn(b"sesame-4711", environ)
            if b"PILOTLIGHT_TOKEN" not in environ:
                self.assertNotIn(b"sesame", environ)
        gateway.signal(signal.SIGTERM)
        gateway.wait(20)
        self.assertNotIn("sesame", gateway.output())

    def test_a_new_secret_counts_from_the_next_start(self):
        gateway = self.isolated(secrets={"KEY": str(self.folder / "db.key")}, idle_timeout="300ms")
        path = self.assert_done(self.attempt(gateway, "variable", name="KEY_FILE"))
        _private(self.folder / "db.key", "new")

        def changed():
            found = self.attempt(gateway, "read", path=path).get("done")
            import time

            time.sleep(0.5)  # longer than the idle timeout
            return found == "new"

        self.assert_eventually(changed, "the old secret is still there")

    def test_a_file_that_vanished(self):
        gateway = self.isolated(secrets={"KEY": str(self.folder / "db.key")})
        (self.folder / "db.key").unlink()
        problem = self.assert_problem(gateway.get("/"), 503)
        self.assertNotIn("db.key", problem["detail"])
        self.assertIn("db.key", "\n".join(problem["output"]))
        self.assert_logged(gateway, "ERROR", "secrets.KEY", "db.key")

    def test_a_broken_file_of_variables_is_named_without_its_contents(self):
        gateway = self.isolated(env_file=str(self.folder / "app.env"))
        _private(self.folder / "app.env", "FINE=1\nAPI_KEY='open-sesame\n")
        problem = self.assert_problem(gateway.get("/"), 503)
        self.assertIn("line 2", "\n".join(problem["output"]))
        self.assertNotIn("sesame", json.dumps(problem) + gateway.output())

    def test_a_file_that_everybody_may_read(self):
        (self.folder / "db.key").chmod(0o644)
        gateway = self.isolated(secrets={"KEY": str(self.folder / "db.key")})
        self.assert_done(self.attempt(gateway, "who"))
        self.assert_logged(gateway, "everybody", "db.key", "chmod 600")


class Check(TestCase):
    """`pilotlight check` finds what cannot be had."""

    def test_mistakes(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "loose.env").write_text("A=1\nnonsense\n")
            Path(folder, "loose.env").chmod(0o666)
            path = Path(folder, "pilotlight.toml")
            block = service(
                argv=["/bin/true"], user="no-such-user", env_file="loose.env", secrets={"KEY": "missing.key"},
                sandbox="strict", sandbox_read=["missing"],
            )  # fmt: skip
            path.write_text(config(block, route()))
            done = subprocess.run([BINARY, "check", "--config", path], capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 2, done.stderr)
        for words in (
            "there is no user `no-such-user`", "everybody may write to", "line 2: it is not NAME=value", "missing.key cannot be read",
            "missing does not exist", "the folder of this very file",
        ):  # fmt: skip
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
