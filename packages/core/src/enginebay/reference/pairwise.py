"""Combinations of levels in which each two levels of different factors meet."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from enginebay.reference.probes import Level

    #: The pairs of (factor, level) that no combination has had yet, as keys in their order.
    Pairs: TypeAlias = dict[frozenset[tuple[str, Level]], None]


def cover_pairs(
    factors: Mapping[str, Sequence[Level]], covered: Iterable[Mapping[str, Level]] = ()
) -> Iterator[dict[str, Level]]:
    """Yield combinations of one level of each factor, until each pair of levels has been in one.

    Each combination has as many new pairs as a greedy choice finds, and of equal choices the level
    that comes first. So the first combinations, which may be all that a budget allows, cover most.
    A single factor has no pairs: then each of its levels is yielded.

    Args:
        factors: Name of a factor → its levels, the cheapest first.
        covered: Combinations that have been tried before.

    Example:
        >>> for row in cover_pairs({"mask": ["ones", "holes"], "batch": [1, 3]}):
        ...     print(row)
        {'mask': 'ones', 'batch': 1}
        {'mask': 'ones', 'batch': 3}
        {'mask': 'holes', 'batch': 1}
        {'mask': 'holes', 'batch': 3}
    """
    singles = [frozenset({(name, level)}) for name in factors for level in factors[name]]
    pairs = [
        frozenset({(left, a), (right, b)})
        for left, right in combinations(factors, 2)
        for a in factors[left]
        for b in factors[right]
    ]
    missing = dict.fromkeys(singles if len(factors) == 1 else pairs)
    for row in covered:
        _remove_pairs(missing, row)
    while missing:
        row = dict(next(iter(missing)))
        for name, levels in factors.items():
            if name not in row:
                row[name] = max(levels, key=partial(_count_new, missing, row, name))
        _remove_pairs(missing, row)
        yield {name: row[name] for name in factors}


def _count_new(missing: Pairs, row: Mapping[str, Level], name: str, level: Level) -> int:
    return sum(frozenset({(name, level), item}) in missing for item in row.items())


def _remove_pairs(missing: Pairs, row: Mapping[str, Level]) -> None:
    for item in row.items():
        missing.pop(frozenset({item}), None)
    for pair in combinations(row.items(), 2):
        missing.pop(frozenset(pair), None)
