#!/usr/bin/env python3
"""Records the terminal of README.md: real commands in a real terminal, drawn as docs/images/terminal.svg.

    site/recording.py                      plays the session and prints it
    site/recording.py --write [PROGRAM]    and draws it; PROGRAM is target/debug/pilotlight unless said otherwise

The picture moves by CSS alone, once, and is whole where nothing moves: in print, or if less motion is wanted.
"""

import errno
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import terminal

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
COLUMNS, ROWS = 104, 60
LIMIT_S = 60
CURL = "curl -w '%{time_total} s\\n' http://127.0.0.1:8080/"
# What is typed, and what `init` has written is listened on.
SCRIPT = [
    "pilotlight init",
    "pilotlight run 2> log &",
    f"{CURL}          # nothing runs: this request starts it",
    f"{CURL}          # it runs",
    "echo 'cache = \"10s\"' >> pilotlight.toml && pilotlight reload",
    f"{CURL}          # kept",
    f"{CURL}          # from memory",
    "pilotlight status",
]
PORT = "8080"


@dataclass
class Step:
    typed: str
    lines: list = field(default_factory=list)
    seconds: float = 0.0


class Terminal:
    """A folder with a terminal, in which commands run one after the other."""

    def __init__(self, program, folder, port):
        self.folder, self.free = folder, str(port)
        places = folder / "bin"
        places.mkdir()
        (places / "pilotlight").symlink_to(program)
        (folder / ".curlrc").write_text("silent\n")
        ours = {"PATH": f"{places}:{os.environ['PATH']}", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        ours |= {"LC_ALL": "C.UTF-8", "CURL_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "PYTHONPATH")}
        self.environment = kept | ours
        self.home = folder / "hello"
        self.home.mkdir()
        self.gateway = None

    def run(self, typed, until=None):
        """What a command prints to its terminal, to its end or until a text comes."""
        command = typed.removesuffix("&").replace(PORT, self.free)
        begun = time.monotonic()
        ours, theirs = pty.openpty()
        terminal.resize(theirs, ROWS, COLUMNS)
        words = ["bash", "-c", ("exec " if until else "") + command]
        settings = {"cwd": self.home, "env": self.environment, "start_new_session": True}
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, **settings)
        os.close(theirs)
        text = read(ours, until, begun + LIMIT_S)
        if until:
            self.gateway = child
        elif child.wait(LIMIT_S):
            raise RuntimeError(f"{typed}: exit code {child.returncode}\n{text}")
        text = text.replace(self.free, PORT).replace(str(self.home), "/srv/hello")
        lines = text.replace("\r", "").rstrip("\n").split("\n") if text.strip() else []
        return Step(typed, lines, time.monotonic() - begun)

    def play(self):
        try:
            for typed in SCRIPT:
                yield self.run(typed, "Ctrl-C" if typed.endswith("&") else None)
                if typed.endswith("init"):
                    file = self.home / "pilotlight.toml"
                    file.write_text(file.read_text().replace(PORT, self.free))
        finally:
            if self.gateway:
                self.gateway.send_signal(signal.SIGTERM)
                self.gateway.wait(LIMIT_S)


def read(descriptor, until, deadline):
    """Until the other end is closed, or a line has come that has `until`."""
    text = b""
    while not (until and re.search(re.escape(until.encode()) + rb"[^\n]*\n", text)):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise TimeoutError(text.decode(errors="replace"))
        try:
            piece = os.read(descriptor, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            piece = b""
        if not piece:
            break
        text += piece
    return text.decode()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def session(program, port):
    """Every step of the script, with a gateway on a port that is free."""
    with tempfile.TemporaryDirectory(prefix="pilotlight-recording-") as folder:
        return list(Terminal(Path(program).resolve(), Path(folder), port).play())


def main():
    arguments = [word for word in sys.argv[1:] if word != "--write"]
    program = arguments[0] if arguments else ROOT / "target" / "debug" / "pilotlight"
    if not shutil.which("curl"):
        sys.exit("curl is not installed: `make test-all` installs it")
    steps = session(program, free_port())
    for step in steps:
        print(f"$ {step.typed}", *step.lines, sep="\n")
    if "--write" in sys.argv:
        PICTURE.write_text(terminal.picture(steps, COLUMNS))
        print(f"\n{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
