"""The verified range: the values and sizes of inputs in the samples that were compared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from enginebay.tensors import Array

#: An integer of an integer or bool input, else a float.
Number: TypeAlias = int | float

_Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

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
        tried_rows: The number of these rows that were among the values; None if unknown.
        filled: For a mask (all values are 0 or 1), the smallest and the largest share of ones in a
            row along the last axis; None for any other input.
    """

    low: Number | None
    high: Number | None
    finite: bool
    rows: Annotated[int, msgspec.Meta(ge=1)] | None
    tried_rows: int | None = None
    filled: tuple[_Share, _Share] | None

    def __post_init__(self) -> None:
        low, high = self.low, self.high
        if low != high and (low is None or high is None or low > high):
            raise ValueError(f"expected low <= high, found {low} and {high}")
        if self.filled and self.filled[0] > self.filled[1]:
            raise ValueError(f"expected ascending shares, found {[*self.filled]}")

    def describe(self, name: str) -> str:
        """Describe the range in a few words; "" if no value was measured."""
        if self.low is None or self.high is None:
            return "" if self.finite else f"{name} only NaN and infinity"
        if self.filled is not None:
            low, high = self.filled
            return f"{name} {low:.0%}..{high:.0%} ones" if low != high else f"{name} {low:.0%} ones"
        if self.rows is not None and self.low >= 0:
            text = f"{name} below {_text(self.high + 1)} of {_text(self.rows)}"
            some = self.tried_rows is not None and self.tried_rows <= self.high
            return f"{text}, {_text(self.tried_rows)} tried" if some and self.tried_rows else text
        if self.low == self.high:
            return f"{name} only {_text(self.low)}"
        return f"{name} in {_text(self.low)}..{_text(self.high)}"

    def find_beyond(self, name: str, array: Array) -> str:
        """Return in which way an array lies beyond this range; "" if it lies within."""
        if not math.prod(array.shape) or self.low is None or self.high is None:
            return ""
        # Imported here: reading a manifest needs no NumPy.
        from enginebay.tensors import find_extremes, measure_shares

        low, high, finite = find_extremes(array)
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
            shares = measure_shares(array)
            if shares[0] < self.filled[0]:
                fault = f"a row with {shares[0]:.0%} ones"
            elif shares[1] > self.filled[1]:
                fault = f"a row with {shares[1]:.0%} ones"
        return f"'{name}' has {fault}, verified: {self.describe(name)}" if fault else ""


class ComparedSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a dynamic dimension in the compared samples.

    Attributes:
        sizes: The sizes, ascending.
        limited: True if the model was deployed with a largest size.
        axes: Name and axis of each input that has this size.
    """

    sizes: Annotated[tuple[_Size, ...], msgspec.Meta(min_length=1)]
    limited: bool
    axes: tuple[tuple[str, _Size], ...]

    def __post_init__(self) -> None:
        if [*self.sizes] != sorted({*self.sizes}):
            found = ", ".join(map(str, self.sizes))
            raise ValueError(f"expected ascending sizes, found {found}")

    def describe(self, name: str) -> str:
        """Describe the sizes in a few words: ``batch 1..4, 7, 16``."""
        spans: list[tuple[int, int]] = []
        for size in self.sizes:
            if spans and size == spans[-1][1] + 1:
                spans[-1] = spans[-1][0], size
            else:
                spans.append((size, size))
        texts = [
            _text(low) if low == high else f"{_text(low)}..{_text(high)}" for low, high in spans
        ]
        return f"{name} {', '.join(texts)}"


class VerifiedRange(msgspec.Struct, frozen=True, kw_only=True):
    """The values and sizes of the inputs on which a verdict is based.

    Attributes:
        inputs: Input name → range of its values.
        sizes: Name of a dynamic dimension → its sizes.
    """

    inputs: dict[str, InputRange]
    sizes: dict[str, ComparedSizes]

    @property
    def open_sizes(self) -> dict[str, str]:
        """Name of a dynamic dimension without a limit → ``up to 20``, or ``at 6 only``."""
        found = {name: size.sizes for name, size in self.sizes.items() if not size.limited}
        return {
            name: f"up to {sizes[-1]}" if len(sizes) > 1 else f"at {sizes[0]} only"
            for name, sizes in found.items()
        }

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
                if not size.sizes[0] <= number <= size.sizes[-1]
            ]
        for name, known in self.inputs.items():
            if name in inputs and (text := known.find_beyond(name, inputs[name])):
                texts.append(text)
        return tuple(texts)

    def find_faults(self, ranks: Mapping[str, int | None]) -> Iterator[tuple[str, str]]:
        """Yield the key and the fault of each name and axis that the artifact's inputs lack.

        Args:
            ranks: Input name → number of dimensions of the artifact's inputs; None if unknown.
        """
        for name in ranks:
            if name not in self.inputs:
                yield "inputs", f"the range of input '{name}' is missing"
        for name in self.inputs:
            if name not in ranks:
                yield f"inputs.{name}", f"the model takes {', '.join(ranks) or 'no input'}"
        for name, size in self.sizes.items():
            for at, axis in size.axes:
                if not has_axis(ranks, at, axis):
                    yield f"sizes.{name}.axes", f"the model has no axis {axis} of an input '{at}'"


def has_axis(ranks: Mapping[str, int | None], name: str, axis: int) -> bool:
    """Return True if an input may have an axis; ``ranks`` is as in :meth:`find_faults`."""
    rank = ranks.get(name, 0)
    return axis >= 0 and (rank is None or axis < rank)


def _text(number: Number) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:.3g}"
