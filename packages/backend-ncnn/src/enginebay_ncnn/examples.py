"""Inputs to try a model with: made ones, and the caller's for a model that takes none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors import NumpyArray
    from enginebay_ncnn.shapes import InputShape


def trials(
    samples: Sequence[Mapping[str, NumpyArray]], shapes: Sequence[InputShape]
) -> list[dict[str, NumpyArray]]:
    """Inputs by name, in the order in which to try them.

    The caller's come last: the artifact is verified with them, and what depends on numbers that it
    should not depend on shows with others.

    Args:
        samples: The caller's. One is left out where a size is not the one that pnnx is told.
        shapes: The names, dtypes and sizes that are wanted.
    """
    wanted = [(shape.dtype, shape.smallest) for shape in shapes]
    given = [{shape.name: sample[shape.name] for shape in shapes} for sample in samples]
    fitting = [
        arrays
        for arrays in given
        if [(array.dtype.name, array.shape) for array in arrays.values()] == wanted
    ]
    return [*draw(shapes), *fitting]


def draw(shapes: Sequence[InputShape]) -> list[dict[str, NumpyArray]]:
    """Inputs by name, several of which the first that the model takes is as good as any.

    Floats are of order one. Integers are ones and zeros, which any table and any mask takes; where
    a table is looked up with differences, as of the corners of boxes, ones behind zeros fit, or
    ones alone.
    """
    drawn = {shape.name: _drawn(shape) for shape in shapes}
    integers = {name: array for name, array in drawn.items() if array.dtype.kind != "f"}
    if not integers:
        return [drawn]
    ordered = {name: np.sort(array) if array.ndim else array for name, array in integers.items()}
    alike = {name: np.ones_like(array) for name, array in integers.items()}
    return [drawn, drawn | ordered, drawn | alike]


def _drawn(shape: InputShape) -> NumpyArray:
    rng = np.random.default_rng(0)
    if shape.dtype in ("float32", "float16"):
        return rng.standard_normal(shape.smallest).astype(shape.dtype)
    return (rng.random(shape.smallest) < 0.75).astype(shape.dtype)
