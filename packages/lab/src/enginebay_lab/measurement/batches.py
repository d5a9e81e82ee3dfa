"""Changes the batch size of inputs by repeating or dropping the items of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray


def stack_batch(
    inputs: Mapping[str, NumpyArray], specs: Sequence[TensorSpec], batch: int
) -> dict[str, NumpyArray]:
    """Return inputs of a requested batch size: items of ``inputs`` are repeated or dropped.

    The batch axis of an input is its first dimension if this is dynamic. Otherwise, it is the
    dimension with the same name as the dynamic first dimension of another input. Inputs without
    such a dimension stay unchanged.

    Args:
        inputs: The arrays by input name.
        specs: The specs of the model's inputs.
        batch: The requested number of items along the batch axis.

    Raises:
        UsageError: No input has a dynamic first dimension, and the batch size of the inputs is not
            ``batch``; or an input has no items.
    """
    names = {spec.dims[0] for spec in specs if spec.dims and isinstance(spec.dims[0], str)}
    axes = {spec.name: _find_batch_axis(spec, names) for spec in specs}
    if all(axis is None for axis in axes.values()):
        if count_items(inputs) == batch:
            return dict(inputs)
        raise _fixed_batch_error(specs)
    return {
        name: array if (axis := axes.get(name)) is None else _repeat_rows(array, axis, batch)
        for name, array in inputs.items()
    }


def count_items(inputs: Mapping[str, NumpyArray]) -> int:
    """Return the number of items in a batch: the length of the first input's first axis.

    An input with fewer than two axes counts as one item.
    """
    first = next(iter(inputs.values()), None)
    return 1 if first is None or first.ndim < 2 else len(first)


def _find_batch_axis(spec: TensorSpec, names: set[str]) -> int | None:
    if spec.dims is None:  # not even the rank is known: the engine may accept any batch
        return 0
    return next((axis for axis, dim in enumerate(spec.dims) if dim in names), None)


def _repeat_rows(array: NumpyArray, axis: int, batch: int) -> NumpyArray:
    if not array.shape[axis]:
        raise UsageError(
            "the inputs have batch size 0, and cannot be repeated for a larger batch",
            hint="pass inputs with a batch size of at least 1: --input NAME=SPEC",
        )
    stacked: NumpyArray = np.take(array, np.arange(batch) % array.shape[axis], axis=axis)
    return stacked


def _fixed_batch_error(specs: Sequence[TensorSpec]) -> UsageError:
    first = next((spec for spec in specs if spec.dims), None)
    if first is None:
        return UsageError("the batch size is fixed: no input has dimensions")
    shape = "x".join(map(str, (first.dims or ())[1:]))
    low, high = (f"{first.name}:{size}{'x' if shape else ''}{shape}" for size in (1, 8))
    return UsageError(
        f"the batch size is fixed: the model takes {first.describe()}",
        hint=f"deploy the model with a dynamic batch size: --min-shapes {low} --max-shapes {high}",
    )
