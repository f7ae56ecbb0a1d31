"""A pipe service for the tests of scaling: says who it is and how much it had to do at once, can be slow, stuck, large or broken.

    /pid              its process id
    /sleep?ms=N       its process id, after so long
    /wait?name=X      its process id, when there is a file X in the folder
    /busy             the most requests that it had at once
    /stuck            no answer, for ever
    /lines?count=C&ms=M   lines, M ms between them
    /grow?mib=N       takes so much memory and keeps it; its process id

    DELAY       seconds before it dials
    FOLDER      each start leaves a file `start.PID` there
    FAILING     so many of the first starts exit with 9 (after BROKEN_AFTER seconds)
"""

import os
import sys
import time
from _thread import allocate_lock

# Tests start it hundreds of times: it imports little. `threading` and `pathlib` alone would take as long as the rest.
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sdk/python"))

import pilotlight  # noqa: E402

KEPT = []
LOCK = allocate_lock()
now = most = 0


def lines(count, ms):
    for number in range(count):
        time.sleep(ms / 1000)
        yield b"line %d\n" % number


def answer(request):
    pairs = (pair.split("=", 1) for pair in request.query.split("&") if pair)
    query = {name: value if name == "name" else int(value) for name, value in pairs}
    if request.path == "/wait":
        until = time.monotonic() + 60
        while not os.path.exists(os.path.join(os.environ["FOLDER"], query["name"])) and time.monotonic() < until:
            time.sleep(0.01)
    if request.path == "/stuck":
        time.sleep(1000)
    if request.path == "/lines":
        return 200, [], lines(query["count"], query["ms"])
    if request.path == "/busy":
        return 200, [], str(most)
    if request.path == "/grow":
        KEPT.append(bytearray(os.urandom(4096) * (query["mib"] * 256)))
    time.sleep(query.get("ms", 0) / 1000)
    return 200, [], str(os.getpid())


def handle(request):
    global now, most
    with LOCK:
        now += 1
        most = max(most, now)
    try:
        return answer(request)
    finally:
        with LOCK:
            now -= 1


def main():
    folder = os.environ["FOLDER"]
    with open(os.path.join(folder, f"start.{os.getpid()}"), "w"):
        pass
    started = [name for name in os.listdir(folder) if name.startswith("start.")]
    if len(started) <= int(os.environ.get("FAILING", 0)):
        time.sleep(float(os.environ.get("BROKEN_AFTER", 0)))
        print("the database is missing", file=sys.stderr)
        sys.exit(9)
    time.sleep(float(os.environ.get("DELAY", 0)))
    pilotlight.serve(handle)


if __name__ == "__main__":
    main()
