"""Small messages wait for the end of their turn and go out together: by io_uring where it is allowed, or without it."""

import contextlib
import os
import socket
import time

from harness import BINARY, Gateway, TestCase, config, in_threads, route, service, setUpModule
from scripted import Script, answer

__all__ = ["setUpModule"]

PIECE = 8192
PIECES = 1024


def cpu_seconds(gateway):
    with open(f"/proc/{gateway.process.pid}/stat") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def piece(number):
    return (b"%08d" % number).ljust(PIECE, b".")


def echo(peer):
    """Answers with the target of each request."""
    for head in iter(peer.head, b""):
        peer.send(answer(head.split(b" ")[1]))


def large(size):
    """Answers each request with so many bytes."""
    return lambda peer: [peer.send(answer(b"x" * size)) for _ in iter(peer.head, b"")]


def pieces(peer):
    """An answer in many small writes, apart enough for each to be passed on by itself."""
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.head()
    peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for number in range(PIECES):
        peer.send(b"%x\r\n%b\r\n" % (PIECE, piece(number)))
        time.sleep(0.0005)
    peer.send(b"0\r\n\r\n")


class Batches:
    io_uring = True

    def gateway_to(self, handler):
        script = self.enterContext(Script(handler))
        blocks = (service("scripted", url=script.url), route("/", "scripted"))
        return self.start(Gateway(BINARY, config(*blocks, workers=1, io_uring=self.io_uring)))

    def connection(self, gateway, **options):
        sock = self.enterContext(contextlib.closing(socket.socket()))
        for name, value in options.items():
            sock.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        sock.settimeout(20)
        sock.connect(gateway.address)
        return sock

    def test_everybody_gets_his_own_answer(self):
        """More connections than a batch has messages, all at once on one worker."""
        gateway = self.gateway_to(echo)

        def ask(number):
            sock, wrong = self.connection(gateway), []
            reader = sock.makefile("rb")
            for turn in range(20):
                target = b"/%d/%d" % (number, turn)
                sock.sendall(b"GET %b HTTP/1.1\r\nhost: a\r\n\r\n" % target)
                while reader.readline() != b"\r\n":
                    pass
                got = reader.read(len(target))
                if got != target:
                    wrong.append((target, got))
            return wrong

        self.assertEqual(sum(in_threads(100, ask), []), [])

    def test_the_last_answer_comes_before_the_end(self):
        gateway = self.gateway_to(echo)

        def ask(number):
            sock = self.connection(gateway)
            sock.sendall(b"GET /%d HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n" % number)
            return sock.makefile("rb").read().rpartition(b"\r\n\r\n")[2]

        self.assertEqual(in_threads(100, ask), [b"/%d" % number for number in range(100)])

    def test_a_client_that_takes_nothing_costs_nothing(self):
        """What its socket did not take waits until it does, and arrives in order."""
        gateway = self.gateway_to(pieces)
        sock = self.connection(gateway, SO_RCVBUF=4096)
        sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")

        def stands_still():
            before = cpu_seconds(gateway)
            time.sleep(0.5)
            return cpu_seconds(gateway) - before < 0.05

        self.assert_eventually(stands_still, "the gateway is busy with a client that takes nothing")
        reader = sock.makefile("rb")
        while reader.readline() != b"\r\n":
            pass
        body = bytearray()
        while size := int(reader.readline(), 16):
            body += reader.read(size)
            reader.readline()
        self.assertEqual(bytes(body), b"".join(map(piece, range(PIECES))))


    def test_the_last_of_many_answers_is_what_no_longer_fits(self):
        """A Unix socket holds some answers: one of these clients asks for exactly one too many before it reads."""
        most, size = 60, 12_000
        script = self.enterContext(Script(large(size)))
        blocks = (service("scripted", url=script.url), route("/", "scripted"))
        settings = {"listen": ["127.0.0.1:0", "unix:@FOLDER@/gateway.sock"], "io_uring": self.io_uring}
        gateway = self.start(Gateway(BINARY, config(*blocks, workers=1, **settings)))

        def ask(number):
            sock = self.enterContext(contextlib.closing(socket.socket(socket.AF_UNIX)))
            sock.settimeout(20)
            sock.connect(str(gateway.folder / "gateway.sock"))
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * (number + 1))
            time.sleep(2)
            reader, got = sock.makefile("rb"), 0
            for _ in range(number + 1):
                while reader.readline() != b"\r\n":
                    pass
                got += len(reader.read(size))
            return got

        self.assertEqual(in_threads(most, ask), [size * (number + 1) for number in range(most)])


class ByIoUring(Batches, TestCase):
    pass


class WithoutIoUring(Batches, TestCase):
    io_uring = False
