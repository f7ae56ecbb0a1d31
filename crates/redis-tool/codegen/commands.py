#!/usr/bin/env python3
"""The table of commands of `pilotlight redis cli`, for servers without COMMAND DOCS: commands.py > src/cli/commands.txt

One command a line: name, group, since, summary, syntax of its arguments, separated by tabs.
"""

import json
from pathlib import Path

DATA = Path(__file__).parents[2] / "redis" / "data" / "commands"


def syntax(arg):
    token = arg.get("token")
    inner = [syntax(one) for one in arg.get("arguments", [])]
    if arg["type"] == "pure-token":
        text, token = token or arg["name"].upper(), None
    elif arg["type"] == "oneof":
        text = "|".join(inner)
        if " " in text and (token or not arg.get("optional") or arg.get("multiple")):
            text = f"<{text}>"
    elif arg["type"] == "block":
        text = " ".join(inner)
    else:
        text = arg.get("display", arg["name"])
    prefix = f"{token} " if token else ""
    if arg.get("multiple"):
        again = prefix if arg.get("multiple_token") else ""
        text = f"{prefix}{text} [{again}{text} ...]"
    else:
        text = prefix + text
    return f"[{text}]" if arg.get("optional") else text


def main():
    commands = {}
    for file in ["valkey.json", "supplement.json"]:
        for name, entry in json.loads((DATA / file).read_text()).items():
            commands[name] = {**commands.get(name, {}), **entry}
    for name, entry in sorted(commands.items()):
        arguments = " ".join(syntax(arg) for arg in entry.get("arguments", []))
        fields = [name, entry.get("group", ""), entry.get("since", ""), entry.get("summary", ""), arguments]
        print("\t".join(field.replace("\t", " ").replace("\n", " ") for field in fields))


if __name__ == "__main__":
    main()
