"""Hostile neighbours: another user of the machine, who squats and connects and looks; and a service in a strict sandbox that tries to get out."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import BINARY, HERE, ROOT, Gateway, config, descendants, route, service
from test_operate import ADMIN
from test_security import ASK

from . import numbered
from .stranger import NOBODY
from .wire import Connection

OWNER = 65533  # whose gateway is attacked by NOBODY
SECRET = "the secret of a neighbour"

# Code for intruder.py: it raises OSError if it is refused; what it sets as `result` is an escape if it is true.
# GATEWAY, GUARDIAN and OTHER are process ids, SECRET_FILE, CONFIG, ADMIN, PORT, TCP, ABSTRACT and OUTSIDE what their names say.
READS = (
    "/etc/shadow", "/etc/ssh/sshd_config", "{SECRET_FILE}", "{CONFIG}", "/proc/self/root{SECRET_FILE}", "/proc/{GATEWAY}/root{SECRET_FILE}", "/proc/{GATEWAY}/environ",
    "/proc/{GATEWAY}/maps", "/proc/{GATEWAY}/mem", "/proc/{GUARDIAN}/environ", "/proc/{OTHER}/environ", "/proc/{OTHER}/maps", "/proc/{OTHER}/cwd/secret", "/proc/1/environ",
    "/proc/{OTHER}/root/etc/shadow", "/root/.bashrc", "/root/.profile", "/dev/mem", "/dev/sda", "/dev/vda", "/proc/kcore", "/var/log/dpkg.log", "/sys/kernel/debug/x",
)  # fmt: skip
WRITES = (
    "/tmp/escaped", "/var/tmp/escaped", "/dev/shm/escaped", "{OUTSIDE}/escaped", "{SECRET_FILE}", "{CONFIG}", "/etc/escaped", "/run/escaped", "/proc/{OTHER}/cwd/escaped",
    "/proc/{GATEWAY}/oom_score_adj", "/proc/{OTHER}/oom_score_adj", "/proc/sys/kernel/core_pattern", "/sys/fs/cgroup/cgroup.procs", "/usr/local/escaped",
)  # fmt: skip
LINKS = ("{SECRET_FILE}", "/etc/shadow", "{CONFIG}")
SOCKETS = ("AF_INET, socket.SOCK_STREAM", "AF_INET, socket.SOCK_DGRAM", "AF_INET6, socket.SOCK_STREAM", "AF_NETLINK, socket.SOCK_RAW", "AF_PACKET, socket.SOCK_RAW", "AF_VSOCK, socket.SOCK_STREAM")
ORDERS = ("POST /reload", "POST /services/other/stop", "POST /services/other/restart", "POST /upgrade", "POST /purge", "GET /config", "GET /status", "GET /services/other", "GET /services/other/logs")
# Calls by number (x86-64 and aarch64), with arguments that do no harm if they succeed.
CALLS = {
    "ptrace": (101, 117, "16, GATEWAY, 0, 0"), "process_vm_readv": (310, 270, "GATEWAY, 0, 0, 0, 0, 0"), "pidfd_getfd": (438, 438, "3, 0, 0"),
    "unshare": (272, 97, "0x10000000"), "unshare of mounts": (272, 97, "0x20000"), "unshare of pids": (272, 97, "0x20000000"), "setns": (308, 268, "0, 0"),
    "mount": (165, 40, "b'none', b'nowhere', b'tmpfs', 0, 0"), "umount2": (166, 39, "b'/proc/none', 0"), "chroot": (161, 51, "b'nowhere'"), "pivot_root": (155, 41, "b'.', b'.'"),
    "bpf": (321, 280, "0, 0, 0"), "io_uring_setup": (425, 425, "1, 0"), "keyctl": (250, 219, "0, -3, 1"), "add_key": (248, 217, "b'user', b'a', b'b', 1, -3"),
    "perf_event_open": (298, 241, "0, 0, -1, -1, 0"), "open_by_handle_at": (304, 265, "0, 0, 0"), "userfaultfd": (323, 282, "0"), "mknod": (133, None, "b'device', 0o20666, 0x103"),
    "clone3": (435, 435, "0, 0"), "fsopen": (430, 430, "b'tmpfs', 0"), "open_tree": (428, 428, "-100, b'.', 1"), "setuid to root": (105, 146, "0"),
    "chmod u+s": (90, None, "b'own', 0o4755"),
}  # fmt: skip
CALL = """
import ctypes, errno, os
open("own", "w").close()
libc = ctypes.CDLL(None, use_errno=True)
done = libc.syscall({number}, *({arguments},))
if done < 0:
    # What the filter refuses is EPERM or ENOSYS; anything else says that the call was looked at.
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
result = "{name} gave " + str(done)
"""
# They say these when the kernel looked at their arguments: no filter was in the way.
MUST_BE_REFUSED = ("ptrace", "unshare", "unshare of mounts", "unshare of pids", "mount", "chroot", "bpf", "io_uring_setup", "keyctl", "add_key", "setns", "fsopen", "open_tree", "clone3")


def run(seed, seconds, report):
    neighbours = Neighbours(random.Random(seed), seconds, report)
    deadline = time.monotonic() + seconds
    turn = 0
    while turn == 0 or time.monotonic() < deadline:
        turn += 1
        for part in (neighbours.strict, neighbours.strangers):
            part(turn)
        report.progress(f"{turn} turns, {report.counts['cases']} attempts")


class Neighbours:
    def __init__(self, chance, seconds, report):
        self.chance, self.seconds, self.report = chance, seconds, report

    def strict(self, turn):
        """A strict service, with the uid of the gateway."""
        folder = Path(tempfile.mkdtemp(prefix="adversary-"))
        listener = socket.create_server(("127.0.0.1", 0))
        hidden = socket.socket(socket.AF_UNIX)
        hidden.bind(b"\0adversary-%d-%d" % (os.getpid(), turn))
        hidden.listen()
        try:
            folder.chmod(0o755)
            for name in ("jail", "other", "outside"):
                (folder / name).mkdir()
            shutil.copy(HERE / "intruder.py", folder / "jail")
            shutil.copytree(ROOT / "sdk" / "python" / "pilotlight", folder / "jail" / "pilotlight")
            (folder / "other" / "secret").write_text(SECRET)
            jail = service("jail", [sys.executable, "-B", "intruder.py"], dir=str(folder / "jail"), sandbox="strict")
            other = service("other", numbered.COMMAND, dir=str(folder / "other"), env={"SECRET": SECRET})
            blocks = jail, other, route("/jail", "jail"), route("/other", "other", strip_prefix=True), ADMIN
            with Gateway(BINARY, config(*blocks), start_limit=60, stop_limit=60) as gateway:
                self.attack(gateway, folder, {"PORT": listener.getsockname()[1], "ABSTRACT": hidden.getsockname()}, turn)
        finally:
            listener.close()
            hidden.close()
            shutil.rmtree(folder, ignore_errors=True)

    def attack(self, gateway, folder, known, turn):
        self.healthy(gateway, "other", turn)
        self.inside(gateway, "result = 1")  # it is started
        below = descendants(gateway.process.pid)
        find = lambda text: next((key[0] for key, line in below.items() if text in line), 1)  # noqa: E731
        known |= {
            "GATEWAY": gateway.process.pid, "GUARDIAN": find(" guardian"), "OTHER": find("numbered.py"), "SECRET_FILE": str(folder / "other" / "secret"),
            "CONFIG": str(gateway.folder / "pilotlight.toml"), "ADMIN": str(gateway.folder / "admin.sock"), "TCP": gateway.address[1], "OUTSIDE": str(folder / "outside"),
        }  # fmt: skip
        attempts = list(self.attempts(known))
        self.chance.shuffle(attempts)
        for what, code in attempts:
            self.report.count("cases")
            told = self.inside(gateway, "".join(f"{name} = {value!r}\n" for name, value in known.items()) + code)
            if told is None:
                self.report.wrong("unexplained", what, f"the strict service does not answer after: {what}")
            elif told.get("result"):
                self.report.wrong("escapes", what, f"a strict service: {what}: {str(told['result'])[:300]}")
            elif what in MUST_BE_REFUSED and told.get("errno") not in (1, 38, 13):
                self.report.wrong("escapes", what, f"a strict service: {what} reaches the kernel: {told}")
        if os.listdir(folder / "outside") or (folder / "other" / "secret").read_text() != SECRET:
            self.report.wrong("escapes", "files", f"a strict service has changed {folder}")
        self.healthy(gateway, "other", turn)

    def attempts(self, known):
        """(name, code): in no order."""
        for path in READS:
            path = path.format(**known)
            yield f"reads {path}", f"result = open({path!r}, 'rb').read(64) or None\n"
        for path in WRITES:
            path = path.format(**known)
            yield f"writes {path}", f"import os\nnew = not os.path.exists({path!r})\nopen({path!r}, 'ab').close()\nif new: os.unlink({path!r})\nresult = 'opened for writing'\n"
        for path in LINKS:
            path = path.format(**known)
            yield f"a link to {path}", f"import os\nif os.path.lexists('l'): os.unlink('l')\nos.symlink({path!r}, 'l')\nresult = open('l').read(64)\n"
            yield f"a hard link to {path}", f"import os\nif os.path.lexists('h'): os.unlink('h')\nos.link({path!r}, 'h')\nresult = open('h').read(64)\n"
            yield f"a child reads {path}", f"import subprocess\nresult = subprocess.run(['/bin/cat', {path!r}], capture_output=True, text=True).stdout\n"
        for kind in SOCKETS:
            yield f"a socket of {kind}", f"import socket\nresult = str(socket.socket(socket.{kind}))\n"
        yield "connects over TCP", "import socket\nresult = str(socket.create_connection(('127.0.0.1', PORT), 3))\n"
        yield "its own requests to the gateway", "import socket\nresult = str(socket.create_connection(('127.0.0.1', TCP), 3))\n"
        yield "an abstract socket", "import socket\nsock = socket.socket(socket.AF_UNIX)\nsock.connect(ABSTRACT)\nresult = 'connected'\n"
        for order in ORDERS:
            method, target = order.split(" ")
            code = f"answer = ask(ADMIN, {method!r}, {target!r})\nresult = answer if answer.startswith('HTTP/1.1 2') else None\n"
            yield f"the order {order}", ASK + code
        for name in ("GATEWAY", "GUARDIAN", "OTHER"):
            yield f"a signal to {name}", f"import os\nos.kill({name}, 0)\nresult = 'sent'\n"
            yield f"descriptors of {name}", f"import os\nresult = [os.readlink(f'/proc/{{{name}}}/fd/{{one}}') for one in os.listdir(f'/proc/{{{name}}}/fd')]\n"
        column = {"x86_64": 0, "aarch64": 1}.get(os.uname().machine)
        for name, call in CALLS.items():
            if column is not None and call[column] is not None and (name != "setuid to root" or os.geteuid() != 0):
                yield name, CALL.format(number=call[column], arguments=call[2], name=name)

    def inside(self, gateway, code):
        """What code does in the service: {"result": …} or {"error": …}; None if there is no answer."""
        self.report.count("requests")
        answer = gateway.request("POST", "/jail", body=code.encode(), timeout=60)
        return json.loads(answer.body) if answer.status == 200 else None

    def strangers(self, turn):
        """Another user beside a gateway of root, and beside one of an ordinary user whose folder for temporary files is everybody's."""
        if os.geteuid() != 0:
            self.report.note("not root: what another user could do was not tried")
            return
        for owner in (0, OWNER):
            self.stranger(owner, turn)

    def stranger(self, owner, turn):
        folder = Path(tempfile.mkdtemp(prefix="adversary-"))
        folder.chmod(0o755)
        temporary, victim = folder / "tmp", folder / "victim"
        temporary.mkdir()
        temporary.chmod(0o1777)
        victim.mkdir(mode=0o755)
        os.chown(victim, owner, owner)
        shutil.copy(BINARY, folder / "pilotlight")
        (folder / "pilotlight").chmod(0o755)
        shutil.copy(Path(numbered.__file__), folder / "numbered.py")
        start = folder / "start"
        start.write_text(START.format(folder=folder, owner=owner, nobody=NOBODY))
        start.chmod(0o755)
        web = service("other", ["/usr/bin/env", "python3", str(folder / "numbered.py")], transport="http")
        gateway = Gateway(start, config(web, route("/other", "other", strip_prefix=True)), start_limit=60, stop_limit=60)
        os.chown(gateway.folder, owner, owner)
        try:
            with gateway:
                self.beside(gateway, temporary, victim, turn, owner)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def beside(self, gateway, temporary, victim, turn, owner):
        self.healthy(gateway, "other", turn)
        pids = [gateway.process.pid, *(key[0] for key in descendants(gateway.process.pid))]
        sockets = listening(pids)
        if not any(path.endswith("admin.sock") for path in sockets):
            self.report.wrong("unexplained", f"stranger {owner}", f"the gateway's sockets are not found: {sockets}")
        target = {"temporary": str(temporary), "pids": pids, "sockets": sockets, "seed": turn}
        command = [sys.executable, "-B", str(Path(__file__).with_name("stranger.py"))]
        stranger = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            stranger.stdin.write(json.dumps(target) + "\n")
            stranger.stdin.flush()
            if "begun" not in stranger.stdout.readline():
                self.report.wrong("unexplained", f"stranger {owner}", "the stranger could not begin")
            deadline = time.monotonic() + min(10.0, max(1.0, self.seconds / 8))
            while time.monotonic() < deadline:
                self.healthy(gateway, "other", turn)
                self.report.count("cases")
        finally:
            said, _ = stranger.communicate("end\n", timeout=120)
        lines = [json.loads(line) for line in said.splitlines()]
        if not any(line.get("turns") for line in lines):
            self.report.wrong("unexplained", f"stranger {owner}", f"the stranger did nothing: {said[-300:]}")
        for line in lines:
            if "what" in line:
                self.report.wrong("escapes", f"stranger {owner}", f"another user, beside a gateway of user {owner}: {line}")
        if os.listdir(victim) or victim.stat().st_mode & 0o777 != 0o755:
            self.report.wrong("escapes", f"stranger {owner}", f"a link of another user was followed: {os.listdir(victim)}, {oct(victim.stat().st_mode)}")

    def healthy(self, gateway, name, turn):
        """The gateway answers rightly, whatever is tried beside it."""
        self.report.count("requests")

        async def once():
            async with await Connection.to(gateway.address) as connection:
                await connection.send(f"GET /{name}/n/{turn}/2000 HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
                return await connection.answer(limit=60)

        answer = asyncio.run(once())
        fault = numbered.check(turn, 2000, answer.body) if answer and answer.status == 200 else str(answer)
        if fault:
            self.report.wrong("wrong", f"turn {turn}", fault)


def listening(pids):
    """The Unix sockets on which these processes listen."""
    inodes = set()
    for pid in pids:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                inodes.add(os.readlink(entry.path).removeprefix("socket:[").removesuffix("]"))
    with open("/proc/net/unix") as lines:
        rows = [line.split() for line in lines]
    return [row[7] for row in rows if len(row) > 7 and row[3] == "00010000" and row[6] in inodes]


# What a squatter has done before the gateway begins: the shell's process id is the gateway's.
START = """#!/bin/sh
export TMPDIR={folder}/tmp
unset XDG_RUNTIME_DIR RUNTIME_DIRECTORY
for name in pilotlight-$$ pilotlight pilotlight-0 pilotlight-{owner}; do
    setpriv --reuid {nobody} --regid {nobody} --clear-groups ln -s {folder}/victim {folder}/tmp/$name
done
exec setpriv --reuid {owner} --regid {owner} --clear-groups {folder}/pilotlight "$@"
"""
