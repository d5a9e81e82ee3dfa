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

#: The keys and indices of a value in the file.
KeyPath = tuple[Any, ...]

_CELL_FIELDS = {name: field for name, field in declared_fields(Cell).items() if name != "folder"}
#: The fields of a cell that the axes of the matrix set.
_AXES = ("model", "backend", "precision", "params")


class MatrixTable(NamedTuple):
    """A table of the file: a model, an exclude or an include.

    Attributes:
        path: The keys and indices of the table in the file.
        fields: The cell's fields in the table.
    """

    path: KeyPath
    fields: dict[str, Any]


class MatrixKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a sweep in addition to those of its cells.

    Attributes:
        models: The models; each a text, or a table with the fields of its cells.
        backends: The backends' names; by default all that are installed here.
        precisions: The precisions; by default each backend's own.
        params: The backends' parameters; a list is an axis of the matrix.
        exclude: Tables; cells with all the values of a table are removed.
        include: Tables of additional cells.
    """

    models: tuple[str | dict[str, Any], ...] = ()
    backends: tuple[str, ...] | None = None
    precisions: tuple[str, ...] = ("",)
    params: dict[str, Any] = {}
    exclude: tuple[dict[str, Any], ...] = ()
    include: tuple[dict[str, Any], ...] = ()


class Matrix(NamedTuple):
    """A sweep as it was written, with values converted to their types.

    Attributes:
        name: The sweep's name in messages: its file, or ``the sweep``.
        table: The keys and values; if they are from a file, with their lines.
        folder: The folder of its relative paths.
        keys: The keys of the matrix.
        defaults: The fields of all cells.
        models: The models, each with the fields of its cells.
        exclude: The excludes.
        include: The additional cells; all cells if the sweep is a sequence of cells.
        problems: The problems found so far.
    """

    name: str
    table: Mapping[str, Any]
    folder: Path
    keys: MatrixKeys
    defaults: dict[str, Any]
    models: list[MatrixTable]
    exclude: list[MatrixTable]
    include: list[MatrixTable]
    problems: Problems

    def collecting(self, path: KeyPath, *keys: Any) -> AbstractContextManager[None]:
        """Collect the errors that a check of a cell's value raises in the block."""
        return self.problems.collecting(self.find_path(path, *keys))

    def find_path(self, path: KeyPath, *keys: Any) -> KeyPath:
        """Return the path of a cell's value: in its own table, or among those of all cells."""
        shared = ("precisions",) if keys == ("precision",) else keys
        for candidate in ((*path, *keys), shared):
            if _is_in_table(self.table, candidate):
                return candidate
        return path

    def raise_first(self) -> None:
        """Raise the first problem, with the file and the key.

        Raises:
            ConfigError: There is a problem.
        """
        _raise_first(self.problems, self.table)


def read_matrix(source: Any) -> Matrix:
    """Read a sweep, and check the names and types of its keys.

    Args:
        source: The path of a TOML, JSON, YAML or Python file; a mapping with the same keys; or a
            sequence of cells, or of mappings with their fields.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, or a value has the wrong type.
        UsageError: ``source`` is something else.
    """
    if isinstance(source, str | PathLike):
        table = read_table(source)
        # A file in Python also has variables that its own code uses.
        keys = {k: v for k, v in table.items() if k not in table.variables}
        return _read_table(Path(source).absolute().parent, table, keys, name=f"'{source}'")
    if isinstance(source, Mapping):
        return _read_table(Path.cwd(), source, source)
    if isinstance(source, Sequence):
        return _read_sequence(source)
    raise UsageError(
        f"the cells are a {type(source).__name__}, expected the path of a file, a mapping, or a "
        "list"
    )


def _read_sequence(cells: Sequence[Any]) -> Matrix:
    tables = [msgspec.structs.asdict(cell) if isinstance(cell, Cell) else cell for cell in cells]
    for index, table in enumerate(tables):
        if not isinstance(table, Mapping):
            kind = type(table).__name__
            raise UsageError(f"cells.{index} is a {kind}, expected a Cell or a mapping")
    problems = Problems(name="the sweep")
    fields = declared_fields(Cell)
    include = [
        MatrixTable(("cells", index), _convert_fields(table, ("cells", index), fields, problems))
        for index, table in enumerate(tables)
    ]
    table = {"cells": tables}
    _check_required(include, problems)
    _raise_first(problems, table)
    keys = MatrixKeys(backends=())
    return Matrix("the sweep", table, Path.cwd(), keys, {}, [], [], include, problems)


def _read_table(
    folder: Path, table: Mapping[str, Any], written: Mapping[str, Any], name: str = "the sweep"
) -> Matrix:
    problems = Problems(name="the sweep")
    matrix_fields = declared_fields(MatrixKeys)
    cell_fields = {field: kind for field, kind in _CELL_FIELDS.items() if field not in _AXES}
    defaults = _convert_fields(written, (), matrix_fields | cell_fields, problems)
    keys = MatrixKeys(**{field: defaults.pop(field) for field in matrix_fields.keys() & defaults})
    _raise_first(problems, table)
    # A model's table may not set the backend or the precision of its cells.
    model_fields = {field: kind for field, kind in _CELL_FIELDS.items() if field not in _AXES[1:3]}
    models = [
        MatrixTable(
            ("models", i), _convert_fields(_as_table(model), ("models", i), model_fields, problems)
        )
        for i, model in enumerate(keys.models)
    ]
    exclude, include = (
        [
            MatrixTable((key, index), _convert_fields(entry, (key, index), _CELL_FIELDS, problems))
            for index, entry in enumerate(getattr(keys, key))
        ]
        for key in ("exclude", "include")
    )
    _check_required(models, problems, required=("model",))
    _check_required(include, problems)
    _raise_first(problems, table)
    return Matrix(name, table, folder, keys, defaults, models, exclude, include, problems)


def _as_table(model: str | dict[str, Any]) -> dict[str, Any]:
    return {"model": model} if isinstance(model, str) else model


def _convert_fields(
    table: Mapping[str, Any], path: KeyPath, known: Mapping[str, Any], problems: Problems
) -> dict[str, Any]:
    """Convert the values of a table's keys to their types, without wrong values."""
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            problems.unknown((*path, key), known)
            continue
        owner = ".".join(map(str, path)) or "sweep"
        field = msgspec.structs.replace(known[key], owner=owner)
        with problems.collecting((*path, key)):
            fields[key] = field.default if value is None else field.convert(_to_plain_data(value))
    return fields


def _to_plain_data(value: Any) -> Any:
    """Convert a value to plain data that can be sent to another machine; paths become texts.

    Raises:
        ParamsError: A part of the value cannot be converted.
    """
    plain = msgspec.to_builtins(value, enc_hook=_path_to_text)
    try:
        msgspec.msgpack.encode(plain)
    except (OverflowError, UnicodeEncodeError) as err:  # integers of 64 bits, texts in UTF-8
        raise ParamsError(f"{value!r:.80} cannot be sent to another machine: {err}") from err
    return plain


def _path_to_text(value: Any) -> str:
    if isinstance(value, PurePath):
        return str(value)
    raise ParamsError(
        f"an object of type {type(value).__qualname__} cannot be sent to another machine; "
        "expected texts, numbers, lists and mappings",
        hint="name a model as file.py:attr" if callable(value) else None,
    )


def _check_required(
    entries: Sequence[MatrixTable],
    problems: Problems,
    required: Sequence[str] = ("model", "backend"),
) -> None:
    if problems:
        return  # the key may exist, with a wrong value
    for entry in entries:
        for key in required:
            if not entry.fields.get(key):
                problems.wrong(entry.path, f"'{key}' is missing", f'write {key} = "…"')


def _raise_first(problems: Problems, table: Mapping[str, Any]) -> None:
    # Many cells may have the same problem.
    distinct = Problems({(problem.path, str(problem)): problem for problem in problems}.values())
    placed = distinct.with_places(table)
    if placed is distinct:  # not from a file: name the key alone
        placed = Problems(
            ConfigError(f"{'.'.join(map(str, one.path))}: {one}", hint=one.hint, path=one.path)
            for one in distinct
        )
    placed.raise_first()


def _is_in_table(table: Mapping[str, Any], path: KeyPath) -> bool:
    value: Any = table
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True
