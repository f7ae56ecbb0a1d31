"""`pilotlight lab layers`, `redis` and `gate`: real runs of a few requests, and programs that do not do what they should."""

import json
import os
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from certificates import Authority
from harness import BINARY, ROOT, Gateway, TestCase, config, route, service, setUpModule
from ports import free_port
from programs import find, needs
from test_operate import Unix

__all__ = ["setUpModule"]

RUN_LIMIT = 400
REDIS = find("redis-server", "valkey-server")
# As a client of lab/peers/redis: it begins to measure when it says so, and has measured when it says what.
CLIENT = """#!/bin/sh
echo START
{middle}
echo 'END {{"ops":1000,"errors":{errors},"ops_s":5000,"cpu_us":{cpu},"p50":100,"p99":300}}'
"""


def lab(*words, code=None, cwd=ROOT, path=os.environ["PATH"]):
    done = subprocess.run([BINARY, "lab", *map(str, words)], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=RUN_LIMIT,
                          env={**os.environ, "PATH": path})
    if code is not None and done.returncode != code:
        raise AssertionError(f"exit code {done.returncode}: {done.stdout[-3000:]} {done.stderr[-3000:]}")
    return done


class Folders(TestCase):
    def setUp(self):
        super().setUp()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lab-layers-")))

    def report(self):
        return json.loads((self.folder / "out" / "report.json").read_text())["experiments"][0]


class Layers(Folders):
    @unittest.skipUnless(REDIS, "redis-server is not installed")
    def test_every_layer_answers_and_is_measured(self):
        lab("layers", "--quick", "--rounds", 2, "--secs", 0.2, "--noisy-anyway", "--out", self.folder / "out")
        results = self.report()
        self.assertEqual([group["id"] for group in results["groups"]], ["many", "one"])
        for group in results["groups"]:
            wanted = ["bare", "hyper", "routing", "hit", "pipe", "http", "pipe-redis", "bare-redis", "hit-redis"]
            self.assertEqual([variant["id"] for variant in group["variants"]][:9], wanted)
            for variant in group["variants"]:
                self.assertIsNone(variant["failed"], variant)
                self.assertGreater(variant["requests"], 0)
                self.assertGreater(variant["summary"]["cpu-us"]["median"], 0, variant["id"])
            processes = {variant["id"]: set(variant["cpu_us"]) for variant in group["variants"]}
            self.assertEqual(processes["bare"], {"server", "load"})
            self.assertEqual(processes["bare-redis"], {"server", "redis", "load"})
            self.assertEqual(processes["pipe-redis"], {"gateway", "service", "redis", "load"})
            self.assertTrue(all(comparison["difference"] for comparison in group["comparisons"]))


class Front(Folders):
    @needs("h2load")
    def test_a_quick_run_ends(self):
        lab("front", "--quick", "--noisy-anyway", "--out", self.folder / "out")
        [group] = self.report()["groups"]
        self.assertEqual([(variant["id"], variant["role"]) for variant in group["variants"]][:2], [("pilotlight", "subject"), ("floor", "floor")])
        for variant in group["variants"]:
            self.assertIsNone(variant["failed"])
            self.assertGreater(variant["requests"], 0)


class Floor(Folders):
    """The floor of `front` gives out what the others do: a small answer, a small file and a large one."""

    LARGE = 5_000_000

    def test_it_has_three_answers_with_and_without_tls(self):
        (self.folder / "app.js.gz").write_text("z" * 10_000)
        (self.folder / "large.bin").write_bytes(os.urandom(self.LARGE))
        certificate, key = Authority(self.folder).issue("127.0.0.1")
        secure, plain = (f"127.0.0.1:{free_port()}" for _ in range(2))
        words = [BINARY.with_name("pilotlight-lab"), "lab-service", "bare-front", secure, plain, self.folder, "/app.js", "/large.bin", certificate, key]
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL)
        self.addCleanup(lambda: (process.kill(), process.wait()))
        self.until_it_listens(plain)
        small = json.loads(self.get("--http1.1", f"http://{plain}/users/42"))
        self.assertEqual(small["id"], 42)
        for version in ("--http1.1", "--http2"):
            self.assertEqual(json.loads(self.get(version, f"https://{secure}/users/42")), small)
        self.assertEqual(self.get("--http1.1", f"http://{plain}/app.js"), b"z" * 10_000)
        for url in (f"http://{plain}/large.bin", f"https://{secure}/large.bin"):
            self.assertEqual(self.get("--http1.1", url), (self.folder / "large.bin").read_bytes())
        self.assertIsNone(process.poll())

    def until_it_listens(self, address):
        host, port = address.split(":")
        deadline = time.monotonic() + 30
        while True:
            try:
                return socket.create_connection((host, int(port)), timeout=5).close()
            except ConnectionRefusedError:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)

    def get(self, *words):
        return subprocess.run(["curl", "--silent", "--show-error", "--fail", "--insecure", "--max-time", "60", *words], check=True, capture_output=True).stdout


class Flames(Folders):
    """Each variant once more beneath perf: pictures, and what is counted of a request."""

    def test_each_variant_has_two_pictures_and_its_counters(self):
        counts = lambda event: subprocess.run(["perf", "stat", "--event", event, "true"], capture_output=True).returncode == 0  # noqa: E731
        command = ["equals", "--quick", "--rounds", 2, "--secs", 0.1, "--noisy-anyway", "--flames", "--out", self.folder / "out"]
        if not counts("context-switches"):
            self.assertIn("perf may count nothing here", lab(*command, code=1).stderr)
            return
        lab(*command)
        results = self.report()
        for group, table in zip(results["groups"], results["tables"], strict=True):
            wanted = [variant["id"] for variant in group["variants"] if variant["role"] != "control"]
            self.assertEqual([row["id"] for row in table["rows"]], wanted)
            for row in table["rows"]:
                self.assertIsNone(row["failed"])
                self.assertIn("context-switches", row["rounds"][0])
                if counts("raw_syscalls:sys_enter"):  # a server of one thread reads and writes each
                    self.assertGreaterEqual(row["rounds"][0]["system-calls"], 1)
                for picture in ("cpu", "waits") if counts("sched:sched_switch") else ("cpu",):
                    file = self.folder / "out" / "flames" / f"equals-{group['id']}-{row['id']}-{picture}.svg"
                    self.assertIn("epoll_wait", file.read_text())

    def test_without_perf_it_is_said_before_anything_is_measured(self):
        done = lab("equals", "--flames", "--out", self.folder / "out", code=1, path="/nowhere")
        self.assertIn("--flames needs perf, which is not here: apt install linux-perf", done.stderr)


@unittest.skipUnless(REDIS, "redis-server is not installed")
class Clients(Folders):
    """The experiment `redis` in a checkout whose clients are scripts."""

    def client(self, name, cpu=1.0, middle="sleep 0.2", errors=0):
        folder = self.folder / "target" / "lab-peers-redis" / "rust" / "release"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(CLIENT.format(cpu=cpu, middle=middle, errors=errors))
        (folder / name).chmod(0o755)

    def measure(self):
        (self.folder / "lab" / "peers" / "redis").mkdir(parents=True)
        lab("redis", "--quick", "--rounds", 2, "--secs", 0.1, "--noisy-anyway", "--peers", self.folder / "lab" / "peers",
            "--out", self.folder / "out")
        results = self.report()
        return results, {variant["id"]: variant for variant in results["groups"][0]["variants"]}

    def test_who_crashes_or_is_wrong_is_not_counted_and_who_is_missing_is_named(self):
        self.client("p-pilotlight", cpu=1.5)
        self.client("tokio-floor", cpu=1.0)
        self.client("p-fred", middle="kill -9 $$")
        results, variants = self.measure()
        self.assertIsNone(variants["pilotlight-ct"]["failed"])
        self.assertEqual(variants["pilotlight-ct"]["summary"]["cpu-us"]["median"], 1.5)
        self.assertIn("signal 9", variants["fred-10-1-0-ct"]["failed"])
        self.assertEqual(variants["fred-10-1-0-ct"]["rounds"], [])
        skipped = {one["what"]: one for one in results["skipped"]}
        self.assertEqual(skipped["redis-rs 1.8.1 ct"]["install"], "lab/peers/redis/build.sh rust")

    def test_wrong_answers_make_a_client_fail(self):
        self.client("p-pilotlight")
        self.client("tokio-floor", errors=3)
        _, variants = self.measure()
        self.assertIn("3 answers were wrong", variants["floor-tokio-ct"]["failed"])


@needs("valgrind")
class Gate(Folders):
    """Programs of the debug build are counted, so that nothing has to be built."""

    def setUp(self):
        super().setUp()
        programs = Path(BINARY).parent
        if not (programs / "pilotlight-gate").exists():
            subprocess.run(["cargo", "build", "--quiet", "-p", "pilotlight-gate"], cwd=ROOT, check=True)
        self.words = ["gate", "--programs", programs, "--baseline", self.folder / "baseline.json"]

    def baseline(self):
        return json.loads((self.folder / "baseline.json").read_text())

    def write(self, baseline):
        (self.folder / "baseline.json").write_text(json.dumps(baseline))

    def test_what_has_not_changed_passes_and_what_takes_5_percent_more_does_not(self):
        done = lab(*self.words, "--only", "resp-get", code=1)
        self.assertIn("there is no", done.stderr)
        lab(*self.words, "--only", "resp-get", "--accept", code=0)
        lab(*self.words, "--only", "resp-get", code=0)
        baseline = self.baseline()
        baseline["counts"] = {"planted": baseline["counts"]["resp-get"]}
        self.write(baseline)
        done = lab(*self.words, "--only", "planted", code=1)
        self.assertIn("more than 3 % more", done.stdout)
        self.assertIn("lab gate --accept", done.stdout)
        # accepted, it is what the next change is held against
        lab(*self.words, "--only", "planted", "--accept", code=0)
        lab(*self.words, "--only", "planted", code=0)

    def test_an_improvement_has_to_be_committed_as_well(self):
        lab(*self.words, "--only", "frame-codec", "--accept", code=0)
        baseline = self.baseline()
        baseline["counts"]["frame-codec"] *= 1.05
        self.write(baseline)
        self.assertIn("more than 3 % less", lab(*self.words, "--only", "frame-codec", code=1).stdout)

    def test_the_whole_gateway_is_counted_alike_each_time(self):
        # Its client is part of what is counted, by how it comes in batches: on a busy machine two runs may differ.
        outputs = []
        for _ in range(3):
            lab(*self.words, "--only", "hit", "--accept", code=0)
            self.assertEqual(sorted(self.baseline()["counts"]), ["hit"])
            done = lab(*self.words, "--only", "hit")
            if done.returncode == 0:
                return
            outputs.append(done.stdout)
        self.fail("\n".join(outputs))

    def test_another_toolchain_is_said_and_not_compared(self):
        lab(*self.words, "--only", "resp-get", "--accept", code=0)
        baseline = self.baseline()
        baseline["toolchain"]["rustc"] = "rustc 0.1"
        self.write(baseline)
        done = lab(*self.words, "--only", "resp-get", code=0)
        self.assertIn("NOT COMPARED: the baseline is of another toolchain\n  rustc: rustc 0.1 in the baseline", done.stdout)
        lab(*self.words, "--only", "resp-get", "--strict", code=1)

    def test_a_gateway_that_is_counted_tells_its_status(self):
        """Whoever looks for gateways of this user (`pilotlight status`) asks it, too."""
        program = self.folder / "counted"
        program.write_text(f'#!/bin/sh\nexec valgrind --tool=callgrind --callgrind-out-file=/dev/null --quiet "{BINARY}" "$@"\n')
        program.chmod(0o755)
        admin = '[admin]\nsocket = "@FOLDER@/admin.sock"\n'
        gateway = Gateway(program, config(service(), route(), admin), start_limit=120.0, stop_limit=120.0)
        self.start(gateway)
        asked = Unix(gateway.folder / "admin.sock")
        self.addCleanup(asked.close)
        asked.timeout = RUN_LIMIT
        asked.request("GET", "/status")
        [told] = json.loads(asked.getresponse().read())["services"]
        self.assertEqual((told["name"], told["state"]), ("demo", "stopped"))

    def test_outside_of_a_checkout_it_says_so(self):
        self.assertIn("is not in a checkout", lab("gate", code=1, cwd=self.folder).stderr)


if __name__ == "__main__":
    unittest.main()
