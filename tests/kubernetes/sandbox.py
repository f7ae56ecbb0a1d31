"""A container of the kubelet's double: a local process with an address, a loopback and mounts of its own.

There is no image: the process sees this machine's files. Its network is a pair of interfaces, one end of which is on
the bridge `pods` of the cluster's namespace.
"""

import itertools
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

BRIDGE = "pods"
NETWORK = "10.91.0.0/16"
BRIDGE_ADDRESS = "10.91.0.1"
PREFIX = 16
# Without one of its own a bridge takes the lowest of its interfaces, so it had another one when a pod had ended, and
# pods sent to the one that they remembered: for half a minute nobody reached the API server.
BRIDGE_HARDWARE = "02:00:0a:5b:00:01"
INIT = 1  # the process that holds the cluster's network: the first of its namespace
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_names = itertools.count(1)

NETWORKED = """
ip -batch - <<END
link set lo up
link add eth0 address {hardware} type veth peer name {outside} netns {init}
addr add {address}/{prefix} dev eth0
link set eth0 up
route add default via {gateway}
END
nsenter --target {init} --net -- ip link set {outside} master {bridge} up
"""

# Folders of this machine in which a container wants one that is not there are replaced by links to all that is in them.
SHADOWED = """
mkdir -p /run/.host{top}
mount --bind {top} /run/.host{top}
mount -t tmpfs tmpfs {top}
ln -s /run/.host{top}/* {top}/
"""
MOUNTED = """
mkdir -p {target}
mount --bind {source} {target}
"""
READ_ONLY = """
mount -o remount,bind,ro /
"""
NO_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def start(argv, environment, address, mounts, security, log, folder=None):
    """The process, which is in its namespaces when it becomes `argv`.

    `mounts`: (folder here, path in the container). `security`: the container's `securityContext`, of which capabilities
    and a root that is read only are heeded.
    """
    script = _script(address, mounts) + (READ_ONLY if security.get("readOnlyRootFilesystem") else "")
    if "ALL" in security.get("capabilities", {}).get("drop", []):
        argv = NO_CAPABILITIES + argv
    # `unshare` and the shell become the program: its process is the one that is returned.
    return subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-ec", script + '\nexec "$@"', "container", *argv],
        env={"PATH": PATH} | environment,
        cwd=folder or tempfile.gettempdir(),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _script(address, mounts):
    outside = f"v{os.getpid()}x{next(_names)}"
    # One address, one hardware address: a container that is started again is where neighbours remember it.
    hardware = ":".join(["02", "00", *(f"{int(part):02x}" for part in address.split("."))])
    named = {"outside": outside, "address": address, "hardware": hardware}
    lines = NETWORKED.format(init=INIT, prefix=PREFIX, gateway=BRIDGE_ADDRESS, bridge=BRIDGE, **named)
    if not mounts:
        return lines
    lines += "mount -t tmpfs tmpfs /run\n"
    tops = sorted({top for _, target in mounts if (top := _shadowed(target))})
    lines += "".join(SHADOWED.format(top=shlex.quote(top)) for top in tops)
    for source, target in mounts:
        lines += MOUNTED.format(source=shlex.quote(str(source)), target=shlex.quote(target))
    return lines


def _shadowed(target):
    """The folder at the top that has to be replaced so that `target` can be made, if any."""
    top = "/" + Path(target).parts[1]
    real = os.path.realpath(target)
    if real.startswith("/run/") or os.path.isdir(target):
        return None
    return top if os.path.isdir(top) else None
