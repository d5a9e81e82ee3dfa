"""Make inputs for the first run of a model: random inputs, then the caller's samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray
    from enginebay_ncnn.shapes import InputShape


def make_trial_inputs(
    samples: Sequence[Mapping[str, NumpyArray]], shapes: Sequence[InputShape]
) -> list[dict[str, NumpyArray]]:
    """Return input sets in the order in which to try them: random inputs, then the samples.

    The random inputs come first, because the artifact is later verified with the samples: other
    inputs can reveal a conversion that is correct for the samples only.

    Args:
        samples: The caller's samples; a sample whose sizes differ from ``shapes`` is skipped.
        shapes: The names, dtypes and sizes of the inputs.
    """
    expected = [(shape.dtype, shape.smallest) for shape in shapes]
    ordered = [{shape.name: sample[shape.name] for shape in shapes} for sample in samples]
    fitting = [
        arrays
        for arrays in ordered
        if [(array.dtype.name, array.shape) for array in arrays.values()] == expected
    ]
    return [*_make_random_inputs(shapes, fitting), *fitting]


def _make_random_inputs(
    shapes: Sequence[InputShape], samples: Sequence[Mapping[str, NumpyArray]]
) -> list[dict[str, NumpyArray]]:
    """Return one set of random inputs, or three sets if an input has integers or booleans.

    Integers are in the range of those in ``samples``; if ``samples`` has only 0 and 1 or none, they
    are 0 and 1. Some models reject the integers of the first set.
    """
    mixed = {
        shape.name: _make_random_array(shape, [sample[shape.name] for sample in samples])
        for shape in shapes
    }
    integers = {name: array for name, array in mixed.items() if array.dtype.kind != "f"}
    if not integers:
        return [mixed]
    # Some models use differences of inputs as indices, such as the widths of boxes, which must not
    # be negative: sorted integers or equal integers have no negative differences.
    ordered = {name: np.sort(array) if array.ndim else array for name, array in integers.items()}
    ones = {name: np.ones_like(array) for name, array in integers.items()}
    return [mixed, mixed | ordered, mixed | ones]


def _make_random_array(shape: InputShape, samples: Sequence[NumpyArray]) -> NumpyArray:
    rng = np.random.default_rng(0)
    if shape.dtype in ("float32", "float16"):
        return np.asarray(rng.standard_normal(shape.smallest), shape.dtype)
    numbers = [
        number for sample in samples if sample.size for number in (sample.min(), sample.max())
    ]
    if numbers and not {*numbers} <= {0, 1}:
        return np.asarray(
            rng.integers(min(numbers), max(numbers), shape.smallest, endpoint=True), shape.dtype
        )
    # Unknown integers, and masks: zeros and ones are valid as indices of any table and as masks.
    ones = np.asarray(rng.random(shape.smallest) < 0.75)  # for a scalar, < returns a bool
    if ones.size > 1:
        ones.flat[-1] = False  # a mask of ones alone would have no effect
    return ones.astype(shape.dtype)
