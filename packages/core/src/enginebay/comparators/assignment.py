"""Possible pairs, and one-to-one partners out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.tensors import NumpyArray

#: Pairs that are looked at together: some 100 MiB with all that is computed of them.
_AT_ONCE = 1 << 20


def touching(
    low: NumpyArray, high: NumpyArray, others_low: NumpyArray, others_high: NumpyArray
) -> Iterator[NumpyArray]:
    """Yield the pairs of intervals that may touch, and few others, some at a time.

    So many boxes, or rows, need not be compared with all of the other side.

    Example:
        >>> low, high = np.array([0.0, 5.0]), np.array([1.0, 6.0])
        >>> [pairs.tolist() for pairs in touching(low, high, low, high)]
        [[[0, 0], [1, 1]]]
    """
    order = np.argsort(others_low, kind="stable")
    starts = others_low[order]
    longest = float((others_high - others_low).max(initial=0.0))
    first = np.searchsorted(starts, low - longest, "left")
    counts = np.maximum(np.searchsorted(starts, high, "right") - first, 0)
    ends = np.cumsum(counts)
    start = 0
    while start < len(low):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + _AT_ONCE, "right")), start + 1)
        here = counts[start:stop]
        rows = np.repeat(np.arange(start, stop), here)
        steps = np.arange(len(rows)) - np.repeat(np.cumsum(here) - here, here)
        yield np.stack([rows, order[first[rows] + steps]], axis=1)
        start = stop


def assign(pairs: NumpyArray, closeness: NumpyArray, count: int, others: int) -> NumpyArray:
    """Choose as many pairs as possible, so that no row is in two of them.

    Close pairs are taken first, and then exchanged along augmenting paths (Berge, Proceedings of
    the National Academy of Sciences 43, 1957) until no more fit. So the result does not depend on
    the order of the rows, and a row that could have a partner has none only if all are taken.

    Args:
        pairs: Possible pairs, ``[pairs, 2]`` integers: a row, and a row of the other side.
        closeness: The larger, the sooner is a pair taken.
        count: Rows.
        others: Rows of the other side.

    Returns:
        Each row's partner; -1 for none.
    """
    partner, taken = np.full(count, -1), np.full(others, -1)
    for place in np.argsort(-closeness, kind="stable"):
        row, other = pairs[place]
        if partner[row] < 0 and taken[other] < 0:
            partner[row], taken[other] = other, row
    _augment(pairs, partner, taken)
    return partner


def _augment(pairs: NumpyArray, partner: NumpyArray, taken: NumpyArray) -> None:
    """Give partners to rows that have none, where others can take another one instead."""
    lonely = [int(row) for row in np.unique(pairs[:, 0]) if partner[row] < 0]
    if not lonely or ((taken[pairs[:, 1]] >= 0).all() and not (taken < 0).any()):
        return
    possible: dict[int, list[int]] = {}
    for row, other in pairs.tolist():
        possible.setdefault(row, []).append(other)
    seen: set[int] = set()  # what led nowhere leads nowhere until a path is found
    for start in lonely:
        path = _path(start, possible, taken, seen)
        for row, other in path:
            partner[row], taken[other] = other, row
        if path:
            seen.clear()


def _path(
    start: int, possible: dict[int, list[int]], taken: NumpyArray, seen: set[int]
) -> list[tuple[int, int]]:
    """The exchanges that give ``start`` a partner; none where that is impossible."""
    path: list[tuple[int, int]] = []
    ahead = [(start, iter(possible[start]))]
    while ahead:
        row, others = ahead[-1]
        other = next((one for one in others if one not in seen), None)
        if other is None:
            ahead.pop()
            if path:
                path.pop()
            continue
        seen.add(other)
        path.append((row, other))
        if taken[other] < 0:
            return path
        ahead.append((int(taken[other]), iter(possible[int(taken[other])])))
    return []
