"""Finds a test in the sources by the name that scripts/test.py prints, without running its suite."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "tests" / "page"
END_TO_END = ROOT / "tests" / "e2e"
TITLE = re.compile(r"""\btest\(\s*(?:'((?:[^'\\\n]|\\.)+)'|"((?:[^"\\\n]|\\.)+)"|`((?:[^`\\]|\\.)+)`)""")
EXPRESSION = re.compile(r"\$\{[^}]*\}")


def of_pytest(name):
    """`test_file.Class test_name`: the test is the class's own or of a base class, or the file adds it to the class."""
    file, own, test = re.match(r"(\w+)(?:\.(\w+))? (\w+)", name).groups()
    if own is None:
        return test in functions(tree(file).body)
    return test in methods(file, own) or any(added.fullmatch(test) for added in added_methods(file, own))


@cache
def tree(file):
    source = END_TO_END / f"{file}.py"
    return ast.parse(source.read_text() if source.exists() else "")


def functions(body):
    return {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


@cache
def methods(file, own):
    """Returns the names of a class's methods, with those of its base classes."""
    for node in tree(file).body:
        if isinstance(node, ast.ClassDef) and node.name == own:
            bases = [base for base in node.bases if isinstance(base, (ast.Name, ast.Attribute))]
            places = [(file, base.id) if isinstance(base, ast.Name) else (base.value.id, base.attr) for base in bases]
            return functions(node.body).union(*(methods(*place) for place in places))
        if isinstance(node, ast.ImportFrom):
            for imported in node.names:
                if own == (imported.asname or imported.name):
                    return methods(node.module, imported.name)
    return set()


@cache
def added_methods(file, own):
    """Returns patterns of the tests that the file adds by `setattr(Class, …)`: its f-strings that begin with `test_`."""
    nodes = list(ast.walk(tree(file)))
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name)]
    if not any(call.func.id == "setattr" and ast.unparse(call.args[0]) == own for call in calls):
        return []
    texts = [node.values for node in nodes if isinstance(node, ast.JoinedStr)]
    patterns = ["".join(part.value if isinstance(part, ast.Constant) else ".+" for part in text) for text in texts]
    return [re.compile(pattern) for pattern in patterns if pattern.startswith("test_")]


def of_rust(name):
    """`package path` is a unit test, `package::program path` a test of tests/program, `package::bin/program path` a
    binary's. The last part of the path is a function, or a name of which a macro makes one; the parts before it are
    files, folders, or modules inside a file.
    """
    binary, path = name.split(" ", 1)
    package, _, program = binary.partition("::")
    if package not in packages():
        return False
    is_in_src = not program or program.startswith("bin/")
    root = packages()[package] / ("src" if is_in_src else f"tests/{program}")
    *modules, test = path.split("::")
    places = [(file, modules[depth:]) for depth in range(len(modules) + 1) for file in files(root, modules[:depth])]
    return any(is_inside(file, inner, test) for file, inner in places)


@cache
def packages():
    """Returns the folders of the workspace's packages, by name."""
    members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    manifests = [file for member in members for file in ROOT.glob(f"{member}/Cargo.toml")]
    return {tomllib.loads(file.read_text())["package"]["name"]: file.parent for file in manifests}


def files(root, module):
    """Returns the files that a module may be."""
    if not module:
        return root / "lib.rs", root / "main.rs", root.with_suffix(".rs")
    return root.joinpath(*module).with_suffix(".rs"), root.joinpath(*module) / "mod.rs"


def is_inside(file, modules, test):
    words = [rf"\bmod {name}\b" for name in modules] + [rf"\bfn {test}\b|^\s*{test}:"]
    return all(re.search(word, code(file), re.MULTILINE) for word in words)


@cache
def code(file):
    return re.sub(r"//.*", "", file.read_text()) if file.exists() else ""


def of_node(name):
    """A title, or a template's constant parts with something between them."""
    return any(title.fullmatch(name) for title in titles())


@cache
def titles():
    found = [match for file in sorted(PAGES.glob("*.mjs")) for match in TITLE.finditer(file.read_text())]
    constant = [re.escape(re.sub(r"\\(.)", r"\1", match[1] or match[2])) for match in found if not match[3]]
    templates = [".+".join(map(re.escape, EXPRESSION.split(match[3]))) for match in found if match[3]]
    return [re.compile(title) for title in constant + templates]


OF_SUITE = {"end to end": of_pytest, "rust": of_rust, "pages in a browser": of_node}


def exists(suite, name):
    """Returns whether the sources have a test of this name; a suite that is not in `OF_SUITE` has none."""
    return suite in OF_SUITE and bool(OF_SUITE[suite](name))
