"""A service that tries what it is asked to, and says how that went: as JSON to the client, and on the standard error as any program would.

GET /try/NAME  one of the functions below; {"done": …} or {"error": "PermissionError", "errno": 1, "text": …}
"""

import json
import os
import socket
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pilotlight

JSON = {"content-type": "application/json"}


def read(query):
    with open(query["path"], "rb") as file:
        return file.read(4096).decode(errors="replace")


def write(query):
    with open(query["path"], "w") as file:
        file.write("x" * int(query.get("bytes", 1)))
    return os.path.getsize(query["path"])


def remove(query):
    os.remove(query["path"])
    return True


def chmod(query):
    os.chmod(query["path"], int(query["mode"], 8))
    return True


def connect(query):
    with socket.create_connection((query["host"], int(query["port"])), 2):
        return True


def unix(query):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(query["path"])
        return True


def forks(query):
    """So many children that wait; how many there were when the last one was refused."""
    children = []
    try:
        for _ in range(int(query["count"])):
            pid = os.fork()
            if pid == 0:
                time.sleep(600)
                os._exit(0)
            children.append(pid)
    except OSError:
        traceback.print_exc()
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return len(children)


def files(query):
    opened = []
    try:
        for _ in range(int(query["count"])):
            opened.append(open(os.devnull))
    finally:
        count = len(opened)
        for file in opened:
            file.close()
    return count


def memory(query):
    return len(bytearray(int(query["bytes"])))


def spin(query):
    while True:
        pass


def kill(query):
    os.kill(int(query["pid"]), 0)
    return True


def call(query):
    """A system call by number, with numbers as arguments."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.syscall(*(int(word) for word in query["words"].split(",")))
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def run(query):
    import subprocess

    return subprocess.run(query["command"], shell=True, capture_output=True, text=True).stdout


def who(query):
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    keys = ("Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
    return {key: status[key].split() for key in keys} | {"HOME": os.environ.get("HOME")}


def variable(query):
    return os.environ.get(query["name"])


TRIES = (read, write, remove, chmod, connect, unix, forks, files, memory, spin, kill, call, run, who, variable)


def attempt(function):
    def handler(request, query):
        try:
            return 200, JSON, json.dumps({"done": function(query)})
        except Exception as error:
            traceback.print_exc()
            what = {"error": type(error).__name__, "errno": getattr(error, "errno", None), "text": str(error)}
            return 200, JSON, json.dumps(what)

    return handler


HANDLERS = {f"/try/{function.__name__}": attempt(function) for function in TRIES}


def serve(request):
    from urllib.parse import parse_qsl

    handler = HANDLERS.get(request.path)
    return handler(request, dict(parse_qsl(request.query))) if handler else (404, JSON, "{}")


def serve_http(listener):
    """An HTTP server that makes no socket of its own, unlike those of the standard library."""
    from types import SimpleNamespace
    from urllib.parse import urlsplit

    while True:
        sock, _ = listener.accept()
        with sock, sock.makefile("rb") as lines:
            line = lines.readline().split()
            while lines.readline().strip():
                pass
            if len(line) < 2:
                continue
            url = urlsplit(line[1].decode())
            status, _, body = serve(SimpleNamespace(path=url.path, query=url.query))
            head = f"HTTP/1.1 {status} OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            sock.sendall((head + body).encode())


if __name__ == "__main__":
    if os.environ.get("LISTEN_FDS"):
        serve_http(socket.socket(fileno=3))
    pilotlight.serve(serve)
