"""Tests of what `shared_limit.py` counts; none needs a server."""
import socket
import unittest
from types import SimpleNamespace

import shared_limit
from programs import Failed

OPTIONS = SimpleNamespace(windows=3)


class Counting(unittest.TestCase):
    def test_windows_begin_with_the_first(self):
        times = [7.5, 7.6, 8.4999, 8.5, 9.6, 10.4, 10.6]
        self.assertEqual(shared_limit.windows_of(times, OPTIONS), [3, 1, 2])
        self.assertEqual(shared_limit.windows_of([], OPTIONS), [0, 0, 0])

    def test_most_in_any_second(self):
        self.assertEqual(shared_limit.most_in_a_second([0, 0.9, 1.0, 1.1, 1.8, 1.85]), 5)
        self.assertEqual(shared_limit.most_in_a_second([0, 1, 2]), 1)

    def test_what_is_let_in(self):
        self.assertEqual(shared_limit.let_in([(1, 308), (2, 429), (3, 200)]), [1, 3])
        with self.assertRaisesRegex(Failed, "503"):
            shared_limit.let_in([(1, 308), (2, 503)])

    def test_what_the_script_writes(self):
        line = b'+1700000000.123456 [0 lua] "SET" "pilotlight:rate:1:AAAA" "1700000000.133456000" "PX" "10"\r\n'
        self.assertEqual(shared_limit.Admissions.WRITES.match(line)[1], b"1700000000.123456")
        for other in (line.replace(b"SET", b"GET"), line.replace(b"0 lua", b"0 127.0.0.1:1")):
            self.assertIsNone(shared_limit.Admissions.WRITES.match(other))

    def test_answers_in_pieces(self):
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        connection = shared_limit.Connection.__new__(shared_limit.Connection)
        connection.socket, connection.unread = theirs, b""
        text = b"HTTP/1.1 308 X\r\nLocation: /\r\ncontent-length: 0\r\n\r\n"
        text += b"HTTP/1.1 429 Y\r\nContent-Length: 3\r\n\r\nabc"
        found = []
        for at in range(0, len(text), 7):
            ours.sendall(text[at:at + 7])
            found += connection.statuses()
        self.assertEqual(found, [308, 429])
        ours.shutdown(socket.SHUT_WR)
        with self.assertRaisesRegex(Failed, "closed"):
            connection.statuses()
        theirs.close()


if __name__ == "__main__":
    unittest.main()
