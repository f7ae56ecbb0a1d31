"""Writes the examples of option types: a call that is compiled as a test of the documentation."""

import re
from dataclasses import dataclass

from tables import ENUMS, SELECTOR_METHODS, VARIANT_NAMES

WIDTH = 110
MODULES = "pilotlight_redis::commands::modules"
# What stands for a parameter of a type; one of another type is a text, by its name where it has a better one.
VALUES = {
    "args": '["a", "b"]',
    "pairs": '[("field", "value")]',
    "triples": '[(13.36, 38.11, "Palermo")]',
    "Number": "0.5",
    "WaitSeconds": "0.5",
    "Seconds": "60",
    "Milliseconds": "500",
    "IdleMilliseconds": "60_000",
    "UnixSeconds": "1_893_456_000",
    "UnixMilliseconds": "1_893_456_000_000_u64",
    "Integer": "10",
    "u64": "0",
    "u16": "7000",
}
# By type and name, where that tells more.
NAMED = {
    "args": {
        "client_ids": "3", "ids": '["1-0", "2-0"]', "weights": "[1, 2]", "paths": '["$.name", "$.born"]',
        "timestamps": "[1_000, 2_000]", "filters": '["city=Paris"]', "prefixs": '"user:"',
    },
    "u16": {"port": "6379"},
    "pairs": {"streams": '[("orders", "0"), ("returns", "0")]'},
    "Number": {"longitude": "13.36", "latitude": "38.11", "radius": "100", "error": "0.01", "epsilon": "0.01"},
    "Integer": {
        "bytes": "4096", "capacity": "10_000", "distance": "2",
        "offset": "0", "start": "0", "db": "1", "bit": "1", "ttl": "0", "start_slot": "0", "end_slot": "100",
    },
    "arg": {
        "start": "-", "end": "+", "min": "0", "max": "100", "id": "1-0", "last_id": "$", "path": "$", "cursor": "0",
        "match_pattern": "user:*", "pattern": "user:*", "by_pattern": "weight:*", "encoding": "u8", "offset": "0",
        "importing": "node", "threshold": "1000", "group": "workers",
        "consumer": "worker-1", "timestamp": "*", "from": "-", "to": "+", "query": "ada", "ifeq_value": "value",
        "max_deleted_id": "1-0",
    },
}  # fmt: skip
# Of commands whose parameters are like no other's.
OWN = {
    ("ZADD", "pairs"): '[(1, "one")]',
    ("FT.CREATE", "fields"): 'Schema::new().text("title", TextField::new())',
    ("MODULE LOADEX", "path"): '"/usr/lib/module.so"',
    ("XADD", "id"): '"*"',
    ("XSETID", "last_id"): '"1-0"',
    ("XAUTOCLAIM", "start"): '"0-0"',
    ("FAILOVER", "to"): '"host"',
    ("ZRANGE", "start"): '"0"',
    ("ZRANGE", "stop"): '"100"',
    ("MIGRATE", "timeout"): "1_000",
    ("JSON.SET", "value"): '"[1, 2]"',
    ("JSON.GET", "indent"): '"  "',
    ("JSON.GET", "newline"): '"\\n"',
}
# Of commands that refuse their first options together or alone, or of which not every server has them.
WAYS = {
    "BF.RESERVE": ("expansion",),
    "BITCOUNT": ("start", "end"),
    "CF.INSERT": ("capacity",),
    "CF.INSERTNX": ("capacity",),
    "CLIENT LIST": ("client_type",),
    "FAILOVER": ("to", "timeout"),
    "XADD": ("nomkstream",),
    "XTRIM": ("approximately", "limit"),
    "ZADD": ("nx", "ch"),
}
MAX_WAYS = 2


@dataclass
class Home:
    """Where option types are, and the trait of the methods that take them."""

    module: str
    trait_module: str
    trait: str


def home_of(module):
    return Home(MODULES, MODULES, module.trait)


CORE = Home("pilotlight_redis::commands::options", "pilotlight_redis", "Commands")


def of_options(typed, kind, home):
    """Of the type of a command's options."""
    return documentation(home, options_call(typed, kind))


def of_selector(typed, home):
    """Of the type of one of a command's parameters."""
    return documentation(home, selector_call(typed))


def of_module(module):
    return documentation(home_of(module), module.calls)


def options_call(typed, kind):
    """The first method that takes the options, with two of them that go together."""
    method = next(method for method in typed.methods if method.takes_options)
    chosen = "".join(f".{way.name}({arguments(way.parameters, typed)})" for way in some(typed))
    return called(method, typed, f"{kind}::new(){chosen}")


def selector_call(typed):
    """The first method of the command."""
    method = typed.methods[0]
    return called(method, typed, f"{typed.builder()}::new()" if method.takes_options else "")


def called(method, typed, options):
    """Lines that call it."""
    given = [parameter for way in method.given for parameter in way.parameters]
    values = [value(parameter, typed) for parameter in typed.model.parameters + given]
    before, last = [], [options] if options else []
    if options and len(call(method, [*values, options])) > WIDTH:
        before, last = [f"let options = {options};"], ["options"]
    line = call(method, [*values, *last])
    if len(line) > WIDTH:
        return [*before, f"client.{method.name()}(", *(f"    {each}," for each in [*values, *last]), ").await?;"]
    return [*before, line]


def call(method, values):
    return f"client.{method.name()}({', '.join(values)}).await?;"


def documentation(home, body):
    lines = [*imports(home, body, ("Client", "Error")), "", "# async fn example(client: Client) -> Result<(), Error> {", *body, "# Ok(()) }"]
    return "\n".join(f"/// {line}".rstrip() for line in ["", "```no_run", *lines, "```"]) + "\n"


TEST_HEAD = """\
//! The examples of option types, for servers.

use std::pin::Pin;

use pilotlight_redis::{Client, Error};

/// What an example does.
pub(super) type Run = fn(Client) -> Pin<Box<dyn Future<Output = Result<(), Error>>>>;

"""


def to_run(examples):
    """A table of examples, given as type, home and lines."""
    rows = []
    for kind, home, body in examples:
        work = "\n".join([*imports(home, body), *body, "Ok(())"])
        rows.append(f'("{kind}", |client| Box::pin(async move {{ {work} }})),\n')
    return f"{TEST_HEAD}/// By type.\npub(super) const EXAMPLES: &[(&str, Run)] = &[{''.join(rows)}];\n"


def imports(home, body, around=()):
    """Of what an example and what stands around it name, and of the trait of its methods."""
    words = {enum for enum, _ in ENUMS.values()}
    names = {"pilotlight_redis": set(around)} if around else {}
    names.setdefault(home.trait_module, set()).add(home.trait)
    for name in re.findall(r"\b([A-Z]\w+)::", "\n".join(body)):
        names.setdefault("pilotlight_redis::commands::words" if name in words else home.module, set()).add(name)
    for module, found in sorted(names.items()):
        listed = ", ".join(sorted(found))
        yield f"use {module}::{listed};" if len(found) == 1 else f"use {module}::{{{listed}}};"


def some(typed):
    """Those that exclude none of the others."""
    if typed.name in WAYS:
        known = {way.name: way for way in typed.options()}
        return [known[name] for name in WAYS[typed.name]]
    found = []
    for way in typed.options():
        slots = {slot for other in found for slot, _ in other.pieces}
        is_apart = not any(first <= slot < end for first, end in way.clears for slot in slots)
        if is_apart and len(found) < MAX_WAYS and not way.refines:
            found.append(way)
    return found


def arguments(parameters, typed):
    return ", ".join(value(parameter, typed) for parameter in parameters)


def value(parameter, typed):
    kind, name = parameter.type, parameter.name
    if (typed.name, name) in OWN:
        return OWN[typed.name, name]
    if kind in VALUES:
        return NAMED.get(kind, {}).get(name, VALUES[kind])
    if kind in typed.model.selectors:
        way = typed.model.selectors[kind][0]
        return f"{kind}::{SELECTOR_METHODS.get(way.name, way.name)}({arguments(way.parameters, typed)})"
    for tokens, (enum, _) in ENUMS.items():
        if kind == enum:
            return f"{enum}::{VARIANT_NAMES.get(tokens[0], tokens[0].capitalize())}"
    return f'"{NAMED["arg"].get(name, name.rstrip("_"))}"'
