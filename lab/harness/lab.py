"""The run itself: options, scratch folder, rounds, and what has been found so far."""
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .paths import GATEWAY_IS_GIVEN, ROOT
from .program import Failed
from .report import Experiment, Figure, Samples, Table

BUILD_SECONDS = 1800
PROGRESS_SECONDS = 15
COLOURS = r"\x1b\[[0-9;]*m"


class Lab:
    """Handed to every section."""

    def __init__(self, options):
        self.options = options
        self.scratch = Path(tempfile.mkdtemp(prefix="pilotlight-lab-"))
        self.experiments = []
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

    def build_gateway(self, release):
        """Unless a binary is given."""
        if not GATEWAY_IS_GIVEN:
            self.build("pilotlight", [*release, "-p", "pilotlight", "-p", "pilotlight-redis-tool"], ROOT)

    def require(self, what, path):
        """Fails unless this run built the program: one left from before is not what is to be measured."""
        if what in self.build_errors or not path.exists():
            raise Failed(f"{what}: not built: {self.build_errors.get(what, f'the build made no {path.name}')}")

    def run_rounds(self, section, variants):
        """Measures `{name: function}` in rounds, each beginning with another one; returns the section's Samples.

        A variant that fails is given up, and none of its rounds counts: what is left of one that broke is no fair sample of it."""
        samples = Samples()
        names = list(variants)
        for number in range(self.options.rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                if name not in samples.failed:
                    self.attempt(f"{section} {number + 1}/{self.options.rounds} {name}", name, variants[name], samples)
        return samples

    def attempt(self, title, name, function, samples):
        try:
            result = function()
            if result.get("errors"):
                raise Failed(f"{result['errors']} answers were none or wrong")
        except (Failed, OSError) as error:
            self.note(f"{title}: FAILED: {error}")
            samples.give_up(name, str(error))
            return
        samples.add(name, result)
        numbers = {key: value for key, value in result.items() if isinstance(value, (int, float))}
        self.note(f"{title}: " + ", ".join(f"{key} {value:,.2f}" for key, value in numbers.items()))

    def experiment(self, *arguments, **keywords):
        """The tables and figures that follow are of this one."""
        self.experiments.append(Experiment(*arguments, **keywords))

    def table(self, id, title, workload, samples, columns):
        """What of the samples is printed and reported."""
        table = Table(id, title, workload, self.options.rounds, samples, columns)
        self.experiments[-1].tables.append(table)
        print(f"\n{table.text()}", flush=True)

    def figure(self, *arguments, **keywords):
        self.experiments[-1].figures.append(Figure(*arguments, **keywords))

    @property
    def figures(self):
        return [figure for experiment in self.experiments for figure in experiment.figures]


def first_error(text):
    """The first error of a compiler or of Maven, and where it is."""
    lines = re.sub(COLOURS, "", text).splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("error", "[ERROR]")):
            return " ".join(part.strip() for part in lines[number:number + 2])
    return " ".join(lines)[-300:].strip()
