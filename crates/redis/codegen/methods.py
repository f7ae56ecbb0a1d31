"""Writes the trait of typed methods, the types of their options, and the table of coverage."""

import re
import textwrap

import examples
from model import Model, Options, Piece
from replies import METHODS as SPECIAL
from replies import reply_of
from specs import FLAGS, camel, constant, flags_of, key_specs
from tables import CONNECTION_STATE, ENUMS, INTERNAL, NUMBERS, SELECTORS, SELECTOR_METHODS, VARIANT_NAMES
from tables import METHODS as RENAMED

TYPES = {"arg": "impl Into<Arg<'a>>", "args": "impl Args<'a>", "pairs": "impl Pairs<'a>", "triples": "impl Triples<'a>"}
NUMBER_TYPES = sorted({kind for kinds in NUMBERS.values() for kind in kinds.values()})
TYPES |= {kind: f"impl Into<{kind}>" for kind in NUMBER_TYPES}


def is_container(name, commands):
    """Whether it does nothing without a subcommand."""
    return name != "COMMAND" and any(other.startswith(f"{name} ") for other in commands)


def is_typed(name, commands):
    return not (is_container(name, commands) or name in CONNECTION_STATE or name in INTERNAL or name.endswith(" HELP"))


def method_name(name):
    return RENAMED.get(name) or constant(name).lower()


class Typed:
    """One command: its model, and the methods it becomes."""

    def __init__(self, name, command):
        self.name, self.command = name, command
        self.method = method_name(name)
        self.model = Model(name, command.get("arguments", []))
        self.replies = command.get("replies") or SPECIAL.get(name) or self.default_replies()
        self.methods = [Method(self, suffix, reply) for suffix, reply in self.replies.items()]
        self.taken = {way.name for method in self.methods for way in method.given}

    def default_replies(self):
        reply = self.command.get("reply") or reply_of(self.name, self.command.get("reply_schema"))
        ways = self.model.ways()
        if not ways:
            return {"": reply}
        if len(ways) == 1:
            return {"": reply, ways[0].name: reply}
        return {"": reply, "with": reply}

    def words(self):
        """The parameter of the only optional argument, if that is a choice among words."""
        groups = [element for element in self.model.sequence if isinstance(element, Options)]
        special = "replies" in self.command or self.name in SPECIAL
        return groups[0].words if len(groups) == 1 and not special else None

    def builder(self):
        """The type of its options, if any method takes them."""
        if self.words() or not any(method.takes_options for method in self.methods):
            return None
        return f"{camel(self.method)}Options"

    def options(self):
        return [way for way in self.model.ways() if way.name not in self.taken]


class Method:
    """One method of a command: which options are given, and whether it takes the others."""

    def __init__(self, typed, suffix, reply):
        self.typed, self.reply, self.suffix = typed, reply, suffix
        known = {way.name: way for way in typed.model.ways()}
        words = [suffix] if suffix in known else suffix.split("_") if suffix else []
        self.takes_options = bool(words) and words[-1] == "with"
        self.given = [known[word] for word in words if word != "with"]

    def name(self):
        # Where the options are always taken, the name does not say so.
        suffix = re.sub("_?with$", "", self.suffix)
        if suffix in self.typed.replies:
            suffix = self.suffix
        if not suffix:
            return self.typed.method
        only = self.given[0] if len(self.given) == 1 and not self.takes_options else None
        if only and not self.typed.model.parameters and only.parameters and only.parameters[0].type == "args":
            return f"{self.typed.method}_of"
        return f"{self.typed.method}_{suffix}".rstrip("_")

    def parameters(self):
        extra = [parameter for way in self.given for parameter in way.parameters]
        found = [f"{parameter.name}: {rust_type(parameter)}" for parameter in self.typed.model.parameters + extra]
        if self.takes_options:
            words = self.typed.words()
            found.append(f"{words.name}: {words.type}" if words else f"options: {self.typed.builder()}<'a>")
        return ", ".join(["self", *found])

    def body(self):
        calls = []
        for element in self.typed.model.sequence:
            calls += [f".{element.call}({element.value})"] if isinstance(element, Piece) else self.optional(element)
        return f"self.run(Command::new(&spec::{constant(self.typed.name)}){''.join(calls)})"

    def optional(self, group):
        """The given options stand where their slots are, between those that the caller chose."""
        if self.takes_options and self.typed.words():
            return [f".arg({self.typed.words().name})"]
        calls, start = [], group.first
        given = sorted((slot, index, piece) for way in self.given for index, (slot, piece) in enumerate(way.pieces))
        given = [(slot, piece) for slot, _, piece in given if group.first <= slot < group.end]
        for slot, piece in given:
            calls += self.chosen(start, slot)
            calls.append(f".{piece.call}({piece.value})")
            start = slot + 1
        return calls + self.chosen(start, group.end)

    def chosen(self, first, end):
        used = {slot for way in self.typed.options() for slot, _ in way.pieces}
        if self.takes_options and any(first <= slot < end for slot in used):
            return [f".chosen(&options.0, {first}..{end})"]
        return []

    def docs(self):
        command = self.typed.command
        lines = [sentence(command["summary"])]
        for way in self.given:
            lines[0] += f" With `{way.syntax}`."
        if self.takes_options and self.name().endswith("_with"):
            lines[0] += " With options."
        for parameter in self.typed.model.parameters:
            if parameter.note:
                lines.append(f"`{parameter.name}`: {parameter.note}.")
        facts = [sentence(command["complexity"])] if command.get("complexity") else []
        facts.append(f"Since {command['since']}.")
        if "deprecated_since" in command:
            facts.append(f"Deprecated since {command['deprecated_since']}: use {command.get('replaced_by', 'another command')}.")
        lines.append(" ".join(facts))
        return doc("\n\n".join(lines), "    ")


def rust_type(parameter):
    if any(parameter.type == name for name, _ in SELECTORS.values()):
        return f"{parameter.type}<'a>"
    return TYPES.get(parameter.type, parameter.type)


def sentence(text):
    text = re.sub(r"[*]", "×", text.strip())
    text = re.sub(r"(\[[^\]]*\]|<[^>]*>)", r"`\1`", text) if "`" not in text else text
    return text if text.endswith((".", "!")) else f"{text}."


def doc(text, indent=""):
    lines = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(paragraph, 110) or [""]
    return "\n".join(f"{indent}/// {line}".rstrip() for line in lines)


def trait(commands, head):
    parts = [head]
    group = None
    for name in sorted(commands, key=lambda name: (commands[name]["group"], name)):
        typed = Typed(name, commands[name])
        if typed.command["group"] != group:
            group = typed.command["group"]
            parts.append(f"    // {group.replace('_', ' ').capitalize()}.\n")
        parts += functions(typed)
    return "\n".join(parts) + "}\n"


def functions(typed):
    return [
        f"{method.docs()}\n    fn {method.name()}({method.parameters()}) -> Self::Out<{method.reply}> {{\n"
        f"        {method.body()}\n    }}\n"
        for method in typed.methods
    ]


MODULE_HEAD = """\
//! {what}: typed methods and their options.

{imports}

{doc}
pub trait {trait}<'a>: Commands<'a> {{
"""


def module(commands, module):
    """The trait of a module's commands, which all have that have the other commands, and the types of their options."""
    body = "\n".join(text for name in sorted(commands) for text in functions(Typed(name, commands[name])))
    types = option_types(commands, examples.home_of(module))
    text = body + types
    imports = []
    if "HashMap<" in text:
        imports.append("use std::collections::HashMap;\n\n")
    if re.search(r"\bBytes\b", text):
        imports.append("use bytes::Bytes;\n\n")
    replies = [name for name in REPLY_TYPES if re.search(rf"\b{name}\b", text)]
    imports.append(f"use super::replies::{{{', '.join(replies)}}};\n" if replies else "")
    if "Choices" in text:
        imports.append("use crate::commands::choices::Choices;\n")
    imports.append("use crate::commands::{Commands, spec};\n")
    words = words_in(text)
    imports.append(f"use crate::commands::words::{{{', '.join(words)}}};\n" if words else "")
    kinds = [kind for kind in ("Arg", "Args", "Pairs", "Triples") if f"{kind}<" in text]
    kinds += [kind for kind in NUMBER_TYPES if f"<{kind}>" in text]
    imports.append(f"use crate::command::{{{', '.join([*kinds, 'Command'])}}};\n")
    shared = [name for name in ("Facts", "Value") if re.search(rf"\b{name}\b", text)]
    imports.append(f"use crate::reply::{{{', '.join(shared)}}};\n" if shared else "")
    about = doc(f"{module.what}. The server needs {module.needs}.") + "\n" + examples.of_module(module).rstrip()
    head = MODULE_HEAD.format(what=module.what, trait=module.trait, imports="".join(imports), doc=about)
    every = f"impl<'a, T: Commands<'a>> {module.trait}<'a> for T {{}}\n"
    return f"{head}{body}}}\n\n{every}\n{types}"


REPLY_TYPES = ("Aggregated", "Found", "Sample", "Series", "Similar")


def options(commands, group, head):
    """The option types of one group of commands; nothing if it has none."""
    own = {name: command for name, command in commands.items() if command["group"] == group}
    text = option_types(own, examples.CORE)
    if not text:
        return None
    enums = words_in(text)
    kinds = [kind for kind in ("Arg", "Args") if f"{kind}<" in text]
    kinds += [kind for kind in NUMBER_TYPES if f"<{kind}>" in text]
    imports = [f"use crate::command::{{{', '.join(kinds)}}};"] if kinds else []
    imports += ["use crate::commands::choices::Choices;"]
    imports += [f"use crate::commands::words::{{{', '.join(enums)}}};"] if enums else []
    return head.format(group=group.replace("_", " ")) + "\n".join(imports) + "\n\n" + text


def words_in(text):
    """The enums that code names; its documentation imports for itself."""
    code = re.sub(r"^ *///.*$", "", text, flags=re.M)
    return sorted({enum for enum, _ in ENUMS.values() if re.search(rf"\b{enum}\b", code)})


def option_types(commands, home):
    parts = []
    for name in sorted(commands):
        typed = Typed(name, commands[name])
        for kind, what, ways in own_selectors(typed):
            parts.append(builder(kind, what, examples.of_selector(typed, home), ways, constructors=True))
        if typed.builder():
            example = examples.of_options(typed, typed.builder(), home)
            parts.append(builder(typed.builder(), f"Options of `{name}`.", example, typed.options()))
    return "\n".join(parts)


def own_selectors(typed):
    """The types of parameters that stand beside the options of this command."""
    for kind, ways in typed.model.selectors.items():
        owner, what = next((known[0], text) for known, (other, text) in SELECTORS.items() if other == kind)
        if typed.name == owner:
            yield kind, what, ways


def examples_to_run(commands, home):
    """What the examples of `option_types` call, for a test."""
    for name in sorted(commands):
        typed = Typed(name, commands[name])
        for kind, _, _ in own_selectors(typed):
            yield kind, home, examples.selector_call(typed)
        if typed.builder():
            yield typed.builder(), home, examples.options_call(typed, typed.builder())


def builder(kind, what, example, ways, constructors=False):
    default = "" if constructors else ", Default"
    parts = [f"/// {what}\n{example}#[derive(Debug, Clone{default})]\npub struct {kind}<'a>(pub(crate) Choices<'a>);\n"]
    parts.append(f"impl<'a> {kind}<'a> {{")
    if not constructors:
        parts.append("/// None yet.\n#[must_use]\npub fn new() -> Self {\n    Self::default()\n}\n")
    for way in ways:
        parts.append(option(way, constructor=constructors and not way.refines))
    return "\n".join(parts) + "}\n"


def option(way, constructor):
    parameters = [f"{parameter.name}: {rust_type(parameter)}" for parameter in way.parameters]
    clears = "" if constructor else "".join(f".without({first}..{end})" for first, end in way.clears)
    calls = "".join(f".{piece.call}({slot}, {piece.value})" for slot, piece in way.pieces)
    since = f" Since {way.since}." if way.since else ""
    name = SELECTOR_METHODS.get(way.name, way.name) if constructor else way.name
    receiver = [] if constructor else ["self"]
    start = "Choices::default()" if constructor else "self.0"
    return (
        f"/// `{way.syntax}`.{since}\n#[must_use]\npub fn {name}({', '.join(receiver + parameters)}) -> Self {{\n"
        f"    Self({start}{clears}{calls})\n}}\n"
    )


def words(head):
    """The enums."""
    parts = [head]
    for tokens, (kind, what) in sorted(ENUMS.items(), key=lambda item: item[1][0]):
        names = {token: VARIANT_NAMES.get(token, token.capitalize()) for token in tokens}
        variants = "\n".join(f"    /// `{token}`.\n    {names[token]}," for token in tokens)
        rows = "\n".join(f'        {kind}::{names[token]} => "{token}",' for token in tokens)
        parts.append(
            f"/// {what}\n#[derive(Debug, Clone, Copy, PartialEq, Eq)]\npub enum {kind} {{\n{variants}\n}}\n\n"
            f"impl From<{kind}> for Arg<'_> {{\n    fn from(word: {kind}) -> Self {{\n"
            f"        Self::from(match word {{\n{rows}\n        }})\n    }}\n}}\n"
        )
    return "\n".join(parts)


def coverage(commands, head):
    rows, typed_count, total = [], 0, 0
    for name in sorted(commands, key=lambda name: (commands[name]["group"], name)):
        command = commands[name]
        if is_container(name, commands):
            continue
        total += 1
        if is_typed(name, commands):
            typed_count += 1
            typed = Typed(name, command)
            what = "<br>".join(f"`{method.name()}` → `{method.reply}`" for method in typed.methods)
        elif name in CONNECTION_STATE:
            what = "*changes its connection: an API of its own, or none*"
        else:
            what = "*no typed method*"
        rows.append(f"| {command['group'].replace('_', ' ')} | {name} | {command['since']} | {what} | {keys_and_flags(name, command)} |")
    return head.format(typed=typed_count, total=total) + "\n".join(rows) + "\n"


def keys_and_flags(name, command):
    keys = ", ".join(key_specs(name, command)).replace("|", "\\|")
    flags = ", ".join(flag.lower() for flag in FLAGS if flag in flags_of(name, command, {}))
    return f"{f'`{keys}`' if keys else '-'} | {flags or '-'}"
