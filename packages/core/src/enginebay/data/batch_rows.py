"""Conversion of data set items to the batch size of a model, if that is 1 or dynamic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from enginebay.tensors import NumpyArray, TensorSpec


def detect_batch_form(
    first: Mapping[str, NumpyArray], target: object, inputs: Sequence[TensorSpec]
) -> str:
    """Detect from the first item how items must be adapted to the model's batch size.

    Returns:
        ``rows`` if the items have no batch axis, and the model's batch size is 1 or dynamic.
        ``batches`` if the items are batches that must be split: the model's batch size is 1, or the
        batch size is dynamic and the first item has one target per row.
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
    is_split = sizes == {1} or (is_open and getattr(target, "shape", ())[:1] in lengths)
    return "batches" if is_batch and is_split else ""


def split_batches(
    batches: Iterable[tuple[dict[str, NumpyArray], Any]],
) -> Iterator[tuple[dict[str, NumpyArray], object]]:
    """Split batches: yield the inputs and the target of each row, as a batch of size 1."""
    for inputs, target in batches:
        for row in range(min(map(len, inputs.values()))):
            values = {name: array[row : row + 1] for name, array in inputs.items()}
            yield values, target[row] if getattr(target, "shape", ()) else target
