"""Configs written as Python, read without executing anything.

The syntax tree is walked, and what is not in the list below is refused with its place. Nothing is
imported, called or looked up but the names that the file itself gives::

    name = value                        several names too: a = b = 1
    1, 1.5, "text", True, None          f"{name}" with a name, a number or arithmetic in it
    [a, b]  (a, b)  {"key": a}          {**a, "key": b}
    dict(key=a)  dict(a, **b)           range(3)  list(range(3))  tuple([1])
    1 << 30  -1  2 * name               "a" + "b"  [0] * 3
    [a for name in b]                   {name: a for name in b}
    name                                one that the file gave before
    _base_.name.key                     one of the files that this one inherits from
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.config.arithmetic import binary, joined_size, unary
from enginebay.config.constructs import construct
from enginebay.config.limits import DEPTH, INT_BITS
from enginebay.config.places import Place, Table, wrong
from enginebay.config.templates import look_up
from enginebay.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from enginebay.config.limits import Budget
    from enginebay.config.places import Source
    from enginebay.config.templates import Templates

BASE = "_base_"
_CALLS = ("dict", "range", "list", "tuple")
_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
_FORMAT = re.compile(r"[<>^]?[+ ]?0?[0-9]{0,2}(\.[0-9]{1,2})?[dxofegs%]?")


class PythonDocument:
    """A parsed ``.py`` config.

    Attributes:
        helpers: Names that the file itself uses: variables, rather than sections.
    """

    def __init__(self, source: Source, templates: Templates, budget: Budget) -> None:
        self._source = source
        self._templates = templates
        self._budget = budget
        self._tree = _parse(templates.text, source)
        self._base = Table()
        self._names: dict[str, Any] = {}
        self._scopes: list[dict[str, Any]] = []
        self._depth = 0
        self.helpers: set[str] = set()

    def bases(self) -> tuple[Any, Place | None]:
        """The value of ``_base_`` and its place; None where there is none."""
        found = [node for node in self._tree.body if _assigns(node, BASE)]
        if not found:
            return None, None
        if len(found) > 1:
            raise wrong(self._place(found[1]), f"'{BASE}' is given a second time")
        assert isinstance(found[0], ast.Assign)
        return self.read(found[0].value), self._place(found[0].value)

    def contents(self, base: Table) -> Table:
        """What the file gives its names."""
        self._base = self._templates.base = base
        result = Table()
        for node in self._tree.body:
            if not _assigns(node, BASE):
                self._statement(node, result)
        self.helpers |= self._templates.used
        return result

    def _statement(self, node: ast.stmt, result: Table) -> None:
        if isinstance(node, ast.Expr) and _is_text(node.value):
            return  # a docstring
        if not isinstance(node, ast.Assign):
            raise self._refused(node)
        value = self.read(node.value)
        self._budget.value(value, self._place(node.value))
        for target in node.targets:
            if not isinstance(target, ast.Name):
                raise self._refused(target, "only names can be given a value")
            if target.id in _CALLS:
                raise wrong(self._place(target), f"'{target.id}' cannot be given another meaning")
            self._names[target.id] = value
            if not target.id.startswith("__"):
                result[target.id] = value
                result.places[target.id] = self._place(target)

    def read(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            ConfigError: It uses what a config may not use, or causes too much work.
        """
        reader = _READERS.get(type(node))
        if reader is None:
            raise self._refused(node)
        if not self._budget.affords(1):
            self._budget.nodes(0, self._place(node))
        self._depth += 1
        if self._depth > 2 * DEPTH:
            raise wrong(self._place(node), f"expressions are nested more than {2 * DEPTH} deep")
        value = reader(self, node)
        self._depth -= 1
        return value

    def _constant(self, node: ast.Constant) -> Any:
        if node.value is None or isinstance(node.value, str | int | float):
            if isinstance(node.value, str) and self._templates.are_in(node.value):
                return self._templates.fill(node.value, self._place(node))
            if isinstance(node.value, int) and node.value.bit_length() > INT_BITS:
                self._budget.integer(node.value, self._place(node))
            return node.value
        raise self._refused(node)

    def _name(self, node: ast.Name) -> Any:
        for scope in (*reversed(self._scopes), self._names):
            if node.id in scope:
                if scope is self._names:
                    self.helpers.add(node.id)
                return scope[node.id]
        if self._templates.is_one(node.id):
            return self._templates.fill(node.id, self._place(node), bare=True)
        guess = nearest(node.id, self._names)
        hint = f"did you mean '{guess}'?" if guess else "put quotes around it if it is a text"
        raise wrong(self._place(node), f"'{node.id}' has no value here", hint=hint)

    def _attribute(self, node: ast.Attribute) -> Any:
        keys, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            keys, inner = [inner.attr, *keys], inner.value
        if not (isinstance(inner, ast.Name) and inner.id == BASE):
            raise self._refused(node, f"only '{BASE}' has attributes")
        self.helpers.add(keys[0])
        return look_up(self._base, keys, self._place(node))

    def _list(self, node: ast.List) -> list[Any]:
        return [self.read(item) for item in node.elts]

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.read(item) for item in node.elts)

    def _dict(self, node: ast.Dict) -> Table:
        table = Table()
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self._unpack(table, value)
            else:
                self._put(table, self._key(key), self.read(value), key)
        return table

    def _call(self, node: ast.Call) -> Any:
        if not (isinstance(node.func, ast.Name) and node.func.id in _CALLS):
            raise self._refused(node)
        if node.func.id == "dict":
            return self._dict_call(node)
        if node.keywords:
            raise self._refused(node, "it takes no keywords")
        arguments = [self.read(argument) for argument in node.args]
        if node.func.id == "range":
            return self._range(node, arguments)
        if len(arguments) > 1 or not all(isinstance(a, list | tuple | range) for a in arguments):
            raise self._refused(node, "it takes one list, tuple or range")
        items = arguments[0] if arguments else ()
        self._budget.nodes(len(items), self._place(node))
        return list(items) if node.func.id == "list" else tuple(items)

    def _dict_call(self, node: ast.Call) -> Table:
        table = Table()
        if len(node.args) > 1:
            raise self._refused(node, "it takes one dict and keywords")
        for argument in node.args:
            self._unpack(table, argument)
        for keyword in node.keywords:
            if keyword.arg is None:
                self._unpack(table, keyword.value)
            else:
                self._put(table, keyword.arg, self.read(keyword.value), keyword)
        return table

    def _range(self, node: ast.Call, arguments: list[Any]) -> range:
        if not 1 <= len(arguments) <= 3 or not all(isinstance(a, int) for a in arguments):
            raise self._refused(node, "range takes one to three integers")
        with self._located(node):
            try:
                numbers = range(*arguments)
                count = len(numbers)
            except ValueError as err:
                raise ConfigError(f"range: {err}") from err
            except OverflowError:
                count = sys.maxsize
            self._budget.nodes(count, None)
        return numbers

    def _unpack(self, table: Table, node: ast.expr) -> None:
        value = self.read(node)
        if not isinstance(value, dict):
            raise wrong(
                self._place(node), f"only a dict can be unpacked here, found {type(value).__name__}"
            )
        self._budget.nodes(len(value), self._place(node))
        table.update(value)
        if isinstance(value, Table):
            table.places.update(value.places)

    def _put(self, table: Table, key: Any, value: Any, node: ast.AST) -> None:
        table[key] = value
        table.places[key] = self._place(node)

    def _key(self, node: ast.expr) -> Any:
        key = self.read(node)
        if isinstance(key, str | int | float | bool | None):
            return key
        raise wrong(self._place(node), f"a {type(key).__name__} cannot be a key")

    def _list_comprehension(self, node: ast.ListComp) -> list[Any]:
        return [self.read(node.elt) for _ in self._loop(node, node.generators)]

    def _dict_comprehension(self, node: ast.DictComp) -> Table:
        table = Table()
        for _ in self._loop(node, node.generators):
            self._put(table, self._key(node.key), self.read(node.value), node.key)
        return table

    def _loop(self, node: ast.expr, generators: list[ast.comprehension]) -> Iterator[None]:
        loop = generators[0]
        simple = len(generators) == 1 and not loop.ifs and not loop.is_async
        if not simple or not isinstance(loop.target, ast.Name):
            raise self._refused(node, "only one 'for NAME in …' is read, without 'if'")
        items = self.read(loop.iter)
        if not isinstance(items, list | tuple | range | dict):
            raise wrong(self._place(loop.iter), f"cannot loop over a {type(items).__name__}")
        scope: dict[str, Any] = {}
        self._scopes.append(scope)
        for item in items:
            scope[loop.target.id] = item
            yield
        self._scopes.pop()

    def _formatted(self, node: ast.JoinedStr) -> str:
        text = "".join(map(self._piece, node.values))
        self._budget.characters(len(text), self._place(node))
        return text

    def _piece(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(self._constant(node))
        if not isinstance(node, ast.FormattedValue):
            raise self._refused(node)
        value = self.read(node.value)
        if not isinstance(value, str | int | float | None):
            kind = type(value).__name__
            raise wrong(self._place(node), f"an f-string takes texts and numbers, found {kind}")
        given = node.format_spec
        spec = "".join(map(self._piece, given.values)) if isinstance(given, ast.JoinedStr) else ""
        if not _FORMAT.fullmatch(spec):
            raise wrong(self._place(node), f"the format '{spec[:60]}' is not read: wanted like 03d")
        convert = _CONVERSIONS.get(node.conversion)
        try:
            return format(convert(value) if convert else value, spec)
        except (ValueError, TypeError, OverflowError) as err:
            raise wrong(self._place(node), f"the format '{spec}': {err}") from err

    def _binary(self, node: ast.BinOp) -> Any:
        left, right = self.read(node.left), self.read(node.right)
        self._budget.nodes(joined_size(left, right), self._place(node))
        with self._located(node):
            return binary(type(node.op), left, right)

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.read(node.operand)
        with self._located(node):
            return unary(type(node.op), value)

    def _refused(self, node: ast.AST, why: str = "") -> ConfigError:
        message = f"a config cannot use {construct(node)}" + (f": {why}" if why else "")
        hint = "configs are read, not executed; write literals, dict(…), or names given before"
        return wrong(self._place(node), message, hint=hint)

    def _place(self, node: Any) -> Place:
        line, column = node.lineno, node.col_offset
        text = self._templates.text
        if not text.isascii():  # columns of syntax trees are counted in bytes
            before = text.split("\n")[line - 1].encode()[:column]
            column = len(before.decode(errors="ignore"))
        return Place(self._source.where, line, column + 1)

    @contextmanager
    def _located(self, node: ast.AST) -> Iterator[None]:
        """Give an error that knows no place this one."""
        try:
            yield
        except ConfigError as err:
            raise wrong(self._place(node), str(err), hint=err.hint) from err


_READERS: dict[type[ast.AST], Callable[[PythonDocument, Any], Any]] = {
    ast.Attribute: PythonDocument._attribute,
    ast.BinOp: PythonDocument._binary,
    ast.Call: PythonDocument._call,
    ast.Constant: PythonDocument._constant,
    ast.Dict: PythonDocument._dict,
    ast.DictComp: PythonDocument._dict_comprehension,
    ast.JoinedStr: PythonDocument._formatted,
    ast.List: PythonDocument._list,
    ast.ListComp: PythonDocument._list_comprehension,
    ast.Name: PythonDocument._name,
    ast.Tuple: PythonDocument._tuple,
    ast.UnaryOp: PythonDocument._unary,
}


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in node.targets
    )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _parse(text: str, source: Source) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes and literals: not the reader's concern
            # Its name, since Python looks into the file for the line of a syntax error.
            return ast.parse(text, filename=source.where)
    except SyntaxError as err:
        place = source.at(err.lineno or 1, err.offset or 1)
        raise wrong(place, f"this is not Python: {err.msg}") from err
    except ValueError as err:  # a null byte
        raise wrong(source.at(1, 1), f"this is not Python: {err}") from err
    except (RecursionError, MemoryError) as err:
        raise wrong(source.at(1, 1), "this is nested too deep for Python's parser") from err
