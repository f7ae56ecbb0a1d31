"""A terminal's text as a picture: colours of ANSI escapes, lines that appear one after the other."""

import fcntl
import html
import re
import struct
import termios

SIZE, ADVANCE, LEADING = 14, 8.4, 20  # px: of a letter, from letter to letter, from line to line
LEFT, TOP, GAP = 18, 62, 0.4  # px; lines between a command and what was before
TYPED_S, PAUSE_S, LONGEST_S = 0.022, 0.7, 1.5  # a letter; before a command; what a command takes at most
ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
OTHER = re.compile(r"\x1b\[[0-9;?]*[A-LN-Za-ln-z]|\x1b[()][0-9A-B]")
COLOURS = {31: "red", 32: "green", 33: "yellow", 34: "blue", 35: "magenta", 36: "cyan", 90: "dim"}
DOTS = ("#ff5f57", "#febc2e", "#28c840")
STYLE = """
    text { font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
      fill: #d8dce1; white-space: pre; }
    .card { fill: #16181b; stroke: #3a4047; }
    .prompt, .green { fill: #8fd18a; } .typed { fill: #ffffff; } .dim, .note { fill: #9aa1a9; }
    .bold { font-weight: 600; }
    .red { fill: #ff8f8a; } .yellow { fill: #ffce7a; } .blue { fill: #8fc1ff; } .magenta { fill: #dba5f0; }
    .cyan { fill: #84d7dd; } .title { fill: #9aa1a9; } .cover { fill: #16181b; visibility: hidden; }
    @keyframes appear { from { opacity: 0; } to { opacity: 1; } }
    @keyframes type {
      from { visibility: visible; transform: none; }
      to { visibility: visible; transform: translateX(100%); }
    }
    @media (prefers-reduced-motion: no-preference) {
      .line { animation: appear 1ms linear backwards; }
      .cover { animation: type linear; transform-box: fill-box; }
    }
"""


def resize(descriptor, rows, columns):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def spans(line):
    """A line's pieces: the classes of each, and its text."""
    classes, at, line = set(), 0, OTHER.sub("", line)
    for escape in [*ESCAPE.finditer(line), None]:
        piece = line[at : escape.start() if escape else len(line)]
        if piece:
            yield " ".join(sorted(classes)), piece
        if escape:
            at = escape.end()
            for number in map(int, (escape[1] or "0").split(";")):
                if number == 0:
                    classes = set()
                elif number == 1:
                    classes.add("bold")
                elif number == 2:
                    classes.add("dim")
                elif number in COLOURS:
                    classes.add(COLOURS[number])


def plain(line):
    return "".join(text for _, text in spans(line))


def drawn(pieces, row, delay):
    """A line of text; its length is fixed, so that columns stand below each other in any font."""
    length = sum(len(text) for _, text in pieces)
    tspans = "".join(
        f'<tspan class="{name}">{html.escape(text, quote=False)}</tspan>' if name else html.escape(text, quote=False)
        for name, text in pieces
    )
    place = f'x="{LEFT}" y="{TOP + row * LEADING:.0f}" textLength="{length * ADVANCE:.1f}" xml:space="preserve"'
    return f'<text class="line" style="animation-delay:{delay:.2f}s" {place}>{tspans}</text>'


def cover(typed, row, delay):
    """What hides a command until it is typed, and moves away letter by letter."""
    width = len(typed) * ADVANCE
    times = f"animation-duration:{len(typed) * TYPED_S:.2f}s;animation-delay:{delay:.2f}s"
    steps = f"animation-timing-function:steps({len(typed)})"
    place = f'x="{LEFT + 2 * ADVANCE}" y="{TOP + row * LEADING - 15:.0f}" width="{width:.1f}" height="{LEADING}"'
    return f'<rect class="cover" style="{times};{steps}" {place}/>'


def picture(steps, columns):
    """The whole session, as an SVG."""
    parts, row, clock = [], 0, 0.4
    for step in steps:
        command, mark, note = step.typed.partition("  #")
        pieces = [("prompt", "$ "), ("typed", command), *([("note", mark + note)] if mark else [])]
        parts += [drawn(pieces, row, clock), cover(step.typed, row, clock)]
        clock += len(step.typed) * TYPED_S + min(step.seconds, LONGEST_S)
        row += 1
        for line in step.lines:
            if plain(line).strip():
                parts.append(drawn(list(spans(line)), row, clock))
            row += 1
        clock += PAUSE_S
        row += GAP
    width, height = round(2 * LEFT + columns * ADVANCE), round(TOP + row * LEADING)
    body = "\n  ".join(parts)
    dots = "".join(f'<circle cx="{24 + 20 * at}" cy="22" r="6" fill="{fill}"/>' for at, fill in enumerate(DOTS))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    commands = "; ".join(step.typed for step in steps)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">
  <title id="t">Pilotlight in a terminal</title>
  <desc id="d">{html.escape(commands, quote=False)}</desc>
  <style>{STYLE}  </style>
  <clipPath id="c"><rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10"/></clipPath>
  <rect class="card" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10"/>
  {dots}
  <text class="title" x="{width / 2}" y="27" text-anchor="middle">hello</text>
  <g clip-path="url(#c)">
  {body}
  </g>
</svg>
"""
