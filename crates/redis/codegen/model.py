"""What one typed command is made of, read from the `arguments` of its description.

A command's words are a sequence of *pieces* (what is always there) and *slots* (places of optional words). Each option is a
*way* to fill slots; an option's methods replace what stood in its slots, so exclusive options replace one another.
"""

import re
from dataclasses import dataclass, field

from tables import ENUMS, NAMES, NUMBERS, PARAMETERS, SELECTORS

KEYWORDS = {"as", "type", "match", "where", "move", "async", "in", "for", "ref", "loop", "use"}


@dataclass
class Parameter:
    name: str
    type: str
    note: str = ""


@dataclass
class Piece:
    """One call on the command or on the options: `.arg(key)`, `.args(members)`."""

    call: str
    value: str


@dataclass
class Way:
    """A method of the options: what it takes and what it puts into which slots."""

    name: str
    syntax: str
    since: str = ""
    parameters: list = field(default_factory=list)
    pieces: list = field(default_factory=list)  # of (slot, Piece)
    clears: list = field(default_factory=list)  # ranges of slots; none: it appends, and may be given more than once
    refines: bool = False  # whether it only makes sense after another way


@dataclass
class Options:
    """Neighbouring optional arguments: slots `first..end`."""

    first: int
    end: int
    ways: list
    words: Parameter = None  # if it is nothing but a choice among words


def snake(name):
    name = NAMES.get(name, name)
    name = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return f"{name}_" if name in KEYWORDS else name


def option_name(argument):
    """An option is called by its word, unless that is a keyword of Rust."""
    if "method" in argument:
        return argument["method"]
    token = argument.get("token", "").lower()
    if token in NAMES and token != "type":
        return NAMES[token]
    return snake(argument["name"] if not token or token in KEYWORDS else token)


def plural(name):
    singular = snake(name)
    return singular if singular.endswith("s") else f"{singular}s"


def value_of(parameter):
    """The argument as the command takes it."""
    is_number = any(parameter.type in kinds.values() for kinds in NUMBERS.values())
    return f"{parameter.type}::of({parameter.name})" if is_number else parameter.name


def is_word(argument):
    return argument["type"] == "pure-token"


def is_words(argument):
    """Whether it is a choice among words alone."""
    return argument["type"] == "oneof" and all(is_word(choice) for choice in argument["arguments"])


def is_list(argument):
    """Whether it is an option that takes a list: of values after their number, or of pairs."""
    is_pairs = argument["type"] == "block" and len(argument["arguments"]) == 2
    is_many = argument.get("multiple") and not argument.get("multiple_token")
    return "counted" in argument or "token" in argument and is_pairs and is_many


def words_of(argument):
    return tuple(choice["token"] for choice in argument["arguments"])


def enum_of(argument):
    words = words_of(argument)
    for known in ENUMS:
        if set(words) <= set(known) and (words == known or len(known) > 4):
            return ENUMS[known][0]
    raise SystemExit(f"name the set of words {words} in tables.ENUMS")


class Model:
    """The arguments of one command as pieces, slots and parameters."""

    def __init__(self, name, arguments):
        self.name = name
        self.slots = 0
        self.parameters = []
        self.selectors = {}  # of ways, by type
        self.sequence = []
        for element in self.elements(arguments):
            last = self.sequence[-1] if self.sequence else None
            if isinstance(element, Options) and isinstance(last, Options) and last.end == element.first:
                last.end = element.end
                last.ways += element.ways
                last.words = None
            else:
                self.sequence.append(element)

    def ways(self):
        return [way for element in self.sequence if isinstance(element, Options) for way in element.ways]

    # Required arguments.

    def elements(self, arguments):
        index = 0
        while index < len(arguments):
            argument = arguments[index]
            following = arguments[index + 1] if index + 1 < len(arguments) else None
            if argument["name"].startswith("num") and following and following.get("multiple") and "token" not in argument:
                yield self.counted(following)
                index += 2
                continue
            if self.is_optional(argument):
                yield self.options(argument)
            else:
                yield from self.required(argument)
            index += 1

    def is_optional(self, argument):
        # What may be given many times, or not at all, is a parameter that may be empty.
        open_ended = argument.get("multiple") and "token" not in argument and argument["type"] not in ("oneof", "block")
        return argument.get("optional") and not (open_ended and self.parameters)

    def counted(self, argument):
        if argument["type"] == "block":
            return self.take(Parameter("pairs", "pairs", self.note_of(argument)), "counted_pairs")
        return self.take(Parameter(plural(argument["name"]), "args"), "counted")

    def required(self, argument):
        if "token" in argument:
            yield Piece("arg", f'"{argument["token"]}"')
        if "counted" in argument:
            yield self.counted(argument)
            return
        if is_word(argument):
            return
        parts = argument.get("arguments", [])
        if is_words(argument):
            yield self.take(Parameter(snake(argument["name"]), enum_of(argument)))
        elif argument["type"] == "oneof":
            yield self.selector(argument)
        elif argument["type"] != "block":
            yield self.leaf(argument)
        elif argument.get("multiple"):
            kind = {2: "pairs", 3: "triples"}[len(parts)]
            name = "members" if kind == "triples" else "pairs"
            yield self.take(Parameter(name, kind, self.note_of(argument)), kind)
        elif all(part.get("multiple") for part in parts):
            yield self.take(Parameter(snake(argument["name"]), "pairs", self.note_of(argument)), "unzipped")
        else:
            yield from self.elements(parts)

    def leaf(self, argument):
        if argument.get("multiple"):
            return self.take(Parameter(plural(argument["name"]), "args"), "args")
        return self.take(Parameter(snake(argument["name"]), self.type_of(argument)))

    def take(self, parameter, call="arg"):
        names = {known.name for known in self.parameters}
        assert parameter.name not in names, (self.name, parameter.name)
        self.parameters.append(parameter)
        return Piece(call, value_of(parameter))

    def selector(self, argument):
        kind, _ = SELECTORS[(self.name, argument["name"])]
        inner = Model(self.name, [])
        ways = []
        for choice in argument["arguments"]:
            ways += inner.ways_of(choice)
        self.selectors[kind] = ways
        piece = self.take(Parameter(snake(argument["name"]), kind))
        return Piece("chosen", f"&{piece.value}.0, 0..{inner.slots}")

    def note_of(self, argument):
        parts = " and ".join(snake(part["name"]).replace("_", " ") for part in argument["arguments"][-2:])
        first = [snake(part["name"]) + ", " for part in argument["arguments"][:-2]]
        return "".join(first) + parts

    def type_of(self, argument):
        for key in ((self.name, argument["name"]), argument["name"]):
            if key in PARAMETERS:
                return PARAMETERS[key]
        kinds = NUMBERS.get(argument["type"], {"": "arg"})
        return next(kind for part, kind in kinds.items() if part in argument["name"])

    # Optional arguments.

    def options(self, argument):
        first = self.slots
        ways = self.ways_of(argument)
        words = Parameter(snake(argument["name"]), enum_of(argument)) if self.is_choice_of_words(argument) else None
        return Options(first, self.slots, ways, words)

    @staticmethod
    def is_choice_of_words(argument):
        return is_words(argument) and "token" not in argument and len(argument["arguments"]) > 1 and words_of(argument) in ENUMS

    def slot(self):
        self.slots += 1
        return self.slots - 1

    def ways_of(self, argument):
        if is_list(argument):
            return [self.single(argument)]
        if argument.get("multiple") and argument["type"] in ("oneof", "block"):
            return self.repeated(argument)
        if argument["type"] == "oneof" and not (is_words(argument) and "token" in argument):
            return self.choice(argument)
        if argument["type"] == "block":
            return self.block(argument)
        return [self.single(argument)]

    def single(self, argument):
        slot = self.slot()
        way = Way(option_name(argument), syntax_of(argument), argument.get("since", ""))
        repeated = argument.get("multiple_token")
        way.clears = [] if repeated else [(slot, slot + 1)]
        if "token" in argument:
            way.pieces.append((slot, Piece("arg", f'"{argument["token"]}"')))
        if not is_word(argument):
            self.fill(way, slot, argument, many=argument.get("multiple") and not repeated)
        return way

    def fill(self, way, slot, argument, many=False):
        call = "args" if many else "arg"
        if is_words(argument):
            parameter = Parameter(snake(argument["name"]), enum_of(argument))
        elif argument["type"] == "block":
            call = {"items": "counted_pairs", "words": "counted_words"}.get(argument.get("counted"), "pairs")
            parameter = Parameter("pairs", "pairs")
        elif many:
            call = "counted" if "counted" in argument else call
            parameter = Parameter(plural(argument["name"]), "args")
        else:
            parameter = Parameter(snake(argument["name"]), self.type_of(argument))
        way.parameters.append(parameter)
        way.pieces.append((slot, Piece(call, value_of(parameter))))

    def choice(self, argument):
        first = self.slots
        ways = []
        for choice in argument["arguments"]:
            for way in self.ways_of(choice):
                if "token" in argument:
                    way.pieces.insert(0, (way.pieces[0][0], Piece("arg", f'"{argument["token"]}"')))
                way.since = way.since or argument.get("since", "")
                ways.append(way)
        for way in ways:
            if not way.refines:
                way.clears = [(first, self.slots)]
        return ways

    def block(self, argument):
        """One way for the required parts (or one for each word of a leading choice), and one for each optional part."""
        parts = argument["arguments"]
        needed = [part for part in parts if not part.get("optional")]
        if len(needed) == 1 and needed[0]["type"] == "oneof" and not is_words(needed[0]):
            return [way for part in parts for way in self.ways_of(part)]
        heads = needed[0]["arguments"] if is_words(needed[0]) else [None]
        mains, refinements = [], []
        token = argument.get("token")
        method = argument.get("method")
        for head in heads:
            plain = needed[0]["name"] if len(needed) == 1 else argument["name"]
            name = method or token or (head or needed[0]).get("token") or plain
            rest = [syntax_of(part) for part in needed[1 if head else 0 :]]
            syntax = " ".join([word for word in (token, head and head["token"]) if word] + rest)
            mains.append(Way(snake(name), syntax, argument.get("since", "")))
        if token:
            self.everywhere(mains, self.slot(), f'"{token}"')
        for part in parts:
            if part.get("optional"):
                refinements += self.ways_of(part)
                continue
            slot = self.slot()
            if part is needed[0] and heads != [None]:
                for way, head in zip(mains, heads):
                    way.pieces.append((slot, Piece("arg", f'"{head["token"]}"')))
                continue
            self.part(mains, slot, part)
        for way in mains:
            way.clears = ranges({slot for slot, _ in way.pieces})
        for way in refinements:
            way.refines = True
        return mains + refinements

    def part(self, mains, slot, part):
        if part["type"] == "block" and not part.get("multiple"):
            if "token" in part:
                self.everywhere(mains, slot, f'"{part["token"]}"')
            for inner in part["arguments"]:
                assert not inner.get("optional"), (self.name, inner)
                self.part(mains, slot, inner)
            return
        if "token" in part:
            self.everywhere(mains, slot, f'"{part["token"]}"')
        if not is_word(part):
            for way in mains:
                self.fill(way, slot, part, many=part.get("multiple"))

    @staticmethod
    def everywhere(ways, slot, text):
        for way in ways:
            way.pieces.append((slot, Piece("arg", text)))

    def repeated(self, argument):
        """Options that may be given many times, in the caller's order: all in one slot."""
        inner = Model(self.name, [])
        single = {key: value for key, value in argument.items() if key not in ("multiple", "multiple_token", "optional")}
        slot = self.slot()
        ways = inner.ways_of(single)
        for way in ways:
            way.pieces = [(slot, piece) for _, piece in way.pieces]
            way.clears = []
        return ways


def ranges(slots):
    """The slots as ranges, neighbours together."""
    found = []
    for slot in sorted(slots):
        if found and found[-1][1] == slot:
            found[-1] = (found[-1][0], slot + 1)
        else:
            found.append((slot, slot + 1))
    return found


def syntax_of(argument):
    """The words of an option as documentation writes them."""
    parts = [argument["token"]] if "token" in argument else []
    parts += ["number"] if "counted" in argument else []
    if argument["type"] == "oneof":
        parts.append(" | ".join(syntax_of(choice) for choice in argument["arguments"]))
    elif argument["type"] == "block":
        for part in argument["arguments"]:
            inner = syntax_of(part)
            parts.append(f"[{inner}]" if part.get("optional") else inner)
        parts += ["…"] if argument.get("multiple") else []
    elif argument["type"] != "pure-token":
        parts.append(argument["name"] + (" …" if argument.get("multiple") else ""))
    return " ".join(parts)
