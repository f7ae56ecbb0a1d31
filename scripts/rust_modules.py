#!/usr/bin/env python3
"""Finds circles in a crate: modules, and rooms, that need each other, by `use` and by paths.

    scripts/rust_modules.py crates/gateway/src    prints each circle: each member, and the other members that it needs

A room is a top-level module with all modules below it: `foo.rs` and `foo/` are one room. The crate's root is a room,
too. Modules of tests do not count, and neither does a `main.rs` next to a `lib.rs`, which no module can need.
"""
import re
import sys
from pathlib import Path

TESTS = r"^#\[cfg\((?:test|all\(test\b.*\))\)\]\n(?:#\[.*\n)*(?:pub(?:\([^)]*\))? )?mod (\w+)"
TESTS_IN_A_FILE = re.compile(TESTS + ";", re.MULTILINE)
TESTS_INLINE = re.compile(TESTS + r" \{", re.MULTILINE)
COMMENT = re.compile(r"//.*")
VISIBILITY = re.compile(r"\bpub\(in [^)]*\)")
USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
PATH = re.compile(r"(?<![\w:])([a-z_]\w*(?:::\w+)+)")


def modules(src):
    """Returns the text of each module, by its path."""
    texts = {}
    for file in sorted(src.rglob("*.rs")):
        parts = file.relative_to(src).with_suffix("").parts
        texts[parts[:-1] if parts[-1] in ("lib", "main", "mod") else parts] = file.read_text()
    if (src / "lib.rs").exists():
        texts[()] = (src / "lib.rs").read_text()
    tests = {(*module, name) for module, text in texts.items() for name in TESTS_IN_A_FILE.findall(text)}
    return {module: text for module, text in texts.items() if not any(module[: len(test)] == test for test in tests)}


def split(items):
    """The members of a list in braces, which may have braces themselves."""
    depth, item = 0, ""
    for char in items:
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            yield item
            item = ""
        else:
            item += char
    yield item


def expand(tree, prefix=()):
    """The paths of a tree of `use`."""
    tree = tree.strip()
    if found := re.match(r"^((?:\w+::)*)\{(.*)\}$", tree, re.DOTALL):
        inner = (*prefix, *found[1].split("::")[:-1])
        for item in split(found[2]):
            if item.strip():
                yield from expand(item, inner)
    else:
        yield (*prefix, *(part.strip() for part in tree.split(" as ")[0].split("::")))


def paths(text):
    text = VISIBILITY.sub("", COMMENT.sub("", TESTS_INLINE.split(text)[0]))
    for found in USE.finditer(text):
        yield from expand(found[1])
    for found in PATH.finditer(USE.sub("", text)):
        yield tuple(found[1].split("::"))


def graph(src):
    """Returns the modules that each module needs."""
    all_of_them = modules(src)
    needs = {module: set() for module in all_of_them}
    for module, text in all_of_them.items():
        for path in paths(text):
            base = list(module)
            if path[0] == "crate":
                base, path = [], path[1:]
            elif path[0] in ("super", "self"):
                while path and path[0] in ("super", "self"):
                    base = base[:-1] if path[0] == "super" else base
                    path = path[1:]
            elif (*module, path[0]) not in all_of_them:
                continue
            target = (*base, *path)
            while target not in all_of_them and target:
                target = target[:-1]
            if target != module and target in all_of_them:
                needs[module].add(target)
    return needs


def rooms(needs):
    """Merges the modules of each room."""
    merged = {}
    for module, others in needs.items():
        merged.setdefault(module[:1], set()).update(other[:1] for other in others)
    return merged


def circles(needs):
    """Returns the groups of modules that all need each other (Tarjan's strongly connected components)."""
    sys.setrecursionlimit(10_000)
    index, low, stack, found = {}, {}, [], []

    def visit(module):
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in needs[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                found.append(component)

    for module in needs:
        if module not in index:
            visit(module)
    return found


def name(module):
    return "::".join(module) or "(root)"


def main():
    needs = graph(Path(sys.argv[1]))
    for kind, graph_of_kind in (("modules", needs), ("rooms", rooms(needs))):
        for circle in circles(graph_of_kind):
            print(f"a circle of {len(circle)} {kind}")
            for module in sorted(circle):
                others = sorted(graph_of_kind[module] & set(circle) - {module})
                print(f"    {name(module)} → {', '.join(map(name, others))}")


if __name__ == "__main__":
    main()
