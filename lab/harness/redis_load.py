"""Load on a Redis cluster: a client of lab/peers/redis, and redis-benchmark."""
import csv
import json
import os
import resource
import subprocess
import threading

from .program import ENVIRONMENT, Failed
from .redis_cluster import VALUE_BYTES

REDIS_BENCHMARK = "redis-benchmark"
# beyond its own time a program may take this long to connect, to end and to sort its times
EXTRA_SECONDS = 30
FILL_SECONDS = 120
WARM_UP_SECONDS = 1
# 16 callers, each with 64 GETs under way
BATCHES = "w2"
BATCHES_OF_BENCHMARK = ["-P", 64, "-c", 16, "--threads", 1]
# redis-benchmark is told how many commands, not how long: about as many as it does in a second
COMMANDS_PER_SECOND = 700_000
# it draws keys at random, so many on each node; so many times as many SETs leave none of them out
BENCHMARK_KEYS = 20_000
SETS_FOR_EACH_KEY = 100
LAST_LINES = 3


def client_batches(cluster, program, seconds, log):
    """`{ops, ops_s, cpu_us, p50, p99, errors, …}` of a client: the servers are sampled when it says START and END."""
    ports = ",".join(map(str, cluster.ports))
    command = [str(program), BATCHES, f"ports={ports}", f"secs={seconds:g}", f"warm={WARM_UP_SECONDS}"]
    before = after = result = None
    with open(log, "w+", encoding="utf-8", errors="replace") as errors:
        with start(command, errors) as process:
            watchdog = threading.Timer(seconds + WARM_UP_SECONDS + EXTRA_SECONDS, process.kill)
            watchdog.start()
            try:
                for line in process.stdout:
                    if line.startswith("START"):
                        before = cluster.sample()
                    elif line.startswith("END "):
                        after = cluster.sample()
                        result = parse_end(line)
            finally:
                watchdog.cancel()
                process.kill()
        errors.seek(0)
        last_words = " | ".join(errors.read().strip().splitlines()[-LAST_LINES:])
    if not (before and result):
        raise Failed(f"status {process.returncode} without a result: {last_words or 'it wrote nothing'}")
    return judged(result, before, after)


def start(command, errors):
    environment = {**ENVIRONMENT, "GOMAXPROCS": "2"}
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)


def parse_end(line):
    """The END line's figures, without the name of the workload."""
    try:
        result = json.loads(line.removeprefix("END "))
        return {key: value for key, value in result.items() if key != "workload"}
    except (ValueError, AttributeError) as error:
        raise Failed(f"not an END line: {line[:200]!r}") from error


def judged(result, before, after):
    """With what the servers counted: every key that is asked for exists."""
    if not result["ops"]:
        raise Failed("not one answer came back")
    _, grown = after.since(before)
    return {**result, "errors": max(result["errors"], grown["keyspace_misses"])}


def benchmark_batches(cluster, seconds, log):
    """The same of redis-benchmark, which says nothing while it runs, so all of it is measured."""
    count = int(COMMANDS_PER_SECOND * seconds)
    before, usage = cluster.sample(), resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = run_to_end(benchmark_command(cluster, "get", count, BATCHES_OF_BENCHMARK), log, seconds * 5 + EXTRA_SECONDS)
    after, used = cluster.sample(), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = used.ru_utime + used.ru_stime - usage.ru_utime - usage.ru_stime
    return judged({**parse_benchmark(rows), "ops": count, "errors": 0, "cpu_us": cpu_seconds * 1e6 / count}, before, after)


def benchmark_command(cluster, test, count, options):
    command = [REDIS_BENCHMARK, "-h", "127.0.0.1", "-p", cluster.ports[0], "--cluster", "-t", test, "-n", count, "-r", BENCHMARK_KEYS,
               "-d", VALUE_BYTES, "--csv", *options]
    return [str(part) for part in command]


def fill_for_benchmark(cluster, log):
    """redis-benchmark has keys of its own."""
    run_to_end(benchmark_command(cluster, "set", SETS_FOR_EACH_KEY * BENCHMARK_KEYS, ["-P", 64, "-c", 16]), log, FILL_SECONDS)


def run_to_end(command, log, seconds):
    try:
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{os.path.basename(command[0])} had not ended after {seconds:.0f} s") from error
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        raise Failed(f"{os.path.basename(command[0])}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def parse_benchmark(text):
    """Throughput and times out of `redis-benchmark --csv`, whose times are milliseconds."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))
    try:
        row = rows[-1]
        return {"ops_s": float(row["rps"]), "p50": float(row["p50_latency_ms"]) * 1e3, "p99": float(row["p99_latency_ms"]) * 1e3}
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise Failed(f"redis-benchmark printed something else: {text[-200:]!r}") from error
