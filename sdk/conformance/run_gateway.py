"""Plays a service against the real gateway: every transcript of `gateway/`, each with a gateway of its own.

The gateway starts `puppet.py`, which hands its environment over; this program then dials in as that instance, sends what
the transcript says and looks at both ends: the frames that the gateway sends and what HTTP clients see.

    run_gateway.py --pilotlight target/debug/pilotlight [--only NAME] [--jobs N]
"""

import argparse
import json
import os
import select
import signal
import socket
import sys
import time
from functools import partial
from pathlib import Path

import frames
import http1
import pipe1
import results
import transcript
import wires
from gateway import Gateway, GatewayError, command
from notation import Mismatch, NotationError, evaluate, match_parts
from player import Failure, Player

HERE = Path(__file__).parent.resolve()
FOLDER = HERE / "gateway"
FLOOD_QUIET = 0.5
TAIL_LINES = 15
NOBODY = 65_534
DEFAULTS = {
    "": {"listen": '"127.0.0.1:0"', "workers": "1"},
    "service": {"transport": '"pipe"', "start_timeout": '"10s"', "stop_grace": '"1s"'},
    "route": {"path": '"/"', "service": '"demo"', "cache": "false", "timeout": '"60s"'},
    "limits": {},
}


def config_of(settings):
    """The configuration of a transcript: the defaults and its `set TABLE: KEY = VALUE` lines."""
    tables = {table: dict(values) for table, values in DEFAULTS.items()}
    tables["service"]["command"] = command([sys.executable, "-B", "-S", str(HERE / "puppet.py")])
    tables["service"]["env"] = '{ PUPPET_CONTROL = "@FOLDER@/control.sock" }'
    for table, setting in settings:
        key, _, value = setting.partition("=")
        tables[table][key.strip()] = value.strip()
    heads = {"": "", "limits": "[limits]", "service": "[services.demo]", "route": "[[routes]]"}
    blocks = []
    for table, head in heads.items():
        if tables[table]:
            blocks.append("\n".join([head] + [f"{key} = {value}" for key, value in tables[table].items()]))
    return "\n".join(blocks) + "\n"


class Web:
    """An HTTP client of a transcript, wire names `h1`, `h2`, …"""

    def __init__(self, client):
        self.client = client
        self.method = "GET"
        self.pieces = iter(())
        self.early = b""


class GatewayDirector:
    def __init__(self, gateway):
        self.variables = {}
        self._gateway = gateway
        self._control = wires.listen(gateway.folder / "control.sock")
        self._puppet = None  # the control connection of the latest instance
        self._puppets = []
        self._webs = {}
        self._socket_path = None

    def open(self, _step, _line, _deadline):
        """A new connection of the instance; the player sends the HELLO (or whatever the transcript sends instead)."""
        if self._socket_path is None:
            raise NotationError("`process starts` must come before the first connection")
        return self._wire(wires.dial(self._socket_path))

    def command(self, step, deadline):
        verb, *rest = step.data
        handlers = {
            ("process", "starts"): self._starts,
            ("process", "exit"): self._exit,
            ("process", "print"): self._print,
            ("process", "is-gone"): self._is_gone,
            ("process", "refuses-other-user"): self._refuses_other_user,
            ("process", "does-not-start"): self._does_not_start,
            ("gateway", "signal"): lambda name, _: self._gateway.signal(getattr(signal, "SIG" + name[0])),
            ("gateway", "exits"): self._exits,
            ("gateway", "says"): self._says,
            ("gateway", "distinct"): self._distinct,
            ("gateway", "memory-below"): self._memory_below,
        }
        if (step.action, verb) not in handlers:
            raise NotationError(f"{step.text!r} is no command")
        handlers[step.action, verb](rest, deadline)

    def web(self, step, deadline):
        if step.side == "client":
            self._client(step, deadline)
        else:
            self._answer(step)

    def close(self):
        for web in self._webs.values():
            web.client.close()
        for puppet in self._puppets:
            puppet.close()
        self._control.close()

    def _starts(self, _rest, deadline):
        if not select.select([self._control], [], [], max(0, deadline - time.monotonic()))[0]:
            raise Mismatch("the gateway did not start the service in time")
        self._puppet, _ = self._control.accept()
        self._puppets.append(self._puppet)
        self._puppet.settimeout(max(0.1, deadline - time.monotonic()))
        told = json.loads(self._puppet.makefile().readline())
        self._socket_path = told["PILOTLIGHT_SOCKET"]
        self.variables.update(
            TOKEN=told["PILOTLIGHT_TOKEN"].encode(),
            SERVICE=told["PILOTLIGHT_SERVICE"].encode(),
            INSTANCE=told["PILOTLIGHT_INSTANCE"].encode(),
        )
        if len(os.fsencode(self._socket_path)) > 107:
            raise Mismatch(f"PILOTLIGHT_SOCKET is longer than 107 bytes: {self._socket_path}")
        token = told["PILOTLIGHT_TOKEN"]
        if len(token) != 32 or not all(digit in "0123456789abcdefABCDEF" for digit in token):
            raise Mismatch(f"PILOTLIGHT_TOKEN is not 32 hexadecimal digits: {token!r}")

    def _exit(self, rest, _deadline):
        self._puppet.sendall(b"exit %d\n" % int(rest[0]))

    def _print(self, rest, _deadline):
        self._puppet.sendall(b"print " + " ".join(rest).encode() + b"\n")

    def _is_gone(self, _rest, deadline):
        self._puppet.settimeout(max(0.1, deadline - time.monotonic()))
        try:
            data = self._puppet.recv(1)
        except ConnectionResetError:
            data = b""
        except socket.timeout:
            raise Mismatch("the service's process is still there") from None
        if data:
            raise Mismatch("the puppet said something that nobody asked for")

    def _does_not_start(self, _rest, _deadline):
        if select.select([self._control], [], [], 0)[0]:
            raise Mismatch("the gateway has started another instance")

    def _refuses_other_user(self, _rest, deadline):
        """A connection of another user with the right token: kept out by the folder's permissions, or refused (P-4)."""
        os.seteuid(NOBODY)
        try:
            sock = wires.dial(self._socket_path)
        except PermissionError:
            return
        finally:
            os.seteuid(0)
        wire = self._wire(sock)
        hello = b"PIPE/1\ntoken=" + self.variables["TOKEN"] + b"\n"
        wire.queue(pipe1.encode(pipe1.Frame(pipe1.TYPES["HELLO"], 0, 0, hello)))
        wire.flush(deadline)
        frame = wire.next_frame(deadline)
        wire.close()
        if frame.name != "RESET":
            raise Mismatch(f"another user's HELLO was answered with {frame}, expected RESET(PROTOCOL)")

    @staticmethod
    def _wire(sock):
        return wires.Wire("wire", sock, lambda frame: frames.check_frame(frame, from_service=False))

    def _exits(self, rest, deadline):
        status = self._gateway.wait(max(0.1, deadline - time.monotonic()))
        if rest and status != int(rest[0]):
            raise Mismatch(f"the gateway ended with status {status}, expected {rest[0]}")

    def _says(self, rest, deadline):
        wanted = " ".join(rest)
        left = deadline - time.monotonic()
        if not http1.eventually(lambda: wanted in self._gateway.output(), left):
            raise Mismatch(f"the gateway's output has no {wanted!r}")

    def _distinct(self, names, _deadline):
        values = [self.variables[name] for name in names]
        if len(set(values)) != len(values):
            raise Mismatch(f"{' '.join(names)} are {values}, expected all different")

    def _memory_below(self, rest, _deadline):
        for line in Path(f"/proc/{self._gateway.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:") and int(line.split()[1]) > int(rest[0]) * 1024:
                raise Mismatch(f"the gateway uses {line.split()[1]} KiB, expected less than {rest[0]} MiB")

    def _client(self, step, deadline):
        if step.action == "close":
            self._webs.pop(step.wire).client.close()
            return
        line = step.data
        values = {part.key: evaluate(part.value, self.variables) for part in line.parts if part.key.startswith(":")}
        fields = [
            (part.key, evaluate(part.value, self.variables).decode("latin-1"))
            for part in line.parts
            if not part.key.startswith(":")
        ]
        if step.wire not in self._webs:
            self._webs[step.wire] = Web(self._gateway.client(max(0.1, deadline - time.monotonic())))
        web = self._webs[step.wire]
        if line.name == "REQUEST":
            self._request(web, values, fields)
        elif line.name == "CHUNK":
            web.client.send_chunk(values[":body"])
        elif line.name == "LAST":
            web.client.end_chunks(fields)
        elif line.name == "RAW":
            web.client.send(values[":bytes"])
        elif line.name == "SHUT":
            web.client.shut()
        elif line.name == "FLOOD":
            flood(web.client, int(values[":limit"]))
        else:
            raise NotationError(f"clients send REQUEST, CHUNK, LAST, RAW, SHUT or FLOOD, not {line.name}")

    def _request(self, web, values, fields):
        web.method = values.get(":method", b"GET").decode()
        body = values.get(":body", b"")
        if ":chunked" in values:
            fields.append(("Transfer-Encoding", "chunked"))
        elif ":length" in values:
            fields.append(("Content-Length", values[":length"].decode()))
        elif body:
            fields.append(("Content-Length", str(len(body))))
        web.client.send_head(web.method, values.get(":target", b"/").decode("latin-1"), fields)
        if ":chunked" in values:
            web.client.send_chunk(body)
        elif body:
            web.client.send(body)

    def _answer(self, step):
        if step.wire not in self._webs:
            raise NotationError(f"{step.wire} has sent nothing yet")
        web = self._webs[step.wire]
        try:
            if step.action == "close":
                if not web.client.ended():
                    raise Mismatch("the gateway sent more, expected it to close")
                return
            getattr(self, "_web_" + step.data.name.lower())(web, step.data)
        except (http1.Cut, TimeoutError, ValueError) as error:
            raise Mismatch(f"{type(error).__name__}: {error}") from error

    def _web_head(self, web, line):
        answer = web.client.head()
        web.pieces = web.client.body(answer, web.method)
        web.early = b""
        interim = [(b"interim." + name.lower().encode(), value.encode("latin-1"))
                   for early in answer.interim for name, value in early.fields]  # fmt: skip
        fields = interim + [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.fields]
        pseudo = {":status": b"%d" % answer.status}
        match_parts([part for part in line.parts if part.key == ":status"], pseudo, [], self.variables)
        rest = [part for part in line.parts if part.key not in (":status", ":body")]
        match_parts([part for part in rest if not part.key.startswith("trailer.")], pseudo, fields, self.variables)
        return answer

    def _web_answer(self, web, line):
        answer = self._web_head(web, line)
        body = b"".join(web.pieces)
        trailers = [(b"trailer." + name.lower().encode(), value.encode("latin-1")) for name, value in answer.trailers]
        wanted = [part for part in line.parts if part.key == ":body" or part.key.startswith("trailer.")]
        match_parts(wanted, {":body": body}, trailers, self.variables)

    def _web_bytes(self, web, line):
        """The next bytes of a body that goes on."""
        wanted = evaluate(line.parts[0].value, self.variables)
        while len(web.early) < len(wanted):
            piece = next(web.pieces, None)
            if piece is None:
                raise Mismatch(f"the body ended after {web.early!r}")
            web.early += piece
        if not web.early.startswith(wanted):
            raise Mismatch(f"the body goes {web.early[:80]!r}")
        web.early = web.early[len(wanted) :]

    def _web_stream(self, web, line):
        """The next bytes behind a 101."""
        wanted = evaluate(line.parts[0].value, self.variables)
        got = web.client.read(len(wanted))
        if got != wanted:
            raise Mismatch(f"the stream goes {got[:80]!r}")

    def _web_rest(self, web, line):
        body = web.early + b"".join(web.pieces)
        match_parts(line.parts, {":body": body}, [], self.variables)

    def _web_cut(self, web, _line):
        try:
            for _ in web.pieces:
                pass
        except http1.Cut:
            return
        raise Mismatch("the answer looks complete, expected it to be cut (RFC 9112 §8)")


def flood(client, limit):
    """Sends until the socket takes no more, which must be before `limit` bytes."""
    block, taken = bytes(65_536), 0
    client._sock.settimeout(FLOOD_QUIET)
    try:
        while taken <= limit:
            taken += client._sock.send(block)
    except socket.timeout:
        return
    finally:
        client._sock.settimeout(client._timeout)
    raise Mismatch(f"the gateway took {taken} bytes that nobody reads, expected it to stop before {limit}")


def play(script, binary):
    """None, or what went wrong."""
    gateway = Gateway(binary, config_of(script.settings))
    try:
        with gateway:
            director = GatewayDirector(gateway)
            player = Player(script, "service", director, director.variables)
            try:
                player.run()
            finally:
                player.close()
                director.close()
    except (Failure, GatewayError) as failure:
        return "\n    | ".join([str(failure)] + gateway.output().splitlines()[-TAIL_LINES:])
    if gateway.process.returncode != 0:
        return f"the gateway ended with status {gateway.process.returncode}, expected 0"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilotlight", required=True, help="the gateway's binary")
    parser.add_argument("--only", help="transcripts whose name contains this")
    results.add_jobs(parser)
    options = parser.parse_args()
    scripts = transcript.load_folder(FOLDER, options.only)
    if not scripts:
        parser.error(f"no transcript in {FOLDER} is called *{options.only}*")
    playable = [script for script in scripts if "root" not in script.needs or os.geteuid() == 0]
    for script in scripts:
        if script not in playable:
            print(f"skip {script.name}: needs to run as root")
    failed = results.print_all(playable, partial(play, binary=options.pilotlight), options.jobs)
    skipped = len(scripts) - len(playable)
    print(f"{len(playable) - failed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
