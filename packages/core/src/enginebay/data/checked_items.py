"""A data set whose items are checked against a model's inputs whenever they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from enginebay.data.data_set import DataSet
    from enginebay.data.items import Item
    from enginebay.tensors import NumpyArray, TensorSpec


class CheckedItems:
    """The inputs of a data set's items, checked against a model's inputs whenever they are read.

    They calibrate an engine, so infinity is refused.

    Args:
        data: The data set.
        inputs: The specs of the model's inputs.
        unused: Names of further inputs that an item may have, which are dropped.
    """

    def __init__(
        self, data: DataSet, inputs: Sequence[TensorSpec], unused: Iterable[str] = ()
    ) -> None:
        self._data = data
        self._inputs = tuple(inputs)
        self._unused = frozenset(unused)

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._data)

    def __iter__(self) -> Iterator[dict[str, NumpyArray]]:
        """Iterate over the inputs of each item."""
        for item in self._data.items(self._inputs, self._unused):
            self._check_finite(item)
            yield item.inputs

    def _check_finite(self, item: Item) -> None:
        """Raise InputError if an input contains infinity, and is no mask of 0 and -inf."""
        import numpy as np

        for name, values in item.inputs.items():
            if values.dtype.kind != "f" or not (infinite := np.isinf(values)).any():
                continue
            # A mask that is added to attention scores.
            if (np.isneginf(values) | (values == 0)).all():
                continue
            position = [int(axis) for axis in np.argwhere(infinite)[0]]
            raise InputError(
                f"item {item.number} of {self._data.description}: input '{name}' contains "
                f"{values[tuple(position)]} at {position}, and calibration requires finite values",
                hint="replace infinity by a finite number; only a mask of 0 and -inf is accepted",
            )

    def check_varied(self) -> None:
        """Raise InputError if no float input has two different values: calibration needs ranges."""
        values: dict[str, Any] = {}
        for name, array in (pair for inputs in self for pair in inputs.items()):
            # "V" is the kind of ml_dtypes' bfloat16 and float8.
            if array.dtype.kind not in "fV" or not array.size:
                continue
            if (array != values.setdefault(name, array.flat[0])).any():
                return
        if constants := ", ".join(f"'{name}' is {value}" for name, value in values.items()):
            raise InputError(
                f"{self._data.description} cannot be used for calibration: every input "
                f"is constant: {constants}",
                hint="pass data that resembles the inputs in production",
            )
