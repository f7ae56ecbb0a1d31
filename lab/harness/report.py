"""What a run has found: tables of rounds, figures that are wanted, and both as text for a terminal."""
import re
import statistics
from dataclasses import dataclass, field
from typing import NamedTuple


def spread(values, decimals=2):
    """`median (min–max)` of the values that are there."""
    present = [value for value in values if value is not None]
    if not present:
        return "–"
    text = f"{statistics.median(present):,.{decimals}f}"
    if len(present) == 1:
        return text
    return f"{text} ({min(present):,.{decimals}f}–{max(present):,.{decimals}f})"


def table(head, rows):
    """A Markdown table, padded so that it can be read in a terminal."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = []
    for number, row in enumerate(cells):
        lines.append("| " + " | ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))]) + " |")
        if number == 0:
            lines.append("|" + "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])]) + "|")
    return "\n".join(lines)


def ratios(numerators, denominators):
    """Round by round; a round that lacks either gives nothing."""
    pairs = zip(numerators, denominators)
    return [a / b for a, b in pairs if a is not None and b]


def slug(text):
    """A name for a place in a document: `10-000-idle-clients`."""
    return "-".join(re.findall("[a-z0-9]+", text.lower()))


@dataclass
class Samples:
    """What was measured of each variant: one dict per round, or why it was given up; then none of its rounds counts."""

    rounds: dict = field(default_factory=dict)
    failed: dict = field(default_factory=dict)

    def add(self, variant, result):
        self.rounds.setdefault(variant, []).append(result)

    def give_up(self, variant, why):
        self.rounds[variant] = []
        self.failed[variant] = why

    def values(self, variant, key):
        return [result.get(key) for result in self.rounds.get(variant, [])]


class Column(NamedTuple):
    """What a section has measured under `key`; decimals are those of the terminal."""

    key: str
    title: str
    unit: str = ""
    decimals: int = 0

    @property
    def id(self):
        return slug(self.key)

    @property
    def heading(self):
        return f"{self.title}, {self.unit}" if self.unit else self.title


@dataclass
class Table:
    """The samples of a section, and which of their values are of interest."""

    id: str
    title: str
    workload: str
    rounds: int
    samples: Samples
    columns: list

    def text(self):
        names = self.samples.rounds
        rows = [[name, *(spread(self.samples.values(name, column.key), column.decimals) for column in self.columns)] for name in names]
        head = ["variant", *(column.heading for column in self.columns)]
        return f"{self.title} ({self.workload}; {self.rounds} rounds)\n\n{table(head, rows)}"


@dataclass
class Figure:
    """One promise: the median of `values` is to be on this side of `limit`."""

    name: str
    limit: float
    unit: str
    values: list
    at_least: bool = False

    def __post_init__(self):
        self.values = [value for value in self.values if value is not None]

    @property
    def wanted(self):
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}{self.unit}"

    @property
    def met(self):
        if not self.values:
            return None
        median = statistics.median(self.values)
        return median >= self.limit if self.at_least else median <= self.limit

    def row(self):
        return [self.name, self.wanted, spread(self.values), {True: "yes", False: "NO", None: "not measured"}[self.met]]


@dataclass
class Experiment:
    """A part of a run with a name that documents use."""

    name: str
    title: str
    hypothesis: str
    software: list = field(default_factory=list)
    tables: list = field(default_factory=list)
    figures: list = field(default_factory=list)
    skipped: list = field(default_factory=list)

    @property
    def complete(self):
        return all(figure.met for figure in self.figures) and not any(table.samples.failed for table in self.tables)


def figures_table(figures):
    return table(["figure", "wanted", "measured", "met"], [figure.row() for figure in figures])
