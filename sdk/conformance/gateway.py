"""A real gateway in a temporary folder: started with a configuration, stopped for certain."""

import queue
import re
import signal
import subprocess
import tempfile
import threading
from collections import deque
from pathlib import Path

import http1

READY = re.compile(rb"listening on http://([0-9.]+):(\d+)")
KEPT_LINES = 20_000  # a bomb of processes complains some thousand times before it is stopped


class GatewayError(Exception):
    """The gateway did not do what every test needs: start, or stop."""


class Gateway:
    """`with Gateway(binary, config) as gateway: gateway.client()`"""

    def __init__(self, binary, config, start_limit=15.0, stop_limit=15.0):
        self._binary = str(Path(binary).resolve())
        self._config = config
        self._start_limit = start_limit
        self._stop_limit = stop_limit
        self._folder = tempfile.TemporaryDirectory(prefix="pilotlight-test-")
        self.folder = Path(self._folder.name)
        self._output = deque(maxlen=KEPT_LINES)
        self._ready = queue.Queue()
        self.process = None
        self.address = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        config = self.folder / "pilotlight.toml"
        config.write_text(self._config.replace("@FOLDER@", str(self.folder)))
        self.process = subprocess.Popen(
            [self._binary, "--config", str(config)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threading.Thread(target=self._read_output, args=(self.process.stdout,), daemon=True).start()
        try:
            self.address = self._ready.get(timeout=self._start_limit)
        except queue.Empty:
            self.address = None
        if self.address is None:
            self.stop()
            raise GatewayError("the gateway did not say `listening on http://…`; it said:\n" + self.output())
        return self

    def client(self, timeout=20.0):
        return http1.Client(self.address, timeout)

    def get(self, target, fields=(), **named):
        return self.request("GET", target, fields, **named)

    def request(self, method, target, fields=(), body=None, timeout=20.0, host="demo.test"):
        """One request on a connection of its own."""
        with self.client(timeout) as client:
            return client.request(method, target, fields, body, host)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, limit=None):
        """The exit status."""
        try:
            return self.process.wait(limit or self._stop_limit)
        except subprocess.TimeoutExpired:
            raise GatewayError(f"the gateway did not end within {limit or self._stop_limit:g} s") from None

    def stop(self):
        """SIGTERM, and SIGKILL if that was not enough; the exit status, negative for a signal."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(self._stop_limit)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._folder.cleanup()
        return self.process.returncode

    def output(self):
        """The last lines that the gateway and its services have written, newest last."""
        return "\n".join(line.decode(errors="replace").rstrip() for line in list(self._output))

    def _read_output(self, stream):
        for line in stream:
            self._output.append(line)
            found = READY.search(line)
            if found:
                self._ready.put((found[1].decode(), int(found[2])))
                break
        self._output.extend(stream)
        self._ready.put(None)
        stream.close()


def quote(text):
    """A TOML string."""
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def command(argv):
    """A TOML list of strings."""
    return "[" + ", ".join(quote(argument) for argument in argv) + "]"
