"""One-to-one matching of two sets of rows: the pairs that may match, and a maximum matching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.tensors import NumpyArray

#: The number of pairs in one array; with the arrays computed from it, about 100 MiB.
_MAX_PAIRS_PER_CHUNK = 1 << 20


def touching(
    low: NumpyArray, high: NumpyArray, others_low: NumpyArray, others_high: NumpyArray
) -> Iterator[NumpyArray]:
    """Yield all pairs of touching intervals from two lists, and a few pairs that do not touch.

    Sorting avoids comparing each interval with all intervals of the other list.

    Args:
        low: The lower bounds of the first list's intervals.
        high: The upper bounds of the first list's intervals.
        others_low: The lower bounds of the second list's intervals.
        others_high: The upper bounds of the second list's intervals.

    Yields:
        Chunks of the pairs, as integers of shape ``[pairs, 2]``: an index into the first list, and
        an index into the second list.

    Example:
        >>> low, high = np.array([0.0, 5.0]), np.array([1.0, 6.0])
        >>> [pairs.tolist() for pairs in touching(low, high, low, high)]
        [[[0, 0], [1, 1]]]
    """
    order = np.argsort(others_low, kind="stable")
    starts = others_low[order]
    # No interval that starts earlier than ``low - longest`` reaches ``low``.
    longest = float((others_high - others_low).max(initial=0.0))
    first = np.searchsorted(starts, low - longest, "left")
    counts = np.maximum(np.searchsorted(starts, high, "right") - first, 0)
    ends = np.cumsum(counts)
    start = 0
    while start < len(low):
        limit = (int(ends[start - 1]) if start else 0) + _MAX_PAIRS_PER_CHUNK
        # At least one row, even if it alone has more pairs than a chunk.
        stop = max(int(np.searchsorted(ends, limit, "right")), start + 1)
        chunk = counts[start:stop]
        rows = np.repeat(np.arange(start, stop), chunk)
        steps = np.arange(len(rows)) - np.repeat(np.cumsum(chunk) - chunk, chunk)
        yield np.stack([rows, order[first[rows] + steps]], axis=1)
        start = stop


def assign(pairs: NumpyArray, closeness: NumpyArray, count: int, others: int) -> NumpyArray:
    """Match the rows of two sets one to one, with as many matches as possible.

    The closest pairs are chosen first, and then exchanged along augmenting paths (Berge,
    Proceedings of the National Academy of Sciences 43, 1957) until no row can be added. Therefore
    the number of matches does not depend on the order of the rows.

    Args:
        pairs: The pairs that may match, as integers of shape ``[pairs, 2]``: the index of a row of
            the first set, and the index of a row of the second set.
        closeness: A number for each pair; pairs with larger numbers are chosen first.
        count: Number of rows in the first set.
        others: Number of rows in the second set.

    Returns:
        For each row of the first set, the index of its match in the second set, or -1.
    """
    partner, taken = np.full(count, -1), np.full(others, -1)
    for number in np.argsort(-closeness, kind="stable"):
        row, other = pairs[number]
        if partner[row] < 0 and taken[other] < 0:
            partner[row], taken[other] = other, row
    _augment(pairs, partner, taken)
    return partner


def _augment(pairs: NumpyArray, partner: NumpyArray, taken: NumpyArray) -> None:
    """Match further rows along augmenting paths; change ``partner`` and ``taken`` in place.

    ``partner`` has the match of each row of the first set, ``taken`` that of the second set.
    """
    unmatched = [int(row) for row in np.unique(pairs[:, 0]) if partner[row] < 0]
    # No path exists if all rows of one set have a match.
    if not unmatched or ((taken[pairs[:, 1]] >= 0).all() and not (taken < 0).any()):
        return
    candidates: dict[int, list[int]] = {}
    for row, other in pairs.tolist():
        candidates.setdefault(row, []).append(other)
    # A search that failed would fail again until another path changes the matching.
    seen: set[int] = set()
    for start in unmatched:
        path = _find_augmenting_path(start, candidates, taken, seen)
        for row, other in path:
            partner[row], taken[other] = other, row
        if path:
            seen.clear()


def _find_augmenting_path(
    start: int, candidates: dict[int, list[int]], taken: NumpyArray, seen: set[int]
) -> list[tuple[int, int]]:
    """Return the pairs of an augmenting path from the row ``start``; empty if there is none."""
    path: list[tuple[int, int]] = []
    # Depth-first search with a stack, since a path may be longer than Python's recursion limit.
    stack = [(start, iter(candidates[start]))]
    while stack:
        row, others = stack[-1]
        other = next((candidate for candidate in others if candidate not in seen), None)
        if other is None:
            stack.pop()
            if path:
                path.pop()
            continue
        seen.add(other)
        path.append((row, other))
        if taken[other] < 0:
            return path
        stack.append((int(taken[other]), iter(candidates[int(taken[other])])))
    return []
