#!/usr/bin/env python3
"""Merges a server's command files into one: import_commands.py SRC/COMMANDS > data/commands/valkey.json

Keeps what the generator reads; one command a line, sorted, so that an update shows as a small difference.
"""

import json
import sys
from pathlib import Path

NOT_USED = {"function", "get_keys_function", "acl_categories", "history"}


def main():
    commands = {}
    for path in sorted(Path(sys.argv[1]).glob("*.json")):
        for word, entry in json.loads(path.read_text()).items():
            name = f"{entry['container']} {word}" if "container" in entry else word
            commands[name] = {field: value for field, value in entry.items() if field not in NOT_USED}
    lines = [f"{json.dumps(name)}: {json.dumps(commands[name], separators=(',', ':'))}" for name in sorted(commands)]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
