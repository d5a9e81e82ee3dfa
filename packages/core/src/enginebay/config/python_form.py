"""Configs written as Python, read without executing anything.

The syntax tree is walked, and everything that is not in the list below is an error with its place.
Nothing is imported, called or looked up except the names that the file itself assigns::

    name = value                        several names too: a = b = 1
    1, 1.5, "text", True, None          f"{name}" with a name, a number or arithmetic in it
    [a, b]  (a, b)  {"key": a}          {**a, "key": b}
    dict(key=a)  dict(a, **b)           range(3)  list(range(3))  tuple([1])
    1 << 30  -1  2 * name               "a" + "b"  [0] * 3
    [a for name in b]                   {name: a for name in b}
    name                                one that the file assigned before
    _base_.name.key                     one of the files that this one inherits from
    {{_base_.name.key}}                 the same, and the other templates
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any

from enginebay.config.arithmetic import binary, unary
from enginebay.config.limits import DEPTH
from enginebay.config.places import Place, Table, error_at
from enginebay.config.templates import IN_F_STRING, TEMPLATE, Templates
from enginebay.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from enginebay.config.limits import Budget

BASE = "_base_"
_SCALAR = str | int | float | None
_CALLS = ("dict", "range", "list", "tuple")
_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
_FORMAT = re.compile(r"[<>^]?[+ ]?0?[0-9]{0,2}(\.[0-9]{1,2})?[dxofegs%]?")


class PythonConfig:
    """A parsed ``.py`` config.

    Args:
        text: The file's text.
        path: The file.
        environment: The environment variables that templates may read; None for none.
        budget: The work that the config may cause.
    """

    def __init__(
        self,
        text: str,
        path: Path,
        environment: Mapping[str, str] | None,
        budget: Budget,
    ) -> None:
        self._path = str(path)
        self._lines = text.encode().split(b"\n")
        self._is_ascii = text.isascii()
        self._tree = _parse(text, self._path)
        self._budget = budget
        self._templates = Templates(path, environment)
        self._scopes: list[dict[str, Any]] = [{}]  # the file's names, then those of loops
        self._used: set[str] = set()
        self._depth = 0

    @property
    def variables(self) -> frozenset[str]:
        """Names that the file itself uses: they are no sections."""
        return frozenset(self._used | self._templates.used)

    def bases(self) -> tuple[Any, Place | None]:
        """The value of ``_base_`` and its place; None if there is none."""
        found = [node for node in self._tree.body if _assigns_base(node)]
        if not found:
            return None, None
        if len(found) > 1:
            raise error_at(self._place(found[1]), f"'{BASE}' is given a second time")
        assert isinstance(found[0], ast.Assign)
        return self.read(found[0].value), self._place(found[0].value)

    def contents(self, base: Table) -> Table:
        """The values that the file gives its names."""
        self._templates.base = base
        result = Table()
        for node in self._tree.body:
            match node:
                case ast.Expr(ast.Constant(str())):
                    pass  # a docstring
                case ast.Assign():
                    if not _assigns_base(node):
                        self._assign(node, result)
                case _:
                    raise self._refused(node)
        return result

    def _assign(self, node: ast.Assign, result: Table) -> None:
        value = self.read(node.value)
        self._budget.check_all(value, self._place(node.value))
        for target in node.targets:
            if not isinstance(target, ast.Name):
                raise self._refused(target, "only names can be given a value")
            if target.id in _CALLS:
                raise self._refused(target, "the name has a meaning already")
            self._scopes[0][target.id] = value
            if not target.id.startswith("__"):
                result[target.id] = value
                result.places[target.id] = self._place(target)

    def read(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            ConfigError: It uses what a config may not use, or causes too much work.
        """
        self._depth += 1
        if self._depth > 2 * DEPTH:
            message = f"expressions are nested more than {2 * DEPTH} deep"
            raise error_at(self._place(node), message)
        try:
            self._budget.spend("values")
            value = self._value(node)
        except ValueError as err:
            raise error_at(self._place(node), f"'{self._source(node)[:60]}': {err}") from err
        self._depth -= 1
        return value

    def _value(self, node: ast.expr) -> Any:
        """The same; a ValueError is about the whole expression."""
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Dict(keys, values):
                return self._table(zip(keys, values, strict=True))
            case ast.List(items):
                return [self.read(item) for item in items]
            case ast.Tuple(items):
                return tuple(self.read(item) for item in items)
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call(ast.Name("dict")):
                return self._dict(node)
            case ast.Call(ast.Name("range" | "list" | "tuple" as name)):
                return self._sequence(node, name)
            case ast.ListComp():
                return [self.read(node.elt) for _ in self._loop(node)]
            case ast.DictComp():
                return self._table((node.key, node.value) for _ in self._loop(node))
            case ast.JoinedStr(pieces):
                text = "".join(map(self._piece, pieces))
                self._budget.spend("characters", len(text))
                return text
            case ast.BinOp(left, operation, right):
                return binary(operation, self.read(left), self.read(right), self._budget)
            case ast.UnaryOp(operation, operand):
                return unary(operation, self.read(operand))
            case ast.Set([ast.Set()]) if template := TEMPLATE.fullmatch(self._source(node)):
                return self._templates.value(template, self._place(node))
        raise self._refused(node)

    def _constant(self, node: ast.Constant) -> Any:
        value = node.value
        if isinstance(value, str):
            return self._templates.fill(value, self._place(node)) if "{{" in value else value
        if isinstance(value, _SCALAR):
            return value
        raise self._refused(node)

    def _name(self, node: ast.Name) -> Any:
        for scope in reversed(self._scopes):
            if node.id in scope:
                if scope is self._scopes[0]:
                    self._used.add(node.id)
                return scope[node.id]
        guess = nearest(node.id, self._scopes[0])
        hint = f"did you mean '{guess}'?" if guess else "put quotes around it if it is a text"
        raise error_at(self._place(node), f"'{node.id}' has no value here", hint=hint)

    def _attribute(self, node: ast.Attribute) -> Any:
        keys: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            keys, inner = [inner.attr, *keys], inner.value
        if isinstance(inner, ast.Name) and inner.id == BASE:
            return self._templates.look_up(keys, self._place(node))
        raise self._refused(node, f"only '{BASE}' has attributes")

    def _table(self, pairs: Iterable[tuple[ast.expr | ast.keyword | None, ast.expr]]) -> Table:
        """A dict of keys and values; a value without a key is unpacked."""
        table = Table()
        for key_node, node in pairs:
            if key_node is None:
                self._unpack(table, node)
            else:
                key = self._key(key_node)
                table[key] = self.read(node)
                table.places[key] = self._place(key_node)
        return table

    def _key(self, node: ast.expr | ast.keyword) -> Any:
        key = node.arg if isinstance(node, ast.keyword) else self.read(node)
        if isinstance(key, _SCALAR):
            return key
        raise error_at(self._place(node), f"a {type(key).__name__} cannot be a key")

    def _unpack(self, table: Table, node: ast.expr) -> None:
        value = self.read(node)
        if not isinstance(value, Table):
            found = type(value).__name__
            raise error_at(self._place(node), f"only a dict can be unpacked here, found {found}")
        self._budget.spend("values", len(value))
        table.update(value)
        table.places.update(value.places)

    def _dict(self, node: ast.Call) -> Table:
        if len(node.args) > 1:
            raise self._refused(node, "it takes one dict and keywords")
        keywords = [(word if word.arg else None, word.value) for word in node.keywords]
        return self._table([*((None, argument) for argument in node.args), *keywords])

    def _sequence(self, node: ast.Call, name: str) -> Any:
        if node.keywords:
            raise self._refused(node, "it takes no keywords")
        given = [self.read(argument) for argument in node.args]
        if name == "range":
            if not 1 <= len(given) <= 3 or not all(isinstance(one, int) for one in given):
                raise self._refused(node, "range takes one to three integers")
            return self._range(given)
        if len(given) > 1 or not all(isinstance(one, list | tuple | range) for one in given):
            raise self._refused(node, "it takes one list, tuple or range")
        items = given[0] if given else ()
        self._budget.spend("values", len(items))
        return list(items) if name == "list" else tuple(items)

    def _range(self, arguments: list[int]) -> range:
        numbers = range(*arguments)
        try:
            count = len(numbers)
        except OverflowError:
            count = sys.maxsize
        self._budget.spend("values", count)
        return numbers

    def _loop(self, node: ast.ListComp | ast.DictComp) -> Iterator[None]:
        """Give the loop's name one value after the other."""
        loop = node.generators[0]
        simple = len(node.generators) == 1 and not loop.ifs and not loop.is_async
        if not simple or not isinstance(loop.target, ast.Name):
            raise self._refused(node, "only one 'for NAME in …' is read, without 'if'")
        items = self.read(loop.iter)
        if not isinstance(items, list | tuple | range | dict):
            raise error_at(self._place(loop.iter), f"cannot loop over a {type(items).__name__}")
        self._scopes.append({})
        for item in items:
            self._scopes[-1][loop.target.id] = item
            yield
        self._scopes.pop()

    def _piece(self, node: ast.expr) -> str:
        """A piece of an f-string."""
        if isinstance(node, ast.Constant):
            return str(self._templates.fill(str(node.value), self._place(node), IN_F_STRING))
        assert isinstance(node, ast.FormattedValue)
        value = self.read(node.value)
        if not isinstance(value, _SCALAR):
            found = type(value).__name__
            raise ValueError(f"an f-string takes texts and numbers, found {found}")  # noqa: TRY004  # the caller adds the place
        given = node.format_spec
        spec = "".join(map(self._piece, given.values)) if isinstance(given, ast.JoinedStr) else ""
        if not _FORMAT.fullmatch(spec):
            raise ValueError(f"the format '{spec[:60]}' is not read: wanted like 03d")
        convert = _CONVERSIONS.get(node.conversion)
        try:
            return format(convert(value) if convert else value, spec)
        except (TypeError, OverflowError) as err:
            raise ValueError(f"the format '{spec}': {err}") from err

    def _refused(self, node: ast.expr | ast.stmt, why: str = "") -> ConfigError:
        message = f"a config cannot use '{self._source(node)[:60]}'" + (f": {why}" if why else "")
        hint = "configs are read, not executed; write literals, dict(…), or names given before"
        return error_at(self._place(node), message, hint=hint)

    def _source(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node, as far as it is on its first line."""
        line = self._line(node)
        end = node.end_col_offset if node.end_lineno == node.lineno else len(line)
        return line[node.col_offset : end].decode(errors="ignore")

    def _place(self, node: ast.expr | ast.stmt | ast.keyword) -> Place:
        column = node.col_offset
        if not self._is_ascii:  # columns of syntax trees are counted in bytes
            column = len(self._line(node)[:column].decode(errors="ignore"))
        return Place(self._path, node.lineno, column + 1)

    def _line(self, node: ast.expr | ast.stmt | ast.keyword) -> bytes:
        return self._lines[node.lineno - 1]


def _parse(text: str, path: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes and literals: not the reader's concern
            # Its name, since Python looks into the file for the line of a syntax error.
            return ast.parse(text, filename=path)
    except SyntaxError as err:
        place = Place(path, err.lineno or 1, err.offset or 1)
        raise error_at(place, f"this is not Python: {err.msg}") from err
    except ValueError as err:  # a null byte
        raise error_at(Place(path, 1, 1), f"this is not Python: {err}") from err
    except (RecursionError, MemoryError) as err:
        raise error_at(Place(path, 1, 1), "this is nested too deep for Python's parser") from err


def _assigns_base(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == BASE for target in node.targets
    )
