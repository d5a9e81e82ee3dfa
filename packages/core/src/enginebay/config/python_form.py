"""Configs written as Python, evaluated without executing code.

The reader evaluates the following forms of expressions. Any other form is an error with a location.
The reader imports and calls nothing, and looks up only names that the file assigns::

    name = value                        also several names: a = b = 1
    1, 1.5, "text", True, None          f"{name}" with a name, a number or arithmetic
    [a, b]  (a, b)  {"key": a}          {**a, "key": b}
    dict(key=a)  dict(a, **b)           range(3)  list(range(3))  tuple([1])
    1 << 30  -1  2 * name               "a" + "b"  [0] * 3
    [a for name in b]                   {name: a for name in b}
    name                                assigned in an earlier line
    _base_.name.key                     a value of the bases
    {{_base_.name.key}}                 the same; also the other templates
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

from enginebay.config.arithmetic import apply_binary, apply_unary
from enginebay.config.limits import MAX_DEPTH
from enginebay.config.locations import LocatedDict, Location, error_at
from enginebay.config.templates import IN_F_STRING, TEMPLATE, Templates
from enginebay.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from enginebay.config.limits import Budget

BASE = "_base_"
_SCALAR = str | int | float | None
_CALLS = ("dict", "range", "list", "tuple")
_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
# Two digits of width and precision at most: f"{1:999999999}" would be a text of one gigabyte.
_FORMAT = re.compile(r"[<>^]?[+ ]?0?[0-9]{0,2}(\.[0-9]{1,2})?[dxofegs%]?")


class PythonConfig:
    """A parsed ``.py`` config.

    Args:
        text: The file's text.
        path: The path of the file.
        environment: The environment variables that templates may read; None to allow none.
        budget: The limits on the size of the config.
    """

    def __init__(
        self, text: str, path: Path, environment: Mapping[str, str] | None, budget: Budget
    ) -> None:
        self._path = str(path)
        self._lines = text.encode().split(b"\n")
        self._is_ascii = text.isascii()
        self._tree = _parse_python(text, self._path)
        self._budget = budget
        self._templates = Templates(path, environment)
        self._scopes: list[dict[str, Any]] = [{}]  # the file's names, then the loops' names
        self._used: set[str] = set()
        self._depth = 0  # of the expression that is being evaluated

    @property
    def variables(self) -> frozenset[str]:
        """The names that the file uses as variables, not as sections."""
        return frozenset(self._used | self._templates.used)

    def read_bases(self) -> tuple[object, Location | None]:
        """Return the value and the location of ``_base_``; both are None without ``_base_``."""
        nodes = [node for node in self._tree.body if _assigns_base(node)]
        if not nodes:
            return None, None
        if len(nodes) > 1:
            raise error_at(self._location_of(nodes[1]), f"'{BASE}' is assigned a second time")
        assert isinstance(nodes[0], ast.Assign)
        return self.read_value(nodes[0].value), self._location_of(nodes[0].value)

    def read_contents(self, base: LocatedDict) -> LocatedDict:
        """Return the values that the file assigns, by name.

        Args:
            base: The merged contents of the files that this file inherits from.
        """
        self._templates.base = base
        result = LocatedDict()
        for node in self._tree.body:
            match node:
                case ast.Expr(ast.Constant(str())):
                    pass  # a docstring
                case ast.Assign():
                    if not _assigns_base(node):
                        self._assign_value(node, result)
                case _:
                    raise self._unsupported(node)
        return result

    def _assign_value(self, node: ast.Assign, result: LocatedDict) -> None:
        value = self.read_value(node.value)
        self._budget.check_all(value, self._location_of(node.value))
        for target in node.targets:
            if not isinstance(target, ast.Name):
                raise self._unsupported(target, "values can only be assigned to names")
            if target.id in _CALLS:
                raise self._unsupported(target, f"'{target.id}' is the name of a function")
            self._scopes[0][target.id] = value
            if not target.id.startswith("__"):
                result[target.id] = value
                result.locations[target.id] = self._location_of(target)

    def read_value(self, node: ast.expr) -> Any:
        """Evaluate an expression, and return the value.

        Raises:
            ConfigError: Configs do not support this form of expression, or it exceeds a limit.
        """
        self._depth += 1
        if self._depth > 2 * MAX_DEPTH:
            message = f"expressions are nested more than {2 * MAX_DEPTH} levels deep"
            raise error_at(self._location_of(node), message)
        try:
            self._budget.spend("values")
            value = self._evaluate_node(node)
        except ValueError as err:
            raise error_at(
                self._location_of(node), f"'{self._source_text(node)[:60]}': {err}"
            ) from err
        self._depth -= 1
        return value

    def _evaluate_node(self, node: ast.expr) -> object:
        """Return the value of an expression; the caller adds the location to a ValueError."""
        match node:
            case ast.Constant():
                return self._read_constant(node)
            case ast.Dict(keys, values):
                return self._read_table(zip(keys, values, strict=True))
            case ast.List(items):
                return [self.read_value(item) for item in items]
            case ast.Tuple(items):
                return tuple(self.read_value(item) for item in items)
            case ast.Name():
                return self._look_up_name(node)
            case ast.Attribute():
                return self._read_attribute(node)
            case ast.Call(ast.Name("dict")):
                return self._read_dict_call(node)
            case ast.Call(ast.Name("range" | "list" | "tuple" as name)):
                return self._read_sequence_call(node, name)
            case ast.ListComp():
                return [self.read_value(node.elt) for _ in self._run_loop(node)]
            case ast.DictComp():
                return self._read_table((node.key, node.value) for _ in self._run_loop(node))
            case ast.JoinedStr(pieces):
                text = "".join(map(self._format_piece, pieces))
                self._budget.spend("characters", len(text))
                return text
            case ast.BinOp(left, operation, right):
                return apply_binary(
                    operation, self.read_value(left), self.read_value(right), self._budget
                )
            case ast.UnaryOp(operation, operand):
                return apply_unary(operation, self.read_value(operand))
            case ast.Set([ast.Set()]) if template := TEMPLATE.fullmatch(self._source_text(node)):
                return self._templates.evaluate(template, self._location_of(node))
        raise self._unsupported(node)

    def _read_constant(self, node: ast.Constant) -> object:
        value = node.value
        if isinstance(value, str):
            return self._templates.fill(value, self._location_of(node)) if "{{" in value else value
        if isinstance(value, _SCALAR):
            return value
        raise self._unsupported(node)

    def _look_up_name(self, node: ast.Name) -> object:
        for scope in reversed(self._scopes):
            if node.id in scope:
                if scope is self._scopes[0]:
                    self._used.add(node.id)
                return scope[node.id]
        hint = did_you_mean(node.id, self._scopes[0]) or "put the name in quotes if it is a text"
        raise error_at(self._location_of(node), f"'{node.id}' is not defined here", hint=hint)

    def _read_attribute(self, node: ast.Attribute) -> object:
        keys: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            keys, inner = [inner.attr, *keys], inner.value
        if isinstance(inner, ast.Name) and inner.id == BASE:
            return self._templates.look_up(keys, self._location_of(node))
        raise self._unsupported(node, f"only '{BASE}' has attributes")

    def _read_table(
        self, pairs: Iterable[tuple[ast.expr | ast.keyword | None, ast.expr]]
    ) -> LocatedDict:
        """Evaluate the entries of a dict; an entry without a key (``**other``) is unpacked."""
        table = LocatedDict()
        for key_node, node in pairs:
            if key_node is None:
                self._unpack_dict(table, node)
            else:
                key = self._read_key(key_node)
                table[key] = self.read_value(node)
                table.locations[key] = self._location_of(key_node)
        return table

    def _read_key(self, node: ast.expr | ast.keyword) -> object:
        key = node.arg if isinstance(node, ast.keyword) else self.read_value(node)
        if isinstance(key, _SCALAR):
            return key
        raise error_at(self._location_of(node), f"a {type(key).__name__} cannot be a key")

    def _unpack_dict(self, table: LocatedDict, node: ast.expr) -> None:
        value = self.read_value(node)
        if not isinstance(value, LocatedDict):
            kind = type(value).__name__
            raise error_at(self._location_of(node), f"expected a dict to unpack, found {kind}")
        self._budget.spend("values", len(value))
        table.update(value)
        table.locations.update(value.locations)

    def _read_dict_call(self, node: ast.Call) -> LocatedDict:
        if len(node.args) > 1:
            raise self._unsupported(node, "dict() takes one dict and keywords")
        keywords = [(word if word.arg else None, word.value) for word in node.keywords]
        return self._read_table([*((None, argument) for argument in node.args), *keywords])

    def _read_sequence_call(self, node: ast.Call, name: str) -> object:
        if node.keywords:
            raise self._unsupported(node, f"{name}() takes no keywords")
        arguments = [self.read_value(argument) for argument in node.args]
        if name == "range":
            if not 1 <= len(arguments) <= 3 or not all(isinstance(n, int) for n in arguments):
                raise self._unsupported(node, "range() takes one to three integers")
            return self._make_range(arguments)
        if len(arguments) > 1 or not all(isinstance(a, list | tuple | range) for a in arguments):
            raise self._unsupported(node, f"{name}() takes one list, tuple or range")
        items = arguments[0] if arguments else ()
        self._budget.spend("values", len(items))
        return list(items) if name == "list" else tuple(items)

    def _make_range(self, arguments: list[int]) -> range:
        numbers = range(*arguments)
        try:
            count = len(numbers)
        # len() cannot count beyond sys.maxsize.
        except OverflowError:
            count = sys.maxsize
        self._budget.spend("values", count)
        return numbers

    def _run_loop(self, node: ast.ListComp | ast.DictComp) -> Iterator[None]:
        """Yield once for each item of a comprehension, with the loop variable set to the item."""
        loop = node.generators[0]
        simple = len(node.generators) == 1 and not loop.ifs and not loop.is_async
        if not simple or not isinstance(loop.target, ast.Name):
            raise self._unsupported(node, "only one 'for NAME in …' without 'if' is supported")
        # Evaluated outside the loop's scope, as Python does.
        items = self.read_value(loop.iter)
        if not isinstance(items, list | tuple | range | dict):
            raise error_at(
                self._location_of(loop.iter), f"cannot loop over a {type(items).__name__}"
            )
        self._scopes.append({})
        for item in items:
            self._scopes[-1][loop.target.id] = item
            yield
        self._scopes.pop()

    def _format_piece(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(self._templates.fill(str(node.value), self._location_of(node), IN_F_STRING))
        assert isinstance(node, ast.FormattedValue)
        value = self.read_value(node.value)
        if not isinstance(value, _SCALAR):
            kind = type(value).__name__
            raise ValueError(f"expected texts and numbers in an f-string, found {kind}")  # noqa: TRY004  # the caller adds the location
        spec_node, spec = node.format_spec, ""
        if isinstance(spec_node, ast.JoinedStr):
            spec = "".join(map(self._format_piece, spec_node.values))
        if not _FORMAT.fullmatch(spec):
            raise ValueError(f"unsupported format '{spec[:60]}': expected a format such as 03d")
        convert = _CONVERSIONS.get(node.conversion)
        try:
            return format(convert(value) if convert else value, spec)
        except (TypeError, OverflowError) as err:
            raise ValueError(f"the format '{spec}' cannot be applied: {err}") from err

    def _unsupported(self, node: ast.expr | ast.stmt, why: str = "") -> ConfigError:
        reason = f": {why}" if why else ""
        message = f"a config cannot use '{self._source_text(node)[:60]}'{reason}"
        hint = "configs are not executed; write literals, dict(…), or names assigned before"
        return error_at(self._location_of(node), message, hint=hint)

    def _source_text(self, node: ast.expr | ast.stmt) -> str:
        """Return the first line of the source text of a node."""
        line = self._source_line(node)
        end = node.end_col_offset if node.end_lineno == node.lineno else len(line)
        return line[node.col_offset : end].decode(errors="ignore")

    def _location_of(self, node: ast.expr | ast.stmt | ast.keyword) -> Location:
        column = node.col_offset
        if not self._is_ascii:  # ast counts columns in bytes
            column = len(self._source_line(node)[:column].decode(errors="ignore"))
        return Location(self._path, node.lineno, column + 1)

    def _source_line(self, node: ast.expr | ast.stmt | ast.keyword) -> bytes:
        return self._lines[node.lineno - 1]


def _parse_python(text: str, path: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes and literals, which are harmless here
            # filename: Python reads the line of a syntax error from this file.
            return ast.parse(text, filename=path)
    except SyntaxError as err:
        location = Location(path, err.lineno or 1, err.offset or 1)
        raise error_at(location, f"invalid Python: {err.msg}") from err
    except ValueError as err:  # a null byte
        raise error_at(Location(path, 1, 1), f"invalid Python: {err}") from err
    except (RecursionError, MemoryError) as err:
        raise error_at(Location(path, 1, 1), "nested too deep for Python's parser") from err


def _assigns_base(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == BASE for target in node.targets
    )
