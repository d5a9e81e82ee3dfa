"""The verified range: the values and sizes of inputs in the samples that were compared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from enginebay.tensors import Array, NumpyArray

#: An integer of an integer or bool input, else a float.
Number: TypeAlias = int | float

#: The largest number of inputs and dimensions in a description; the manifest has all of them.
_MAX_PARTS = 8

#: A float may lie beyond the range by this part of its width: pixels of 0.9999 are not news.
_SLACK = 0.01


class InputRange(msgspec.Struct, frozen=True, kw_only=True):
    """The values of an input in the compared samples.

    Attributes:
        low: The smallest finite value; None if there is none.
        high: The largest finite value; None if there is none.
        finite: False if there were NaN or infinity among the values.
        rows: The number of rows of the table that the input is an index of; None if unknown.
        filled: For a mask (all values are 0 or 1), the smallest and the largest share of ones in a
            row along the last axis; None for any other input.
    """

    low: Number | None
    high: Number | None
    finite: bool
    rows: int | None
    filled: tuple[float, float] | None

    @classmethod
    def measure(cls, arrays: Sequence[NumpyArray], rows: int | None = None) -> Self:
        """Measure the range of an input over all samples.

        Args:
            arrays: The input's array in each sample.
            rows: The number of rows of the table that the input is an index of, if known.
        """
        arrays = [array for array in arrays if array.size]
        extremes = [_find_extremes(array) for array in arrays]
        low = min((low for low, _, _ in extremes if low is not None), default=None)
        high = max((high for _, high, _ in extremes if high is not None), default=None)
        finite = all(finite for _, _, finite in extremes)
        filled = None
        # A row of one element is a flag, whose values say the same as its share of ones.
        has_rows = any(array.ndim and array.shape[-1] > 1 for array in arrays)
        is_binary = has_rows and finite and low in (0, 1) and high in (0, 1)
        if is_binary and all(((array == 0) | (array == 1)).all() for array in arrays):
            shares = [_measure_shares(array) for array in arrays]
            filled = min(low for low, _ in shares), max(high for _, high in shares)
        return cls(low=low, high=high, finite=finite, rows=rows, filled=filled)

    def describe(self, name: str) -> str:
        """Describe the range in a few words; "" if no value was measured."""
        if self.low is None or self.high is None:
            return "" if self.finite else f"{name} only NaN and infinity"
        if self.filled is not None:
            low, high = self.filled
            return f"{name} {low:.0%}..{high:.0%} ones" if low != high else f"{name} {low:.0%} ones"
        if self.rows is not None and self.low >= 0:
            return f"{name} below {_text(self.high + 1)} of {_text(self.rows)}"
        if self.low == self.high:
            return f"{name} only {_text(self.low)}"
        return f"{name} in {_text(self.low)}..{_text(self.high)}"

    def find_beyond(self, name: str, array: Array) -> str:
        """Return in which way an array lies beyond this range; "" if it lies within."""
        if not math.prod(array.shape) or self.low is None or self.high is None:
            return ""
        low, high, finite = _find_extremes(array)
        fault = ""
        slack = _SLACK * (self.high - self.low) if isinstance(low, float) else 0
        if self.finite and not finite:
            fault = "NaN or infinity"
        elif low is None or high is None:
            return ""
        elif low < self.low - slack or high > self.high + slack:
            fault = (
                f"values in {_text(low)}..{_text(high)}"
                if low < high
                else f"the value {_text(low)}"
            )
        elif self.filled is not None:
            shares = _measure_shares(array)
            if shares[0] < self.filled[0]:
                fault = f"a row with {shares[0]:.0%} ones"
            elif shares[1] > self.filled[1]:
                fault = f"a row with {shares[1]:.0%} ones"
        return f"'{name}' has {fault}, verified: {self.describe(name)}" if fault else ""


class SizeRange(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a dynamic dimension in the compared samples.

    Attributes:
        low: The smallest size.
        high: The largest size.
        count: The number of different sizes, both included.
        limited: True if the model was deployed with a largest size.
        axes: Name and axis of each input that has this size.
    """

    low: int
    high: int
    count: int
    limited: bool
    axes: tuple[tuple[str, int], ...]

    def describe(self, name: str) -> str:
        """Describe the range in a few words: ``batch 1..40 at 9 sizes``."""
        if self.low == self.high:
            return f"{name} {_text(self.low)}"
        text = f"{name} {_text(self.low)}..{_text(self.high)}"
        return text if self.count > self.high - self.low else f"{text} at {self.count} sizes"


class VerifiedRange(msgspec.Struct, frozen=True, kw_only=True):
    """The values and sizes of the inputs on which a verdict is based.

    Attributes:
        inputs: Input name → range of its values.
        sizes: Name of a dynamic dimension → range of its sizes.
    """

    inputs: dict[str, InputRange]
    sizes: dict[str, SizeRange]

    @property
    def open_sizes(self) -> dict[str, int]:
        """Name of a dynamic dimension without a limit → largest compared size."""
        return {name: size.high for name, size in self.sizes.items() if not size.limited}

    def keep(self, names: Iterable[str]) -> VerifiedRange:
        """Return a copy that is limited to the inputs in ``names``."""
        kept = set(names)
        sizes = {}
        for dimension, size in self.sizes.items():
            if axes := tuple((name, axis) for name, axis in size.axes if name in kept):
                sizes[dimension] = msgspec.structs.replace(size, axes=axes)
        inputs = {name: found for name, found in self.inputs.items() if name in kept}
        return VerifiedRange(inputs=inputs, sizes=sizes)

    def describe(self) -> str:
        """Describe all ranges in one line: ``x in -9.2..8.1; ids below 96 of 100; batch 1..40``."""
        parts = [text for name, found in self.inputs.items() if (text := found.describe(name))]
        if len(parts) > _MAX_PARTS:
            parts[_MAX_PARTS:] = [f"{len(parts) - _MAX_PARTS} more inputs"]
        return "; ".join((*parts, *(size.describe(name) for name, size in self.sizes.items())))

    def find_beyond(self, inputs: Mapping[str, Array]) -> tuple[str, ...]:
        """Return a sentence for each way in which inputs lie beyond what was verified.

        A float may lie beyond by a hundredth of the width of its range.

        Args:
            inputs: Arrays or tensors by name; only two numbers of a tensor leave its device.
        """
        texts = []
        for name, size in self.sizes.items():
            found = {inputs[at].shape[axis] for at, axis in size.axes if at in inputs}
            texts += [
                f"'{name}' is {_text(number)}, verified: {size.describe(name)}"
                for number in found
                if not size.low <= number <= size.high
            ]
        for name, known in self.inputs.items():
            if name in inputs and (text := known.find_beyond(name, inputs[name])):
                texts.append(text)
        return tuple(texts)

    def find_faults(self, ranks: Mapping[str, int | None]) -> Iterator[tuple[str, str]]:
        """Yield the key and the fault of each value that no measurement can have written.

        Args:
            ranks: Input name → number of dimensions of the artifact's inputs; None if unknown.
        """
        for name in ranks:
            if name not in self.inputs:
                yield "inputs", f"the range of input '{name}' is missing"
        for name, found in self.inputs.items():
            if name not in ranks:
                yield f"inputs.{name}", f"the model takes {', '.join(ranks) or 'no input'}"
            low, high = found.low, found.high
            if low != high and (low is None or high is None or low > high):
                yield f"inputs.{name}", f"expected low <= high, found {low} and {high}"
            if found.rows is not None and found.rows < 1:
                yield f"inputs.{name}.rows", f"expected 1 or more, found {found.rows}"
            if found.filled and not 0 <= found.filled[0] <= found.filled[1] <= 1:
                yield (
                    f"inputs.{name}.filled",
                    f"expected 0 <= low <= high <= 1, found {[*found.filled]}",
                )
        for name, size in self.sizes.items():
            if not 0 <= size.low <= size.high:
                yield (
                    f"sizes.{name}",
                    f"expected 0 <= low <= high, found {size.low} and {size.high}",
                )
            elif not 1 <= size.count <= size.high - size.low + 1:
                yield f"sizes.{name}.count", f"there are not {size.count} such sizes"
            for at, axis in size.axes:
                if not has_axis(ranks, at, axis):
                    yield f"sizes.{name}.axes", f"the model has no axis {axis} of an input '{at}'"


def has_axis(ranks: Mapping[str, int | None], name: str, axis: int) -> bool:
    """Return True if an input may have an axis; ``ranks`` is as in :meth:`find_faults`."""
    rank = ranks.get(name, 0)
    return axis >= 0 and (rank is None or axis < rank)


def _text(number: Number) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:.3g}"


def _find_extremes(array: Any) -> tuple[Number | None, Number | None, bool]:
    """Return the smallest and the largest finite value, and whether all values are finite.

    The values are None if no value is finite, or if the values have no order.
    """
    # Imported here: reading a manifest needs no NumPy.
    from enginebay.tensors import is_float, is_torch, to_numpy

    if is_torch(array):
        try:
            low, high = (value.item() for value in array.aminmax())
        except RuntimeError:  # a dtype without this operator on its device
            return _find_extremes(to_numpy(array))
    elif array.dtype.kind in "biuf":
        low, high = array.min().item(), array.max().item()
    elif is_float(array) and array.dtype.kind != "c":  # of ml_dtypes, such as bfloat16
        return _find_extremes(array.astype("float32"))
    else:
        return None, None, True
    if not isinstance(low, float):
        return int(low), int(high), True  # bool is not a number in JSON
    if math.isfinite(low) and math.isfinite(high):
        return low, high, True
    values = to_numpy(array)
    values = values[abs(values) < math.inf]  # False for NaN
    return (values.min().item(), values.max().item(), False) if values.size else (None, None, False)


def _measure_shares(array: Any) -> tuple[float, float]:
    """Return the smallest and the largest share of elements other than 0 in a row."""
    from enginebay.tensors import is_torch

    mask = array != 0
    rows = mask.reshape(-1, mask.shape[-1] if mask.ndim else 1)
    shares = (rows.double() if is_torch(rows) else rows).mean(-1)
    return shares.min().item(), shares.max().item()
