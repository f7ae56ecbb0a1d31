"""Writes `commands/spec.rs`: the table of command specifications."""

import re

from tables import BLOCKING, CONNECTION_STATE, HARMLESS, KEYS, MOVABLE_KEYS, RUNS_CODE, WHILE_BUSY

FLAGS = ("READONLY", "WRITE", "BLOCKING", "CONNECTION_STATE", "ADMIN", "MOVABLE_KEYS", "WHILE_BUSY", "RUNS_CODE")
# The commands that name sets of key specifications, in this order; others name theirs by themselves.
NAMESAKES = ("GET", "MGET", "MSET", "RENAME", "OBJECT ENCODING", "BLPOP", "EVAL", "ZUNION", "ZUNIONSTORE", "SINTERSTORE")

HEAD = """\
//! The table of commands. Positions count arguments after the name.

use crate::command::CommandSpec;
use crate::command::table::{command, index, keynum, keyword, unless_empty};
use crate::command::{Blocking, Flags, KeySpec, RequestPolicy, ResponsePolicy};
"""


def constant(name):
    return re.sub("[^A-Z0-9]+", "_", name)


def preamble(name):
    return "".join(f"${len(word)}\\r\\n{word}\\r\\n" for word in name.split())


def key_specs(name, command):
    if name in KEYS:
        return KEYS[name]
    if "keys" in command:
        return command["keys"]
    words = len(name.split())
    return [key_spec(spec["begin_search"], spec["find_keys"], words) for spec in command.get("key_specs", [])]


def key_spec(begin, find, words):
    if "range" in find:
        found = find["range"]
        end = f"{found['lastkey']}, {found['step']}, {found['limit']}"
        if "index" in begin:
            return f"index({begin['index']['pos'] - words}, {end})"
        start = begin["keyword"]["startfrom"]
        return f'keyword("{begin["keyword"]["keyword"]}", {start - words if start > 0 else start}, {end})'
    found = find["keynum"]
    return f"keynum({begin['index']['pos'] - words}, {found['keynumidx']}, {found['firstkey']}, {found['step']})"


def flags_of(name, command, subcommands):
    """Of a container: what may be said of all its subcommands, or must be feared of one."""
    if subcommands and name != "COMMAND":
        found = [flags_of(sub, entry, {}) for sub, entry in subcommands.items()]
        shared = set.intersection(*found) & {"READONLY"}
        return shared | (set.union(*found) - {"READONLY", "WHILE_BUSY"})
    flags = set(command.get("command_flags", [])) & set(FLAGS)
    if name in CONNECTION_STATE:
        flags.add("CONNECTION_STATE")
    if name in WHILE_BUSY:
        flags.add("WHILE_BUSY")
    if name in RUNS_CODE:
        flags.add("RUNS_CODE")
    if name in MOVABLE_KEYS:
        flags.add("MOVABLE_KEYS")
    if name in HARMLESS or name.endswith(" HELP"):
        flags.add("READONLY")
    return flags


def keys_of_container(subcommands):
    """A subcommand given as an argument: its keys are one place later."""
    found = {tuple(key_specs(name, entry)) for name, entry in subcommands.items()} - {()}
    return ["index(1, 0, 1, 0)"] if found == {("index(0, 0, 1, 0)",)} else []


def policies(command):
    tips = dict(tip.split(":", 1) for tip in command.get("command_tips", []) if ":" in tip)
    return [camel(tips.get(kind, "DEFAULT")) for kind in ("REQUEST_POLICY", "RESPONSE_POLICY")]


def camel(text):
    return "".join(word.capitalize() for word in text.replace("-", "_").split("_"))


def write(commands):
    subcommands = {}
    for name in commands:
        if " " in name:
            subcommands.setdefault(name.split()[0], {})[name] = commands[name]
    rows, groups = [], {}
    order = [name for name in NAMESAKES if name in commands] + sorted(commands)
    for name in order:
        keys = key_specs(name, commands[name]) or keys_of_container(subcommands.get(name, {}))
        if keys:
            groups.setdefault(tuple(keys), f"LIKE_{constant(name)}")
    for name in sorted(commands):
        rows.append(row(name, commands[name], subcommands.get(name, {}), groups))
    constants = [f"const {title}: &[KeySpec] = &[{', '.join(keys)}];" for keys, title in groups.items()]
    names = ", ".join(f"&{constant(name)}" for name in sorted(commands))
    table = f"/// All of them, sorted by name.\npub static ALL: &[&CommandSpec] = &[{names}];"
    return "\n".join([HEAD, *constants, "", *rows, table])


def needs(command):
    """What a server has to be, or to have, for the command."""
    since = command["since"]
    both = re.fullmatch(r"(\S+) \((Valkey \S+)\)", since)
    server = since if " " in since else f"Redis {since}"
    return command.get("needs") or (f"Redis {both[1]} or {both[2]}" if both else server)


def row(name, command, subcommands, groups):
    keys = tuple(key_specs(name, command) or keys_of_container(subcommands))
    flags = [flag for flag in FLAGS if flag in flags_of(name, command, subcommands)]
    request, response = policies(command)
    parts = [f'command("{name}", b"{preamble(name)}", {len(name.split())}, {command["arity"]}, "{needs(command)}")']
    if flags:
        first, *rest = (f"Flags::{flag}" for flag in flags)
        parts.append(f".flags({first}{''.join(f'.and({flag})' for flag in rest)})")
    if keys:
        parts.append(f".keys({groups[keys]})")
    if (request, response) != ("Default", "Default"):
        parts.append(f".across(RequestPolicy::{request}, ResponsePolicy::{response})")
    if name in BLOCKING:
        parts.append(f".blocking(Blocking::{BLOCKING[name]})")
    what = f"`{name}`, with a subcommand as its first argument." if subcommands and name != "COMMAND" else f"`{name}`."
    return f"/// {what}\npub static {constant(name)}: CommandSpec = {''.join(parts)};"
