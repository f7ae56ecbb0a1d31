"""A client of HTTP/2 with prior knowledge: streams by the `h2` package (`make test` installs it), or frames by hand."""

import socket
import ssl
import struct
from collections import defaultdict

import h2.config
import h2.connection
import h2.events
import hpack

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
NO_ERROR, PROTOCOL_ERROR, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 8, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    """RFC 9113 §4.1."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class Answer:
    """What came on one stream."""

    def __init__(self):
        self.fields, self.data, self.trailers, self.interim = [], bytearray(), None, []
        self.ended, self.reset = False, None

    @property
    def body(self):
        """A copy of `data`, which grows as frames come."""
        return bytes(self.data)

    @property
    def status(self):
        return int(self.get(":status") or 0)

    def get(self, name):
        return dict(self.fields).get(name)

    def __repr__(self):
        return f"{self.fields} {self.body[:200]} trailers={self.trailers} reset={self.reset}"


class Client:
    """Streams of one connection, to an address or on a socket. `window=False` gives back nothing of what came."""

    def __init__(self, address, timeout=10.0, window=True):
        self.socket = socket.create_connection(address, timeout) if isinstance(address, tuple) else address
        if self.socket.family != socket.AF_UNIX:  # else a small frame waits for the ACK of the one before, up to 40 ms
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.window, self.goaway, self.closed, self.unread = window, None, False, b""
        self.scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        # What is under test is the other side: this one lets everything out.
        config = h2.config.H2Configuration(
            header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.answers = defaultdict(Answer)
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def begin(self, method, target, fields=(), host="demo.test", end=True, pseudo=()):
        """Sends the head of a request; the number of its stream."""
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", self.scheme), (":path", target)]
        head += [(":authority", host)] if host else []
        self.h2.send_headers(stream, head + list(pseudo) + list(fields), end_stream=end)
        self.flush()
        return stream

    def send(self, stream, data, end=False):
        """Sends data as the windows allow."""
        at = 0
        while at < len(data):
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room <= 0:
                self.turn()
                continue
            self.h2.send_data(stream, data[at : at + room])
            at += room
            self.flush()
        if end:
            self.h2.end_stream(stream)
            self.flush()

    def turn(self):
        """Takes what comes next; False at the end of the connection."""
        try:
            data = self.socket.recv(65_536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.closed = True
            return False
        self.unread += data
        while len(self.unread) >= 9 and len(self.unread) >= 9 + (length := int.from_bytes(self.unread[:3], "big")):
            one, self.unread = self.unread[: 9 + length], self.unread[9 + length :]
            for event in self.h2.receive_data(one):
                self.take(event)
            if self.goaway is not None:  # the package takes no frame behind it, though streams go on (RFC 9113 §6.8)
                self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
        self.flush()
        return True

    def take(self, event):
        answer = self.answers[getattr(event, "stream_id", 0) or 0]
        if isinstance(event, h2.events.ResponseReceived):
            answer.fields = list(event.headers)
        elif isinstance(event, h2.events.InformationalResponseReceived):
            answer.interim.append(dict(event.headers))
        elif isinstance(event, h2.events.DataReceived):
            answer.data += event.data
            if self.window and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            answer.trailers = list(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            answer.ended = True
        elif isinstance(event, h2.events.StreamReset):
            answer.reset = event.error_code
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = event.error_code

    def until(self, done):
        """Takes what comes until something holds, or the connection ends; whether it holds."""
        while not done():
            if self.closed or not self.turn():
                return done()
        return True

    def answer(self, stream):
        """The whole answer on a stream."""
        answer = self.answers[stream]
        self.until(lambda: answer.ended or answer.reset is not None)
        return answer

    def request(self, method, target, fields=(), body=None, **named):
        stream = self.begin(method, target, fields, end=body is None, **named)
        if body is not None:
            self.send(stream, body, end=True)
        return self.answer(stream)


def request_head(target="/show", fields=()):
    return [(":method", "GET"), (":scheme", "http"), (":path", target), (":authority", "demo.test"), *fields]


class Frames:
    """Frames by hand."""

    def __init__(self, address, timeout=10.0, settings=b""):
        self.socket = socket.create_connection(address, timeout)
        self.encoder, self.unread = hpack.Encoder(), b""
        self.send(PREFACE + frame(SETTINGS, payload=settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def head(self, target="/show", fields=()):
        return self.encoder.encode(request_head(target, fields))

    def send(self, data):
        """Whether the other side took it."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def next(self):
        """(kind, flags, stream, payload); None at the end of the connection."""
        while True:
            if len(self.unread) >= 9:
                length = int.from_bytes(self.unread[:3], "big")
                if len(self.unread) >= 9 + length:
                    kind, flags, stream = struct.unpack(">BBI", self.unread[3:9])
                    payload, self.unread = self.unread[9 : 9 + length], self.unread[9 + length :]
                    return kind, flags, stream, payload
            try:
                data = self.socket.recv(65_536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self.unread += data

    def until(self, *kinds, stream):
        """The next of these frames on a stream; None at the end of the connection."""
        while got := self.next():
            if got[0] in kinds and got[2] == stream:
                return got
        return None

    def goaway(self):
        """The error of GOAWAY; None if the connection ends without one."""
        while got := self.next():
            if got[0] == GOAWAY:
                return struct.unpack(">I", got[3][4:8])[0]
        return None
