"""Reads arguments in the short form of data/commands/modules.toml into that of the servers' files.

    key, name:int, unit:float    one argument, and its type: string if none is given, a key if it is called `key`
    WORD                         that word
    WORD name                    that word, and an argument after it
    name…   (a b)…   (a b c)…    many of them
    #name…  #(a b)…              their number, then they; `##(a b)…` the number of all words
    [ … ]                        what may be left out
    < x | y >,  [x | y]          a choice
    [<x | y>]…                   options that may be given many times, in the caller's order
    name=WORD …, name=(a b)      what the method of this option is called
    name=< x | y >               what the parameter is called
"""

import re

TOKENS = re.compile(r"[a-z_]+=|##?|[][()<>|…]|[^][()<>|…#\s]+")
TYPES = {"int": "integer", "float": "double", "key": "key", "string": "string"}


def arguments_of(text):
    parser = Parser(TOKENS.findall(text))
    found = parser.sequence(())
    assert parser.at == len(parser.tokens), (text, parser.tokens[parser.at :])
    return found


def is_word(token):
    return not re.search(r"[a-z]", token)


class Parser:
    def __init__(self, tokens):
        self.tokens, self.at = tokens, 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *expected):
        token = self.peek()
        assert token and (not expected or token in expected), (expected, self.tokens[self.at :])
        self.at += 1
        return token

    def many(self):
        if self.peek() == "…":
            self.at += 1
            return {"multiple": True}
        return {}

    def sequence(self, ends):
        found = []
        while self.peek() not in (None, *ends):
            found.append(self.item())
        return found

    def choices(self, end):
        """What stands between brackets: one sequence, or several to choose from."""
        found = [self.sequence(("|", end))]
        while self.take("|", end) == "|":
            found.append(self.sequence(("|", end)))
        return found

    def item(self):
        token = self.take()
        if token.endswith("="):
            found = self.item() | {"method": token[:-1]}
            return found | ({"name": token[:-1]} if found["type"] == "oneof" else {})
        if token == "[":
            return self.bracketed("]") | {"optional": True} | self.many()
        if token == "<":
            return self.bracketed(">") | self.many()
        if token.startswith("#"):
            return self.item() | {"counted": "words" if token == "##" else "items"}
        if token == "(":
            parts = self.sequence((")",))
            self.take(")")
            return block(parts) | self.many()
        if not is_word(token):
            return leaf(token) | self.many()
        following = self.peek()
        is_alone = following in (None, "|", "]", ">", ")", "[")
        if is_alone or is_word(following) and following not in ("#", "##", "(", "<"):
            return {"name": token.lower(), "type": "pure-token", "token": token}
        return self.item() | {"token": token}

    def bracketed(self, end):
        choices = [whole(parts) for parts in self.choices(end)]
        if len(choices) == 1:
            return choices[0]
        return {"name": "_".join(choice["name"] for choice in choices[:1]), "type": "oneof", "arguments": choices}


def leaf(token):
    name, _, kind = token.partition(":")
    return {"name": name, "type": TYPES[kind or ("key" if name == "key" else "string")]}


def block(parts):
    return {"name": parts[0]["name"], "type": "block", "arguments": parts}


def whole(parts):
    """A sequence as one argument. A word that begins it, and the first argument after that, are one already."""
    if len(parts) == 1:
        return parts[0]
    first, *rest = parts
    named = {field: first.pop(field) for field in ("method",) if field in first}
    if "token" not in first:
        return block(parts) | named
    plain = {field: value for field, value in first.items() if field != "token"}
    needed = rest if first["type"] == "pure-token" else [plain, *rest]
    return {"name": first["token"].lower(), "type": "block", "token": first["token"], "arguments": needed} | named


def least(arguments):
    """The least number of words that the arguments can be."""
    return sum(least_of(argument) for argument in arguments if not argument.get("optional"))


def least_of(argument):
    words = ("token" in argument) + ("counted" in argument)
    if argument["type"] == "oneof":
        return words + min(least_of(choice) for choice in argument["arguments"])
    if argument["type"] == "block":
        return words + least(argument["arguments"])
    return words if argument["type"] == "pure-token" else words + 1


def is_fixed(arguments):
    return all(is_fixed_one(argument) for argument in arguments)


def is_fixed_one(argument):
    is_open = argument.get("optional") or argument.get("multiple") or argument["type"] == "oneof"
    return not is_open and is_fixed(argument.get("arguments", []))
