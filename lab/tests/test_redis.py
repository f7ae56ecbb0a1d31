"""Tests of the Redis benchmark's own parts; none needs a server."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import redis as command
from harness.lab import Lab, first_error
from harness.procfs import CpuTime
from harness.program import Failed
from harness.report import Samples
from redis_lab import builds, cluster, figures, measure, variants
from redis_lab.resp import encode

END = 'END {"workload":"w1","ops":10,"errors":0,"secs":1.5,"cpu_us":0.5,"p50":3.25}\n'
CSV = ('Cluster has 5 master nodes:\n\n"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",'
       '"max_latency_ms"\n"GET","60000.00","1.2","0.1","1.103","2.5","3.207","4.4"\n')
INFO = "# Stats\r\ntotal_commands_processed:7\r\nkeyspace_misses:0\r\ninstantaneous_input_kbps:0.01\r\n"


def samples_of(**rounds):
    samples = Samples()
    for name, values in rounds.items():
        for value in values:
            samples.add(name.replace("_", " "), value and {"cpu_us": value, "p50": value, "errors": 0})
    return samples


class Parsing(unittest.TestCase):
    def test_the_end_line(self):
        self.assertEqual(measure.parse_end(END), {"ops": 10, "errors": 0, "secs": 1.5, "cpu_us": 0.5, "p50": 3.25})
        for line in ("END\n", "END 7\n", "END {\n"):
            with self.assertRaisesRegex(Failed, "not an END line"):
                measure.parse_end(line)

    def test_redis_benchmark(self):
        result = measure.parse_benchmark(CSV)
        self.assertEqual(result["ops_s"], 60_000)
        self.assertAlmostEqual(result["p50"], 1103)
        self.assertAlmostEqual(result["p99"], 3207)
        with self.assertRaisesRegex(Failed, "printed something else: 'Error'"):
            measure.parse_benchmark("Error")

    def test_counters_are_the_whole_numbers(self):
        self.assertEqual(cluster.parse_counters(INFO), {"total_commands_processed": 7, "keyspace_misses": 0})

    def test_commands(self):
        self.assertEqual(encode("SET", b"k", 12), b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n12\r\n")

    def test_the_first_error_of_maven(self):
        self.assertEqual(first_error("\x1b[0m\x1b[0m[ERROR] no \n[ERROR] z"), "[ERROR] no [ERROR] z")


class Slots(unittest.TestCase):
    def test_the_specification(self):
        self.assertEqual(cluster.slot_of(b"123456789"), 0x31C3)
        self.assertEqual(cluster.slot_of(b"a{b}{c}"), cluster.slot_of(b"b"))
        self.assertEqual(cluster.slot_of(b"{}a") == cluster.slot_of(b""), False)

    def test_the_keys_of_w5_are_on_one_node(self):
        self.assertEqual(len({cluster.node_of(f"{{one}}:{number}".encode()) for number in range(100)}), 1)

    def test_each_slot_has_one_node(self):
        bounds = cluster.slot_bounds()
        self.assertEqual((bounds[0], bounds[-1], len(bounds)), (0, 16_384, 6))
        self.assertEqual(bounds, sorted(bounds))

    def test_ports_differ(self):
        self.assertEqual(len(set(cluster.free_ports(10))), 10)


class Measurement(unittest.TestCase):
    """With programs that only print."""

    def measure(self, script, misses=0):
        variant = variants.Variant("x", variants.OTHER, variants.CT, variants.RUST, [sys.executable, "-c", script])
        counters = {"total_commands_processed": 0, "total_reads_processed": 0, "keyspace_misses": 0}
        later = {"total_commands_processed": 40, "total_reads_processed": 4, "keyspace_misses": misses}
        samples = [cluster.Sample(CpuTime(0, 0), counters), cluster.Sample(CpuTime(20e-6, 20e-6), later)]
        servers = SimpleNamespace(ports=[1, 2], sample=lambda: samples.pop(0))
        with tempfile.TemporaryDirectory() as folder:
            return measure.measure(servers, variant, "w1", 1, Path(folder) / "log")

    def test_client_and_servers(self):
        result = self.measure(f"print('START'); print({END!r})")
        self.assertEqual((result["cpu_us"], result["commands_per_read"], result["errors"]), (0.5, 10, 0))
        self.assertAlmostEqual(result["server_us"], 2)
        self.assertAlmostEqual(result["both_us"], 2.5)

    def test_a_key_that_is_missing_is_an_error(self):
        self.assertEqual(self.measure(f"print('START'); print({END!r})", misses=3)["errors"], 3)

    def test_the_program_is_told_what_to_do(self):
        with self.assertRaisesRegex(Failed, "status 1 without a result: w1 ports=1,2 secs=1 warm=1"):
            self.measure("import sys; sys.exit(' '.join(sys.argv[1:]))")

    def test_no_answers(self):
        with self.assertRaisesRegex(Failed, "not one answer"):
            self.measure("print('START'); print('END {\"ops\": 0, \"errors\": 0}')")


class Figures(unittest.TestCase):
    def figures(self, workload, **rounds):
        lab = SimpleNamespace(samples={workload: samples_of(**rounds)}, found=[])
        lab.figure = lambda *arguments: lab.found.append(arguments)
        chosen = [variant for variant in variants.VARIANTS if variant.name in lab.samples[workload].rounds]
        figures.add_figures(lab, workload, chosen)
        return lab.found

    def test_ratios_are_of_the_same_round_and_shape(self):
        found = self.figures("w1", **{"pilotlight ct": [1, 3], "floor: tokio ct": [1, 2], "floor: tokio mt2": [9, 9],
                                      "fred 10.1.0 ct": [5, 5], "redis-rs 1.8.1 ct": [2, 4], "rueidis 1.0.79": [1, 1]})
        self.assertEqual(found, [("w1, pilotlight ct: CPU / floor", 1.4, "×", [1, 1.5], "floor: tokio ct", 0),
                                 ("w1, pilotlight ct: CPU / best other", 0.6, "×", [0.5, 0.75], "redis-rs 1.8.1 ct", 0)])

    def test_a_batch_has_a_figure_of_its_own(self):
        self.assertEqual(self.figures("w2", **{"pilotlight mt2": [0.8]}), [("w2, pilotlight mt2: client CPU", 0.9, " µs", [0.8], "", 0)])

    def test_one_caller_is_compared_with_the_blocking_loop(self):
        found = self.figures("w5", **{"pilotlight ct": [21], "floor: blocking": [20]})
        self.assertEqual(found, [("w5, pilotlight ct: p50 / floor", 1.05, "×", [1.05], "floor: blocking", 0)])

    def test_without_our_client_there_are_none(self):
        self.assertEqual(self.figures("w1", **{"floor: tokio ct": [1]}), [])

    def test_every_floor_exists(self):
        names = {variant.name: variant for variant in variants.VARIANTS}
        self.assertEqual(len(names), len(variants.VARIANTS))
        for variant in variants.VARIANTS:
            for workload in variant.workloads:
                self.assertIn(workload, names[variants.floor_of(variant.shape, workload)].workloads)


class Choice(unittest.TestCase):
    def chosen(self, **options):
        options = SimpleNamespace(**{"work": ["w1"], "rust_only": False, "only": None, **options})
        return [variant.name for variant in command.chosen(options)]

    def test_by_part_of_a_name_by_workload_and_by_language(self):
        self.assertEqual(self.chosen(only=["fred", "pilotlight mt2"]), ["pilotlight mt2", "fred 10.1.0 ct", "fred 10.1.0 mt2"])
        self.assertNotIn("floor: blocking", self.chosen())
        self.assertIn("floor: blocking", self.chosen(work=["w1", "w5"]))
        self.assertFalse([name for name in self.chosen(rust_only=True) if "Lettuce" in name or "benchmark" in name])

    def test_a_missing_tool_is_named_with_what_installs_it(self):
        with mock.patch.object(builds.shutil, "which", lambda tool: None if tool == "mvn" else tool):
            self.assertEqual(builds.reason_to_skip(variants.JAVA), "mvn not installed; install: apt-get install default-jdk-headless maven")
            self.assertIsNone(builds.reason_to_skip(variants.GO))

    def test_what_is_wrong_is_listed(self):
        with Lab(SimpleNamespace(rounds=2)) as lab:
            lab.samples["w1"] = samples_of(a=[1, None], b=[1, 2])
            lab.samples["w1"].rounds["b"][0]["errors"] = 2
            lab.figure("x", 1, "×", [2])
            self.assertEqual(command.problems(lab), ["w1, a: 1 of 2 rounds failed", "w1, b: 2 errors", "1 of 1 figures not met"])
            path = lab.scratch / "report.json"
            lab.write_json(path, {"cores": 2})
            self.assertEqual(json.loads(path.read_text())["samples"]["w1"]["a"][1], None)


class Command(unittest.TestCase):
    def test_unknown_workloads_are_refused(self):
        done = subprocess.run([sys.executable, command.__file__, "--work", "w9"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no workload w9; there are w1, w1k, w2", done.stderr)


if __name__ == "__main__":
    unittest.main()
