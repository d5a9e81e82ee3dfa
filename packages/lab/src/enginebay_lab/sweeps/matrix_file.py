"""The file of a sweep: a matrix of models, backends, precisions and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from enginebay.authors import Problems, declared_fields, read_table
from enginebay.errors import ConfigError, ParamsError, UsageError
from enginebay_lab.sweeps.cells import Cell

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

#: The keys and indices that lead to a value of the file.
KeyPath = tuple[Any, ...]

_CELL = {name: field for name, field in declared_fields(Cell).items() if name != "folder"}
#: What a cell has from the matrix itself.
_AXES = ("model", "backend", "precision", "params")


class MatrixTable(NamedTuple):
    """A table of the file: a model, an exclude or an include.

    Attributes:
        path: The keys and indices that lead to it.
        fields: The cell's fields that it gives.
    """

    path: KeyPath
    fields: dict[str, Any]


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a sweep besides those of its cells.

    Attributes:
        models: The models; each a text, or a table with the fields of its cells.
        backends: The backends' names; by default all that are installed here.
        precisions: The precisions; by default each backend's own.
        params: The backends' parameters; a list is an axis of the matrix.
        exclude: Cells that are left out: those with all the values of a table.
        include: Cells that are added, a table each.
    """

    models: tuple[str | dict[str, Any], ...] = ()
    backends: tuple[str, ...] | None = None
    precisions: tuple[str, ...] = ("",)
    params: dict[str, Any] = {}
    exclude: tuple[dict[str, Any], ...] = ()
    include: tuple[dict[str, Any], ...] = ()


class Matrix(NamedTuple):
    """A sweep as it was written, each value of its type.

    Attributes:
        name: The sweep in messages: its file, or ``the sweep``.
        table: The keys and values; it knows their places where they are of a file.
        folder: Where its relative paths begin.
        keys: The keys of the matrix.
        defaults: The fields that all cells have.
        models: The models, each with the fields that its cells have.
        exclude: What is left out.
        include: The cells that are added, or all where a list was given.
        problems: What is wrong with it, as far as is known.
    """

    name: str
    table: Mapping[str, Any]
    folder: Path
    keys: Keys
    defaults: dict[str, Any]
    models: list[MatrixTable]
    exclude: list[MatrixTable]
    include: list[MatrixTable]
    problems: Problems

    def collecting(self, path: KeyPath, *keys: Any) -> AbstractContextManager[None]:
        """Collect what a check raises of a cell's value."""
        return self.problems.collecting(self.path_of(path, *keys))

    def path_of(self, path: KeyPath, *keys: Any) -> KeyPath:
        """The path of a cell's value: in its own table, or else among those of all cells."""
        shared = ("precisions",) if keys == ("precision",) else keys
        for candidate in ((*path, *keys), shared):
            if _is_in(self.table, candidate):
                return candidate
        return path

    def raise_first(self) -> None:
        """Raise the first problem, with the file and the key.

        Raises:
            ConfigError: There is one.
        """
        _raise_first(self.problems, self.table)


def read_matrix(given: Any) -> Matrix:
    """Read a sweep, and check the names and types of its keys.

    Args:
        given: The path of a TOML, JSON, YAML or Python file; a mapping with the same keys; or a
            sequence of cells, or of mappings with their fields.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, or a value is of another type.
        UsageError: ``given`` is something else.
    """
    if isinstance(given, str | PathLike):
        table = read_table(given)
        written = {k: v for k, v in table.items() if k not in table.variables}
        return _read(Path(given).absolute().parent, table, written, name=f"'{given}'")
    if isinstance(given, Mapping):
        return _read(Path.cwd(), given, given)
    if isinstance(given, Sequence):
        return _listed(given)
    raise UsageError(
        f"the cells are a {type(given).__name__}: wanted the path of a file, a mapping, or a list"
    )


def _listed(cells: Sequence[Any]) -> Matrix:
    tables = [msgspec.structs.asdict(one) if isinstance(one, Cell) else one for one in cells]
    for index, table in enumerate(tables):
        if not isinstance(table, Mapping):
            found = type(table).__name__
            raise UsageError(f"cells.{index} is a {found}: wanted a Cell, or a mapping")
    here = Path.cwd()
    problems = Problems(name="the sweep")
    fields = declared_fields(Cell)
    include = [
        MatrixTable(("cells", index), _fields(table, ("cells", index), fields, problems))
        for index, table in enumerate(tables)
    ]
    table = {"cells": tables}
    _check_named(include, problems)
    _raise_first(problems, table)
    return Matrix("the sweep", table, here, Keys(backends=()), {}, [], [], include, problems)


def _read(
    folder: Path, table: Mapping[str, Any], written: Mapping[str, Any], name: str = "the sweep"
) -> Matrix:
    problems = Problems(name="the sweep")
    own = declared_fields(Keys)
    shared = {field: kind for field, kind in _CELL.items() if field not in _AXES}
    defaults = _fields(written, (), own | shared, problems)
    keys = Keys(**{field: defaults.pop(field) for field in own.keys() & defaults})
    _raise_first(problems, table)
    of_model = {field: kind for field, kind in _CELL.items() if field not in _AXES[1:3]}
    models = [
        MatrixTable(("models", i), _fields(_named(model), ("models", i), of_model, problems))
        for i, model in enumerate(keys.models)
    ]
    exclude, include = (
        [
            MatrixTable((key, index), _fields(one, (key, index), _CELL, problems))
            for index, one in enumerate(getattr(keys, key))
        ]
        for key in ("exclude", "include")
    )
    _check_named(models, problems, wanted=("model",))
    _check_named(include, problems)
    _raise_first(problems, table)
    return Matrix(name, table, folder, keys, defaults, models, exclude, include, problems)


def _named(model: str | dict[str, Any]) -> dict[str, Any]:
    return {"model": model} if isinstance(model, str) else model


def _fields(
    given: Mapping[str, Any], path: KeyPath, known: Mapping[str, Any], problems: Problems
) -> dict[str, Any]:
    """The values of a table's keys, each of its type; those that are wrong are left out."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            problems.unknown((*path, key), known)
            continue
        owner = ".".join(map(str, path)) or "sweep"
        field = msgspec.structs.replace(known[key], owner=owner)
        with problems.collecting((*path, key)):
            found[key] = field.default if value is None else field.convert(_plain(value))
    return found


def _plain(value: Any) -> Any:
    """The value as a file has it, so that it can be sent to another machine; a path is a text.

    Raises:
        ParamsError: A part of it has no such form.
    """
    plain = msgspec.to_builtins(value, enc_hook=_path_as_text)
    try:
        msgspec.msgpack.encode(plain)
    except (OverflowError, UnicodeEncodeError) as err:  # 64 bits for a number, texts in UTF-8
        raise ParamsError(f"{value!r:.80} cannot be sent to another machine: {err}") from err
    return plain


def _path_as_text(value: Any) -> str:
    if isinstance(value, PurePath):
        return str(value)
    raise ParamsError(
        f"an object of type {type(value).__qualname__} cannot be sent to another machine: wanted "
        "texts, numbers, lists and mappings",
        hint="name a model as file.py:attr" if callable(value) else None,
    )


def _check_named(
    entries: Sequence[MatrixTable], problems: Problems, wanted: Sequence[str] = ("model", "backend")
) -> None:
    if problems:
        return  # the key may be there, and wrong
    for entry in entries:
        for key in wanted:
            if not entry.fields.get(key):
                problems.wrong(entry.path, f"there is no '{key}'", f'write {key} = "…"')


def _raise_first(problems: Problems, table: Mapping[str, Any]) -> None:
    # Many cells may have the same problem.
    each = Problems({(one.path, str(one)): one for one in problems}.values())
    placed = each.with_places(table)
    if placed is each:  # no file: the key alone
        placed = Problems(
            ConfigError(f"{'.'.join(map(str, one.path))}: {one}", hint=one.hint, path=one.path)
            for one in each
        )
    placed.raise_first()


def _is_in(table: Mapping[str, Any], path: KeyPath) -> bool:
    value: Any = table
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True
