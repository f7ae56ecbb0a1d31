"""Releases: a healthy one takes the place of the one before without a failed request, a broken one gets none."""

import getpass
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
import unittest

from harness import BINARY, HERE, PYTHON, ROOT, Gateway, config, route, service, setUpModule
from load import THINK_TIME, Load
from test_operate import ADMIN, Operated

__all__ = ["setUpModule"]

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


def released(name="app", **settings):
    env = {"NOTES": "@FOLDER@/notes", "SDK": str(ROOT / "sdk" / "python")} | settings.pop("env", {})
    settings = {"argv": [PYTHON, "-B", "app.py"], "releases": "srv", "health": "/health", "env": env} | settings
    return service(name, **settings)


class Deploying(Operated):
    def begin(self, *blocks, **settings):
        blocks = blocks or (released(**settings), route(service="app"))
        gateway = Gateway(BINARY, config(*blocks, ADMIN, dev=True))
        (gateway.folder / "notes").mkdir()
        return self.start(gateway)

    def release(self, gateway, name, health="200", broken=False):
        """A folder to deploy."""
        folder = gateway.folder / "builds" / name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "released.py", folder / "app.py")
        (folder / "health").write_text(health)
        if broken:
            (folder / "broken").touch()
        return folder

    def command(self, gateway, *arguments, code=0, cwd=None, **more):
        which = () if "--host" in arguments or "--config" in arguments else ("--socket", gateway.folder / "admin.sock")
        line = [BINARY, arguments[0], *which, *arguments[1:]]
        done = subprocess.run(line, capture_output=True, text="input" not in more, timeout=120, cwd=cwd, **more)
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}\n{gateway.output()}")
        said = done.stdout if code == 0 else done.stderr
        return said if isinstance(said, str) else said.decode()

    def deploy(self, gateway, folder, *arguments, **more):
        return self.command(gateway, "deploy", folder, *arguments, **more)

    def deployed(self, gateway, folder, *arguments, **more):
        return json.loads(self.deploy(gateway, folder, "--json", *arguments, **more))["release"]

    def serving(self, gateway):
        answer = gateway.get("/")
        self.assert_status(answer, 200)
        return answer.body.decode()

    def noted(self, gateway, release):
        file = gateway.folder / "notes" / release
        return file.read_text().split() if file.exists() else []

    def listed(self, gateway):
        return json.loads(self.command(gateway, "releases", "--json"))

    def app(self, gateway):
        return self.admin(gateway, "/services/app")


class Releases(Deploying):
    def test_the_first_the_next_and_back(self):
        gateway = self.begin()
        self.assert_problem(gateway.get("/"), 503)
        one = self.deployed(gateway, self.release(gateway, "one"))
        self.assertRegex(one, r"^[0-9]{8}-[0-9]{6}-one$")
        self.assertEqual(self.serving(gateway), one)
        told = self.deploy(gateway, self.release(gateway, "two"), "--service", "app", "--label", "v2")
        two = os.path.basename(os.readlink(gateway.folder / "srv" / "current"))
        self.assertRegex(two, r"^[0-9]{8}-[0-9]{6}-v2$")
        self.assertIn(f"app runs release {two}: it answered its health request with status 200", told)
        self.assertIn(f"before    {one}; `pilotlight rollback --service app` goes back to it", told)
        self.assertEqual(self.serving(gateway), two)
        self.assert_eventually(lambda: [it["release"] for it in self.app(gateway)["instances"]] == [two], "one stays")
        self.assertEqual(self.app(gateway)["releases"]["current"], two)
        self.assertIn(f"release     {two}\n", self.command(gateway, "status", "app"))
        back = json.loads(self.command(gateway, "rollback", "--json"))
        self.assertEqual((back["release"], back["previous"]), (one, two))
        self.assertEqual(self.serving(gateway), one)
        self.assertIn("no release before", self.command(gateway, "rollback", code=1))
        self.assertIn("already", self.command(gateway, "rollback", one, code=2))
        self.assertIn("no release nothing", self.command(gateway, "rollback", "nothing", code=2))
        self.assertEqual(json.loads(self.command(gateway, "rollback", two, "--json"))["release"], two)
        self.assertEqual(self.serving(gateway), two)
        states = [(it["release"], it["state"]) for it in self.listed(gateway)["releases"]]
        self.assertEqual(states, [(two, "current"), (one, "served before")])
        metrics = self.ask(gateway, "GET", "/metrics").read().decode()
        self.assertIn('pilotlight_service_releases_total{service="app",outcome="used"} 4', metrics)

    def test_back_from_a_release_whose_requests_end_it(self):
        """What no health request finds: the service is refused by its circuit when somebody goes back."""
        gateway = self.begin()
        good = self.deployed(gateway, self.release(gateway, "good"))
        bad = self.release(gateway, "bad")
        (bad / "crashes").touch()
        slow = []
        thread = threading.Thread(target=lambda: slow.append(gateway.get("/slow").status))
        thread.start()
        self.assert_eventually(lambda: "/slow" in self.noted(gateway, good), "the slow request does not come")
        bad = self.deployed(gateway, bad)
        for _ in range(3):
            self.assertGreaterEqual(gateway.get("/").status, 500)
        thread.join()
        self.assertEqual(slow, [200])
        self.assert_eventually(lambda: self.app(gateway)["instances"] == [], "an instance stays")
        failures = self.app(gateway)["failures"]
        self.assertGreaterEqual(failures, 3, "the end of the replaced instance, which worked, counts for this one")
        self.assertEqual(json.loads(self.command(gateway, "rollback", "--json"))["release"], good)
        self.assertEqual([self.serving(gateway) for _ in range(5)], [good] * 5)
        self.assertEqual(self.app(gateway)["failures"], 0)
        states = [(it["release"], it["state"]) for it in self.listed(gateway)["releases"]]
        self.assertEqual(states, [(bad, "served before"), (good, "current")])

    def test_old_releases_go_but_not_those_in_use(self):
        gateway = self.begin(keep_releases=1)
        names = [self.deployed(gateway, self.release(gateway, f"r{number}")) for number in range(4)]
        kept = [it["release"] for it in self.listed(gateway)["releases"]]
        self.assertEqual(kept, names[:1:-1], "the current one and the one before")
        self.deploy(gateway, self.release(gateway, "bad", broken=True), code=1)
        states = [it["state"] for it in self.listed(gateway)["releases"]]
        self.assertEqual(states, ["failed", "current", "served before"])

    def test_one_at_a_time(self):
        gateway = self.begin(health={"path": "/health", "timeout": "30s"})
        good = self.deployed(gateway, self.release(gateway, "good"))
        build = self.release(gateway, "slow", health="silent")
        arguments = [BINARY, "deploy", build, "--socket", gateway.folder / "admin.sock"]
        slow = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        self.assert_eventually(lambda: len(self.app(gateway)["instances"]) == 2, "it is not tried")
        self.assertIn("another deploy or rollback is under way", self.command(gateway, "rollback", code=1))
        self.admin(gateway, "/services/app/stop", method="POST", status=202)
        self.assertIn("it was stopped before it took requests", slow.communicate(timeout=60)[1])
        self.assertEqual(slow.returncode, 1)
        self.assertEqual(self.serving(gateway), good)

    def test_a_crash_of_the_gateway_leaves_what_was_current(self):
        gateway = self.begin(health={"path": "/health", "timeout": "30s"})
        one = self.deployed(gateway, self.release(gateway, "one"))
        build = self.release(gateway, "two", health="silent")
        arguments = [BINARY, "deploy", build, "--socket", gateway.folder / "admin.sock"]
        two = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        self.assert_eventually(lambda: len(self.app(gateway)["instances"]) == 2, "it is not tried")
        gateway.process.kill()
        self.assertIn("did not answer", two.communicate(timeout=60)[1])
        self.assertEqual(os.path.basename(os.readlink(gateway.folder / "srv" / "current")), one)

    def test_later_instances_run_in_the_folder_of_the_release(self):
        """Forked from a parent, or kept within bounds: each finds the files of its release."""
        bounds = {"sandbox": "strict", "sandbox_read": [str(ROOT)], "sandbox_write": ["@FOLDER@/notes"]}
        forked = {"preload": ["json"], "env": {"PYTHONPATH": str(ROOT / "sdk" / "python")}}
        for settings in (forked, bounds):
            with self.subTest(**settings):
                gateway = self.begin(health={"path": "/health", "status": "2xx"}, **settings)
                for name, health in (("one", "200"), ("two", "201")):
                    release = self.deployed(gateway, self.release(gateway, name, health=health))
                    # The candidate first, then one that comes later.
                    for _ in range(2):
                        self.assertEqual((self.serving(gateway), gateway.get("/health").status), (release, int(health)))
                        if "preload" in settings:
                            is_ready = lambda: self.app(gateway)["zygote"]["state"] == "ready"  # noqa: E731
                            self.assert_eventually(is_ready, "there is no parent")
                        pid = int(gateway.get("/pid").body)
                        os.kill(pid, signal.SIGKILL)
                        self.assert_eventually(lambda: self.app(gateway)["last_error"], "it lives")
                        self.assert_eventually(lambda: not os.path.exists(f"/proc/{pid}"), "it lives")

    @unittest.skipUnless(os.geteuid() == 0, "root can do what others may not")
    def test_what_root_unpacks_is_not_the_gateways(self):
        gateway = Gateway("/bin/sh", config(released(argv=["/bin/sh", "run"]), route(service="app"), ADMIN))
        wrapper = gateway.folder / "gateway"
        wrapper.write_text(f'#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups {BINARY} "$@"\n')
        wrapper.chmod(0o755)
        gateway._binary = str(wrapper)
        build = self.release(gateway, "a")
        for path in (gateway.folder, build.parent, build):
            os.chown(path, 65534, 65534)
        self.start(gateway)
        told = self.deploy(gateway, build, code=1)
        self.assertIn("the gateway runs as user 65534 and this command as user 0", told)
        self.assertFalse((gateway.folder / "srv").exists())

    def test_the_health_request_over_http_2(self):
        """With prior knowledge, as services of gRPC speak it."""
        script = "import socket, sys; sys.path.insert(0, sys.argv[1]); from h2c_service import Server; " \
            "it = Server(); it.listener = socket.socket(fileno=3); it.accept()"
        argv = [PYTHON, "-B", "-c", script, str(HERE)]
        gateway = self.begin(argv=argv, transport="h2c")
        told = self.deploy(gateway, self.release(gateway, "good"))
        self.assertIn("it answered its health request with status 200", told)
        self.assert_status(gateway.get("/"), 200)
        gateway = self.begin(argv=argv, transport="h2c", health={"path": "/health", "status": 204})
        told = self.deploy(gateway, self.release(gateway, "bad"), code=1)
        self.assertIn("it answered GET /health with status 200, not with status 204", told)

    def test_what_is_wrong_is_said(self):
        gateway = self.begin(released(), released("second"), service("demo"), route(service="app"))
        build = self.release(gateway, "a")
        self.assertIn("several services have releases", self.deploy(gateway, build, code=2))
        self.assertIn("the service demo has no releases", self.deploy(gateway, build, "--service", "demo", code=1))
        self.assertIn("nobody", self.deploy(gateway, build, "--service", "nobody", code=2))
        told = self.deploy(gateway, "no-such-thing", "--service", "app", code=2)
        self.assertIn("no-such-thing is neither a folder nor an archive, nor a commit", told)
        archive = gateway.folder / "a.zip"
        archive.write_bytes(b"PK\3\4")
        self.assertIn("a zip file", self.deploy(gateway, archive, "--service", "app", code=2))
        archive = gateway.folder / "cut.tar.gz"
        whole = subprocess.run(["tar", "cz", "-C", build, "."], capture_output=True, check=True).stdout
        archive.write_bytes(whole[:-20])
        self.assertIn("cannot be read", self.deploy(gateway, archive, "--service", "app", code=2))
        self.assertEqual(list((gateway.folder / "srv" / "releases").iterdir()), [], "half a release is left")
        self.assertIn("no release of app in", self.command(gateway, "releases", "--service", "app"))


class BrokenReleases(Deploying):
    def test_a_broken_release_gets_no_request(self):
        for speaks in ({}, {"transport": "http", "env": {"SERVER": "http"}}):
            with self.subTest(**speaks):
                gateway = self.begin(health={"path": "/health", "timeout": "300ms"}, **speaks)
                good = self.deployed(gateway, self.release(gateway, "good"))
                cases = (
                    ({"broken": True}, "no module named flask"),
                    ({"health": "500"}, "GET /health with status 500, not with a status from 200 to 299"),
                    ({"health": "404"}, "with status 404"),
                    ({"health": "silent"}, "was not answered"),
                )
                with Load(gateway.address, "/", think_time=THINK_TIME) as load:
                    for number, (kind, why) in enumerate(cases):
                        told = self.deploy(gateway, self.release(gateway, f"bad{number}", **kind), code=1)
                        self.assertIn("is not used, and nothing has changed", told)
                        self.assertIn(why, told)
                        latest = self.listed(gateway)["releases"][0]
                        self.assertEqual((latest["state"], why in latest["reason"]), ("failed", True), latest)
                        self.assertEqual(self.noted(gateway, latest["release"]), [])
                self.assertEqual((load.errors, load.bodies()), ([], {good}))
                self.assertEqual(self.app(gateway)["releases"]["tried"], {"used": 1, "refused": 4, "abandoned": 0})
                self.assert_eventually(lambda: len(self.app(gateway)["instances"]) == 1, "a broken instance stays")


class ChangingReleases(Deploying):
    def test_no_request_fails_while_releases_change(self):
        for speaks in ({}, {"transport": "http", "env": {"SERVER": "http"}}):
            with self.subTest(**speaks):
                gateway = self.begin(max_instances=2, concurrency=4, **speaks)
                names = [self.deployed(gateway, self.release(gateway, "r0"))]
                slow = []
                with Load(gateway.address, "/", think_time=THINK_TIME) as load:
                    for number in range(1, 6):
                        thread = threading.Thread(target=lambda: slow.append(gateway.get("/slow").status))
                        thread.start()
                        names.append(self.deployed(gateway, self.release(gateway, f"r{number}")))
                        # All instances have been replaced when the command ends.
                        self.assertEqual({self.serving(gateway) for _ in range(5)}, {names[-1]})
                        thread.join()
                    for _ in range(2):
                        self.command(gateway, "rollback")
                self.assertEqual(load.errors, [])
                self.assertEqual(slow, [200] * 5)
                self.assertLessEqual(set(names), load.bodies())
                self.assertEqual(self.listed(gateway)["current"], names[-3])


class Sources(Deploying):
    def test_archives(self):
        gateway = self.begin()
        build = self.release(gateway, "a")
        for kind in ("tar", "tar.gz"):
            archive = gateway.folder / f"app-1.2.{kind}"
            with tarfile.open(archive, "w:gz" if kind == "tar.gz" else "w") as out:
                out.add(build, ".")
            self.assertRegex(self.deployed(gateway, archive), r"-app-1\.2$")
        self.deploy(gateway, "-", "--label", "piped", input=archive.read_bytes())
        self.assertRegex(self.serving(gateway), "-piped$")

    def test_links_stay_and_nothing_is_written_outside(self):
        gateway = self.begin()
        build = self.release(gateway, "a")
        (build / "python").symlink_to(PYTHON)
        self.deploy(gateway, build)
        self.assertEqual(os.readlink(gateway.folder / "srv" / "current" / "python"), PYTHON)
        archive, text = io.BytesIO(), b"escaped"
        with tarfile.open(fileobj=archive, mode="w") as out:
            entry = tarfile.TarInfo("../../escaped")
            entry.size = len(text)
            out.addfile(entry, io.BytesIO(text))
        self.assertIn("leads out of the archive", self.deploy(gateway, "-", input=archive.getvalue(), code=2))
        self.assertFalse((gateway.folder / "srv" / "escaped").exists())

    def test_commits(self):
        gateway = self.begin()
        build = self.release(gateway, "repository")

        def git(*arguments):
            who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
            done = subprocess.run(["git", *who, *arguments], cwd=build, capture_output=True, text=True, check=True)
            return done.stdout.strip()

        git("init")
        git("add", ".")
        git("commit", "-m", "one")
        git("tag", "v1")
        (build / "health").write_text("500")  # not committed
        release = self.deployed(gateway, "v1", cwd=build)
        self.assertTrue(release.endswith(git("rev-parse", "v1")[:12]), release)
        self.assertEqual(self.serving(gateway), release)
        self.assertFalse((gateway.folder / "srv" / "current" / ".git").exists())
        self.assertIn("nor a commit", self.deploy(gateway, "v2", cwd=build, code=2))
        self.assertIn("nor a commit", self.deploy(gateway, "--", "--output=x", cwd=build, code=2))


class Ssh(Deploying):
    """With a real server of ssh on the loopback interface."""

    def server(self, folder):
        key, host_key = folder / "key", folder / "host_key"
        for file in (key, host_key):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
        (folder / "keys").write_bytes(key.with_suffix(".pub").read_bytes())
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        options = [
            f"ListenAddress=127.0.0.1:{port}", f"HostKey={host_key}", f"AuthorizedKeysFile={folder / 'keys'}",
            f"PidFile={folder / 'sshd.pid'}", "StrictModes=no", "UsePAM=no", "PasswordAuthentication=no",
            "PermitRootLogin=yes",
        ]  # fmt: skip
        os.makedirs("/run/sshd", exist_ok=True)
        flags = [flag for option in options for flag in ("-o", option)]
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", "/dev/null", *flags], stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.wait)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.kill)
        for line in server.stderr:
            if "Server listening" in line:
                break
        known = folder / "known_hosts"
        known.write_text(f"[127.0.0.1]:{port} {host_key.with_suffix('.pub').read_text()}")
        ours = (f"IdentityFile={key}", f"UserKnownHostsFile={known}", "IdentitiesOnly=yes", "BatchMode=yes")
        options = [word for option in ours for word in ("--ssh-option", option)]
        return [f"ssh://{getpass.getuser()}@127.0.0.1:{port}", *options]

    def test_on_another_host(self):
        gateway = self.begin()
        to = ["--host", *self.server(gateway.folder), "--config", gateway.folder / "pilotlight.toml"]
        at = [*to, "--remote-command", str(BINARY.resolve())]
        build = self.release(gateway, "it's a build")
        one = json.loads(self.deploy(gateway, build, "--json", *at))["release"]
        self.assertRegex(one, "-itsabuild$")
        self.assertEqual(self.serving(gateway), one)
        two = json.loads(self.deploy(gateway, self.release(gateway, "two"), "--json", *at))["release"]
        self.assertIn(f"app runs release {one}", self.command(gateway, "rollback", *at))
        listed = json.loads(self.command(gateway, "releases", "--json", *at))["releases"]
        self.assertEqual([it["release"] for it in listed], [two, one])
        told = self.deploy(gateway, self.release(gateway, "bad", broken=True), *at, code=1)
        self.assertIn("no module named flask", told)
        self.assertEqual(self.serving(gateway), one)
        # What cannot be read to its end does not become a release.
        bad = self.release(gateway, "unreadable")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(bad / "socket"))
            self.assertIn("socket", self.deploy(gateway, bad, *at, code=2))
        self.assert_eventually(lambda: len(self.listed(gateway)["releases"]) == 3, "half a release is there")
        told = self.deploy(gateway, build, *to, "--remote-command", "/no/such/pilotlight", code=1)
        self.assertIn("--remote-command says how Pilotlight is called there", told)

    def test_hosts_that_are_none(self):
        gateway = self.begin()
        build = self.release(gateway, "a")
        self.assertIn("is no host", self.deploy(gateway, build, "--host=-oProxyCommand=false", code=2))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        told = self.deploy(gateway, build, "--host", f"ssh://127.0.0.1:{port}", "--ssh-option", "BatchMode=yes", code=1)
        self.assertIn("`ssh` did not come through", told)


if __name__ == "__main__":
    unittest.main()
