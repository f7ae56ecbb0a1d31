"""The load."""
import json
import subprocess

from .paths import PEER_BIN
from .program import ENVIRONMENT, LOAD_CORE, Failed
from .procfs import CpuTime

EXTRA_SECONDS = 30


def run_json(command, seconds=0, environment=None):
    """Runs a command and reads the JSON in the last line that it prints."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=seconds + EXTRA_SECONDS,
                              env={**ENVIRONMENT, **(environment or {})})
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{command[0]} had not ended {EXTRA_SECONDS} s after its time") from error
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def cbench(target, connections, depth, seconds, path="/", paths=None):
    """With `paths`, so many are asked for in turn."""
    command = ["taskset", "-c", LOAD_CORE, PEER_BIN / "cbench", target, connections, depth, seconds, path, *([paths] if paths else [])]
    return run_json(command, seconds)


def measure(generate, groups, *arguments):
    """Runs a load and adds CPU microseconds per request for each group of processes: `{"server": pids}` gives `server_us`."""
    before = {name: CpuTime.of(pids) for name, pids in groups.items()}
    result = generate(*arguments)
    if not result["n"]:
        raise Failed("not one answer came back")
    for name, pids in groups.items():
        result[f"{name}_us"] = CpuTime.of(pids).since(before[name]) * 1e6 / result["n"]
    return result
