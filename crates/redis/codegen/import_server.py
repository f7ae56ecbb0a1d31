#!/usr/bin/env python3
"""Adds what a running server knows beyond data/commands/valkey.json to it: import_server.py PORT > NEW

Takes new commands, and arguments and arities that have changed, from `COMMAND` and `COMMAND DOCS`. A server does not
describe its replies there: what is known of those stays. Only for servers whose licence allows a copy of their texts.
"""

import json
import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "data" / "commands"
FLAGS = ("optional", "multiple", "multiple_token")


def main():
    port = sys.argv[1]
    known = json.loads((DATA / "valkey.json").read_text())
    elsewhere = json.loads((DATA / "supplement.json").read_text()).keys()
    docs = by_name(ask(port, "COMMAND", "DOCS").items(), lambda entry: entry.get("subcommands", {}).items())
    facts = by_name(((row[0], row) for row in ask(port, "COMMAND")), lambda row: ((sub[0], sub) for sub in row[9]))
    for name, row in facts.items():
        if "module" not in row[2] and name not in elsewhere:
            known[name] = merged(name, known.get(name), row, docs[name])
    lines = [f"{json.dumps(name)}: {json.dumps(known[name], separators=(',', ':'))}" for name in sorted(known)]
    print("{\n" + ",\n".join(lines) + "\n}")


def ask(port, *words):
    command = ["redis-cli", "-3", "--json", "-p", port, *words]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def by_name(entries, subcommands):
    found = {}
    for name, entry in entries:
        found[name.upper().replace("|", " ")] = entry
        found.update(by_name(subcommands(entry), lambda _: ()))
    return found


def merged(name, known, row, docs):
    # A server tells all words in capitals.
    cases = {token.upper(): token for token in tokens((known or {}).get("arguments", []))}
    arguments = [argument_of(argument, cases) for argument in docs.get("arguments", [])]
    if not known:
        return new(name, row, docs) | ({"arguments": arguments} if arguments else {})
    changed = {"arity": row[1]} if known["arity"] != row[1] else {}
    if words(arguments) != words(known.get("arguments", [])):
        changed["arguments"] = arguments
    return known | changed


def new(name, row, docs):
    found = {field: docs[field] for field in ("summary", "complexity", "group", "since") if field in docs}
    if " " in name:
        found["container"] = name.split()[0]
    found |= {"arity": row[1], "command_flags": sorted(flag.upper() for flag in row[2] if flag != "movablekeys")}
    if row[7]:
        found["command_tips"] = [tip.upper() for tip in row[7]]
    if row[8]:
        found["key_specs"] = [key_spec_of(spec) for spec in row[8]]
    return found


def argument_of(argument, cases):
    fields = ("name", "type", "token", "since", "key_spec_index")
    found = {field: argument[field] for field in fields if field in argument}
    found |= {flag: True for flag in FLAGS if flag in argument.get("flags", [])}
    if "arguments" in argument:
        found["arguments"] = [argument_of(part, cases) for part in argument["arguments"]]
    if "token" in found:
        found["token"] = cases.get(found["token"], found["token"])
    return found


def tokens(arguments):
    for argument in arguments:
        yield from [argument["token"]] if "token" in argument else []
        yield from tokens(argument.get("arguments", []))


def key_spec_of(spec):
    begin, find = spec["begin_search"], spec["find_keys"]
    found = {"flags": [flag.upper() for flag in spec["flags"]]}
    at = begin["spec"]
    found["begin_search"] = {"index": {"pos": at["index"]}} if begin["type"] == "index" else {"keyword": at}
    if find["type"] == "range":
        step = {"lastkey": find["spec"]["lastkey"], "step": find["spec"]["keystep"], "limit": find["spec"]["limit"]}
        return found | {"find_keys": {"range": step}}
    at = find["spec"]
    number = {"keynumidx": at["keynumidx"], "firstkey": at["firstkey"], "step": at["keystep"]}
    return found | {"find_keys": {"keynum": number}}


def words(arguments):
    """What a caller sees of arguments: their words, and what may be left out or repeated."""
    return [
        (it.get("token", "").upper(), it.get("optional"), it.get("multiple"), words(it.get("arguments", [])))
        for it in arguments
    ]


if __name__ == "__main__":
    main()
