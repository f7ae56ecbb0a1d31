"""`pilotlight lab rest` and `pilotlight lab factors`: real, short runs. What is measured is not looked at, but that everything is.

The service is examples/users. Peers take part where `lab/peers/rest/build.sh` has built them, and are skipped visibly elsewhere.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import BINARY, PYTHON, ROOT, TestCase, setUpModule
from schemas import mismatches
from users_service import USERS

__all__ = ["setUpModule"]

RUN_LIMIT = 300
PEERS = ROOT / "lab" / "peers"
SCHEMA = json.loads((ROOT / "docs" / "lab" / "report.schema.json").read_text())

# A service whose every answer is fine by its status, and whose pages are all of one user.
FORGETFUL = """
import http.server, json, os

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        user = {"id": 1, "name": "A", "email": "a@b", "bio": None, "createdAt": "2024-01-01T00:00:00Z"}
        body = json.dumps({"data": [user] * 20} if "?" in self.path else user).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


class LabTest(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-lab-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def lab(self, *arguments, expected=0):
        process = subprocess.Popen(
            [BINARY, "lab", *map(str, arguments)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(process.kill)
        out, err = process.communicate(timeout=RUN_LIMIT)
        self.assertEqual(process.returncode, expected, out + err)
        return out, err

    def results(self, folder="lab-results"):
        """The one experiment of the report."""
        report = json.loads((self.folder / folder / "report.json").read_text())
        self.assertEqual(list(mismatches(report, SCHEMA)), [])
        [results] = report["experiments"]
        return results


class RestTest(LabTest):
    def measured(self, case, *services, redis="standalone", peers=None):
        """Two rounds of a second: the variants of the group, without the control."""
        chosen = ["--cases", case, "--services", ",".join(services), "--redis", redis]
        if peers:
            chosen += ["--peers", peers]
        amount = ["--rounds", 2, "--secs", 1, "--warmup", 1, "--noisy-anyway"]
        self.lab("rest", *amount, "--users", USERS, *chosen)
        [group] = self.results()["groups"]
        self.assertEqual(group["id"], f"{case}-{redis}")
        variants = {variant["id"]: variant for variant in group["variants"] if variant["role"] != "control"}
        self.assertEqual(list(variants), list(services))
        for variant in variants.values():
            self.assertIsNone(variant["failed"])
            self.assertEqual(len(variant["rounds"]), 2)
            self.assertEqual(set(variant["cpu_us"]), {"service", "redis"})
            for one in variant["rounds"]:
                self.assertGreater(one["cpu-us"], 0)
                self.assertGreaterEqual(one["p999-ms"], one["p50-ms"])
        self.assertEqual({comparison["verdict"] for comparison in group["comparisons"]} - {"not-comparable"}, set(), "two rounds tell nothing apart")
        return variants

    def check(self, case, **options):
        self.measured(case, "users", **options)

    def test_get_warm(self):
        self.check("get-warm")

    def test_get_cold(self):
        self.check("get-cold")

    def test_list(self):
        self.check("list")

    def test_post(self):
        self.check("post")

    def test_mixed_in_a_cluster(self):
        self.check("mixed", redis="cluster")

    def test_behind_the_gateway_with_and_without_its_cache(self):
        self.measured("mixed", "gateway", "gateway-cache")

    def test_on_a_slow_disk_no_post_is_faster_than_an_fsync(self):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("there is no cc, which builds the slow disk")
        built = self.folder / "peers" / "rest" / "target"
        built.mkdir(parents=True)
        source = PEERS / "rest" / "slowsync.c"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", built / "slowsync.so", source, "-ldl"], check=True)
        users = self.measured("post-slow", "users", peers=self.folder / "peers")["users"]
        for one in users["rounds"]:
            self.assertGreaterEqual(one["p50-ms"], 5)

    def test_the_node_peer(self):
        self.peer("node-ioredis", "node", "node/node_modules/better-sqlite3/build/Release/better_sqlite3.node")

    def test_the_go_peer(self):
        self.peer("go-rueidis", "go", "go-rueidis")

    def test_the_java_peer(self):
        self.peer("java-lettuce", "java", "java/classes/Main.class")

    def test_the_haskell_peer(self):
        self.peer("haskell-warp", "haskell", "haskell-warp")

    def test_the_rust_peers(self):
        self.peer("axum-fred", "rust", "axum-fred")
        self.peer("axum-redis", "rust", "axum-redis")

    def peer(self, name, part, file):
        if not (PEERS / "rest" / "target" / file).exists():
            self.skipTest(f"optional: {name} is not built; build it with lab/peers/rest/build.sh {part}")
        self.measured("mixed", name, peers=PEERS)

    def test_the_list_says_what_there_is_and_what_is_missing(self):
        out, _ = self.lab("rest", "--list", "--peers", self.folder / "none")
        self.assertIn("gateway-cache   examples/users behind the gateway, which caches for 60 s", out)
        self.assertIn("axum-fred       axum, fred, rusqlite\n                    missing: there is no", out)
        self.assertIn("axum-fred; build it with lab/peers/rest/build.sh", out)

    def test_the_list_and_the_report_have_the_versions_of_what_was_built(self):
        self.stand_in("axum-fred", USERS)
        built = self.folder / "peers" / "rest" / "target"
        (built / "axum-fred.versions").write_text("axum 1.2.3, fred 4.5.6\n")
        out, _ = self.lab("rest", "--list", "--peers", self.folder / "peers")
        self.assertIn("axum, fred, rusqlite (axum 1.2.3, fred 4.5.6; tokio's multi-thread runtime, ", out)

    def test_a_service_that_answers_wrongly_fails_and_does_not_count(self):
        amount = ["--rounds", 1, "--secs", 1, "--warmup", 1, "--noisy-anyway", "--cases", "get-warm", "--redis", "standalone"]
        (self.folder / "forgetful.py").write_text(FORGETFUL)
        self.stand_in("axum-fred", f"{PYTHON} {self.folder / 'forgetful.py'}")
        chosen = ["--users", USERS, "--services", "users,axum-fred", "--peers", self.folder / "peers"]
        _, err = self.lab("rest", *amount, *chosen, expected=1)
        self.assertIn("FAILED: rest get-warm-standalone: axum-fred: ", err)
        [group] = self.results()["groups"]
        [users, wrong] = [variant for variant in group["variants"] if variant["role"] != "control"]
        self.assertIn("wrong answer: page 2 has the users [1, 1", wrong["failed"])
        self.assertEqual((wrong["rounds"], users["failed"]), ([], None))

    def stand_in(self, name, command):
        """A program in a peer's place."""
        built = self.folder / "peers" / "rest" / "target"
        built.mkdir(parents=True)
        (built / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (built / name).chmod(0o755)

    def test_what_is_missing_is_skipped_and_said(self):
        amount = ["--rounds", 1, "--secs", 1, "--warmup", 1, "--noisy-anyway", "--peers", self.folder / "none"]
        _, err = self.lab("rest", *amount, "--users", USERS, "--cases", "post", "--redis", "standalone", "--services", "users,axum-fred")
        self.assertIn("skipped: axum-fred: there is no", err)
        self.assertEqual([skipped["what"] for skipped in self.results()["skipped"]], ["axum-fred"])

    def test_a_service_that_does_not_start_fails_the_run(self):
        _, err = self.lab(
            "rest", "--quick", "--noisy-anyway", "--users", "/bin/false", "--services", "users", "--redis", "standalone", "--cases", "post",
            expected=1,
        )
        self.assertIn("FAILED: rest post-standalone: users: users ended (exit code 1) before it says where it listens", err)
        [group] = self.results()["groups"]
        for variant in group["variants"]:
            self.assertIn("ended (exit code 1) before it says where it listens", variant["failed"])
            self.assertEqual((variant["rounds"], variant["summary"]), ([], {}))


class FactorsTest(LabTest):
    """With examples/users in the place of two of the programs: they are told the same, and answer the same."""

    def stand_in(self, *names):
        built = self.folder / "peers" / "factors" / "target" / "release"
        built.mkdir(parents=True)
        for name in names:
            # On a busy machine it would go on without Redis.
            (built / name).write_text(f'#!/bin/sh\nexec "{USERS}" "$@" --redis-budget-ms 10000\n')
            (built / name).chmod(0o755)
        return "--peers", self.folder / "peers", "--out", self.folder / "out"

    def test_each_change_is_compared_on_hits_and_on_misses(self):
        peers = self.stand_in("base", "json-serde")
        self.lab("factors", *peers, "--rounds", 1, "--secs", 2, "--noisy-anyway")
        results = self.results("out")
        self.assertEqual(results["name"], "factors")
        groups = {group["id"]: group for group in results["groups"]}
        self.assertEqual(list(groups), ["hit", "miss"])
        for group in groups.values():
            variants = {variant["id"]: variant for variant in group["variants"]}
            self.assertEqual(list(variants), ["base", "json-serde", "lanes-2", "lanes-4", "users", "base (again)"])
            for variant in variants.values():
                self.assertIsNone(variant["failed"])
                self.assertEqual(set(variant["cpu_us"]), {"service", "Redis", "load"})
                self.assertGreater(variant["requests"], 0)
            asked = {(comparison["one"], comparison["metric"]) for comparison in group["comparisons"]}
            self.assertEqual(asked, {(one, metric) for one in list(variants)[1:5] for metric in ["cpu-us", "per-second"]})
        skipped = {skipped["what"] for skipped in results["skipped"]}
        self.assertEqual(skipped, {"allocator-system", "allocator-jemalloc", "runtime-multi-thread", "http-axum", "tls"})

    def test_a_quick_run_leaves_misses_out_and_says_so(self):
        self.lab("factors", *self.stand_in("base", "http-axum"), "--quick", "--rounds", 2, "--noisy-anyway")
        results = self.results("out")
        self.assertEqual([group["id"] for group in results["groups"]], ["hit"])
        [left_out] = [skipped for skipped in results["skipped"] if skipped["install"] == "leave out --quick"]
        self.assertIn("Redis emptied every 500 ms", left_out["what"])
        self.assertEqual([finding for finding in results["findings"] if "one path alone decides nothing" not in finding], [])
        self.assertTrue(results["findings"])

    def test_the_list_names_every_layer_and_how_to_build_it(self):
        out, _ = self.lab("factors", *self.stand_in("base"), "--list")
        for name in ["allocator-jemalloc", "runtime-multi-thread", "http-axum", "json-serde", "lanes-4", "tls", "users"]:
            self.assertIn(name, out)
        self.assertIn("lab/peers/factors/build.sh", out)

    def test_without_the_programs_nothing_is_measured_and_that_is_said(self):
        _, err = self.lab("factors", "--peers", self.folder, "--quick", "--noisy-anyway")
        self.assertIn("skipped: base: there is no", err)
