"""Conversion of data set items to the batch size of a model, if that is 1 or dynamic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from enginebay.tensors import NumpyArray, TensorSpec


def detect_batch_form(
    first: Mapping[str, NumpyArray], target: object, inputs: Sequence[TensorSpec], split: str
) -> str:
    """Detect from the first item how items must be adapted to the model's batch size.

    Returns:
        ``rows`` if the items have no batch axis, and the model's batch size is 1 or dynamic.
        ``batches`` if the items are batches that must be split: the model's batch size is 1, or it
        is dynamic and ``split`` includes these batches.
        Otherwise "": the items fit as they are, or have a wrong shape.
    """
    shapes = [(first[spec.name].shape, spec.dims or ()) for spec in inputs]
    gaps = {len(shape) - len(dims) for shape, dims in shapes}
    sizes = {dims[0] if dims else 0 for _, dims in shapes}
    is_open = all(isinstance(size, str) for size in sizes)
    if gaps == {-1} and (sizes == {1} or is_open):
        return "rows"
    lengths = {shape[:1] for shape, _ in shapes}
    # A batch of size 1 fits already.
    is_batch = gaps == {0} and len(lengths) == 1 and lengths != {(1,)}
    is_labelled = getattr(target, "shape", ())[:1] in lengths
    is_chosen = split == "all" or (split == "labelled" and is_labelled)
    return "batches" if is_batch and (sizes == {1} or (is_open and is_chosen)) else ""


def split_batches(
    batches: Iterable[tuple[Mapping[str, NumpyArray], Any]],
) -> Iterator[tuple[dict[str, NumpyArray], Any]]:
    """Split batches: yield the arrays and the target of each row, as a batch of size 1.

    Args:
        batches: Pairs of a batch's arrays by name and its target: an array, or a dict, list or
            tuple of arrays with an entry per row, or a list with an entry per row.

    Example:
        >>> import numpy as np
        >>> batch = {"x": np.float32([[1], [2]])}, {"label": np.array([7, 8])}
        >>> [(row["x"].shape, int(target["label"])) for row, target in split_batches([batch])]
        [((1, 1), 7), ((1, 1), 8)]
    """
    for arrays, target in batches:
        count = min(map(len, arrays.values()))
        for row in range(count):
            values = {name: array[row : row + 1] for name, array in arrays.items()}
            yield values, _row_target(target, row, count)


def _row_target(target: Any, row: int, count: int) -> Any:
    if isinstance(target, dict):
        return {key: _row_target(value, row, count) for key, value in target.items()}
    if isinstance(target, list | tuple):
        if all(getattr(value, "shape", ())[:1] == (count,) for value in target):
            return type(target)(value[row] for value in target)
        return target[row] if len(target) == count else target
    return target[row] if getattr(target, "shape", ()) else target
