"""Own and answer connections: bodies both ways, STOP, trailers, cancel (§6, §7, §8 of the specification)."""

import hashlib
import socket
import struct
import unittest

from harness import (
    CANCELLED,
    DATA,
    DRAIN,
    END,
    INTERNAL,
    MORE,
    PING,
    PONG,
    REFUSED,
    RESET,
    RESPONSE,
    STOP,
    TRAILERS,
    GatewayCase,
    frame,
    request,
    reset,
)

ECHO = """
def handle(request):
    def pieces():
        for piece in request.stream():
            yield piece
        yield repr(request.trailers).encode()
    return 200, (), pieces()
pilotlight.serve(handle)
"""


def data(exchange, payload=b"", end=False):
    return frame(DATA, exchange, payload, END if end else 0)


class Own(GatewayCase):
    def test_more_is_kept_within_max_own(self):  # P-23
        connection = self.serve("pilotlight.serve(lambda r: (200, (), ''), max_own=2)")
        self.assertEqual(connection.hello["max_own"], "2")
        connection.send(frame(MORE, 0, struct.pack("<HHI", 1, 5, 4)))
        owns = [self.accept(), self.accept()]
        self.assertEqual([(own.hello["kind"], own.hello["worker"]) for own in owns], [("own", "4")] * 2)
        self.listener.settimeout(0.05)
        self.assertRaises(socket.timeout, self.listener.accept)
        self.listener.settimeout(10)
        owns[0].close()  # an idle one may be closed at any time, and another one asked for
        self.eventually(lambda: self.asked_again(connection))

    def asked_again(self, connection):
        connection.send(frame(MORE, 0, struct.pack("<HHI", 1, 1, 4)))
        self.listener.settimeout(0.05)
        try:
            return self.accept()
        except socket.timeout:
            return None

    def test_both_directions_at_the_same_time(self):  # P-20
        own = self.own(self.serve(ECHO))
        own.send(request(1, body=b"one", end=False))
        first = own.next()
        self.assertEqual((first.kind, first.body, first.end), (RESPONSE, b"one", False))
        own.send(data(1, b"two"))
        self.assertEqual(own.next().payload, b"two")
        own.send(data(1, b""), data(1, b"three"), frame(TRAILERS, 1, b"x-sum\0abc\0"))
        self.assertEqual(own.next().payload, b"three")
        self.assertEqual(own.next().payload, b"[('x-sum', 'abc')]")
        self.assertTrue(own.next().end)
        own.send(request(2, body=b"again", end=True))  # and again on the same connection
        self.assertEqual(own.answer(2)[1], b"again[]")

    def test_a_large_upload_is_read_as_it_comes(self):
        own = self.own(self.demo())
        own.send(request(3, "/upload", method="POST", end=False))
        digest, block = hashlib.sha256(), bytes(range(256)) * 256
        for _ in range(300):
            own.send(data(3, block))
            digest.update(block)
        own.send(data(3, end=True))
        self.assertEqual(own.next().body, b'{"bytes":%d,"sha256":"%s"}' % (300 * 65536, digest.hexdigest().encode()))

    def test_back_pressure_reaches_the_gateway(self):  # P-22
        own = self.own(self.serve("pilotlight.serve(lambda r: time.sleep(60))"))
        own.send(request(1, end=False))
        own.sock.settimeout(0.3)
        sent = 0
        with self.assertRaises(socket.timeout):
            for sent in range(1000):
                own.send(data(1, bytes(65536)))
        self.assertLess(sent, 100)

    def test_back_pressure_reaches_the_generator(self):  # P-22
        own = self.own(
            self.serve(
                """
made = 0
def handle(request):
    def pieces():
        global made
        while True:
            made += 1
            yield bytes(65536)
    return (200, (), str(made)) if request.path == "/made" else (200, (), pieces())
pilotlight.serve(handle)
""",
            )
        )
        shared = self.shared
        own.send(request(1))
        self.assertEqual(own.next().kind, RESPONSE)
        counts = []

        def at_rest():
            shared.send(request(1, "/made"))
            counts.append(int(shared.next().body))
            return len(counts) > 5 and len(set(counts[-5:])) == 1

        self.eventually(at_rest)
        self.assertLess(counts[-1], 100)

    def test_a_request_that_nobody_reads_is_stopped_and_thrown_away(self):  # P-21
        own = self.own(self.demo())
        own.send(request(1, "/early", b"begin", method="POST", end=False))
        self.assertEqual(own.next().kind, STOP)
        answer = own.next()
        self.assertEqual((answer.status, answer.end), (413, True))
        own.send(data(1, bytes(65536)), data(1, bytes(65536)), data(1, end=True), request(2, "/pid"))
        self.assertEqual(own.next().exchange, 2)

    def test_refused_before_the_request_has_come_whole(self):
        own = self.own(self.demo())
        for exchange in (1, 2):
            own.send(request(exchange, "/refuse", b"begin", end=False, headers=[("x-once", str(exchange))]))
            final = own.next()
            self.assertEqual((final.kind, final.code), (RESET, REFUSED))
            own.send(data(exchange, b"rest"), data(exchange, end=True))

    def test_cancel_while_the_handler_reads(self):  # P-26, P-30
        own = self.own(self.demo())
        own.send(request(1, "/upload", method="POST", end=False), data(1, b"part"), reset(1, CANCELLED))
        final = own.next()
        self.assertEqual((final.kind, final.exchange, final.code), (RESET, 1, CANCELLED))
        own.send(reset(1, CANCELLED), request(2, "/pid"))
        self.assertEqual(own.next().exchange, 2)

    def test_cancel_while_the_handler_writes_closes_the_generator(self):
        shared = self.demo()
        own = self.own(shared)
        own.send(request(1, "/wait?id=a"))
        self.assertEqual(own.next().kind, RESPONSE)
        own.send(reset(1, CANCELLED))
        while (last := own.next()).kind == DATA:
            pass
        self.assertEqual((last.kind, last.code), (RESET, CANCELLED))
        shared.send(request(2, "/cancelled?id=a"))
        self.assertEqual(shared.next().body, b'{"cancelled":true}')
        own.send(request(3, "/pid"))
        self.assertEqual(own.next().exchange, 3)

    def test_the_end_of_the_stream_in_an_exchange_is_a_cancel(self):  # P-34
        shared = self.demo()
        own = self.own(shared)
        own.send(request(1, "/wait?id=b"))
        self.assertEqual(own.next().kind, RESPONSE)
        own.close()

        def cancelled():
            shared.send(request(2, "/cancelled?id=b"))
            return shared.next().body == b'{"cancelled":true}'

        self.eventually(cancelled)
        self.assertEqual(self.stderr(), "")

    def test_ping_in_and_between_exchanges(self):  # P-35
        own = self.own(self.demo())
        own.send(frame(PING, 0, b"12345678"))
        self.assertEqual(own.next().kind, PONG)
        own.send(request(1, "/upload", method="POST", end=False), frame(PING, 0, b"abcdefgh"))
        self.assertEqual(own.next().payload, b"abcdefgh")

    def test_drain_waits_for_an_open_upload(self):  # P-31
        shared = self.demo()
        own = self.own(shared)
        own.send(request(1, "/upload", b"a", method="POST", end=False), frame(PING, 0, b"12345678"))
        self.assertEqual(own.next().kind, PONG)  # the upload has begun
        shared.send(frame(DRAIN, 0, struct.pack("<I", 1000)), frame(PING, 0, b"12345678"))
        self.assertEqual(shared.next().kind, PONG)
        own.send(data(1, b"b", end=True))
        self.assertIn(b'"bytes":2', own.next().body)
        self.assertEqual(self.exit_code(), 0)

    def own(self, shared, worker=0):
        self.shared = shared
        return super().own(shared, worker)


class Answer(GatewayCase):
    def test_a_large_answer_takes_an_answer_connection_that_is_used_again(self):  # P-24, P-25
        shared = self.demo()
        known, expected = [], bytes((i * 31 + 7) % 251 for i in range(200000))
        for exchange in range(1, 21):
            shared.send(request(exchange, "/download?bytes=200000"))
            first, body, _ = self.answer_connection(known).answer(exchange)
            self.assertIn(("content-length", "200000"), first.headers)
            self.assertEqual(body, expected)
        self.assertEqual((known[0].hello["kind"], known[0].hello["worker"]), ("answer", "0"))
        self.assertLess(len(known), 10)
        self.assertTrue(shared.quiet())

    def test_bytes_of_more_than_a_frame_are_streamed(self):
        shared = self.serve("pilotlight.serve(lambda r: (200, (), b'ab' * 100_000))")
        shared.send(request(1))
        self.assertEqual(self.accept().answer(1)[1], b"ab" * 100_000)

    def test_what_just_fits_stays_on_the_shared_connection(self):
        shared = self.serve("pilotlight.serve(lambda r: (200, [('a', 'b')], bytes(65536 - 8 - 4)))")
        shared.send(request(1))
        answer = shared.next()
        self.assertEqual((len(answer.payload), answer.end), (65536, True))

    def test_a_closed_answer_connection_is_not_used_again(self):
        shared = self.demo()
        for exchange in (1, 2):
            shared.send(request(exchange, "/slow?chunks=2&ms=1"))
            answers = self.accept()
            self.assertEqual(answers.answer(exchange)[1], b"chunk 0\nchunk 1\n")
            answers.close()

    def test_a_stream_arrives_piece_by_piece(self):
        shared = self.serve(
            """
def handle(request):
    def pieces():
        yield b"first"
        sys.stdin.readline()
        yield b""
        yield "no bytes"
    return 200, (), pieces()
pilotlight.serve(handle)
"""
        )
        shared.send(request(1))
        answers = self.accept()
        self.assertEqual(answers.next().body, b"first")
        self.process.stdin.write(b"\n")
        last = answers.next()
        self.assertEqual((last.kind, last.code), (RESET, INTERNAL))  # and an error in the middle cuts the answer
        shared.send(request(1))
        self.assertEqual(self.answer_connection([answers]).next().body, b"first")  # P-30

    def test_cancel_of_an_answer_on_its_own_connection(self):  # P-26: the RESET comes where the REQUEST came
        shared = self.demo()
        shared.send(request(1, "/wait?id=c"))
        answers = self.accept()
        self.assertEqual(answers.next().kind, RESPONSE)
        shared.send(reset(1, CANCELLED))
        while (last := answers.next()).kind == DATA:
            pass
        self.assertEqual((last.kind, last.code), (RESET, CANCELLED))
        shared.send(request(2, "/cancelled?id=c"))
        self.assertEqual(shared.next().body, b'{"cancelled":true}')

    def test_streams_take_no_threads_from_the_others(self):
        shared = self.serve(
            """
def ticks():
    while True:
        yield b"tick"
        time.sleep(0.01)
pilotlight.serve(lambda r: (200, (), ticks() if r.path == "/wait" else "quick"), threads=2)
"""
        )
        shared.send(*(request(exchange, "/wait") for exchange in range(1, 9)))
        streams = [self.accept() for _ in range(8)]
        for stream in streams:
            self.assertEqual(stream.next().kind, RESPONSE)
        shared.send(request(9, "/quick"))
        self.assertEqual(shared.next().body, b"quick")
        shared.send(*(reset(exchange, CANCELLED) for exchange in range(1, 9)))
        for stream in streams:
            while (last := stream.next()).kind == DATA:
                pass
            self.assertEqual(last.code, CANCELLED)
        shared.send(request(9, "/quick"))
        self.assertEqual(shared.next().body, b"quick")

    def test_trailers(self):  # P-20
        shared = self.serve(
            """
bodies = {"/whole": b"body", "/stream": iter([b"bo", b"", b"dy"]), "/empty": []}
pilotlight.serve(lambda r: (200, (), bodies[r.path], [("x-trailer", "yes")]))
"""
        )
        known = []
        for exchange, (path, body) in enumerate((("/whole", b"body"), ("/stream", b"body"), ("/empty", b"")), 1):
            shared.send(request(exchange, path))
            answers = self.answer_connection(known)
            self.assertEqual(answers.answer(exchange)[1:], (body, [("x-trailer", "yes")]))

    def test_refused_in_the_middle_is_an_error(self):  # P-29: it is not true any more
        shared = self.serve(
            """
def pieces():
    yield b"begun"
    raise pilotlight.Refused
pilotlight.serve(lambda r: (200, (), pieces()))
"""
        )
        shared.send(request(1))
        answers = self.accept()
        self.assertEqual(answers.next().body, b"begun")
        final = answers.next()
        self.assertEqual((final.kind, final.code), (RESET, INTERNAL))

    def test_an_answer_connection_that_is_refused_ends_its_exchange_only(self):
        shared = self.demo()
        shared.send(request(1, "/wait?id=d"))
        answers = self.accept(welcome=False)
        answers.send(frame(RESET, 0, struct.pack("<HHI", 6, 0, 0) + b"no"))
        answers.close()

        def cancelled():
            shared.send(request(2, "/cancelled?id=d"))
            while (answer := shared.next()).exchange != 2:
                pass
            return answer.body == b'{"cancelled":true}'

        self.eventually(cancelled)


if __name__ == "__main__":
    unittest.main()
