"""The decisions of a model that recorded samples have taken, for the basis of a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay.tensors import equal_arrays, is_float
from enginebay.verdict import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from enginebay.comparators import Comparator
    from enginebay.state import TakenSides
    from enginebay.tensors import NumpyArray, Sample

#: The number of missing sides that a record names.
_MAX_NAMED = 5

#: The largest number of columns of an output that are asked one by one.
_MAX_COLUMNS = 4096


def find_decisions(
    samples: Sequence[Sample],
    runs: Sequence[Mapping[str, TakenSides]],
    comparators: Sequence[Comparator] = (),
) -> tuple[Decision, ...]:
    """Return the decisions of a model, with what the samples have taken.

    Choices and rows are always returned, other decisions only if a side of theirs is missing.
    Nothing is returned if no output changes: then the verdict has a reason of its own.

    Args:
        samples: The samples.
        runs: For each sample, which sides the model took on it.
        comparators: Comparators of outputs, which are left out.
    """
    from enginebay.state import merge_sides

    first, *others = (sample.outputs for sample in samples if sample.kind != "non_finite")
    if all(equal_arrays(first, other) for other in others):
        return ()
    merged = merge_sides(runs)
    inner = [*_find_inner(merged)]
    returned = {sides.output for sides in merged.values()}
    known = {decision.output for decision in inner}
    known |= {name for comparator in comparators for name in comparator.outputs}
    found = []
    for name, array in first.items():
        if name in known or (is_float(array) and array.size):
            continue
        arrays = [array, *(other[name] for other in others)]
        if all(np.array_equal(array, other) for other in arrays):
            found.append(Decision(kind="value", output=name))
        elif name in returned:
            found += _find_columns(name, arrays)
    return (*inner, *found)


def _find_columns(name: str, arrays: Sequence[NumpyArray]) -> Iterator[Decision]:
    """Yield how many columns of an output change, unless all or none of them do."""
    first = arrays[0]
    axis = 1 if first.ndim > 3 else first.ndim - 1
    if first.ndim < (1 if first.dtype == np.bool_ else 2):
        return
    count = first.shape[axis]
    if count > _MAX_COLUMNS or any(array.shape[axis] != count for array in arrays):
        return
    rows = np.concatenate([np.moveaxis(array, axis, -1).reshape(-1, count) for array in arrays])
    fixed = np.flatnonzero((rows == rows[:1]).all(0)) if len(rows) else np.arange(0)
    if 0 < fixed.size < count:
        yield Decision(
            kind="column",
            output=name,
            count=count,
            taken=count - fixed.size,
            missing=tuple(
                f"{column} is always {rows[0, column]}" for column in fixed[:_MAX_NAMED].tolist()
            ),
        )


def _find_inner(merged: Mapping[str, TakenSides]) -> Iterator[Decision]:
    """Yield the decisions inside the model, one for each line and kind: the least taken one."""
    groups: dict[tuple[str, str], list[Decision]] = {}
    for key, sides in merged.items():
        if not sides.used or not sides.taken.size or is_derived(sides, merged):
            continue
        place = sides.place or f"operator {key.split()[0]}"
        decision = _count_sides(place, sides)
        is_shown = sides.kind in ("choice", "row") or decision.taken < decision.count
        # Columns of an output, however many, are counted in the samples.
        if is_shown and not (sides.output and sides.kind == "condition"):
            groups.setdefault((place, decision.kind), []).append(decision)
    for (place, kind), group in groups.items():
        if kind == "condition" and len(group) > 1:
            total = sum(sides.kind == kind and sides.place == place for sides in merged.values())
            yield Decision(kind="condition", place=place, count=total, taken=total - len(group))
        else:
            yield max(group, key=lambda decision: decision.count - decision.taken)


def is_derived(sides: TakenSides, merged: Mapping[str, TakenSides]) -> bool:
    """Return True if a decision that is not fully taken explains why this one is not either."""
    parents = (merged[key] for key in sides.parents if key in merged)
    return any(parent.used and parent.missing for parent in parents)


def _count_sides(place: str, sides: TakenSides) -> Decision:
    taken = sides.taken
    if sides.kind == "suppression":
        return Decision(kind="suppression", place=place, taken=int(taken.all()))
    if sides.kind == "condition":
        if not taken.any(0).all() or len(taken) == 1:
            missing = ("True" if not taken[:, 1].any() else "False",)
            return Decision(
                kind="condition", place=place, taken=int(taken.any(0).all()), missing=missing
            )
        fixed = np.flatnonzero(~taken.all(1)).tolist()
        return Decision(
            kind="column",
            place=place,
            count=len(taken),
            taken=len(taken) - len(fixed),
            missing=tuple(f"{n} is always {not taken[n, 0]}" for n in fixed[:_MAX_NAMED]),
        )
    return Decision(
        kind="class" if sides.output else "row" if sides.kind == "row" else "choice",
        place=place,
        output=sides.output,
        count=taken.size,
        taken=int(taken.sum()),
        missing=tuple(str(n) for n in np.flatnonzero(~taken)[:_MAX_NAMED]),
    )
