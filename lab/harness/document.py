"""report.json, as docs/lab/report.schema.json says: `pilotlight lab show` and `pilotlight lab figures` read it."""
import json
import os
import random
import statistics
import tempfile
import time
from datetime import datetime, timezone

from .machine import commit, machine, version
from .noise import Watch
from .paths import GATEWAY_BIN
from .report import slug

SCHEMA = "pilotlight-lab/2"
FILE = "report.json"
SEED = 1
RESAMPLES = 2000


class Run:
    """From its beginning, when everything is built, to its report."""

    def __init__(self, command, note):
        self.command = command
        self.commit = commit()
        self.watch = Watch(note)
        self.started_at, self.begin = datetime.now(timezone.utc), time.monotonic()

    def document(self, experiments):
        """The whole report. What is measured is always a release build: the programs of the lab build it themselves."""
        seconds = time.monotonic() - self.begin
        return {"schema": SCHEMA, "started_at": self.started_at.strftime("%Y-%m-%dT%H:%M:%SZ"), "duration_seconds": seconds,
                "command": self.command, "version": version([GATEWAY_BIN, "--version"]), "commit": self.commit, "debug_build": False,
                "quick": False, "interrupted": False, "seed": SEED, "machine": machine(), "noise": self.watch.end(),
                "experiments": [of_experiment(experiment) for experiment in experiments]}


def of_experiment(experiment):
    return {"name": experiment.name, "title": experiment.title, "hypothesis": experiment.hypothesis, "groups": [],
            "tables": [of_table(table) for table in experiment.tables], "software": experiment.software,
            "figures": [of_figure(figure) for figure in experiment.figures], "findings": [], "skipped": experiment.skipped,
            "published": [], "failed": None}


def of_table(table):
    return {"id": table.id, "title": table.title, "workload": table.workload, "rounds": table.rounds,
            "columns": [{"id": column.id, "title": column.title, "unit": column.unit} for column in table.columns],
            "rows": [of_row(table, name) for name in table.samples.rounds]}


def of_row(table, name):
    rounds = [{column.id: result[column.key] for column in table.columns if result.get(column.key) is not None}
              for result in table.samples.rounds[name]]
    ids = [column.id for column in table.columns if any(column.id in numbers for numbers in rounds)]
    summaries = {id: summary([numbers[id] for numbers in rounds if id in numbers]) for id in ids}
    return {"id": slug(name), "title": name, "failed": table.samples.failed.get(name), "rounds": rounds, "summary": summaries}


def of_figure(figure):
    return {"name": figure.name, "wanted": figure.wanted, "measured": summary(figure.values) if figure.values else None,
            "rounds": figure.values, "met": figure.met}


def summary(values):
    """The median and its 95 % interval, a percentile bootstrap as in lab/src/stats/bootstrap.rs; of one value the value itself."""
    median = statistics.median(values)
    if len(values) < 2:
        return {"median": median, "low": median, "high": median}
    choose = random.Random(SEED)
    medians = sorted(statistics.median(choose.choices(values, k=len(values))) for _ in range(RESAMPLES))
    low, high = (medians[round((RESAMPLES - 1) * quantile)] for quantile in (0.025, 0.975))
    return {"median": median, "low": low, "high": high}


def write(folder, document):
    """Into the folder, which is made; whole or not at all: whoever reads it meanwhile has the one before."""
    os.makedirs(folder, exist_ok=True)
    file = os.path.join(folder, FILE)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as new:
        try:
            json.dump(document, new, indent=2, ensure_ascii=False, allow_nan=False)
            new.write("\n")
            new.flush()
            os.fchmod(new.fileno(), 0o644)
            os.replace(new.name, file)
        except BaseException:
            os.unlink(new.name)
            raise
    return file
