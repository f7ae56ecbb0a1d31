"""`compress` of a route: answers in the coding that a client takes, once for all (docs/guide/compression.md)."""

import gzip
import os
import tempfile
import time
import unittest
import zlib
from pathlib import Path

import brotli
import zstandard
from harness import BINARY, IS_LONG, Gateway, TestCase, config, rss_kib, service, setUpModule
from origin import Origin, numbered_lines
from test_cache import make

__all__ = ["setUpModule"]

BROWSER = "gzip, deflate, br, zstd"
TYPE = "Content-Type: text/plain"
FRESH = "Cache-Control: max-age=60"


def text(*fields, **arguments):
    return make(*fields, path=arguments.pop("path", "/text"), **arguments)


def expected(size=10_000):
    return numbered_lines(size)


def decoded(answer):
    match answer.get("content-encoding"):
        case None:
            return answer.body
        case "gzip":
            return gzip.decompress(answer.body)
        case "br":
            return brotli.decompress(answer.body)
        case "zstd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(answer.body)


class CompressCase(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.origin = cls.enterClassContext(Origin())
        routes = [
            '[[routes]]\npath = "/"\nservice = "web"\ncompress = true\n',
            '[[routes]]\npath = "/off"\nservice = "web"\n',
            '[[routes]]\npath = "/never"\nservice = "web"\ncompress = true\ncache = false\n',
            '[[routes]]\npath = "/own"\nservice = "web"\n'
            'compress = { types = ["image/*"], min_size = "20B", algorithms = ["gzip"] }\n',
        ]
        cls.gateway = cls.share(Gateway(BINARY, config(service("web", url=cls.origin.url), *routes)))

    def setUp(self):
        super().setUp()
        self.origin.forget()

    def text(self, *fields, **arguments):
        """A target that no other test requests, so that what is stored for one is not there for another."""
        return text(*fields, test=self._testMethodName, **arguments)

    def get(self, target, accept=BROWSER, fields=(), method="GET"):
        accepts = [("Accept-Encoding", accept)] if accept is not None else []
        return self.gateway.request(method, target, [*accepts, *fields])

    def asked(self, path):
        return len(self.origin.requests(path))


class Chosen(CompressCase):
    def test_by_weight(self):
        for accept, coding in [
            (BROWSER, "zstd"), ("gzip, br", "br"), ("gzip", "gzip"), ("br;q=0.5, gzip", "gzip"), ("*", "zstd"),
            ("deflate", None), (None, None), ("", None), ("gzip;q=0", None),
            ("identity, gzip;q=0.5", None), ("zstd;q=0, *;q=0.1", "br"),
        ]:  # fmt: skip
            for path in ("/never/text", "/text"):
                with self.subTest((accept, path)):
                    answer = self.get(self.text(TYPE, FRESH, path=path), accept)
                    self.assertEqual(answer.get("content-encoding"), coding)
                    self.assertEqual(answer.get("vary"), "accept-encoding")
                    self.assertEqual(decoded(answer), expected())

    def test_what_stays_as_it_is(self):
        for target in (
            self.text("Content-Type: image/png"), self.text(TYPE, "Content-Encoding: other"),
            self.text(TYPE, "Cache-Control: no-transform"), self.text(TYPE, bytes=1023),
            self.text(TYPE, status=206, path="/make"), self.text(path="/off/text"), self.text(),
            self.text(TYPE, "Content-Digest: sha-256=:AA==:"), self.text(TYPE, path="/own/text"),
        ):  # fmt: skip
            with self.subTest(target):
                answer = self.get(target)
                self.assertIn(answer.get("content-encoding"), (None, "other"))
                self.assertIsNone(answer.get("vary"))
                self.assertIsNotNone(answer.get("content-length"))
        own = self.get(self.text("Content-Type: image/png", path="/own/text"), BROWSER)
        self.assertEqual((own.get("content-encoding"), decoded(own)), ("gzip", expected()))

    def test_what_a_client_does_not_want_transformed(self):
        answer = self.get(self.text(TYPE), fields=[("Cache-Control", "no-transform")])
        self.assertEqual((answer.get("content-encoding"), answer.body), (None, expected()))

    def test_a_length_that_is_not_known(self):
        for size in (1, 10_000, 3_000_000):
            answer = self.get(self.text(TYPE, bytes=size, chunked=1, path="/never/text"))
            self.assertEqual((answer.get("content-encoding"), decoded(answer) == expected(size)), ("zstd", True))
            self.assertIsNone(answer.get("content-length"))

    def test_heads_are_those_of_get(self):
        for path in ("/never/text", "/text"):
            for _ in range(2):
                target = self.text(TYPE, 'ETag: "a"', FRESH, path=path)
                head, get = (self.get(target, method=method) for method in ("HEAD", "GET"))
                for name in ("content-encoding", "vary", "etag", "content-type", "accept-ranges"):
                    self.assertEqual(head.get(name), get.get(name), (path, name))
                self.assertEqual((head.get("content-encoding"), head.body), ("zstd", b""))

    def test_the_service_sees_one_coding(self):
        for accept, seen in ((BROWSER, "zstd"), ("deflate", "identity"), (None, "identity"), ("gzip, br", "br")):
            self.get("/never/show", accept)
            fields = dict((name.lower(), value) for name, value in self.origin.seen[-1][2])
            self.assertEqual(fields["accept-encoding"], seen)
        self.get("/off/show", BROWSER)
        self.assertEqual(dict(self.origin.seen[-1][2])["accept-encoding"], BROWSER)


class Streams(CompressCase):
    def test_events_arrive_when_they_happen(self):
        for accept, decoder in (
            ("gzip", zlib.decompressobj(31).decompress), ("br", brotli.Decompressor().process),
            ("zstd", zstandard.ZstdDecompressor().decompressobj().decompress),
        ):  # fmt: skip
            self.origin.gate.clear()
            with self.subTest(accept), self.gateway.client() as client:
                client.send_head("GET", "/never/events", [("Accept-Encoding", accept)])
                answer = client.head()
                self.assertEqual(answer.get("content-encoding"), accept)
                pieces, got = client.body(answer), b""
                while got != b"data: one\n\n":
                    got += decoder(next(pieces))
                self.origin.gate.set()
                got += b"".join(map(decoder, pieces))
                self.assertEqual(got, b"data: one\n\ndata: two\n\n")

    def test_a_large_body_in_bounded_memory(self):
        self.get(self.text(TYPE, path="/never/text"))
        size = 30_000_000 if IS_LONG else 10_000_000
        before = rss_kib(self.gateway)
        for accept in ("gzip", "br", "zstd"):
            answer = self.get(self.text(TYPE, bytes=size, path="/never/text"), accept)
            self.assertEqual(decoded(answer) == expected(size), True)
        self.assertLess(rss_kib(self.gateway) - before, size * 0.8 / 1024, "KiB more: nearly a whole body")

    def test_a_cut_answer_is_not_whole(self):
        with self.gateway.client() as client:
            client.send_head("GET", "/never/wait", [("Accept-Encoding", "gzip")])
            self.assert_status(client.head(), 200)
        self.assert_eventually(lambda: self.origin.gone > 0, "the service is told that the client has gone")


class Stored(CompressCase):
    def test_one_variant_for_each_coding(self):
        target = self.text(TYPE, FRESH)
        first = self.get(target, BROWSER)
        for accept in (BROWSER, "zstd", "gzip, zstd", "*;q=0.5", "br;q=0.2, zstd;q=0.3"):
            again = self.get(target, accept)
            self.assertIn("hit", again.get("cache-status"))
            self.assertEqual((again.body, again.get("content-encoding")), (first.body, "zstd"))
        self.assertEqual(self.asked("/text"), 1)
        for accept in ("gzip", "br", None, "gzip", "br", "", "deflate"):
            self.assertEqual(decoded(self.get(target, accept)), expected())
        self.assertEqual(self.asked("/text"), 4)

    def test_hits_among_others_on_one_connection(self):
        target = self.text(TYPE, FRESH)
        for accept in ("gzip", "br", "identity"):
            self.get(target, accept)
        with self.gateway.client() as client:
            for _ in range(5):
                for accept in ("gzip", "br", "identity"):
                    client.send_head("GET", target, [("Accept-Encoding", accept)])
            for _ in range(5):
                for coding in ("gzip", "br", None):
                    answer = client.answer()
                    self.assertEqual((answer.get("content-encoding"), decoded(answer)), (coding, expected()))
        self.assertEqual(self.asked("/text"), 3)

    def test_conditions_of_clients(self):
        target = self.text(TYPE, FRESH, 'ETag: "a"')
        answer = self.get(target, "gzip")
        self.assertEqual(answer.get("etag"), 'W/"a"')
        for condition in ('W/"a"', '"a"', '"b", W/"a"'):
            same = self.get(target, "gzip", [("If-None-Match", condition)])
            self.assertEqual((same.status, same.get("etag"), same.get("vary")), (304, 'W/"a"', "accept-encoding"))
        self.assertEqual(self.get(target, None).get("etag"), '"a"')
        self.assert_status(self.get(target, "gzip", [("If-None-Match", '"b"')]), 200)

    def test_what_is_stale_is_validated_by_the_service(self):
        target = self.text(TYPE, "Cache-Control: max-age=1", 'ETag: "a"', validate=1)
        first = self.get(target, "gzip")
        time.sleep(2.1)  # its lifetime
        again = self.get(target, "gzip")
        self.assertEqual(decoded(again), expected())
        self.assertEqual((again.body, again.get("etag"), again.get("vary")), (first.body, 'W/"a"', "accept-encoding"))
        fields = dict((name.lower(), value) for name, value in self.origin.seen[-1][2])
        self.assertEqual(fields.get("if-none-match"), 'W/"a"')
        self.assertIn("fwd-status=304", again.get("cache-status"))

    def test_conditions_that_go_to_the_service(self):
        target = self.text(TYPE, 'ETag: "a"', validate=1, path="/never/text")
        self.assertEqual(self.get(target, "gzip").get("etag"), 'W/"a"')
        same = self.get(target, "gzip", [("If-None-Match", 'W/"a"')])
        self.assertEqual((same.status, same.get("etag")), (304, 'W/"a"'))

    def test_parts_are_of_what_was_not_encoded(self):
        target = self.text(TYPE, FRESH)
        self.get(target, "gzip")
        self.get(target, None)
        part = self.get(target, "gzip", [("Range", "bytes=5-9")])
        self.assertEqual((part.status, part.get("content-encoding"), part.body), (206, None, expected()[5:10]))


class Files(TestCase):
    def test_small_files_are_encoded_once(self):
        with tempfile.TemporaryDirectory(prefix="pilotlight-files-") as folder:
            for name, content in {
                "a.txt": expected(), "b.txt": expected(100), "c.png": expected(), "d.txt": expected(100_000),
                "e.txt": expected(), "e.txt.gz": b"its neighbour",
            }.items():  # fmt: skip
                path = Path(folder) / name
                path.write_bytes(content)
                os.utime(path, (1e9, 1e9))
            route = f'[[routes]]\npath = "/"\nfiles = "{folder}"\ncompress = true\n'
            gateway = self.start(Gateway(BINARY, config(route)))
            tags = set()
            for name, accept, coding in [
                ("a.txt", BROWSER, "zstd"), ("a.txt", "gzip, br", "br"), ("a.txt", "gzip", "gzip"), ("a.txt", "", None),
                ("b.txt", BROWSER, None), ("c.png", BROWSER, None), ("d.txt", BROWSER, None), ("e.txt", "br", "br"),
            ]:  # fmt: skip
                answer = gateway.get(f"/{name}", [("Accept-Encoding", accept)])
                self.assertEqual(answer.get("content-encoding"), coding, name)
                self.assertEqual(decoded(answer), (Path(folder) / name).read_bytes(), name)
                self.assertEqual(answer.get("content-length"), str(len(answer.body)))
                self.assertEqual(answer.get("vary"), "accept-encoding" if name in ("a.txt", "e.txt") else None)
                tags.add(answer.get("etag"))
                # What was encoded here may be encoded otherwise by the next version (RFC 9110 §8.8.1).
                self.assertEqual(answer.get("etag").startswith("W/"), coding is not None, name)
                same = gateway.get(f"/{name}", [("Accept-Encoding", accept), ("If-None-Match", answer.get("etag"))])
                self.assert_status(same, 304)
            self.assertEqual(len(tags), 8)
            self.assertEqual(gateway.get("/e.txt", [("Accept-Encoding", BROWSER)]).body, b"its neighbour")


if __name__ == "__main__":
    unittest.main()
