"""A purge on one gateway counts on all that share a Redis, whatever that goes through (issue 6, numbers 4 and 5).

Every body says its URL and the version that the service had of it: an answer older than a purge that was confirmed is a wrong one.
"""

import contextlib
import json
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import BINARY, Gateway, config, route, service, setUpModule
from redis_servers import Cluster
from test_operate import ADMIN, Operated, Unix

__all__ = ["setUpModule"]

TARGETS = [f"/{folder}/{number}" for folder in ("a", "b") for number in range(3)]
#: What the issue asks for is printed; what is asserted leaves room for a machine that does something else, too.
VISIBLE_WITHIN = 5.0


class Pages(BaseHTTPRequestHandler):
    """`URL version`, fresh for ten minutes, with tags."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65_536

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = f"{self.path} {self.server.versions[self.path]}".encode()
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=600")
        self.send_header("Cache-Tag", f"all, {self.path.split('/')[1]}")
        self.send_header("Cache-Groups", '"g"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(204)
        self.send_header("Cache-Group-Invalidation", '"g"')
        self.end_headers()


class Nodes(Operated):
    def setUp(self):
        self.pages = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        self.pages.daemon_threads = True
        self.pages.versions = defaultdict(int)
        threading.Thread(target=self.pages.serve_forever, daemon=True).start()
        self.addCleanup(self.pages.server_close)
        self.addCleanup(self.pages.shutdown)
        self.cluster = Cluster(3, 1)
        self.addCleanup(self.cluster.close)
        self.a, self.b = self.gateway(), self.gateway()

    def gateway(self):
        web = service("web", url=f"http://127.0.0.1:{self.pages.server_port}")
        redis = f'[cache.redis]\nurl = "{self.cluster.url}"\nbudget = "{self.budget}"\n'
        gateway = self.start(Gateway(BINARY, config(web, route("/", "web", cache=True), ADMIN, redis)))
        self.wait_covered(gateway)
        return gateway

    def admin(self, gateway, target, method="GET", body=None, status=200):
        """Many are asked in a row: each connection is closed, as 64 are served at once."""
        connection = Unix(self.socket(gateway))
        with contextlib.closing(connection):
            connection.request(method, target, body)
            answer = connection.getresponse()
            text = answer.read()
        self.assertEqual(answer.status, status, text)
        return json.loads(text)

    def coherence(self, gateway):
        return self.admin(gateway, "/status")["cache"]["coherence"]

    def wait_covered(self, gateway):
        self.assert_eventually(lambda: self.coherence(gateway)["covered"], "other gateways are not known", 30)

    def version(self, gateway, target):
        answer = gateway.get(target, host="h.test")
        self.assert_status(answer, 200)
        path, version = answer.body.decode().split()
        self.assertEqual(path, target)
        return int(version)

    def purge(self, gateway, **body):
        return self.admin(gateway, "/purge", "POST", json.dumps(body))

    def change(self, targets):
        for target in targets:
            self.pages.versions[target] += 1


class AllIsWell(Nodes):
    budget = "1s"  # what was not purged is still there: on a busy machine, too, nobody asks the service instead of Redis

    def test_a_purge_counts_everywhere_when_it_is_answered(self):
        cases = {
            "url": ({"url": "http://h.test/a/1"}, ["/a/1"]),
            "prefix": ({"prefixes": ["http://h.test/a/"]}, ["/a/0", "/a/1", "/a/2"]),
            "tag": ({"tags": ["b"]}, ["/b/0", "/b/1", "/b/2"]),
            "group": ({"groups": [{"name": "g", "origin": "http://h.test"}]}, TARGETS),
            "everything": ({"everything": True}, TARGETS),
            "soft": ({"tags": ["all"], "soft": True}, TARGETS),
        }
        times = []
        for name, (body, changed) in cases.items():
            with self.subTest(name):
                before = {target: {self.version(gateway, target) for gateway in (self.a, self.b)} for target in TARGETS}
                self.change(TARGETS)
                told = self.purge(self.a, **body)
                self.assertEqual((len(told["nodes"]["applied"]), told["nodes"]["late"]), (2, []), told)
                times.append(told["nodes"]["milliseconds"])
                for target in TARGETS:
                    versions = {self.version(gateway, target) for gateway in (self.a, self.b)}
                    expected = {self.pages.versions[target]} if target in changed else before[target]
                    self.assertEqual(versions, expected, target)
                self.purge(self.a, everything=True)
        print(f"purges were applied by both gateways after {times} ms")

    def test_visible(self):
        """From the beginning of the command to an answer of the other gateway that is new, seen by somebody who asks all the time."""
        times = []
        for _ in range(20):
            for gateway in (self.a, self.b):
                self.version(gateway, "/a/1")
            self.change(["/a/1"])
            begun = time.monotonic()
            self.purge(self.a, tags=["a"])
            while self.version(self.b, "/a/1") != self.pages.versions["/a/1"]:
                self.assertLess(time.monotonic() - begun, VISIBLE_WITHIN)
            times.append(round((time.monotonic() - begun) * 1000, 1))
        print(f"purges were visible at the other gateway after {sorted(times)} ms")

    def test_groups_of_unsafe_requests(self):
        for gateway in (self.a, self.b):
            self.version(gateway, "/a/1")
        self.change(["/a/1"])
        self.assert_status(self.a.request("POST", "/form", body=b"x", host="h.test"), 204)
        self.assertEqual(self.version(self.a, "/a/1"), 1)
        self.assert_eventually(lambda: self.version(self.b, "/a/1") == 1, "the other gateway was not told")

    def test_the_command_says_who_has_done_it(self):
        told = self.cli(self.a, "purge", "--tag", "a")
        self.assertRegex(told, r"purged tag a\ntold to other gateways, number \d+\napplied by \S+, \S+ within [\d.]+ ms\n")


class Faults(Nodes):
    budget = "5ms"

    def go_through(self, fault):
        """Purges and reads while something happens; whatever was confirmed must be seen, at once here and there."""
        wrong, confirmed, rounds = [], 0, 0
        fault = threading.Thread(target=fault, daemon=True)
        fault.start()
        ends = None
        while ends is None or rounds < ends:
            if ends is None and not fault.is_alive():
                ends = rounds + 10
            rounds += 1
            for gateway in (self.a, self.b):
                for target in TARGETS:
                    self.version(gateway, target)
            self.change(TARGETS)
            floor = dict(self.pages.versions)
            told = self.purge(self.a, tags=["all"])["nodes"]
            everywhere = len(told.get("applied", [])) == 2
            confirmed += everywhere
            for gateway in (self.a, self.b) if everywhere else (self.a,):
                wrong += [(target, gateway is self.a) for target in TARGETS if self.version(gateway, target) < floor[target]]
        self.assertEqual(wrong, [], f"answers older than their purge, after {rounds} rounds")
        for gateway in (self.a, self.b):
            self.wait_covered(gateway)
        self.assert_eventually(lambda: self.coherence(self.a)["waiting"] == 0, "purges still wait", 30)
        self.assertGreater(confirmed, 0)
        for gateway in (self.a, self.b):
            for target in TARGETS:
                self.assert_eventually(lambda: self.version(gateway, target) == self.pages.versions[target], target)  # noqa: B023
        print(f"{self.id()}: {rounds} purges, {confirmed} confirmed by both, none seen through")

    def test_paused(self):
        def fault():
            for node in self.cluster.primaries:
                node.pause()
            time.sleep(2)  # the fault itself
            for node in self.cluster.primaries:
                node.go_on()

        self.go_through(fault)

    def test_failover(self):
        def fault():
            self.cluster.fail_over()

        self.go_through(fault)

    def test_all_killed(self):
        """Everything that was in it is lost, and the purges are not."""
        def fault():
            for node in self.cluster.nodes:
                node.kill()
            time.sleep(1)  # the fault itself
            for node in self.cluster.nodes:
                node.start()

        self.go_through(fault)
