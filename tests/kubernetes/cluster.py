#!/usr/bin/env python3
"""A Kubernetes cluster for tests: real etcd, API server, controller manager and scheduler, and a double of a kubelet.

    cluster.py run [--folder FOLDER] [--kwok] [--image NAME=PROGRAM]… [--] COMMAND…   the command inside, with a cluster
    cluster.py inside [--] COMMAND…                                                   the command inside, without one

`inside` is a set of namespaces (network, processes, mounts; users as well unless it is root who asks): its addresses
and ports are nobody else's, and all that runs there ends with the command. A command that `run` starts has
`KUBECONFIG`, that of an administrator, and `kubectl` in its PATH. The programs are those that build.sh builds.
"""

import argparse
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import yaml
from api import Api, ApiError, eventually, write_kubeconfig
from pod import images, make_folder
from sandbox import BRIDGE, BRIDGE_ADDRESS, BRIDGE_HARDWARE, PREFIX

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INSIDE = "PILOTLIGHT_KUBERNETES_INSIDE"
ADDRESS = "10.90.0.1"  # of the API server: one that pods reach as well
API_PORT, ETCD_PORT, ETCD_PEER_PORT, KWOK_PORT = 6443, 2379, 2380, 10247
SERVICES = "10.92.0.0/16"  # virtual addresses that nothing here answers: there is no kube-proxy
START = 120.0  # seconds, for each program
PDEATHSIG = 1  # prctl(2)
FAST = ["--kube-api-qps=300", "--kube-api-burst=600"]
IMAGES = {
    "pilotlight-kubernetes": [os.environ.get("PILOTLIGHT", str(ROOT / "target" / "debug" / "pilotlight"))],
    "pilotlight": [os.environ.get("PILOTLIGHT", str(ROOT / "target" / "debug" / "pilotlight"))],
    # The conformance suite has pods of DNS, which its HTTP profile does not ask.
    "coredns": ["sh", "-c", "exec sleep infinity", "idle"],
}


def use(binary):
    """This program of `pilotlight` is what its images stand for."""
    if not binary.with_name("pilotlight-kubernetes").exists():
        raise ClusterError(f"{binary} has no pilotlight-kubernetes beside it")
    for name in ("pilotlight-kubernetes", "pilotlight"):
        IMAGES[name] = [str(binary)]


class ClusterError(Exception):
    """A program of the cluster that is missing, or that did not start."""


def programs():
    """The folder of programs that build.sh has built, which it names by its inputs."""
    inputs = b"".join((HERE / name).read_bytes() for name in ("go.mod", "go.sum", "build.sh"))
    digest = subprocess.run(["sha256sum"], input=inputs, capture_output=True, check=True).stdout.decode()[:8]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pilotlight"
    found = next(cache.glob(f"kubernetes-*-{digest}"), None)
    if not found:
        raise ClusterError("the programs of Kubernetes are not built: tests/kubernetes/build.sh")
    return found


def enter(arguments):
    """Becomes `cluster.py ARGUMENTS` inside of namespaces of its own, which end with who started this."""
    ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    isolated = ["--net", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
    script = [sys.executable, "-B", str(Path(__file__).resolve()), *arguments]
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", *users, *isolated, *script])


def make_network():
    lines = f"""link set lo up
link add {BRIDGE} address {BRIDGE_HARDWARE} type bridge
addr add {BRIDGE_ADDRESS}/{PREFIX} dev {BRIDGE}
addr add {ADDRESS}/32 dev {BRIDGE}
link set {BRIDGE} up
"""
    subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True)


class Cluster:
    """`with Cluster(folder) as cluster: cluster.api.apply(…)`, inside."""

    def __init__(self, folder, more_images=None, with_kwok=False):
        if not os.environ.get(INSIDE):
            raise ClusterError("this runs inside of tests/kubernetes/cluster.py")
        self.folder = make_folder(folder)
        self.programs = programs()
        self.images = IMAGES | {"echo-basic": [str(self.programs / "echo-basic")]} | (more_images or {})
        self.with_kwok = with_kwok
        self.server = f"https://{ADDRESS}:{API_PORT}"
        self.running = {}
        self.certificates = Certificates(make_folder(self.folder / "certificates"))
        self.api = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        begin = time.monotonic()
        self.certificates.make(ADDRESS)
        self._start_etcd()
        self.kubeconfig = self.user("admin", "system:masters")
        self.start_api()
        self._create_crds()
        self._start_controllers()
        self._start_kubelet()
        if self.with_kwok:
            self._start_kwok()
        print(f"cluster: up in {time.monotonic() - begin:.1f} s, in {self.folder}", file=sys.stderr, flush=True)

    def stop(self):
        """Pods end with the namespaces."""
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()
        self.running.clear()

    def user(self, name, *groups):
        """The kubeconfig of a user with a certificate."""
        certificate, key = self.certificates.of(name, *groups)
        return self._kubeconfig(name, client_certificate=certificate, client_key=key)

    def account(self, namespace, name):
        """The kubeconfig of a service account."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return self._kubeconfig(f"{namespace}-{name}", token=self.api.request("POST", path, asked)["status"]["token"])

    def start_api(self):
        made = self.certificates
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
            f"--bind-address={ADDRESS}",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={API_PORT}",
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={SERVICES}",
            f"--client-ca-file={made.authority}",
            f"--tls-cert-file={made.server[0]}",
            f"--tls-private-key-file={made.server[1]}",
            f"--service-account-issuer={self.server}",
            f"--service-account-key-file={made.accounts}",
            f"--service-account-signing-key-file={made.accounts}",
            "--authorization-mode=RBAC",
            "--profiling=false",
        )
        self.api = Api(self.kubeconfig)
        self._wait("kube-apiserver", self._api_is_ready)

    def kill_api(self):
        """Nobody answers any more; `start_api` brings it back."""
        process = self.running.pop("kube-apiserver")
        process.kill()
        process.wait()

    def log(self, name):
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _create_crds(self):
        things = [
            thing
            for path in sorted((self.programs / "gateway-api").glob("*.yaml"))
            for thing in yaml.load_all(path.read_text(), yaml.CSafeLoader)
            if thing
        ]
        for thing in things:
            self.api.create(thing)
        kinds = [thing for thing in things if thing["kind"] == "CustomResourceDefinition"]
        for kind in kinds:
            if not eventually(lambda path=self.api.path(kind): _is_established(self.api.get(path)), START):
                raise ClusterError(f"the API server does not serve {kind['metadata']['name']}")

    def _api_is_ready(self):
        try:
            self.api.get("/readyz")
            # What namespaces and accounts need is made a moment later.
            return self.api.find("/api/v1/namespaces/kube-system")
        except (OSError, ApiError):
            return False

    def _start_etcd(self):
        client, peer = f"http://127.0.0.1:{ETCD_PORT}", f"http://127.0.0.1:{ETCD_PEER_PORT}"
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self._wait("etcd", lambda: _answers(f"{client}/health"))

    def _start_controllers(self):
        made = self.certificates
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.user('system:kube-controller-manager')}",
            f"--service-account-private-key-file={made.accounts}",
            f"--root-ca-file={made.authority}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--secure-port=0",
            # An API server that is away for long must not make the double's node one that was lost.
            "--node-monitor-grace-period=1h",
            *FAST,
        )
        self._run(
            "kube-scheduler",
            f"--kubeconfig={self.user('system:kube-scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
            *FAST,
        )

    def _start_kubelet(self):
        known = [f"--image={name}={shlex.join(argv)}" for name, argv in self.images.items()]
        script = [sys.executable, "-B", str(HERE / "kubelet.py")]
        # As an administrator: a node's rights end at its own pods, and the double asks for tokens of any.
        self._spawn("kubelet", [*script, "--kubeconfig", self.kubeconfig, "--folder", self.folder, *known])
        self._wait("kubelet", self._node_is_ready)

    def _node_is_ready(self):
        node = self.api.find("/api/v1/nodes/double")
        conditions = node["status"].get("conditions", []) if node else []
        is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        return is_ready and not node["spec"].get("taints")

    def _start_kwok(self):
        self._run(
            "kwok",
            f"--kubeconfig={self.kubeconfig}",
            f"--config={self.programs / 'kwok.yaml'}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--manage-all-nodes=false",
            "--cidr=10.93.0.0/16",
            f"--node-ip={ADDRESS}",
            f"--server-address=127.0.0.1:{KWOK_PORT}",
        )
        self._wait("kwok", lambda: _answers(f"http://127.0.0.1:{KWOK_PORT}/healthz"))

    def _kubeconfig(self, name, **user):
        path = self.folder / f"{name.replace(':', '-')}.kubeconfig"
        return write_kubeconfig(path, self.server, self.certificates.authority, **user)

    def _run(self, name, *arguments):
        program = self.programs / name
        if not program.exists():
            raise ClusterError(f"{name} is not built: tests/kubernetes/build.sh {name}")
        self._spawn(name, [program, *arguments])

    def _spawn(self, name, argv):
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [str(word) for word in argv],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, name, check):
        process = self.running[name]
        eventually(lambda: process.poll() is not None or check(), START)
        if process.poll() is not None or not check():
            raise ClusterError(f"{name} did not start; it said:\n{self.log(name)[-4000:]}")


class Certificates:
    """An authority and what it signs, made by openssl."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = folder / "authority.crt"
        self.accounts = folder / "accounts.key"
        self.server = None

    def make(self, address):
        self._openssl("req", "-x509", *self._new("authority"), "-subj", "/CN=test", "-out", self.authority)
        self._openssl("genpkey", "-algorithm", "RSA", "-out", self.accounts)
        self.server = self.signed("server", "/CN=kube-apiserver", f"IP:{address},DNS:kubernetes.default.svc")

    def of(self, name, *groups):
        """A user's certificate and key, once."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={name}"
        return self.signed(name.replace(":", "-"), subject)

    def signed(self, name, subject, names=""):
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        if not certificate.exists():
            signer = ["-CA", self.authority, "-CAkey", self.folder / "authority.key"]
            names = ["-addext", f"subjectAltName={names}"] if names else []
            plain = ["-addext", "basicConstraints=critical,CA:FALSE"]
            wanted = [*signer, "-subj", subject, *names, *plain, "-out", certificate]
            self._openssl("req", "-x509", *self._new(name), *wanted)
        return certificate, key

    def _new(self, name):
        key = self.folder / f"{name}.key"
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-days", "30"]

    def _openssl(self, *words):
        done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise ClusterError(f"openssl {words[0]}: {done.stderr}")


def _answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def _is_established(kind):
    conditions = kind.get("status", {}).get("conditions", [])
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def run(options):
    with tempfile.TemporaryDirectory(prefix="pilotlight-kubernetes-") as temporary:
        with Cluster(options.folder or temporary, images(options.image), options.kwok) as cluster:
            paths = f"{cluster.programs}:{os.environ['PATH']}"
            environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig), "PATH": paths}
            return subprocess.run(options.command, env=environment).returncode


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="what")
    for name in ("run", "inside"):
        command = commands.add_parser(name)
        if name == "run":
            command.add_argument("--folder", help="where logs and kubeconfigs are left; by default nowhere")
            command.add_argument("--kwok", action="store_true", help="with the controller of KWOK")
            command.add_argument("--image", action="append", default=[], metavar="NAME=PROGRAM")
        command.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not options.command:
        parser.error("a command is missing")
    return options


def main():
    options = parse()
    if not os.environ.get(INSIDE):
        enter(sys.argv[1:])
    make_network()
    # The first process of a namespace is asked to end by who started it, or not at all.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return subprocess.run(options.command).returncode if options.what == "inside" else run(options)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
