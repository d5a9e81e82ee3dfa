"""Probes: drawn inputs that an artifact is compared on, in addition to its example.

An engine that is right on the example only, because a branch of the model or a value of the example
was baked into it, is wrong on one of these. They are drawn with a fixed seed, so that the same
example leads to the same probes.
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

#: Input name → its lower and upper bound.
Domain = dict[str, tuple[float, float]]

#: A smaller spread reveals nothing about the values that a model is made for: an example of zeros,
#: or a single number. Probes have unit spread then, as the inputs of most networks do.
_MIN_SPREAD = 1e-2

#: The spread of large values: exp overflows in float32 from 89 on, and 1e3 squared is still exact.
_LARGE_SPREAD = 1e3

#: The label of the probe on which an engine may differ; it never fails the verdict.
NON_FINITE = "NaN and infinity"

#: float32 represents every integer up to here, but beyond only even integers.
_MAX_EXACT_INTEGER = 2**24


@dataclass(frozen=True)
class Probe:
    """Inputs to compare on.

    Attributes:
        label: Their kind, for messages: ``redrawn``.
        inputs: Arrays by name.
        required: True if the model must accept them: it was deployed for these sizes.
        beyond: True if some value lies outside of the example's range.
        tied: True if all floats are equal, and have no order.
        tiled: The example itself at these sizes, for a model that rejects drawn values; None if
            the sizes are the example's.
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
        count: The maximum number of probes. The smallest and the largest sizes, and large values,
            are drawn in addition.
        domain: Bounds of the drawn values.
        large: True to also draw values at the limits of float32.
        calibrated: The engine's precision if it was calibrated with data; else empty.

    Raises:
        UsageError: The count is negative.
    """

    count: int = PROBES
    domain: Domain = field(default_factory=dict)
    large: bool = False
    calibrated: str = ""

    def __post_init__(self) -> None:
        """Check the count."""
        if self.count < 0:
            raise UsageError(
                f"invalid number of probes {self.count}: expected at least 0",
                hint="0 compares the example alone",
            )


class ProbeGenerator:
    """Draws inputs that resemble an example.

    Args:
        example: The example inputs by name.
        settings: Which probes to draw.
        below: By input, the exclusive upper bound of its integers, if it is known.
        seed: The random seed.
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

    def draw_all(self, dynamic: DynamicShapes, precision: str) -> list[Probe]:
        """Draw every probe that the settings request.

        For open dimensions the smallest and the largest sizes come first, with rows that differ.
        Then follow sizes of several names one by one, and other values for each input that holds a
        single value. At the example's sizes floats are redrawn with its mean and spread; integers
        and masks are permuted too. Last come an odd and a prime size in between, and floats with
        the other sign, with ten times the spread, and zeros. Integers stay in the example's range;
        masks have as many ones as in the example. Below single precision
        floats are permuted, and not stretched.

        Args:
            dynamic: The open dimensions.
            precision: The precision that the engine may compute in. Only fp32 has the range for
                stretched floats. A calibrated engine is right for values like those of its data
                only: it gets the smallest and the largest sizes with the example's own values.
        """
        extremes = (
            self.draw_at(shapes, required=True)
            for shapes in extreme_shapes(dynamic, _example_shapes(self._example))
        )
        if self._settings.calibrated:
            return [replace(probe, inputs=probe.tiled or probe.inputs) for probe in extremes]
        wide = precision == "fp32"
        usual = islice(self._draw_usual(dynamic, wide=wide), self._settings.count)
        separate = self._draw_separate(dynamic) if self._settings.count else ()
        large = self._draw_large() if self._settings.large else ()
        return [*extremes, *separate, *usual, *large]

    def _draw_separate(self, dynamic: DynamicShapes) -> Iterator[Probe]:
        """Draw, one by one, sizes and inputs that the other probes change together, or never."""
        for shapes in crossed_shapes(dynamic, _example_shapes(self._example)):
            yield self.draw_at(shapes)
        for name, array in self._example.items():
            if not is_constant(array):
                continue
            for suffix, values in self._other_values(name, array):
                inputs = {**self._example, name: self._clip_to_domain(name, values)}
                label = f"other values of {name}{suffix}"
                yield Probe(label, inputs, beyond=self._is_beyond(inputs))

    def _other_values(self, name: str, array: NumpyArray) -> Iterator[tuple[str, NumpyArray]]:
        """Yield a label's suffix and other values for an input that holds a single value.

        Yields nothing for floats other than a mask, which are redrawn anyway.
        """
        value = array.flat[0]
        is_only_float = len(self._example) == 1 and is_float(array)
        if value in (0, 1) and name not in self._below and not is_only_float:
            # A mask gets holes. Padding is at the right end of a row, in decoders at the left end.
            holes = _with_holes(array)
            yield "", holes
            if array.ndim and array.shape[-1] > 1:
                yield ", mirrored", holes[..., ::-1].copy()
            return
        if is_float(array):
            return
        if name in self._below:
            low, high = 0, max(self._below[name], 2)
        else:
            # Lengths, time steps and positions mostly have an upper limit, so smaller values are
            # drawn; but not 0, since many models reject a length of 0.
            low, high = (1, int(value)) if value > 1 else (int(value) + 1, 1)
        drawn = np.asarray(self._random.integers(low, high, array.shape, array.dtype))
        drawn.flat[0] = low
        yield "", drawn

    def _draw_usual(self, dynamic: DynamicShapes, *, wide: bool) -> Iterator[Probe]:
        """Draw the usual probes; the most effective ones come first."""
        floats = [array for array in self._example.values() if is_float(array)]
        wide = wide and all(array.dtype.itemsize >= 4 for array in floats)
        yield self.draw_similar()
        if not wide or len(floats) < len(self._example):
            yield self._make_probe("permuted", lambda _, array: self._permute_array(array))
        # If there are floats, integers are lengths and positions, which are never negative.
        if not floats and any(self._can_invert(*item) for item in self._example.items()):
            yield self._make_probe("integers turned over", self._invert_integers)
        for shapes in between_shapes(dynamic, _example_shapes(self._example)):
            yield self.draw_at(shapes)
        if floats:
            yield self._draw_scaled("the other sign", -1.0)
            if wide:
                yield self._make_probe("ten times the spread", self._draw_wide)
            yield replace(self._draw_scaled("zeros", 0.0), tied=True)

    def _draw_large(self) -> Iterator[Probe]:
        """Draw floats whose exponential overflows, and integers that float32 cannot represent."""
        arrays = self._example.values()
        if any(is_float(array) for array in arrays):
            yield self._make_probe("large floats", self._draw_large_floats)
        if any(array.dtype.kind in "iu" and array.dtype.itemsize >= 4 for array in arrays):
            yield self._make_probe("large integers", self._draw_large_integers)

    def draw_non_finite(self) -> Arrays | None:
        """Return the example with NaN and infinity among the values of each float input.

        None if no float input may hold them because of its domain, or the example holds NaN itself.
        """
        arrays = {
            name: array.copy()
            for name, array in self._example.items()
            if is_float(array) and array.size and name not in self._settings.domain
        }
        if not arrays or not self._settings.count or any(map(_has_nan, self._example.values())):
            return None
        for array in arrays.values():
            indices = self._random.permutation(array.size)[: 3 + array.size // 16]
            array.reshape(-1)[indices] = np.resize([np.nan, np.inf, -np.inf], indices.size)
        return {**self._example, **arrays}

    def draw_similar(self) -> Probe:
        """Draw floats with the example's mean and spread, and integers in its range."""
        return self._make_probe("redrawn", self._redraw_array)

    def draw_at(self, shapes: Shapes, *, required: bool = False) -> Probe:
        """Draw values at other sizes."""
        tiled = {name: resize(array, shapes[name]) for name, array in self._example.items()}
        inputs = {
            name: self._clip_to_domain(name, self._redraw_array(name, array, shapes[name]))
            for name, array in self._example.items()
        }
        label, beyond = f"the sizes {_format_sizes(shapes)}", self._is_beyond(inputs)
        return Probe(label, inputs, required=required, beyond=beyond, tiled=tiled)

    def _make_probe(self, label: str, draw: Callable[[str, NumpyArray], NumpyArray]) -> Probe:
        drawn = {
            name: self._clip_to_domain(name, draw(name, array))
            for name, array in self._example.items()
        }
        return Probe(label, drawn, beyond=self._is_beyond(drawn))

    def _draw_scaled(self, label: str, factor: float) -> Probe:
        def draw(name: str, array: NumpyArray) -> NumpyArray:
            drawn = self._redraw_array(name, array)
            return (drawn * factor).astype(array.dtype) if is_float(array) else drawn

        return self._make_probe(label, draw)

    def _redraw_array(
        self, name: str, array: NumpyArray, shape: tuple[int, ...] | None = None
    ) -> NumpyArray:
        shape = array.shape if shape is None else shape
        if array.size == 0:
            return resize(array, shape)
        if not is_float(array):
            if array.dtype.kind not in "iu" or (_is_mask(array) and name not in self._below):
                return self._permute_array(resize(array, shape))
            least, greatest = self._integer_range(name, array)
            return self._random.integers(least, greatest, shape, array.dtype, endpoint=True)
        mean, spread, low, high = _compute_statistics(array)
        if spread < _MIN_SPREAD:
            return self._draw_normal(array, shape, mean, 1.0)
        drawn = self._draw_normal(array, shape, mean, spread)
        return drawn if array.dtype.kind == "c" else np.clip(drawn, low, high).astype(array.dtype)

    def _integer_range(self, name: str, array: NumpyArray) -> tuple[int, int]:
        """Return the example's range; the whole table if the example is a single row number."""
        least, greatest = int(array.min()), int(array.max())
        if least == greatest and name in self._below:
            return 0, self._below[name] - 1
        return least, greatest

    def _permute_array(self, array: NumpyArray) -> NumpyArray:
        return self._random.permutation(array.reshape(-1)).reshape(array.shape)

    def _draw_wide(self, name: str, array: NumpyArray) -> NumpyArray:
        if not is_float(array) or array.size == 0:
            return self._redraw_array(name, array)
        mean, spread, *_ = _compute_statistics(array)
        return self._draw_normal(array, array.shape, mean, 10 * max(spread, _MIN_SPREAD))

    def _can_invert(self, name: str, array: NumpyArray) -> bool:
        """Return True for integers that are neither a mask, nor rows of a table, nor constant."""
        if array.dtype.kind not in "iu" or not array.size or name in self._below:
            return False
        # Lengths, positions and time steps mostly come as a single number.
        return not is_constant(array) and not _is_mask(array)

    def _invert_integers(self, name: str, array: NumpyArray) -> NumpyArray:
        drawn = self._redraw_array(name, array)
        return ~drawn if self._can_invert(name, array) else drawn

    def _draw_large_floats(self, name: str, array: NumpyArray) -> NumpyArray:
        if not is_float(array):
            return self._redraw_array(name, array)
        return self._draw_normal(array, array.shape, 0.0, _LARGE_SPREAD)

    def _draw_large_integers(self, name: str, array: NumpyArray) -> NumpyArray:
        if array.dtype.kind not in "iu" or array.dtype.itemsize < 4:
            return self._redraw_array(name, array)
        return np.asarray(
            self._random.integers(_MAX_EXACT_INTEGER, 2**31 - 1, array.shape, array.dtype)
        )

    def _draw_normal(
        self, array: NumpyArray, shape: tuple[int, ...], mean: Any, spread: float
    ) -> NumpyArray:
        drawn = mean + spread * self._random.standard_normal(shape)
        if array.dtype.kind == "c":
            drawn = drawn + 1j * spread * self._random.standard_normal(shape)
        return np.asarray(drawn).astype(array.dtype)

    def _clip_to_domain(self, name: str, array: NumpyArray) -> NumpyArray:
        if name not in self._settings.domain:
            return array
        low, high = self._settings.domain[name]
        return np.clip(array, low, high).astype(array.dtype)

    def _is_beyond(self, inputs: Arrays) -> bool:
        """Return True if a value lies outside of the example's range and has no domain."""
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


def _compute_statistics(array: NumpyArray) -> tuple[Any, float, Any, Any]:
    """Return the mean, the standard deviation, the least and the greatest finite value."""
    finite = array[np.isfinite(array)]
    if finite.size == 0:
        return 0.0, 0.0, 0.0, 0.0
    wide = finite.astype(np.complex128 if finite.dtype.kind == "c" else np.float64)
    if finite.dtype.kind == "c":
        return wide.mean(), float(wide.std()), 0.0, 0.0
    return wide.mean(), float(wide.std()), finite.min(), finite.max()


def is_constant(array: NumpyArray) -> bool:
    """Return True if an array of numbers holds a single value."""
    if array.size == 0 or array.dtype.kind not in "biuf":
        return False
    return bool((array == array.flat[0]).all())


def _has_nan(array: NumpyArray) -> bool:
    return is_float(array) and bool(np.isnan(array).any())


def _with_holes(array: NumpyArray) -> NumpyArray:
    """Return a mask with the other value at the end of each row, and once inside the row."""
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


def _example_shapes(example: Arrays) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in example.items()}


def _format_sizes(shapes: Shapes) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())
