"""Links and anchors of Markdown, as a repository browser and the site understand them.

Code is no text: what stands in fences or between backticks is neither a link nor a heading.
"""

import re
import unicodedata
from dataclasses import dataclass

FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
# `[text](target)` and `![text](target "title")`; the text may hold pictures and brackets of its own.
LINK = re.compile(r"\]\(\s*(?P<target><[^>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*(?P<target>\S+)", re.MULTILINE)
ATTRIBUTE = re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"(?P<target>[^\"]*)\"")
HEADING = re.compile(r"^#{1,6}\s+(?P<text>.*?)\s*#*\s*$")
NAMED = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:|^//")


@dataclass(frozen=True)
class Link:
    line: int
    start: int
    end: int
    target: str

    @property
    def is_external(self):
        return bool(SCHEME.match(self.target))

    @property
    def path(self):
        return self.target.partition("#")[0]

    @property
    def anchor(self):
        return self.target.partition("#")[2]


def without_code(text):
    """The text with every character of code replaced by a space, so that places stay what they are."""
    blank = lambda part: re.sub(r"[^\n]", " ", part)  # noqa: E731
    lines, fence = [], None
    for line in text.splitlines(keepends=True):
        mark = FENCE.match(line)
        if fence:
            ends = mark and line.strip().startswith(fence) and not line.strip().strip(fence[0])
            fence = None if ends else fence
            lines.append(blank(line))
        elif mark:
            fence = mark[1]
            lines.append(blank(line))
        else:
            lines.append(line)
    return CODE.sub(lambda found: blank(found[0]), "".join(lines))


def links(text):
    """Every link and picture, in the order of the text."""
    plain = without_code(text)
    found = []
    for pattern in (LINK, REFERENCE, ATTRIBUTE):
        for match in pattern.finditer(plain):
            start, end = match.span("target")
            target = text[start:end]
            if target.startswith("<"):
                start, end, target = start + 1, end - 1, target[1:-1]
            found.append(Link(text.count("\n", 0, start) + 1, start, end, target))
    return sorted(found, key=lambda link: link.start)


def slug(heading):
    """The anchor of a heading: letters, digits, `-` and `_` in lower case; spaces become `-`."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    kept = (c for c in text.strip().lower() if c in "-_ " or unicodedata.category(c)[0] in "LN")
    return "".join(kept).replace(" ", "-")


def anchors(text):
    """What may stand behind `#`: headings, the second of a name with `-1`, and names given by hand."""
    found, counts = set(), {}
    plain = without_code(text).splitlines()
    for line, original in zip(plain, text.splitlines()):
        if HEADING.match(line):
            name = slug(HEADING.match(original)["text"])
            counts[name] = counts.get(name, -1) + 1
            found.add(f"{name}-{counts[name]}" if counts[name] else name)
        found.update(NAMED.findall(line))
    return found
