"""From a matrix to its cells: each once, in the order in which the file names them."""

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
    nearest,
)
from enginebay_lab.shared_params import check_shared_param, own_params
from enginebay_lab.sweeps.cells import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay import Backend
    from enginebay_lab.sweeps.matrix_file import KeyPath, Matrix, MatrixTable

#: More are a slip of the pen: a list in a list of parameters multiplies.
MOST_CELLS = 1_000_000


class PlacedCell(NamedTuple):
    """A cell, and the model or include of the file that it comes from."""

    cell: Cell
    path: KeyPath


#: The backends by name; None for one that cannot be used here, of which nothing is known.
Backends = dict[str, "Backend | None"]


def expand(matrix: Matrix, backends: Backends) -> list[PlacedCell]:
    """Return the cells of a matrix, without those that are excluded, and those that are included.

    Args:
        matrix: The matrix, which collects what is wrong.
        backends: All that it names.
    """
    cells = {one.cell.key: one for one in _product(matrix, backends)}
    left_out = set[str]()
    for entry in matrix.exclude:
        found = {key for key, one in cells.items() if _matches(one.cell, entry.fields)}
        if not entry.fields:
            matrix.problems.wrong(entry.path, "it has no value to match", "write backend = …")
        elif not found:
            matrix.problems.wrong(entry.path, *_nothing_excluded(entry, cells))
        left_out |= found
    kept = {key: one for key, one in cells.items() if key not in left_out}
    added: dict[str, PlacedCell] = {}
    for one in _included(matrix, backends):
        key = one.cell.key
        if key in added:
            first = ".".join(map(str, added[key].path))
            matrix.problems.wrong(
                one.path, f"it is the cell of {first} again", "leave one of them out"
            )
        added.setdefault(key, one)
    return list({**kept, **{key: one for key, one in added.items() if key not in kept}}.values())


def named_backends(matrix: Matrix) -> Backends:
    """Return every backend that a matrix names, loaded where it is installed here."""
    found: Backends = {}
    names = [(("backends",), name) for name in _of_matrix(matrix)]
    names += [((*one.path, "backend"), one.fields["backend"]) for one in matrix.include]
    for path, name in names:
        if name not in found:
            with matrix.problems.collecting(path):
                found[name] = _find_backend(name)
    return found


def _of_matrix(matrix: Matrix) -> tuple[str, ...]:
    if matrix.keys.backends is not None:
        return matrix.keys.backends
    if not matrix.models:
        return ()
    installed = tuple(installed_backends())
    if not installed:
        raise UsageError("no backend is installed, and the sweep names none", hint="backends = […]")
    return installed


def _find_backend(name: str) -> Backend | None:
    try:
        return get_backend(name)
    except BackendNotFoundError as err:
        if err.distribution is None:
            raise
    except BackendUnavailableError:
        pass  # it is broken or disabled here, and a worker elsewhere may have it
    return None


def check_params(matrix: Matrix, backends: Backends) -> None:
    """Refuse an axis without a value, and a parameter that no backend of the matrix has.

    The second only where all of them are installed here.
    """
    engines = [engine for name in _of_matrix(matrix) if (engine := backends[name])]
    are_known = len(engines) == len(set(_of_matrix(matrix)))
    given = {("params", name): value for name, value in matrix.keys.params.items()}
    for entry in matrix.models:
        given |= {(*entry.path, "params", name): value for name, value in _params(entry).items()}
    for path, value in given.items():
        name = path[-1]
        with matrix.problems.collecting(path):
            if name == "precision":
                raise ParamsError("a sweep has several precisions", hint="precisions = ['fp16']")
            if value in ([], ()):
                raise ParamsError("an empty list is no axis")
            if are_known and engines:
                check_shared_param(name, engines)


def _product(matrix: Matrix, backends: Backends) -> Iterator[PlacedCell]:
    precisions = matrix.keys.precisions
    if not precisions:
        matrix.problems.wrong(
            ("precisions",), "there is none", "leave precisions out for each backend's own"
        )
    blocks = [
        (entry, name, _axes(_own(backends[name], {**matrix.keys.params, **_params(entry)})))
        for entry in matrix.models
        for name in _of_matrix(matrix)
    ]
    sizes = [math.prod(map(len, axes.values())) for _, _, axes in blocks]
    if (count := sum(sizes) * len(precisions)) > MOST_CELLS:
        matrix.problems.wrong(
            ("params",), f"the matrix has {count:,} cells: wanted {MOST_CELLS:,} at most"
        )
        return
    for entry, name, axes in blocks:
        fields = {**matrix.defaults, **entry.fields, "folder": str(matrix.folder), "backend": name}
        for precision, *values in product(precisions, *axes.values()):
            params = dict(zip(axes, values, strict=True))
            cell = Cell(**{**fields, "precision": precision, "params": params})
            yield PlacedCell(cell, entry.path)


def _params(entry: MatrixTable) -> dict[str, Any]:
    params: dict[str, Any] = entry.fields.get("params", {})
    return params


def _axes(params: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The values that each parameter takes: a list is an axis, anything else a single value."""
    return {
        name: list(value) if isinstance(value, list | tuple) else [value]
        for name, value in params.items()
    }


def _own(backend: Backend | None, params: Mapping[str, Any]) -> dict[str, Any]:
    return dict(params) if backend is None else own_params(backend, params)


def _included(matrix: Matrix, backends: Backends) -> Iterator[PlacedCell]:
    """The added cells, with what the file says of all cells and of their models."""
    of_model = {one.fields["model"]: one.fields for one in matrix.models}
    for entry in matrix.include:
        inherited = {**matrix.defaults, **of_model.get(entry.fields["model"], {})}
        shared = {**matrix.keys.params, **inherited.get("params", {})}
        single = {k: v for k, v in shared.items() if not isinstance(v, list | tuple)}
        params = _own(backends[entry.fields["backend"]], single) | _params(entry)
        fields = {"folder": str(matrix.folder), **inherited, **entry.fields, "params": params}
        yield PlacedCell(Cell(**fields), entry.path)


def _matches(cell: Cell, wanted: Mapping[str, Any]) -> bool:
    return all(
        value.items() <= cell.params.items() if name == "params" else getattr(cell, name) == value
        for name, value in wanted.items()
    )


def _nothing_excluded(
    entry: MatrixTable, cells: Mapping[str, PlacedCell]
) -> tuple[str, str | None]:
    """The message and the hint about an exclude that no cell matches."""
    for name, value in entry.fields.items():
        if name == "params" or any(getattr(one.cell, name) == value for one in cells.values()):
            continue
        known = dict.fromkeys(str(getattr(one.cell, name)) for one in cells.values())
        close = nearest(str(value), known)
        hint = f"did you mean '{close}'?" if close else None
        shown = ", ".join(one or "the backend's own" for one in known)
        return f"no cell has the {name} '{value}'; there is {shown or 'none'}", hint
    return "no cell has all of these values", None
