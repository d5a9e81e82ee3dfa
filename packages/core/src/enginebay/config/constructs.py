"""What Python's constructs are called, for messages about those that a config may not use."""

from __future__ import annotations

import ast
import re

_NAMES: dict[type[ast.AST], str] = {
    ast.AnnAssign: "an annotated assignment",
    ast.AugAssign: "an augmented assignment",
    ast.BoolOp: "'and' and 'or'",
    ast.DictComp: "this dict comprehension",
    ast.Expr: "an expression without a name",
    ast.For: "a for loop",
    ast.GeneratorExp: "a generator expression",
    ast.IfExp: "a conditional expression",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.ListComp: "this list comprehension",
    ast.NamedExpr: "':='",
    ast.SetComp: "a set comprehension",
    ast.Starred: "an unpacking '*'",
    ast.While: "a while loop",
}


def construct(node: ast.AST) -> str:
    """What the node is, in words.

    Example:
        >>> construct(ast.parse("import os").body[0])
        'an import'
    """
    if type(node) in _NAMES:
        return _NAMES[type(node)]
    if isinstance(node, ast.Constant):
        return f"a literal of type {type(node.value).__name__}"
    if isinstance(node, ast.Call):
        return f"a call of '{ast.unparse(node.func)[:60]}'"
    if isinstance(node, ast.Attribute):
        return f"the attribute '.{node.attr}'"
    words = re.sub("Def$", "Definition", type(node).__name__)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words).lower()
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
