"""Transcript files: what a `.pipe` file may say, line by line. README.md describes the format for people."""

import re
from pathlib import Path
from typing import NamedTuple

import notation

WIRE_LINE = re.compile(r"([a-z]+[0-9]+) (service|gateway|client)> (.+)")
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")


class Step(NamedTuple):
    place: str  # file:line
    action: str  # frame, close, any, process, gateway, limit, chunk
    wire: str
    side: str
    data: object
    text: str


class Transcript(NamedTuple):
    name: str
    rules: list
    needs: list  # conditions without which it is skipped: "root"
    settings: list  # (table, "key = value") for the gateway's configuration
    steps: list


def load(path):
    """Reads one file; `use NAME` takes in `_NAME.pipe` of the same folder."""
    loaded = Transcript(path.stem, [], [], [], [])
    _read(path, loaded)
    return loaded


def load_folder(folder, only=None):
    files = sorted(file for file in Path(folder).glob("*.pipe") if not file.name.startswith("_"))
    return [load(file) for file in files if only is None or only in file.stem]


def seconds(text):
    found = DURATION.fullmatch(text)
    if not found:
        raise notation.NotationError(f"{text!r} is no duration such as 300ms or 2s")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def _read(path, loaded):
    group = None
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        text = raw.strip()
        if not text or text.startswith("#"):
            continue
        place = f"{path.name}:{number}"
        try:
            if text == "any":
                group = []
            elif text == "end":
                loaded.steps.append(Step(place, "any", "", "", group, "any … end"))
                group = None
            else:
                step = _parse_line(text, place, path, loaded)
                if step:
                    (loaded.steps if group is None else group).append(step)
        except notation.NotationError as error:
            raise notation.NotationError(f"{place}: {error}") from None
    if group is not None:
        raise notation.NotationError(f"{path.name}: a block `any` has no `end`")


def _parse_line(text, place, path, loaded):
    found = WIRE_LINE.fullmatch(text)
    if found:
        wire, side, rest = found.groups()
        if rest == "close":
            return Step(place, "close", wire, side, None, text)
        return Step(place, "frame", wire, side, notation.parse(rest), text)
    word, _, rest = text.partition(" ")
    if word == "rule":
        loaded.rules.extend(rest.split())
    elif word == "needs":
        loaded.needs.extend(rest.split())
    elif word == "use":
        _read(path.parent / f"_{rest}.pipe", loaded)
    elif word == "set":
        table, _, setting = rest.rpartition(": ")
        loaded.settings.append((table, setting))
    elif word == "within":
        return Step(place, "limit", "", "", seconds(rest), text)
    elif word == "chunk":
        return Step(place, "chunk", "", "", int(rest), text)
    elif word in ("process", "gateway"):
        return Step(place, word, "", "", rest.split(), text)
    else:
        raise notation.NotationError(f"{text!r} is no line of a transcript")
    return None
