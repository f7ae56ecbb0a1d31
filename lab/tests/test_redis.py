"""Tests of what `tool.py` runs against a Redis cluster; none needs a server."""
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

from harness import redis_cluster as cluster
from harness import redis_load as load
from harness.lab import first_error
from harness.procfs import CpuTime
from harness.program import Failed
from harness.resp import encode

END = 'END {"workload":"w2","ops":10,"errors":0,"secs":1.5,"cpu_us":0.5,"p50":3.25}\n'
CSV = ('Cluster has 5 master nodes:\n\n"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",'
       '"max_latency_ms"\n"GET","60000.00","1.2","0.1","1.103","2.5","3.207","4.4"\n')
INFO = "# Stats\r\ntotal_commands_processed:7\r\nkeyspace_misses:0\r\ninstantaneous_input_kbps:0.01\r\n"


class Parsing(unittest.TestCase):
    def test_the_end_line(self):
        self.assertEqual(load.parse_end(END), {"ops": 10, "errors": 0, "secs": 1.5, "cpu_us": 0.5, "p50": 3.25})
        for line in ("END\n", "END 7\n", "END {\n"):
            with self.assertRaisesRegex(Failed, "not an END line"):
                load.parse_end(line)

    def test_redis_benchmark(self):
        result = load.parse_benchmark(CSV)
        self.assertEqual(result["ops_s"], 60_000)
        self.assertAlmostEqual(result["p50"], 1103)
        self.assertAlmostEqual(result["p99"], 3207)
        with self.assertRaisesRegex(Failed, "printed something else: 'Error'"):
            load.parse_benchmark("Error")

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

    def test_keys_of_one_tag_are_on_one_node(self):
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
        samples = [cluster.Sample(CpuTime(0, 0), {"keyspace_misses": 0}), cluster.Sample(CpuTime(20e-6, 20e-6), {"keyspace_misses": misses})]
        servers = SimpleNamespace(ports=[1, 2], sample=lambda: samples.pop(0))
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program"
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            return load.client_batches(servers, program, 1, Path(folder) / "log")

    def test_what_a_client_says(self):
        result = self.measure(f"echo START; echo '{END.strip()}'")
        self.assertEqual((result["cpu_us"], result["errors"]), (0.5, 0))

    def test_a_key_that_is_missing_is_an_error(self):
        self.assertEqual(self.measure(f"echo START; echo '{END.strip()}'", misses=3)["errors"], 3)

    def test_the_program_is_told_what_to_do(self):
        with self.assertRaisesRegex(Failed, "status 1 without a result: w2 ports=1,2 secs=1 warm=1"):
            self.measure('echo "$*" >&2; exit 1')

    def test_no_answers(self):
        with self.assertRaisesRegex(Failed, "not one answer"):
            self.measure("""echo START; echo 'END {"ops": 0, "errors": 0}'""")


if __name__ == "__main__":
    unittest.main()
