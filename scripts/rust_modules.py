"""Circles among the modules of a crate: modules that need each other, by `use` and by paths."""
import re
import sys

USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
PATH = re.compile(r"\b((?:crate|super)(?:::\w+)+)")


def modules(src):
    """Files by the path of their module."""
    found = {}
    for file in src.rglob("*.rs"):
        parts = file.relative_to(src).with_suffix("").parts
        found[parts[:-1] if parts[-1] in ("lib", "main", "mod") else parts] = file
    return found


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
    text = re.sub(r"//.*", "", text.partition("\n#[cfg(test)]\nmod tests")[0])
    for found in USE.finditer(text):
        yield from expand(found[1])
    for found in PATH.finditer(USE.sub("", text)):
        yield tuple(found[1].split("::"))


def graph(src):
    """Which modules each module needs."""
    all_of_them = modules(src)
    needs = {module: set() for module in all_of_them}
    for module, file in all_of_them.items():
        for path in paths(file.read_text()):
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


def circles(src):
    """Sets of modules of which each needs all others (Tarjan's strongly connected components)."""
    needs = graph(src)
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
