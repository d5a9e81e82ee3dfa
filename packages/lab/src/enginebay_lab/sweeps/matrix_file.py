"""Reads the description of a sweep: a matrix of models, backends, precisions and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from enginebay.authors import declared_fields
from enginebay.authors.files import Problems, read_table
from enginebay.errors import ConfigError, ParamsError, UsageError
from enginebay_lab.sweeps.cells import Cell

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

#: The path of a value in the file, as keys of tables and indices of lists.
KeyPath = tuple[str | int, ...]

_CELL_FIELDS = {name: field for name, field in declared_fields(Cell).items() if name != "folder"}
#: The fields of a cell that the matrix sets, so that they are no defaults for all cells.
_AXES = ("model", "backend", "precision", "params")


class MatrixTable(NamedTuple):
    """A table of the sweep's file: an entry of ``models``, ``exclude`` or ``include``.

    Attributes:
        path: The key path of the table in the file.
        fields: The table's values by name: fields of :class:`~enginebay_lab.Cell`.
    """

    path: KeyPath
    fields: dict[str, Any]


class MatrixKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a sweep that are not fields of a cell (one model, backend and precision).

    Attributes:
        models: The models; each is a text, or a table with ``model`` and other fields of a cell.
        backends: The backends' names; by default all installed backends.
        precisions: The precisions; by default the default of each backend.
        params: The backends' parameters; a list of values is an axis of the matrix.
        exclude: Tables of fields; a cell that has all the values of a table is removed.
        include: Tables of fields; each table defines an additional cell.
    """

    models: tuple[str | dict[str, Any], ...] = ()
    backends: tuple[str, ...] | None = None
    precisions: tuple[str, ...] = ("",)
    params: dict[str, Any] = {}
    exclude: tuple[dict[str, Any], ...] = ()
    include: tuple[dict[str, Any], ...] = ()


class Matrix(NamedTuple):
    """A sweep before its expansion into cells (one model, backend and precision each).

    The values are converted to the types of their keys.

    Attributes:
        name: The sweep's name in messages: its file, or ``the sweep``.
        table: The keys and values before the conversion; those from a file have line numbers.
        folder: The folder to which relative paths refer.
        keys: The values of the keys that are not fields of a cell.
        defaults: The fields that apply to all cells.
        models: The models, each with the fields of its cells.
        exclude: The fields of the cells to remove.
        include: The additional cells; all cells if the sweep is a sequence of cells.
        problems: The problems that were found so far.
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

    def collecting(self, path: KeyPath, *keys: str) -> AbstractContextManager[None]:
        """Return a context manager that catches errors, and adds them to ``problems``.

        The problem's place in the file is ``find_path(path, *keys)``.
        """
        return self.problems.collecting(self.find_path(path, *keys))

    def find_path(self, path: KeyPath, *keys: str) -> KeyPath:
        """Return the key path of a value: in the table at ``path`` or, if missing, at top level.

        If the value is in neither place, return ``path``.
        """
        shared = ("precisions",) if keys == ("precision",) else keys
        for candidate in ((*path, *keys), shared):
            if _is_in_table(self.table, candidate):
                return candidate
        return path

    def raise_first(self) -> None:
        """Raise the first problem, if any; the message names the file and the key.

        Raises:
            ConfigError: A problem was found.
        """
        _raise_first(self.problems, self.table)


def read_matrix(source: object) -> Matrix:
    """Return the matrix of a sweep, after a check of its keys and of the types of their values.

    Args:
        source: The path of a TOML, JSON, YAML or Python file; a mapping with the same keys; or a
            sequence of cells, or of mappings with their fields.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, or a value has the wrong type.
        UsageError: ``source`` has another type.
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
        f"'cells' is of type {type(source).__name__}, expected the path of a file, a mapping, or a "
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
    folder: Path,
    table: Mapping[str, object],
    written: Mapping[str, object],
    name: str = "the sweep",
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


def _as_table(model: str | dict[str, object]) -> dict[str, object]:
    return {"model": model} if isinstance(model, str) else model


def _convert_fields(
    table: Mapping[str, object], path: KeyPath, known: Mapping[str, Any], problems: Problems
) -> dict[str, Any]:
    """Return a table's values, converted to the types of their fields in ``known``.

    Add a problem for each wrong value, and for each key that is not in ``known``.
    """
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


def _to_plain_data(value: object) -> object:
    """Return a value as plain data that can be sent to another machine; paths become texts.

    Raises:
        ParamsError: A part of the value cannot be converted.
    """
    plain = msgspec.to_builtins(value, enc_hook=_path_to_text)
    try:
        msgspec.msgpack.encode(plain)
    except (OverflowError, UnicodeEncodeError) as err:  # integers of 64 bits, texts in UTF-8
        raise ParamsError(f"{value!r:.80} cannot be sent to another machine: {err}") from err
    return plain


def _path_to_text(value: object) -> str:
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


def _raise_first(problems: Problems, table: Mapping[str, object]) -> None:
    # Many cells may have the same problem.
    distinct = Problems({(problem.path, str(problem)): problem for problem in problems}.values())
    located = distinct.with_places(table)
    if located is distinct:  # not from a file: the message names only the key
        located = Problems(
            ConfigError(f"{'.'.join(map(str, err.path))}: {err}", hint=err.hint, path=err.path)
            for err in distinct
        )
    located.raise_first()


def _is_in_table(table: Mapping[str, object], path: KeyPath) -> bool:
    value: Any = table
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True
