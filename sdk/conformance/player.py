"""Plays a transcript: sends one side's lines, expects the other's. What is connected to what is the director's business.

A director offers `open(step, line, deadline)` (a wire for a HELLO on a new name), `command(step, deadline)` for lines that
are no frames, and `web(step, deadline)` for lines of HTTP wires.
"""

import time

import pipe1
from frames import compile_frame, compile_message, is_final, match_frame, view
from notation import Line, Mismatch, NotationError, evaluate, exchange_of, match_exchange, match_parts, shorten
from wires import Closed, TimedOut

DEFAULT_LIMIT = 10.0
POLL_EXCHANGE = 65_000
POLL_PAUSE = 0.02


class Failure(Exception):
    """The transcript was not followed; the message says at which line and how."""


class Player:
    def __init__(self, transcript, plays, director, variables):
        self.transcript = transcript
        self.plays = plays  # the side whose lines are sent: "gateway" against a service, "service" against the gateway
        self.director = director
        self.variables = variables
        self.wires = {}
        self.limit = DEFAULT_LIMIT
        self.chunk = None

    def run(self):
        for step in self.transcript.steps:
            try:
                self._step(step)
            except (Mismatch, NotationError, TimedOut, Closed, pipe1.ProtocolError, OSError) as error:
                raise Failure(f"{step.place}: {step.text}\n    {error}") from error
        self._flush(self._deadline())

    def close(self):
        for wire in self.wires.values():
            wire.close()

    def _deadline(self):
        return time.monotonic() + self.limit

    def _step(self, step):
        deadline = self._deadline()
        sends = step.action == "frame" and step.side == self.plays
        if not sends:
            self._flush(deadline)
        if step.action == "limit":
            self.limit = step.data
        elif step.action == "chunk":
            self.chunk = step.data or None
            for wire in self.wires.values():
                wire.chunk = self.chunk
        elif step.action == "any":
            self._expect_any(step.data, deadline)
        elif step.action in ("process", "gateway"):
            self.director.command(step, deadline)
        elif step.wire.startswith("h"):
            self.director.web(step, deadline)
        elif step.action == "close":
            self._close(step, deadline)
        elif sends:
            self._send(step, deadline)
        else:
            self._expect(step, deadline)

    def _flush(self, deadline):
        for wire in self.wires.values():
            wire.flush(deadline)

    def _wire(self, name):
        if name not in self.wires:
            raise NotationError(f"{name} has sent no HELLO yet")
        return self.wires[name]

    def _send(self, step, deadline):
        line = step.data
        if step.wire not in self.wires:
            self.wires[step.wire] = self.director.open(step, line, deadline)
            self.wires[step.wire].chunk = self.chunk
        wire = self._wire(step.wire)
        others = [other for other in self.wires.values() if other is not wire]
        for other in others:
            other.flush(deadline)
        if line.name == "FLOOD":
            self._flood(wire, line, deadline)
        elif line.name == "SHUT":
            wire.shut(deadline)
        elif line.name == "MESSAGE":
            wire.queue(compile_message(line, self.variables))
        else:
            wire.queue(compile_frame(line, self.variables))

    def _flood(self, wire, line, deadline):
        """`FLOOD id :limit=N`: DATA until the peer takes no more, which must be before N bytes (P-22)."""
        wire.flush(deadline)
        limit = int(evaluate(line.parts[0].value, {}))
        block = pipe1.Frame(pipe1.TYPES["DATA"], 0, exchange_of(line, self.variables), bytes(pipe1.MAX_FRAME))
        taken = wire.flood(pipe1.encode(block), limit)
        if taken > limit:
            raise Mismatch(f"the peer took {taken} bytes that nobody reads, expected it to stop before {limit}")

    def _expect(self, step, deadline):
        line = step.data
        if step.wire not in self.wires:
            if line.name != "HELLO":
                raise NotationError(f"{step.wire} is new, its first line must be HELLO")
            self.wires[step.wire] = self.director.open(step, line, deadline)
            self.wires[step.wire].chunk = self.chunk
            return
        if line.name == "AGAIN":
            return self._again(step, deadline)
        wire = self._wire(step.wire)
        special = {
            "MESSAGE": self._expect_message,
            "REST": self._expect_rest,
            "BYTES": self._expect_bytes,
            "FINAL": self._expect_final,
            "REFUSAL": self._expect_refusal,
            "LEAVE": self._expect_leave,
            "POLL": self._poll,
            "QUIET": self._expect_quiet,
            "STREAM": self._expect_stream,
            "SHUT": self._expect_shut,
        }.get(line.name)
        if special:
            special(wire, line, deadline)
        else:
            frame = wire.next_frame(deadline, line.name)
            match_frame(line, frame, self.variables)
            if frame.name in ("RESPONSE", "REQUEST") and not frame.end:
                wire.early = view(frame)[0][":body"]

    def _expect_message(self, wire, line, deadline):
        """A whole answer or request, however its sender cut it into frames."""
        pseudo, fields, body, trailers = {}, [], bytearray(), []
        while True:
            frame = wire.next_frame(deadline)
            match_exchange(line, frame.exchange, self.variables)
            if frame.name in ("RESPONSE", "REQUEST") and not pseudo:
                pseudo, fields = view(frame)
                body += pseudo.pop(":body")
            elif frame.name == "DATA" and pseudo:
                body += frame.payload
            elif frame.name == "TRAILERS" and pseudo:
                trailers = pipe1.decode_fields(frame.payload)
            elif frame.name != "INFO" or pseudo:
                raise Mismatch(f"in the middle of a message: {frame}")
            if frame.end or frame.name == "TRAILERS":
                break
        pseudo[":body"] = bytes(body)
        pseudo[":body_length"] = b"%d" % len(body)
        marked = [(b"trailer." + name, value) for name, value in trailers]
        match_parts(line.parts, pseudo, fields + marked, self.variables)

    def _expect_rest(self, wire, line, deadline):
        """What is left of a message, to its end."""
        body = bytearray()
        while True:
            frame = wire.next_frame(deadline)
            match_exchange(line, frame.exchange, self.variables)
            if frame.name not in ("DATA", "TRAILERS"):
                raise Mismatch(f"in the middle of a body: {frame}")
            fields = pipe1.decode_fields(frame.payload) if frame.name == "TRAILERS" else []
            if frame.name == "DATA":
                body += frame.payload
            if is_final(frame):
                break
        match_parts(line.parts, {":body": self._early(wire) + bytes(body)}, fields, self.variables)

    def _expect_bytes(self, wire, line, deadline):
        """The next bytes of a body that goes on."""
        wanted = evaluate(line.parts[0].value, self.variables)
        got = self._early(wire)
        while len(got) < len(wanted):
            frame = wire.next_frame(deadline)
            if frame.name != "DATA" or frame.end:
                raise Mismatch(f"after {got!r} came {frame}, expected more of the body")
            got += frame.payload
        if got[: len(wanted)] != wanted:
            raise Mismatch(f"the body goes {shorten(got)}, expected {shorten(wanted)}")

    def _early(self, wire):
        """Body bytes that came with the head that a line has matched."""
        early, wire.early = wire.early, b""
        return early

    def _expect_final(self, wire, line, deadline):
        """The final frame of the exchange; frames before it are let pass."""
        while True:
            frame = wire.next_frame(deadline)
            match_exchange(line, frame.exchange, self.variables)
            if is_final(frame):
                match_frame(line, frame, self.variables)
                return

    def _expect_leave(self, wire, _line, deadline):
        """The service goes: it may ask for it with DRAIN, which is answered (P-32), and closes."""
        while True:
            try:
                frame = wire.next_frame(deadline, "DRAIN")
            except Closed:
                return
            if frame.name != "DRAIN":
                raise Mismatch(f"got {frame}, expected DRAIN or the end of the stream")
            wire.queue(pipe1.encode(pipe1.Frame(pipe1.TYPES["DRAIN"], 0, 0, (5000).to_bytes(4, "little"))))
            wire.flush(deadline)

    def _again(self, step, deadline):
        """`AGAIN …`: the next answer comes here, or on a new connection with this HELLO, which has the name from then on."""
        wire = self._wire(step.wire)
        new = self.director.again(step, step.data._replace(name="HELLO"), wire, deadline)
        if new is not wire:
            self.wires[f"{wire.name} until {step.place}"] = wire
            new.chunk = self.chunk
            self.wires[step.wire] = new

    def _expect_quiet(self, wire, line, _deadline):
        """`QUIET :ms=N`: nothing comes for so long."""
        quiet = int(evaluate(line.parts[0].value, {})) / 1000
        try:
            frame = wire.next_frame(time.monotonic() + quiet)
        except TimedOut:
            return
        raise Mismatch(f"got {frame}, expected nothing")

    def _expect_stream(self, wire, line, deadline):
        """`STREAM :bytes=…`: the next bytes behind a switch to another protocol."""
        wanted = evaluate(line.parts[0].value, self.variables)
        got = wire.read_bytes(len(wanted), deadline)
        if got != wanted:
            raise Mismatch(f"the stream goes {shorten(got)}, expected {shorten(wanted)}")

    def _expect_shut(self, wire, _line, deadline):
        """`SHUT`: the end of the stream behind a switch; this side's direction may go on."""
        left = wire.read_end(deadline)
        if left:
            raise Mismatch(f"before the end of the stream came {shorten(left)}")

    def _poll(self, wire, line, deadline):
        """`POLL :target=… :body=…`: asks again and again until the answer is the expected one."""
        asked = [part for part in line.parts if part.key == ":target"]
        wanted = [part for part in line.parts if part.key != ":target"]
        request = Line("REQUEST", str(POLL_EXCHANGE), pipe1.END, asked)
        while True:
            wire.queue(compile_frame(request, self.variables))
            wire.flush(deadline)
            frame = wire.next_frame(deadline)
            if frame.name != "RESPONSE" or frame.exchange != POLL_EXCHANGE:
                raise Mismatch(f"got {frame}")
            pseudo, fields = view(frame)
            try:
                match_parts(wanted, pseudo, fields, self.variables)
                return
            except Mismatch:
                if time.monotonic() + POLL_PAUSE > deadline:
                    raise
                time.sleep(POLL_PAUSE)

    def _expect_refusal(self, wire, line, deadline):
        """RESET(PROTOCOL) on exchange 0, then the end of the stream (P-10). Frames sent before it are let pass."""
        frame = wire.next_frame(deadline)
        while frame.name != "RESET" or frame.exchange:
            frame = wire.next_frame(deadline)
        code, _, text = pipe1.decode_reset(frame.payload)
        if code != pipe1.CODES["PROTOCOL"]:
            raise Mismatch(f"RESET has code {code}, expected PROTOCOL")
        match_parts(line.parts, {":text": text}, [], self.variables)
        after = wire.expect_end(deadline)
        if after is not None:
            raise Mismatch(f"after RESET(PROTOCOL) came {after}, expected the end of the stream (P-10)")

    def _expect_any(self, steps, deadline):
        """All of these, in any order on each wire."""
        left = list(steps)
        while left:
            wire = self._wire(left[0].wire)
            names = {step.data.name for step in left if step.wire == left[0].wire}
            frame = wire.next_frame(deadline, next(iter(names & wire.AMBIENT), None))
            reasons = []
            for step in left:
                if step.wire != wire.name:
                    continue
                try:
                    match_frame(step.data, frame, self.variables)
                except Mismatch as reason:
                    reasons.append(f"{step.place}: {step.text}: {reason}")
                else:
                    left.remove(step)
                    break
            else:
                raise Mismatch("\n    ".join([f"got {frame}; it is none of"] + reasons))

    def _close(self, step, deadline):
        wire = self._wire(step.wire)
        if step.side == self.plays:
            wire.close()
            del self.wires[step.wire]
            return
        frame = wire.expect_end(deadline)
        if frame is not None:
            raise Mismatch(f"got {frame}, expected the end of the stream")
