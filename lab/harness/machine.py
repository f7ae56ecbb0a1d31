"""What the figures of a run depend on."""
import os
import platform
import re
import subprocess

from .paths import ROOT
from .procfs import read

GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


def machine():
    """The report's `machine`."""
    system = value(read("/etc/os-release"), "PRETTY_NAME", "=")
    return {"hostname": platform.node(), "cpu": value(read("/proc/cpuinfo"), "model name", ":") or platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "memory_bytes": int(value(read("/proc/meminfo"), "MemTotal", ":").split()[0]) * 1024,
            "system": system.strip('"') if system else platform.system(), "kernel": f"{platform.system()} {platform.release()}",
            "architecture": platform.machine(), "governor": read(GOVERNOR).strip() or None}


def value(text, name, separator):
    """Of the first line `NAME <separator> VALUE`."""
    line = next((line for line in text.splitlines() if line.startswith(name)), "")
    return line.partition(separator)[2].strip()


def version(command):
    """The first number with dots that a program says of itself, or its first line; None if it is not installed."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    first = (done.stdout + done.stderr).partition("\n")[0]
    number = re.search(r"\d+(\.\d+)+", first)
    return number[0] if number else first


def commit():
    """What was just built; None outside a checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None
