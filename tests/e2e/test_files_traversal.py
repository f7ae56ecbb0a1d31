"""No spelling of a path, no link and no race leads out of a folder of files, or to what is hidden in it.

A corpus of paths times encodings, over HTTP/1.1 and HTTP/2, plain and with TLS; a canary outside and one hidden inside.
"""

import errno
import functools
import os
import tempfile
import threading
import unittest
from pathlib import Path

import http2_client as http2
from filtered import filtered
from harness import BINARY, Cut, Gateway, TestCase, config, setUpModule
from test_tls import Tls

__all__ = ["setUpModule"]

CANARY = b"canary-5f1d0c"

# What lies outside, and what is hidden inside; each as names.
GOALS = [
    ["..", "canary.txt"], ["..", "..", "etc", "passwd"], ["sub", "..", "..", "canary.txt"],
    ["sub", "deep", "..", "..", "..", "canary.txt"], [".", "..", "canary.txt"], ["sub", ".", "..", "..", "canary.txt"],
    [".env"], [".git", "config"], ["sub", ".hidden"], ["..", "root-secret", "canary.txt"],
    ["out.txt"], ["outdir", "canary.txt"], ["absolute", "canary.txt"], ["sub", "up", "..", "canary.txt"],
    ["up", "canary.txt"], ["chain", "canary.txt"], ["circle"], ["fifo"], ["socket"], ["proc", "self", "environ"],
]  # fmt: skip

# Spellings of a dot and of a slash, by name; each goal is written in every combination.
DOTS = {
    "plain": ".", "escaped": "%2e", "upper": "%2E", "twice": "%252e", "thrice": "%25252e", "overlong": "%c0%ae",
    "overlong3": "%e0%80%ae", "fullwidth": "%ef%bc%8e", "utf16": "%u002e",
}  # fmt: skip
SLASHES = {
    "plain": "/", "escaped": "%2f", "upper": "%2F", "twice": "%252f", "back": "\\", "back escaped": "%5c",
    "back twice": "%255c", "double": "//", "dotted": "/./", "overlong": "%c0%af", "fullwidth": "%ef%bc%8f",
    "parameter": ";/", "nul": "%00/", "mixed": "/\\", "tab": "%09/", "newline": "%0a/", "escaped mixed": "%2f/",
}  # fmt: skip
AROUND = [
    ("{}", "plain"), ("/{}", "two slashes"), ("sub/../{}", "behind a folder"),
    ("{}/", "slash behind"), ("{}%00.html", "NUL"),
    ("{}%20", "space"), ("{}::$DATA", "stream"), ("{}.", "dot behind"), ("{}?x=.html", "query"),
    ("./{}", "dot in front"),
    ("%2e/{}", "escaped dot in front"), (".well-known/../{}", "well-known"), ("x" * 300 + "/../{}", "long"),
]  # fmt: skip


@functools.cache
def corpus():
    """Paths without their first slash, each once."""
    seen = set()
    for goal in GOALS:
        for dot in DOTS.values():
            for slash in SLASHES.values():
                names = [name.replace(".", dot) if name[0] == "." else name for name in goal]
                path = slash.join(names)
                for form, _ in AROUND if slash == "/" else AROUND[:1]:
                    seen.add(form.format(path))
    return sorted(seen)


# What `:path` may be beside a path (RFC 9113 §8.3.1), and what it must not be, with a goal in it.
FORMS = [
    "{}", "", "*", "/*", "*/{}", "#", "/#/{}", "/sub/ok.txt#/../{}", "/?/../{}", "?{}", "//demo.test/{}",
    "//{}", "///{}", "http://demo.test/{}", "https://demo.test/{}", "HTTP://demo.test//{}", "file:///{}",
    "http:{}", "http:/{}", "demo.test/{}", "demo.test:443", "/%2e%2e//{}", "\\{}", "\\\\{}", "%2f{}",
    "%2e%2e/{}", "./{}", "../{}", "..", ".", "/..", "/.", "~/{}", "/~root/{}", "/sub/ok.txt/../../{}", "/ {}",
    " /{}", "/{} ", "/{}\t", "/\x7f{}", "/{}\x00", "/\r\n{}", "/{}\xff", "/é/{}", "/..;/{}", "/sub/%00/../{}",
]  # fmt: skip


def odd_paths():
    """What only HTTP/2 can carry, or HTTP/1.1 as another form of target (RFC 9112 §3.2)."""
    goals = ["canary.txt", "../canary.txt", ".env", ".git/config", "..%2fcanary.txt", "out.txt", "outdir/canary.txt"]
    return sorted({form.format(goal) for form in FORMS for goal in goals})


class TraversalCase(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.outside = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="pilotlight-files-")))
        cls.root = cls.outside / "root"
        (cls.root / "sub" / "deep").mkdir(parents=True)
        (cls.root / ".git").mkdir()
        (cls.outside / "root-secret").mkdir()
        for hidden in ("canary.txt", "root/.env", "root/.git/config", "root/sub/.hidden", "root-secret/canary.txt"):
            (cls.outside / hidden).write_bytes(CANARY)
        (cls.root / "index.html").write_text("home")
        (cls.root / "sub" / "ok.txt").write_text("ok")
        (cls.root / ".well-known").mkdir()
        (cls.root / ".well-known" / "ok.txt").write_text("ok")
        for name, target in {
            "out.txt": "../canary.txt", "outdir": "..", "absolute": str(cls.outside), "sub/up": "../..", "up": "..",
            "chain": "sub/up", "circle": "circle", "proc": "/proc", "magic": "/proc/self/root", "inside": "sub",
        }.items():  # fmt: skip
            (cls.root / name).symlink_to(target)
        os.mkfifo(cls.root / "fifo")

    @classmethod
    def route(cls, path="/", more=""):
        return f'[[routes]]\npath = "{path}"\nhttps = "allow"\nfiles = {{ root = "{cls.root}"{more} }}\n'

    def serve(self, path="/", more="", binary=BINARY):
        return self.start(Gateway(binary, config(self.route(path, more))))

    def assert_nothing(self, answer, path):
        self.assertNotIn(CANARY, answer.body, path)
        self.assertNotIn(b"root:", answer.body, path)
        self.assertNotIn(b"PATH=", answer.body, path)
        if answer.status == 200:
            self.assertIn(answer.body, (b"home", b"ok"), path)
        else:
            self.assertIn(answer.status, (308, 400, 404), (path, answer))

    def play(self, connect, paths):
        client = connect()
        for path in paths:
            try:
                answer = client.request("GET", path)
            except Cut:
                client.close()
                client = connect()
                answer = client.request("GET", path)
            self.assert_nothing(answer, path)
            if answer.get("connection") == "close":
                client.close()
                client = connect()
        client.close()

    def play_streams(self, connect, paths):
        """The same over HTTP/2, sixteen at a time: (paths answered, refused by a reset)."""
        answered = refused = 0
        client = connect()
        for first in range(0, len(paths), 16):
            some = paths[first : first + 16]
            streams = [client.begin("GET", path) for path in some]
            for path, stream in zip(some, streams, strict=True):
                answer = client.answer(stream)
                self.assertFalse(client.closed, path)
                if answer.reset is None:
                    self.assert_nothing(answer, path)
                    answered += 1
                else:
                    self.assertEqual((answer.reset, answer.body), (http2.PROTOCOL_ERROR, b""), path)
                    refused += 1
        client.socket.close()
        return answered, refused


class Traversal(TraversalCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gateways = {
            "/": cls.share(Gateway(BINARY, config(cls.route()))),
            "/static/": cls.share(Gateway(BINARY, config(cls.route("/static")))),
        }

    def test_the_corpus(self):
        paths = corpus()
        self.assertGreaterEqual(len(paths), 300)
        for prefix, gateway in self.gateways.items():
            self.play(gateway.client, [prefix + path for path in paths])
            self.assertEqual(gateway.get(prefix + "sub/ok.txt").body, b"ok")
            self.assertEqual(gateway.get(prefix + ".well-known/ok.txt").body, b"ok")

    def test_the_corpus_over_http2(self):
        paths = corpus()
        for prefix, gateway in self.gateways.items():
            connect = lambda: http2.Client(gateway.address)  # noqa: E731, B023
            targets = [prefix + path for path in paths]
            answered, refused = self.play_streams(connect, targets + odd_paths())
            print(f"{prefix} over HTTP/2: {answered} answered, {refused} reset, no escape")
            self.assertGreaterEqual(answered, 300)
            with connect() as client:
                self.assertEqual(client.request("GET", prefix + "sub/ok.txt").body, b"ok")

    def test_without_openat2(self):
        """Name by name, as on older kernels and where a filter has no such call."""
        for refused in (errno.ENOSYS, errno.EPERM):
            gateway = self.serve(binary=filtered(self, BINARY, openat2=refused))
            self.play(gateway.client, ["/" + path for path in corpus()])
            self.assertEqual(gateway.get("/sub/ok.txt").body, b"ok")
            self.assertEqual(gateway.get("/inside/ok.txt").status, 404)

    def test_the_corpus_with_a_page_and_lists(self):
        gateway = self.serve(more=', fallback = "index.html", listing = true, index = false')
        client = gateway.client()
        for path in corpus():
            answer = client.request("GET", "/" + path, [("Accept", "text/html")])
            self.assertNotIn(CANARY, answer.body, path)
            if answer.status == 200:  # others repeat the path
                self.assertNotIn(b"canary", answer.body, path)
                self.assertNotIn(b".env", answer.body, path)
            if answer.get("connection") == "close":
                client.close()
                client = gateway.client()
        client.close()

    def test_links_within_are_followed_where_the_kernel_tells(self):
        self.assertIn(self.gateways["/"].get("/inside/ok.txt").status, (200, 404))


class Swapped(TraversalCase):
    def test_a_folder_that_is_swapped_for_a_link(self):
        """While requests run, `swap` is by turns a folder with harmless files and a link to the outside."""
        (self.root / "swap").mkdir()
        for number in range(2000):  # each is opened once: nothing of it is kept before
            (self.outside / f"{number}.txt").write_bytes(CANARY)
            (self.root / "swap" / f"{number}.txt").write_text("harmless")
        (self.root / "link").symlink_to("..")
        gateway = self.serve()
        done = threading.Event()
        swaps = 0

        def swap():
            nonlocal swaps
            while not done.is_set():
                (self.root / "swap").rename(self.root / "aside")
                (self.root / "link").rename(self.root / "swap")
                (self.root / "swap").rename(self.root / "link")
                (self.root / "aside").rename(self.root / "swap")
                swaps += 1

        swapping = threading.Thread(target=swap)
        swapping.start()
        try:
            statuses = set()
            with gateway.client() as client:
                for number in range(2000):
                    answer = client.request("GET", f"/swap/{number}.txt")
                    self.assertNotIn(CANARY, answer.body)
                    statuses.add(answer.status)
        finally:
            done.set()
            swapping.join()
        self.assertGreater(swaps, 10)
        self.assertLessEqual(statuses, {200, 404})


class TraversalOverTls(Tls, TraversalCase):
    def setUp(self):
        super().setUp()
        self.gateway = self.begin(self.route())

    def test_the_corpus(self):
        self.play(lambda: self.secure(self.gateway), ["/" + path for path in corpus()])

    def test_the_corpus_over_http2(self):
        context = self.context()
        context.set_alpn_protocols(["h2"])
        connect = lambda: http2.Client(self.socket(self.gateway, context))  # noqa: E731
        answered, refused = self.play_streams(connect, ["/" + path for path in corpus()] + odd_paths())
        print(f"over HTTP/2 and TLS: {answered} answered, {refused} reset, no escape")
        self.assertGreaterEqual(answered, 300)


if __name__ == "__main__":
    unittest.main()
