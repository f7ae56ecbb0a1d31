"""Receivers of logs: the journal's socket and syslog's as this file reads their protocols, and the real servers."""

import array
import fcntl
import itertools
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from ports import free_port
from programs import program

F_GET_SEALS, SEALS = 1034, 0xF  # fcntl(2): SEAL, SHRINK, GROW, WRITE
START_LIMIT = 20.0
NUMBERS = itertools.count()


def entry(data):
    """The fields of one entry: https://systemd.io/JOURNAL_NATIVE_PROTOCOL/. Raises on anything else."""
    fields = {}
    while data:
        end = min(at for at in (data.find(b"="), data.find(b"\n")) if at >= 0)
        name = data[:end].decode()
        if data[end] == ord("="):
            value, _, data = data[end + 1 :].partition(b"\n")
        else:
            (length,) = struct.unpack_from("<Q", data, end + 1)
            value, rest = data[end + 9 : end + 9 + length], data[end + 9 + length :]
            if len(value) != length or not rest.startswith(b"\n"):
                raise ValueError(data)
            data = rest[1:]
        if not name or name in fields or not all(c.isdigit() or c.isupper() or c == "_" for c in name):
            raise ValueError(name)
        fields[name] = value.decode(errors="replace")
    return fields


class Datagrams:
    """A Unix socket whose messages are kept, by a thread; `stop` takes the socket away."""

    def __init__(self, path, is_journal, is_read=True):
        self.path, self.is_journal = Path(path), is_journal
        self.all, self.sealed = [], 0
        self._socket = None
        self.start(is_read)

    def start(self, is_read=True):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        if is_read:
            self.read()

    def read(self):
        threading.Thread(target=self._read, args=(self._socket,), daemon=True).start()

    def stop(self):
        self.path.unlink()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def find(self, **fields):
        return [one for one in list(self.all) if all(one.get(name) == value for name, value in fields.items())]

    def _read(self, own):
        while True:
            try:
                data, control, _, _ = own.recvmsg(1 << 20, socket.CMSG_SPACE(4))
            except OSError:
                return
            if not data and not control:
                return  # shut down
            for _, kind, fds in control:
                assert kind == socket.SCM_RIGHTS and not data
                data = self._sealed(array.array("i", fds)[0])
            self.all.append(entry(data) if self.is_journal else data.decode())

    def _sealed(self, fd):
        with os.fdopen(fd, "rb"):
            assert fcntl.fcntl(fd, F_GET_SEALS) & SEALS == SEALS, "the file of memory is not sealed"
            self.sealed += 1
            return os.pread(fd, os.fstat(fd).st_size, 0)


class Journald:
    """The real one, for a namespace of its own, in the foreground. Root alone may start it."""

    def __init__(self):
        journald, self._journalctl = program("systemd-journald"), program("journalctl")
        self.name = f"pilotlight-test-{os.getpid()}-{next(NUMBERS)}"
        self.socket = Path(f"/run/systemd/journal.{self.name}/socket")
        machine = Path("/etc/machine-id").read_text().strip()
        self._folders = [self.socket.parent]
        self._folders += [Path(f"{root}/log/journal/{machine}.{self.name}") for root in ("/var", "/run")]
        self._process = subprocess.Popen([journald, self.name], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.socket.exists, self._process)

    def entries(self):
        """All that is readable now; an entry in the middle of being written is read the next time."""
        folders = [argument for folder in self._folders[1:] if folder.exists() for argument in ("-D", folder)]
        argv = [self._journalctl, *folders[:2], "-o", "json", "--all", "-q"]
        shown = subprocess.run(argv, capture_output=True, timeout=30)
        # What is not printable is a list of bytes there.
        text = lambda value: bytes(value).decode() if isinstance(value, list) else value  # noqa: E731
        return [{name: text(value) for name, value in json.loads(line).items()} for line in shown.stdout.splitlines()]

    def stop(self):
        self._process.terminate()
        self._process.wait(15)
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)


class Rsyslog:
    """The real one, with a local socket, UDP and TCP, writing what it understood as JSON."""

    CONFIG = """
module(load="imuxsock" SysSock.Use="off")
module(load="imudp")
module(load="imtcp")
template(name="seen" type="list" option.jsonf="on") {{
  property(outname="from" name="inputname" format="jsonf")
  property(outname="pri" name="pri" format="jsonf")
  property(outname="app" name="app-name" format="jsonf")
  property(outname="tag" name="syslogtag" format="jsonf")
  property(outname="proc" name="procid" format="jsonf")
  property(outname="data" name="structured-data" format="jsonf")
  property(outname="text" name="msg" format="jsonf")
}}
input(type="imuxsock" Socket="{folder}/log")
input(type="imudp" address="127.0.0.1" port="{udp}")
input(type="imtcp" address="127.0.0.1" port="{tcp}")
action(type="omfile" file="{folder}/seen" template="seen")
"""

    def __init__(self):
        rsyslogd = program("rsyslogd")
        self._folder = tempfile.TemporaryDirectory(prefix="pilotlight-rsyslog-")
        self.folder = Path(self._folder.name)
        self.udp, self.tcp = free_port(), free_port()
        config = self.folder / "rsyslog.conf"
        config.write_text(self.CONFIG.format(folder=self.folder, udp=self.udp, tcp=self.tcp))
        argv = [rsyslogd, "-n", "-f", config, "-i", self.folder / "pid"]
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        wait_for((self.folder / "log").exists, self._process)

    def seen(self):
        file = self.folder / "seen"
        whole = file.read_text().rpartition("\n")[0] if file.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]

    def stop(self):
        self._process.terminate()
        self._process.wait(15)
        self._folder.cleanup()


def wait_for(is_there, process):
    end = time.monotonic() + START_LIMIT
    while not is_there():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise RuntimeError(f"{process.args[0]} did not start (status {process.poll()})")
        time.sleep(0.02)
