"""What an exported program's file may make torch evaluate or call, checked before torch reads it.

torch 2.13 writes size expressions with ``sympy.srepr``, earlier ones with ``str``, and reads both
with ``sympy.sympify``, which is ``eval``. It looks functions up by their dotted names in ``torch``,
which reach Python's modules: ``torch.os.system`` (torch/_export/serde/serialize.py,
``_parse_sym_expr`` and ``deserialize_operator``).
"""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The classes of sympy that appear in them; torch's own are found by their name.
_SYMPY = re.compile(
    "Abs|Add|And|Equality|Eq|Float|Ge|GreaterThan|Gt|Integer|ITE|Le|LessThan|Lt|Max|Min|Mod|Mul|Ne|"
    "Not|Or|Piecewise|ExprCondPair|Pow|Rational|StrictGreaterThan|StrictLessThan|Symbol|"
    "Unequality|ceiling|floor|log|sqrt"
)
_STRINGS = {"Symbol": r"[A-Za-z_][A-Za-z0-9_]*", "Float": r"-?[0-9.]{1,40}(e[+-]?[0-9]{1,3})?"}
_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Tuple, ast.Load),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Not, ast.And, ast.Or),
    *(ast.Name, ast.Call, ast.keyword, ast.Constant),
)
_POWERS = {"Pow", "PowByNatural", "FloatPow", "LShift"}
_FUNCTION = re.compile(
    r"torch\.ops\.\w+\.\w+(\.\w+)?|torch\._?sym_\w+|math\.\w+|#\w+:.+"
    r"|_operator\.(?!attrgetter|itemgetter|methodcaller|call\b)\w+"
)
#: Characters of an expression, digits of a number, and the largest exponent: sizes need far less,
#: and a larger power of a power takes all memory.
_LENGTH, _DIGITS, _EXPONENT = 20_000, 20, 64


def check_program(path: Path) -> None:
    """Refuse a program with size expressions or functions that are none.

    Raises:
        ModelSourceError: Names the file and the expression or the function.
        Exception: Whatever the readers raise where the file is damaged.
    """
    for text in _programs(path):
        json.loads(text, object_pairs_hook=lambda pairs: _check_object(pairs, path))


def _programs(path: Path) -> Iterator[bytes]:
    """The programs in a file, as each of torch's two readers sees it."""
    import torch

    with ZipFile(path) as archive:  # torch up to 2.7 wrote these
        if (old := "serialized_exported_program.json") in archive.namelist():
            yield archive.read(old)
        is_new = any(name.partition("/")[2] == "archive_format" for name in archive.namelist())
    if is_new:
        reader: Any = torch._C.PyTorchFileReader(str(path))
        for name in reader.get_all_records():
            if name.startswith("models/"):
                yield reader.get_record(name)


def _check_object(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    """Check one object of the JSON: all its pairs, since a key may stand there twice."""
    for key, value in pairs:
        if key == "expr_str":
            check_size_expression(value, path)
    found = dict(pairs)
    if "inputs" in found:  # a node of the graph; the target of a parameter is its name
        for name in (value for key, value in pairs if key == "target"):
            _check_function(name, path)
    return {}


def _check_function(name: Any, path: Path) -> None:
    if not isinstance(name, str) or not _FUNCTION.fullmatch(name):
        raise ModelSourceError(
            f"'{path}' calls {name!r:.80}, which is no operator of torch",
            hint="export the model again: torch.export.save",
        )


def check_size_expression(text: Any, path: Path) -> None:
    """Refuse what is more than arithmetic on sizes.

    Raises:
        ModelSourceError: Names the file and the expression.
    """
    if not _is_size(text):
        raise ModelSourceError(
            f"'{path}' has the size expression {text!r:.80}, which is more than arithmetic, and "
            "is not evaluated",
            hint="export the model again: torch.export.save",
        )


def _is_size(text: Any) -> bool:
    if not isinstance(text, str) or len(text) > _LENGTH:
        return False
    try:
        tree = ast.parse(text, mode="eval")
        return all(map(_is_arithmetic, ast.walk(tree))) and _powers(tree) < 2
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False


def _is_arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _is_known_call(node)
    if isinstance(node, ast.Constant):
        # Texts stand in calls alone, which look at them.
        return isinstance(node.value, (bool, str, float)) or (
            isinstance(node.value, int) and len(str(node.value)) <= _DIGITS
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _is_small(node.right)
    return isinstance(node, _NODES)


def _is_known_call(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Name) or not _is_known(node.func.id):
        return False
    name = node.func.id
    texts = [part.value for part in node.args if isinstance(part, ast.Constant)]
    wanted = _STRINGS.get(name)
    if any(isinstance(text, str) and not re.fullmatch(wanted or "(?!)", text) for text in texts):
        return False
    if name in _POWERS and not (len(node.args) == 2 and _is_small(node.args[1])):
        return False
    return all(isinstance(each.value, ast.Constant) for each in node.keywords)


def _is_known(name: str) -> bool:
    """True for sympy's arithmetic and for the functions that torch adds to it."""
    import sympy  # type: ignore[import-untyped]  # sympy has no types
    from torch.utils._sympy import functions

    if _SYMPY.fullmatch(name):
        return True
    own = getattr(functions, name, None)
    return isinstance(own, type) and issubclass(own, sympy.Function)


def _is_small(exponent: ast.expr) -> bool:
    """True for a whole number that is no large exponent, or for a quotient of two."""
    numbers = [each.value for each in ast.walk(exponent) if isinstance(each, ast.Constant)]
    names = {each.id for each in ast.walk(exponent) if isinstance(each, ast.Name)}
    small = all(isinstance(each, int) and each <= _EXPONENT for each in numbers)
    kinds = (ast.Constant, ast.UnaryOp, ast.USub, ast.Call, ast.Name, ast.Load)
    plain = all(isinstance(each, kinds) for each in ast.walk(exponent))
    return bool(numbers) and small and plain and names <= {"Integer", "Rational"}


def _powers(node: ast.AST) -> int:
    """The number of powers that stand in each other."""
    inside = max(map(_powers, ast.iter_child_nodes(node)), default=0)
    is_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") in _POWERS
    return inside + (is_call or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)))
