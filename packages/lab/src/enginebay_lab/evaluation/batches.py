"""Items of artifacts that accept only whole batches: the rows of a batch are the items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors.sources import Item, split_batches
from enginebay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from enginebay import DataSet, TensorSpec
    from enginebay.authors.arrays import NumpyArray

    #: The outputs for each item, by name.
    Outputs = Sequence[Mapping[str, NumpyArray]]


def fixed_batch_size(inputs: Sequence[TensorSpec]) -> int:
    """Return the fixed size, larger than 1, of the first axis of all inputs; 0 without one."""
    sizes = {spec.dims[0] if spec.dims else 0 for spec in inputs}
    size = sizes.pop() if len(sizes) == 1 else 0
    return size if isinstance(size, int) and size > 1 else 0


def describe_whole_batches(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> str:
    """Return a note if rows of a fixed batch cannot be items, since an output has no batch axis."""
    size = fixed_batch_size(inputs)
    whole = [f"'{spec.name}'" for spec in outputs if spec.dims and spec.dims[0] != size]
    whole += [f"'{spec.name}'" for spec in outputs if spec.dims == ()]
    if not size or not whole:
        return ""
    return f"an item is a whole batch of {size}, as {', '.join(whole)} has no batch axis"


def read_items(data: DataSet, inputs: Sequence[TensorSpec]) -> Iterator[Item]:
    """Yield the items of a data set; an error about a shape says how to read fixed batches."""
    try:
        yield from data.items(inputs)
    except InputError as err:
        size = fixed_batch_size(inputs)
        if size and "dimension" in str(err):
            hint = f"the artifacts accept batches of {size}: batch_size={size}, drop_last=True"
            err.hint = f"{hint}; or {err.full_hint}" if err.full_hint else hint
        raise


def split_items(
    items: Sequence[Item], outputs: Outputs, expected: Outputs | None
) -> tuple[Sequence[Item], Outputs, Outputs | None]:
    """Split items that are batches into one item for each row, if all outputs have the batch axis.

    Args:
        items: The items; all have inputs of equal shapes.
        outputs: The artifact's outputs, for each item.
        expected: PyTorch's outputs, for each item; None without a model.

    Returns:
        The three arguments, with an entry for each row, which has the number of its batch.
    """
    sizes = {array.shape[0] if array.ndim else 0 for array in items[0].inputs.values()}
    count = sizes.pop() if len(sizes) == 1 else 0
    arrays = [array for item in (*outputs, *(expected or ())) for array in item.values()]
    if count < 2 or any(array.shape[:1] != (count,) for array in arrays):
        return items, outputs, expected
    rows = [
        Item(item.number, inputs, target)
        for item in items
        for inputs, target in split_batches([(item.inputs, item.target)])
    ]
    return rows, _split(outputs), None if expected is None else _split(expected)


def _split(outputs: Outputs) -> Outputs:
    return [row for row, _ in split_batches((arrays, None) for arrays in outputs)]
