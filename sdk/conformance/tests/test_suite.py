"""The suite itself: its codec, its notation, that it covers the specification, and that it finds faults.

    /usr/bin/python3 -m unittest discover -s sdk/conformance/tests
"""

import random
import re
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUITE = HERE.parent
SPEC = HERE.parents[2] / "docs" / "spec" / "pipe.md"
sys.path.insert(0, str(SUITE))

import frames  # noqa: E402
import instance  # noqa: E402
import notation  # noqa: E402
import pipe1  # noqa: E402
import run_gateway  # noqa: E402
import run_service  # noqa: E402
import transcript  # noqa: E402

# What only the other side must do, or what is looked at on every frame instead (frames.check_frame).
NOT_THE_SERVICES = {"P-4": "gateway", "P-9": "every frame", "P-27": "gateway", "P-29": "gateway", "P-36": "gateway"}


class Codec(unittest.TestCase):
    def test_a_request_by_its_bytes(self):
        """The layout of §3, written out by hand."""
        block = b"GET\0http\0a\0/x?y\0HTTP/1.1\0\0id\0n\0v\0"
        expected = (
            (8 + len(block) + 2).to_bytes(4, "little") + b"\x03\x01\x02\x01"
            + len(block).to_bytes(4, "little") + (500).to_bytes(4, "little") + block + b"hi"
        )  # fmt: skip
        text = 'REQUEST 258 END :authority=a :target="/x?y" :peer="" :id=id :deadline=500 n=v :body="hi"'
        self.assertEqual(frames.compile_frame(notation.parse(text), {}), expected)

    def test_any_chunking_gives_the_same_frames(self):
        chance = random.Random(7)
        wanted = [
            pipe1.Frame(chance.randrange(1, 20), chance.randrange(256), chance.randrange(65_536), chance.randbytes(size))
            for size in (0, 1, 7, 8, 9, 300, 65_536)
        ]
        stream = b"".join(map(pipe1.encode, wanted))
        for _ in range(50):
            buffer, got, position = bytearray(), [], 0
            while position < len(stream):
                step = chance.choice((1, 3, 8, 100, 5000, 70_000))
                buffer += stream[position : position + step]
                position += step
                while frame := pipe1.split(buffer):
                    got.append(frame)
            self.assertEqual(got, wanted)

    def test_length_is_refused_from_the_header_alone(self):
        with self.assertRaisesRegex(pipe1.ProtocolError, "P-6"):
            pipe1.split(bytearray(pipe1.HEADER.pack(65_537, 6, 0, 1)))

    def test_malformed_heads(self):
        for payload in (b"", b"\0" * 7, b"\x05\0\0\0\xc8\0\0\0a\0b", b"\x02\0\0\0\xc8\0\0\0a\0", b"\x01\0\0\0\xc8\0\0\0a"):
            with self.assertRaisesRegex(pipe1.ProtocolError, "P-8", msg=payload):
                pipe1.decode_response(payload)
        with self.assertRaisesRegex(pipe1.ProtocolError, "P-8"):
            pipe1.decode_fields(b"Upper\0x\0")
        with self.assertRaisesRegex(pipe1.ProtocolError, "P-9"):
            pipe1.decode_fields(b"connection\0x\0")


class Notation(unittest.TestCase):
    def check(self, expected, text, frame, variables=None):
        """`expected`: None for a match, or a word of the mismatch."""
        line = notation.parse(text)
        try:
            frames.match_frame(line, frame, {} if variables is None else variables)
        except notation.Mismatch as mismatch:
            self.assertIsNotNone(expected, mismatch)
            self.assertIn(expected, str(mismatch))
        else:
            self.assertIsNone(expected, f"{text} matched {frame}")

    def test_expectations(self):
        payload = pipe1.encode_response(200, [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")], b"body")
        frame = pipe1.Frame(4, pipe1.END, 7, payload)
        self.check(None, 'RESPONSE 7 END :status=200 a=1 a=3 b=2 :body="body"', frame)
        self.check(None, "RESPONSE * END a#2 c! a~[13] :body=*", frame)
        self.check("expected b'4'", "RESPONSE 7 END a=4", frame)
        self.check("in this order", "RESPONSE 7 END a=3 a=1", frame)
        self.check("occurs 2 times", "RESPONSE 7 END a#1", frame)
        self.check("present", "RESPONSE 7 END a!", frame)
        self.check(":body", "RESPONSE 7 END :body=other", frame)
        self.check("END", "RESPONSE 7", frame)
        self.check("exchange", "RESPONSE 8 END", frame)
        self.check("got", "RESET 7 :code=INTERNAL", frame)
        self.check("missing", "RESPONSE 7 END :target=/", frame)

    def test_variables_are_set_once(self):
        variables = {}
        self.check(None, "PONG :data=$d", pipe1.Frame(11, 0, 0, b"12345678"), variables)
        self.check(None, "PONG :data=$d", pipe1.Frame(11, 0, 0, b"12345678"), variables)
        self.check(":data", "PONG :data=$d", pipe1.Frame(11, 0, 0, b"87654321"), variables)

    def test_values(self):
        for text, expected in (
            ("abc", b"abc"), ('"a b"', b"a b"), ('"\\x00\\n\\\\\\""', b'\0\n\\"'), ('"ab"*3', b"ababab"),
            ('a+"-"*2+b', b"a--b"), ("pattern(3)", bytes([7, 38, 69])), ("$v+x", b"vvx"), ('"ä"', "ä".encode()),
        ):  # fmt: skip
            line = notation.parse("DATA 1 :body=" + text)
            self.assertEqual(notation.evaluate(line.parts[0].value, {"v": b"vv"}), expected, text)

    def test_mistakes_are_told(self):
        for text in ("DATA 1 =x", "DATA 1 ENDE", 'DATA 1 :body="open', 'DATA 1 :body="\\q"'):
            with self.assertRaises(notation.NotationError, msg=text):
                notation.parse(text)
        for text in ("DATA 1 :colour=red", "NOTHING 1", "DATA 1 :body=$unknown", "DATA $unknown", "DATA 1 :body=*"):
            with self.assertRaises(notation.NotationError, msg=text):
                frames.compile_frame(notation.parse(text), {})


class Coverage(unittest.TestCase):
    def test_every_rule_has_a_transcript(self):
        rules = set(re.findall(r"^- \*\*(P-\d+)\*\*", SPEC.read_text(), re.MULTILINE))
        self.assertGreater(len(rules), 30)
        for folder, exempt in ((run_service.FOLDER, NOT_THE_SERVICES), (run_gateway.FOLDER, {})):
            scripts = transcript.load_folder(folder)
            named = {rule for script in scripts for rule in script.rules}
            self.assertEqual(rules - named - set(exempt), set(), f"no transcript in {folder.name}")
            self.assertEqual(named - rules, set(), "rules that the specification does not have")
            self.assertEqual([script.name for script in scripts if not script.rules], [], "transcripts without a rule")

    def test_transcripts_that_share_a_process_share_no_names(self):
        """The demo remembers the ids of exchanges that were cancelled, and the names that it has refused once."""
        used = {}
        for script in transcript.load_folder(run_service.FOLDER):
            if run_service.needs_own_process(script):
                continue
            for name in set(re.findall(r"\b(?:x-once|id)=([\w-]+)", "\n".join(step.text for step in script.steps))):
                used.setdefault(name, []).append(script.name)
        self.assertGreater(len(used), 5)
        self.assertEqual({name: scripts for name, scripts in used.items() if len(scripts) > 1}, {})

    def test_every_line_that_is_sent_can_be_compiled(self):
        known = {name: b"1" for name in ("TOKEN", "WORKER", "INSTANCE", "w", "a", "b", "c", "still")}
        for folder, side in ((run_service.FOLDER, "gateway"), (run_gateway.FOLDER, "service")):
            for script in transcript.load_folder(folder):
                for step in script.steps:
                    if step.action == "frame" and step.side == side and not step.wire.startswith("h"):
                        compiler = {"MESSAGE": frames.compile_message, "FLOOD": None, "SHUT": None}.get(step.data.name, frames.compile_frame)
                        if compiler:
                            self.assertTrue(compiler(step.data, known), step.place)


class Faults(unittest.TestCase):
    """A right service passes; each wrong one is found."""

    FOUND_BY = {
        "names-a-worker": "hello-first-shared",
        "ping-before-hello": "hello-first-shared",
        "forgets-end": "hello-first-shared",
        "wrong-exchange": "hello-first-shared",
        "unknown-flags": "hello-first-shared",
        "stays-alive": "hello-first-shared",
        "wrong-pong": "unknown-flag-bits",
        "two-answers": "shared-id-is-free-after-final-frame",
        "drops-duplicates": "shared-echo",
        "upper-case": "shared-echo",
        "names-no-rule": "bad-unknown-type",
        "stays-open": "bad-unknown-type",
        "no-frame-limit": "bad-oversized",
        "ignores-nothing": "unknown-ignorable-shared",
    }

    def play(self, name, *fault):
        return run_service.play(quick(name), tiny(*fault))

    def test_the_right_service_passes(self):
        for name in sorted(set(self.FOUND_BY.values()) - {"shared-id-is-free-after-final-frame"}):
            with self.subTest(name):
                self.assertIsNone(self.play(name))

    def test_each_fault_is_found(self):
        for fault, name in self.FOUND_BY.items():
            with self.subTest(fault):
                self.assertIsNotNone(self.play(name, fault), f"{name} did not find {fault}")


class SharedProcess(unittest.TestCase):
    """Transcripts that share a process."""

    ECHO, SKIPPED, REFUSED = "shared-echo", "unknown-ignorable-shared", "bad-exchange-zero"

    def play(self, names, *fault):
        """The results of the transcripts, and that of the end of the process."""
        shared = run_service.SharedProcess(tiny(*fault))
        return [shared.play(quick(name)) for name in names] + [shared.leave()]

    def test_the_right_service_passes(self):
        pids = []
        shared = run_service.SharedProcess(tiny())
        for name in (self.ECHO, self.REFUSED, self.SKIPPED, self.ECHO):
            self.assertIsNone(shared.play(quick(name)))
            pids.append(shared.pid)
        self.assertIsNone(shared.leave())
        self.assertEqual(len(set(pids)), 1, pids)

    def test_a_failure_names_what_the_process_had_played_and_the_next_process_is_new(self):
        first, second, third, fourth, end = self.play(
            (self.ECHO, self.SKIPPED, self.REFUSED, self.ECHO), "names-no-rule"
        )
        self.assertEqual([first, second, fourth, end], [None] * 4)
        self.assertIn(f"had played {self.ECHO}, {self.SKIPPED};", third)
        self.assertIn("bad-exchange-zero.pipe:", third)

    def test_a_failure_of_the_first_one_names_no_others(self):
        first, end = self.play((self.REFUSED,), "names-no-rule")
        self.assertNotIn("had played", first)
        self.assertIsNone(end)

    def test_a_process_that_stays_alive_is_found_at_its_end(self):
        first, second, end = self.play((self.ECHO, self.SKIPPED), "stays-alive")
        self.assertEqual([first, second], [None, None])
        self.assertIn("P-33", end)
        self.assertIn(f"had played {self.ECHO}, {self.SKIPPED};", end)

    def test_a_process_that_dies_after_a_transcript_is_found(self):
        first, second, end = self.play((self.REFUSED, self.ECHO), "dies-of-an-error")
        self.assertIn("the first connection", first)
        self.assertEqual([second, end], [None, None])

    def test_first_and_further_connections_name_their_workers(self):
        for fault in ("names-a-worker", "forgets-workers"):
            with self.subTest(fault):
                self.assertIn("worker", self.play((self.ECHO,), fault)[0])


def quick(name):
    """A transcript that waits for 1.5 s at most."""
    script = transcript.load(run_service.FOLDER / f"{name}.pipe")
    return script._replace(steps=[transcript.Step("limit", "limit", "", "", 1.5, "within 1.5s"), *script.steps])


def tiny(*fault):
    return [sys.executable, "-B", str(HERE / "tiny_service.py"), *fault]


def setUpModule():
    instance.EXIT_LIMIT = 1.5


if __name__ == "__main__":
    unittest.main()
