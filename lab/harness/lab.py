"""The run itself: options, scratch folder, rounds, and what has been found so far."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from .paths import PEERS, ROOT
from .program import Failed
from .report import Figure, Samples, spread, table

BUILD_SECONDS = 1800
PROGRESS_SECONDS = 15
COLOURS = r"\x1b\[[0-9;]*m"


class Lab:
    """Handed to every section."""

    def __init__(self, options):
        self.options = options
        self.scratch = Path(tempfile.mkdtemp(prefix="pilotlight-lab-"))
        self.figures = []
        self.samples = {}
        self.build_errors = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def folder(self, name):
        """A scratch folder; the same name gives the same one."""
        folder = self.scratch / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def note(self, text):
        print(f"# {text}", file=sys.stderr, flush=True)

    def build(self, what, command, folder):
        """Runs a build; a failure is kept and becomes the reason why a variant is missing."""
        self.note(f"building {what}")
        try:
            status, output = self.run_build(what, command, folder)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.build_errors[what] = str(error)
        else:
            if status:
                self.build_errors[what] = first_error(output)
        if what in self.build_errors:
            self.note(f"{what}: not built: {self.build_errors[what]}")

    def run_build(self, what, command, folder):
        """The exit status and what was written; says from time to time that it still builds."""
        begun = time.monotonic()
        with subprocess.Popen([str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as process:
            try:
                while True:
                    try:
                        output, _ = process.communicate(timeout=PROGRESS_SECONDS)
                        return process.returncode, output
                    except subprocess.TimeoutExpired:
                        seconds = time.monotonic() - begun
                        if seconds > BUILD_SECONDS:
                            raise
                        self.note(f"building {what}: {seconds:.0f} s")
            except BaseException:
                process.kill()
                raise

    def build_all(self):
        release = ["cargo", "build", "--release", "--quiet"]
        packages = ["cbench", "flood", "svchyper"]
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
        """Measures `{name: function}` in rounds, each beginning with another one; returns the section's Samples."""
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
        numbers = {key: value for key, value in result.items() if isinstance(value, (int, float))}
        self.note(f"{title}: " + ", ".join(f"{key} {value:,.2f}" for key, value in numbers.items()))
        return result

    def figure(self, *arguments, **keywords):
        self.figures.append(Figure(*arguments, **keywords))

    def print_table(self, title, samples, columns):
        """One row per variant; columns are `(heading, key, decimals)`."""
        rows = [[name, *(spread(samples.values(name, key), *decimals) for _, key, *decimals in columns)] for name in samples.rounds]
        print(f"\n{title}\n\n{table(['variant', *(column[0] for column in columns)], rows)}", flush=True)

    def write_json(self, path, facts):
        """Everything that has been found so far."""
        document = {"machine": facts, "options": vars(self.options),
                    "figures": [{**asdict(figure), "met": figure.met} for figure in self.figures],
                    "samples": {name: samples.rounds for name, samples in self.samples.items()}}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, ensure_ascii=False, default=str)

    @contextmanager
    def started(self, program, ready):
        """A program from its first readiness until the end of the block."""
        with program:
            program.wait_until(ready)
            yield program


def first_error(text):
    """The first error of a compiler or of Maven, and where it is."""
    lines = re.sub(COLOURS, "", text).splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("error", "[ERROR]")):
            return " ".join(part.strip() for part in lines[number:number + 2])
    return " ".join(lines)[-300:].strip()
