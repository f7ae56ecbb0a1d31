"""Plays the gateway against an SDK's demo service: every transcript of `service/`, each in a fresh process.

    run_service.py --cmd '/usr/bin/python3 sdk/python/demo.py' [--only NAME] [--without NAME] [--jobs N]
"""

import argparse
import os
import secrets
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import frames
import pipe1
import results
import transcript
import wires
from notation import Mismatch, NotationError
from player import Failure, Player

FOLDER = Path(__file__).parent / "service"
EXIT_LIMIT = 8.0
DEFAULT_MAX_OWN = 64
WELCOME = b"PIPE/1\nworker=0\nmax_frame=65536\nservice=demo\ninstance=1\n"
TAIL_LINES = 15


class ServiceDirector:
    """One running demo service, started as the gateway would start it."""

    def __init__(self, argv, folder):
        self.variables = {"TOKEN": secrets.token_hex(16).encode()}
        self._listener = wires.listen(folder / "gateway.sock")
        self._waiting = []  # (wire, HELLO) that dialled in and that no line has asked for yet
        self._held = []
        self._max_own = DEFAULT_MAX_OWN
        self._log = open(folder / "output.log", "wb+")
        environment = dict(os.environ)
        environment.update(
            PILOTLIGHT_SOCKET=str(folder / "gateway.sock"),
            PILOTLIGHT_TOKEN=self.variables["TOKEN"].decode(),
            PILOTLIGHT_SERVICE="demo",
            PILOTLIGHT_INSTANCE="1",
        )
        self._process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True
        )

    def open(self, step, line, deadline):
        """The connection whose HELLO is the one that the line expects."""
        reasons = []
        while True:
            for entry in self._waiting:
                wire, hello = entry
                try:
                    frames.match_frame(line, hello, self.variables)
                except Mismatch as reason:
                    reasons.append(f"{hello}: {reason}")
                    continue
                self._waiting.remove(entry)
                self._max_own = int(dict(frames.view(hello)[1]).get(b"max_own", self._max_own))
                wire.name = step.wire
                return wire
            try:
                self._waiting.append(self._accept(deadline))
            except wires.TimedOut as error:
                raise Mismatch("\n    ".join([str(error)] + reasons)) from None

    def again(self, step, line, wire, deadline):
        """The wire itself when more comes on it, or a new connection with this HELLO, welcomed (P-25: either may be)."""
        while not any(self._fits(line, hello) for _, hello in self._waiting):
            if wire.has_more(self._listener, deadline):
                return wire
            self._waiting.append(self._accept(deadline))
        new = self.open(step, line, deadline)
        new.queue(pipe1.encode(pipe1.Frame(pipe1.TYPES["WELCOME"], 0, 0, WELCOME)))
        new.flush(deadline)
        return new

    def _fits(self, line, hello):
        try:
            frames.match_frame(line, hello, dict(self.variables))
        except Mismatch:
            return False
        return True

    def command(self, step, deadline):
        verb, *rest = step.data
        if step.action != "process":
            raise NotationError(f"{step.text!r} is for the gateway's transcripts")
        if verb == "exits":
            status = self._wait(deadline)
            if rest and status != int(rest[0]):
                raise Mismatch(f"the service ended with status {status}, expected {rest[0]}")
        elif verb == "signal":
            os.kill(self._process.pid, getattr(signal, "SIG" + rest[0]))
        elif verb == "runs":
            if self._process.poll() is not None:
                raise Mismatch(f"the service has ended with status {self._process.returncode}")
        elif verb == "memory-below":
            used, limit = resident_mib(self._process.pid), int(rest[0])
            if used > limit:
                raise Mismatch(f"the service uses {used} MiB, expected less than {limit}")
        elif verb == "accepts-own":
            self._accept_all_own(deadline)
        elif verb == "opens-no-connection":
            if select.select([self._listener], [], [], 0)[0]:
                raise Mismatch("the service dialled a connection that nobody asked for")
        else:
            raise NotationError(f"{step.text!r} is no command")

    def _accept_all_own(self, deadline):
        """Accepts as many own connections as the instance's HELLO allows."""
        for count in range(self._max_own):
            wire, hello = self._accept(deadline)
            if frames.view(hello)[1].count((b"kind", b"own")) != 1:
                raise Mismatch(f"connection {count + 1} says {hello}, expected kind=own")
            wire.queue(pipe1.encode(pipe1.Frame(pipe1.TYPES["WELCOME"], 0, 0, WELCOME)))
            wire.flush(deadline)
            self._held.append(wire)

    def web(self, step, _deadline):
        raise NotationError(f"{step.text!r} is for the gateway's transcripts")

    def finish(self):
        """P-33: when the gateway is gone the service exits by itself."""
        for wire in self._held + [wire for wire, _ in self._waiting]:
            wire.close()
        self._listener.close()
        try:
            self._wait(time.monotonic() + EXIT_LIMIT)
        except wires.TimedOut:
            raise Failure(f"P-33: still running {EXIT_LIMIT:.0f} s after its last connection was closed") from None

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._listener.close()

    def output_tail(self):
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 8192))
        return self._log.read().decode(errors="replace").splitlines()[-TAIL_LINES:]

    def close(self):
        self.kill()
        for wire in self._held + [wire for wire, _ in self._waiting]:
            wire.close()
        self._log.close()

    def _accept(self, deadline):
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise wires.TimedOut("no (further) connection with this HELLO came in time")
            if self._process.poll() is not None:
                raise wires.TimedOut(f"the service ended with status {self._process.returncode}")
            if select.select([self._listener], [], [], min(left, 0.2))[0]:
                break
        sock, _ = self._listener.accept()
        wire = wires.Wire("new connection", sock, lambda frame: frames.check_frame(frame, from_service=True))
        try:
            return wire, wire.next_frame(deadline)  # P-1: the first frame is HELLO, or no line matches it
        except BaseException:
            wire.close()
            raise

    def _wait(self, deadline):
        try:
            return self._process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise wires.TimedOut("the service did not exit in time") from None


def resident_mib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise NotationError("this system does not tell the memory of a process")


def play(script, argv):
    """None, or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="pipe1-") as folder:
        director = ServiceDirector(argv, Path(folder))
        player = Player(script, "gateway", director, director.variables)
        try:
            player.run()
            player.close()
            director.finish()
        except Failure as failure:
            director.kill()
            return "\n    | ".join([str(failure)] + director.output_tail())
        finally:
            player.close()
            director.close()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cmd", required=True, help="the demo service's command line")
    parser.add_argument("--only", help="transcripts whose name contains this")
    results.add_without(parser)
    results.add_jobs(parser)
    options = parser.parse_args()
    scripts = [one for one in transcript.load_folder(FOLDER, options.only) if one.name not in options.without]
    if not scripts:
        parser.error(f"no transcript in {FOLDER} is called *{options.only}*")
    failed = results.print_all(scripts, partial(play, argv=shlex.split(options.cmd)), options.jobs)
    print(f"{len(scripts) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
