"""A running demo service, started as the gateway would start it, and the connections that it dials."""

import os
import secrets
import select
import subprocess
import time
from pathlib import Path

import frames
import notation
import pipe1
import wires

EXIT_LIMIT = 8.0
WELCOME = b"PIPE/1\nworker=%s\nmax_frame=65536\nservice=demo\ninstance=1\n"
TAIL_LINES = 15


class Instance:
    """The process of a demo service, the listener that it dials, and its log."""

    def __init__(self, argv, folder):
        self.token = secrets.token_hex(16).encode()
        self.listener = wires.listen(folder / "gateway.sock")
        self._log = open(folder / "output.log", "wb+")
        environment = dict(os.environ)
        environment.update(
            PILOTLIGHT_SOCKET=str(folder / "gateway.sock"),
            PILOTLIGHT_TOKEN=self.token.decode(),
            PILOTLIGHT_SERVICE="demo",
            PILOTLIGHT_INSTANCE="1",
        )
        self._process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True
        )

    def accept(self, deadline):
        """Accepts the next connection; returns its wire and its HELLO."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise wires.TimedOut("no (further) connection with this HELLO came in time")
            if self._process.poll() is not None:
                raise wires.TimedOut(f"the service ended with status {self._process.returncode}")
            if select.select([self.listener], [], [], min(left, 0.2))[0]:
                break
        sock, _ = self.listener.accept()
        wire = wires.Wire("new connection", sock, lambda frame: frames.check_frame(frame, from_service=True))
        try:
            return wire, wire.next_frame(deadline)  # P-1: the first frame is HELLO, or no line matches it
        except BaseException:
            wire.close()
            raise

    def has_dialled(self):
        """Whether a connection waits to be accepted."""
        return bool(select.select([self.listener], [], [], 0)[0])

    @property
    def pid(self):
        return self._process.pid

    def status(self):
        """The exit status, `None` while the process runs."""
        return self._process.poll()

    def wait(self, deadline):
        """Waits for the process to exit; returns its status."""
        try:
            return self._process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise wires.TimedOut("the service did not exit in time") from None

    def signal(self, number):
        os.kill(self.pid, number)

    def resident_mib(self):
        """The resident memory of the process, in MiB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) // 1024
        raise notation.NotationError("this system does not tell the memory of a process")

    def leave(self):
        """Expects the process to exit by itself after its last connection was closed (P-33)."""
        self.listener.close()
        try:
            self.wait(time.monotonic() + EXIT_LIMIT)
        except wires.TimedOut:
            raise notation.Mismatch(
                f"P-33: still running {EXIT_LIMIT:.0f} s after its last connection was closed"
            ) from None

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def close(self):
        self.kill()
        self.listener.close()
        self._log.close()

    def output_tail(self):
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 8192))
        return self._log.read().decode(errors="replace").splitlines()[-TAIL_LINES:]


def welcome(wire, worker, deadline):
    """Answers the HELLO of a connection that no line of a transcript answers."""
    wire.queue(pipe1.encode(pipe1.Frame(pipe1.TYPES["WELCOME"], 0, 0, WELCOME % worker)))
    wire.flush(deadline)


class Keeper:
    """The first connection of an instance that several transcripts share.

    The instance lives while this connection is open (P-33). Each transcript begins on a further shared connection,
    which the keeper asks for (P-23).
    """

    WORKER = b"99"  # no transcript uses this worker
    FIRST = notation.parse('HELLO :version="PIPE/1" token=$TOKEN worker!')
    FURTHER = notation.parse('HELLO :version="PIPE/1" token=$TOKEN worker=$WORKER')

    def __init__(self, instance, deadline):
        self._instance = instance
        self._wire, hello = instance.accept(deadline)
        self._wire.name = "the first connection"
        try:
            frames.match_frame(self.FIRST, hello, {"TOKEN": instance.token})  # P-2
            welcome(self._wire, self.WORKER, deadline)
        except BaseException:
            self._wire.close()
            raise

    def further(self, worker, deadline):
        """Asks for a shared connection of this worker; returns its wire, and its HELLO as if it were the first one."""
        self._send("MORE", pipe1.encode_more(pipe1.KINDS["shared"], 1, worker), deadline)
        wire, hello = self._instance.accept(deadline)
        try:
            frames.match_frame(self.FURTHER, hello, {"TOKEN": self._instance.token, "WORKER": b"%d" % worker})  # P-13
            version, values = pipe1.decode_text(hello.payload)
            if values.get("kind", b"shared") != b"shared":
                raise notation.Mismatch(f"MORE asked for a shared connection, got {hello}")
        except BaseException:
            wire.close()
            raise
        lines = [version] + [key.encode() + b"=" + value for key, value in values.items() if key != "worker"]
        return wire, hello._replace(payload=pipe1.encode_text(lines))

    def check(self, deadline):
        """Expects the instance to answer PING (P-35) and to have sent nothing else that needs an answer."""
        self._send("PING", b"are you?", deadline)
        frames.match_frame(notation.parse('PONG :data="are you?"'), self._wire.next_frame(deadline), {})
        self._wire.kept.clear()

    def close(self):
        self._wire.close()

    def _send(self, name, payload, deadline):
        self._wire.queue(pipe1.encode(pipe1.Frame(pipe1.TYPES[name], 0, 0, payload)))
        self._wire.flush(deadline)
