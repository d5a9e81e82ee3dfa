"""``set``: the same rows, in any order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.comparators.assignment import assign, touching
from enginebay.errors import UsageError
from enginebay.verdict import Aligned, ComparisonResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.tensors import NumpyArray
    from enginebay.verdict import ComparisonRequest

#: Possible pairs that are kept: 256 MiB of them.
_MOST = 1 << 24

#: Values of a row that a message shows.
_SHOWN = 6


class Rows:
    """Compares outputs as sets of rows along their first axis.

    The rows of several outputs belong together: the third row of one with the third of the others.
    Partners are as near as the tolerance wants place by place; there are as many as can be.
    """

    def __init__(self, argument: str) -> None:
        if argument:
            raise UsageError(f"set takes no argument, and has '{argument}'", hint="write set")

    def __call__(self, request: ComparisonRequest) -> ComparisonResult:
        """Compare one sample."""
        count, others = _count(request.expected), _count(request.found)
        for name, values in request.expected.items():
            if values.shape[1:] != request.found[name].shape[1:]:
                found = request.found[name].shape
                reason = f"its rows differ in shape: expected {values.shape}, found {found}"
                return ComparisonResult(passed=False, matched=0, reason=reason)
        partner = _partners(_Columns.of(request), count, others)
        rows = np.flatnonzero(partner >= 0)
        alone = np.flatnonzero(partner < 0)
        extra = np.setdiff1d(np.arange(others), partner)
        return ComparisonResult(
            passed=not alone.size and not extra.size,
            matched=rows.size,
            expected_alone=alone.size,
            found_alone=extra.size,
            reason=_reason(alone.size, extra.size),
            worst=_worst(request, alone, extra),
            badness=alone.size + extra.size,
            aligned=tuple(
                Aligned(
                    output=name,
                    expected=values[rows],
                    found=request.found[name][partner[rows]],
                    places=rows[:, None],
                    scale=values,
                )
                for name, values in request.expected.items()
            ),
        )


def _count(outputs: Mapping[str, NumpyArray]) -> int:
    """How many rows there are."""
    if any(values.ndim == 0 or values.dtype.kind not in "biuf" for values in outputs.values()):
        name = next(n for n, v in outputs.items() if v.ndim == 0 or v.dtype.kind not in "biuf")
        raise UsageError(
            f"set compares rows of numbers along the first axis, and '{name}' is "
            f"{outputs[name].dtype} {outputs[name].shape}"
        )
    counts = {name: len(values) for name, values in outputs.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(
            "set compares outputs with as many rows each, and there are "
            + ", ".join(f"{count} in '{name}'" for name, count in counts.items()),
            hint="compare them one by one: --compare NAME=set --compare OTHER=set",
        )
    return next(iter(counts.values()))


class _Columns(NamedTuple):
    """The rows of all outputs side by side; exact ones are numbered by their values.

    Attributes:
        numbers: Of each row, which exact values it has.
        found_numbers: Of each row of the other side.
        values: Its measured values, ``[rows, columns]``.
        found_values: Those of the other side.
        allowed: How far ``values`` may be off; None where there are only exact ones.
    """

    numbers: NumpyArray
    found_numbers: NumpyArray
    values: NumpyArray
    found_values: NumpyArray
    allowed: NumpyArray | None

    @classmethod
    def of(cls, request: ComparisonRequest) -> _Columns:
        measured = [name for name, values in request.expected.items() if values.dtype.kind == "f"]
        exact = [name for name in request.expected if name not in measured]
        sides = [_beside(side, exact) for side in (request.expected, request.found)]
        numbers, found_numbers = np.split(_numbered(np.concatenate(sides)), [len(sides[0])])
        allowed = {
            name: np.broadcast_to(
                request.allowed(name, request.expected[name]), request.expected[name].shape
            )
            for name in measured
        }
        return cls(
            numbers,
            found_numbers,
            _beside(request.expected, measured).astype(np.float64),
            _beside(request.found, measured).astype(np.float64),
            _beside(allowed, measured) if any(a.size for a in allowed.values()) else None,
        )

    def all_numbers(self) -> tuple[NumpyArray, NumpyArray]:
        """Which values, exact and measured, each row has; and each row of the other side."""
        left = np.column_stack([self.numbers, self.values])
        right = np.column_stack([self.found_numbers, self.found_values])
        numbers, found = np.split(_numbered(np.concatenate([left, right])), [len(left)])
        return numbers, found

    def near(self, rows: NumpyArray, others: NumpyArray) -> NumpyArray:
        """True where a row and one of the other side are near enough, in every column."""
        with np.errstate(invalid="ignore"):
            left, right = self.values[rows], self.found_values[others]
            fits = (left == right) | (np.isnan(left) & np.isnan(right))
            if self.allowed is not None:
                fits |= np.abs(left - right) <= self.allowed[rows]
        same: Any = self.numbers[rows] == self.found_numbers[others]
        near: NumpyArray = same & fits.all(-1)
        return near


def _beside(outputs: Mapping[str, NumpyArray], names: list[str]) -> NumpyArray:
    count = len(next(iter(outputs.values()))) if outputs else 0
    flat = [outputs[n].reshape(count, math.prod(outputs[n].shape[1:])) for n in names]
    return np.concatenate(flat, axis=1) if flat else np.zeros((count, 0), np.int64)


def _partners(columns: _Columns, count: int, others: int) -> NumpyArray:
    """Each row's partner; -1 for none."""
    shared = np.arange(min(count, others))
    if count == others and columns.near(shared, shared).all():
        return shared
    if columns.allowed is None and not columns.values.size:
        return _equal(columns.numbers, columns.found_numbers)
    # Equal rows first: a thousand zeros would be a million pairs.
    partner = _equal(*columns.all_numbers())
    if count == others and (partner >= 0).all():
        return partner
    pairs = _near_pairs(columns)
    if pairs is None:
        if count != others:
            return partner  # it is wrong in any case
        raise UsageError(
            f"set finds more than {_MOST} pairs of rows that are within tolerance of each other"
        )
    errors = np.abs(columns.values[pairs[:, 0]] - columns.found_values[pairs[:, 1]])
    return assign(pairs, -np.nan_to_num(errors).sum(-1), count, others)


def _numbered(rows: NumpyArray) -> NumpyArray:
    """A number for each row, the same for equal ones."""
    numbers = np.zeros(len(rows), np.int64)
    for column in rows.T:  # numpy.unique of whole rows takes ten times as long
        values, number = np.unique(column, return_inverse=True)
        numbers = np.unique(numbers * len(values) + number, return_inverse=True)[1]
    return numbers


def _equal(numbers: NumpyArray, found: NumpyArray) -> NumpyArray:
    """Partners of rows that are equal: the first with the first, the second with the second."""
    most = max(len(numbers), len(found))
    left, right = (side * most + _occurrence(side) for side in (numbers, found))
    _, rows, others = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    partner = np.full(len(numbers), -1)
    partner[rows] = others
    return partner


def _occurrence(numbers: NumpyArray) -> NumpyArray:
    """How many rows with the same number come before each."""
    order = np.argsort(numbers, kind="stable")
    _, first, number = np.unique(numbers[order], return_index=True, return_inverse=True)
    count = np.empty(len(numbers), np.int64)
    count[order] = np.arange(len(numbers)) - first[number]
    return count


def _near_pairs(columns: _Columns) -> NumpyArray | None:
    """All pairs that are near enough; None for too many."""
    assert columns.allowed is not None
    values, others = np.nan_to_num(columns.values), np.nan_to_num(columns.found_values)
    # The column with the most values leaves the fewest pairs.
    widest = int(np.argmax([len(np.unique(column)) for column in values.T]))
    allowed = np.nan_to_num(columns.allowed[:, widest])
    middle, other = values[:, widest], others[:, widest]
    found, total = [np.zeros((0, 2), np.int64)], 0
    for pairs in touching(middle - allowed, middle + allowed, other, other):
        found.append(pairs[columns.near(pairs[:, 0], pairs[:, 1])])
        total += len(found[-1])
        if total > _MOST:
            return None
    return np.concatenate(found)


def _reason(alone: int, extra: int) -> str:
    if not alone and not extra:
        return ""
    return f"{alone} expected and {extra} found rows have no partner"


def _worst(request: ComparisonRequest, alone: NumpyArray, extra: NumpyArray) -> str:
    if alone.size:
        return f"expected {_shown(request.expected, int(alone[0]))} has no partner"
    if extra.size:
        return f"found {_shown(request.found, int(extra[0]))} has no partner"
    return ""


def _shown(outputs: Mapping[str, NumpyArray], row: int) -> str:
    """A row, with its first values."""
    values = [value for array in outputs.values() for value in array[row].reshape(-1).tolist()]
    more = ", …" if len(values) > _SHOWN else ""
    return f"row {row} ({', '.join(f'{value:.6g}' for value in values[:_SHOWN])}{more})"
