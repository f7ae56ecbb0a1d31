"""What a run did and what went wrong: counters, findings with a line that repeats them, progress, a table."""

import json
import sys
import threading
import time
from collections import Counter

COLUMNS = ("requests", "kills", "cases", "wrong", "lost", "left", "escapes", "unexplained")
BAD = ("wrong", "lost", "left", "escapes", "unexplained")
TITLES = {
    "requests": "requests", "kills": "kills", "cases": "cases", "wrong": "wrong answers", "lost": "lost acks",
    "left": "processes left", "escapes": "escapes", "unexplained": "unexplained errors",
}  # fmt: skip
MAX_SHOWN = 40  # findings of one part that are printed; all are counted
PROGRESS_SECONDS = 2.0


class Report:
    """Of one part. Counting is safe from any thread."""

    def __init__(self, part, seed, quiet=False):
        self.part, self.seed = part, seed
        self.counts = Counter()
        self.findings = []
        self.notes = []
        self.seconds = 0.0
        self._quiet = quiet
        self._lock = threading.Lock()
        self._begun = self._said = time.monotonic()

    def count(self, column, number=1):
        with self._lock:
            self.counts[column] += number

    def wrong(self, column, step, text):
        """A finding: `column` is one of BAD, `step` what repeats it within the part."""
        with self._lock:
            self.counts[column] += 1
            self.findings.append((column, str(step), text))
        if not self._quiet and len(self.findings) <= MAX_SHOWN:
            self._say(f"{TITLES[column]}: {text}\n    again: {self.again(step)}")

    def note(self, text):
        """Something that a reader should know, and no fault: a check that this machine cannot make."""
        self.notes.append(text)

    def again(self, step):
        return f"make adversary ONLY={self.part} SEED={self.seed}   # step {step}"

    def progress(self, text):
        """Shown at most every two seconds."""
        now = time.monotonic()
        if not self._quiet and now - self._said >= PROGRESS_SECONDS:
            self._said = now
            self._say(f"{now - self._begun:.0f} s: {text}")

    def end(self):
        self.seconds = time.monotonic() - self._begun

    @property
    def clean(self):
        return not any(self.counts[name] for name in BAD)

    def _say(self, text):
        print(f"[{self.part}] {text}", file=sys.stderr, flush=True)


def table(reports):
    """One line for each part and one for all, aligned."""
    rows = [["part", "seconds", *(TITLES[name] for name in COLUMNS)]]
    for one in reports:
        rows.append([one.part, f"{one.seconds:.1f}", *(str(one.counts[name]) for name in COLUMNS)])
    total = Counter()
    for one in reports:
        total.update(one.counts)
    rows.append(["all", f"{sum(one.seconds for one in reports):.1f}", *(str(total[name]) for name in COLUMNS)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) if number == 0 else cell.rjust(width) for number, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def as_json(seed, reports):
    parts = [
        {
            "part": one.part, "seconds": round(one.seconds, 1), "notes": one.notes,
            "counts": {name: one.counts[name] for name in COLUMNS},
            "findings": [{"kind": kind, "step": step, "text": text, "again": one.again(step)} for kind, step, text in one.findings],
        }
        for one in reports
    ]  # fmt: skip
    return json.dumps({"seed": seed, "clean": all(one.clean for one in reports), "parts": parts}, indent=1)
