"""Counts the lines of code of a Python file: no blank lines, no comments, no docstrings."""

import ast
import tokenize

NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(path):
    with open(path) as file:
        tree = ast.parse(file.read())
        file.seek(0)
        tokens = [token for token in tokenize.generate_tokens(file.readline) if token.type not in NO_CODE]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)
