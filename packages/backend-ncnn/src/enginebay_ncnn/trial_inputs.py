"""Inputs to run a model with for the first time: random ones, then the caller's samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors import NumpyArray
    from enginebay_ncnn.shapes import InputShape


def trial_inputs(
    samples: Sequence[Mapping[str, NumpyArray]], shapes: Sequence[InputShape]
) -> list[dict[str, NumpyArray]]:
    """Return inputs by name, in the order in which to try them.

    The caller's samples come last: the artifact is verified with them, and a conversion that is
    right for these numbers only shows with others.

    Args:
        samples: The caller's samples. Those of other sizes than pnnx converts for are left out.
        shapes: The names, dtypes and sizes of the inputs.
    """
    wanted = [(shape.dtype, shape.smallest) for shape in shapes]
    given = [{shape.name: sample[shape.name] for shape in shapes} for sample in samples]
    fitting = [
        arrays
        for arrays in given
        if [(array.dtype.name, array.shape) for array in arrays.values()] == wanted
    ]
    return [*_random_inputs(shapes, fitting), *fitting]


def _random_inputs(
    shapes: Sequence[InputShape], samples: Sequence[Mapping[str, NumpyArray]]
) -> list[dict[str, NumpyArray]]:
    """Return up to three sets of random inputs, for a model that does not accept the first.

    Floats are of order one. Integers are between the caller's least and greatest; where these are
    a mask, or not known, they are ones and zeros, valid indices of any table and values of any
    mask. Some models look up differences, such as the corners of boxes, which must not be negative:
    the second set is in order, the third has only ones.
    """
    mixed = {shape.name: _random(shape, [each[shape.name] for each in samples]) for shape in shapes}
    integers = {name: array for name, array in mixed.items() if array.dtype.kind != "f"}
    if not integers:
        return [mixed]
    ordered = {name: np.sort(array) if array.ndim else array for name, array in integers.items()}
    ones = {name: np.ones_like(array) for name, array in integers.items()}
    return [mixed, mixed | ordered, mixed | ones]


def _random(shape: InputShape, given: Sequence[NumpyArray]) -> NumpyArray:
    rng = np.random.default_rng(0)
    if shape.dtype in ("float32", "float16"):
        return np.asarray(rng.standard_normal(shape.smallest), shape.dtype)
    numbers = [number for each in given if each.size for number in (each.min(), each.max())]
    if numbers and not {*numbers} <= {0, 1}:
        return np.asarray(
            rng.integers(min(numbers), max(numbers), shape.smallest, endpoint=True), shape.dtype
        )
    ones = np.asarray(rng.random(shape.smallest) < 0.75)  # a scalar would be no array
    if ones.size > 1:
        ones.flat[-1] = False  # a mask of ones alone would hide what is done with it
    return ones.astype(shape.dtype)
