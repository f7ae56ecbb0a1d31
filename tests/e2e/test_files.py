"""`files` of a route: what of a folder is answered, and how (docs/guide/files.md)."""

import gzip
import json
import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from harness import BINARY, Cut, Gateway, TestCase, config, eventually, rss_kib, service, setUpModule
from origin import Origin

__all__ = ["setUpModule"]

LARGE = bytes(range(256)) * 8192  # 2 MiB, and no piece of it like another one's place


def route(path="/", **files):
    values = ", ".join(f"{name} = {json.dumps(value)}" for name, value in files.items())
    return f'[[routes]]\npath = "{path}"\nfiles = {{ {values} }}\n'


class FilesCase(TestCase):
    """A folder that the tests of a class share: a test that changes a file has one for itself."""

    @classmethod
    def setUpClass(cls):
        cls.root = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="pilotlight-files-"))) / "root"
        cls.root.mkdir()
        cls.write("index.html", "<h1>home</h1>")
        cls.write("docs/index.html", "<h1>docs</h1>")
        cls.write("docs/a b/é.txt", "text")
        cls.write("assets/app-3f2a9c1b.js", "let a = 1;" * 1000)
        cls.write("assets/app.js", "let b = 2;" * 1000)
        cls.write("assets/data.json", "{}")
        cls.write("empty/.keep", "")
        cls.write("large.bin", LARGE)
        cls.write("zero.txt", "")

    @classmethod
    def write(cls, name, content, age=3600):
        path = cls.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_bytes(content if isinstance(content, bytes) else content.encode())
        then = time.time() - age
        os.utime(new, (then, then))
        new.rename(path)
        return path

    @classmethod
    def share_files(cls):
        """Shares a gateway that serves the folder on `/`."""
        cls.gateway = cls.share(Gateway(BINARY, config(route(root=str(cls.root)))))

    def serve(self, path="/", *more, **files):
        """Starts a gateway for this test only."""
        self.gateway = self.start(Gateway(BINARY, config(route(path, root=str(self.root), **files), *more)))
        return self.gateway


class Whole(FilesCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.share_files()

    def test_types_bodies_and_lengths(self):
        gateway = self.gateway
        for target, kind, name in [
            ("/", "text/html; charset=utf-8", "index.html"),
            ("/index.html", "text/html; charset=utf-8", "index.html"),
            ("/docs/", "text/html; charset=utf-8", "docs/index.html"),
            ("/docs/a%20b/%C3%A9.txt", "text/plain; charset=utf-8", "docs/a b/é.txt"),
            ("/assets/app.js", "text/javascript; charset=utf-8", "assets/app.js"),
            ("/assets/data.json?v=1", "application/json", "assets/data.json"),
            ("/large.bin", "application/octet-stream", "large.bin"),
            ("/zero.txt", "text/plain; charset=utf-8", "zero.txt"),
        ]:
            with self.subTest(target), gateway.client() as client:
                for method in ("GET", "HEAD", "GET"):
                    answer = client.request(method, target)
                    self.assert_status(answer, 200)
                    expected = (self.root / name).read_bytes()
                    self.assertEqual(answer.body, b"" if method == "HEAD" else expected)
                    self.assertEqual(answer.get("content-length"), str(len(expected)))
                    self.assertEqual(answer.get("content-type"), kind)
                    self.assertEqual(answer.get("accept-ranges"), "bytes")
                    self.assertTrue(answer.get("last-modified") and answer.get("etag") and answer.get("date"))
                    self.assertIsNone(answer.get("vary"))

    def test_folders(self):
        gateway = self.gateway
        moved = gateway.get("/docs?a=1&b=%2F")
        self.assert_status(moved, 308)
        self.assertEqual(moved.get("location"), "/docs/?a=1&b=%2F")
        for target in ("/empty/", "/docs/a%20b/", "/assets/", "/index.html/", "/nothing", "/nothing/", "/a/b/c.js"):
            with self.subTest(target):
                self.assert_problem(gateway.get(target), 404)

    def test_below_a_route(self):
        gateway = self.serve("/static")
        self.assertEqual(gateway.get("/static/zero.txt").status, 200)
        self.assertEqual(gateway.get("/static").get("location"), "/static/")
        self.assertEqual(gateway.get("/static/").body, b"<h1>home</h1>")
        for target in ("/", "/staticzero.txt", "/static/../static/zero.txt", "/static/x/../zero.txt"):
            with self.subTest(target):
                self.assert_problem(gateway.get(target), 404)

    def test_methods(self):
        def with_body(method, target, body):
            # In one piece: an answer that comes before the body closes the connection.
            client.send(f"{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            return client.answer(method)

        with self.gateway.client() as client:
            options = client.request("OPTIONS", "/zero.txt")
            self.assert_status(options, 204)
            self.assertEqual(options.get("allow"), "GET, HEAD, OPTIONS")
            for method in ("POST", "PUT", "DELETE", "PATCH", "PROPFIND"):
                refused = with_body(method, "/zero.txt", "x")
                self.assert_problem(refused, 405)
                self.assertEqual(refused.get("allow"), "GET, HEAD, OPTIONS")
            # A body that nobody asked for does not become a request.
            self.assertEqual(with_body("GET", "/assets/data.json", "GET / HTTP/1.1\r\n\r\n").body, b"{}")
            self.assertEqual(client.request("GET", "/assets/data.json").body, b"{}")

    def test_broken_paths(self):
        gateway = self.gateway
        for target in ("/%zz", "/%", "/%ff", "/%C3"):
            with self.subTest(target):
                self.assert_problem(gateway.get(target), 400)

    def test_what_the_gateway_must_not_read(self):
        path = self.write("secret.txt", "x")
        path.chmod(0)
        gateway = self.gateway
        if os.geteuid() == 0:
            self.assert_status(gateway.get("/secret.txt"), 200)  # root reads everything
        else:
            self.assert_problem(gateway.get("/secret.txt"), 403)

    def test_cache_control(self):
        gateway = self.start(Gateway(BINARY, config(
            f'[[routes]]\npath = "/"\n[routes.files]\nroot = "{self.root}"\n'
            'cache_control = { "docs/*" = "max-age=60", "docs/a*" = "no-store" }\n')))  # fmt: skip
        for target, expected in [
            ("/", "no-cache"), ("/assets/app.js", None), ("/docs/", "max-age=60"),
            ("/docs/a%20b/%C3%A9.txt", "no-store"),
            ("/assets/app-3f2a9c1b.js", "public, max-age=31536000, immutable"),
        ]:  # fmt: skip
            with self.subTest(target):
                self.assertEqual(gateway.get(target).get("cache-control"), expected)

    def test_pipelined_and_beside_a_service(self):
        with Origin() as origin:
            gateway = self.start(Gateway(BINARY, config(
                route("/files", root=str(self.root)), service("web", url=origin.url),
                '[[routes]]\npath = "/"\nservice = "web"\n')))  # fmt: skip
            with gateway.client() as client:
                for _ in range(3):
                    client.send_head("GET", "/files/assets/data.json")
                    client.send_head("GET", "/make?field=Cache-Control%3A%20max-age%3D60")
                    client.send_head("GET", "/files/large.bin")
                for _ in range(3):
                    self.assertEqual(client.answer().body, b"{}")
                    self.assert_status(client.answer(), 200)
                    self.assertEqual(client.answer().body, LARGE)


class Conditions(FilesCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.share_files()

    def test_not_modified(self):
        gateway = self.gateway
        first = gateway.get("/assets/app.js")
        etag, date = first.get("etag"), first.get("last-modified")
        self.assertFalse(etag.startswith("W/"), etag)
        with gateway.client() as client:
            same = f'"x", W/{etag}'
            for fields in [("If-None-Match", etag)], [("If-None-Match", same)], [("If-Modified-Since", date)]:
                for method in ("GET", "HEAD"):
                    answer = client.request(method, "/assets/app.js", fields)
                    self.assert_status(answer, 304)
                    self.assertEqual((answer.get("etag"), answer.body), (etag, b""))
                    self.assertIsNone(answer.get("content-type"))
            for fields in [("If-None-Match", '"x"')], [("If-Modified-Since", "Thu, 01 Jan 1970 00:00:01 GMT")]:
                self.assert_status(client.request("GET", "/assets/app.js", fields), 200)
            for fields in [("If-Match", '"x"')], [("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:01 GMT")]:
                self.assert_status(client.request("GET", "/assets/app.js", fields), 412)
            self.assert_status(client.request("GET", "/assets/app.js", [("If-Match", etag)]), 200)

    def test_a_file_that_was_just_written_has_a_weak_tag(self):
        self.write("new.txt", "new", age=0)
        gateway = self.gateway
        self.assertTrue(gateway.get("/new.txt").get("etag").startswith('W/"'))
        strong = lambda: gateway.get("/new.txt").get("etag").startswith('"')  # noqa: E731
        self.assertTrue(eventually(strong, 10))

    def test_a_change_is_seen(self):
        gateway = self.gateway
        self.write("changing.txt", "")
        first = gateway.get("/changing.txt")
        self.write("changing.txt", "more", age=60)
        self.assert_eventually(lambda: gateway.get("/changing.txt").body == b"more", "the change is seen")
        other = lambda: gateway.get("/changing.txt").get("etag") != first.get("etag")  # noqa: E731
        self.assert_eventually(other, "each worker sees it")
        (self.root / "changing.txt").unlink()
        self.assert_eventually(lambda: gateway.get("/changing.txt").status == 404, "the file is gone")

    def test_a_folder_that_is_replaced_is_seen(self):
        releases = self.root.parent
        (releases / "two").mkdir()
        (releases / "two" / "index.html").write_text("two")
        (releases / "current").symlink_to(self.root)
        gateway = self.start(Gateway(BINARY, config(route(root=str(releases / "current")))))
        self.assertEqual(gateway.get("/").body, b"<h1>home</h1>")
        (releases / "next").symlink_to("two")
        (releases / "next").rename(releases / "current")
        self.assert_eventually(lambda: gateway.get("/").body == b"two", "the new release is seen")


class Ranges(FilesCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.share_files()

    def test_one(self):
        gateway = self.gateway
        size = len(LARGE)
        for field, start, end in [
            ("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=1000000-", 1000000, size), ("bytes=-7", size - 7, size),
            ("bytes=131071-131073", 131071, 131074),
        ]:  # fmt: skip
            with self.subTest(field):
                answer = gateway.get("/large.bin", [("Range", field)])
                self.assert_status(answer, 206)
                self.assertEqual(answer.get("content-range"), f"bytes {start}-{end - 1}/{size}")
                self.assertEqual(answer.body, LARGE[start:end])
        head = gateway.request("HEAD", "/large.bin", [("Range", "bytes=0-0")])
        self.assertEqual((head.status, head.get("content-length")), (200, str(size)))

    def test_several(self):
        gateway = self.gateway
        for target, content in (("/large.bin", LARGE), ("/assets/app.js", (self.root / "assets/app.js").read_bytes())):
            answer = gateway.get(target, [("Range", "bytes=0-4,10-14,-5")])
            self.assert_status(answer, 206)
            kind, boundary = answer.get("content-type").split("; boundary=")
            self.assertEqual(kind, "multipart/byteranges")
            parts = answer.body.split(b"\r\n--" + boundary.encode())
            self.assertEqual((parts[0], parts[-1], len(parts)), (b"", b"--\r\n", 5))
            ranges = [(0, 5), (10, 15), (len(content) - 5, len(content))]
            for part, (start, end) in zip(parts[1:], ranges, strict=False):
                head, body = part.split(b"\r\n\r\n")
                self.assertIn(f"content-range: bytes {start}-{end - 1}/{len(content)}".encode(), head)
                self.assertEqual(body, content[start:end])

    def test_what_does_not_count(self):
        gateway = self.gateway
        etag = gateway.get("/large.bin").get("etag")
        for fields in ([("Range", "bytes=5-1")], [("Range", "lines=1-2")], [("Range", "bytes=0-9,5-")],
                       [("Range", "bytes=" + ",".join(f"{i * 2}-{i * 2}" for i in range(1000)))],
                       [("Range", "bytes=0-1"), ("If-Range", '"x"')]):  # fmt: skip
            answer = gateway.get("/large.bin", fields)
            self.assertEqual((answer.status, answer.body == LARGE), (200, True), fields)
        answer = gateway.get("/large.bin", [("Range", "bytes=0-1"), ("If-Range", etag)])
        self.assertEqual((answer.status, answer.body), (206, LARGE[:2]))
        none = gateway.get("/large.bin", [("Range", f"bytes={len(LARGE)}-")])
        self.assertEqual((none.status, none.get("content-range")), (416, f"bytes */{len(LARGE)}"))
        self.assert_status(gateway.get("/zero.txt", [("Range", "bytes=0-")]), 416)


class Forms(FilesCase):
    def test_by_weight(self):
        plain = (self.root / "assets/app.js").read_bytes()
        self.write("assets/app.js.gz", gzip.compress(plain, mtime=0))
        self.write("assets/app.js.br", "as brotli")
        self.write("assets/app.js.zst", "as zstd", age=7200)  # older than the file
        gateway = self.serve()
        tags = set()
        for field, coding in [
            (None, None), ("gzip", "gzip"), ("gzip, br", "br"), ("gzip, deflate, br, zstd", "br"), ("zstd", None),
            ("br;q=0.5, gzip;q=0.8", "gzip"), ("br;q=0, *", "gzip"), ("identity;q=1, gzip;q=0.5", None),
        ]:  # fmt: skip
            with self.subTest(field):
                answer = gateway.get("/assets/app.js", [("Accept-Encoding", field)] if field else [])
                self.assertEqual(answer.get("content-encoding"), coding)
                self.assertEqual(answer.get("vary"), "accept-encoding")
                self.assertEqual(answer.get("content-type"), "text/javascript; charset=utf-8")
                ending = {None: "", "gzip": ".gz", "br": ".br"}[coding]
                self.assertEqual(answer.body, (self.root / f"assets/app.js{ending}").read_bytes())
                tags.add(answer.get("etag"))
                fields = [("Accept-Encoding", field or ""), ("If-None-Match", answer.get("etag"))]
                same = gateway.get("/assets/app.js", fields)
                self.assertEqual((same.status, same.get("vary")), (304, "accept-encoding"))
        self.assertEqual(len(tags), 3)
        # The neighbour itself is a file like any other.
        neighbour = gateway.get("/assets/app.js.gz", [("Accept-Encoding", "gzip")])
        self.assertEqual((neighbour.get("content-encoding"), neighbour.body), (None, gzip.compress(plain, mtime=0)))


class SinglePage(FilesCase):
    def test_navigations_get_the_page(self):
        gateway = self.serve(fallback="index.html")
        html = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")]
        for target, fields in ("/users/7", []), ("/users/", []), ("/john.doe", html), ("/a/b/c", html):
            with self.subTest(target):
                answer = gateway.get(target, fields)
                self.assertEqual((answer.status, answer.body), (200, b"<h1>home</h1>"))
                self.assertEqual(answer.get("cache-control"), "no-cache")
                # Others get a 404 for the same path, if it is that of an asset (RFC 9110 §12.5.5).
                self.assertEqual(answer.get("vary"), "accept" if target == "/john.doe" else None)
        unwanted = [("Accept", "application/json, text/html;q=0.0")]
        self.assert_problem(gateway.get("/john.doe", unwanted), 404)
        for target in ("/assets/missing.js", "/john.doe", "/.env", "/a/../b"):
            with self.subTest(target):
                self.assert_problem(gateway.get(target, [("Accept", "*/*")]), 404)
        self.assert_problem(gateway.request("POST", "/users/7", body=b""), 405)

    def test_lists_only_when_asked(self):
        self.write("docs/<b>.txt", "x")
        (self.root / "docs/out").symlink_to("/etc")
        gateway = self.serve(listing=True, index=False)
        page = gateway.get("/docs/")
        self.assert_status(page, 200)
        self.assertEqual(page.get("content-type"), "text/html; charset=utf-8")
        text = page.body.decode()
        self.assertIn('<a href="./a%20b/"><bdi>a b</bdi>/</a>', text)
        self.assertIn('<a href="./%3Cb%3E.txt"><bdi>&lt;b&gt;.txt</bdi></a></td><td class="size">1 B</td>', text)
        self.assertNotIn("out", text)
        self.assertNotIn(".keep", gateway.get("/empty/").body.decode())


class Large(FilesCase):
    def test_memory_stays_bounded(self):
        path = self.root / "huge.bin"
        with path.open("wb") as file:
            file.truncate(256 << 20)
        gateway = self.serve()
        gateway.get("/large.bin")
        before = rss_kib(gateway)
        with gateway.client() as client:
            client.send_head("GET", "/huge.bin")
            answer = client.head()
            count = peak = 0
            for piece in client.body(answer):
                count += len(piece)
                peak = max(peak, rss_kib(gateway))
        self.assertEqual(count, 256 << 20)
        self.assertLess(peak - before, 4096)

    def cut_body(self, name, change):
        """`change(path)` alters a file while it is being sent: the connection is cut."""
        path = self.write(name, bytes(64 << 20))
        gateway = self.serve()
        with gateway.client() as client:
            client.send_head("GET", f"/{name}")
            body = client.body(client.head())
            next(body)
            change(path)
            with self.assertRaises(Cut):
                for _ in body:
                    pass

    def test_a_file_that_is_cut_ends_the_connection(self):
        self.cut_body("cut.bin", lambda path: os.truncate(path, 1 << 20))
        self.assertEqual(self.gateway.get("/zero.txt").status, 200)

    def test_a_file_that_is_written_anew_in_place_ends_the_connection(self):
        def write_anew(path):
            with path.open("r+b") as file:
                file.write(b"\1" * (64 << 20))

        self.cut_body("changed.bin", write_anew)  # over TLS nothing of it comes before: test_files_large.py


class Seen(FilesCase):
    def test_metrics_and_explain(self):
        gateway = self.start(Gateway(BINARY, config(
            route("/static", root=str(self.root), fallback="index.html"),
            '[admin]\nsocket = "admin.sock"\n')))  # fmt: skip
        gateway.get("/static/zero.txt")
        command = [BINARY, "explain", "http://demo.test/static/zero.txt", "--socket", gateway.folder / "admin.sock"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=20)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("/zero.txt below", told.stdout)
        self.assertIn("fallback  index.html", told.stdout)
        self.assert_logged(gateway, f"files in {self.root}")


if __name__ == "__main__":
    unittest.main()
