"""What the gateway must not send: RESET(PROTOCOL) that names the rule, and the end of the connection (P-10)."""

import struct
import unittest

from harness import (
    DATA,
    DRAIN,
    END,
    HELLO,
    IGNORABLE,
    LOG,
    MORE,
    PROTOCOL,
    REQUEST,
    RESET,
    RESPONSE,
    STOP,
    TRAILERS,
    WELCOME,
    GatewayCase,
    frame,
    head,
    request,
)

WHOLE = head()
SIZE = len(WHOLE) - 8
SHARED = {
    "longer than max_frame": ("P-6", struct.pack("<IBBH", 65537, REQUEST, END, 1)),
    "longer than any memory": ("P-6", struct.pack("<IBBH", 0xFFFFFFFF, REQUEST, END, 1)),
    "unknown type": ("P-7", frame(99, 1, b"x")),
    "type 0": ("P-7", frame(0)),
    "no final zero byte": ("P-8", frame(REQUEST, 1, WHOLE[:-1] + b"x", END)),
    "odd number of strings": ("P-8", frame(REQUEST, 1, struct.pack("<II", SIZE + 2, 0) + WHOLE[8:] + b"x\0", END)),
    "too few strings": ("P-8", frame(REQUEST, 1, struct.pack("<II", 4, 0) + b"GET\0", END)),
    "head longer than the payload": ("P-8", frame(REQUEST, 1, struct.pack("<II", SIZE + 1, 0) + WHOLE[8:], END)),
    "head_length near the limit of u32": ("P-8", frame(REQUEST, 1, struct.pack("<II", 0xFFFFFFFF, 0) + WHOLE[8:], END)),
    "no whole head": ("P-11", frame(REQUEST, 1, b"1234567", END)),
    "REQUEST without END": ("P-14", frame(REQUEST, 1, WHOLE)),
    "exchange 0": ("P-15", frame(REQUEST, 0, WHOLE, END)),
    "id in use": ("P-15", request(1, "/sleep?ms=5000") + request(1, "/pid")),
    "too many at once": ("P-14", b"".join(request(i, "/sleep?ms=5000") for i in range(1, 66))),
    "DATA": ("P-11", frame(DATA, 1, b"x")),
    "TRAILERS": ("P-11", frame(TRAILERS, 1, b"")),
    "second WELCOME": ("P-11", frame(WELCOME, 0, b"PIPE/1\nworker=0\nmax_frame=65536\n")),
    "HELLO": ("P-11", frame(HELLO, 0, b"PIPE/1\n")),
    "RESPONSE": ("P-11", frame(RESPONSE, 1, struct.pack("<IHH", 0, 200, 0), END)),
    "STOP": ("P-11", frame(STOP, 1)),
    "LOG": ("P-11", frame(LOG, 0, b"\1x")),
    "RESET too short": ("P-11", request(1, "/sleep?ms=5000") + frame(RESET, 1, b"1234567")),
    "MORE too short": ("P-11", frame(MORE, 0, b"1234567")),
    "MORE of an unknown kind": ("P-11", frame(MORE, 0, struct.pack("<HHI", 3, 1, 0))),
}
OWN = {
    "DATA before REQUEST": ("P-11", frame(DATA, 1, b"x")),
    "DATA for another exchange": ("P-11", request(1, "/upload", end=False) + frame(DATA, 2, b"x")),
    "DATA after END": ("P-11", request(1, "/sleep?ms=100") + frame(DATA, 1, b"x")),
    "REQUEST in an exchange": ("P-19", request(1, "/upload", end=False) + request(2, "/upload")),
    "malformed trailers": ("P-8", request(1, "/upload", end=False) + frame(TRAILERS, 1, b"a\0")),
    "MORE": ("P-11", frame(MORE, 0, struct.pack("<HHI", 1, 1, 0))),
    "DRAIN": ("P-11", frame(DRAIN, 0, b"\0\0\0\0")),
    "longer than max_frame": ("P-6", request(1, "/upload", end=False) + struct.pack("<IBBH", 70000, DATA, 0, 1)),
}
FIRST = {
    "not WELCOME": ("P-11", request(1)),
    "another version": ("P-3", frame(WELCOME, 0, b"PIPE/2\nworker=0\nmax_frame=65536\n")),
    "no worker": ("P-3", frame(WELCOME, 0, b"PIPE/1\nmax_frame=65536\n")),
    "max_frame is no number": ("P-11", frame(WELCOME, 0, b"PIPE/1\nworker=0\nmax_frame=x\n")),
    "longer than a WELCOME may be": ("P-6", struct.pack("<IBBH", 4097, WELCOME, 0, 0)),
}


class Violations(GatewayCase):
    def broken(self, connection, rule):
        """Reads up to RESET(PROTOCOL) on exchange 0, then the end."""
        while (final := connection.next()) is not None and (final.kind, final.exchange) != (RESET, 0):
            pass
        self.assertIsNotNone(final)
        self.assertEqual((final.kind, final.exchange, final.code), (RESET, 0, PROTOCOL))
        self.assertTrue(final.text.startswith(rule + ":"), final.text)
        self.assertIsNone(connection.next())

    def test_on_a_shared_connection(self):
        for name, (rule, data) in SHARED.items():
            with self.subTest(name):
                connection = self.demo()
                connection.send(data)
                self.broken(connection, rule)
                self.assertEqual(self.exit_code(), 1)
                self.assertIn(rule, self.stderr())

    def test_on_an_own_connection_the_others_live_on(self):
        shared = self.demo()
        for name, (rule, data) in OWN.items():
            with self.subTest(name):
                own = self.own(shared)
                own.send(data)
                self.broken(own, rule)
        shared.send(request(1, "/pid"))
        self.assertEqual(shared.next().status, 200)

    def test_on_an_answer_connection_the_others_live_on(self):
        shared = self.demo()
        shared.send(request(1, "/wait?id=x"))
        answers = self.accept()
        answers.send(request(2))
        self.broken(answers, "P-11")  # and P-25
        shared.send(request(2, "/pid"))
        while (answer := shared.next()).exchange != 2:  # or RESET for 1, if none of its answer had been sent
            self.assertEqual((answer.kind, answer.exchange), (RESET, 1))
        self.assertEqual(answer.status, 200)

    def test_the_first_frame(self):
        for name, (rule, data) in FIRST.items():
            with self.subTest(name):
                self.start(None, __file__.replace("tests/test_violations", "demo"))
                connection = self.accept(welcome=False)
                connection.send(data)
                self.broken(connection, rule)

    def test_what_may_be_ignored_is(self):  # P-7, P-12
        connection = self.demo()
        connection.send(frame(99, 5, b"anything", IGNORABLE), frame(0, 0, b"", IGNORABLE), request(1, "/pid"))
        self.assertEqual(connection.next().exchange, 1)
        connection.send(frame(REQUEST, 2, head("/pid"), END | 0x7E))  # unknown flag bits
        self.assertEqual(connection.next().exchange, 2)

    def test_a_larger_max_frame_of_the_gateway_is_taken(self):
        self.start(None, __file__.replace("tests/test_violations", "demo"))
        connection = self.accept(welcome=False)
        connection.welcome(max_frame=200_000)
        connection.send(request(1, "/echo", bytes(150_000), method="POST"))
        answers = self.accept()
        self.assertEqual(len(answers.answer(1)[1]), 150_000)


if __name__ == "__main__":
    unittest.main()
