"""Which row of a baseline is about the same cell as a row of a sweep."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from enginebay_lab.sweeps.sweep_rows import SweepRow


class Pairs(NamedTuple):
    """The rows of a sweep and of its baseline, beside each other.

    Attributes:
        same: A row of the sweep and the baseline's of the same cell.
        new: Rows of the sweep whose cells the baseline does not have.
        gone: Rows of the baseline whose cells the sweep does not have.
    """

    same: list[tuple[SweepRow, SweepRow]]
    new: list[SweepRow]
    gone: list[SweepRow]


def pair_rows(rows: Sequence[SweepRow], baseline: Sequence[SweepRow]) -> Pairs:
    """Pair what is the same cell, by its key, else by what it deploys.

    Keys differ where only the time limit does, say, and a model may have an absolute path on one
    machine. What several rows of one side could be paired with is paired with none.
    """
    found = Pairs([], list(rows), list(baseline))
    _pair(found, lambda row: row.key, lambda _one, _other: True)
    _pair(found, lambda row: (row.model, *_engine(row)), lambda _one, _other: True)
    _pair(found, lambda row: (PurePosixPath(row.model).name, *_engine(row)), _is_moved)
    order = {row.key: number for number, row in enumerate(rows)}
    found.same.sort(key=lambda pair: order[pair[0].key])
    return found


def _pair(
    found: Pairs,
    identity: Callable[[SweepRow], Hashable],
    alike: Callable[[SweepRow, SweepRow], bool],
) -> None:
    """Move rows of the same identity to the pairs, each with the only one that it is like."""
    groups: dict[Hashable, list[SweepRow]] = {}
    for row in found.gone:
        groups.setdefault(identity(row), []).append(row)
    candidates = {
        row.key: [other for other in groups.get(identity(row), ()) if alike(row, other)]
        for row in found.new
    }
    wanted = Counter(other.key for others in candidates.values() for other in others)
    paired = [
        (row, others[0])
        for row in found.new
        if len(others := candidates[row.key]) == 1 and wanted[others[0].key] == 1
    ]
    found.same.extend(paired)
    ours, theirs = ({pair[side].key for pair in paired} for side in (0, 1))
    found.new[:] = [row for row in found.new if row.key not in ours]
    found.gone[:] = [row for row in found.gone if row.key not in theirs]


def _engine(row: SweepRow) -> tuple[Hashable, ...]:
    return row.backend, row.precision, msgspec.json.encode(row.params, order="deterministic")


def _is_moved(one: SweepRow, other: SweepRow) -> bool:
    """True where a path may be the other one as seen from another folder or machine."""
    paths = PurePosixPath(one.model), PurePosixPath(other.model)
    short, long = sorted(paths, key=PurePosixPath.is_absolute)
    if not long.is_absolute():
        return False
    return short.is_absolute() or long.parts[-len(short.parts) :] == short.parts
