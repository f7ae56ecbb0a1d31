"""Plays the gateway against an SDK's demo service: every transcript of `service/`.

Transcripts that end the service, or that measure it, have a process each. The others share one: its first connection
stays open, and each transcript begins on a further shared connection.

    run_service.py --cmd '/usr/bin/python3 sdk/python/demo.py' [--only NAME] [--without NAME] [--jobs N] [--fresh]
"""

import argparse
import shlex
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import frames
import pipe1
import results
import transcript
import wires
from instance import Instance, Keeper, welcome
from notation import Mismatch, NotationError
from player import DEFAULT_LIMIT, Failure, Player

FOLDER = Path(__file__).parent / "service"
DEFAULT_MAX_OWN = 64
# Commands of transcripts that end the process, or that depend on everything it has done.
OF_A_WHOLE_PROCESS = {"exits", "signal", "memory-below", "accepts-own", "opens-no-connection"}
PLAY_ERRORS = (Failure, Mismatch, NotationError, wires.TimedOut, wires.Closed, pipe1.ProtocolError, OSError)
FIRST_WORKER = 100  # transcripts that name workers use numbers below


class ServiceDirector:
    """The gateway's side of one transcript: the connections that the instance dials for it."""

    def __init__(self, instance, worker=0, *waiting):
        self.variables = {"TOKEN": instance.token, "WORKER": b"%d" % worker}
        self._instance = instance
        self._waiting = list(waiting)  # (wire, HELLO) that dialled in and that no line has asked for yet
        self._held = []
        self._max_own = DEFAULT_MAX_OWN

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
                self._waiting.append(self._instance.accept(deadline))
            except wires.TimedOut as error:
                raise Mismatch("\n    ".join([str(error)] + reasons)) from None

    def again(self, step, line, wire, deadline):
        """The wire itself when more comes on it, or a new connection with this HELLO, welcomed (P-25: either may be)."""
        while not any(self._fits(line, hello) for _, hello in self._waiting):
            if wire.has_more(self._instance.listener, deadline):
                return wire
            self._waiting.append(self._instance.accept(deadline))
        new = self.open(step, line, deadline)
        welcome(new, self.variables["WORKER"], deadline)
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
            status = self._instance.wait(deadline)
            if rest and status != int(rest[0]):
                raise Mismatch(f"the service ended with status {status}, expected {rest[0]}")
        elif verb == "signal":
            self._instance.signal(getattr(signal, "SIG" + rest[0]))
        elif verb == "runs":
            if self._instance.status() is not None:
                raise Mismatch(f"the service has ended with status {self._instance.status()}")
        elif verb == "memory-below":
            used, limit = self._instance.resident_mib(), int(rest[0])
            if used > limit:
                raise Mismatch(f"the service uses {used} MiB, expected less than {limit}")
        elif verb == "accepts-own":
            self._accept_all_own(deadline)
        elif verb == "opens-no-connection":
            if self._instance.has_dialled():
                raise Mismatch("the service dialled a connection that nobody asked for")
        else:
            raise NotationError(f"{step.text!r} is no command")

    def _accept_all_own(self, deadline):
        """Accepts as many own connections as the instance's HELLO allows."""
        for count in range(self._max_own):
            wire, hello = self._instance.accept(deadline)
            self._held.append(wire)
            if frames.view(hello)[1].count((b"kind", b"own")) != 1:
                raise Mismatch(f"connection {count + 1} says {hello}, expected kind=own")
            welcome(wire, self.variables["WORKER"], deadline)

    def web(self, step, _deadline):
        raise NotationError(f"{step.text!r} is for the gateway's transcripts")

    def close(self):
        for wire in self._held + [wire for wire, _ in self._waiting]:
            wire.close()


def play(script, argv):
    """Plays a transcript with a new process; returns `None`, or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="pipe1-") as folder, closing(Instance(argv, Path(folder))) as instance:
        director = ServiceDirector(instance)
        player = Player(script, "gateway", director, director.variables)
        try:
            player.run()
            player.close()
            director.close()
            instance.leave()
        except PLAY_ERRORS as error:
            return report(error, instance)
        finally:
            player.close()
            director.close()
    return None


def report(error, instance):
    """Kills the instance; returns the text of the error and the end of the instance's output."""
    instance.kill()
    return "\n    | ".join([str(error)] + instance.output_tail())


class SharedProcess:
    """A process of the service that plays one transcript after the other. After a failure the next one is new.

    Each transcript has another worker, so the instance cannot answer it on a connection of an earlier transcript.
    """

    def __init__(self, argv):
        self._argv = argv
        self._open = ExitStack()
        self._instance = None
        self._keeper = None
        self._played = []

    @property
    def pid(self):
        return self._instance.pid

    def play(self, script):
        """Returns `None`, or what went wrong."""
        if self._instance is None:
            folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="pipe1-"))
            self._instance = self._open.enter_context(closing(Instance(self._argv, Path(folder))))
        try:
            self._play(script)
        except PLAY_ERRORS as error:
            return self._fail(error)
        self._played.append(script.name)
        return None

    def leave(self):
        """Expects the process to exit by itself when its last connection is closed; returns what `play` returns."""
        try:
            if self._instance is not None:
                self._leave()
        except PLAY_ERRORS as error:
            return self._fail(error)
        return None

    def _play(self, script):
        worker, deadline = FIRST_WORKER + len(self._played), time.monotonic() + DEFAULT_LIMIT
        if self._keeper is None:
            self._keeper = self._open.enter_context(closing(Keeper(self._instance, deadline)))
        director = ServiceDirector(self._instance, worker, self._keeper.further(worker, deadline))
        player = Player(script, "gateway", director, director.variables)
        try:
            player.run()
        finally:
            player.close()
            director.close()
        self._keeper.check(time.monotonic() + DEFAULT_LIMIT)

    def _leave(self):
        self._keeper.close()
        self._instance.leave()
        self._close()

    def _fail(self, error):
        problem = report(error, self._instance)
        if self._played:
            problem += f"\n    This process had played {', '.join(self._played)}; --fresh starts one for each transcript."
        self._close()
        return problem

    def _close(self):
        self._open.close()
        self._instance, self._keeper, self._played = None, None, []


def needs_own_process(script):
    commands = {step.data[0] for step in script.steps if step.action == "process"}
    return "own-process" in script.needs or bool(commands & OF_A_WHOLE_PROCESS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cmd", required=True, help="the demo service's command line")
    parser.add_argument("--only", help="transcripts whose name contains this")
    parser.add_argument("--fresh", action="store_true", help="a process for each transcript")
    results.add_without(parser)
    results.add_jobs(parser)
    options = parser.parse_args()
    scripts = [one for one in transcript.load_folder(FOLDER, options.only) if one.name not in options.without]
    if not scripts:
        parser.error(f"no transcript in {FOLDER} is called *{options.only}*")
    return run(scripts, shlex.split(options.cmd), options.fresh, options.jobs)


def run(scripts, argv, is_fresh, jobs):
    """Plays all scripts and prints their results in the order of the folder; returns the exit status."""
    alone = [script for script in scripts if is_fresh or needs_own_process(script)]
    together = [script for script in scripts if script not in alone]
    shared, pending = SharedProcess(argv), {}
    with ThreadPoolExecutor(1) as lane, ThreadPoolExecutor(max(1, jobs - 1)) as others:
        for script in together:
            pending[script.name] = lane.submit(results.timed, shared.play, script)
        end = lane.submit(results.timed, shared.leave)
        for script in alone:
            executor = others if jobs > 1 else lane
            pending[script.name] = executor.submit(results.timed, play, script, argv)
        failed = sum(results.print_result(results.title(script), *pending[script.name].result()) for script in scripts)
        if together:
            failed += results.print_result("the shared process exits (P-33)", *end.result())
    count = len(scripts) + bool(together)
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
