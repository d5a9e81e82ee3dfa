"""Inputs of another batch: rows of the given ones, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


def with_batch(
    inputs: Mapping[str, NumpyArray], specs: Sequence[TensorSpec], batch: int
) -> dict[str, NumpyArray]:
    """Stack rows of inputs along the batch: the open first dimension, and all of its name.

    Args:
        inputs: The inputs by name.
        specs: What the model takes.
        batch: How many rows.

    Raises:
        UsageError: The first dimension is fixed, at another size.
    """
    names = {spec.dims[0] for spec in specs if spec.dims and isinstance(spec.dims[0], str)}
    axes = {spec.name: _axis(spec, names) for spec in specs}
    if all(axis is None for axis in axes.values()):
        if size(inputs) == batch:
            return dict(inputs)
        raise _fixed(specs)
    return {
        name: array if (axis := axes.get(name)) is None else _repeated(array, axis, batch)
        for name, array in inputs.items()
    }


def size(inputs: Mapping[str, NumpyArray]) -> int:
    """The items of a call: the length of the first input's first axis, 1 where it has one axis."""
    first = next(iter(inputs.values()), None)
    return 1 if first is None or first.ndim < 2 else len(first)


def _axis(spec: TensorSpec, names: set[str]) -> int | None:
    if spec.dims is None:  # not even the rank is known: the engine may take it
        return 0
    return next((axis for axis, dim in enumerate(spec.dims) if dim in names), None)


def _repeated(array: NumpyArray, axis: int, batch: int) -> NumpyArray:
    if not array.shape[axis]:
        raise UsageError("the inputs have no rows to make a batch of", hint="add --input")
    stacked: NumpyArray = np.take(array, np.arange(batch) % array.shape[axis], axis=axis)
    return stacked


def _fixed(specs: Sequence[TensorSpec]) -> UsageError:
    first = next((spec for spec in specs if spec.dims), None)
    if first is None:
        return UsageError("the batch is fixed: no input has dimensions")
    shape = "x".join(map(str, (first.dims or ())[1:]))
    low, high = (f"{first.name}:{size}{'x' if shape else ''}{shape}" for size in (1, 8))
    return UsageError(
        f"the batch is fixed: the model takes {first.describe()}",
        hint=f"deploy it with an open one: --min-shapes {low} --max-shapes {high}",
    )
