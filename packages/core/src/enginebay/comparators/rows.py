"""The comparator ``set``, which compares rows in any order."""

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

#: The largest number of candidate pairs: 256 MiB.
_MAX_PAIRS = 1 << 24

#: The number of a row's values that a message shows.
_MAX_SHOWN_VALUES = 6


class Rows:
    """Compares outputs as sets of rows along the first axis.

    The values of all outputs at the same index of this axis form a row. Two rows match if each
    element differs by at most the tolerance. As many rows as possible are matched.
    """

    def __init__(self, argument: str) -> None:
        if argument:
            raise UsageError(
                f"comparator 'set' takes no argument, found '{argument}'", hint="--compare NAME=set"
            )

    def __call__(self, request: ComparisonRequest) -> ComparisonResult:
        """Compare the outputs of one sample, and return the result."""
        count, others = _count_rows(request.expected), _count_rows(request.found)
        for name, values in request.expected.items():
            if values.shape[1:] != request.found[name].shape[1:]:
                found = request.found[name].shape
                reason = f"its rows differ in shape: expected {values.shape}, found {found}"
                return ComparisonResult(passed=False, matched=0, reason=reason)
        partner = _match_rows(_Columns.from_request(request), count, others)
        rows = np.flatnonzero(partner >= 0)
        alone = np.flatnonzero(partner < 0)
        extra = np.setdiff1d(np.arange(others), partner)
        return ComparisonResult(
            passed=not alone.size and not extra.size,
            matched=rows.size,
            expected_alone=alone.size,
            found_alone=extra.size,
            reason=_describe_failure(alone.size, extra.size),
            worst=_describe_worst(request, alone, extra),
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


def _count_rows(outputs: Mapping[str, NumpyArray]) -> int:
    for name, values in outputs.items():
        if values.ndim == 0 or values.dtype.kind not in "biuf":
            raise UsageError(
                f"comparator 'set' expects rows of numbers along the first axis, found '{name}' "
                f"{values.dtype} {values.shape}"
            )
    counts = {name: len(values) for name, values in outputs.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(
            "comparator 'set' expects outputs with the same number of rows, found "
            + ", ".join(f"{count} in '{name}'" for name, count in counts.items()),
            hint="compare each output separately: --compare NAME=set --compare OTHER=set",
        )
    return next(iter(counts.values()))


class _Columns(NamedTuple):
    """The rows of all outputs, concatenated along the columns.

    Attributes:
        ids: An id for each row of the reference; rows with equal integers and bools share an id.
        found_ids: The ids of the artifact's rows.
        values: The floats of the reference's rows, ``[rows, columns]``.
        found_values: The floats of the artifact's rows.
        allowed: The allowed errors of ``values``; None without floats.
    """

    ids: NumpyArray
    found_ids: NumpyArray
    values: NumpyArray
    found_values: NumpyArray
    allowed: NumpyArray | None

    @classmethod
    def from_request(cls, request: ComparisonRequest) -> _Columns:
        measured = [name for name, values in request.expected.items() if values.dtype.kind == "f"]
        exact = [name for name in request.expected if name not in measured]
        sides = [_concatenate_columns(side, exact) for side in (request.expected, request.found)]
        ids, found_ids = np.split(_identify_rows(np.concatenate(sides)), [len(sides[0])])
        allowed = {
            name: np.broadcast_to(
                request.allowed(name, request.expected[name]), request.expected[name].shape
            )
            for name in measured
        }
        return cls(
            ids,
            found_ids,
            _concatenate_columns(request.expected, measured).astype(np.float64),
            _concatenate_columns(request.found, measured).astype(np.float64),
            _concatenate_columns(allowed, measured)
            if any(errors.size for errors in allowed.values())
            else None,
        )

    def identify_all_values(self) -> tuple[NumpyArray, NumpyArray]:
        """Return an id for each row of the reference and of the artifact; equal rows share an id.

        Rows are equal if all values are equal; in the field ``ids``, floats are not compared.
        """
        left = np.column_stack([self.ids, self.values])
        right = np.column_stack([self.found_ids, self.found_values])
        ids, found_ids = np.split(_identify_rows(np.concatenate([left, right])), [len(left)])
        return ids, found_ids

    def are_close(self, rows: NumpyArray, others: NumpyArray) -> NumpyArray:
        """Return a mask: True if row ``rows[i]`` is within tolerance of row ``others[i]``."""
        with np.errstate(invalid="ignore"):
            left, right = self.values[rows], self.found_values[others]
            fits = (left == right) | (np.isnan(left) & np.isnan(right))
            if self.allowed is not None:
                fits |= np.abs(left - right) <= self.allowed[rows]
        # Integers and bools have no tolerance.
        same: Any = self.ids[rows] == self.found_ids[others]
        close: NumpyArray = same & fits.all(-1)
        return close


def _concatenate_columns(outputs: Mapping[str, NumpyArray], names: list[str]) -> NumpyArray:
    count = len(next(iter(outputs.values()))) if outputs else 0
    flat = [outputs[name].reshape(count, math.prod(outputs[name].shape[1:])) for name in names]
    return np.concatenate(flat, axis=1) if flat else np.zeros((count, 0), np.int64)


def _match_rows(columns: _Columns, count: int, others: int) -> NumpyArray:
    """Return, for each row of the reference, the index of the artifact's matching row, or -1."""
    # Most engines keep the order, which is the fastest to check.
    same_order = np.arange(min(count, others))
    if count == others and columns.are_close(same_order, same_order).all():
        return same_order
    if columns.allowed is None and not columns.values.size:
        return _match_equal_rows(columns.ids, columns.found_ids)
    # Equal rows first: a thousand rows of zeros would be a million pairs.
    partner = _match_equal_rows(*columns.identify_all_values())
    if count == others and (partner >= 0).all():
        return partner
    pairs = _find_close_pairs(columns)
    if pairs is None:
        if count != others:
            return partner  # the comparison fails in any case
        raise UsageError(
            f"comparator 'set' cannot match the rows: more than {_MAX_PAIRS} pairs are "
            "within tolerance"
        )
    # Equal infinities and two NaN have the difference NaN, which counts as no error.
    errors = np.abs(columns.values[pairs[:, 0]] - columns.found_values[pairs[:, 1]])
    return assign(pairs, -np.nan_to_num(errors).sum(-1), count, others)


def _identify_rows(rows: NumpyArray) -> NumpyArray:
    """Return an id for each row; equal rows have the same id."""
    ids = np.zeros(len(rows), np.int64)
    for column in rows.T:  # numpy.unique of whole rows takes ten times as long
        values, value_ids = np.unique(column, return_inverse=True)
        ids = np.unique(ids * len(values) + value_ids, return_inverse=True)[1]
    return ids


def _match_equal_rows(ids: NumpyArray, found_ids: NumpyArray) -> NumpyArray:
    """Match the n-th occurrence of an id in ``ids`` with its n-th occurrence in ``found_ids``.

    Returns:
        For each element of ``ids``, the index of its match in ``found_ids``, or -1.
    """
    # The k-th row with an id gets a unique number, which only the k-th such row of the other side
    # has: so each row has one match.
    base = max(len(ids), len(found_ids))
    left, right = (side * base + _count_earlier(side) for side in (ids, found_ids))
    _, rows, others = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    partner = np.full(len(ids), -1)
    partner[rows] = others
    return partner


def _count_earlier(ids: NumpyArray) -> NumpyArray:
    """Return, for each row, the number of earlier rows with the same id."""
    order = np.argsort(ids, kind="stable")
    _, first, group = np.unique(ids[order], return_index=True, return_inverse=True)
    count = np.empty(len(ids), np.int64)
    count[order] = np.arange(len(ids)) - first[group]
    return count


def _find_close_pairs(columns: _Columns) -> NumpyArray | None:
    """Return all pairs of rows within tolerance as indices of shape ``[pairs, 2]``.

    Return None if there are more than ``_MAX_PAIRS``.
    """
    assert columns.allowed is not None
    # NaN cannot be sorted; are_close() compares the original values.
    values, others = np.nan_to_num(columns.values), np.nan_to_num(columns.found_values)
    # The column with the most values leaves the fewest pairs.
    widest = int(np.argmax([len(np.unique(column)) for column in values.T]))
    allowed = np.nan_to_num(columns.allowed[:, widest])
    middle, other = values[:, widest], others[:, widest]
    chunks, total = [np.zeros((0, 2), np.int64)], 0
    for pairs in touching(middle - allowed, middle + allowed, other, other):
        chunks.append(pairs[columns.are_close(pairs[:, 0], pairs[:, 1])])
        total += len(chunks[-1])
        if total > _MAX_PAIRS:
            return None
    return np.concatenate(chunks)


def _describe_failure(alone: int, extra: int) -> str:
    if not alone and not extra:
        return ""
    return f"{alone} expected and {extra} found rows have no match"


def _describe_worst(request: ComparisonRequest, alone: NumpyArray, extra: NumpyArray) -> str:
    if alone.size:
        return f"expected {_format_row(request.expected, int(alone[0]))} has no match"
    if extra.size:
        return f"found {_format_row(request.found, int(extra[0]))} has no match"
    return ""


def _format_row(outputs: Mapping[str, NumpyArray], row: int) -> str:
    values = [value for array in outputs.values() for value in array[row].reshape(-1).tolist()]
    more = ", …" if len(values) > _MAX_SHOWN_VALUES else ""
    shown = ", ".join(f"{value:.6g}" for value in values[:_MAX_SHOWN_VALUES])
    return f"row {row} ({shown}{more})"
