"""Pages of the documentation that are played: their files are written, their commands run, their output compared.

A comment above a block says what becomes of it:

    <!-- file: NAME -->        written as NAME into the page's folder
    <!-- start -->             a command that goes on: the gateway, which is waited for until it listens
    <!-- run -->               a shell script; it has to end with 0
    <!-- output -->            what the script before it printed; numbers may differ, `…` is for anything
    <!-- theirs -->            the configuration of another program
    <!-- not run: REASON -->   what needs something that is not here

A block of TOML without one is part of a configuration (test_documents.py looks at those), text without a language is a
picture. Every other block without one is a mistake, so nothing is forgotten.
"""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness import BINARY, ROOT, eventually

FENCE = re.compile(r"^```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"<!-- (?P<kind>file|start|run|output|theirs|not run)(?:: (?P<word>[^\n]+?))? -->\n+\Z")
# Interpreters that a page has two of, and the one that is here.
STAND_INS = {"python3.9": "python3", "python3.12": "python3"}
PORTS = ("8080", "8443", "9000")
LIMIT_S = 120


@dataclass
class Block:
    line: int
    language: str
    kind: str
    word: str
    text: str


class PageError(AssertionError):
    pass


def blocks(text):
    found = []
    for fence in FENCE.finditer(text):
        mark = MARK.search(text, 0, fence.start())
        kind, word = (mark["kind"], mark["word"] or "") if mark else ("", "")
        found.append(Block(text.count("\n", 0, fence.start()) + 1, fence["language"], kind, word, fence["text"]))
    return found


def unmarked(text):
    """Blocks that nobody plays and no reason is given for."""
    free = ("toml", "")
    wrong = [block for block in blocks(text) if not block.kind and block.language not in free]
    reasonless = [block for block in blocks(text) if block.kind == "not run" and len(block.word) < 10]
    return [f"line {block.line}: ```{block.language}" for block in wrong + reasonless]


def shape(line):
    """A line without what differs from run to run."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    line = re.sub(r"\b[0-9a-f]{12,}\b", "ID", line)
    line = re.sub(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z|\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT|\b\d{8}-\d{6}\b", "DATE", line)
    line = re.sub(r"\d+(?:\.\d+)?", "0", line)
    line = re.sub(r"\b0(?:ns|µs|ms|s|m|h|d)\b", "TIME", line)
    line = re.sub(r"\b0(?:B|KiB|MiB|GiB)\b", "SIZE", line)
    return " ".join(line.split())


def differs(wanted, printed):
    """The first wanted line that was not printed where it should be; None if all were."""
    pattern = []
    for line in wanted.rstrip("\n").split("\n"):
        if line.strip() == "…":
            pattern.append(None)
        else:
            words = (re.escape(part) for part in shape(line).split("…"))
            pattern.append(re.compile(".*?".join(words) + r"\Z"))
    lines = [shape(line) for line in printed.rstrip("\n").split("\n")]
    # Which places in `lines` may come next; any of them after a line of `…`.
    places, isfree = {0}, False
    for number, one in enumerate(pattern):
        if one is None:
            isfree = True
            continue
        starts = range(min(places), len(lines)) if isfree else sorted(places)
        places = {at + 1 for at in starts if at < len(lines) and one.match(lines[at])}
        isfree = False
        if not places:
            return wanted.split("\n")[number]
    return None if isfree or len(lines) in places else "(the end)"


class Page:
    """A page that is played in a folder."""

    def __init__(self, path, folder, ports):
        self.path, self.folder = path, folder
        self.ports = dict(zip(PORTS, map(str, ports)))
        self.gateway, self.printed = None, ""
        self.played = 0
        (folder / "bin").mkdir()
        (folder / "bin" / "pilotlight").symlink_to(BINARY)
        places = [folder / "bin", Path(sys.executable).parent, os.environ["PATH"]]
        sdk = os.pathsep.join([str(ROOT / "sdk" / "python")])
        ours = {"PATH": ":".join(map(str, places)), "PYTHONPATH": sdk, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        # What a gateway keeps goes into the folder as well.
        # No meter of progress, as on a terminal.
        (folder / ".curlrc").write_text("no-progress-meter\n")
        ours["CURL_HOME"] = str(folder)
        ours |= {"XDG_DATA_HOME": str(folder / "data"), "XDG_RUNTIME_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment = os.environ | ours
        self.home = folder / "page"
        self.home.mkdir()

    def here(self, text):
        """The text with ports that are free and programs that are there."""
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        for name, program in STAND_INS.items():
            text = re.sub(rf"(?<![\w/.]){re.escape(name)}\b", program, text)
        return text

    def back(self, text):
        for port, free in self.ports.items():
            text = re.sub(rf"\b{free}\b", port, text)
        return text

    def play(self):
        try:
            for block in blocks(self.path.read_text()):
                step = getattr(self, block.kind, None) if block.kind in ("file", "start", "run", "output") else None
                if step:
                    step(block)
                    self.played += 1
        finally:
            self.stop()

    def file(self, block):
        path = self.home / block.word
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.here(block.text))

    def start(self, block):
        self.stop()
        command = ["bash", "-c", "exec " + self.here(block.text).strip()]
        settings = {"cwd": self.home, "env": self.environment, "stdin": subprocess.DEVNULL}
        # A group of its own: an upgrade puts another process in the place of this one.
        with open(self.folder / "out", "w") as out, open(self.folder / "log", "w") as log:
            self.gateway = subprocess.Popen(command, stdout=out, stderr=log, start_new_session=True, **settings)
        self.printed = ""

        def listens():
            self.printed = (self.folder / "out").read_text()
            return self.gateway.poll() is not None or re.search(r"listening on|open https", self.printed)

        if not eventually(listens, 30) or self.gateway.poll() is not None:
            raise PageError(f"{self.at(block)}: it does not listen:\n{(self.folder / 'log').read_text()}")
        self.printed = self.back((self.folder / "out").read_text())

    def run(self, block):
        command = ["bash", "-euo", "pipefail", "-c", self.here(block.text)]
        settings = {"cwd": self.home, "env": self.environment, "stdin": subprocess.DEVNULL, "timeout": LIMIT_S}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)
        self.printed = self.back(done.stdout)
        if done.returncode:
            raise PageError(f"{self.at(block)}: exit code {done.returncode}:\n{done.stdout}\n{self.log()}")

    def output(self, block):
        if missing := differs(block.text, self.printed):
            raise PageError(f"{self.at(block)}: not printed: {missing}\n--- printed:\n{self.printed}\n{self.log()}")

    def at(self, block):
        return f"{self.path.relative_to(ROOT)}:{block.line}"

    def log(self):
        log = self.folder / "log"
        return f"--- log of the gateway:\n{log.read_text()[-4000:]}" if log.exists() else ""

    def stop(self):
        if self.gateway is None:
            return
        group, self.gateway = self.gateway, None
        for number, limit in ((signal.SIGTERM, 30), (signal.SIGKILL, 10)):
            try:
                os.killpg(group.pid, number)
            except ProcessLookupError:
                break
            if eventually(lambda: group.poll() is not None and not _is_group(group.pid), limit):
                break


def _is_group(number):
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True
