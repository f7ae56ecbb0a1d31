"""Another user of this machine: tries everything around a gateway, again and again, and prints each thing that worked as a line of JSON.

Started as root; becomes user 65534 first. Its first line of input is what it may attack, as JSON: the gateway's folder for temporary
files, its processes and its sockets, so that other gateways on the machine are left alone. It ends with its standard input.
"""

import json
import os
import random
import select
import socket
import sys

NOBODY = 65534
FILES = ("environ", "maps", "mem", "cwd", "root", "fd", "exe", "auxv", "io")


def worked(what, **more):
    print(json.dumps({"what": what, **more}), flush=True)


def speak(path):
    """Whether anything is said to a stranger on this socket but a refusal."""
    address = "\0" + path[1:] if path.startswith("@") else path
    requests = (
        b"GET /config HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"POST /reload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"\x2e\0\0\0\x01\0\0\0PIPE/1\ntoken=" + b"0" * 32 + b"\n",
    )
    for data in requests:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(3)
            sock.connect(address)
            sock.sendall(data)
            answer = b""
            try:
                while piece := sock.recv(65_536):
                    answer += piece
            except OSError:
                pass
            if answer.startswith(b"HTTP/1.1 2") or answer[4:5] == b"\x02":
                worked("a socket answers", path=path, answer=answer[:100].decode("latin-1"))


def files_of(pid):
    for name in FILES:
        path = f"/proc/{pid}/{name}"
        if name in ("cwd", "root", "exe"):
            os.readlink(path)
        elif name == "fd":
            os.listdir(path)
        else:
            with open(path, "rb") as file:
                if not file.read(1):
                    continue
        worked("a file of a process", path=path)


def change(folder):
    """What can be changed in a runtime folder."""
    acts = {
        "listdir": lambda: os.listdir(folder),
        "mkdir": lambda: os.mkdir(folder + "/stranger"),
        "symlink": lambda: os.symlink("/etc", folder + "/stranger"),
        "rename": lambda: os.rename(folder, folder + ".moved"),
        "rmdir": lambda: os.rmdir(folder),
        "chmod": lambda: os.chmod(folder, 0o777),
        "unlink": lambda: os.unlink(folder + "/admin.sock"),
        "replace": lambda: os.rename(folder + "/admin.sock", folder + "/other"),
        "link": lambda: os.link(folder + "/admin.sock", os.path.dirname(folder) + "/stolen"),
    }
    for name, act in acts.items():
        attempt(lambda name=name, act=act: (act(), worked(f"{name} in a runtime folder", path=folder)))


def attempt(act):
    try:
        act()
    except OSError:
        pass


def main():
    told = json.loads(sys.stdin.readline())
    temporary, pids, sockets, chance = told["temporary"], told["pids"], told["sockets"], random.Random(told["seed"])
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    print(json.dumps({"begun": True}), flush=True)
    turns = 0
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        turns += 1
        for path in sockets:
            attempt(lambda path=path: speak(path))
            if path.startswith("/"):
                change(os.path.dirname(path))
        for entry in os.listdir(temporary):
            folder = os.path.join(temporary, entry)
            if os.lstat(folder).st_uid != NOBODY:
                change(folder)
        for pid in pids:
            attempt(lambda pid=pid: files_of(pid))
            for number in (0, 15):
                attempt(lambda pid=pid, number=number: (os.kill(pid, number), worked("a signal", pid=pid)))
        # And names that a later gateway might take.
        for _ in range(20):
            attempt(lambda: os.symlink("/etc", f"{temporary}/pilotlight-{chance.randrange(1, 70_000)}"))
    print(json.dumps({"turns": turns}), flush=True)


if __name__ == "__main__":
    main()
