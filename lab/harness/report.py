"""Tables: medians with their spread, ratios per round, and the figures that are wanted."""
import statistics
from dataclasses import dataclass, field


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


@dataclass
class Samples:
    """The results of one section: `{variant: [one dict per round, None where it failed]}`."""

    rounds: dict = field(default_factory=dict)

    def add(self, variant, result):
        self.rounds.setdefault(variant, []).append(result)

    def values(self, variant, key):
        return [result and result.get(key) for result in self.rounds.get(variant, [])]

    def errors(self, variant):
        return sum(count for count in self.values(variant, "errors") if count)


@dataclass
class Figure:
    """One promise: the median of `values` is to be at most `limit`, and no answer an error."""

    name: str
    limit: float
    unit: str
    values: list
    note: str = ""
    errors: int = 0

    @property
    def met(self):
        present = [value for value in self.values if value is not None]
        return statistics.median(present) <= self.limit and not self.errors if present else None

    def row(self):
        verdict = {True: "yes", False: "NO", None: "not measured"}[self.met]
        note = f"{self.errors} errors; {self.note}" if self.errors else self.note
        return [self.name, f"≤ {self.limit:g}{self.unit}", spread(self.values), verdict, note]


def figures_table(figures):
    return table(["figure", "wanted", "measured", "met", "note"], [figure.row() for figure in figures])
