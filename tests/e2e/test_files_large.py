"""Large files: what the kernel sends by itself on plain sockets, what is read for all others, and what ends early."""

import errno
import json
import os
import socket
import threading
import time
import unittest

import http2_client as http2
from filtered import KILL, filtered
from harness import BINARY, Cut, Gateway, config, limits, setUpModule
from http1 import Client
from test_files import FilesCase, route
from test_tls import Tls

__all__ = ["setUpModule"]

KIB, MIB = 1 << 10, 1 << 20
# Around what is read in one piece, left to the kernel, and taken in one turn.
SIZES = sorted(
    size + more
    for size in (64 * KIB, 80 * KIB, 128 * KIB, MIB, MIB + 16 * KIB, MIB + 80 * KIB, 3 * MIB)
    for more in (-1, 0, 1)
)


def content(size, seed=7):
    """Bytes none of whose pages is like another one."""
    pages = (b"%08x" % (page * 2654435761 + seed & 0xFFFFFFFF) * 512 for page in range(size // 4096 + 1))
    return b"".join(pages)[:size]


def links(folder):
    """What the descriptors of a process lead to."""
    for name in os.listdir(folder):
        try:
            yield os.readlink(f"{folder}/{name}")
        except FileNotFoundError:
            pass


class LargeCase(FilesCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = content(5 * MIB + 4321)
        cls.write("big.bin", cls.data)

    def connect(self, gateway=None, receive=None, timeout=20.0):
        """A client, perhaps one whose system takes little ahead of it."""
        client = Client((gateway or self.gateway).address, timeout)
        if receive:
            client.close()
            client._sock = socket.socket()
            client._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
            client._sock.settimeout(timeout)
            client._sock.connect((gateway or self.gateway).address)
        self.addCleanup(client.close)
        return client


class Whole(LargeCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.share_files()

    def test_every_size_is_whole(self):
        for size in SIZES:
            self.write(f"{size}.bin", content(size, size))
        gateway = self.gateway
        with gateway.client() as client:
            for size in SIZES:
                answer = client.request("GET", f"/{size}.bin")
                self.assertEqual((answer.status, answer.get("content-length")), (200, str(size)))
                self.assertTrue(answer.body == content(size, size), size)

    def test_ranges(self):
        with self.gateway.client() as client:
            for start, end in (0, MIB), (1, 80 * KIB + 1), (4095, 3 * MIB + 5), (len(self.data) - MIB, len(self.data)):
                answer = client.request("GET", "/big.bin", [("Range", f"bytes={start}-{end - 1}")])
                self.assertEqual(answer.get("content-range"), f"bytes {start}-{end - 1}/{len(self.data)}")
                self.assertTrue(answer.status == 206 and answer.body == self.data[start:end], (start, end))
            ranges = [(0, 200 * KIB), (MIB + 1, 3 * MIB), (4 * MIB, 4 * MIB + 10), (5 * MIB, len(self.data))]
            field = ",".join(f"{start}-{end - 1}" for start, end in ranges)
            answer = client.request("GET", "/big.bin", [("Range", "bytes=" + field)])
            boundary = answer.get("content-type").partition("boundary=")[2].encode()
            parts = [part.partition(b"\r\n\r\n")[2] for part in answer.body.split(b"\r\n--" + boundary)[1:-1]]
            self.assertTrue(parts == [self.data[start:end] for start, end in ranges])

    def test_versions_methods_and_conditions(self):
        with self.connect() as client:
            for method in "HEAD", "GET", "HEAD":
                answer = client.request(method, "/big.bin")
                self.assertEqual((answer.status, answer.get("content-length")), (200, str(len(self.data))))
                self.assertTrue(answer.body == (b"" if method == "HEAD" else self.data))
            same = client.request("GET", "/big.bin", [("If-None-Match", answer.get("etag"))])
            self.assertEqual((same.status, same.body), (304, b""))
            self.assertTrue(client.request("GET", "/big.bin", [("Connection", "close")]).body == self.data)
            self.assertTrue(client.ended())
        for fields, keeps in (b"", False), (b"Connection: keep-alive\r\n", True):
            with self.connect() as client:
                for _ in range(2 if keeps else 1):
                    client.send(b"GET /big.bin HTTP/1.0\r\n" + fields + b"\r\n")
                    answer = client.answer()
                    self.assertEqual(answer.get("content-length"), str(len(self.data)))
                    self.assertTrue(answer.body == self.data)
                if not keeps:
                    self.assertTrue(client.ended())

    def test_pipelined_behind_each_other(self):
        targets = ["/big.bin", "/zero.txt", "/large.bin", "/big.bin", "/assets/data.json", "/nothing", "/big.bin"]
        with self.connect() as client:
            for target in targets:
                client.send_head("GET", target)
            client.send_head("HEAD", "/big.bin")
            for target in targets:
                answer = client.answer()
                expected = b"" if target == "/nothing" else (self.root / target[1:]).read_bytes()
                self.assertTrue(answer.status == 404 if target == "/nothing" else answer.body == expected, target)
            self.assertEqual(client.answer("HEAD").get("content-length"), str(len(self.data)))

    def test_many_clients_at_once(self):
        clients = [self.connect(receive=8192 if number % 2 else None) for number in range(12)]
        for client in clients:
            client.send_head("GET", "/big.bin")
        bodies = [b""] * len(clients)

        def take(number):
            bodies[number] = clients[number].answer().body

        threads = [threading.Thread(target=take, args=[number]) for number in range(len(clients))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(all(body == self.data for body in bodies))

    def test_half_closed_clients_get_all_of_it(self):
        with self.connect(receive=8192) as client:
            client.send_head("GET", "/big.bin")
            client.shut()
            self.assertTrue(client.answer().body == self.data)

    def test_clients_that_leave(self):
        gateway = self.serve()
        self.assertTrue(gateway.get("/big.bin").body == self.data)
        is_big = lambda link: link.endswith("/big.bin")  # noqa: E731
        is_socket = lambda link: link.startswith("socket:")  # noqa: E731
        count = lambda what: len(list(filter(what, links(f"/proc/{gateway.process.pid}/fd"))))  # noqa: E731
        before = count(is_socket)
        for number in range(20):
            client = self.connect(receive=4096)
            client.send_head("GET", "/big.bin")
            next(client.body(client.head()))
            client.close()
        self.assert_eventually(lambda: count(is_socket) <= before, "connections stay open")
        self.assertLessEqual(count(is_big), 2, "each worker keeps it open once")
        self.assertTrue(gateway.get("/big.bin").body == self.data)

    def test_on_a_unix_socket(self):
        gateway = Gateway(BINARY, "")
        gateway._config = config(route(root=str(self.root)), listen=["127.0.0.1:0", f"unix:{gateway.folder}/web"])
        self.start(gateway)
        with gateway.client() as client:
            client.close()
            client._sock = socket.socket(socket.AF_UNIX)
            client._sock.settimeout(20)
            client._sock.connect(f"{gateway.folder}/web")
            self.assertTrue(client.request("GET", "/big.bin").body == self.data)


class Slow(LargeCase):
    def test_a_client_that_takes_nothing_is_cut(self):
        self.gateway = self.start(Gateway(BINARY, config(route(root=str(self.root)), limits(body_timeout="1s"))))
        client = self.connect(receive=4096)
        client.send_head("GET", "/big.bin")
        got = bytearray()
        with self.assertRaises((Cut, ConnectionResetError)):
            answer = client.head()
            files = f"/proc/{self.gateway.process.pid}/fd"
            is_cut = lambda: not any(  # noqa: E731
                target.startswith("socket:") and self.is_ours(client, target) for target in links(files)
            )
            self.assert_eventually(is_cut, "it is still served")
            for piece in client.body(answer):
                got += piece
        self.assertLess(len(got), len(self.data))

    def is_ours(self, client, link):
        """Whether a socket of the gateway is the other side of the client's."""
        port = f":{client._sock.getsockname()[1]:04X}"
        with open("/proc/net/tcp") as table:
            for line in table:
                words = line.split()
                if words[2].endswith(port) and link == f"socket:[{words[9]}]":
                    return True
        return False

    def test_a_client_that_is_slow_gets_all_of_it(self):
        """For longer than a client may take nothing, with more in the kernel's queue than it takes in that time."""
        data = content(MIB)
        self.write("slow.bin", data)
        self.gateway = self.start(Gateway(BINARY, config(route(root=str(self.root)), limits(body_timeout="1s"))))
        client = self.connect(receive=4096)
        client.send_head("GET", "/slow.bin")
        got, begun = bytearray(), time.monotonic()
        for piece in client.body(client.head()):
            got += piece
            behind = len(got) / (256 * KIB) - (time.monotonic() - begun)
            if behind > 0.02:
                time.sleep(behind)  # 256 KiB in a second
        self.assertTrue(bytes(got) == data)

    def test_the_pace_holds(self):
        for rate, at_once in (2 * MIB, "by the kernel"), (400 * KIB, "read"):
            with self.subTest(at_once):
                size = 3 * MIB if rate > MIB else 600 * KIB
                self.write("paced.bin", content(size))
                limit = f'limit = {{ bandwidth = "{rate // KIB}KiB/s" }}\n'
                gateway = self.start(Gateway(BINARY, config(route(root=str(self.root)) + limit)))
                begun = time.monotonic()
                answer = gateway.get("/paced.bin")
                took = time.monotonic() - begun
                self.assertTrue(answer.body == content(size))
                # Less what may be ahead, and a piece. No upper bound: the machine may be busy.
                self.assertGreaterEqual(took, size / rate - 0.5)

    def test_downloads_leave_room_for_others(self):
        """On one worker: others are answered while two downloads run that always have more."""
        path = self.root / "huge.bin"
        with path.open("wb") as file:
            file.truncate(2 << 30)
        self.gateway = self.start(Gateway(BINARY, config(route(root=str(self.root)), workers=1)))
        begun, enough, done = threading.Barrier(3, timeout=20), threading.Event(), threading.Event()

        def take():
            client, left = self.connect(), 2 << 30
            client.send_head("GET", "/huge.bin")
            client.head()
            left -= len(client._inbox)
            buffer = bytearray(MIB)
            begun.wait()
            while not enough.is_set() and left > 0 and (count := client._sock.recv_into(buffer)):
                left -= count
            done.set()

        threads = [threading.Thread(target=take) for _ in range(2)]
        for thread in threads:
            thread.start()
        answered = 0
        with self.connect() as client:
            begun.wait()
            while not done.is_set() and answered < 100:
                self.assertEqual(client.request("GET", "/assets/data.json").body, b"{}")
                answered += 1
        enough.set()
        for thread in threads:
            thread.join()
        self.assertGreater(answered, 20)


class Changed(LargeCase):
    def begun(self, size):
        """A gateway, a file of it, and the body of an answer with that file, of which a piece has come."""
        path = self.write("changed.bin", content(size))
        gateway = self.serve()
        client = self.connect(gateway, receive=4096)
        client.send_head("GET", "/changed.bin")
        body = client.body(client.head())
        self.assertGreater(len(next(body)), 0)
        return gateway, path, body

    def assert_cut(self, body, size):
        """The rest of the body is less than its length, and the connection ends."""
        left = size
        with self.assertRaises((Cut, ConnectionResetError)):
            for piece in body:
                left -= len(piece)
        self.assertGreater(left, 0)

    def test_an_edit_in_place_is_never_completed(self):
        """What is edited while the kernel still has it to send may go out edited; the end of the answer does not."""
        for size, edit in (300 * KIB, 0), (300 * KIB, 299 * KIB), (2 * MIB, MIB), (64 * MIB, 63 * MIB):
            with self.subTest(size=size, edit=edit):
                gateway, path, body = self.begun(size)
                with path.open("r+b") as file:
                    file.seek(edit)
                    file.write(b"edited")
                self.assert_cut(body, size)
                gateway.stop()

    def test_a_file_that_becomes_shorter(self):
        for size, left in (300 * KIB, 100 * KIB), (64 * MIB, MIB), (64 * MIB, 0):
            with self.subTest(size=size, left=left):
                gateway, path, body = self.begun(size)
                os.truncate(path, left)
                self.assert_cut(body, size)
                told = "the file was changed while it was sent"
                self.assert_eventually(lambda: told in gateway.output(), "the operator is told")  # noqa: B023
                self.assertEqual(gateway.get("/zero.txt").status, 200)
                gateway.stop()

    def test_what_is_renamed_over_it_is_another_file(self):
        path = self.write("replaced.bin", self.data)
        self.serve()
        client = self.connect(receive=4096)
        client.send_head("GET", "/replaced.bin")
        body = client.body(client.head())
        got = bytearray(next(body))
        self.write("replaced.bin", b"another")
        path.with_name("x").touch()
        for piece in body:
            got += piece
        self.assertTrue(bytes(got) == self.data)
        self.assert_eventually(lambda: self.gateway.get("/replaced.bin").body == b"another", "the new one is seen")


class Filtered(LargeCase):
    """Where the kernel does not do what it mostly does."""

    def begin(self, *blocks, **outcomes):
        blocks = blocks or [route(root=str(self.root))]
        self.gateway = self.start(Gateway(filtered(self, BINARY, **outcomes), config(*blocks)))
        return self.gateway

    def test_the_kernel_sends_what_is_large(self):
        gateway = self.begin(sendfile=KILL)
        self.assertTrue(gateway.get("/assets/app.js").body)
        with self.assertRaises((Cut, ConnectionResetError)):
            gateway.get("/big.bin")
        self.assertLess(gateway.wait(), 0)

    def test_without_sendfile_it_is_read(self):
        for refused in errno.EINVAL, errno.ENOSYS, errno.EPERM:
            gateway = self.begin(sendfile=refused)
            with gateway.client() as client:
                for _ in range(2):
                    self.assertTrue(client.request("GET", "/big.bin").body == self.data)
                    part = client.request("GET", "/big.bin", [("Range", "bytes=5-3000004")])
                    self.assertTrue(part.body == self.data[5:3000005])


    def test_what_the_page_cache_does_not_have_is_loaded_beside_the_worker(self):
        """EAGAIN: so it seems of every byte. Others: the system does not tell."""
        for told in errno.EAGAIN, errno.ENOSYS, errno.EOPNOTSUPP:
            gateway = self.begin(preadv2=told)
            clients = [self.connect() for _ in range(12)]  # more than may read at a time
            for client in clients:
                client.send_head("GET", "/big.bin")
            clients.pop().close()  # nobody waits for what it reads
            for client in clients:
                self.assertTrue(client.answer().body == self.data)
                part = client.request("GET", "/big.bin", [("Range", "bytes=5-3000004")])
                self.assertTrue(part.body == self.data[5:3000005])
            with http2.Client(gateway.address) as client:
                self.assertTrue(client.request("GET", "/big.bin").body == self.data)

    def test_what_is_on_the_disk(self):
        gateway = self.serve()
        for _ in range(2):
            with (self.root / "big.bin").open("r+b") as file:
                os.fsync(file)
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            self.assertTrue(gateway.get("/big.bin").body == self.data)


class OverTls(Tls, LargeCase):
    """What is encrypted is read, and seen before it is sent."""

    def serve(self):
        return self.begin(f'[[routes]]\npath = "/"\nhttps = "allow"\nfiles = {json.dumps(str(self.root))}\n')

    def test_whole_and_ranges(self):
        client = self.secure(self.serve())
        for _ in range(2):
            self.assertTrue(client.request("GET", "/big.bin").body == self.data)
            part = client.request("GET", "/big.bin", [("Range", "bytes=5-3000004")])
            self.assertTrue(part.body == self.data[5:3000005])

    def test_over_http2(self):
        gateway = self.serve()
        context = self.context()
        context.set_alpn_protocols(["h2"])
        for client in http2.Client(self.socket(gateway, context)), http2.Client(gateway.address):
            streams = [client.begin("GET", "/big.bin") for _ in range(3)]
            for stream in streams:
                self.assertTrue(client.answer(stream).body == self.data)

    def test_nothing_of_another_version_is_sent(self):
        path = self.write("changed.bin", bytes(64 << 20))
        client = self.secure(self.serve())
        client.send_head("GET", "/changed.bin")
        body = client.body(client.head())
        next(body)
        with path.open("r+b") as file:
            file.write(b"\1" * (64 << 20))
        got = bytearray()
        with self.assertRaises(Cut):
            for piece in body:
                got += piece
        self.assertEqual(bytes(got).strip(b"\0"), b"")


if __name__ == "__main__":
    unittest.main()
