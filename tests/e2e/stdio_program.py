"""A program that speaks JSON lines on its standard streams, as small as it gets: MCP by hand, with the manners and the
bad manners that tests ask for. `stdio_program.py MODE`: session (MCP until 2025-11-25), stateless (since 2026-07-28),
lines (answers a line with a line)."""

import json
import os
import signal
import sys
import threading
import time


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request, result):
    write({"jsonrpc": "2.0", "id": request["id"], "result": result})


def notify(method, **params):
    write({"jsonrpc": "2.0", "method": method, "params": params})


class Session:
    """State of one client: how often it has called, and what it has said."""

    def __init__(self):
        self.calls = 0
        self.heard = []

    def take(self, message):
        method, params = message.get("method"), message.get("params") or {}
        if method is None or "id" not in message:
            self.heard.append(message)
            return
        if method == "initialize":
            if params.get("refuse"):
                write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "no"}})
            elif not params.get("silent"):
                version = params.get("protocolVersion", "2025-06-18")
                answer(message, {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "t"}})
            return
        self.calls += 1
        getattr(self, method.replace("/", "_"), self.unknown)(message, params)

    def unknown(self, message, params):
        write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}})

    def about(self, message, params):
        """What kind of process this is."""
        environment = sorted(name for name in os.environ if name.startswith("PILOTLIGHT"))
        answer(message, {"pid": os.getpid(), "calls": self.calls, "heard": self.heard, "environment": environment})

    def echo(self, message, params):
        answer(message, params)

    def steps(self, message, params):
        """Notifications, then the answer; waits for a file before the last ones, if one is named."""
        for step in range(params["count"]):
            if step == params.get("wait_at"):
                while not os.path.exists(params["file"]):
                    time.sleep(0.01)
            notify("notifications/progress", progressToken=params["_meta"]["progressToken"], progress=step,
                   text="x" * params.get("size", 0))
        answer(message, {"done": True})

    def later(self, message, params):
        """Answers when the file is there, and takes other requests meanwhile."""
        def wait():
            while not os.path.exists(params["file"]):
                time.sleep(0.01)
            answer(message, {"later": True})
        threading.Thread(target=wait, daemon=True).start()

    def never(self, message, params):
        pass

    def ask(self, message, params):
        """Asks the client something."""
        write({"jsonrpc": "2.0", "id": "from-server", "method": "roots/list"})
        answer(message, {"asked": True})

    def announce(self, message, params):
        """Says something that belongs to no request, when the request has been answered."""
        answer(message, {})
        notify("notifications/tools/list_changed", number=params.get("number"))

    def noise(self, message, params):
        """Prints what is no message."""
        print("this is no JSON", flush=True)
        print('{"json": "but no message"}', flush=True)
        print("and this is on the standard error", file=sys.stderr, flush=True)
        answer(message, {"noise": True})

    def long(self, message, params):
        answer(message, {"text": "x" * params["size"]})

    def deaf(self, message, params):
        """Reads nothing any more."""
        answer(message, {})
        time.sleep(3600)

    def die(self, message, params):
        sys.stderr.write("I die\n")
        os._exit(params.get("status", 3))

    def stubborn(self, message, params):
        """Does not end by itself, nor by SIGTERM, and has a child that does not either."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = os.fork()
        if child == 0:
            while True:
                time.sleep(3600)
        answer(message, {"pid": os.getpid(), "child": child})
        sys.stdin.read()
        while True:
            time.sleep(3600)


class Stateless(Session):
    def server_discover(self, message, params):
        answer(message, {"supportedVersions": ["2026-07-28"], "capabilities": {}, "serverInfo": {"name": "t"}})

    def take(self, message):
        if message.get("method") == "initialize":
            self.unknown(message, {})
        else:
            super().take(message)


def lines():
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict):
            if "id" in message:
                print(json.dumps({"progress": 1}))
                print(json.dumps({"id": message["id"], "pid": os.getpid(), "got": message}), flush=True)
        elif word == "die":
            os._exit(4)
        elif word == "sleep":
            time.sleep(float(rest))
            print("slept", flush=True)
        else:
            print(f"{os.getpid()} {line.strip()}", flush=True)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "session"
    if mode == "lines":
        return lines()
    session = Stateless() if mode == "stateless" else Session()
    for line in sys.stdin:
        session.take(json.loads(line))
    if len(sys.argv) > 2:
        # Whoever closes its input first leaves it the time to say so.
        with open(sys.argv[2], "a") as left:
            left.write("input closed\n")


main()
