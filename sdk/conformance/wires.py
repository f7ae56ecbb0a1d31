"""Sockets of a transcript: frames in and out of one connection, every wait with an end."""

import select
import socket
import time
from collections import deque

import pipe1

READ_SIZE = 262_144
FLOOD_QUIET = 0.4  # a socket that takes nothing for so long is blocked


class TimedOut(Exception):
    """Nothing came, or nothing more was taken, before the deadline."""


class Closed(Exception):
    """The peer closed the connection."""


class Wire:
    """One Pipe/1 connection. Frames that a peer may send at any time are kept apart until a line asks for them."""

    AMBIENT = {"MORE", "LOG", "STOP", "PING", "DRAIN"}

    def __init__(self, name, sock, check):
        self.name = name
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.kept = deque()
        self.early = b""  # body bytes that came with a head and that no line has asked for yet
        self.chunk = None
        self.blocked = False  # a flood has filled it: what is left in the outbox stays there
        self._sock = sock
        self._check = check
        self._eof = False
        sock.setblocking(False)

    def queue(self, data):
        self.outbox += data

    def flush(self, deadline):
        """Sends everything that was queued; reads meanwhile, so that two full sockets cannot wait for each other."""
        while self.outbox and not self.blocked:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"{self.name}: {len(self.outbox)} bytes were not taken in time")
            readers = [] if self._eof else [self._sock]
            readable, writable, _ = select.select(readers, [self._sock], [], left)
            if writable:
                self._write()
            if readable:
                self._read()

    def flood(self, data, limit):
        """Sends `data` again and again until the socket is blocked; returns the bytes that were taken."""
        taken = 0
        while taken <= limit:
            if len(self.outbox) < len(data):
                self.outbox += data
            _, writable, _ = select.select([], [self._sock], [], FLOOD_QUIET)
            if not writable:
                self.blocked = True
                return taken
            before = len(self.outbox)
            self._write()
            taken += before - len(self.outbox)
        return taken

    def next_frame(self, deadline, name=None):
        """The next frame; ambient ones are kept unless `name` asks for them. Raises Closed at the end of the stream."""
        for frame in self.kept:
            if frame.name == name:
                self.kept.remove(frame)
                return frame
        while True:
            frame = pipe1.split(self.inbox)
            if frame is None:
                self._wait(deadline)
                continue
            if frame.flags & pipe1.IGNORABLE and frame.type not in pipe1.NAMES:
                continue
            self._check(frame)
            if frame.name == name or frame.name not in self.AMBIENT:
                return frame
            if frame.name == "PING":
                self.queue(pipe1.encode(pipe1.Frame(pipe1.TYPES["PONG"], 0, 0, frame.payload)))
                self.flush(deadline)
            else:
                self.kept.append(frame)

    def read_bytes(self, count, deadline):
        """The next bytes of a connection that carries no frames (P-41)."""
        while len(self.inbox) < count:
            self._wait(deadline)
        data = bytes(self.inbox[:count])
        del self.inbox[:count]
        return data

    def read_end(self, deadline):
        """Waits for the end of the stream of a connection that carries no frames; returns what came before it."""
        try:
            while True:
                self._wait(deadline)
        except Closed:
            return bytes(self.inbox)

    def shut(self, deadline):
        """Ends this side's direction."""
        self.flush(deadline)
        self._sock.shutdown(socket.SHUT_WR)

    def expect_end(self, deadline):
        """Waits for the end of the stream; a frame that comes instead is the caller's to judge."""
        try:
            return self.next_frame(deadline)
        except Closed:
            return None

    def has_more(self, listener, deadline):
        """Waits for bytes here (True) or for a connection on the listener (False)."""
        while not self.inbox:
            readers = [listener] if self._eof else [listener, self._sock]
            readable, _, _ = select.select(readers, [], [], max(0, deadline - time.monotonic()))
            if not readable:
                raise TimedOut(f"{self.name}: nothing came in time, and no connection")
            if self._sock not in readable:
                return False
            self._read()
        return True

    def close(self):
        self._sock.close()

    def _wait(self, deadline):
        if self._eof:
            raise Closed(f"{self.name}: the peer closed the connection")
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._sock], [], [], left)[0]:
            raise TimedOut(f"{self.name}: nothing came in time")
        self._read()

    def _read(self):
        try:
            data = self._sock.recv(READ_SIZE)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if data:
            self.inbox += data
        else:
            self._eof = True

    def _write(self):
        piece = bytes(self.outbox[: self.chunk or READ_SIZE])
        try:
            sent = self._sock.send(piece)
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            # The peer may close after it has said why; what it said is still to be read.
            self.outbox.clear()
            return
        del self.outbox[:sent]


def listen(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(256)
    return listener


def dial(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(5)
    sock.connect(path)
    return sock
