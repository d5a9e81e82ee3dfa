"""Compares an artifact's outputs with PyTorch's, by decisions (such as the argmax) and distance.

An integer or boolean output is a decision. A floating-point output of shape ``[..., classes]`` with
at least two classes has a decision: the argmax over its last axis. Other outputs have no decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay_lab.evaluation.item_reader import stack_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray

    #: The outputs of one item, or of several stacked items, by name.
    Arrays = Mapping[str, NumpyArray]


def compare_items(
    outputs: Sequence[Arrays], expected: Sequence[Arrays]
) -> tuple[NumpyArray, NumpyArray]:
    """Compare the artifact's outputs with PyTorch's for each item.

    Args:
        outputs: The artifact's outputs by name, for each item.
        expected: PyTorch's outputs by name, for each item.

    Returns:
        Two arrays. The first has a bool for each item with a decision: True if all decisions of the
        item equal PyTorch's. The second has a float for each item: the distance
        ``|outputs - expected| / |expected|`` (Euclidean norm over all outputs), which is infinite
        if an output is missing or has a different shape.
    """
    if len(outputs) > 1 and not (_have_same_shapes(outputs) and _have_same_shapes(expected)):
        # Arrays of different shapes cannot be stacked, so the items are compared one by one.
        pairs = [
            compare_items([one], [other]) for one, other in zip(outputs, expected, strict=True)
        ]
        agreed, distances = zip(*pairs, strict=True)
        return np.concatenate(agreed), np.concatenate(distances)
    decisions, distance = _compare_stacked(
        stack_arrays(outputs), stack_arrays(expected), len(outputs)
    )
    return np.zeros(0, bool) if decisions is None else decisions, distance


def _have_same_shapes(outputs: Sequence[Arrays]) -> bool:
    shapes = [[(array.shape, array.dtype) for array in arrays.values()] for arrays in outputs]
    return all(shape == shapes[0] for shape in shapes)


def _compare_stacked(
    outputs: Arrays, expected: Arrays, count: int
) -> tuple[NumpyArray | None, NumpyArray]:
    """Compare outputs that are stacked along a new first axis, one entry for each item.

    Return the two arrays of :func:`compare_items`; the first is None if no output has a decision.
    """
    agreed: NumpyArray | None = None
    noise, power = np.zeros(count), np.zeros(count)
    for name, right in expected.items():
        left = outputs.get(name)
        if left is None or left.shape != right.shape:
            return np.zeros(count, bool), np.full(count, np.inf)
        decisions = _compare_decisions(left, right)
        if decisions is not None:
            agreed = decisions if agreed is None else agreed & decisions
        with np.errstate(invalid="ignore", over="ignore"):
            difference = left.astype(np.float64) - right.astype(np.float64)
            # inf - inf is NaN, but equal infinities have no distance.
            difference = np.where(left == right, 0.0, difference)
            # An infinite output would make every distance 0.
            finite = np.where(np.isfinite(right), right, 0).astype(np.float64)
            noise += _sum_squares(difference)
            power += _sum_squares(finite)
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(noise > 0, np.sqrt(noise / power), 0.0)
    return agreed, np.where(np.isnan(noise), np.inf, distances)  # NaN: farther than any number


def _compare_decisions(left: NumpyArray, right: NumpyArray) -> NumpyArray | None:
    count = len(right)
    if right.dtype.kind in "biu":
        same = left == right
    elif right.ndim > 1 and right.shape[-1] > 1 and right.dtype.kind in "fV":  # V: bfloat16
        same = (left.argmax(-1) == right.argmax(-1)) & ~np.isnan(left).any(-1)
    else:
        return None
    agreed: NumpyArray = same.reshape(count, -1).all(-1)
    return agreed


def _sum_squares(values: NumpyArray) -> NumpyArray:
    """Return one sum of squares for each index along the first axis."""
    # In C order: NumPy's order of additions, and so the last digits, depend on the memory layout.
    rows = np.ascontiguousarray(values).reshape(len(values), -1)
    total: NumpyArray = np.square(rows).sum(-1)
    return total
