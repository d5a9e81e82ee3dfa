"""Expands the matrix of a sweep into cells (one model, backend and precision each)."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay import get_backend
from enginebay.authors import installed_backends
from enginebay.errors import (
    BackendNotFoundError,
    BackendUnavailableError,
    ParamsError,
    UsageError,
    did_you_mean,
)
from enginebay_lab.shared_params import check_shared_param, list_axes, own_params
from enginebay_lab.sweeps.cells import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay import Backend
    from enginebay_lab.sweeps.matrix_file import KeyPath, Matrix, MatrixTable

#: A larger matrix is a mistake: a long list of values, or a list inside a list, multiplies.
MAX_CELLS = 1_000_000


class PlacedCell(NamedTuple):
    """A sweep cell, and the key path of the ``models`` or ``include`` entry that defines it."""

    cell: Cell
    path: KeyPath


#: The backends by name; None for a backend that cannot be used here, whose parameters are unknown.
Backends = dict[str, "Backend | None"]


def expand_matrix(matrix: Matrix, backends: Backends) -> list[PlacedCell]:
    """Return the sweep cells (one model, backend and precision each) that a matrix describes.

    The combinations of the matrix come first, without those in ``exclude``; then the cells in
    ``include``.

    Args:
        matrix: The matrix; problems are added to ``matrix.problems``.
        backends: The matrix's backends, from :func:`load_backends`.
    """
    cells = {placed.cell.key: placed for placed in _expand_product(matrix, backends)}
    excluded = set[str]()
    for entry in matrix.exclude:
        keys = {key for key, placed in cells.items() if _is_match(placed.cell, entry.fields)}
        if not entry.fields:
            matrix.problems.wrong(entry.path, "the exclude is empty", "write backend = …")
        elif not keys:
            matrix.problems.wrong(entry.path, *_explain_no_match(entry, cells))
        excluded |= keys
    remaining = {key: placed for key, placed in cells.items() if key not in excluded}
    included: dict[str, PlacedCell] = {}
    for placed in _expand_includes(matrix, backends):
        key = placed.cell.key
        if key in included:
            first = ".".join(map(str, included[key].path))
            matrix.problems.wrong(
                placed.path, f"the same combination as {first}", "remove one of them"
            )
        included.setdefault(key, placed)
    added = {key: placed for key, placed in included.items() if key not in remaining}
    return list({**remaining, **added}.values())


def load_backends(matrix: Matrix) -> Backends:
    """Return a matrix's backends by name; None for a backend that cannot be used here."""
    backends: Backends = {}
    names: list[tuple[KeyPath, str]] = [(("backends",), name) for name in _matrix_backends(matrix)]
    names += [((*entry.path, "backend"), entry.fields["backend"]) for entry in matrix.include]
    for path, name in names:
        if name not in backends:
            with matrix.problems.collecting(path):
                backends[name] = _load_backend(name)
    return backends


def _matrix_backends(matrix: Matrix) -> tuple[str, ...]:
    if matrix.keys.backends is not None:
        return matrix.keys.backends
    if not matrix.models:
        return ()
    installed = tuple(installed_backends())
    if not installed:
        raise UsageError(
            "no backend is installed, and the sweep has no list of backends", hint="backends = […]"
        )
    return installed


def _load_backend(name: str) -> Backend | None:
    try:
        return get_backend(name)
    except BackendNotFoundError as err:
        if err.distribution is None:
            raise
    except BackendUnavailableError:
        pass  # broken or disabled here; a worker on a different machine may have it
    return None


def check_matrix_params(matrix: Matrix, backends: Backends) -> None:
    """Add a problem for each parameter that has no values, or that no backend declares."""
    names = _matrix_backends(matrix)
    engines = [engine for name in names if (engine := backends[name])]
    # A backend that is not installed here may have any parameter.
    are_known = len(engines) == len(set(names))
    values: dict[KeyPath, object] = {
        ("params", name): value for name, value in matrix.keys.params.items()
    }
    for entry in matrix.models:
        params = _table_params(entry).items()
        values |= {(*entry.path, "params", name): value for name, value in params}
    for path, value in values.items():
        name = str(path[-1])
        with matrix.problems.collecting(path):
            if name == "precision":
                raise ParamsError(
                    "'precision' is not a parameter of a sweep", hint="precisions = ['fp16']"
                )
            if value in ([], ()):
                raise ParamsError("the list of values is empty")
            if are_known and engines:
                check_shared_param(name, engines)


def _expand_product(matrix: Matrix, backends: Backends) -> Iterator[PlacedCell]:
    precisions = matrix.keys.precisions
    if not precisions:
        matrix.problems.wrong(
            ("precisions",), "the list is empty", "remove it to use each backend's default"
        )
    blocks = [
        (
            entry,
            name,
            list_axes(backends[name], {**matrix.keys.params, **_table_params(entry)}),
        )
        for entry in matrix.models
        for name in _matrix_backends(matrix)
    ]
    sizes = [math.prod(map(len, axes.values())) for _, _, axes in blocks]
    if (count := sum(sizes) * len(precisions)) > MAX_CELLS:
        matrix.problems.wrong(
            ("params",), f"the matrix has {count:,} cells, expected at most {MAX_CELLS:,}"
        )
        return
    for entry, name, axes in blocks:
        fields = {**matrix.defaults, **entry.fields, "folder": str(matrix.folder), "backend": name}
        for precision, *values in product(precisions, *axes.values()):
            params = dict(zip(axes, values, strict=True))
            cell = Cell(**{**fields, "precision": precision, "params": params})
            yield PlacedCell(cell, entry.path)


def _table_params(entry: MatrixTable) -> dict[str, object]:
    params: dict[str, object] = entry.fields.get("params", {})
    return params


def _expand_includes(matrix: Matrix, backends: Backends) -> Iterator[PlacedCell]:
    """Yield the sweep cells that ``include`` lists.

    A field that an entry omits gets the value that the matrix has for the entry's model or for all
    cells.
    """
    model_fields = {entry.fields["model"]: entry.fields for entry in matrix.models}
    for entry in matrix.include:
        inherited = {**matrix.defaults, **model_fields.get(entry.fields["model"], {})}
        shared = {**matrix.keys.params, **inherited.get("params", {})}
        # An include is a single cell: lists of values, which are axes, do not apply to it.
        single = {k: v for k, v in shared.items() if not isinstance(v, list | tuple)}
        params = own_params(backends[entry.fields["backend"]], single) | _table_params(entry)
        fields = {"folder": str(matrix.folder), **inherited, **entry.fields, "params": params}
        yield PlacedCell(Cell(**fields), entry.path)


def _is_match(cell: Cell, fields: Mapping[str, Any]) -> bool:
    # An exclude may name some of the parameters only.
    return all(
        value.items() <= cell.params.items() if name == "params" else getattr(cell, name) == value
        for name, value in fields.items()
    )


def _explain_no_match(
    entry: MatrixTable, cells: Mapping[str, PlacedCell]
) -> tuple[str, str | None]:
    """Return the message and the hint for an ``exclude`` entry that excludes nothing."""
    for name, value in entry.fields.items():
        if name == "params":
            continue
        values = [getattr(placed.cell, name) for placed in cells.values()]
        if value in values:
            continue
        known = dict.fromkeys(map(str, values))
        hint = did_you_mean(str(value), known)
        listed = ", ".join(text or "the backend's default" for text in known)
        return f"no cell has the {name} '{value}'; available: {listed or 'none'}", hint
    return "no cell has all of these values", None
