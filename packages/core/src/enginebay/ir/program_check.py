"""Security check of an exported program's file, before torch reads it.

torch evaluates the size expressions in the file with ``sympy.sympify``, which calls ``eval``. It
also looks up functions by their dotted names, and ``torch.os.system`` is such a name
(torch/_export/serde/serialize.py, ``_parse_sym_expr`` and ``deserialize_operator``). This
check therefore allows only arithmetic in size expressions, and only operators as functions.
"""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING
from zipfile import ZipFile

from enginebay import torch_private
from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: sympy's classes that torch 2.13 writes (by ``sympy.srepr``; earlier versions wrote ``str``).
_SYMPY_CLASSES = re.compile(
    "Abs|Add|And|Equality|Eq|Float|Ge|GreaterThan|Gt|Integer|ITE|Le|LessThan|Lt|Max|Min|Mod|Mul|Ne|"
    "Not|Or|Piecewise|ExprCondPair|Pow|Rational|StrictGreaterThan|StrictLessThan|Symbol|"
    "Unequality|ceiling|floor|log|sqrt"
)
#: Class → pattern of the strings that it accepts.
_STRING_ARGUMENTS = {
    "Symbol": r"[A-Za-z_][A-Za-z0-9_]*",
    "Float": r"-?[0-9.]{1,40}(e[+-]?[0-9]{1,3})?",
}
_SYNTAX_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Tuple, ast.Load),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Not, ast.And, ast.Or),
    *(ast.Name, ast.Call, ast.keyword, ast.Constant),
)
_POWER_FUNCTIONS = {"Pow", "PowByNatural", "FloatPow", "LShift"}
_OPERATOR_NAME = re.compile(
    r"torch\.ops\.\w+\.\w+(\.\w+)?|torch\._?sym_\w+|math\.\w+|#\w+:.+"
    r"|_operator\.(?!attrgetter|itemgetter|methodcaller|call\b)\w+"
)
#: Limits that no real size expression reaches: a power of a large power would take all memory.
_MAX_CHARACTERS, _MAX_DIGITS, _MAX_EXPONENT = 20_000, 20, 64


def check_program(path: Path) -> None:
    """Refuse an exported program whose size expressions or function names could run any code.

    Raises:
        ModelSourceError: The program contains such an expression or name; the message shows it.
        Exception: The file is damaged. torch and ``zipfile`` raise many types of exceptions.
    """
    for text in _read_programs(path):
        json.loads(text, object_pairs_hook=lambda pairs: _check_object(pairs, path))


def find_torch_version(path: Path) -> str:
    """Return the version of torch that wrote an exported program; "unknown" if it has none."""
    found = (re.search(rb'"torch_version": "([^"]{1,40})"', text) for text in _read_programs(path))
    return next((match[1].decode() for match in found if match), "unknown")


def _read_programs(path: Path) -> Iterator[bytes]:
    """Yield the JSON documents that torch would read from a file in the old or the new format."""
    import torch

    with ZipFile(path) as archive:  # torch up to 2.7 wrote these
        if (old := "serialized_exported_program.json") in archive.namelist():
            yield archive.read(old)
        is_new = any(name.partition("/")[2] == "archive_format" for name in archive.namelist())
    if is_new:
        reader = torch.PyTorchFileReader(str(path))
        for name in reader.get_all_records():
            if name.startswith("models/"):
                yield reader.get_record(name)


def _check_object(pairs: list[tuple[str, object]], path: Path) -> dict[str, object]:
    # Pairs, not a dict: JSON allows a key twice, and torch may read the other value.
    for key, value in pairs:
        if key == "expr_str":
            check_size_expression(value, path)
    if any(key == "inputs" for key, _ in pairs):  # a graph node; parameters have a "target" too
        for name in (value for key, value in pairs if key == "target"):
            _check_function(name, path)
    return {}


def _check_function(name: object, path: Path) -> None:
    if not isinstance(name, str) or not _OPERATOR_NAME.fullmatch(name):
        raise ModelSourceError(
            f"'{path}' calls {name!r:.80}, which is not an operator of torch",
            hint="export the model again: torch.export.save",
        )


def check_size_expression(text: object, path: Path) -> None:
    """Refuse an expression that contains more than arithmetic on sizes.

    Raises:
        ModelSourceError: The expression contains more; the message shows file and expression.
    """
    if not _is_size_expression(text):
        raise ModelSourceError(
            f"'{path}': the size expression {text!r:.80} contains more than arithmetic, "
            "so it is not evaluated",
            hint="export the model again: torch.export.save",
        )


def _is_size_expression(text: object) -> bool:
    if not isinstance(text, str) or len(text) > _MAX_CHARACTERS:
        return False
    try:
        tree = ast.parse(text, mode="eval")
        return all(map(_is_arithmetic, ast.walk(tree))) and _count_nested_powers(tree) < 2
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False


def _is_arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return _is_known_call(node)
    if isinstance(node, ast.Constant):
        # Strings occur only as arguments; _is_known_call() checks them.
        return isinstance(node.value, (bool, str, float)) or (
            isinstance(node.value, int) and len(str(node.value)) <= _MAX_DIGITS
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _is_small_exponent(node.right)
    return isinstance(node, _SYNTAX_NODES)


def _is_known_call(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Name) or not _is_known_function(node.func.id):
        return False
    name = node.func.id
    values = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    pattern = _STRING_ARGUMENTS.get(name, "(?!)")  # matches nothing
    if any(isinstance(value, str) and not re.fullmatch(pattern, value) for value in values):
        return False
    if name in _POWER_FUNCTIONS and not (len(node.args) == 2 and _is_small_exponent(node.args[1])):
        return False
    return all(isinstance(keyword.value, ast.Constant) for keyword in node.keywords)


def _is_known_function(name: str) -> bool:
    """Return True for the name of an arithmetic class of sympy or a sympy function of torch."""
    import sympy  # type: ignore[import-untyped]  # sympy has no types

    if _SYMPY_CLASSES.fullmatch(name):
        return True
    torch_class = getattr(torch_private.size_functions(), name, None)
    return isinstance(torch_class, type) and issubclass(torch_class, sympy.Function)


def _is_small_exponent(exponent: ast.expr) -> bool:
    """Return True for a small integer, or a quotient of two small integers."""
    nodes = list(ast.walk(exponent))
    numbers = [node.value for node in nodes if isinstance(node, ast.Constant)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    are_small = all(isinstance(number, int) and number <= _MAX_EXPONENT for number in numbers)
    literal_types = (ast.Constant, ast.UnaryOp, ast.USub, ast.Call, ast.Name, ast.Load)
    is_literal = all(isinstance(node, literal_types) for node in nodes)
    return bool(numbers) and are_small and is_literal and names <= {"Integer", "Rational"}


def _count_nested_powers(node: ast.AST) -> int:
    """Return the nesting depth of powers, such as 2 for ``(x**8)**8``."""
    inside = max(map(_count_nested_powers, ast.iter_child_nodes(node)), default=0)
    is_call = isinstance(node, ast.Call) and getattr(node.func, "id", "") in _POWER_FUNCTIONS
    return inside + (is_call or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)))
