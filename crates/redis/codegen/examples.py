"""Writes the examples of option types: a call that is compiled as a test of the documentation."""

from dataclasses import dataclass

from tables import ENUMS, SELECTOR_METHODS, SELECTORS, VARIANT_NAMES

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
        "client_ids": "[3, 4]", "ids": '["1-0", "2-0"]', "weights": "[1, 2]", "paths": '["$.name", "$.born"]',
        "timestamps": "[1_000, 2_000]", "filters": '["city=Paris"]', "prefixs": '"user:"',
    },
    "u16": {"port": "6379"},
    "pairs": {"streams": '[("orders", "0"), ("returns", "0")]'},
    "Number": {"longitude": "13.36", "latitude": "38.11", "radius": "100", "error": "0.01", "epsilon": "0.01"},
    "Integer": {"offset": "0", "start": "0", "db": "1", "bit": "1", "ttl": "0", "start_slot": "0", "end_slot": "100"},
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
    ("XAUTOCLAIM", "start"): '"0-0"',
    ("FAILOVER", "to"): '"host"',
    ("ZRANGE", "start"): '"0"',
    ("ZRANGE", "stop"): '"100"',
    ("MIGRATE", "timeout"): "1_000",
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


class Imports:
    """What an example names, by the module it is from."""

    def __init__(self, home):
        self.home, self.names = home, {}
        self.take("pilotlight_redis", "Client")
        self.take("pilotlight_redis", "Error")
        self.take(home.trait_module, home.trait)

    def own(self, name):
        return self.take(self.home.module, name)

    def take(self, module, name):
        self.names.setdefault(module, set()).add(name)
        return name

    def lines(self):
        found = []
        for module, names in sorted(self.names.items()):
            listed = ", ".join(sorted(names))
            found.append(f"use {module}::{listed};" if len(names) == 1 else f"use {module}::{{{listed}}};")
        return found


def of_options(typed, kind, home):
    """The first method that takes the options, with two of them that go together."""
    imports = Imports(home)
    method = next(method for method in typed.methods if method.takes_options)
    given = [parameter for way in method.given for parameter in way.parameters]
    values = [value(parameter, typed, imports) for parameter in typed.model.parameters + given]
    chosen = "".join(f".{way.name}({texts(way, typed, imports)})" for way in some(typed.options()))
    options = f"{imports.own(kind)}::new(){chosen}"
    return written(imports, method.name(), values, options)


def of_selector(typed, kind, home):
    """The first method of the command."""
    imports = Imports(home)
    method = typed.methods[0]
    given = [parameter for way in method.given for parameter in way.parameters]
    values = [value(parameter, typed, imports) for parameter in typed.model.parameters + given]
    options = []
    if method.takes_options:
        options = [f"{imports.own(typed.builder())}::new()"]
    return written(imports, method.name(), values, *options)


def of_module(module):
    imports = Imports(home_of(module))
    if any("VectorQuery" in line for line in module.calls):
        imports.own("VectorQuery")
    return documentation(imports, module.calls)


def written(imports, name, values, options=None):
    body, last = [], [options] if options else []
    if options and len(call(name, [*values, options])) > WIDTH:
        body, last = [f"let options = {options};"], ["options"]
    body.append(call(name, [*values, *last]))
    if len(body[-1]) > WIDTH:
        body[-1:] = [f"client.{name}(", *(f"    {each}," for each in [*values, *last]), ").await?;"]
    return documentation(imports, body)


def documentation(imports, body):
    lines = [*imports.lines(), "", "# async fn example(client: Client) -> Result<(), Error> {", *body, "# Ok(()) }"]
    return "\n".join(f"/// {line}".rstrip() for line in ["", "```no_run", *lines, "```"]) + "\n"


def call(name, values):
    return f"client.{name}({', '.join(values)}).await?;"


def some(ways):
    """Those that exclude none of the others."""
    found = []
    for way in ways:
        slots = {slot for other in found for slot, _ in other.pieces}
        is_apart = not any(first <= slot < end for first, end in way.clears for slot in slots)
        if is_apart and len(found) < MAX_WAYS and not way.refines:
            found.append(way)
    return found


def texts(way, typed, imports):
    return ", ".join(value(parameter, typed, imports) for parameter in way.parameters)


def value(parameter, typed, imports):
    kind, name = parameter.type, parameter.name
    own = OWN.get((typed.name, name))
    if own:
        if own.startswith("Schema"):
            imports.own("Schema")
            imports.own("TextField")
        return own
    if kind in VALUES:
        return NAMED.get(kind, {}).get(name, VALUES[kind])
    if any(kind == other for other, _ in SELECTORS.values()):
        return selected(kind, typed, imports)
    for tokens, (enum, _) in ENUMS.items():
        if kind == enum:
            imports.take("pilotlight_redis::commands::words", enum)
            return f"{enum}::{VARIANT_NAMES.get(tokens[0], tokens[0].capitalize())}"
    return f'"{NAMED["arg"].get(name, name.rstrip("_"))}"'


def selected(kind, typed, imports):
    way = typed.model.selectors[kind][0]
    imports.own(kind)
    return f"{kind}::{SELECTOR_METHODS.get(way.name, way.name)}({texts(way, typed, imports)})"
