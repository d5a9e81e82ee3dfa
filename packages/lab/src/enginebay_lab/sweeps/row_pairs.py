"""Pairs the rows of a sweep with a baseline's rows of the same models and backends."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from enginebay_lab.sweeps.sweep_rows import SweepRow


class RowPairs(NamedTuple):
    """The rows of a sweep, paired with those of an earlier sweep (baseline); and unpaired rows.

    Both rows of a pair are about the same model, backend, precision and parameters.

    Attributes:
        same: The pairs: the sweep's row and the baseline's row.
        new: Rows of the sweep without a pair.
        gone: Rows of the baseline without a pair.
    """

    same: list[tuple[SweepRow, SweepRow]]
    new: list[SweepRow]
    gone: list[SweepRow]


def pair_rows(rows: Sequence[SweepRow], baseline: Sequence[SweepRow]) -> RowPairs:
    """Pair the rows that have equal keys, then those with equal models, backends and settings.

    A row with several matches is not paired.
    """
    pairs = RowPairs([], list(rows), list(baseline))
    _pair_unique(pairs, lambda row: row.key, lambda _row, _before: True)
    # Keys differ even if only the time limit differs.
    _pair_unique(pairs, lambda row: (row.model, *_engine_key(row)), lambda _row, _before: True)
    # The path of a model may be absolute on one of two machines only.
    _pair_unique(
        pairs, lambda row: (PurePosixPath(row.model).name, *_engine_key(row)), _may_be_same_path
    )
    order = {row.key: number for number, row in enumerate(rows)}
    pairs.same.sort(key=lambda pair: order[pair[0].key])
    return pairs


def _pair_unique(
    pairs: RowPairs,
    identity: Callable[[SweepRow], Hashable],
    is_match: Callable[[SweepRow, SweepRow], bool],
) -> None:
    """Move matching rows from ``pairs.new`` and ``pairs.gone`` to ``pairs.same``.

    Two rows match if they have the same ``identity`` and ``is_match`` returns true for them. A row
    that matches several rows is not moved.
    """
    groups: dict[Hashable, list[SweepRow]] = {}
    for row in pairs.gone:
        groups.setdefault(identity(row), []).append(row)
    matches = {
        row.key: [before for before in groups.get(identity(row), ()) if is_match(row, before)]
        for row in pairs.new
    }
    counts = Counter(before.key for group in matches.values() for before in group)
    paired = [
        (row, group[0])
        for row in pairs.new
        if len(group := matches[row.key]) == 1 and counts[group[0].key] == 1
    ]
    pairs.same.extend(paired)
    ours, theirs = ({pair[side].key for pair in paired} for side in (0, 1))
    pairs.new[:] = [row for row in pairs.new if row.key not in ours]
    pairs.gone[:] = [row for row in pairs.gone if row.key not in theirs]


def _engine_key(row: SweepRow) -> tuple[Hashable, ...]:
    return row.backend, row.precision, msgspec.json.encode(row.params, order="deterministic")


def _may_be_same_path(row: SweepRow, before: SweepRow) -> bool:
    """Return true if two rows' models may be the same file, on two machines or in two folders."""
    paths = PurePosixPath(row.model), PurePosixPath(before.model)
    short, long = sorted(paths, key=PurePosixPath.is_absolute)
    if not long.is_absolute():
        return False
    return short.is_absolute() or long.parts[-len(short.parts) :] == short.parts
