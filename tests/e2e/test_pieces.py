"""Bodies in chunks of one byte: right to the byte, and gathered on their way, in both directions."""

import hashlib
import unittest

from harness import BINARY, ORIGIN, Gateway, TestCase, config, route, service, setUpModule
from scripted import PIPE

__all__ = ["setUpModule"]

BYTES = 200_000
BODY = bytes(index % 251 for index in range(BYTES))
CHUNKS = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"
# of the chunks that were sent in large writes
MOST = BYTES // 50


class OneByteChunks(TestCase):
    def gateway(self, argv, cache=False, **settings):
        return self.start(Gateway(BINARY, config(service(argv=argv, **settings), route(cache=cache), workers=1)))

    def upload(self, gateway):
        with gateway.client(timeout=120) as client:
            client.send(b"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS)
            return client.answer("POST")

    def assert_gathered(self, pieces):
        self.assertGreater(pieces, 0)
        self.assertLessEqual(pieces, MOST, "the pieces were passed on as they came")

    def test_a_request_over_http(self):
        got = self.assert_json(self.upload(self.gateway(ORIGIN, transport="http")))
        self.assertEqual((got["bytes"], got["sha256"]), (BYTES, hashlib.sha256(BODY).hexdigest()))
        self.assert_gathered(got["pieces"])

    def test_an_answer_over_http(self):
        for cache in (False, "60s"):
            with self.subTest(cache=cache):
                got = self.gateway(ORIGIN, cache, transport="http").get(f"/tiny?bytes={BYTES}", timeout=120)
                self.assert_status(got, 200)
                self.assertTrue(got.body == BODY)
                self.assert_gathered(got.chunks)

    def test_both_over_the_pipe(self):
        got = self.upload(self.gateway(PIPE, env={"MODE": "pieces"}))
        self.assert_status(got, 200)
        frames, _, body = got.body.partition(b" ")
        self.assertTrue(body == BODY)
        self.assert_gathered(int(frames))
        self.assert_gathered(got.chunks)


if __name__ == "__main__":
    unittest.main()
