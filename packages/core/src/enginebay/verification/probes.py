"""Probes: inputs of our own making, which an artifact is compared on besides its example.

An engine that is right at the example only, because a branch of the model or a value of the example
was baked into it, is wrong on one of these. They are drawn with a seed, so that the same example
leads to the same probes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import UsageError
from enginebay.models import between_shapes, crossed_shapes, extreme_shapes
from enginebay.tensors import resize
from enginebay.verdict import PROBES
from enginebay.verification.output_arrays import is_float

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from enginebay.models import DynamicShapes
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]
    Shapes = Mapping[str, tuple[int, ...]]

#: Input name → the least and the greatest value that it takes.
Domain = dict[str, tuple[float, float]]

#: A spread below this says nothing about the values that a model is made for: an example of
#: zeros, or one number. Probes have unit spread then, as the inputs of most networks do.
_FAR_SMALLER = 1e-2

#: The spread of large values: exp overflows in float32 from 89 on, and 1e3 squared is still exact.
_LARGE = 1e3

#: The label of the probe on which an engine may differ; the verdict then says so.
NON_FINITE = "NaN and infinity"

#: float32 holds every integer up to here, and not the odd ones beyond.
_EXACT_INTEGERS = 2**24


@dataclass(frozen=True)
class Probe:
    """Inputs to compare on.

    Attributes:
        label: What they are, for messages: ``redrawn``.
        inputs: Arrays by name.
        required: True if the model must take them: it was deployed for these sizes.
        beyond: True if some value lies outside of what the example has.
        tied: True if all floats are equal, and have no order.
        tiled: The example itself at these sizes, for a model that takes no drawn values; None
            where the sizes are the example's.
    """

    label: str
    inputs: Arrays
    required: bool = False
    beyond: bool = False
    tied: bool = False
    tiled: Arrays | None = None


@dataclass(frozen=True)
class ProbeSettings:
    """Which probes to draw.

    Attributes:
        count: How many at most; the smallest and the largest sizes, and large values, do not count.
        domain: Bounds to stay inside of.
        large: Draw values at the edge of what float32 holds as well.
        calibrated: The engine's precision, where it was calibrated with data; else empty.

    Raises:
        UsageError: The count is negative.
    """

    count: int = PROBES
    domain: Domain = field(default_factory=dict)
    large: bool = False
    calibrated: str = ""

    def __post_init__(self) -> None:
        """Refuse a count that is none."""
        if self.count < 0:
            raise UsageError(
                f"{self.count} probes cannot be taken", hint="0 compares the example alone"
            )


class Probes:
    """Draws inputs that resemble an example.

    Args:
        example: The example inputs by name.
        settings: Which to draw.
        below: What the integers of an input are less than, where that is known.
        seed: Another seed, other probes.
    """

    def __init__(
        self,
        example: Arrays,
        settings: ProbeSettings,
        *,
        below: Mapping[str, int] | None = None,
        seed: int = 0,
    ) -> None:
        self._example = example
        self._settings = settings
        self._below = below or {}
        self._random = np.random.default_rng(seed)

    def all(self, dynamic: DynamicShapes, precision: str) -> list[Probe]:
        """Every probe that the settings ask for.

        The smallest and the largest sizes come first, with rows that differ, where sizes are open;
        then sizes of several names apart, and other values of each input that holds one value.
        At the example's sizes floats are redrawn with its mean and spread; integers and masks are
        permuted too. Then an odd and a prime size in between follow, and floats of the other sign,
        with ten times the spread, and zeros. Integers stay between the example's least and
        greatest; zeros and ones (masks) keep their counts where they hold both. In less than single
        precision floats are permuted too, and not stretched.

        Args:
            dynamic: The open dimensions.
            precision: What the engine may compute in. Only fp32 has the range for stretched floats.
                What was calibrated holds for values like those of its data: it is tried at the
                smallest and the largest sizes, with the example's own values.
        """
        extremes = (
            self.at(shapes, required=True)
            for shapes in extreme_shapes(dynamic, _shapes(self._example))
        )
        if self._settings.calibrated:
            return [replace(probe, inputs=probe.tiled or probe.inputs) for probe in extremes]
        wide = precision == "fp32"
        usual = islice(self._usual(dynamic, wide=wide), self._settings.count)
        apart = self._apart(dynamic) if self._settings.count else ()
        return [*extremes, *apart, *usual, *(self._large() if self._settings.large else ())]

    def _apart(self, dynamic: DynamicShapes) -> Iterator[Probe]:
        """Sizes and inputs that the other probes change together, or not at all."""
        for shapes in crossed_shapes(dynamic, _shapes(self._example)):
            yield self.at(shapes)
        for name, array in self._example.items():
            if not is_constant(array):
                continue
            for place, other in self._other_values(name, array):
                inputs = {**self._example, name: self._clipped(name, other)}
                label = f"other values of {name}{place}"
                yield Probe(label, inputs, beyond=self._is_beyond(inputs))

    def _other_values(self, name: str, array: NumpyArray) -> Iterator[tuple[str, NumpyArray]]:
        """Other values for an input that holds one; none for floats, which are redrawn anyway.

        A mask gets holes, in every row but with no whole row of them: padding is at the right end
        of a row, and in decoders at the left one. Lengths, time steps and positions are taken
        down, the first one as far as they go, since they mostly have a limit above.
        """
        value = array.flat[0]
        is_alone = len(self._example) == 1 and is_float(array)
        if value in (0, 1) and name not in self._below and not is_alone:
            holes = _with_holes(array)
            yield "", holes
            if array.ndim and array.shape[-1] > 1:
                yield ", mirrored", holes[..., ::-1].copy()
            return
        if is_float(array):
            return
        if name in self._below:
            low, high = 0, max(self._below[name], 2)
        else:  # a length of 0 is refused by many models
            low, high = (1, int(value)) if value > 1 else (int(value) + 1, 1)
        drawn = np.asarray(self._random.integers(low, high, array.shape, array.dtype))
        drawn.flat[0] = low
        yield "", drawn

    def _usual(self, dynamic: DynamicShapes, *, wide: bool) -> Iterator[Probe]:
        """Those first that find most."""
        floats = [array for array in self._example.values() if is_float(array)]
        wide = wide and all(array.dtype.itemsize >= 4 for array in floats)
        yield self.redrawn()
        if not wide or len(floats) < len(self._example):
            yield self._probe("permuted", lambda _, array: self._permuted(array))
        # Beside floats, integers are lengths and positions, which have no other side of zero.
        if not floats and any(self._turns(*each) for each in self._example.items()):
            yield self._probe("integers turned over", self._turned)
        for shapes in between_shapes(dynamic, _shapes(self._example)):
            yield self.at(shapes)
        if floats:
            yield self._scaled("the other sign", -1.0)
            if wide:
                yield self._probe("ten times the spread", self._wide)
            yield replace(self._scaled("zeros", 0.0), tied=True)

    def _large(self) -> Iterator[Probe]:
        """Floats at which exponentials overflow, and integers that float32 does not hold."""
        arrays = self._example.values()
        if any(is_float(array) for array in arrays):
            yield self._probe("large floats", self._large_floats)
        if any(array.dtype.kind in "iu" and array.dtype.itemsize >= 4 for array in arrays):
            yield self._probe("large integers", self._large_integers)

    def non_finite(self) -> Arrays | None:
        """The example with NaN and infinity at some places of each float input.

        None where there is no float input: a domain leaves no room for NaN, and an example that
        holds it tries it already.
        """
        arrays = {
            name: array.copy()
            for name, array in self._example.items()
            if is_float(array) and array.size and name not in self._settings.domain
        }
        if not arrays or not self._settings.count or any(map(_has_nan, self._example.values())):
            return None
        for array in arrays.values():
            places = self._random.permutation(array.size)[: 3 + array.size // 16]
            array.reshape(-1)[places] = np.resize([np.nan, np.inf, -np.inf], places.size)
        return {**self._example, **arrays}

    def redrawn(self) -> Probe:
        """Floats with the example's mean and spread, integers in its range."""
        return self._probe("redrawn", self._redrawn)

    def at(self, shapes: Shapes, *, required: bool = False) -> Probe:
        """Values drawn at other sizes."""
        tiled = {name: resize(array, shapes[name]) for name, array in self._example.items()}
        inputs = {
            name: self._clipped(name, self._redrawn(name, array, shapes[name]))
            for name, array in self._example.items()
        }
        label, beyond = f"the sizes {_sizes(shapes)}", self._is_beyond(inputs)
        return Probe(label, inputs, required=required, beyond=beyond, tiled=tiled)

    def _probe(self, label: str, draw: Callable[[str, NumpyArray], NumpyArray]) -> Probe:
        drawn = {
            name: self._clipped(name, draw(name, array)) for name, array in self._example.items()
        }
        return Probe(label, drawn, beyond=self._is_beyond(drawn))

    def _scaled(self, label: str, factor: float) -> Probe:
        def draw(name: str, array: NumpyArray) -> NumpyArray:
            drawn = self._redrawn(name, array)
            return (drawn * factor).astype(array.dtype) if is_float(array) else drawn

        return self._probe(label, draw)

    def _redrawn(
        self, name: str, array: NumpyArray, shape: tuple[int, ...] | None = None
    ) -> NumpyArray:
        shape = array.shape if shape is None else shape
        if array.size == 0:
            return resize(array, shape)
        if not is_float(array):
            if array.dtype.kind not in "iu" or (_is_mask(array) and name not in self._below):
                return self._permuted(resize(array, shape))
            least, greatest = self._integer_range(name, array)
            return self._random.integers(least, greatest, shape, array.dtype, endpoint=True)
        mean, spread, low, high = _statistics(array)
        if spread < _FAR_SMALLER:
            return self._normal(array, shape, mean, 1.0)
        drawn = self._normal(array, shape, mean, spread)
        return drawn if array.dtype.kind == "c" else np.clip(drawn, low, high).astype(array.dtype)

    def _integer_range(self, name: str, array: NumpyArray) -> tuple[int, int]:
        """The example's, and all that a table holds where the example is one number."""
        least, greatest = int(array.min()), int(array.max())
        if least == greatest and name in self._below:
            return 0, self._below[name] - 1
        return least, greatest

    def _permuted(self, array: NumpyArray) -> NumpyArray:
        return self._random.permutation(array.reshape(-1)).reshape(array.shape)

    def _wide(self, name: str, array: NumpyArray) -> NumpyArray:
        if not is_float(array) or array.size == 0:
            return self._redrawn(name, array)
        mean, spread, *_ = _statistics(array)
        return self._normal(array, array.shape, mean, 10 * max(spread, _FAR_SMALLER))

    def _turns(self, name: str, array: NumpyArray) -> bool:
        """True for integers that look like numbers, and not like rows of a table or a mask.

        Lengths, positions and time steps mostly come as one number.
        """
        if array.dtype.kind not in "iu" or not array.size or name in self._below:
            return False
        return not is_constant(array) and not _is_mask(array)

    def _turned(self, name: str, array: NumpyArray) -> NumpyArray:
        """Negative for positive, and the largest for zero where there is no negative."""
        drawn = self._redrawn(name, array)
        return ~drawn if self._turns(name, array) else drawn

    def _large_floats(self, name: str, array: NumpyArray) -> NumpyArray:
        if not is_float(array):
            return self._redrawn(name, array)
        return self._normal(array, array.shape, 0.0, _LARGE)

    def _large_integers(self, name: str, array: NumpyArray) -> NumpyArray:
        if array.dtype.kind not in "iu" or array.dtype.itemsize < 4:
            return self._redrawn(name, array)
        return np.asarray(
            self._random.integers(_EXACT_INTEGERS, 2**31 - 1, array.shape, array.dtype)
        )

    def _normal(
        self, array: NumpyArray, shape: tuple[int, ...], mean: Any, spread: float
    ) -> NumpyArray:
        drawn = mean + spread * self._random.standard_normal(shape)
        if array.dtype.kind == "c":
            drawn = drawn + 1j * spread * self._random.standard_normal(shape)
        return np.asarray(drawn).astype(array.dtype)

    def _clipped(self, name: str, array: NumpyArray) -> NumpyArray:
        if name not in self._settings.domain:
            return array
        low, high = self._settings.domain[name]
        return np.clip(array, low, high).astype(array.dtype)

    def _is_beyond(self, inputs: Arrays) -> bool:
        """True if a number lies outside of the example's values, and no domain holds it."""
        return any(
            array.size > 0
            and array.dtype.kind not in "bc"
            and name not in self._settings.domain
            and bool(
                (array.min() < self._example[name].min())
                | (array.max() > self._example[name].max())
            )
            for name, array in inputs.items()
        )


def _statistics(array: NumpyArray) -> tuple[Any, float, Any, Any]:
    """The mean, the spread (one standard deviation), the least and the greatest finite value."""
    finite = array[np.isfinite(array)]
    if finite.size == 0:
        return 0.0, 0.0, 0.0, 0.0
    wide = finite.astype(np.complex128 if finite.dtype.kind == "c" else np.float64)
    if finite.dtype.kind == "c":
        return wide.mean(), float(wide.std()), 0.0, 0.0
    return wide.mean(), float(wide.std()), finite.min(), finite.max()


def is_constant(array: NumpyArray) -> bool:
    """True if an array of numbers holds one value alone."""
    if array.size == 0 or array.dtype.kind not in "biuf":
        return False
    return bool((array == array.flat[0]).all())


def _has_nan(array: NumpyArray) -> bool:
    return is_float(array) and bool(np.isnan(array).any())


def _with_holes(array: NumpyArray) -> NumpyArray:
    """A mask of one value with the other one at the end of each row, and once inside of it."""
    rows = array.copy().reshape(-1, array.shape[-1] if array.ndim else 1)
    other = np.asarray(1 - int(array.flat[0])).astype(array.dtype)
    length = rows.shape[1]
    rows[:, -1] = other
    for number, row in enumerate(rows):
        if length > 3:
            row[1 + number % (length - 3)] = other
    return rows.reshape(array.shape)


def _is_mask(array: NumpyArray) -> bool:
    return bool(array.min() >= 0 and array.max() <= 1)


def _shapes(example: Arrays) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in example.items()}


def _sizes(shapes: Shapes) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())
