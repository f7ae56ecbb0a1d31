#!/usr/bin/env python3
"""Compares what published crates offer with the listing beside each: crates/NAME/public-api.txt.

    public_api.py                      says what differs, and fails
    UPDATE_EXPECTED=1 public_api.py    writes the listings anew
    public_api.py --without-examples   types, traits and functions of modules whose documentation has no example

A change of a listing is a change for users: it belongs into the same commit as the code, and into CHANGELOG.md. What
rustdoc knows of a crate is read from its JSON, a format that may change with each Rust; FORMATS are those that were
tried. The parts of a listing that depend on the compiler (blanket impls, paths within std) are left out.
"""

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path

import features
from features import TARGET

ROOT = Path(__file__).resolve().parents[1]
FORMATS = (57,)
CRATES = ("pilotlight-redis", "pilotlight-resp", "pilotlight-pipe", "pilotlight-redis-pools")
# Those of which every type with methods, trait and function shows an example; more are listed by `--without-examples`.
WITH_EXAMPLES = ("pilotlight-redis", "pilotlight-resp", "pilotlight-pipe")
# Features that change nothing that is public, and cost minutes: the others are on.
OFF = ("tls-aws-lc-rs",)
STD = ("core", "alloc", "std")
# Whether a type has these is a promise, too; the compiler finds it out.
AUTO_TRAITS = ("Send", "Sync", "Unpin")
# Of macros that derive; nobody names them.
UNLISTED_TRAITS = ("StructuralPartialEq",)


class Crate:
    """The JSON of one crate, and the public path of each of its items."""

    def __init__(self, data):
        self.index, self.paths, self.root = data["index"], data["paths"], data["root"]
        self.public = {}  # id: path within the crate, the shortest one
        self.lines = set()
        self.walk(self.root, "")

    def item(self, number):
        return self.index.get(str(number))

    def kind(self, item):
        ((kind, inner),) = item["inner"].items()
        return kind, inner

    def walk(self, number, path, seen=()):
        """Notes the paths of everything public below a module; `path` is empty or ends in `::`."""
        if number in seen:
            return
        for child in sorted(self.kind(self.item(number))[1]["items"]):
            item = self.item(child)
            if item is None or item["visibility"] != "public":
                continue
            kind, inner = self.kind(item)
            if kind == "use":
                self.walk_use(inner, path, (*seen, number))
                continue
            self.note(child, path + item["name"])
            if kind == "module":
                self.walk(child, f"{path}{item['name']}::", (*seen, number))

    def walk_use(self, use, path, seen):
        target = self.item(use["id"]) if use["id"] is not None else None
        if target is None:  # of another crate
            self.lines.add(f"pub use {path}{use['name']} = {use['source']}")
            return
        if use["is_glob"]:
            self.walk(use["id"], path, seen)
            return
        self.note(use["id"], path + use["name"])
        if self.kind(target)[0] == "module":
            self.walk(use["id"], f"{path}{use['name']}::", seen)

    def note(self, number, path):
        old = self.public.get(number)
        if old is None or (path.count("::"), path) < (old.count("::"), old):
            self.public[number] = path


class Text:
    """Types, bounds and signatures as Rust writes them."""

    def __init__(self, crate):
        self.crate = crate

    def name(self, number, written):
        """Of this crate the public path, of others the crate and the name; std's names alone."""
        if number in self.crate.public:
            return self.crate.public[number]
        known = self.crate.paths.get(str(number))
        if known is None:
            return written
        place, last = known["path"][0], known["path"][-1]
        return last if place in STD or known["crate_id"] == 0 else f"{place}::{last}"

    def path(self, path):
        return self.name(path["id"], path["path"]) + self.args(path["args"])

    def args(self, args):
        if not args:
            return ""
        if "parenthesized" in args:
            call = args["parenthesized"]
            return f"({', '.join(map(self.type, call['inputs']))}){self.output(call['output'])}"
        if "angle_bracketed" not in args:
            return "(..)"
        words = [self.arg(arg) for arg in args["angle_bracketed"]["args"]]
        words += [self.constraint(constraint) for constraint in args["angle_bracketed"]["constraints"]]
        return f"<{', '.join(words)}>" if words else ""

    def arg(self, arg):
        if arg == "infer":
            return "_"
        ((kind, value),) = arg.items()
        return {"lifetime": str, "type": self.type, "const": self.constant}[kind](value)

    def constant(self, value):
        return value["value"] or value["expr"]

    def constraint(self, constraint):
        name = constraint["name"] + self.args(constraint["args"])
        ((kind, value),) = constraint["binding"].items()
        return f"{name}: {self.bounds(value)}" if kind == "constraint" else f"{name} = {self.term(value)}"

    def term(self, term):
        return self.type(term["type"]) if "type" in term else self.constant(term["constant"])

    def type(self, type_):
        if type_ == "infer":
            return "_"
        ((kind, value),) = type_.items()
        return getattr(self, f"type_{kind}")(value)

    def type_resolved_path(self, value):
        return self.path(value)

    def type_dyn_trait(self, value):
        words = [self.for_(each["generic_params"]) + self.path(each["trait"]) for each in value["traits"]]
        return "dyn " + " + ".join(words + ([value["lifetime"]] if value["lifetime"] else []))

    def type_generic(self, value):
        return value

    type_primitive = type_generic

    def type_function_pointer(self, value):
        sig = value["sig"]
        inputs = ", ".join(self.type(type_) for _, type_ in sig["inputs"])
        return f"{self.for_(value['generic_params'])}fn({inputs}){self.output(sig['output'])}"

    def type_tuple(self, value):
        return f"({', '.join(map(self.type, value))}{',' if len(value) == 1 else ''})"

    def type_slice(self, value):
        return f"[{self.type(value)}]"

    def type_array(self, value):
        return f"[{self.type(value['type'])}; {value['len']}]"

    def type_impl_trait(self, value):
        return f"impl {self.bounds(value)}"

    def type_raw_pointer(self, value):
        return f"*{'mut' if value['is_mutable'] else 'const'} {self.type(value['type'])}"

    def type_borrowed_ref(self, value):
        lifetime = f"{value['lifetime']} " if value["lifetime"] else ""
        return f"&{lifetime}{'mut ' if value['is_mutable'] else ''}{self.type(value['type'])}"

    def type_qualified_path(self, value):
        own, trait = self.type(value["self_type"]), value["trait"]
        name = value["name"] + self.args(value["args"])
        return f"<{own} as {self.path(trait)}>::{name}" if trait and trait["path"] else f"{own}::{name}"

    def output(self, output):
        return f" -> {self.type(output)}" if output else ""

    def bounds(self, bounds):
        return " + ".join(map(self.bound, bounds))

    def bound(self, bound):
        ((kind, value),) = bound.items()
        if kind == "outlives":
            return value
        if kind == "use":
            return f"use<{', '.join(str(next(iter(arg.values())) if isinstance(arg, dict) else arg) for arg in value)}>"
        question = "?" if value["modifier"] == "maybe" else ""
        return self.for_(value["generic_params"]) + question + self.path(value["trait"])

    def for_(self, params):
        return f"for<{', '.join(param['name'] for param in params)}> " if params else ""

    def params(self, generics):
        words = [word for word in map(self.param, generics["params"]) if word]
        return f"<{', '.join(words)}>" if words else ""

    def param(self, param):
        ((kind, value),) = param["kind"].items()
        if kind == "lifetime":
            return param["name"] + (f": {' + '.join(value['outlives'])}" if value["outlives"] else "")
        if kind == "const":
            return f"const {param['name']}: {self.type(value['type'])}"
        if value["is_synthetic"]:  # `impl Trait` among the arguments
            return ""
        bounds = f": {self.bounds(value['bounds'])}" if value["bounds"] else ""
        return param["name"] + bounds + (f" = {self.type(value['default'])}" if value["default"] else "")

    def where(self, generics):
        words = [self.predicate(predicate) for predicate in generics["where_predicates"]]
        return f" where {', '.join(words)}" if words else ""

    def predicate(self, predicate):
        ((kind, value),) = predicate.items()
        if kind == "lifetime_predicate":
            return f"{value['lifetime']}: {' + '.join(value['outlives'])}"
        if kind == "eq_predicate":
            return f"{self.type(value['lhs'])} = {self.term(value['rhs'])}"
        return f"{self.for_(value['generic_params'])}{self.type(value['type'])}: {self.bounds(value['bounds'])}"

    def function(self, name, function):
        header, sig = function["header"], function["sig"]
        words = [word for word in ("const", "async", "unsafe") if header[f"is_{word}"]]
        inputs = ", ".join(self.input(*each) for each in sig["inputs"])
        generics = function["generics"]
        head = "".join(f"{word} " for word in words)
        return f"{head}fn {name}{self.params(generics)}({inputs}){self.output(sig['output'])}{self.where(generics)}"

    def input(self, name, type_):
        text = self.type(type_)
        if name != "self":
            return f"{name}: {text}"
        return {"Self": "self", "&Self": "&self", "&mut Self": "&mut self"}.get(text, f"self: {text}")


class Listing(Text):
    """One line for each public item."""

    def written(self):
        for number, path in self.crate.public.items():
            item = self.crate.item(number)
            kind, inner = self.crate.kind(item)
            getattr(self, f"list_{kind}", self.list_other)(path, item, inner)
        return sorted(self.crate.lines, key=lambda line: (key_of(line), line))

    def add(self, line, item=None):
        marks = "#[non_exhaustive] " if item and "non_exhaustive" in item["attrs"] else ""
        marks += "#[deprecated] " if item and item["deprecation"] else ""
        self.crate.lines.add(marks + line)

    def list_other(self, path, item, inner):
        sys.exit(f"public_api: {path} is of a kind that nobody has met yet: {next(iter(item['inner']))}")

    def list_module(self, path, item, inner):
        self.add(f"pub mod {path}", item)

    def list_macro(self, path, item, inner):
        self.add(f"pub macro {path}!", item)

    list_proc_macro = list_macro

    def list_function(self, path, item, inner):
        self.add(f"pub {self.function(path, inner)}", item)

    def list_constant(self, path, item, inner):
        self.add(f"pub const {path}: {self.type(inner['type'])}", item)

    def list_static(self, path, item, inner):
        self.add(f"pub static {path}: {self.type(inner['type'])}", item)

    def list_type_alias(self, path, item, inner):
        self.add(f"pub type {path}{self.params(inner['generics'])} = {self.type(inner['type'])}", item)

    def list_struct(self, path, item, inner):
        generics, kind = inner["generics"], inner["kind"]
        head = f"pub struct {path}{self.params(generics)}"
        if kind == "unit":
            self.add(head + self.where(generics), item)
        elif "tuple" in kind:
            self.add(f"{head}({self.tuple_fields(kind['tuple'])}){self.where(generics)}", item)
        else:
            self.add(head + self.where(generics), item)
            self.list_fields(path, kind["plain"]["fields"])
        self.list_impls(inner["impls"])

    def list_enum(self, path, item, inner):
        self.add(f"pub enum {path}{self.params(inner['generics'])}{self.where(inner['generics'])}", item)
        for variant in map(self.crate.item, inner["variants"]):
            name, kind = f"{path}::{variant['name']}", variant["inner"]["variant"]["kind"]
            fields = f"({self.tuple_fields(kind['tuple'])})" if "tuple" in kind else ""
            self.add(f"pub {name}{fields}", variant)
            if "struct" in kind:
                self.list_fields(name, kind["struct"]["fields"], is_variant=True)
        self.list_impls(inner["impls"])

    def tuple_fields(self, numbers):
        fields = [number is not None and self.crate.item(number) for number in numbers]
        return ", ".join(self.type(field["inner"]["struct_field"]) if field else "_" for field in fields)

    def list_fields(self, path, numbers, is_variant=False):
        for field in filter(None, map(self.crate.item, numbers)):
            if is_variant or field["visibility"] == "public":
                self.add(f"pub {path}::{field['name']}: {self.type(field['inner']['struct_field'])}", field)

    def list_trait(self, path, item, inner):
        bounds = f": {self.bounds(inner['bounds'])}" if inner["bounds"] else ""
        generics = inner["generics"]
        self.add(f"pub trait {path}{self.params(generics)}{bounds}{self.where(generics)}", item)
        for child in filter(None, map(self.crate.item, inner["items"])):
            self.list_member(path, child, "provided " if has_default(child) else "")
        # Of types of other crates; those of this crate have them among theirs.
        self.list_impls(inner["implementations"])

    def list_member(self, path, item, mark=""):
        kind, inner = self.crate.kind(item)
        name = f"{path}::{item['name']}"
        if kind == "function":
            self.add(f"pub {mark}{self.function(name, inner)}", item)
        elif kind == "assoc_const":
            self.add(f"pub {mark}const {name}: {self.type(inner['type'])}", item)
        elif kind == "assoc_type":
            bounds = f": {self.bounds(inner['bounds'])}" if inner["bounds"] else ""
            default = f" = {self.type(inner['type'])}" if inner["type"] else ""
            self.add(f"pub {mark}type {name}{bounds}{default}", item)

    def list_impls(self, numbers):
        for item in filter(None, map(self.crate.item, numbers)):
            impl = item["inner"]["impl"]
            if impl["blanket_impl"] is None:
                self.list_impl(impl)

    def list_impl(self, impl):
        own = self.type(impl["for"])
        if impl["trait"] is None:
            for child in map(self.crate.item, impl["items"]):
                if child and child["visibility"] == "public":
                    self.list_member(own, child)
            return
        trait = self.path(impl["trait"])
        if impl["is_synthetic"]:
            # What is the rule is not listed: a type that cannot be sent to another thread is the exception.
            if impl["is_negative"] and trait in AUTO_TRAITS:
                self.add(f"impl !{trait} for {own}")
            return
        if trait in UNLISTED_TRAITS or not self.is_public(impl["trait"]["id"]):
            return
        types = [child for child in map(self.crate.item, impl["items"]) if child and "assoc_type" in child["inner"]]
        named = "".join(f"; {child['name']} = {self.type(child['inner']['assoc_type']['type'])}" for child in types)
        self.add(f"impl{self.params(impl['generics'])} {trait} for {own}{self.where(impl['generics'])}{named}")

    def is_public(self, number):
        """Of another crate, or a public one of this."""
        known = self.crate.paths.get(str(number))
        return number in self.crate.public or (known is not None and known["crate_id"] != 0)


def has_default(item):
    ((kind, inner),) = item["inner"].items()
    if kind == "function":
        return inner["has_body"]
    return inner["type" if kind == "assoc_type" else "value"] is not None


def key_of(line):
    """Lines of one type are beside each other: impls are sorted by what they are for."""
    if line.startswith("impl"):
        return line.rpartition(" for ")[2].partition("<")[0], 1
    for word in ("#[non_exhaustive] ", "#[deprecated] ", "pub ", "provided ", "const ", "async ", "unsafe ", "fn "):
        line = line.removeprefix(word)
    for word in ("mod ", "struct ", "enum ", "trait ", "type ", "static ", "use ", "macro "):
        line = line.removeprefix(word)
    return line.partition("(")[0].partition("<")[0], 0


def without_examples(crate):
    """Paths of what has no example, but for data that stands in those of others: enums, and structs without methods."""
    for number, path in crate.public.items():
        item = crate.item(number)
        kind, inner = crate.kind(item)
        if kind == "struct":
            impls = [crate.item(each)["inner"]["impl"] for each in inner["impls"] if crate.item(each)]
            is_wanted = any(impl["trait"] is None for impl in impls)
        else:
            is_wanted = kind in ("trait", "function")
        if is_wanted and "```" not in (item["docs"] or ""):
            yield path


def described(package, on):
    """What rustdoc says of a crate. Its wrapper allows the unstable format, for that crate alone."""
    environment = os.environ | {"RUSTDOC": str(ROOT / "scripts" / "rustdoc-json.sh")}
    command = ["cargo", "rustdoc", "--quiet", "--lib", "--package", package, "--target-dir", str(TARGET)]
    command += ["--no-default-features", "--features", ",".join(on)]
    options = ["-Z", "unstable-options", "--output-format", "json", "-D", "rustdoc::broken_intra_doc_links"]
    done = subprocess.run([*command, "--", *options], cwd=ROOT, env=environment, check=False)
    if done.returncode:
        sys.exit(f"public_api: rustdoc failed for {package}")
    data = json.loads((TARGET / "doc" / f"{package.replace('-', '_')}.json").read_text())
    if (version := data["format_version"]) not in FORMATS:
        print(f"public_api: rustdoc's format {version} was not tried yet: see FORMATS", file=sys.stderr)
    return data


def main():
    update = os.environ.get("UPDATE_EXPECTED") == "1"
    wrong = []
    known = features.features()
    for package in CRATES:
        on = [name for name in known[package] if name not in OFF]
        file = ROOT / "crates" / package.removeprefix("pilotlight-") / "public-api.txt"
        crate = Crate(described(package, on))
        if "--without-examples" in sys.argv[1:]:
            print("\n".join(f"{package}: {path}" for path in sorted(without_examples(crate))))
            continue
        if package in WITH_EXAMPLES and (bare := sorted(without_examples(crate))):
            print(f"public_api: {package}: no example: {', '.join(bare)}")
            wrong.append(package)
        lines = Listing(crate).written()
        text = "".join(f"{line}\n" for line in lines)
        old = file.read_text() if file.exists() else ""
        if text == old:
            continue
        if update:
            file.write_text(text)
            print(f"public_api: {file.relative_to(ROOT)}: written, {len(lines)} lines")
            continue
        name = str(file.relative_to(ROOT))
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, "now", n=0))
        wrong.append(name)
    if wrong:
        sys.exit(
            f"public_api: {', '.join(wrong)}: what users can name has changed, or has no example. If it shall change:"
            " UPDATE_EXPECTED=1 scripts/public_api.py, and a line in CHANGELOG.md (what is removed or changed breaks"
            " programs)"
        )


if __name__ == "__main__":
    main()
