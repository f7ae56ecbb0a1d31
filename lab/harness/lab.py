"""The run itself: options, scratch folder, rounds, and what has been found so far."""
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from .paths import PEERS, ROOT
from .program import Failed
from .report import Figure, Samples, spread, table

BUILD_SECONDS = 1800


class Lab:
    """Handed to every section."""

    def __init__(self, options):
        self.options = options
        self.scratch = Path(tempfile.mkdtemp(prefix="pilotlight-lab-"))
        # nginx keeps its cache in files; in memory they cost it least
        shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.memory_scratch = Path(tempfile.mkdtemp(prefix="pilotlight-lab-", dir=shared))
        self.figures = []
        self.samples = {}
        self.build_errors = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.rmtree(self.memory_scratch, ignore_errors=True)

    def folder(self, name):
        """A scratch folder; the same name gives the same one."""
        folder = self.scratch / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def socket_path(self):
        """A Unix socket path that nobody has bound yet."""
        path = self.scratch / "service.sock"
        path.unlink(missing_ok=True)
        return str(path)

    def note(self, text):
        print(f"# {text}", file=sys.stderr, flush=True)

    def build(self, what, command, folder):
        """Runs a build; a failure is kept and becomes the reason why a variant is missing."""
        self.note(f"building {what}")
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.build_errors[what] = str(error)
        else:
            if done.returncode:
                self.build_errors[what] = first_error(done.stderr)
        if what in self.build_errors:
            self.note(f"{what}: not built: {self.build_errors[what]}")

    def build_all(self):
        release = ["cargo", "build", "--release", "--quiet"]
        packages = ["cbench", "hyperd", "launch", "limit", "svchyper"]
        self.build("peers", release + [word for package in packages for word in ("-p", package)], PEERS)
        self.build("svcpipe", [*release, "-p", "svcpipe"], PEERS)
        self.build("pilotlight", [*release, "-p", "pilotlight"], ROOT)
        if "peers" in self.build_errors:
            raise Failed(f"the load generator is needed for everything: {self.build_errors['peers']}")

    def require(self, what, path):
        """Fails unless this run built the program: one left from before is not what is to be measured."""
        if what in self.build_errors or not path.exists():
            raise Failed(f"{what}: not built: {self.build_errors.get(what, f'the build made no {path.name}')}")

    def run_rounds(self, section, variants):
        """Measures `{name: function}` in rounds, each starting with another variant; returns the section's Samples."""
        samples = self.samples.setdefault(section, Samples())
        names = list(variants)
        for number in range(self.options.rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                samples.add(name, self.attempt(f"{section} {number + 1}/{self.options.rounds} {name}", variants[name]))
        return samples

    def attempt(self, title, function):
        try:
            result = function()
        except (Failed, OSError) as error:
            self.note(f"{title}: FAILED: {error}")
            return None
        shown = ", ".join(f"{key} {value:,.2f}" for key, value in result.items() if isinstance(value, (int, float)))
        self.note(f"{title}: {shown}")
        return result

    def figure(self, *arguments, **keywords):
        self.figures.append(Figure(*arguments, **keywords))

    def print_table(self, title, samples, columns):
        """One row per variant; columns are `(heading, key, decimals)` or `(heading, function of the variant's name)`."""
        rows = []
        for name in samples.rounds:
            cells = [name]
            for _, key, *decimals in columns:
                cells.append(key(name) if callable(key) else spread(samples.values(name, key), *decimals))
            rows.append(cells)
        print(f"\n{title}\n\n{table(['variant', *(column[0] for column in columns)], rows)}", flush=True)

    @contextmanager
    def started(self, program, ready):
        """A program from its first readiness until the end of the block."""
        with program:
            program.wait_until(ready)
            yield program


def first_error(text):
    """The first error of a compiler and where it is."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("error"):
            return " ".join(part.strip() for part in lines[number:number + 2])
    return text[-300:].strip()
