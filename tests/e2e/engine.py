"""A container engine for tests: Podman with a storage of its own, and images made from nothing."""

import hashlib
import io
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import urllib.parse
from http.client import HTTPConnection
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket

from harness import ROOT, eventually, processes
from programs import program

HERE = Path(__file__).resolve().parent
LIMIT = 60.0
IMAGE = "localhost/pilotlight-test:1"
CHECKED = "localhost/pilotlight-test:checked"  # the same with a health check
PIPED = "localhost/pilotlight-test:piped"  # the demo of the C SDK
# A machine of CI gives its processes less than the engine gives its containers by default.
CONF = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
lock_type = "file"
events_logger = "file"
"""


class _Connection(HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("engine", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket(AF_UNIX, SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    """`with Engine() as engine`: its socket is `engine.socket`; everything that it holds is removed at the end."""

    def __init__(self):
        podman = program("podman")
        self._folder = tempfile.TemporaryDirectory(prefix="pilotlight-engine-")
        self.folder = Path(self._folder.name)
        self.socket = self.folder / "podman.sock"
        self.process = None
        (self.folder / "containers.conf").write_text(CONF)
        self._environ = os.environ | {"CONTAINERS_CONF": str(self.folder / "containers.conf")}
        # The folder of its state and locks, too: were it the machine's, a reset would look like a reboot to the others.
        places = {"root": "root", "runroot": "run", "tmpdir": "state"}
        self._podman = [podman, *(f"--{name}={self.folder / place}" for name, place in places.items())]

    def __enter__(self):
        self.start()
        self._load({IMAGE: {}, CHECKED: {"Healthcheck": {"Test": ["CMD", "/program", "healthy"], "Retries": 1}}})
        return self

    def __exit__(self, *_):
        self.podman("rm", "--force", "--all", "--time", "0", check=False)
        self.kill()
        self.podman("system", "reset", "--force", check=False)
        self._kill_halves()
        self._unmount()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _unmount(self):
        places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for place in reversed([place for place in places if place.startswith(f"{self.folder}/")]):
            subprocess.run(["umount", "-l", place], capture_output=True, check=False)

    def start(self):
        """Where it runs already, nothing."""
        if self.process and self.process.poll() is None:
            return
        line = [*self._podman, "system", "service", "--time=0", f"unix://{self.socket}"]
        log = open(self.folder / "engine.log", "ab")
        self.process = subprocess.Popen(line, env=self._environ, stdout=log, stderr=log, start_new_session=True)
        log.close()
        if not eventually(self._answers, LIMIT):
            raise RuntimeError("the engine does not answer: " + (self.folder / "engine.log").read_text()[-2000:])

    def kill(self):
        """What runs in containers goes on."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.socket.unlink(missing_ok=True)

    def _kill_halves(self):
        """What an engine that was killed over a start no longer knows: monitors, and the programs below them."""
        all_processes = processes()
        monitors = {pid for pid, (_, _, line) in all_processes.items() if "conmon" in line and str(self.folder) in line}
        below = {pid for pid, (parent, _, _) in all_processes.items() if parent in monitors}
        for pid in below | monitors:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _answers(self):
        try:
            return self.call("GET", "/_ping")[0] == 200
        except OSError:
            return False

    def call(self, method, target, body=None, kind="application/json"):
        connection = _Connection(self.socket, LIMIT)
        try:
            connection.request(method, target, body, {"Content-Type": kind} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def json(self, target):
        status, body = self.call("GET", "/v1.41" + target)
        assert status == 200, (target, status, body)
        return json.loads(body)

    def podman(self, *words, check=True):
        line = [*self._podman, *words]
        try:
            done = subprocess.run(line, env=self._environ, capture_output=True, text=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            if check:
                raise
            return ""
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}")
        return done.stdout.strip()

    def removed(self, name):
        """Tries to remove it; whether it has gone. An engine that is busy may need a second try."""
        self.podman("rm", "--force", "--time", "0", name, check=False)
        return self.call("GET", f"/v1.41/containers/{name}/json")[0] == 404

    def containers(self, **labels):
        """All that there are, running or not; of a service with `service`."""
        wanted = [f"dev.pilotlight.{name}={value}" for name, value in labels.items()]
        filters = urllib.parse.quote(json.dumps({"label": wanted} if wanted else {}))
        return self.json(f"/containers/json?all=true&filters={filters}")

    def inspect(self, name):
        return self.json(f"/containers/{name}/json")

    def load_piped(self):
        sources = [ROOT / "sdk/c/demo.c", ROOT / "sdk/c/pilotlight.c"]
        self._load({PIPED: {}}, sources, ["-I", str(ROOT / "sdk/c")])

    def _load(self, images, sources=(HERE / "contained.c",), options=()):
        built = self.folder / "program"
        line = [program("gcc"), "-static", "-O1", "-pthread", *options, "-o", str(built), *map(str, sources)]
        subprocess.run(line, check=True, timeout=LIMIT)
        archive = io.BytesIO()
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            for folder in ("tmp", "etc"):
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
                tar.addfile(entry)
            tar.add(built, "program")
        with tarfile.open(fileobj=archive, mode="w") as tar:
            manifest, digest = [], "sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()
            for index, (name, settings) in enumerate(images.items()):
                config = {
                    "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
                    "os": "linux",
                    "config": {"Entrypoint": ["/program"], "Labels": {"image": name}} | settings,
                    "rootfs": {"type": "layers", "diff_ids": [digest]},
                }
                _add(tar, f"{index}.json", json.dumps(config).encode())
                manifest.append({"Config": f"{index}.json", "RepoTags": [name], "Layers": ["layer.tar"]})
            _add(tar, "layer.tar", layer.getvalue())
            _add(tar, "manifest.json", json.dumps(manifest).encode())
        status, body = self.call("POST", "/v1.41/images/load", archive.getvalue(), "application/x-tar")
        assert status == 200 and b"error" not in body.lower(), body


class RootlessEngine(Engine):
    """The same, as a user without any rights, who is made for it and removed with it.

    The user needs `/dev/net/tun`, which a machine may keep to root: the engine has one of its own in its place.
    """

    def __init__(self):
        super().__init__()
        self.user = f"pilotlight-{os.getpid()}"
        subprocess.run(["useradd", "--no-create-home", "--home-dir", self.folder, self.user], check=True)
        entry = pwd.getpwnam(self.user)
        self.uid = entry.pw_uid
        self._runtime = Path("/run/user") / str(self.uid)
        self._runtime.mkdir(mode=0o700, parents=True)
        for folder in (self.folder, self._runtime):
            os.chown(folder, self.uid, entry.pw_gid)
        tun = self.folder / "tun"
        os.mknod(tun, 0o666 | stat.S_IFCHR, os.makedev(10, 200))
        tun.chmod(0o666)
        with_tun = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /dev/net/tun && exec "$@"', str(tun)]
        as_user = ["setpriv", f"--reuid={self.uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
        self._podman = [*with_tun, *as_user, *self._podman, "--storage-driver", "vfs"]
        self._environ |= {"HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self._runtime), "USER": self.user}

    def __exit__(self, *_):
        self.podman("rm", "--force", "--all", "--time", "0", check=False)
        self._kill_all()
        super().__exit__()
        self._kill_all()  # a command leaves one that keeps its namespaces
        subprocess.run(["umount", "-R", "-l", self._runtime], capture_output=True, check=False)
        shutil.rmtree(self._runtime, ignore_errors=True)
        subprocess.run(["userdel", self.user], check=True)

    def _kill_all(self):
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.stat(f"/proc/{entry}").st_uid == self.uid:
                    os.kill(int(entry), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                continue


def _add(tar, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
