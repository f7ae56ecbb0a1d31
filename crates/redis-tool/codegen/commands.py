#!/usr/bin/env python3
"""The table of commands of `pilotlight redis cli`, for servers without COMMAND DOCS: commands.py writes src/cli/commands.txt, commands.py --check says
whether it is what it would write.

One command a line: name, group, since, summary, syntax of its arguments, separated by tabs.
"""

import json
import sys
from pathlib import Path

DATA = Path(__file__).parents[2] / "redis" / "data" / "commands"
TABLE = Path(__file__).parents[1] / "src" / "cli" / "commands.txt"


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
    lines = []
    for name, entry in sorted(commands.items()):
        arguments = " ".join(syntax(arg) for arg in entry.get("arguments", []))
        fields = [name, entry.get("group", ""), entry.get("since", ""), entry.get("summary", ""), arguments]
        lines.append("\t".join(field.replace("\t", " ").replace("\n", " ") for field in fields) + "\n")
    text = "".join(lines)
    if "--check" not in sys.argv:
        TABLE.write_text(text)
    elif TABLE.read_text() != text:
        sys.exit(f"{TABLE} is old: run {__file__}")


if __name__ == "__main__":
    main()
