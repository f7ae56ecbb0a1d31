"""A pipe service that does to the gateway whatever a request's target names. Its first shared connection takes no exchanges and stays
honest, so that the instance outlives what is done on the others; `hostile.py` says what the targets mean.

    /frame/SEED/CASE     answers with a frame that is mutated: FRAMES[CASE]
    /hello/SEED          dials, sends a HELLO that is mutated, and tells how the gateway ended that
    /silent/COUNT        dials so many connections and says nothing on them, as long as it lives
    /flood/BYTES         writes so much to its standard output and error
    /logs/COUNT          sends so many LOG frames, with texts that try to forge lines
    /forge/TEXT          a RESET whose text tries the same; 0: on an exchange, 1: on exchange 0
    /orphan/KIND         leaves a grandchild and tells its process id: KIND is setsid, double, or both
    /ok                  an answer
"""

import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sdk" / "conformance"))

import pipe1  # noqa: E402

COMMAND = [sys.executable, "-B", str(Path(__file__).resolve())]
KINDS = (*range(0, 17), 64, 127, 128, 255)
MUTATIONS = ("none", "flip", "truncate", "extend", "empty", "length-less", "length-more", "length-huge", "flags", "exchange", "zero", "cut", "twice", "pieces")
FRAMES = [(kind, mutation) for kind in KINDS for mutation in MUTATIONS]
STAMP = "2026-01-01T00:00:00.000000Z  INFO FORGED"
FORGED = f"x\n{STAMP} a\r{STAMP} b\r\n{STAMP} c\x1b[2J\x1b[31m\x07\x00\x08\x7f\x9b31m\u202eevil\u2066\u200b\u2028{STAMP} d"
HEADER = struct.Struct("<IBBH")


def response(status=200, fields=(), body=b""):
    return pipe1.encode_response(status, fields, body)


def payload(kind, chance):
    """A payload that is right for this type, or none."""
    name = pipe1.NAMES.get(kind)
    if name in ("HELLO", "WELCOME"):
        return b"PIPE/1\ntoken=%b\n" % os.environ["PILOTLIGHT_TOKEN"].encode()
    if name == "REQUEST":
        return pipe1.encode_request([b"GET", b"http", b"a.test", b"/", b"HTTP/1.1", b"", b"id"], 0, [], b"")
    if name == "RESPONSE":
        return response(chance.choice((200, 204, 304, 0, 99, 101, 199, 600, 999, 65535)), [(b"x-a", b"1"), (b"content-length", b"5")], b"hello")
    if name == "INFO":
        return response(chance.choice((100, 103, 199, 200)))
    if name == "TRAILERS":
        return pipe1.flatten([(b"x-trailer", b"1"), (b"content-length", b"7")])
    if name == "RESET":
        return pipe1.encode_reset(chance.choice((1, 2, 3, 4, 5, 6, 7, 8, 0, 65535)), chance.choice((0, 1, 2**32 - 1)), FORGED.encode())
    if name in ("PING", "PONG"):
        return b"12345678"
    if name == "DRAIN":
        return (1000).to_bytes(4, "little")
    if name == "MORE":
        return pipe1.encode_more(1, 65535, 0)
    if name == "LOG":
        return b"\x03" + FORGED.encode()
    return chance.randbytes(chance.randrange(0, 64))


def mutated(kind, mutation, exchange, chance):
    """The bytes of a frame, and whether the stream is cut behind it."""
    data, flags = payload(kind, chance), chance.choice((0, pipe1.END))
    if mutation == "flip" and data:
        data = bytearray(data)
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        data = bytes(data)
    elif mutation == "truncate":
        data = data[: chance.randrange(len(data) + 1)]
    elif mutation == "extend":
        data += chance.randbytes(chance.randrange(1, 200))
    elif mutation == "empty":
        data = b""
    elif mutation == "zero":
        data = bytes(chance.randrange(1, 64))
    elif mutation == "flags":
        flags = chance.randrange(256)
    elif mutation == "exchange":
        exchange = chance.choice((0, 1, 65535, (exchange + 1) & 0xFFFF))
    length = len(data)
    if mutation == "length-less":
        length = chance.randrange(length + 1)
    elif mutation == "length-more":
        length += chance.randrange(1, 1000)
    elif mutation == "length-huge":
        length = chance.choice((65_537, 1 << 24, (1 << 31) - 1, (1 << 32) - 1))
    frame = HEADER.pack(length, kind, flags, exchange) + data
    if mutation == "cut":
        return frame[: chance.randrange(len(frame))], True
    return frame * (2 if mutation == "twice" else 1), False


class Service:
    def __init__(self):
        self.kept, self.orphans = [], []

    def dial(self, **hello):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(os.environ["PILOTLIGHT_SOCKET"])
        lines = ["PIPE/1", "token=" + os.environ["PILOTLIGHT_TOKEN"], *(f"{key}={value}" for key, value in hello.items())]
        self.put(sock, "HELLO", 0, 0, "".join(line + "\n" for line in lines).encode())
        return sock

    @staticmethod
    def put(sock, name, flags, exchange, data):
        sock.sendall(pipe1.encode(pipe1.Frame(pipe1.TYPES[name], flags, exchange, data)))

    @staticmethod
    def frames(sock):
        inbox = bytearray()
        while data := sock.recv(262_144):
            inbox += data
            while frame := pipe1.split(inbox):
                yield frame

    def run(self):
        control = self.dial(exchanges=0, max_own=32)
        for frame in self.frames(control):
            if frame.name == "WELCOME":
                _, values = pipe1.decode_text(frame.payload)
                self.start(self.keep, "shared", int(values["worker"]))
            elif frame.name == "MORE":
                kind, count, worker = pipe1.decode_more(frame.payload)
                for _ in range(min(count, 8)):
                    self.start(self.serve, "own" if kind == 1 else "shared", worker)
            elif frame.name == "PING":
                self.put(control, "PONG", 0, 0, frame.payload)
            elif frame.name == "DRAIN":
                return

    @staticmethod
    def start(function, *arguments):
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def keep(self, kind, worker):
        """A shared connection, and another when the gateway has closed it."""
        while True:
            self.serve(kind, worker)

    def serve(self, kind, worker):
        hello = {"exchanges": 64, "max_own": 32} if kind == "shared" else {"kind": "own"}
        try:
            with self.dial(worker=worker, **hello) as sock:
                for frame in self.frames(sock):
                    if frame.name == "REQUEST":
                        strings, _, _, _ = pipe1.decode_request(frame.payload)
                        self.act(sock, frame.exchange, strings["target"].decode(), worker)
                    elif frame.name == "PING":
                        self.put(sock, "PONG", 0, 0, frame.payload)
        except (OSError, pipe1.ProtocolError):
            time.sleep(0.01)

    def act(self, sock, exchange, target, worker):
        name, *words = target.strip("/").split("?")[0].split("/")
        getattr(self, "on_" + name, self.on_ok)(sock, exchange, worker, *words)

    def ok(self, sock, exchange, body=b"ok"):
        self.put(sock, "RESPONSE", pipe1.END, exchange, response(200, [(b"cache-control", b"no-store")], body))

    def on_ok(self, sock, exchange, *_):
        self.ok(sock, exchange)

    def on_frame(self, sock, exchange, worker, seed, case):
        chance = random.Random(f"{seed} {case}")
        kind, mutation = FRAMES[int(case)]
        if chance.random() < 0.3:
            with self.dial(kind="answer", worker=worker) as other:
                self.attack(other, kind, mutation, exchange, chance)
                time.sleep(0.02)
        else:
            self.attack(sock, kind, mutation, exchange, chance)
        self.ok(sock, exchange, b"after")

    def attack(self, sock, kind, mutation, exchange, chance):
        for _ in range(chance.choice((1, 1, 1, 3))):
            data, cut = mutated(kind, mutation, exchange, chance)
            if mutation == "pieces":
                for begin in range(0, len(data), 7):
                    sock.sendall(data[begin : begin + 7])
            else:
                sock.sendall(data)
            if cut:
                sock.shutdown(socket.SHUT_RDWR)

    def on_hello(self, sock, exchange, _, seed):
        chance = random.Random(seed)
        lines = [b"PIPE/1", b"token=" + os.environ["PILOTLIGHT_TOKEN"].encode(), b"kind=own", b"worker=0", b"exchanges=1", b"max_own=1", b"pid=1"]
        what = chance.randrange(9)
        if what == 0:
            lines[0] = chance.choice((b"PIPE/2", b"PIPE/0", b"", b"GET / HTTP/1.1", b"\0" * 20, FORGED.encode()))
        elif what == 1:
            lines[1] = b"token=" + chance.choice((b"", b"0" * 32, b"x" * 4000, FORGED.encode()))
        elif what == 2:
            lines[chance.randrange(2, 7)] = chance.choice((b"worker=99999999999", b"worker=-1", b"exchanges=x", b"kind=all", b"=", b"no equals sign", b"pid=" + b"9" * 3000))
        elif what == 3:
            chance.shuffle(lines)
        elif what == 4:
            lines += [b"k%d=v" % number for number in range(chance.randrange(1, 2000))]
        text = b"".join(line + b"\n" for line in lines)
        if what == 5:
            text = text[: chance.randrange(len(text))]
        data = pipe1.encode(pipe1.Frame(chance.choice((1, 1, 1, *KINDS)), chance.choice((0, 1, 255)), chance.choice((0, 0, 7)), text))
        if what == 6:
            data = data[: chance.randrange(len(data))]
        elif what == 7:
            data = chance.randbytes(chance.randrange(1, 5000))
        elif what == 8:
            data = HEADER.pack(0xFFFFFFFF, 1, 0, 0) + data
        other = socket.socket(socket.AF_UNIX)
        other.settimeout(60)
        answered, ended, begin = b"", True, time.monotonic()
        with other:
            try:
                other.connect(os.environ["PILOTLIGHT_SOCKET"])
                other.sendall(data)
                while more := other.recv(65_536):
                    answered += more
                    if answered[4:5] == b"\x02":  # WELCOME: it was good enough
                        break
            except TimeoutError:
                ended = False
            except OSError:
                pass
        took = time.monotonic() - begin
        self.ok(sock, exchange, json.dumps({"ended": ended, "seconds": took, "answered": answered[:4].hex() != "" and answered[4] or 0}).encode())

    def on_silent(self, sock, exchange, _, count):
        held = 0
        for _ in range(int(count)):
            other = socket.socket(socket.AF_UNIX)
            other.settimeout(5)
            try:
                other.connect(os.environ["PILOTLIGHT_SOCKET"])
            except OSError:
                continue
            self.kept.append(other)
            held += 1
        self.ok(sock, exchange, b"%d" % held)

    def on_flood(self, sock, exchange, _, size):
        line = ("f" * 150 + FORGED[:40] + "\n").encode()
        data = line * 300
        for fd in (1, 2):
            left = int(size)
            while left > 0:
                left -= os.write(fd, data)
        os.write(1, b"l" * 1_000_000)  # a line without an end
        self.ok(sock, exchange)

    def on_logs(self, sock, exchange, _, count):
        for number in range(int(count)):
            self.put(sock, "LOG", 0, exchange if number % 2 else 0, bytes([number % 8]) + FORGED.encode() * (1 + number % 9))
        self.ok(sock, exchange)

    def on_forge(self, sock, exchange, _, where):
        os.write(2, (FORGED + "\n").encode(errors="surrogatepass"))
        self.put(sock, "RESET", 0, exchange if where == "0" else 0, pipe1.encode_reset(5, 0, FORGED.encode()))

    def on_orphan(self, sock, exchange, _, kind):
        script = "import os, sys, time\n"
        if kind in ("setsid", "both"):
            script += "os.setsid()\n"
        if kind in ("double", "both"):
            script += "if os.fork(): os._exit(0)\n"
        script += "print(os.getpid(), flush=True)\nsys.stdout.close()\nos.close(1)\ntime.sleep(100000)\n"
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.orphans.append(child)
        self.ok(sock, exchange, child.stdout.readline().strip())


if __name__ == "__main__":
    Service().run()
