"""What the figures of a run depend on."""
import os
import platform
import subprocess

from .paths import ROOT


def machine(versions):
    """Facts about this machine and this checkout; `versions` are commands whose first line says which version is installed."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    facts = {"cpu": models[0] if models else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(),
             "load average": os.getloadavg()[0]}
    for command in versions:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            facts[os.path.basename(command[0])] = (done.stdout + done.stderr).splitlines()[0]
        except FileNotFoundError:
            facts[command[0]] = "not installed"
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return {**facts, "commit": done.stdout.strip() or "unknown"}
