"""Answers of services to the letter of RFC 9112, and services and clients that keep the gateway waiting."""

import contextlib
import os
import shutil
import tempfile
import threading
import time
import unittest
from pathlib import Path

from harness import BINARY, PYTHON, ROOT, Cut, Gateway, config, in_threads, limits, route, service, setUpModule
from scripted import answer
from test_hostile import Scripted

__all__ = ["setUpModule"]

FRESH = b"cache-control: max-age=60\r\n"


def always(raw):
    """A service that sends these bytes after each request head, on any number of connections."""
    return lambda peer: [peer.send(raw) for _ in iter(peer.head, b"")]


def once(raw):
    """The same, but it closes the connection after the first."""

    def handler(peer):
        peer.head()
        peer.send(raw)

    return handler


def sockets(gateway):
    """Open sockets of the gateway's process."""
    folder, found = f"/proc/{gateway.process.pid}/fd", 0
    for entry in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found += os.readlink(f"{folder}/{entry}").startswith("socket:")
    return found


class ContentLengths(Scripted):
    """RFC 9112 §6.3: one valid length, or 502. What is equal is merged; nothing is stored or sent as it came."""

    def check(self, fields, wanted, method="GET", status=b"200 OK", body=b"ok"):
        raw = b"HTTP/1.1 %b\r\n%b%b\r\n\r\n%b" % (status, FRESH, fields, body)
        gateway, _ = self.gateway_to(always(raw), cache=True)
        for _ in range(2):  # from the service, and from the cache
            got = gateway.request(method, "/")
            if wanted is None:
                self.assert_problem(got, 502) if method != "HEAD" else self.assert_status(got, 502)
            else:
                self.assertEqual((got.status, got.all("content-length")), (int(status[:3]), wanted), got)

    def test_a_list_of_equal_lengths_becomes_one(self):
        self.check(b"Content-Length: 2, 2", ["2"])

    def test_two_equal_lines_become_one(self):
        self.check(b"Content-Length: 2\r\nContent-Length: 2", ["2"])

    def test_an_answer_to_head(self):
        self.check(b"Content-Length: 2, 2", ["2"], method="HEAD", body=b"")
        self.check(b"Content-Length: x", None, method="HEAD", body=b"")
        self.check(b"Content-Length: 2, 3", None, method="HEAD", body=b"")

    def test_different_lengths_are_refused(self):
        self.check(b"Content-Length: 2\r\nContent-Length: 3", None)

    def test_a_304_with_no_number(self):
        self.check(b"Content-Length: x", None, status=b"304 Not Modified", body=b"")

    def test_a_204_has_no_length(self):
        """RFC 9110 §8.6: none in an answer that never has a body."""
        self.check(b"Content-Length: 2", [], status=b"204 No Content", body=b"")

    def test_a_pipe_service(self):
        gateway = self.pipe_gateway("lengths")
        for target, wanted in (("/3, 3", ["3"]), ("/3", ["3"]), ("/x", None), ("/3, 4", None)):
            got = gateway.get(target.replace(" ", "%20"))
            if wanted is None:
                self.assert_problem(got, 502)
            else:
                self.assertEqual((got.all("content-length"), got.body), (wanted, b"abc"), target)


class Chunks(Scripted):
    HEAD = b"HTTP/1.1 200 OK\r\n" + FRESH + b"transfer-encoding: chunked\r\n\r\n"

    def assert_cut(self, rest):
        gateway, script = self.gateway_to(always(self.HEAD + b"2\r\nok\r\n" + rest), cache=True)
        for _ in range(2):
            with gateway.client(timeout=10) as client:
                client.send_head("GET", "/")
                with self.assertRaises((Cut, ValueError)):
                    client.answer()
        self.assertEqual(len(script.heads), 2, "a cut answer was stored")

    def test_an_empty_size_line_is_no_end(self):
        self.assert_cut(b"\r\n\r\n")

    def test_a_line_without_size_is_no_end(self):
        self.assert_cut(b";extension\r\n\r\n")

    def test_a_line_of_blanks_is_no_end(self):
        self.assert_cut(b"  \r\n\r\n")

    def test_a_bare_line_feed_ends_no_trailers(self):
        """What one reader takes for the end, the next takes for a trailer field."""
        self.assert_cut(b"0\r\n\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        self.assert_cut(b"0\r\nx: 1\n\r\n")


class Versions(Scripted):
    def test_http_1_0_with_a_transfer_coding_ends_its_connection(self):
        """RFC 9112 §6.1: its framing counts as faulty, so nothing else is read from that connection."""
        raw = b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        gateway, script = self.gateway_to(always(raw))
        for _ in range(3):
            self.assertEqual(gateway.get("/").body, b"ok")
        self.assertEqual(script.connections, 3)

    def test_http_1_2_is_treated_as_1_1(self):
        """RFC 9110 §2.5: a higher minor version is the highest that the recipient knows."""
        gateway, script = self.gateway_to(always(answer(b"ok").replace(b"HTTP/1.1", b"HTTP/1.2")))
        for _ in range(2):
            got = gateway.get("/")
            self.assertEqual((got.version, got.status, got.body), ("HTTP/1.1", 200, b"ok"))
        self.assertEqual(script.connections, 1, "HTTP/1.1 keeps its connections")

    def test_another_major_version_is_refused(self):
        gateway, _ = self.gateway_to(always(answer(b"ok").replace(b"HTTP/1.1", b"HTTP/2.0")))
        self.assert_problem(gateway.get("/"), 502)


class Sizes(Scripted):
    """The limits of operations.md for an answer's header: 128 KiB, 256 fields."""

    def status_of(self, head):
        gateway, _ = self.gateway_to(always(head + b"ok"))
        return gateway.get("/").status

    def test_fields(self):
        def head(count):
            lines = [b"content-length: 2"] + [b"x-%d: %d" % (number, number) for number in range(count - 1)]
            return b"HTTP/1.1 200 OK\r\n" + b"\r\n".join(lines) + b"\r\n\r\n"

        self.assertEqual(self.status_of(head(256)), 200)
        self.assertEqual(self.status_of(head(257)), 502)

    def test_bytes(self):
        def head(size):
            begin, end = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: ", b"\r\n\r\n"
            return begin + b"x" * (size - len(begin) - len(end)) + end

        self.assertEqual(self.status_of(head(128 * 1024)), 200)
        self.assertEqual(self.status_of(head(128 * 1024 + 1)), 502)


class Abandoned(Scripted):
    """Requests that go on when their clients have gone (`finish_abandoned`)."""

    def setUp(self):
        self.go, self.closed = threading.Event(), 0

    def service(self, peer):
        while peer.head():
            if not self.answers(peer):
                self.closed += 1  # the gateway has given the request up
                return
            peer.send(answer(b"late", FRESH))

    def answers(self, peer):
        peer.sock.settimeout(0.05)
        while not self.go.is_set():
            try:
                if not peer.sock.recv(1):
                    return False
            except TimeoutError:
                pass
        peer.sock.settimeout(20)
        return True

    def abandon(self, gateway, script, targets):
        clients, before = [gateway.client() for _ in targets], len(script.heads)
        for client, target in zip(clients, targets):
            client.send_head("GET", target)
        self.assert_eventually(lambda: len(script.heads) == before + len(targets), "the service got them all")
        for client in clients:
            client.close()

    def test_no_socket_of_a_client_is_kept(self):
        gateway, script = self.gateway_to(self.service, cache=True)
        self.go.set()
        gateway.get("/warm")  # everything of the gateway's own is open
        self.go.clear()
        before = sockets(gateway)
        targets = ["/%d" % number for number in range(10)]
        self.abandon(gateway, script, targets)
        self.assert_eventually(lambda: sockets(gateway) <= before + len(targets), "one for each request, to the service")
        self.go.set()
        for target in targets:
            self.assert_eventually(lambda target=target: "; hit" in gateway.get(target).get("cache-status"), target)
        self.assertEqual(len(script.heads), 1 + len(targets), "each went on for the cache")

    def test_they_are_as_many_as_connections_at_most(self):
        gateway, script = self.gateway_to(self.service, limits(connections=8), cache=True)
        for round in range(4):
            self.abandon(gateway, script, ["/%d/%d" % (round, number) for number in range(6)])
        self.assert_eventually(lambda: self.closed == 16, "24 clients left, 8 requests go on")


class Retries(Scripted):
    def test_kept_connections_do_not_multiply_tries(self):
        """A service that closes each kept connection on its second request sees a request three times at most."""
        together = threading.Barrier(12)

        def handler(peer):
            if b"/die" not in peer.head():
                together.wait(20)
                peer.send(answer(b"kept"))
                peer.head()

        gateway, script = self.gateway_to(handler)
        in_threads(12, lambda _: gateway.get("/fill"))
        self.assert_problem(gateway.get("/die"), 502)
        self.assertLessEqual(sum(b"/die" in head for head in script.heads), 3)

    def test_a_kept_connection_that_was_just_closed_costs_nothing(self):
        """RFC 9112 §9.3.1: the request goes out again on a new connection."""

        def handler(peer):
            head = peer.head()
            peer.send(answer(head.split(b" ")[1]))
            peer.head()  # and closed

        gateway, script = self.gateway_to(handler)
        for number in range(4):
            self.assertEqual(gateway.get("/%d" % number).body, b"/%d" % number)

    def test_the_time_of_a_try_goes_on_in_the_next_one(self):
        """A kept connection is closed instead of an answer, and the next one is silent."""

        def handler(peer):
            peer.head()
            if peer.number == 1:
                peer.send(answer(b"ok"))
                peer.head()
            else:
                peer.ended()

        gateway, script = self.gateway_to(handler, limits(response_timeout="500ms"))
        client = gateway.client(timeout=10)
        self.addCleanup(client.close)
        self.assert_status(client.request("GET", "/"), 200)
        problem = self.assert_problem(client.request("GET", "/"), 504)
        self.assertIn("limits.response_timeout", problem["detail"])
        self.assertEqual(script.connections, 2)


class SilenceCase(Scripted):
    """`response_body_timeout`: a service that stops in the middle of an answer."""

    LIMIT = limits(response_body_timeout="1s")
    LENGTH = b"HTTP/1.1 200 OK\r\n" + FRESH + b"content-length: 8\r\n\r\nhalf"
    CHUNKED = b"HTTP/1.1 200 OK\r\n" + FRESH + b"transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"
    UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n" + FRESH + b"\r\nhalf"
    EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"

    def stopping(self, raw, *blocks, **settings):
        """A service that sends this and then nothing; it knows when the gateway has closed."""
        closed = threading.Event()

        def handler(peer):
            peer.head()
            peer.send(raw)
            peer.ended()
            closed.set()

        gateway, script = self.gateway_to(handler, *blocks, **settings)
        return gateway, script, closed

    def assert_cut(self, gateway, target="/"):
        with gateway.client(timeout=15) as client:
            client.send_head("GET", target)
            with self.assertRaises(Cut):
                client.answer()


class Silence(SilenceCase):
    def test_an_answer_that_stops_is_cut(self):
        for raw in (self.LENGTH, self.CHUNKED):
            gateway, _, closed = self.stopping(raw, self.LIMIT)
            self.assert_cut(gateway)
            self.assertTrue(closed.wait(10), "the connection to the service is closed")
            said = "no more of it came within limits.response_body_timeout (1 s)"
            self.assert_eventually(lambda: said in gateway.output(), said)  # noqa: B023

    def test_one_without_a_length_is_cut(self):
        """Clients can tell, although the service's own connection would have said nothing."""
        gateway, _, closed = self.stopping(self.UNTIL_CLOSE, self.LIMIT)
        self.assert_cut(gateway)
        self.assertTrue(closed.wait(10))

    def test_a_recording_is_abandoned(self):
        gateway, script, closed = self.stopping(self.LENGTH, self.LIMIT, cache=True)
        in_threads(3, lambda _: self.assert_cut(gateway))  # they read the same answer
        self.assertTrue(closed.wait(10))
        asked = len(script.heads)
        self.assert_cut(gateway)
        self.assertGreater(len(script.heads), asked, "half an answer was stored")

    def test_a_pipe_service(self):
        gateway = self.pipe_gateway("silent", self.LIMIT)
        gateway.get("/")
        with gateway.client(timeout=15) as client:
            client.send_head("POST", "/", [("Content-Length", "60000")])
            client.send(b"x" * 60_000)
            with self.assertRaises(Cut):
                client.answer("POST")


class NoSilence(SilenceCase):
    def test_slow_is_not_silent(self):
        def handler(peer):
            peer.head()
            peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n")
            for _ in range(8):
                time.sleep(0.25)
                peer.send(b"x")

        gateway, _ = self.gateway_to(handler, self.LIMIT)
        self.assertEqual(gateway.get("/").body, b"x" * 8)

    def test_the_time_stands_still_for_a_slow_upload(self):
        """A service that answers while it reads waits for the client, not the client for it."""

        def handler(peer):
            peer.head()
            peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
            peer.send(peer.read(4))

        gateway, _ = self.gateway_to(handler, self.LIMIT)
        with gateway.client() as client:
            client.send_head("POST", "/", [("Content-Length", "4")])
            answer = client.head()
            for _ in range(4):
                time.sleep(0.6)
                client.send(b"x")
            self.assertEqual(b"".join(client.body(answer)), b"xxxx")

    def test_event_streams_may_be_silent(self):
        gateway, _, closed = self.stopping(self.EVENTS, self.LIMIT)
        with gateway.client() as client:
            client.send_head("GET", "/")
            client.head()
            self.assertFalse(closed.wait(2.5), "the general limit is not for event streams")

    def test_a_routes_own_limit_is_for_all_of_its_answers(self):
        gateway, _, _ = self.stopping(self.EVENTS, response_body_timeout="1s")
        self.assert_cut(gateway)
        gateway, _, closed = self.stopping(self.LENGTH, self.LIMIT, response_body_timeout="none")
        with gateway.client() as client:
            client.send_head("GET", "/")
            client.head()
            self.assertFalse(closed.wait(2.5), "no limit for this route")


class Pages(Scripted):
    def test_a_page_has_no_path(self):
        """Where a service listens is for the log: the path of its socket has the runtime folder and the process id in it."""
        blocks = service("web", url="unix:@FOLDER@/nobody.sock"), route(service="web")
        gateway = self.start(Gateway(BINARY, config(*blocks, workers=1)))
        problem = self.assert_problem(gateway.get("/"), 502)
        self.assertIn("service web cannot be reached", problem["detail"])
        self.assertNotIn("nobody.sock", str(problem))
        self.assert_eventually(lambda: "nobody.sock" in gateway.output(), "the log names the place")


class Statuses(Scripted):
    """RFC 9110 §15: a status that is none is a 502, and other requests to the service go on."""

    PIPE = [PYTHON, "-B", "-c", "; ".join((
        "import sys",
        f"sys.path.insert(0, {str(ROOT / 'sdk' / 'python')!r})",
        "import pilotlight",
        "size = lambda r: 200_000 if 'large' in r.path else 2",
        "pilotlight.serve(lambda r: (int(r.path[-3:]), {}, b'x' * size(r)))",
    ))]  # fmt: skip

    def test_over_the_pipe(self):
        gateway = self.start(Gateway(BINARY, config(service("odd", self.PIPE), route("/", "odd"))))
        for path in ("/", "/large/"):
            for status in (600, 999):
                self.assert_problem(gateway.get(f"{path}{status}"), 502)
            self.assert_status(gateway.get(f"{path}599"), 599)

    def test_over_http(self):
        gateway, _ = self.gateway_to(lambda peer: peer.send(b"HTTP/1.1 %b Odd\r\nContent-Length: 2\r\n\r\nok" % peer.head().split(b"/")[1][:3]))
        for status in ("600", "999", "099", "000"):
            self.assert_problem(gateway.get("/" + status), 502)
        self.assert_status(gateway.get("/599"), 599)


class Backlogs(Scripted):
    """A service that accepts nothing, and whose socket has a backlog of its own: requests wait, or are told to come again."""

    # Listens anew on the inherited socket, with room for one connection, and accepts only when the file `go` is there.
    SERVER = """
import os, socket, time
server = socket.socket(fileno=3)
server.listen(0)
open("listens", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
while True:
    peer, _ = server.accept()
    if peer.recv(65536):
        peer.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    peer.close()
"""

    def test_they_wait_up_to_the_queue_and_the_rest_is_told(self):
        folder = Path(tempfile.mkdtemp(prefix="pilotlight-backlog-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "server.py").write_text(self.SERVER)
        full = service("full", [PYTHON, "-B", "server.py"], transport="http", dir=str(folder), queue={"max": 4, "timeout": "60s"})
        gateway = self.start(Gateway(BINARY, config(full, route("/", "full"), dev=False)))
        first = threading.Thread(target=lambda: gateway.client(timeout=60).request("GET", "/"), daemon=True)
        first.start()
        self.assert_eventually((folder / "listens").exists, "it was started", 30)
        threading.Timer(2, (folder / "go").touch).start()
        answers = in_threads(24, lambda _: gateway.client(timeout=60).request("GET", "/"))
        codes = [one.status for one in answers]
        self.assertEqual(set(codes), {200, 503}, codes)
        self.assertGreaterEqual(codes.count(200), 4)
        for one in answers:
            if one.status == 503:
                self.assertTrue(int(one.get("retry-after")))
                problem = self.assert_problem(one, 503)
                self.assertIn("queue.max", problem["detail"])
                self.assertNotIn("/", problem["detail"].replace("services.full", ""), "no path")


if __name__ == "__main__":
    unittest.main()
