"""The notation of transcripts: one line is one frame, readable by people, compiled to bytes or matched against bytes.

    REQUEST 7 END :method=POST :target="/echo?a=1" x-echo-a=1 x-echo-a=2 :body="hi"

A name, an exchange id (left out: 0), flags, then parts. `:name` is a part of the frame itself, a bare name is a header
field. Parts to send are `key=value`. Parts to expect are

    key=value    equal; values of one field name must come in the order written, others may stand between them (P-8)
    key~"regex"  matches as a whole
    key!         is absent
    key#2        occurs so many times

A value is `word`, `"text \\x00 \\n"`, `text*1000` (repeated), `$name` (a variable; an unknown one is set by the first
expectation that meets it), `*` (anything), `pattern(N)` (the demo's download bytes), or several of these joined by `+`.
"""

import re
from typing import NamedTuple

import pipe1

SYNTAX = re.compile(r"(?P<key>:?[A-Za-z0-9_.-]+)(?P<op>[=~!#])")
WORD = re.compile(r'[^\s"+*()$]+')
ESCAPE = re.compile(rb'\\(x[0-9a-fA-F]{2}|.)', re.DOTALL)
ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b'"': b'"', b"\\": b"\\"}
FLAGS = {"END": pipe1.END, "UPGRADE": pipe1.UPGRADE, "IGNORABLE": pipe1.IGNORABLE}


class NotationError(Exception):
    """A line that the notation does not know; the message says which part."""


class Mismatch(Exception):
    """A frame that is not the expected one; the message says in what."""


class Term(NamedTuple):
    kind: str  # text, variable, any, pattern
    data: object
    times: int


class Part(NamedTuple):
    key: str
    op: str
    value: object  # list of Term for "=", compiled regex for "~", int for "#", None for "!"


class Line(NamedTuple):
    name: str
    exchange: str
    flags: int
    parts: list


def pattern(length):
    """The first bytes of the demo's download: byte i is (i * 31 + 7) mod 251."""
    block = bytes((i * 31 + 7) % 251 for i in range(251))
    return (block * (length // 251 + 1))[:length]


def parse(text):
    """A frame line (without its wire and side)."""
    name, _, rest = text.strip().partition(" ")
    exchange, flags, parts = "0", 0, []
    position = 0
    while position < len(rest):
        if rest[position].isspace():
            position += 1
            continue
        found = SYNTAX.match(rest, position)
        if found:
            part, position = _parse_part(rest, found)
            parts.append(part)
            continue
        found = re.compile(r"\S+").match(rest, position)
        word, position = found.group(), found.end()
        if word in FLAGS:
            flags |= FLAGS[word]
        elif re.fullmatch(r"\d+|\$[a-z]\w*|\*", word):
            exchange = word
        else:
            raise NotationError(f"{word!r} is neither a flag (END, UPGRADE, IGNORABLE), an exchange id nor key=value")
    return Line(name, exchange, flags, parts)


def evaluate(value, variables):
    """The bytes of a value; every variable must be known."""
    return b"".join(_term_bytes(term, variables) * term.times for term in value)


def exchange_of(line, variables):
    if line.exchange.startswith("$"):
        name = line.exchange[1:]
        if name not in variables:
            raise NotationError(f"exchange ${name} is not known yet")
        return int(variables[name])
    return int(line.exchange)


def match_value(part, actual, variables):
    """Whether `actual` (bytes) is what the part wants; sets a variable met for the first time."""
    if part.op == "~":
        return part.value.fullmatch(actual) is not None
    if len(part.value) == 1 and part.value[0].kind == "any":
        return True
    if len(part.value) == 1 and part.value[0].kind == "variable":
        return variables.setdefault(part.value[0].data, actual) == actual
    return evaluate(part.value, variables) == actual


def match_exchange(line, actual, variables):
    if line.exchange == "*":
        return
    if line.exchange.startswith("$"):
        wanted = int(variables.setdefault(line.exchange[1:], str(actual).encode()))
    else:
        wanted = int(line.exchange)
    if wanted != actual:
        raise Mismatch(f"exchange is {actual}, expected {wanted}")


def match_parts(parts, pseudo, fields, variables):
    """Compares the parts of an expectation with `:name` values (a dict of bytes) and an ordered list of fields."""
    starts = {}
    for part in parts:
        if part.key.startswith(":"):
            _match_pseudo(part, pseudo, variables)
            continue
        name = part.key.encode()
        values = [value for key, value in fields if key.lower() == name]
        if part.op == "!":
            if values:
                raise Mismatch(f"{part.key} is present: {values}")
        elif part.op == "#":
            if len(values) != part.value:
                raise Mismatch(f"{part.key} occurs {len(values)} times, expected {part.value}: {values}")
        else:
            starts[name] = _match_field(part, name, fields, starts.get(name, 0), variables)


def _match_pseudo(part, pseudo, variables):
    if part.op == "!":
        if part.key in pseudo:
            raise Mismatch(f"{part.key} is present: {shorten(pseudo[part.key])}")
        return
    if part.key not in pseudo:
        raise Mismatch(f"{part.key} is missing (there are {' '.join(pseudo) or 'none'})")
    if not match_value(part, pseudo[part.key], variables):
        raise Mismatch(f"{part.key} is {shorten(pseudo[part.key])}, expected {describe(part, variables)}")


def _match_field(part, name, fields, start, variables):
    for index in range(start, len(fields)):
        if fields[index][0].lower() == name and match_value(part, fields[index][1], variables):
            return index + 1
    seen = [value for key, value in fields if key.lower() == name]
    raise Mismatch(f"field {part.key}: expected {describe(part, variables)} in this order, there is {seen}")


def describe(part, variables):
    if part.op == "~":
        return f"~{part.value.pattern!r}"
    if any(term.kind == "any" or (term.kind == "variable" and term.data not in variables) for term in part.value):
        return "anything"
    return shorten(evaluate(part.value, variables))


def shorten(data):
    return repr(data) if len(data) <= 80 else f"{data[:60]!r}… ({len(data)} bytes)"


def _parse_part(text, found):
    key, op, position = found["key"], found["op"], found.end()
    if op == "!":
        return Part(key, op, None), position
    value, position = _parse_value(text, position)
    if op == "=":
        return Part(key, op, value), position
    literal = evaluate(value, {})
    return Part(key, op, re.compile(literal, re.DOTALL) if op == "~" else int(literal)), position


def _parse_value(text, position):
    terms = []
    while True:
        term, position = _parse_term(text, position)
        terms.append(term)
        if not text.startswith("+", position):
            return terms, position
        position += 1


def _parse_term(text, position):
    kind, data = "text", b""
    if text.startswith('"', position):
        data, position = _parse_quoted(text, position + 1)
    elif text.startswith("*", position):
        return Term("any", None, 1), position + 1
    elif text.startswith("$", position):
        found = re.compile(r"\$(\w+)").match(text, position)
        kind, data, position = "variable", found[1], found.end()
    elif text.startswith("pattern(", position):
        close = text.index(")", position)
        kind, data, position = "pattern", int(text[position + 8 : close]), close + 1
    else:
        found = WORD.match(text, position)
        if found:
            data, position = found.group().encode(), found.end()
    repeat = re.compile(r"\*(\d+)").match(text, position)
    if repeat:
        return Term(kind, data, int(repeat[1])), repeat.end()
    return Term(kind, data, 1), position


def _parse_quoted(text, position):
    close = position
    while close < len(text) and text[close] != '"':
        close += 2 if text[close] == "\\" else 1
    if close >= len(text):
        raise NotationError("a quote is not closed")
    return ESCAPE.sub(_unescape, text[position:close].encode()), close + 1


def _unescape(found):
    code = found[1]
    if code[:1] == b"x" and len(code) == 3:
        return bytes([int(code[1:], 16)])
    if code not in ESCAPES:
        raise NotationError(f"unknown escape \\{code.decode()}")
    return ESCAPES[code]


def _term_bytes(term, variables):
    if term.kind == "text":
        return term.data
    if term.kind == "pattern":
        return pattern(term.data)
    if term.kind == "variable" and term.data in variables:
        return variables[term.data]
    raise NotationError(f"a value to send cannot be {'$' + term.data if term.kind == 'variable' else 'anything'}")
